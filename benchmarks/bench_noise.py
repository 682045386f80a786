"""Which law of noise has the least variance: the tables of docs/noise.md, with proven bounds.

    python benchmarks/bench_noise.py [--quick | --family | --speed | --use | --audit | --figure F]

Every figure is the mean square of spherical noise over that of normal noise, both calibrated so
that k releases of M numbers together are proven to meet (epsilon, delta). `--family` looks at the
spherical generalised gamma laws, density r^(a-M) exp(-(r/s)^b), a <= M, in floating point, k = 1.
`--use` prints what a count and a mean by ward and the limits of columns take under each law,
`--audit` what the auditor finds in 100 right configurations and in 100 with 90% of the noise.
benchmarks/records/bench_noise.txt holds what they printed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections import Counter

import numpy as np
from scipy import stats

from ndis import NoiseMechanism, SphericalLoss, audit
from ndis.calibration import least_noise, noise_multiplier
from ndis.mechanisms.laws import LAWS, least_scale, of_group
from ndis.mechanisms.octaves import N_BINS, N_OCTAVES

NUMBERS = (1, 2, 3, 5, 10, 30, 100, 1000)
RELEASES = (1, 2, 5, 7, 10, 20, 100)
EPSILONS, DELTAS = (0.1, 1.0, 10.0), (1e-3, 1e-6, 1e-9)


def ratio(m: int, k: int, epsilon: float, delta: float) -> float:
    """Mean square of spherical noise over that of normal noise."""
    scale = least_scale("spherical", m, k, 1, epsilon, delta)
    return (m + 1) * (scale / least_scale("gaussian", m, k, 1, epsilon, delta)) ** 2


def table(epsilon: float, delta: float, numbers: tuple[int, ...]) -> None:
    """Print one table, row by row."""
    print(f"\n(epsilon, delta) = ({epsilon:g}, {delta:g})\n")
    print("| M |" + "".join(f" k = {k} |" for k in RELEASES))
    print("| --- |" + " --- |" * len(RELEASES))
    for m in numbers:
        cells = [f"{ratio(m, k, epsilon, delta):.4f}" for k in RELEASES]
        print(f"| {m} | " + " | ".join(cells) + " |", flush=True)


def frontier(m: int, epsilon: float, delta: float) -> int:
    """The most releases for which spherical noise has the least variance."""
    k = 1
    while ratio(m, k + 1, epsilon, delta) < 1.0:
        k += 1
    return k


# -- the whole family, in floating point ----------------------------------------------------------


def family_delta(m: int, a: float, b: float, s: float, epsilon: float) -> float:
    """Delta of a shift by 1, over radii and, for each, angles with a loss above epsilon."""
    from scipy.special import gamma, gammaincinv

    nodes, weights = np.polynomial.legendre.leggauss(160)
    # Radii by their quantiles, in a variable that looks at both ends.
    u = 0.5 * (nodes + 1.0)
    place, mass = u * u * (3.0 - 2.0 * u), 0.5 * weights * 6.0 * u * (1.0 - u)
    r = s * gammaincinv(a / b, place) ** (1.0 / b)

    def loss(far: np.ndarray, r: np.ndarray) -> np.ndarray:
        return (m - a) * np.log(far / r) + (far / s) ** b - (r / s) ** b

    low, high = np.abs(r - 1.0), r + 1.0
    top = loss(high, r) > epsilon
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = loss(middle, r) > epsilon
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    start = np.arccos(np.clip((r * r + 1.0 - high**2) / (2.0 * r), -1.0, 1.0))
    half = 0.5 * (np.pi - start)[:, None]
    theta = half * nodes + 0.5 * (np.pi + start)[:, None]
    far = np.sqrt(r[:, None] ** 2 + 1.0 - 2.0 * r[:, None] * np.cos(theta))
    inside = -np.expm1(np.minimum(epsilon - loss(far, r[:, None]), 0.0))
    angles = (half * weights * np.sin(theta) ** (m - 2) * inside).sum(axis=1)
    circle = np.sqrt(np.pi) * gamma(0.5 * (m - 1)) / gamma(0.5 * m)
    return float((mass * angles * top).sum() / circle)


def family_square(m: int, a: float, b: float, epsilon: float, delta: float) -> float:
    """E|n|^2 at the least scale."""
    from scipy.special import gammaln

    low, high = -6.0, 6.0
    for _ in range(24):
        middle = 0.5 * (low + high)
        fits = family_delta(m, a, b, float(np.exp(middle)), epsilon) <= delta
        low, high = (low, middle) if fits else (middle, high)
    return float(np.exp(2.0 * high + gammaln((a + 2.0) / b) - gammaln(a / b)))


def family(m: int, epsilon: float, delta: float) -> tuple[float, float, float, float]:
    """The best (a, b) with a <= M, its ratio to the Gaussian, and that of b = 1, a = M."""
    normal = m * noise_multiplier(epsilon, delta) ** 2
    best = min(
        (family_square(m, a, b, epsilon, delta) / normal, a, b)
        for a in np.round(m * np.array([0.4, 0.6, 0.8, 0.9, 1.0]), 2)
        for b in (0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 2.0)
    )
    return (*best[1:], best[0], family_square(m, m, 1.0, epsilon, delta) / normal)


# -- what people ask for, and what an auditor finds -----------------------------------------------


def use() -> None:
    """Count and mean by ward at epsilon 0.5; and how many rows make a bin of limits stand out."""
    found = of_group("count and mean", 0.5, 1e-6)
    normal = found.others["gaussian"]
    share = (found.covariance.diagonal() / normal).max()
    print(f"count and mean by ward, (0.5, 1e-6): {found.noise.law}, {share:.3f} of the Gaussian's")
    # A coarse step as good as a tenth of the Gaussian's squared budget, and the rest.
    left = 0.5 - math.sqrt(4.0 / (normal[0] / 0.1))
    fine = of_group("count and mean", left, 1e-6)
    share = (fine.covariance.diagonal() / (normal / 0.9)).max()
    print(f"after a coarse step, epsilon {left:.3f}: {share:.3f} of the Gaussian's after one")
    print("\nLimits: rows in a bin that stands out of the noise (one false bin in 1,000 columns)")
    print("| epsilon | columns | normal | Laplace |\n| --- | --- | --- | --- |")
    for epsilon in (0.1, 1.0, 10.0):
        for columns in (1, 2, 5, 20):
            bins = columns * (N_OCTAVES + N_BINS)
            sigma = math.sqrt(2.0 * columns) * noise_multiplier(epsilon, 1e-6)
            rows = sigma * stats.norm.isf(1e-3 / bins)
            scale = 2.0 * columns / epsilon
            print(
                f"| {epsilon:g} | {columns} | {rows:.1f} | {-scale * math.log(2e-3 / bins):.1f} |"
            )


def auditor() -> None:
    """100 configurations: noise as planned, and 90% of it."""
    rng, outcomes = np.random.default_rng(39), Counter()
    for _ in range(100):
        epsilon, delta = float(np.exp(rng.uniform(-2.0, 2.0))), float(10 ** rng.uniform(-9, -3))
        law, count = str(rng.choice(LAWS)), int(rng.choice([1, 2, 3, 5, 10, 30]))
        more = {
            "sensitivity": 1.0,
            "sum_sensitivity": 1.0,
            "law": law,
            "integers": law == "discrete laplace",
        }
        right = NoiseMechanism(epsilon=epsilon, delta=delta, **more)
        less = NoiseMechanism(delta=delta, noise_scale=0.9 * right.calibrate(count), **more)
        answer = np.zeros(count)
        outcomes["right: " + audit(right, answer).outcome] += 1
        outcomes["90%: " + audit(less, answer, claim=(epsilon, delta)).outcome] += 1
    print(dict(outcomes))


# -- speed, and the picture -----------------------------------------------------------------------


def speed() -> None:
    """Processor time of one delta and of one calibration."""
    print("\n| M | k | delta, ms | calibration, ms |\n| --- | --- | --- | --- |")
    for m, k in ((1, 1), (3, 1), (30, 1), (2, 2), (3, 5), (10, 10), (5, 100), (1, 100), (100, 100)):
        scale = least_scale("spherical", m, k, 1, 1.0, 1e-6)
        times = []
        for share in np.linspace(1.0, 1.1, 9):
            loss = k * SphericalLoss(1.0 / (share * scale), m)
            start = time.process_time()
            loss.delta(1.0)
            times.append(time.process_time() - start)
        start = time.process_time()
        least_noise(lambda s, m=m, k=k: k * SphericalLoss(1.0 / s, m), 1.0, 1e-6, start=1.3 * scale)
        found = time.process_time() - start
        print(f"| {m} | {k} | {1e3 * np.median(times):.1f} | {1e3 * found:.0f} |", flush=True)


def figure(file: str) -> None:
    """The frontier: mean square over the Gaussian's, against the number of releases."""
    import matplotlib as mpl

    mpl.use("svg" if file.endswith("svg") else "agg")
    import matplotlib.pyplot as plt

    plot, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    releases = (1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 20)
    for m in (1, 2, 3, 5, 10, 30):
        axes.plot(releases, [ratio(m, k, 1.0, 1e-6) for k in releases], ".-", label=f"M = {m}")
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="planned releases k", ylabel="variance over the Gaussian's")
    axes.set_ylim(0.0, 1.7)
    axes.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.legend(ncols=2)
    plot.savefig(file, dpi=150)


