"""Tables 1 to 4 and figures 6 and 10 of the paper of 2024, on the tables that are at hand.

Tables 2 and 4 are in `ndis_2024_regression`, figures 5 and 9 in `black_box`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ndis import plots
from ndis.loss import Profile, QuadraticLoss
from ndis.tables import track
from ndis_papers._validate import FloatArray
from ndis_papers.reproduce._output import Row, save, write_rows
from ndis_papers.reproduce.ndis_2024_data import (
    EPSILON,
    NAMES,
    PRINTED_ROWS,
    components,
    longest,
    mean_and_half_width,
    source,
    tables,
)
from ndis_papers.reproduce.ndis_2024_regression import printed_consistency, regression_table
from ndis_papers.sketches import (
    draw_sketch,
    least_ratio,
    leverages,
    lsv_ratio,
    mutual_information_ridge,
    relative_ridge,
)

# The data of figures 6 and 10.
IN_FIGURES = ("flight", "songs")
# What the tables are written as.
PROJECTED, SOLVED = "tables_1_and_3", "tables_2_and_4"
# Printed values of tables 1 and 3: ratio of distances and (mis)defined correlation. "none" is a
# random projection without a mechanism.
PROJECTION = {
    (1, "flight", "ridge"): (1.763, 1.064),
    (1, "flight", "lsv"): (3.989, 0.868),
    (3, "flight", "none"): (0.998, 1.123),
    (3, "flight", "relative"): (0.998, 1.123),
    (3, "flight", "lsv"): (4.004, 0.868),
    (3, "flight", "mutual-information"): (111.384, 0.779),
    (1, "songs", "ridge"): (2.146, 0.787),
    (1, "songs", "lsv"): (7.373, 0.445),
    (3, "songs", "none"): (1.000, 0.993),
    (3, "songs", "relative"): (2.149, 0.792),
    (3, "songs", "lsv"): (7.342, 0.445),
    (3, "songs", "mutual-information"): (70.095, 0.382),
    (1, "cancer", "ridge"): (18.942, 0.399),
    (1, "cancer", "lsv"): (56.116, 0.379),
    (3, "cancer", "none"): (0.999, 0.998),
    (3, "cancer", "relative"): (18.106, 0.401),
    (3, "cancer", "lsv"): (56.031, 0.379),
    (3, "cancer", "mutual-information"): (82.903, 0.382),
}


def projection_table(name: str, rows: FloatArray, n_trials: int) -> list[Row]:
    """Tables 1 and 3: distances and inner products of columns, with what the paper printed."""
    r, gram = components(name, len(rows)), rows.T @ rows
    result: list[Row] = []
    for (number, data, method), printed in PROJECTION.items():
        if data != name:
            continue
        ridge = _ridge(rows, r, method)
        rng = np.random.default_rng(number)
        sketches = [draw_sketch(gram, ridge, r, rng) for _ in range(n_trials)]
        distance = mean_and_half_width(np.array([distance_ratio(s, gram) for s in sketches]))
        agreement = mean_and_half_width(np.array([correlation(s, gram) for s in sketches]))
        factor = gram.size / (gram.size - 1)
        impossible = "a correlation above 1 was printed" if printed[1] > 1 else ""
        result.append(
            {
                "table": number,
                "data": name,
                "method": method,
                "rows": len(rows),
                "printed_rows": PRINTED_ROWS[name],
                "components": r,
                "noise": math.sqrt(ridge),
                "distance_ratio": distance[0],
                "distance_ratio_half_width": distance[1],
                "published_distance_ratio": printed[0],
                "correlation": agreement[0],
                "correlation_as_published": agreement[0] * factor,
                "published_correlation": printed[1],
                "remark": impossible,
            }
        )
    return result


def _ridge(rows: FloatArray, n_components: int, method: str) -> float:
    """The ridge that a method adds to this table."""
    norm, task = longest(rows), (EPSILON, 1 / len(rows), n_components)
    if method == "relative":
        return relative_ridge(rows, norm, *task)[0]
    if method == "mutual-information":
        return mutual_information_ridge(rows, *task)
    if method == "none":
        return 0.0
    ratio = least_ratio(*task) if method == "ridge" else lsv_ratio(*task)
    return (ratio * norm) ** 2


def distance_ratio(sketch: FloatArray, gram: FloatArray) -> float:
    """Mean over pairs of columns of their distance in the sketch over their true distance."""
    first, second = np.triu_indices(len(gram), 1)
    found = np.linalg.norm(sketch[first] - sketch[second], axis=1) / math.sqrt(sketch.shape[1])
    diagonal = np.diag(gram)
    truth = diagonal[first] + diagonal[second] - 2 * gram[first, second]
    return float(np.mean(found / np.sqrt(truth)))


def correlation(sketch: FloatArray, gram: FloatArray) -> float:
    """Correlation of all inner products of columns before and after.

    The paper divides a covariance over N - 1 by deviations over N and so prints N/(N-1) times this.
    """
    return float(np.corrcoef(gram.ravel(), (sketch @ sketch.T).ravel())[0, 1])


def draw_inherent(
    folder: str | Path,
    known: Mapping[str, FloatArray],
    files: Mapping[str, str | Path] | None = None,
) -> list[Row]:
    """Figures 6 and 10: the privacy that a projection has without any noise, for r and for 1.

    Each curve reaches a little beyond delta = 1/n, the dashed line.
    """
    from matplotlib.figure import Figure

    result: list[Row] = []
    for figure_name, number in (("figure_6", None), ("figure_10", 1)):
        with plots.style():
            picture = Figure(figsize=(10.0, 4.2), layout="constrained")
            panels = picture.subplots(1, len(IN_FIGURES))
            for axes, name in zip(panels, IN_FIGURES, strict=True):
                rows = known[name]
                r, goal = number or components(name, len(rows)), 1 / len(rows)
                largest = float(leverages(rows).max())
                loss = Profile.both(QuadraticLoss.from_leverage(largest, r))
                enough = float(loss.epsilon(goal))
                grid = np.linspace(0.0, 1.3 * enough, 101)
                axes.semilogy(grid, loss.delta(grid))
                axes.axhline(goal, color="#888888", linestyle="--", linewidth=1.0)
                official = source(name, files) == "official"
                shown = NAMES[name] if official else f"made-up stand-in for {NAMES[name]}"
                axes.set_title(f"{shown}, {len(rows):,} rows, r = {r}")
                axes.locator_params(axis="x", nbins=5)
                axes.set_xlabel("epsilon (dashed: delta = 1/n)")
                result.append(
                    {
                        "figure": figure_name,
                        "data": name,
                        "components": r,
                        "largest_leverage": largest,
                        "epsilon_at_1_over_n": enough,
                        "log10_delta_at_1": float(loss.log_delta(EPSILON)) / math.log(10),
                    }
                )
            panels[0].set_ylabel("delta")
            about = f"{figure_name.replace('_', ' ').capitalize()}: no noise is added"
            save(picture, folder, figure_name, about)
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
    known = tables(files)
    n_trials = 20 if quick else 100
    results: dict[str, list[Row]] = {PROJECTED: [], SOLVED: []}
    for name, rows in track(known.items(), "Repeating", len(known)):
        results[PROJECTED] += projection_table(name, rows, n_trials)
        results[SOLVED] += regression_table(name, rows, n_trials)
    for row in results[PROJECTED] + results[SOLVED]:
        row["source"] = source(row["data"], files)
        if row["source"] != "official":
            row["remark"] = "not to be compared: the table is made up"
    results["figures_6_and_10"] = draw_inherent(folder, known, files)
    results["printed_consistency"] = printed_consistency()
    for name, table in results.items():
        write_rows(folder, name, table)
    _draw(folder, results)
    return results


_MARKS = {1: "o", 2: "o", 3: "x", 4: "x"}


def _label(row: Row) -> str:
    delta = f" at {row['published_delta']:g}" if row.get("published_delta") else ""
    return f"table {row['table']}, {NAMES[row['data']]}: {row['method']}{delta}"


def _draw(folder: str | Path, results: Mapping[str, list[Row]]) -> None:
    """What was found against what was printed; on the line they agree."""
    pairs = [(PROJECTED, "distance_ratio"), (SOLVED, "relative_error")]
    with plots.style():
        figure, first = plots.figure()
        first.remove()
        figure.set_size_inches(10.0, 4.6)
        for place, (table, quantity) in enumerate(pairs):
            axes = figure.add_subplot(1, 2, place + 1)
            ends = []
            for row in results[table]:
                x, y = row[f"published_{quantity}"], row[quantity]
                if x is None or row["source"] != "official":
                    continue
                mark = _MARKS[row["table"]]
                axes.loglog([x], [y], mark, markersize=8, fillstyle="none", label=_label(row))
                ends += [x, y]
            line = [0.8 * min(ends), 1.25 * max(ends)]
            axes.loglog(line, line, color="#888888", linestyle="--", linewidth=1.0)
            axes.set_xlabel(f"{quantity.replace('_', ' ')}, published")
            axes.set_ylabel(f"{quantity.replace('_', ' ')}, here")
            axes.legend(fontsize=7, loc="upper left")
        about = "Tables 1 to 4, on the tables that are the paper's own: on the line both agree"
        save(figure, folder, "tables_1_to_4", about)
