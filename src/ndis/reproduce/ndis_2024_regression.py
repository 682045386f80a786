"""Tables 2 and 4 of the paper of 2024: least squares, row by row beside what was printed.

`printed_consistency` needs no data: it holds the printed noise against the paper's own formulas,
in ratios from which the data drop out, and names the rows that contradict them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ndis._validate import FloatArray
from ndis.mechanisms.projection import draw_sketch
from ndis.mechanisms.projection_methods import least_ratio, lsv_ratio
from ndis.mechanisms.regression_methods import METHODS, Method, Table, Task
from ndis.mechanisms.regression_methods.base import solve
from ndis.mechanisms.regression_methods.relative import Relative, RelativeGaussian
from ndis.mechanisms.regression_methods.sketches import (
    MutualInformation,
    published_ratio,
    ridged_law,
)
from ndis.reproduce._output import Row
from ndis.reproduce.ndis_2024_data import (
    EPSILON,
    PRINTED_ROWS,
    ROWS,
    components,
    longest,
    mean_and_half_width,
)
from ndis.tables import read_gram

# How far printed noise may be from the formula's: the paper's longest row is not ours.
_TOLERANCE = 0.025


@dataclass(frozen=True)
class Printed:
    """A row of table 2 or 4: noise and relative error of the coefficients as they were printed.

    Attributes
    ----------
    table : int
    data, method : str
        "unridged" is sketch-and-solve as it is, without a mechanism.
    noise : float or None
        None where the paper prints "N/A", or nothing.
    error, half_width : float or None
        None for rows that the paper does not have.
    delta : float or None
        None stands for one over the number of rows.
    exact : bool
        Calibrated by this library instead of the paper's rule.
    """

    table: int
    data: str
    method: str
    noise: float | None = None
    error: float | None = None
    half_width: float | None = None
    delta: float | None = None
    exact: bool = False


TINY = 1e-16  # the paper's "at most"
PRINTED = [
    Printed(2, "flight", "gaussian-limit", 0.864, 0.465, 0.006),
    Printed(2, "flight", "als", 0.864, 0.465, 0.006),
    Printed(2, "flight", "sketch", 0.745, 0.395, 0.005),
    Printed(2, "flight", "lsv", 2.060, 0.789, 0.006),
    Printed(2, "flight", "gaussian-limit", exact=True),
    Printed(2, "flight", "als", exact=True),
    Printed(2, "flight", "newton", exact=True),
    Printed(4, "flight", "unridged", 0.0, 0.016, 0.001, TINY),
    Printed(4, "flight", "relative-als", 0.0, 0.016, 0.001, TINY),
    Printed(4, "flight", "relative-limit", 0.0, 0.016, 0.001, TINY),
    Printed(4, "flight", "relative-sketch", 0.0, 0.016, 0.001, TINY),
    Printed(4, "flight", "relative-gaussian", None, 0.001, 0.000),
    Printed(4, "flight", "lsv", 2.060, 0.791, 0.006),
    Printed(4, "flight", "lsv", 2.704, 0.852, 0.006, TINY),
    Printed(4, "flight", "mutual-information", 59.796, 0.957, 0.004),
    Printed(2, "songs", "gaussian-limit", 3.374, 0.983, 0.003),
    Printed(2, "songs", "als", 3.374, 0.983, 0.003),
    Printed(2, "songs", "sketch", 0.224, 0.752, 0.001),
    Printed(2, "songs", "lsv", 12.496, 0.996, 0.002),
    Printed(4, "songs", "unridged", 0.0, 0.001, 0.000, 1.079e-9),
    Printed(4, "songs", "relative-als", 0.0, 0.001, 0.000, 1.079e-9),
    Printed(4, "songs", "relative-limit", 0.0, 0.001, 0.000, 1.079e-9),
    Printed(4, "songs", "relative-sketch", 0.224, 0.752, 0.001),
    Printed(4, "songs", "relative-gaussian", None, 0.001, 0.000),
    Printed(4, "songs", "lsv", 12.496, 0.996, 0.002),
    Printed(4, "songs", "lsv", 13.907, 0.997, 0.001, 1e-9),
    Printed(4, "songs", "mutual-information", 244.148, 1.002, 0.002),
    Printed(2, "cancer", "gaussian-limit", 7.917, 0.996, 0.011),
    Printed(2, "cancer", "als", 7.917, 0.996, 0.011),
    Printed(2, "cancer", "sketch", 6.850, 1.001, 0.012),
    Printed(2, "cancer", "lsv", 20.317, 1.022, 0.013),
    Printed(4, "cancer", "unridged", 0.0, 0.656, 0.072, 0.133),
    Printed(4, "cancer", "relative-limit", 7.917, 1.003, 0.011),
    Printed(4, "cancer", "relative-sketch", 6.850, 1.002, 0.010),
    Printed(4, "cancer", "relative-gaussian", None, 2.563, 0.127),
    Printed(4, "cancer", "lsv", 20.317, 1.012, 0.011),
    Printed(4, "cancer", "mutual-information", 29.903, 1.018, 0.011),
]


def regression_table(name: str, rows: FloatArray, n_trials: int) -> list[Row]:
    """Tables 2 and 4 for one data set: ours beside what was printed."""
    r, norm, d = components(name, len(rows)), longest(rows), rows.shape[1] - 1
    table = Table(rows, read_gram(rows), f"x{d}")
    task = Task(EPSILON, 1 / len(rows), d, norm, norm, r, 3, False)
    return [_row(printed, table, task, n_trials) for printed in PRINTED if printed.data == name]


def _row(printed: Printed, table: Table, task: Task, n_trials: int) -> Row:
    rng = np.random.default_rng(0)
    relative = printed.method == "unridged" or printed.method.startswith("relative")
    if printed.delta is not None and not relative:  # of relative methods a delta is an outcome
        task = replace(task, delta=printed.delta)
    method = _method(printed, task)
    noise, delta = _noise(printed, method, table, task)
    draws = _draws(printed.method, method, noise, table, n_trials, rng)
    best = solve(table.moments)
    errors = np.linalg.norm(draws - best, axis=1) / np.linalg.norm(best)
    error, half_width = mean_and_half_width(errors)
    gaussian = isinstance(method, RelativeGaussian)
    return {
        "table": printed.table,
        "data": printed.data,
        "method": printed.method,
        "calibration": "exact" if printed.exact else "as published",
        "rows": table.gram.n_rows,
        "printed_rows": PRINTED_ROWS[printed.data],
        "components": task.n_components,
        "epsilon": task.epsilon,
        "delta": delta,
        "published_delta": printed.delta if printed.error is not None else None,
        "noise": None if gaussian or printed.method == "newton" else noise,
        "published_noise": printed.noise,
        "relative_error": error,
        "relative_error_half_width": half_width,
        "published_relative_error": printed.error,
        "published_half_width": printed.half_width,
        "remark": _remark(printed, noise, error, half_width),
    }


def _method(printed: Printed, task: Task) -> Method:
    if printed.method == "unridged":
        return METHODS["relative-als"](task)
    if printed.method in ("gaussian-limit", "als") and not printed.exact:
        return METHODS["gaussian-limit"](replace(task, published=True))  # one rule for both
    return METHODS[printed.method](task)


def _noise(
    printed: Printed, method: Method, table: Table, task: Task
) -> tuple[float, float | None]:
    """The noise that is used on this table, and delta at epsilon: inherent where none is added."""
    if isinstance(method, Relative | MutualInformation | RelativeGaussian):
        method.draw(table, np.random.default_rng(0))  # these look at the data
    if isinstance(method, Relative):
        inherent, used = method.inherent_delta, method.noise_scale
        used = 0.0 if printed.method == "unridged" else used
        return used, inherent if used == 0 else task.delta
    if isinstance(method, MutualInformation):
        return math.sqrt(method.ridge), None  # refuted: it has no delta
    return method.noise_scale, task.delta


def _draws(
    name: str, method: Method, noise: float, table: Table, n: int, rng: np.random.Generator
) -> FloatArray:
    """Coefficients of many runs."""
    if name == "newton":
        return np.array([method.draw(table, rng)["coef"] for _ in range(n)])
    if name in ("gaussian-limit", "relative-limit"):
        law = ridged_law(table.moments, noise**2, getattr(method, "n_components", 1))
    elif isinstance(method, RelativeGaussian):
        law = method.law(table)
    else:
        return solved_sketches(table.moments, noise**2, getattr(method, "n_components", 1), n, rng)
    normal = rng.standard_normal((n, len(law.mean)))
    return np.asarray(law.mean + normal @ np.linalg.cholesky(law.cov).T)


def solved_sketches(
    moments: FloatArray, ridge: float, n_components: int, n: int, rng: np.random.Generator
) -> FloatArray:
    """Least squares on n independent sketches of a table with these second moments.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.reproduce.ndis_2024_regression import solved_sketches
    >>> solved_sketches(np.eye(3), 0.1, 10, 5, np.random.default_rng(0)).shape
    (5, 2)
    """
    width = len(moments)
    sketches = draw_sketch(moments, ridge, n_components * n, rng).reshape(width, n, n_components)
    second = np.einsum("inr,jnr->nij", sketches, sketches, optimize=True)
    return np.asarray(np.linalg.solve(second[:, :-1, :-1], second[:, :-1, -1:])[..., 0])


def _remark(printed: Printed, noise: float, error: float, half_width: float) -> str:
    """Whether the printed noise is the formula's, and the printed error what that noise makes."""
    if printed.error is None or printed.half_width is None:
        return "not in the paper"
    remarks = []
    if printed.noise and abs(noise / printed.noise - 1.0) > _TOLERANCE:
        remarks.append(f"the paper's formula gives {noise / printed.noise:.3g} times the noise")
    sampling = printed.half_width + half_width
    if abs(error - printed.error) > _TOLERANCE * printed.error + sampling:
        remarks.append(f"this noise makes {error / printed.error:.3g} times the error")
    return "contradicts itself: " + ", ".join(remarks) if remarks else "fits"


