"""Case study II of the rank-one paper: principal components of a noisy covariance matrix.

The paper uses the Swarm Behaviour data (24,016 records of 2,400 features). `read_swarm` reads that
file where there is one; otherwise scikit-learn's digits (1,797 records of 64 features) are used.

MOD-SULQ, the Wishart mechanism and PPCA are as their papers publish them. PPCA samples by Gibbs
sweeps, whose convergence is not proven; beside it stands a draw of one component after the other,
which is exact. MGM in its exact form is the analytic mechanism (`ndis_papers.additive`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from ndis import plots
from ndis.tables import track
from ndis_papers import additive
from ndis_papers._validate import FloatArray
from ndis_papers.additive import Noise, keeps
from ndis_papers.bingham import components as private_components
from ndis_papers.rank_one import RankOneGaussianMechanism
from ndis_papers.reproduce._output import Row, save, truth, write_rows
from ndis_papers.reproduce.data import OfficialFile, as_numbers

COMPONENTS = 20
DELTA = 1e-7
# The paper gives R1SMG 1e-7 of the others' epsilon for 2400 x 2400 matrices: this over M.
SHARE = 1e-7 * 2400**2
# Draws of each mechanism, and of the rank-one noise, whose length is one normal number.
# So many of them are also scored by a classifier, which takes longer.
DRAWS, RANK_ONE_DRAWS, SCORED = 5, 100, 20
# Gibbs sweeps of PPCA, and more columns than it is run for.
SWEEPS, WIDEST = 30, 500
# UCI counts 24,017 records, the paper 24,016: the columns are checked, the rows are not.
SWARM = OfficialFile("Flocking.csv", None, 2_401)


def read_swarm(path: str | Path, official: OfficialFile = SWARM) -> tuple[FloatArray, FloatArray]:
    """Features scaled to [-1, 1], and labels, from one of the published files.

    Parameters
    ----------
    path : path
        `Flocking.csv`, `Aligned.csv` or `Grouped.csv` of UCI's Swarm Behaviour: 2,400 columns of
        features, then the class. As in the paper, the scaling is by each column's own range,
        which is not private.
    official : OfficialFile
        What the file must look like.

    Notes
    -----
    Others report that the last record of UCI's copy has a damaged cell in its first column. Such
    a cell is refused by name, never guessed: correct it in your copy.
    """
    numbers = as_numbers(official.read(path), path)
    features, labels = numbers[:, :-1], numbers[:, -1]
    low, high = features.min(axis=0), features.max(axis=0)
    middle, half = 0.5 * (low + high), 0.5 * np.where(high > low, high - low, 1.0)
    return (features - middle) / half, labels


def read_digits() -> tuple[FloatArray, FloatArray]:
    """Pixels scaled from their public range [0, 16] to [-1, 1], and labels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.asarray(digits.data / 8.0 - 1.0), np.asarray(digits.target, dtype=np.float64)


def mechanisms(epsilon: float, sensitivity: float, dimension: int) -> dict[str, Noise]:
    """The mechanisms of the paper's figure 6 at one epsilon, and an honest match of the last."""
    shape, strict = (dimension, dimension), SHARE / dimension**2 * epsilon
    rank_one = RankOneGaussianMechanism(strict, DELTA, sensitivity)
    equal = rank_one.true_delta(shape)
    return {
        "classic": additive.classic(epsilon, DELTA, sensitivity),
        "analytic, MGM": additive.analytic(epsilon, DELTA, sensitivity),
        "matrix-variate, published": additive.matrix_variate(
            epsilon, DELTA, sensitivity, shape, float(dimension)
        ),
        "rank-one, published": rank_one,
        "analytic, as private as rank-one": additive.analytic(strict, equal, sensitivity),
    }


def mod_sulq(epsilon: float, dimension: int, n: int, rng: np.random.Generator) -> FloatArray:
    """Noise of MOD-SULQ (Chaudhuri, Sarwate and Sinha), for rows of norm at most 1; symmetric."""
    log = math.log((dimension**2 + dimension) / (2.0 * DELTA * math.sqrt(2.0 * math.pi)))
    beta = (dimension + 1) / (n * epsilon) * math.sqrt(2.0 * log) + 1.0 / (math.sqrt(epsilon) * n)
    upper = np.triu(beta * rng.standard_normal((dimension, dimension)))
    return np.asarray(upper + np.triu(upper, 1).T)


