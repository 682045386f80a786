"""Table 1 and figure 9 of the rank-one paper: the constants of the expected loss, and its growth.

Beside what the paper's formulas give stands what is true: the loss of the analytic mechanism, which
is below the published lower bound C_A, and the loss of R1SMG once it keeps its promise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ndis import plots
from ndis.calibration import noise_multiplier
from ndis.tables import track
from ndis_papers.additive import analytic_constant, classic_noise, matrix_constant
from ndis_papers.radial import RadialLoss
from ndis_papers.rank_one import published_spread, true_spread
from ndis_papers.reproduce._output import Row, save, write_rows

# Rows and columns of the answer; epsilon of the others and of R1SMG; delta: the first two cases.
SETTINGS = (((89, 89), 0.5, 1e-5, 1e-7), ((2400, 2400), 1.6, 1.6e-7, 1e-7))
EPSILONS, DELTA = (1e-7, 1e-8, 1e-9), 1e-10
SIZES = (100, 1000, 10_000, 100_000, 1_000_000)


def table_1() -> list[Row]:
    """C_C, C_A, C_M and C_R by the published formulas, and the true losses, for sensitivity 1."""
    rows: list[Row] = []
    for (m, n), epsilon, strict, delta in SETTINGS:
        size = m * n
        analytic = size * noise_multiplier(epsilon, delta) ** 2
        spread = published_spread(size, strict, delta)
        low, _ = RadialLoss(size, spread).delta_bounds(strict)
        constants = {
            "C_C, classic": (epsilon, size * classic_noise(epsilon, delta) ** 2, None),
            "C_A, analytic": (epsilon, analytic_constant(epsilon, delta, size), analytic),
            "C_M, matrix-variate": (epsilon, matrix_constant(epsilon, (m, n)), None),
            "C_R, R1SMG": (strict, spread, None),
        }
        for name, (at, value, true) in constants.items():
            rank_one = name.startswith("C_R")
            rows.append(
                {
                    "constant": name,
                    "shape": [m, n],
                    "epsilon": at,
                    "delta": delta,
                    "value": value,
                    "true_loss": true,
                    "true_delta": float(low) if rank_one else None,
                    "published": "lower bound of E[L]/Delta^2",
                    "here": "does not give this privacy" if rank_one else _verdict(value, true),
                }
            )
    return rows


def _verdict(value: float, true: float | None) -> str:
    if true is None:
        return "as published"
    return "below the true loss" if value <= true else "above the true loss: no lower bound"


def figure_9(quick: bool = False) -> list[Row]:
    """Expected losses over the size of the query."""
    rows: list[Row] = []
    sizes = SIZES[::2] if quick else SIZES
    for epsilon in EPSILONS:
        for size in sizes:
            rows.append(
                {
                    "epsilon": epsilon,
                    "delta": DELTA,
                    "size": size,
                    "R1SMG": published_spread(size, epsilon, DELTA),
                    "classic": size * classic_noise(epsilon, DELTA) ** 2,
                    "analytic": size * noise_multiplier(epsilon, DELTA) ** 2,
                    "R1SMG, true": None,
                    "limit 2/epsilon": 2.0 / epsilon,
                }
            )
    honest = [] if quick else [row for row in rows if row["size"] in SIZES[::2]]
    for row in track(honest, "True", len(honest)):
        row["R1SMG, true"] = true_spread(row["size"], row["epsilon"], DELTA)
    return rows


_SHOWN = {
    "R1SMG": "R1SMG as published (not this private)",
    "R1SMG, true": "R1SMG that keeps its promise",
}


def _draw(folder: str | Path, rows: list[Row]) -> None:
    from matplotlib.figure import Figure

    marks = {"R1SMG": "o-", "classic": "s--", "analytic": "^:", "R1SMG, true": "x-"}
    with plots.style():
        figure = Figure(figsize=(10.0, 4.0), layout="constrained")
        axes = figure.subplots(1, len(EPSILONS), sharey=True)
        for ax, epsilon in zip(axes, EPSILONS, strict=True):
            some = [row for row in rows if row["epsilon"] == epsilon]
            for name, mark in marks.items():
                points = [(row["size"], row[name]) for row in some if row[name] is not None]
                if points:
                    ax.loglog(*np.transpose(points), mark, label=_SHOWN.get(name, name))
            ax.axhline(2.0 / epsilon, color="#888888", linewidth=0.8)
            ax.set_title(f"epsilon = {epsilon:g}")
            ax.set_xlabel("size of the query M")
        axes[0].set_ylabel("expected loss, sensitivity 1")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        about = f"Figure 9: delta = {DELTA:g} (formulas, no data); grey line: 2/epsilon"
        save(figure, folder, "figure_9", about)


def run(folder: str | Path, quick: bool = False) -> dict[str, list[Row]]:
    """Write table 1 and figure 9 into the folder.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        Three sizes instead of five, and without the noise that R1SMG really needs.
    """
    rows = figure_9(quick)
    _draw(folder, rows)
    return {
        "table_1": write_rows(folder, "table_1", table_1()),
        "figure_9": write_rows(folder, "figure_9", rows),
    }
