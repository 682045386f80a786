"""Tables of the additive mechanisms: what each published calibration really gives, and its price.

`figure_7` is that of the paper of 2024 and `classic` some of its points, `matrix_variate` the noise
of the published condition against the exact one, `rank_one` the true delta of R1SMG's claims,
`accuracy` theorems 4 and 7 to 9 of the rank-one paper.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ndis import plots
from ndis.calibration import noise_multiplier
from ndis.tables import track
from ndis_papers import additive
from ndis_papers.additive import Noise, keeps, simulate
from ndis_papers.rank_one import RankOneGaussianMechanism, true_spread
from ndis_papers.reproduce._output import Row, save, write_rows

# Dimension, claimed (epsilon, delta) and sensitivity of the claims that are looked at.
CLAIMS = (
    (3, 0.33, 1e-5, 1.0),
    (4, 0.2475, 1e-5, 1.0),
    (10, 0.05, 1e-5, 1.0),
    (100, 1e-3, 1e-5, 1.0),
    (7921, 1e-5, 1e-7, math.sqrt(2.0)),
    (5_760_000, 1.6e-7, 1e-7, 0.14132),
)
SHAPES = ((10, 10), (30, 30), (89, 89), (300, 300), (1000, 1000), (2400, 2400))


def classic() -> list[Row]:
    """The classic mechanism's true delta, and how much noise it adds beyond the least."""
    rows: list[Row] = []
    for delta in (1e-5, 1e-6):
        for epsilon in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
            noise, least = additive.classic(epsilon, delta, 1.0), noise_multiplier(epsilon, delta)
            rows.append(
                {
                    "epsilon": epsilon,
                    "delta": delta,
                    "true_delta": float(noise.loss().delta(epsilon)),
                    "sigma": noise.scale,
                    "least_sigma": least,
                    "saved": 1.0 - least / noise.scale,
                }
            )
    return rows


