"""Draw the pictures of docs/least-squares.md: ``python docs/assets/make_least_squares.py``."""

import math
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

from ndis.loss import LeastSquaresLoss, Profile, SketchAndSolveLoss, removal_loss
from ndis_papers.reproduce import black_box as estimated

HERE = Path(__file__).parent


def not_monotone() -> None:
    """delta against p at fixed q, and against q at fixed p."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    q, share = 0.02, np.linspace(0.0, 0.9999, 400)
    worst = Profile.both(removal_loss(q, q * share, 5, 1000)).log_delta(1.0) / math.log(10)
    left.plot(share, worst)
    left.set(xlabel="p/q", ylabel="log10 delta", title="q = 0.02, r = 1000, d = 5, epsilon = 1")
    p = 0.00273
    beyond = np.linspace(1e-6, 1.2, 400)
    worst = Profile.both(removal_loss(p * (1 + beyond), p, 53, 10)).log_delta(0.491) / math.log(10)
    right.plot(1 + beyond, worst)
    right.set(xlabel="q/p", title="p = 0.00273, r = 10, d = 53, epsilon = 0.491")
    figure.savefig(HERE / "least-squares-not-monotone.png", dpi=120)


def finite() -> None:
    """The worst case of sketch-and-solve over that of its limit law, as the sketch grows."""
    d, eps = 3, 0.5
    sizes = np.unique(np.geomspace(d + 1, 1e5, 24).round().astype(int))
    figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for factor in (1.5, 2.0, 2.5):
        gaps = []
        for r in map(int, sizes):
            excess = (factor * r**0.25) ** -2
            solved = Profile.both(SketchAndSolveLoss(excess, d, r)).log_delta(eps)
            limit = Profile.both(LeastSquaresLoss(excess, d, r)).log_delta(eps)
            gaps.append((solved - limit) / math.log(10))
        axis.plot(sizes, gaps, label=f"ridge ({factor} r^¼ l)²")
    axis.set(xscale="log", ylim=(-4, 0.5), xlabel="r", ylabel="log10 delta over its limit's")
    axis.set_title("sketch-and-solve against its limit law, d = 3, epsilon = 0.5")
    axis.legend()
    figure.savefig(HERE / "least-squares-finite.png", dpi=120)


def black_box() -> None:
    """Figure 5 of ndis-2024: draws of sketch-and-solve against its exact profile."""
    with TemporaryDirectory() as folder:
        estimated.run(folder)
        shutil.copy(Path(folder) / "figure_5.png", HERE / "least-squares-black-box.png")


if __name__ == "__main__":
    not_monotone()
    finite()
    black_box()
