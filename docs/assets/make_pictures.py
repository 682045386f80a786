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


def people() -> None:
    """How much somebody with m rows counts, and which mean is asked for, by rows_per_person."""
    import matplotlib.pyplot as plt

    rng, numbers = np.random.default_rng(0), (1, 5, 20)
    m = np.arange(1, 41)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for number in numbers:
        left.plot(m, np.minimum(m / number, 1.0), label=f"rows_per_person={number}")
    left.set(xlabel="rows of a person", ylabel="weight of all of them")
    left.legend()
    rows = rng.geometric(0.2, 100_000)
    value = 10.0 + 0.5 * rows  # who comes often costs more
    found = []
    for number in (ks := 2 ** np.arange(7)):
        weight = np.minimum(rows / number, 1.0)
        found.append(np.sum(weight * value) / np.sum(weight))
    right.semilogx(ks, found, "o-", base=2)
    right.axhline(np.mean(value), ls=":", color="gray")
    right.axhline(np.sum(rows * value) / np.sum(rows), ls=":", color="gray")
    right.annotate("the average person", (8, np.mean(value)), va="bottom")
    right.annotate("the average row", (1, np.sum(rows * value) / np.sum(rows)), va="top")
    right.set(xlabel="rows_per_person", ylabel="mean cost")
    figure.savefig(HERE / "people.png", dpi=110)


if __name__ == "__main__":
    curve()
    people()