def wishart(epsilon: float, dimension: int, n: int, rng: np.random.Generator) -> FloatArray:
    """Noise of the Wishart mechanism (Jiang, Xie and Zhang): d + 1 degrees, scale 3/(2 n eps)."""
    root = rng.standard_normal((dimension, dimension + 1))
    return np.asarray(1.5 / (n * epsilon) * root @ root.T)


def eigenvectors(noisy: FloatArray) -> FloatArray:
    """All components of a noisy covariance matrix, the leading ones first."""
    return np.asarray(np.linalg.eigh(0.5 * (noisy + noisy.T))[1][:, ::-1])


def deviation(covariance: FloatArray, vectors: FloatArray, values: FloatArray) -> float:
    """Total deviation of the explained variances; ``values`` are eigenvalues in ascending order."""
    explained = np.einsum("ij,ik,kj->j", vectors, covariance, vectors, optimize=True)
    return float(np.abs(values[::-1] - explained).sum())


def classify(features: FloatArray, labels: FloatArray, components: FloatArray) -> float:
    """Test accuracy of a linear support vector machine on projected data, 60% for training."""
    from sklearn.model_selection import train_test_split
    from sklearn.svm import LinearSVC

    train, test, y_train, y_test = train_test_split(
        features @ components, labels, train_size=0.6, random_state=0
    )
    model = LinearSVC(dual=False, random_state=0).fit(train, y_train)
    return float(model.score(test, y_test))


def run(folder: str | Path, quick: bool = False, swarm: str | Path | None = None) -> list[Row]:
    """Add noise to covariance matrices over a range of epsilons; write a table and a figure.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        Two epsilons instead of eight, and one draw of each instead of the means of several.
    swarm : path, optional
        A file of the Swarm Behaviour data; without it the digits are used.

    Returns
    -------
    list of dict
        One row for each mechanism and epsilon.
    """
    features, labels = read_digits() if swarm is None else read_swarm(swarm)
    n, dimension = features.shape
    covariance = features.T @ features / n
    # The farthest that x x^T moves when one row of [-1, 1]^d is replaced, over n.
    sensitivity = dimension * math.sqrt(2.0) / n
    values = np.linalg.eigvalsh(covariance)
    baseline = classify(features, labels, eigenvectors(covariance)[:, :COMPONENTS])
    epsilons = (0.2, 1.6) if quick else tuple(0.2 * k for k in range(1, 9))
    n_draws, n_rank_one = (1, 1) if quick or swarm is not None else (DRAWS, RANK_ONE_DRAWS)
    rows: list[Row] = []
    rng = np.random.default_rng(2)

    def _measured(
        name: str, epsilon: float, draw: Callable[[], FloatArray] | None, about: Row
    ) -> None:
        row = {"mechanism": name, "epsilon_of_the_others": epsilon, **about}
        count = n_rank_one if name.startswith("rank-one") else n_draws
        drawn = [draw() for _ in range(count)] if draw is not None else []
        if drawn:
            lost = [deviation(covariance, vectors, values) for vectors in drawn]
            row |= {
                "draws": count,
                "total_deviation": float(np.mean(lost)),
                "spread_of_the_mean": float(np.std(lost) / math.sqrt(count)),
                "accuracy": float(
                    np.mean([classify(features, labels, v[:, :COMPONENTS]) for v in drawn[:SCORED]])
                ),
                "exact_accuracy": baseline,
                "published_exact_accuracy": 0.9689 if swarm is not None else None,
            }
        rows.append(row)

    def _perturbed(noise: Callable[[], FloatArray]) -> Callable[[], FloatArray]:
        return lambda: eigenvectors(covariance + noise())

    def _scaled(noise: Callable[..., FloatArray], epsilon: float) -> FloatArray:
        # Made for rows of norm at most 1; those of [-1, 1]^d are at most sqrt(d) long.
        return np.asarray(dimension * noise(epsilon, dimension, n, rng))

    def _sampled(epsilon: float, sweeps: int) -> FloatArray:
        scatter = n / dimension * covariance
        leading = private_components(scatter, epsilon, COMPONENTS, rng, sweeps=sweeps)
        # It says nothing of the other components: any that complete the basis.
        rest = np.linalg.qr(leading, mode="complete")[0][:, COMPONENTS:]
        rest = rest @ np.linalg.qr(rng.standard_normal((rest.shape[1],) * 2))[0]
        return np.column_stack([leading, rest])

    for epsilon in track(epsilons, "Releasing", len(epsilons)):
        for name, mechanism in mechanisms(epsilon, sensitivity, dimension).items():
            about = {
                "claimed": [mechanism.epsilon, mechanism.delta],
                "basis": keeps(mechanism, covariance.shape),
                "true_log_delta": float(
                    mechanism.loss(covariance.shape).log_delta(mechanism.epsilon)
                ),
            }
            draw = _perturbed(partial(mechanism.noise, covariance.shape, rng))
            _measured(name, epsilon, draw, about)
        for name, noise in (("MOD-SULQ", mod_sulq), ("Wishart", wishart)):
            delta = DELTA if name == "MOD-SULQ" else 0.0
            about = {"claimed": [epsilon, delta], "basis": "as published, not checked here"}
            _measured(name, epsilon, _perturbed(partial(_scaled, noise, epsilon)), about)
        for name, sweeps in (("PPCA", SWEEPS), ("PPCA, one by one", 0)):
            limit = f"in the limit of many Gibbs sweeps; {sweeps} were made"
            about = {"claimed": [epsilon, 0.0], "basis": limit if sweeps else "proven"}
            if dimension > WIDEST:
                each = COMPONENTS * max(sweeps, 1)
                about["remark"] = (
                    f"not run: {each} eigendecompositions of {dimension} x {dimension} matrices"
                )
            draw = partial(_sampled, epsilon, sweeps)
            _measured(name, epsilon, None if dimension > WIDEST else draw, about)
    data = "handwritten digits (scikit-learn)" if swarm is None else Path(swarm).name
    scored = min(n_rank_one, SCORED)
    drawn = f"means of {n_draws} draws, of {n_rank_one} (right: {scored}) for rank-one"
    if n_rank_one == 1:
        drawn = "one draw each"
    _draw(folder, rows, baseline, f"Figure 6: {data}, {n:,} x {dimension}; {drawn}")
    return write_rows(folder, "figure_6", rows)


