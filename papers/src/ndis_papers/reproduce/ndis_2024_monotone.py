"""Figure 15 of the paper of 2024: delta of least squares over residual and over leverage.

The figure supports an assumption of theorem 5, that delta increases with p at fixed q and with q
at fixed p. What it draws is delta over the leverage p at fixed residual q - p, and over the
residual at fixed leverage; it does increase along both at these parameters. The last panels hold
q fixed, as the assumption says: there delta falls.
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
STEP, PANELS = 1e-3, 25
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
        Five panels of 20 points instead of 25 of 100 for each block.
    """
    # Below q = 0.02 delta is next to nothing, beyond a sum of 0.2 all but 1.
    least = {"leverage": 0.004, "residual": 0.004, "q": 0.02}
    cases = [
        (held, float(value))
        for held in HELD
        for value in np.linspace(least[held], 0.1, PANELS)[:: 5 if quick else 1]
    ]
    rows: list[Row] = []
    curves = []
    for held, value in track(cases, "Panels", len(cases)):
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
    from matplotlib.figure import Figure

    columns = 5
    with plots.style():
        count = -(-len(curves) // columns)
        figure = Figure(figsize=(10.0, 1.35 * count + 0.6), layout="constrained")
        axes = figure.subplots(count, columns).reshape(-1)
        for ax, (held, value, moving, curve) in zip(axes, curves, strict=False):
            color = "C3" if held == "q" else "C0" if held == "leverage" else "C2"
            ax.plot(moving, curve, color=color, linewidth=1.2)
            ax.set_title(f"{held} = {value:.3f}", fontsize=7, pad=2)
            ax.tick_params(labelsize=6)
            ax.set_ylim(bottom=0.0)
        for ax in axes[len(curves) :]:
            ax.remove()
        figure.supxlabel(
            "residual (blue: leverage held); leverage (green: residual held, pink: q held)",
            fontsize=8,
        )
        figure.supylabel("delta at epsilon = 1", fontsize=8)
        save(figure, folder, "figure_15")
