"""Draw the pictures of README.md and docs: ``python docs/assets/make_pictures.py``."""

from pathlib import Path

import numpy as np

from ndis import QuadraticLoss, plots

HERE = Path(__file__).parent


def curve() -> None:
    """One person in a sketch of 100 columns with leverage 0.01: once and ten times, both ways."""
    present = QuadraticLoss.from_leverage(0.01, n_components=100)
    losses = {
        "one sketch, record present": present,
        "one sketch, record absent": present.reversed(),
        "ten sketches, record present": 10 * present,
        "ten sketches, record absent": (10 * present).reversed(),
    }
    figure = plots.curve(losses, np.linspace(0.0, 2.0, 401))
    figure.axes[0].set_ylim(-30, 1)
    figure.savefig(HERE / "curve.png")


if __name__ == "__main__":
    curve()