# -- the printed noise against itself -------------------------------------------------------------


def printed_consistency() -> list[Row]:
    """Ratios of printed noise that the data do not enter, beside the paper's own formulas.

    Examples
    --------
    >>> from ndis.reproduce.ndis_2024_regression import printed_consistency
    >>> [row["quantity"] for row in printed_consistency() if row["verdict"] == "contradicts"][:2]
    ['songs: limit law over sketch', 'songs: LSV over sketch']
    """
    rows: list[Row] = []
    for name, features in (("cancer", 20), ("songs", 90), ("flight", 2)):
        n = ROWS[name]
        r = components(name, n)
        noise = {
            (row.method, row.delta): row.noise
            for row in PRINTED
            if row.data == name and row.noise and not row.exact
        }
        sketch = noise["sketch", None]
        # The paper's rule is sigma = l/sqrt(s), s the largest leverage that is private enough.
        base = math.hypot(1.0, least_ratio(EPSILON, 1 / n, r))
        limit = published_ratio(EPSILON, 1 / n, features, r) / base
        earlier = lsv_ratio(EPSILON, 1 / n, r)
        compared = {
            "limit law over sketch": (noise["gaussian-limit", None] / sketch, limit),
            "LSV over sketch": (noise["lsv", None] / sketch, earlier / base),
        }
        for (method, delta), value in noise.items():
            if method == "lsv" and delta is not None:
                expected = lsv_ratio(EPSILON, delta, r) / earlier
                compared[f"LSV at {delta:g} over LSV"] = (value / noise["lsv", None], expected)
        rows += [_compared(f"{name}: {what}", *pair, r) for what, pair in compared.items()]
        rows.append(_mutual_information(name, noise["mutual-information", None], n, r))
        rows.append(_compared(f"{name}: rows of the table", PRINTED_ROWS[name], n, r))
        if rows[-1]["verdict"] == "contradicts":
            rows[-1]["remark"] = "Song and Flight are swapped"
    return rows


def _compared(quantity: str, printed: float, formula: float, r: int) -> Row:
    fits = abs(formula / printed - 1.0) <= _TOLERANCE
    return {
        "quantity": quantity,
        "components": r,
        "printed": printed,
        "formula": formula,
        "verdict": "fits" if fits else "contradicts",
        "remark": "",
    }


def _mutual_information(name: str, printed: float, n: int, r: int) -> Row:
    """Noise of [17], r/(e^(distance^2) - 1) less what a column of norm one has without a row."""
    distance = 2.0 * (1.0 - 1.0 / n) / (math.e**EPSILON + 1.0)
    unit = 1.0 / math.expm1(distance**2)
    row = _compared(f"{name}: mutual information", printed, math.sqrt(r * unit - 0.5), r)
    if row["verdict"] == "contradicts":
        row["remark"] = f"fits {round((printed**2 + 0.5) / unit)} components"
    return row
