"""Check delta of spherical noise against polar quadrature in mpmath.

    python benchmarks/check_noise.py [--n 1000]

At random dimensions, distances and epsilons the proven bounds must enclose the value that
tests/helpers/polar.py finds with 20 digits, and lie within 1e-12 of it.
benchmarks/records/check_noise.txt is what it printed last.
"""

import argparse
import sys
import time
from pathlib import Path

import mpmath

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

import polar
from ndis import SphericalLoss


def main() -> None:
    """Print how many lie outside, and how wide the bounds are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    count = parser.parse_args().n
    outside, widest, started = [], 0.0, time.process_time()
    for number, setting in enumerate(polar.random_settings(count, 2)):
        m, t, epsilon = setting
        low, high = SphericalLoss(t, m).log_delta_bounds(epsilon)
        truth = mpmath.log(polar.in_mpmath(setting))
        if not low <= truth <= high:
            outside.append((number, float(truth - low), float(high - truth)))
        widest = max(widest, float(truth - low), float(high - truth))
    print(f"{count} settings, {len(outside)} outside the bounds {outside}")
    print(f"a bound on ln delta is at most {widest:.1e} from the value")
    print(f"{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()
