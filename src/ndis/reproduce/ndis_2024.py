"""Tables 1 to 4 and figures 6 and 10 of the paper of 2024, on the tables that are at hand.

The Flight table comes with the library. Song (YearPredictionMSD) and Cancer (county cancer rates)
are used where their official files are given. As in the paper every column is divided by its own
norm and the bound on a row is the largest norm found, which is for comparison and not private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from ndis import plots
from ndis._validate import FloatArray
from ndis.loss import Profile, QuadraticLoss
from ndis.mechanisms.projection import PrivateProjection, draw_sketch
from ndis.mechanisms.regression_methods import METHODS, Table, Task, solve
from ndis.reproduce._output import Row, save, write_rows
from ndis.reproduce.data import read_cancer, read_flights, read_year_prediction
from ndis.tables import Gram, read_gram, row_leverages, track

# Printed values: ratio of distances and (mis)defined correlation of tables 1 and 3.
PROJECTION = {
    ("flight", "ridge"): (1.763, 1.064),
    ("flight", "lsv"): (3.989, 0.868),
    ("flight", "relative"): (0.998, 1.123),
    ("songs", "ridge"): (2.146, 0.787),
    ("songs", "lsv"): (7.373, 0.445),
    ("songs", "relative"): (2.149, 0.792),
    ("cancer", "ridge"): (18.942, 0.399),
    ("cancer", "lsv"): (56.116, 0.379),
    ("cancer", "relative"): (18.106, 0.401),
}
# Printed values: added noise and relative error of the coefficients, of tables 2 and 4.
REGRESSION = {
    ("flight", "gaussian-limit"): (0.864, 0.465),
    ("flight", "sketch"): (0.745, 0.395),
    ("flight", "lsv"): (2.060, 0.789),
    ("flight", "relative-limit"): (0.0, 0.016),
    ("flight", "relative-gaussian"): (None, 0.001),
    ("songs", "gaussian-limit"): (3.374, 0.983),
    ("songs", "sketch"): (0.224, 0.752),
    ("songs", "lsv"): (12.496, 0.996),
    ("songs", "relative-limit"): (0.0, 0.001),
    ("songs", "relative-gaussian"): (None, 0.001),
    ("cancer", "gaussian-limit"): (7.917, 0.996),
    ("cancer", "sketch"): (6.850, 1.001),
    ("cancer", "lsv"): (20.317, 1.022),
    ("cancer", "relative-limit"): (7.917, 1.003),
    ("cancer", "relative-gaussian"): (None, 2.563),
}
EPSILON = 1.0


def flight_rows() -> FloatArray:
    """Departure delay, a constant and arrival delay, columns of norm one."""
    table = read_flights()
    departure, arrival = (table[name].to_numpy() for name in ("dep_delay", "arr_delay"))
    return _normalised(np.column_stack([departure, np.ones(len(departure)), arrival]))


def song_rows(path: str | Path) -> FloatArray:
    """Ninety features and the year, columns of norm one."""
    features, year = read_year_prediction(path)
    return _normalised(np.column_stack([features, year]))


def cancer_rows(path: str | Path) -> FloatArray:
    """Numeric features and the death rate, columns of norm one; the paper used 2,809 counties."""
    features, rate, _ = read_cancer(path)
    return _normalised(np.column_stack([features, rate]))


READERS: dict[str, Callable[[str | Path], FloatArray]] = {
    "songs": song_rows,
    "cancer": cancer_rows,
}


def _normalised(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / np.linalg.norm(rows, axis=0))


def components(name: str, n_rows: int) -> int:
    """The paper's r: 300 for Cancer, log(n)/0.1^2 rounded down for the others."""
    return 300 if name == "cancer" else int(math.log(n_rows) / 0.1**2)


def projection_table(name: str, rows: FloatArray, n_trials: int) -> list[Row]:
    """Tables 1 and 3: distances and inner products of columns, with what the paper printed."""
    r, norm = components(name, len(rows)), float(np.linalg.norm(rows, axis=1).max())
    gram, result = read_gram(rows, norm), list[Row]()
    for method in ("ridge", "lsv", "relative"):
        mechanism = PrivateProjection(
            epsilon=EPSILON, delta=1 / len(rows), data_norm=norm, n_components=r, method=method
        )
        law = mechanism.output_law(rows)
        ridge = max(float(law.cov[0, 0] - gram.matrix[0, 0]), 0.0)
        rng = np.random.default_rng(0)
        sketches = [draw_sketch(gram.matrix, ridge, r, rng) for _ in range(n_trials)]
        distance = _mean([distance_ratio(sketch, gram) for sketch in sketches])
        agreement = _mean([correlation(sketch, gram) for sketch in sketches])
        factor = gram.matrix.size / (gram.matrix.size - 1)
        printed = PROJECTION[name, method]
        result.append(
            {
                "data": name,
                "method": method,
                "rows": len(rows),
                "components": r,
                "noise": math.sqrt(ridge),
                "distance_ratio": distance[0],
                "distance_ratio_error": distance[1],
                "published_distance_ratio": printed[0],
                "correlation": agreement[0],
                "correlation_as_published": agreement[0] * factor,
                "published_correlation": printed[1],
            }
        )
    return result


