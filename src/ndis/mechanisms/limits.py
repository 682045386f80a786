"""The limits of a table's columns, bought from the data where nobody knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ndis._validate import FloatArray
from ndis.answer import Answer
from ndis.mechanisms import octaves
from ndis.mechanisms.run import Forecast, Plan
from ndis.mechanisms.tabular import TableEstimator
from ndis.tables import PRIVATE, Columns, Rows, Table


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLimits(TableEstimator):
    """Limits between which nearly all values of each column lie, to be used as `limits`.

    Every estimator that reads a table finds them itself with ``limits="private"``, for a tenth of
    its squared budget. Found here, they can be used by several.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for the presence of one row.
    columns : sequence of str, optional
        The columns to read; all if not given.
    noise_scale : dict, optional
        ``{"limits": s}``: noise of standard deviation s on each count, instead of `epsilon`.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    limits_ : dict of str to (float, float)
        The limits of every feature, to be passed on as `limits`; for an array,
        ``list(limits_.values())``.
    label_limits_ : (float, float), list of them, or None
        Those of the labels, if there are any.
    release_ : Release
        Noisy counts of rows: between powers of two, and in 64 bins where most of them are.
    guarantee_ : Guarantee
    noise_scale_ : dict of str to float

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateLimits
    >>> rng = np.random.default_rng(0)
    >>> people = np.column_stack([rng.uniform(18, 90, 50_000), rng.normal(40e3, 8e3, 50_000)])
    >>> PrivateLimits(epsilon=0.5, delta=1e-7, random_state=0).fit(people).limits_
    {'x0': (18.0, 90.0), 'x1': (13312.0, 62464.0)}
    """

    needs = ()

    limits: str = field(default=PRIVATE, init=False)
    data_norm: None = field(default=None, init=False)
    levels: None = field(default=None, init=False)
    n_rows: None = field(default=None, init=False)
    _reads_again = False
    weighs = True

    def forecast(self, n_features: int | None = None, *, n_rows: int | None = None) -> Forecast:
        """How many of a column's rows may lie beyond its limits; needs no data.

        Parameters
        ----------
        n_features : int, optional
            How many columns there are, where `columns` does not name them.
        n_rows : int
            How many rows the table is expected to have.
        """
        n_rows = self._expected_rows(n_rows)
        plan = self.plan(n_features)
        n_columns = plan.shapes["limit_bins"][0]
        # Three deviations more than eight bins together need to be seen, in either histogram.
        seen = octaves.threshold(n_columns, octaves.N_OCTAVES) + 3.0
        hidden = 2.0 * seen * np.sqrt(8.0) * plan.noise_scale["limits"]
        return Forecast(
            {"share of rows beyond a limit": (0.0, min(1.0, float(hidden) / n_rows))},
            (
                self._assumed_rows(n_rows),
                "those beyond a limit lie within eight bins of each histogram",
            ),
        )

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        found = Columns(labels, limits=self._label_limits(labels)) if labels else None
        return Rows(self._features(table, labels), found)

    def _plan(self, rows: Rows) -> Plan:
        return Plan.buying(
            [],
            self._target(rows),
            self.noise_scale,
            method="histograms",
            shapes={},
            reason="Two histograms of each column find its limits, whatever their scale.",
        )

    def _study(self, data: Table, plan: Plan) -> None:
        """Counts are all that is read."""

    def _draw(
        self, studied: None, plan: Plan, data: Table, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        return {}

    def _finish(self, rows: Rows) -> None:
        self.limits_ = dict(rows.features.limits or {})
        self.label_limits_ = None
        if rows.labels is not None:
            pairs = list(rows.labels.limits.values())
            self.label_limits_ = pairs[0] if len(pairs) == 1 else pairs

    def answers(self) -> list[Answer]:
        """The limits of each column."""
        return [Answer.of("limits", ["low", "high"], self.limits_, self.limits_.values())]