def figure_7(folder: str | Path, quick: bool = False) -> list[Row]:
    """The classic mechanism's true delta beside its claim, and its noise beside the least."""
    from matplotlib.figure import Figure

    delta = 1e-5
    rows: list[Row] = []
    for epsilon in np.linspace(0.02, 1.0, 8 if quick else 50):
        noise, least = additive.classic(epsilon, delta, 1.0), noise_multiplier(epsilon, delta)
        rows.append(
            {
                "epsilon": float(epsilon),
                "claimed_delta": delta,
                "true_delta": float(noise.loss().delta(epsilon)),
                "sigma": noise.scale,
                "least_sigma": least,
                "saved": 1.0 - least / noise.scale,
                "published": "two orders of magnitude; 20 % of the noise",
            }
        )
    epsilons = [row["epsilon"] for row in rows]
    with plots.style():
        figure = Figure(figsize=(10.0, 4.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.semilogy(epsilons, [row["claimed_delta"] for row in rows], "--", label="claimed")
        left.semilogy(epsilons, [row["true_delta"] for row in rows], label="true")
        left.set_ylabel("delta of the classic noise")
        right.semilogy(epsilons, [row["sigma"] for row in rows], "--", label="classic")
        right.semilogy(epsilons, [row["least_sigma"] for row in rows], label="least")
        right.set_ylabel("sigma, sensitivity 1, delta = 1e-5")
        for axes in (left, right):
            axes.set_xlabel("epsilon")
            axes.legend()
        save(
            figure,
            folder,
            "figure_7",
            "Figure 7: Gaussian noise, sensitivity 1 (formulas, no data)",
        )
    return write_rows(folder, "figure_7", rows)


def matrix_variate() -> list[Row]:
    """Noise of the published conditions over the exact noise, by shape."""
    rows: list[Row] = []
    for shape in SHAPES:
        least = noise_multiplier(1.0, 1e-5)
        published = additive.matrix_noise(1.0, 1e-5, 1.0, shape, float(max(shape)))
        sketched = additive.matrix_noise(1.0, 1e-5, 1.0, shape)
        rows.append(
            {
                "shape": list(shape),
                "exact": least,
                "published": published,
                "published_over_exact": published / least,
                "appendix_c_over_exact": sketched / least,
            }
        )
    return rows


def rank_one(quick: bool = False) -> list[Row]:
    """The true delta of R1SMG's claims, and what the analytic mechanism loses at that delta."""
    rows: list[Row] = []
    for dimension, epsilon, delta, sensitivity in track(CLAIMS, "Refuting", len(CLAIMS)):
        mechanism = RankOneGaussianMechanism(epsilon, delta, sensitivity)
        low, high = mechanism.loss((dimension,)).delta_bounds(epsilon)
        honest = additive.analytic(epsilon, float(low), sensitivity)
        row: Row = {
            "dimension": dimension,
            "epsilon": epsilon,
            "claimed_delta": delta,
            "true_delta_low": float(low),
            "true_delta_high": float(high),
            "basis": keeps(mechanism, (dimension,)),
            "expected_loss": mechanism.calibrate((dimension,)),
            "loss_over_analytic": mechanism.calibrate((dimension,))
            / honest.accuracy_loss((dimension,)).mean,
        }
        if not quick:
            row["true_spread_over_published"] = true_spread(dimension, epsilon, delta) / (
                mechanism.calibrate((dimension,)) / sensitivity**2
            )
        rows.append(row)
    return rows


def accuracy(n_draws: int = 2000) -> list[Row]:
    """Moments of the accuracy loss of every mechanism, in closed form and simulated."""
    shape = (30, 30)
    noises: dict[str, Noise] = {
        "classic": additive.classic(0.5, 1e-7, 1.0),
        "analytic": additive.analytic(0.5, 1e-7, 1.0),
        "matrix-variate, published": additive.matrix_variate(0.5, 1e-7, 1.0, shape, 30.0),
        "rank-one, published": RankOneGaussianMechanism(0.99 / math.prod(shape), 1e-7, 1.0),
    }
    rows: list[Row] = []
    for name, noise in track(noises.items(), "Simulating", len(noises)):
        exact, losses = noise.accuracy_loss(shape), simulate(noise, shape, n_draws, 1)
        second, third, fourth = (float(np.mean((losses / exact.mean) ** k)) for k in (2, 3, 4))
        rows.append(
            {
                "mechanism": name,
                "mean": exact.mean,
                "simulated_mean": float(losses.mean()),
                "skewness": exact.skewness,
                "kurtosis": exact.kurtosis,
                "raw_skewness": exact.raw_skewness,
                "simulated_raw_skewness": third / second**1.5,
                "raw_kurtosis": exact.raw_kurtosis,
                "simulated_raw_kurtosis": fourth / second**2,
                "beyond_five_means": float(np.mean(losses > 5.0 * exact.mean)),
            }
        )
    return rows


def price(folder: str | Path, quick: bool = False) -> list[Row]:
    """What the rank-one mechanism costs once it keeps its promise, against the analytic one."""
    dimensions = (3, 10, 100, 1000) if quick else (3, 5, 10, 30, 100, 1000, 10_000, 100_000)
    epsilon, deltas = 1.0, (1e-1, 1e-3) if quick else (1e-1, 1e-2, 1e-3, 1e-5)
    cases = [(delta, dimension) for delta in deltas for dimension in dimensions]
    rows: list[Row] = [
        {
            "epsilon": epsilon,
            "delta": delta,
            "dimension": dimension,
            "rank_one_loss": true_spread(dimension, epsilon, delta),
            "analytic_loss": dimension * noise_multiplier(epsilon, delta) ** 2,
        }
        for delta, dimension in track(cases, "Calibrating", len(cases))
    ]
    with plots.style():
        figure, axes = plots.figure()
        for delta in deltas:
            some = [row for row in rows if row["delta"] == delta]
            ratio = [row["rank_one_loss"] / row["analytic_loss"] for row in some]
            axes.loglog([row["dimension"] for row in some], ratio, "o-", label=f"delta = {delta:g}")
        axes.set_xlabel("dimension M")
        axes.set_ylabel("expected loss, rank-one over analytic")
        figure.legend(loc="outside lower center", ncols=4)
        about = f"Both truly ({epsilon:g}, delta)-private (formulas, no data)"
        save(figure, folder, "rank_one_price", about)
    return write_rows(folder, "rank_one_price", rows)


def run(folder: str | Path, quick: bool = False) -> dict[str, list[Row]]:
    """Write all tables and the figure of the price into the folder.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        Fewer points and draws.

    Returns
    -------
    dict of str to list of dict
        The rows of each table.
    """
    tables = {
        "classic": classic(),
        "matrix_variate": matrix_variate(),
        "rank_one": rank_one(quick),
        "accuracy": accuracy(200 if quick else 2000),
    }
    for name, rows in tables.items():
        write_rows(folder, name, rows)
    return {
        **tables,
        "figure_7": figure_7(folder, quick),
        "rank_one_price": price(folder, quick),
    }