def distance_ratio(sketch: FloatArray, gram: Gram) -> float:
    """Mean over pairs of columns of their distance in the sketch over their true distance."""
    first, second = np.triu_indices(len(gram.matrix), 1)
    found = np.linalg.norm(sketch[first] - sketch[second], axis=1) / math.sqrt(sketch.shape[1])
    diagonal = np.diag(gram.matrix)
    truth = diagonal[first] + diagonal[second] - 2 * gram.matrix[first, second]
    return float(np.mean(found / np.sqrt(truth)))


def correlation(sketch: FloatArray, gram: Gram) -> float:
    """Correlation of all inner products of columns before and after.

    The paper divides a covariance over N - 1 by deviations over N and so prints N/(N-1) times this.
    """
    return float(np.corrcoef(gram.matrix.ravel(), (sketch @ sketch.T).ravel())[0, 1])


def regression_table(name: str, rows: FloatArray, n_trials: int) -> list[Row]:
    """Tables 2 and 4: coefficients of the last column on the others, with what was printed."""
    r, norm = components(name, len(rows)), float(np.linalg.norm(rows, axis=1).max())
    label = f"x{rows.shape[1] - 1}"
    table, result = Table(rows, read_gram(rows), label), list[Row]()
    best = solve(table.moments)
    for (data, method_name), printed in REGRESSION.items():
        if data != name:
            continue
        published = method_name == "gaussian-limit"
        d = rows.shape[1] - 1
        task = Task(EPSILON, 1 / len(rows), d, norm, norm, r, 3, published)
        method = METHODS[method_name](task)
        rng = np.random.default_rng(0)
        draws = np.array([method.draw(table, rng)["coef"] for _ in range(n_trials)])
        errors = np.linalg.norm(draws - best, axis=1) / np.linalg.norm(best)
        error = _mean(list(errors))
        noise = float(method.noise_scale)
        result.append(
            {
                "data": name,
                "method": method_name,
                "rows": len(rows),
                "components": r,
                "noise": noise if math.isfinite(noise) else None,
                "published_noise": printed[0],
                "relative_error": error[0],
                "relative_error_error": error[1],
                "published_relative_error": printed[1],
            }
        )
    return result


def _mean(values: list[float]) -> tuple[float, float]:
    """Mean and half the width of its 95% confidence interval."""
    sample = np.array(values)
    return float(sample.mean()), float(1.96 * sample.std(ddof=1) / math.sqrt(sample.size))


def draw_inherent(folder: str | Path, tables: Mapping[str, FloatArray]) -> list[Row]:
    """Figures 6 and 10: the privacy that a projection has without any noise, for r and for 1."""
    result: list[Row] = []
    for figure_name, number in (("figure_6", None), ("figure_10", 1)):
        losses = {}
        for name, rows in tables.items():
            r = components(name, len(rows)) if number is None else number
            largest = float(row_leverages(rows, read_gram(rows)).max())
            losses[f"{name}, r = {r}"] = loss = Profile.both(
                QuadraticLoss.from_leverage(largest, r)
            )
            result.append(
                {
                    "figure": figure_name,
                    "data": name,
                    "components": r,
                    "largest_leverage": largest,
                    "log10_delta_at_1": float(loss.log_delta(EPSILON)) / math.log(10),
                }
            )
        save(plots.curve(losses, np.linspace(0.0, 2.0, 101)), folder, figure_name)
    return result


def run(
    folder: str | Path, quick: bool = False, files: Mapping[str, str | Path] | None = None
) -> dict[str, list[Row]]:
    """Write tables and figures into the folder.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        20 repetitions instead of 100, as in the paper.
    files : mapping of str to path, optional
        Official files by name: ``songs`` (YearPredictionMSD.txt) and ``cancer`` (cancer_reg.csv).

    Returns
    -------
    dict of str to list of dict
        The rows of each table.
    """
    given = {name: READERS[name](path) for name, path in (files or {}).items() if name in READERS}
    tables = {"flight": flight_rows(), **given}
    n_trials = 20 if quick else 100
    results: dict[str, list[Row]] = {"projection": [], "regression": []}
    for name, rows in track(tables.items(), "Repeating", len(tables)):
        results["projection"] += projection_table(name, rows, n_trials)
        results["regression"] += regression_table(name, rows, n_trials)
    results["inherent"] = draw_inherent(folder, tables)
    for name, table in results.items():
        write_rows(folder, name, table)
    _draw(folder, results)
    return results


def _draw(folder: str | Path, results: Mapping[str, list[Row]]) -> None:
    """What was found against what was printed; on the line they agree."""
    pairs = [("projection", "distance_ratio"), ("regression", "relative_error")]
    with plots.style():
        figure, first = plots.figure()
        first.remove()
        figure.set_size_inches(10.0, 4.6)
        for place, (table, quantity) in enumerate(pairs):
            axes = figure.add_subplot(1, 2, place + 1)
            ends = []
            for row in results[table]:
                x, y = row[f"published_{quantity}"], row[quantity]
                axes.loglog([x], [y], "o", label=f"{row['data']}, {row['method']}")
                ends += [x, y]
            line = [0.8 * min(ends), 1.25 * max(ends)]
            axes.loglog(line, line, color="#888888", linestyle="--", linewidth=1.0)
            axes.set_xlabel(f"{quantity.replace('_', ' ')}, published")
            axes.set_ylabel(f"{quantity.replace('_', ' ')}, here")
            axes.legend(fontsize=8)
        save(figure, folder, "published_and_here")
