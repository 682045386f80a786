"""What a regression table has, from a release alone: fit, tests and coefficients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import fdtrc, ndtr, ndtri

from ndis._validate import FloatArray
from ndis.answer import P_VALUE, Answer, headings
from ndis.mechanisms.intervals import COVERED, UNKNOWN, Intervals

if TYPE_CHECKING:
    import pandas as pd

    from ndis.guarantee import Guarantee

_WIDTH = 88
_COEFFICIENTS = ("estimate", "standard error", "z", "P>|z|")


@dataclass(frozen=True)
class WaldTest:
    """Whether some coefficients may all be zero, privacy noise counted.

    Attributes
    ----------
    names : tuple of str
    statistic : float
        F; NaN where the release has no information on one of them.
    df : (int, float)
        Degrees of freedom: how many coefficients, and about how many rows are left.
    p_value : float

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.regression_summary import WaldTest
    >>> print(WaldTest.of(("age",), np.array([3.0]), np.array([[1.0]]), 1000.0))
    F = 9 on 1 and 1,000 degrees of freedom, p = 0.0028: age
    """

    names: tuple[str, ...]
    statistic: float
    df: tuple[int, float]
    p_value: float

    @classmethod
    def of(
        cls, names: tuple[str, ...], estimate: FloatArray, covariance: FloatArray, left: float
    ) -> WaldTest:
        """The test of estimates with a covariance; NaN where one is not known.

        Parameters
        ----------
        names : tuple of str
        estimate : ndarray of shape (k,)
        covariance : ndarray of shape (k, k)
        left : float
            Rows less coefficients.
        """
        k = len(names)
        if np.isnan(estimate).any() or left < 1.0:
            return cls(names, math.nan, (k, left), math.nan)
        errors = np.sqrt(np.diag(covariance))
        correlation = covariance / np.outer(errors, errors)
        scores = estimate / errors
        statistic = float(scores @ np.linalg.solve(correlation, scores)) / k
        return cls(names, statistic, (k, left), float(fdtrc(k, left, statistic)))

    def __str__(self) -> str:
        """One line."""
        if math.isnan(self.statistic):
            return f"{UNKNOWN}: {', '.join(self.names)}"
        freedom = f"{self.df[0]} and {self.df[1]:,.0f} degrees of freedom"
        names = ", ".join(self.names)
        return f"F = {self.statistic:.4g} on {freedom}, p = {self.p_value:.2g}: {names}"


@dataclass(frozen=True)
class Figure:
    """A number with its interval; all NaN where the noise leaves no information."""

    value: float
    lower: float
    upper: float

    @classmethod
    def of_normal(
        cls, value: float, error: float, level: float, ends: tuple[float, float]
    ) -> Figure:
        """About a value whose error is normal, within ends that it cannot exceed."""
        reach = -float(ndtri(0.5 * (1.0 - level))) * error
        low, high = max(value - reach, ends[0]), min(value + reach, ends[1])
        if not (math.isfinite(reach) and ends[0] <= value <= ends[1]) or (low, high) == ends:
            return cls(math.nan, math.nan, math.nan)
        return cls(value, low, high)

    def __format__(self, form: str) -> str:
        """The value, and the interval in brackets."""
        if math.isnan(self.value):
            return "unknown"
        return f"{self.value:{form}} ({self.lower:{form}} to {self.upper:{form}})"


@dataclass(frozen=True)
class RegressionSummary:
    """A regression table, from a release alone.

    Attributes
    ----------
    label : str
    coefficients : Intervals
        Of one label.
    z, p_values : ndarray of shape (n,)
        Of the tests that single coefficients are zero.
    r_squared, adjusted_r_squared, residual_sd, n_rows : Figure
        Each with `value`, `lower` and `upper`. Rows are counted with noise.
    f_test : WaldTest
        Of all coefficients but the intercept.
    method : str
    guarantee : Guarantee
    """

    label: str
    coefficients: Intervals
    r_squared: Figure
    adjusted_r_squared: Figure
    residual_sd: Figure
    n_rows: Figure
    f_test: WaldTest
    method: str
    guarantee: Guarantee

    @property
    def z(self) -> FloatArray:
        """Estimates over their standard errors."""
        found = self.coefficients
        return np.asarray(found.estimate / found.standard_error)

    @property
    def p_values(self) -> FloatArray:
        """Probabilities of such estimates and larger ones, were the coefficients zero."""
        return np.asarray(2.0 * ndtr(-np.abs(self.z)))

    def answers(self) -> list[Answer]:
        """Coefficients with intervals and tests, and how well they fit."""
        found = self.coefficients
        columns = (found.estimate, found.standard_error, found.lower, found.upper, self.p_values)
        figures = {
            "R^2": self.r_squared,
            "adjusted R^2": self.adjusted_r_squared,
            "residual standard deviation": self.residual_sd,
            "rows (noisy)": self.n_rows,
        }
        known = [(name, (each.value, each.lower, each.upper)) for name, each in figures.items()]
        tests = [("F", [self.f_test.statistic]), ("p of F", [self.f_test.p_value])]
        above = headings(found.level)
        return [
            Answer.of(
                f"Linear regression of {self.label}",
                (*above, P_VALUE),
                found.names,
                zip(*columns, strict=True),
                f"Intervals and tests count {COVERED[found.of]}.",
            ),
            Answer(f"Fit of {self.label}", (above[0], *above[2:]), [*known, *tests]),
        ]

    def to_frame(self) -> pd.DataFrame:
        """The coefficients as a data frame of pandas, with z and p."""
        frame = self.coefficients.to_frame()
        frame.insert(2, "z", self.z)
        frame.insert(3, "p_value", self.p_values)
        return frame

    def plot(self) -> Any:
        """The coefficients with their intervals, as a figure of matplotlib."""
        return self.coefficients.plot()

    # -- shown ---------------------------------------------------------------------------------

    @property
    def _fit(self) -> list[tuple[str, str]]:
        """What stands above the coefficients, by name."""
        f, promise = self.f_test, self.guarantee
        known = not math.isnan(f.statistic)
        return [
            ("Method", self.method),
            ("R-squared", f"{self.r_squared:.3f}"),
            ("Rows (noisy)", f"{self.n_rows:,.0f}"),
            ("Adj. R-squared", f"{self.adjusted_r_squared:.3f}"),
            ("Residual sd", f"{self.residual_sd:.4g}"),
            ("F-statistic", f"{f.statistic:.4g} on {f.df[0]}" if known else "unknown"),
            ("Epsilon, delta", f"{promise.epsilon:.4g}, {promise.delta:.4g}"),
            ("Prob (F-statistic)", f"{f.p_value:.3g}" if known else "unknown"),
        ]

    @property
    def _headings(self) -> tuple[str, ...]:
        tail = 0.5 * (1.0 - self.coefficients.level)
        return (*_COEFFICIENTS, f"[{tail:.4g}", f"{1.0 - tail:.4g}]")

    @property
    def _rows(self) -> Iterator[tuple[str, list[str]]]:
        """Coefficients in words; none for those that are not known."""
        found = self.coefficients
        parts = (
            *(found.estimate, found.standard_error, self.z),
            *(self.p_values, found.lower, found.upper),
        )
        for name, value, error, z, p, low, high in zip(found.names, *parts, strict=True):
            numbers = [f"{value:.5g}", f"{error:.4g}", f"{z:.3f}", f"{p:.3f}"]
            known = [*numbers, f"{low:.4g}", f"{high:.4g}"]
            yield name, [] if math.isnan(error) else known

    @property
    def _note(self) -> str:
        return f"Errors, tests and intervals count {COVERED[self.coefficients.of]}."

    def __str__(self) -> str:
        """As statsmodels prints a regression."""
        line, half = "=" * _WIDTH, _WIDTH // 2 + 4
        told = [f"{name + ':':<20}{text}" for name, text in self._fit]
        pairs = zip(told[::2], told[1::2], strict=True)
        wide = max(14, *(len(name) + 1 for name in self.coefficients.names))
        sizes = (13, 16, 10, 8, 13, 13)
        heads = "".join(f"{head:>{n}}" for head, n in zip(self._headings, sizes, strict=True))
        rows = (
            f"{name:<{wide}}"
            + ("".join(f"{each:>{n}}" for each, n in zip(row, sizes, strict=False)) or UNKNOWN)
            for name, row in self._rows
        )
        return "\n".join(
            [
                f"Linear regression of {self.label}, private".center(_WIDTH).rstrip(),
                line,
                *(f"{left:<{half}}{right}" for left, right in pairs),
                line,
                f"{'':{wide}}{heads}",
                "-" * _WIDTH,
                *rows,
                line,
                self._note,
            ]
        )

    def to_markdown(self) -> str:
        """Two tables of Markdown: the fit, and the coefficients."""
        fit = [f"| {name} | {text} |" for name, text in self._fit]
        heads = self._headings
        rows = [
            f"| {_plain(name)} | {' | '.join(row or [UNKNOWN] + [''] * (len(heads) - 1))} |"
            for name, row in self._rows
        ]
        return "\n".join(
            [
                f"**Linear regression of {_plain(self.label)}, private**",
                "",
                "| | |",
                "| --- | --- |",
                *fit,
                "",
                f"| | {' | '.join(heads)} |",
                f"| --- |{' ---: |' * len(heads)}",
                *rows,
                "",
                self._note,
            ]
        )

    def to_html(self) -> str:
        """The same two tables in HTML."""
        fit = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._fit
        )
        heads = "".join(f"<th>{escape(head)}</th>" for head in ("", *self._headings))
        n = len(self._headings)
        rows = "".join(
            f"<tr><th>{escape(name)}</th>"
            + ("".join(f"<td>{each}</td>" for each in row) or f'<td colspan="{n}">{UNKNOWN}</td>')
            + "</tr>"
            for name, row in self._rows
        )
        return (
            f"<table><caption>Linear regression of {escape(self.label)}, private</caption>{fit}"
            f"</table><table><tr>{heads}</tr>{rows}</table><p>{self._note}</p>"
        )

    def _repr_html_(self) -> str:
        return self.to_html()


def _plain(name: str) -> str:
    """A name that does not end a cell of Markdown."""
    return name.replace("|", "\\|").replace("\n", " ")
