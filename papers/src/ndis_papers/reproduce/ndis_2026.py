"""Figure 2 of the paper of 2026: the leverage that a row may have, exact over the earlier one.

The earlier calibration adds a ridge w^2 and so allows leverages up to l^2/(l^2 + w^2); the exact
one allows the largest leverage at which a sketch is (epsilon, delta)-private.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ndis import plots
from ndis.tables import track
from ndis_papers.reproduce._output import Row, save, write_rows
from ndis_papers.sketches import least_ratio, lsv_ratio

DELTA = 1e-6
COMPONENTS = (10, 100, 1000, 10_000)
QUICK_COMPONENTS = (10, 100)


def allowed_leverage(noise: float) -> float:
    """The largest leverage after a ridge of this squared, for rows of norm at most 1.

    Examples
    --------
    >>> from ndis_papers.reproduce.ndis_2026 import allowed_leverage
    >>> allowed_leverage(3.0)
    0.1
    """
    return 1.0 / (1.0 + noise**2)


def run(folder: str | Path, quick: bool = False) -> list[Row]:
    """Write the table and the figure into the folder.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        5 epsilons instead of 41, and small sketches only.

    Returns
    -------
    list of dict
        The allowed leverages and their ratio; the paper's claim is that it is above 1.
    """
    grid = np.geomspace(0.1, 10.0, 5 if quick else 41)
    sizes = QUICK_COMPONENTS if quick else COMPONENTS
    cases = [(float(epsilon), r) for r in sizes for epsilon in grid]
    rows: list[Row] = []
    for epsilon, r in track(cases, "Calibrating", len(cases)):
        exact, earlier = (
            allowed_leverage(ratio(epsilon, DELTA, r)) for ratio in (least_ratio, lsv_ratio)
        )
        rows.append(
            {
                "epsilon": epsilon,
                "delta": DELTA,
                "components": r,
                "exact_leverage": exact,
                "lsv_leverage": earlier,
                "ratio": exact / earlier,
                "published": "above 1",
            }
        )
    with plots.style():
        figure, axes = plots.figure()
        for r in sizes:
            some = [row for row in rows if row["components"] == r]
            axes.semilogx(grid, [row["ratio"] for row in some], label=f"r = {r}")
        axes.axhline(1.0, color="#888888", linestyle="--", linewidth=1.0)
        axes.set_xlabel("epsilon")
        axes.set_ylabel("allowed leverage, exact over LSV")
        figure.legend(loc="outside lower center", ncols=4)
        about = f"Figure 2: delta = {DELTA:g} (formulas, no data)"
        save(figure, folder, "figure_2", about)
    return write_rows(folder, "figure_2", rows)
