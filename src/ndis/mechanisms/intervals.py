"""Intervals of estimates: a table that says what it covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from ndis import _validate
from ndis._validate import FloatArray
from ndis.answer import Answer, headings

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# What intervals may be of, and what they cover then.
COVERED = {
    "population": "sampling and privacy noise",
    "table": "privacy noise",
}
UNKNOWN = "no information at this budget"


@dataclass(frozen=True)
class Intervals:
    """Estimates with what is known about their errors.

    Where the noise leaves no information, all four numbers are NaN.

    Attributes
    ----------
    names : tuple of str
    estimate, standard_error, lower, upper : ndarray of shape (n,), or (n_labels, n) for many labels
    level : float
        How often such an interval holds what it is for.
    of : str
        "population": what the rows were drawn from; "table": the table at hand.
    labels : tuple of str

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms import Intervals
    >>> found = Intervals.of_normal(("age",), np.array([[25.0]]), np.array([[0.2]]))
    >>> print(found)
                estimate  standard error  95% interval
    age               25             0.2    24.61 to 25.39
    The intervals cover sampling and privacy noise.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    lower: FloatArray
    upper: FloatArray
    level: float = 0.95
    of: str = "population"
    labels: tuple[str, ...] = ()

    @classmethod
    def of_normal(
        cls,
        names: tuple[str, ...],
        estimate: FloatArray,
        standard_error: FloatArray,
        known: Any = True,
        *,
        reach: float | None = None,
        level: float = 0.95,
        of: str = "population",
        labels: tuple[str, ...] = (),
    ) -> Intervals:
        """Intervals of normal errors; arrays have a row for each label.

        Parameters
        ----------
        names : tuple of str
        estimate, standard_error : ndarray of shape (n_labels, n)
        known : array_like of bool
            Where there is information at all.
        reach : float, optional
            Half an interval in standard errors, where errors have another law than the normal.
        level, of, labels
            As in the attributes.
        """
        share = _validate.probability("level", level)
        _validate.one_of("of", of, list(COVERED))
        seen = np.asarray(known) & ~np.isnan(estimate)
        parts = [np.where(seen, each, np.nan) for each in (estimate, standard_error)]
        reach = -float(ndtri(0.5 * (1.0 - share))) if reach is None else reach
        one: Any = 0 if len(estimate) == 1 else slice(None)
        parts += [parts[0] - reach * parts[1], parts[0] + reach * parts[1]]
        value, error, low, high = (part[one] for part in parts)
        return cls(names, value, error, low, high, share, of, labels)

    def answers(self, titles: Sequence[str], names: Sequence[str] | None = None) -> list[Answer]:
        """A table for each label, and what the intervals cover."""
        parts = (self.estimate, self.standard_error, self.lower, self.upper)
        n, note = len(self.names), f"The intervals cover {COVERED[self.of]}."
        each = np.stack([np.reshape(part, (-1, n)) for part in parts], axis=-1)
        return [
            Answer.of(title, headings(self.level), names or self.names, rows, note)
            for title, rows in zip(titles, each, strict=True)
        ]

    def plot(self, title: str = "") -> Figure:
        """Draw the estimates with their intervals; see `ndis.plots.intervals`."""
        from ndis import plots

        return plots.intervals(self, title=title)

    def to_frame(self) -> pd.DataFrame:
        """As a data frame of pandas: a row for each name, or for each label and name."""
        import pandas as pd

        columns = ("estimate", "standard_error", "lower", "upper")
        parts = {name: np.ravel(getattr(self, name)) for name in columns}
        if self.estimate.ndim == 1:
            return pd.DataFrame(parts, index=pd.Index(self.names))
        return pd.DataFrame(parts, index=pd.MultiIndex.from_product([self.labels, self.names]))

    def __str__(self) -> str:
        """A line for each estimate, and what the intervals cover."""
        n = len(self.names)
        parts = (self.estimate, self.standard_error, self.lower, self.upper)
        rows = zip(*(np.reshape(part, -1) for part in parts), strict=True)
        wide = max(12, *(len(name) + 2 for name in self.names))
        lines = [f"{'':{wide}}estimate  standard error  {100 * self.level:.4g}% interval"]
        for index, (estimate, error, low, high) in enumerate(rows):
            name = self.names[index % n]
            if n and index % n == 0 and self.estimate.ndim == 2:
                lines.append(f"{self.labels[index // n]}:")
            if np.isnan(error):
                lines.append(f"{name:{wide}}{UNKNOWN}")
            else:
                interval = f"{low:.4g} to {high:.4g}"
                lines.append(f"{name:{wide}}{estimate:8.4g}{error:16.4g}    {interval}")
        lines.append(f"The intervals cover {COVERED[self.of]}.")
        return "\n".join(lines)