def main() -> None:
    """Print what was asked for; all tables if nothing was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--family", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--use", action="store_true")
    parser.add_argument("--audit", action="store_true")
    parser.add_argument("--figure", metavar="FILE")
    asked = parser.parse_args()
    if asked.figure:
        figure(asked.figure)
    elif asked.speed:
        speed()
    elif asked.use:
        use()
    elif asked.audit:
        auditor()
    elif asked.family:
        print("| epsilon | delta | M | a | b | best of the family | spherical |")
        print("|" + " --- |" * 7)
        for epsilon, delta in itertools.product(EPSILONS, DELTAS):
            for m in (2, 5, 10, 30):
                a, b, best, one = family(m, epsilon, delta)
                cells = f"{epsilon:g} | {delta:g} | {m} | {a:g} | {b:g} | {best:.4f} | {one:.4f}"
                print(f"| {cells} |", flush=True)
    else:
        pairs = [(1.0, 1e-6)] if asked.quick else [(e, d) for e in EPSILONS for d in DELTAS]
        for epsilon, delta in pairs:
            table(epsilon, delta, NUMBERS[:6] if asked.quick else NUMBERS)
        print("\nThe most releases for which spherical noise is better, M = 2, 10:")
        for epsilon, delta in pairs:
            print(f"({epsilon:g}, {delta:g}):", *(frontier(m, epsilon, delta) for m in (2, 10)))


if __name__ == "__main__":
    main()
