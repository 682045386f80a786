"""Figure 15 of the paper of 2024: delta of least squares over residual and over leverage.

The figure supports an assumption of theorem 5, that delta increases with p at fixed q and with q
at fixed p. What it draws, in 50 panels, is delta over the leverage p at fixed residual q - p, and
over the residual at fixed leverage; it does increase along both at these parameters. Here each
family is one panel, and a third one holds q fixed, as the assumption says: there delta falls.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ndis import plots
from ndis.loss import Profile, removal_loss
from ndis.tables import track
from ndis_papers._validate import FloatArray
from ndis_papers.reproduce._output import Row, save, write_rows

EPSILON, FEATURES, COMPONENTS = 1.0, 10, 1000
# The paper's increments; which values it held fixed is not said.
STEP, CURVES = 1e-3, 25
HELD = ("leverage", "residual", "q")


def deltas(held: str, value: float, moving: FloatArray) -> FloatArray:
    """Delta over what moves: the residual, the leverage, or the leverage with q fixed.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.reproduce.ndis_2024_monotone import deltas
    >>> bool(np.all(np.diff(deltas("residual", 0.01, np.array([0.01, 0.02, 0.03]))) > 0))
    True
    """
    q, p = {
        "leverage": (value + moving, np.full(moving.shape, value)),
        "residual": (value + moving, moving),
        "q": (np.full(moving.shape, value), moving),
    }[held]
    return np.asarray(Profile.both(removal_loss(q, p, FEATURES, COMPONENTS)).delta(EPSILON))


def run(folder: str | Path, quick: bool = False) -> list[Row]:
    """Write the number of falls of every curve, and the figure.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        Five curves of 20 points instead of 25 of 100 in each panel.
    """
    # Below q = 0.02 delta is next to nothing, beyond a sum of 0.2 all but 1.
    least = {"leverage": 0.004, "residual": 0.004, "q": 0.02}
    cases = [
        (held, float(value))
        for held in HELD
        for value in np.linspace(least[held], 0.1, CURVES)[:: 5 if quick else 1]
    ]
    rows: list[Row] = []
    curves = []
    for held, value in track(cases, "Curves", len(cases)):
        top = value if held == "q" else 0.1
        moving = np.arange(STEP, top, top / 20 if quick else max(STEP, top / 100))
        curve = deltas(held, value, moving)
        falls = int(np.sum(np.diff(curve) < 0))
        curves.append((held, value, moving, curve))
        rows.append(
            {
                "held": held,
                "value": value,
                "steps": moving.size - 1,
                "falls": falls,
                "published": "increasing" if held != "q" else "assumed to increase",
                "here": "increasing" if not falls else "falls",
            }
        )
    _draw(folder, curves)
    return write_rows(folder, "figure_15", rows)


def _draw(folder: str | Path, curves: list[tuple[str, float, FloatArray, FloatArray]]) -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    along = {"leverage": "residual q - p", "residual": "leverage p", "q": "leverage p"}
    titles = {"leverage": "as published", "residual": "as published", "q": "as theorem 5 assumes"}
    scale, viridis = Normalize(0.0, 0.1), colormaps["viridis"]
    with plots.style():
        figure = Figure(figsize=(10.0, 4.0), layout="constrained")
        for ax, held in zip(figure.subplots(1, len(HELD)), HELD, strict=True):
            some = [curve for curve in curves if curve[0] == held]
            for _, value, moving, curve in some:
                ax.plot(moving, curve, color=viridis(scale(value)), linewidth=1.2)
            ax.set_title(f"{titles[held]}: {held} held")
            ax.set_xlabel(along[held])
            ax.set_ylim(bottom=0.0)
            bar = ScalarMappable(scale, "viridis")
            figure.colorbar(bar, ax=ax, location="bottom", label=f"{held} of the curve")
        figure.axes[0].set_ylabel("delta at epsilon = 1")
        about = f"Figure 15: d = {FEATURES}, r = {COMPONENTS} (formulas, no data)"
        save(figure, folder, "figure_15", about)
