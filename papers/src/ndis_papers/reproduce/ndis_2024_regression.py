"""Tables 2 and 4 of the paper of 2024: least squares, row by row beside what was printed.

`printed_consistency` needs no data: it holds the printed noise against the paper's own formulas,
in ratios from which the data drop out, and names the rows that contradict them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ndis import Gaussian, PrivateLeastSquares
from ndis_papers._validate import FloatArray
from ndis_papers.least_squares import (
    exact_ratio,
    exact_solved_ratio,
    inherent_delta,
    published_ratio,
    relative_gaussian_law,
    ridged_law,
    solve,
    solved_sketches,
)
from ndis_papers.reproduce._output import Row
from ndis_papers.reproduce.ndis_2024_data import (
    EPSILON,
    PRINTED_ROWS,
    ROWS,
    components,
    longest,
    mean_and_half_width,
)
from ndis_papers.sketches import (
    least_ratio,
    lsv_ratio,
    mutual_information_ridge,
    relative_ridge,
)

# How far printed noise may be from the formula's: the paper's longest row is not ours.
_TOLERANCE = 0.025
# Half a unit of the last digit of printed errors.
_ROUNDING = 5e-4


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


@dataclass(frozen=True)
class _Setting:
    """A table, its second moments, and what the paper asks of it."""

    rows: FloatArray
    moments: FloatArray
    norm: float
    n_components: int
    delta: float

    @property
    def n_features(self) -> int:
        return int(self.rows.shape[1]) - 1


def regression_table(name: str, rows: FloatArray, n_trials: int) -> list[Row]:
    """Tables 2 and 4 for one data set: ours beside what was printed."""
    r, norm = components(name, len(rows)), longest(rows)
    setting = _Setting(rows, rows.T @ rows, norm, r, 1 / len(rows))
    return [_row(printed, setting, n_trials) for printed in PRINTED if printed.data == name]


def _row(printed: Printed, setting: _Setting, n_trials: int) -> Row:
    noise, delta = _noise(printed, setting)
    draws = _draws(printed, noise, setting, n_trials, np.random.default_rng(0))
    best = solve(setting.moments)
    errors = np.linalg.norm(draws - best, axis=1) / np.linalg.norm(best)
    error, half_width = mean_and_half_width(errors)
    return {
        "table": printed.table,
        "data": printed.data,
        "method": printed.method,
        "calibration": "exact" if printed.exact else "as published",
        "rows": len(setting.rows),
        "printed_rows": PRINTED_ROWS[printed.data],
        "components": setting.n_components,
        "epsilon": EPSILON,
        "delta": delta,
        "published_delta": printed.delta if printed.error is not None else None,
        "noise": noise,
        "published_noise": printed.noise,
        "relative_error": error,
        "relative_error_half_width": half_width,
        "published_relative_error": printed.error,
        "published_half_width": printed.half_width,
        "remark": _remark(printed, noise, error, half_width),
    }


def _noise(printed: Printed, at: _Setting) -> tuple[float | None, float | None]:
    """The noise that is used on this table, and delta at epsilon: inherent where none is added.

    Of the relative methods and of the unridged one delta is an outcome.
    """
    method, r, d = printed.method, at.n_components, at.n_features
    if method in ("unridged", "relative-als", "relative-limit"):
        inherent = inherent_delta(at.rows, EPSILON, r, solved=method != "relative-limit")
        if method == "unridged" or inherent <= at.delta:
            return 0.0, inherent
        return published_ratio(EPSILON, at.delta, d, r) * at.norm, at.delta
    if method == "relative-sketch":
        ridge, inherent = relative_ridge(at.rows, at.norm, EPSILON, at.delta, r)
        # Unlike the projection, the regression adds the full ridge or none.
        full = least_ratio(EPSILON, at.delta, r) * at.norm
        return (0.0, inherent) if ridge == 0 else (full, at.delta)
    if method == "mutual-information":
        return math.sqrt(mutual_information_ridge(at.rows, EPSILON, at.delta, r)), None
    delta = at.delta if printed.delta is None else printed.delta
    if method in ("relative-gaussian", "newton"):
        return None, delta
    if method == "sketch":
        return least_ratio(EPSILON, delta, r) * at.norm, delta
    if method == "lsv":
        return lsv_ratio(EPSILON, delta, r) * at.norm, delta
    if not printed.exact:  # the paper has one rule for the limit law and for the solution
        return published_ratio(EPSILON, delta, d, r) * at.norm, delta
    exact = exact_ratio if method == "gaussian-limit" else exact_solved_ratio
    return exact(EPSILON, delta, d, r) * at.norm, delta


def _draws(
    printed: Printed, noise: float | None, at: _Setting, n: int, rng: np.random.Generator
) -> FloatArray:
    """Coefficients of many runs."""
    if printed.method == "newton":
        return _library_draws(at, n)
    if printed.method == "relative-gaussian":
        law: Gaussian = relative_gaussian_law(at.rows, EPSILON, at.delta)
    elif printed.method in ("gaussian-limit", "relative-limit"):
        law = ridged_law(at.moments, (noise or 0.0) ** 2, at.n_components)
    else:
        return solved_sketches(at.moments, (noise or 0.0) ** 2, at.n_components, n, rng)
    normal = rng.standard_normal((n, len(law.mean)))
    return np.asarray(law.mean + normal @ np.linalg.cholesky(law.cov).T)


def _library_draws(at: _Setting, n: int) -> FloatArray:
    """The library's own regression, a tenth of the runs: each reads the table 21 times."""
    X, y = at.rows[:, :-1], at.rows[:, -1]
    model = PrivateLeastSquares(
        epsilon=EPSILON,
        delta=at.delta,
        data_norm=at.norm,
        label_bound=at.norm,
        method="newton",
        fit_intercept=False,
    )
    return np.array(
        [model.set_params(random_state=seed).fit(X, y).coef_ for seed in range(n // 10)]
    )


def _remark(printed: Printed, noise: float | None, error: float, half_width: float) -> str:
    """Whether the printed noise is the formula's, and the printed error what that noise makes here.

    Only the first can contradict the paper: our table is not quite its table.
    """
    if printed.error is None or printed.half_width is None:
        return "not in the paper"
    remarks = []
    if printed.noise and noise is not None and abs(noise / printed.noise - 1.0) > _TOLERANCE:
        times = noise / printed.noise
        remarks.append(f"contradicts itself: the paper's formula gives {times:.3g} times the noise")
    # Three digits are printed, and of few runs the half-width is itself uncertain.
    sampling = _ROUNDING + 1.5 * (printed.half_width + _ROUNDING + half_width)
    if abs(error - printed.error) > _TOLERANCE * printed.error + sampling:
        remarks.append(f"on our table this noise makes {error / printed.error:.3g} times the error")
    return "; ".join(remarks) or "fits"


# -- the printed noise against itself -------------------------------------------------------------


def printed_consistency() -> list[Row]:
    """Ratios of printed noise that the data do not enter, beside the paper's own formulas.

    Examples
    --------
    >>> from ndis_papers.reproduce.ndis_2024_regression import printed_consistency
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