def _draw(folder: str | Path, rows: list[Row], baseline: float, about: str) -> None:
    with plots.style():
        figure, first = plots.figure()
        first.remove()
        figure.set_size_inches(10.0, 5.6)
        left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        rows = [row for row in rows if "accuracy" in row]
        names = dict.fromkeys(row["mechanism"] for row in rows)
        marks = ("o-", "s-", "^-", "v-", "x-", "d--", "*--", "+--", "p--")
        for name, mark in zip(names, marks, strict=False):
            some = [row for row in rows if row["mechanism"] == name]
            grid = [row["epsilon_of_the_others"] for row in some]
            label = f"{name}: {some[0]['basis'].replace('; ', ', ')}"
            if "true_log_delta" in some[0]:
                ends = [truth(r["claimed"][0], r["true_log_delta"]) for r in (some[0], some[-1])]
                label = f"{name}: {ends[0]} to {ends[1]}"
            lost, error = (
                np.array([row[key] for row in some])
                for key in ("total_deviation", "spread_of_the_mean")
            )
            (line,) = left.semilogy(grid, lost, mark, label=label)
            if name.startswith("rank-one"):
                band = lost - 2 * error, lost + 2 * error
                left.fill_between(grid, *band, color=line.get_color(), alpha=0.2)
            right.plot(grid, [row["accuracy"] for row in some], mark)
        right.axhline(baseline, color="black", linestyle=":")
        left.set_ylabel("total deviation")
        right.set_ylabel("accuracy (dotted: no noise)")
        for axes in (left, right):
            axes.set_xlabel("epsilon of the others")
        figure.legend(loc="outside lower center", fontsize=8, ncols=2)
        save(figure, folder, "figure_6", about)
