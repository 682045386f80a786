"""Losses of secret samples: against direct integration, prv-accountant and dp-accounting.

    python benchmarks/check_subsampled.py [SEED]

First 200 random settings of one release (normal and Laplace noise, both orders) against quadrature
of the two densities. Then five trainings: epsilon at delta = 1e-5 as Opacus' history gives it,
beside the interval of prv-accountant (where it is installed; not a dependency) and the value of
dp-accounting, and the processor time of ours over that of dp-accounting, the least of five
alternating runs with cold caches.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from timing import best_times

from ndis import QuadraticLoss, SphericalLoss
from ndis.interop.dp_accounting import from_opacus

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "loss"))
from test_subsampled import direct  # type: ignore[import-not-found]

DELTA, RUNS = 1e-5, 5
TRAININGS = [(1.0, 0.01, 1000), (0.8, 0.001, 1000), (2.0, 0.05, 1000), (1.1, 0.004, 10_000)]
TRAININGS.append((0.6, 0.02, 500))


def forget() -> None:
    """Empty every cache of ours."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ndis"):
            for value in list(vars(module).values()):
                clear = getattr(value, "cache_clear", None)
                if callable(clear):
                    clear()


def single(seed: int) -> None:
    rng = np.random.default_rng(seed)
    below, widest, farthest = 0, 0.0, 0.0
    for number in range(200):
        law = ("normal", "laplace")[number % 2]
        mu, rate = float(rng.uniform(0.1, 3.0)), float(10 ** rng.uniform(-3, -0.05))
        absent = bool(rng.integers(2))
        most = -math.log1p(-rate) if absent else 0.7 * mu
        epsilon = float(rng.uniform(0.0, 0.95)) * most
        base = QuadraticLoss.from_shift(mu) if law == "normal" else SphericalLoss(mu)
        loss = base.subsampled(rate)
        loss = loss.reversed() if absent else loss
        truth = direct(law, mu, rate, epsilon, absent)
        low, high = loss.delta_bounds(epsilon)
        below += high < truth - 1e-13  # the quadrature's own error
        widest = max(widest, float(high - low) / float(high) if high > 0 else 0.0)
        if truth > 1e-9:
            farthest = max(farthest, abs(float(loss.delta(epsilon)) / truth - 1.0))
    print(f"200 settings: {below} below direct integration, bounds at most {widest:.1e} apart,")
    print(f"values at most {farthest:.1e} from it, relatively (where delta > 1e-9)")


def ours(noise: float, rate: float, steps: int) -> float:
    return float(from_opacus(SimpleNamespace(history=[(noise, rate, steps)])).epsilon(DELTA))


def theirs(noise: float, rate: float, steps: int) -> float:
    one = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    book = PLDAccountant()
    book.compose(dp_accounting.SelfComposedDpEvent(one, steps))
    return float(book.get_epsilon(DELTA))


def interval(noise: float, rate: float, steps: int) -> str:
    """Prv-accountant's lower end, estimate and upper end."""
    try:
        from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
    except ImportError:
        return "prv-accountant is not installed"
    prv = PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=rate)
    book = PRVAccountant(
        prvs=[prv], max_self_compositions=[steps], eps_error=1e-3, delta_error=1e-10
    )
    return ", ".join(f"{x:.6f}" for x in book.compute_epsilon(DELTA, [steps]))


def main() -> None:
    single(int(sys.argv[1]) if len(sys.argv) > 1 else 36)
    for training in TRAININGS:
        mine, other = ours(*training), theirs(*training)
        least = best_times(
            {
                "ours": lambda t=training: (forget(), ours(*t)),
                "theirs": lambda t=training: theirs(*t),
            },
            RUNS,
        )
        print(
            f"noise {training[0]:g}, rate {training[1]:g}, {training[2]} steps: {mine:.6f}; "
            f"prv-accountant {interval(*training)}; dp-accounting {other:.6f}; time "
            f"{least['ours']:.3f} s over {least['theirs']:.3f} s: "
            f"{least['ours'] / least['theirs']:.2f}"
        )


if __name__ == "__main__":
    main()
