"""The ridge of linear mixing, exact against Renyi: ``python benchmarks/bench_linear_mixing.py``.

Linear mixing (Lev et al. 2025) tests the least eigenvalue, then releases a Gaussian sketch. For n
from 1e3 to 1e6, epsilon from 0.1 to 10, delta = 1/n^2 and d = 10, in units of the squared row norm:

* published over sketch: the ridge of the published accounting, test included, over the ridge that
  the sketch needs exactly. This is what whoever wants the sketch, and not the test, saves.
* published over both: the same over the exact ridge of test and sketch together.
* Renyi over exact: the sketch alone in both, Renyi divergences converted at the best order.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from ndis_papers.mixing import LinearMixing, renyi_epsilon
from ndis_papers.sketches import least_ratio, sketch_loss

ROWS = (10**3, 10**4, 10**5, 10**6)
EPSILONS = (0.1, 0.316, 1.0, 3.16, 10.0)
N_FEATURES = 10


def ridges(n_rows: int, epsilon: float) -> dict[str, float]:
    """Ratios of ridges in one cell."""
    delta = n_rows**-2.0
    exact, published = (
        LinearMixing(epsilon, delta, N_FEATURES, accounting=how) for how in ("exact", "published")
    )
    k = published.n_components
    alone = least_ratio(epsilon, delta, k)

    def excess(log_ratio: float) -> float:
        return renyi_epsilon(sketch_loss(math.exp(log_ratio), k), delta) - epsilon

    start = math.log(alone)
    renyi = math.exp(brentq(excess, start - 0.5, start + 2.0, xtol=1e-9))
    return {
        "published over sketch": (published.noise_scale / alone) ** 2,
        "published over both": (published.noise_scale / exact.noise_scale) ** 2,
        "Renyi over exact": (renyi / alone) ** 2,
    }


def main() -> None:
    """Print the table, and the range of each column."""
    cells = {(n, epsilon): ridges(n, epsilon) for n in ROWS for epsilon in EPSILONS}
    columns = list(next(iter(cells.values())))
    print(f"| n | epsilon | {' | '.join(columns)} |\n|{' --- |' * (2 + len(columns))}")
    for (n, epsilon), cell in cells.items():
        print(f"| {n} | {epsilon:g} | {' | '.join(f'{cell[name]:.2f}' for name in columns)} |")
    for name in columns:
        values = [cell[name] for cell in cells.values()]
        print(f"{name}: {min(values):.2f} to {max(values):.2f}")


if __name__ == "__main__":
    main()
