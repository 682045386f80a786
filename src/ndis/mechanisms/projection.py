"""Private random projection: a sketch of a table that may be published.

The sketch of D (n x d) is D^T times an n x r matrix of normals, plus noise. Its columns are
independent N(0, D^T D + ridge I), so it is drawn from that d x d matrix: one pass over the table,
and the n x r matrix never exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.answer import Answer
from ndis.calibration import ROUND_UP
from ndis.loss import PrivacyLoss, QuadraticLoss
from ndis.mechanisms import projection_methods as methods
from ndis.mechanisms.intervals import Intervals
from ndis.mechanisms.run import Forecast, Plan
from ndis.mechanisms.sketch import Sketch, own_units
from ndis.mechanisms.tabular import TableEstimator
from ndis.mechanisms.target import LIMITS, Noise, Part, chosen_noise
from ndis.randomness import draw_sampled_sketch, draw_sketch
from ndis.tables import GRID_NORM, MOST_ROWS, ExactSum, Rows, Table, leverages

_REASONS = {
    "auto": "The same noise for every table: a test of the table saves noise where its least "
    "eigenvalue is large and costs noise elsewhere, which nobody knows beforehand.",
    "ridge": "It was asked for: the same noise for every table.",
    "relative": "Noise for the declared set of tables, the same for all of them.",
    "sampled": "It was asked for: a sketch of a secret sample of the rows, with less noise than "
    "one of all rows needs, and less signal.",
}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateProjection(TableEstimator):
    """A sketch of a table, private for every person with one row in it.

    Parameters
    ----------
    epsilon, delta : float
        What is to be promised for the presence of one row; always asked for.
    n_components : int
        Number of columns of the sketch; 1 releases one random linear combination of the rows.
    limits : mapping of str to (low, high), sequence of pairs, or "private", optional
        The public limits of every numeric column, or "private" if nobody knows them. The sketch is
        of the table scaled by them, and `sketch_` answers in the table's own units.
    data_norm : float, optional
        A public bound on the Euclidean norm of a (scaled) row; longer rows are scaled down to it.
        One of the two is needed, and neither may be taken from the data.
    method : {"auto", "ridge", "ptr"}
        "ridge", which is "auto", adds the least noise that protects every table. "ptr" (propose,
        test, release; with the package ndis-papers) pays for a noisy lower bound on the least
        eigenvalue and adds less where that is large.
    leverage : float, optional
        Declares a set of tables: those in which no row has a leverage above this. The noise follows
        from it, and the promise covers tables of the set only.
    sampling_rate : float, optional
        Sketch a secret sample instead, in which each row is with this probability. It needs less
        noise than a sketch of all rows, but more beside what is left of the rows.
    fit_intercept : bool, default False
        Whether a column of ones comes first; then columns with limits are centred too.
    max_rows : int
        A public cap on the number of rows.
    columns, levels, n_rows, noise_scale, random_state, ledger
        As in every estimator of tables. For "ptr" the noise is a dict of "sketch" and "test", for
        private limits one of "sketch" and "limits".

    Attributes
    ----------
    release_ : Release
        What may be published.
    sketch_ : Sketch
        The same, ready to estimate from.
    guarantee_ : Guarantee
    noise_scale_ : float or dict of str to float
        The noise of an entry of the scaled table's sketch, and for "ptr" also of its test.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateProjection
    >>> table = np.random.default_rng(0).uniform(-1, 1, (10_000, 4))
    >>> projection = PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=2.0, n_components=500)
    >>> f"{projection.calibrate(4):.4f}"
    '17.0120'
    >>> projection.fit(table).sketch_.matrix.shape
    (4, 500)
    """

    needs = ("limits|data_norm", "n_components")
    methods = ("ridge",)

    n_components: int
    method: str = "auto"
    leverage: float | None = None
    sampling_rate: float | None = None
    fit_intercept: bool = False
    max_rows: int = MOST_ROWS

    # -- before the data ---------------------------------------------------------------------

    def _plan(self, rows: Rows) -> Plan:
        target, d = self._target(rows), len(rows.features.names)
        r = _validate.count("n_components", self.n_components)
        shapes: dict[str, tuple[int, ...]] = {"sketch": (d, r)}
        if self.sampling_rate is not None and self.leverage is not None:
            raise ValueError(
                f"Expected sampling_rate without leverage={self.leverage}: a row weighs more in a "
                f"sample than in the table, got sampling_rate={self.sampling_rate}; leave one of "
                "them out."
            )
        what = "a declared leverage" if self.leverage is not None else "a sampling_rate"
        if rows.bought and not (self.leverage is None and self.sampling_rate is None):
            raise ValueError(
                f"Expected public limits with {what}, got private ones; pass the least and largest "
                "value of every column."
            )
        parts, loss = self._ridge(rows)
        if self.leverage is None:
            kind = self.method if self.sampling_rate is None else "sampled"
            promise, reason = target.promise(loss, "add-remove"), _REASONS[kind]
        else:
            reason = _REASONS["relative"]
            note = f"The set: tables in which no row has a leverage above {self.leverage:.17g}."
            promise = target.promise(loss, "add-remove", "relative", note)
        return Plan("ridge", parts, promise, shapes, reason)

    def _ridge(self, rows: Rows) -> tuple[tuple[Part, ...], PrivacyLoss]:
        """What method "ridge" buys, and its loss; limits to be found are part of both."""
        norm, target, leverage = rows.features.norm, self._target(rows), self.leverage
        if leverage is not None:
            leverage = _validate.probability("leverage", leverage)
        rate = self._rate()
        parts = [Part("sketch"), Part(LIMITS, target.limits)] if target.limits else [Part(None)]
        given = self._given(parts)
        found = parts[1:] if given is None else given[1:]
        if given is None:
            found = [replace(part, noise=target.limits_noise) for part in found]
        beside = methods.shift(found[0].noise / target.limits) if found else None
        floor = methods.least_grid_ridge(self.max_rows, len(rows.features.names))
        if given is None:
            ratio = methods.ridge_ratio(target, self.n_components, leverage, beside, rate)
            scale = methods.above_floor(ratio, floor, None) * norm * ROUND_UP
        else:
            scale = given[0].noise
            methods.above_floor(scale / norm, floor, scale)
        loss = QuadraticLoss(methods.excess(scale / norm, leverage), 0.0, self.n_components)
        whole = methods.both_ways(loss, beside, rate)
        return (replace(parts[0], noise=scale), *found), whole

    def _rate(self) -> float | None:
        """The rate at which rows are sampled, checked."""
        if self.sampling_rate is None:
            return None
        return _validate.probability("sampling_rate", self.sampling_rate)

    def _given(self, parts: Sequence[Part]) -> list[Part] | None:
        """The parts with the noise that the caller has chosen, if that is so."""
        return None if self.noise_scale is None else chosen_noise(self.noise_scale, parts)

    def forecast(self, n_features: int | None = None, *, n_rows: int | None = None) -> Forecast:
        """The error to be expected, before any budget is spent.

        Parameters
        ----------
        n_features : int, optional
            How many columns there are, where `limits` or `columns` do not name them.
        n_rows : int, optional
            Rows of the table; the declared `n_rows` if not given.

        Examples
        --------
        >>> from ndis import PrivateProjection
        >>> projection = PrivateProjection(
        ...     epsilon=1.0, delta=1e-6, data_norm=1.0, n_components=1000
        ... )
        >>> low, high = projection.forecast(10, n_rows=100_000).errors[
        ...     "relative error of the Gram matrix"
        ... ]
        >>> f"{low:.3f} to {high:.3f}"
        '0.106 to 0.114'
        """
        rows = self._rows_declared(n_features)
        other, d, r = self._other, len(rows.features.names), self.n_components
        plan = (other or self)._plan(rows)
        n, rate = self._expected_rows(n_rows), self._rate() or 1.0

        def noisy(share: float) -> float:
            """How many times the Gram matrix of such rows the sketch's covariance is."""
            moment = rate * float(n * (share * GRID_NORM) ** 2 / d)
            if other is None:
                ridge = methods.grid_ridge(_of_sketch(plan.noise_scale) / rows.features.norm)
            else:
                ridge = other.expected_ridge(moment, plan, rows)  # type: ignore[attr-defined]
            return 1.0 + ridge / moment

        errors = {"relative error of the Gram matrix": math.sqrt((d + 1.0) / r)}
        if other is None and rate == 1.0:  # otherwise the ridge or the table is itself random
            name = "relative spectral error, 19 of 20 releases"
            errors[name] = methods.spectral_error(d, r, failure=0.05)
        ends = noisy(1.0), noisy(1.0 / 3.0)
        # What is not in the sample is missing: (1-q)/q times the sum of |x|^4, over |G|^2.
        missing = math.sqrt((1.0 - rate) / rate * d / n)
        return Forecast(
            {
                name: (math.hypot(error * ends[0], missing), math.hypot(error * ends[1], missing))
                for name, error in errors.items()
            },
            (
                f"{n} rows that point everywhere alike",
                "of norm between a third of the bound and the bound",
            ),
        )

    # -- with the data -----------------------------------------------------------------------

    def _study(self, data: Table, plan: Plan) -> ExactSum:
        """The Gram matrix; a sample of the rows is taken later, by the generator that draws."""
        if self.sampling_rate is not None:
            data.require_here("sample")
            if data.once:
                raise ValueError(
                    "Expected a table that can be read twice to sample its rows, got one that can "
                    "be read only once; write it to a file first."
                )
        gram = data.moments["gram"]
        self._check_rows(data.n_rows)
        methods.check_leverages(data, self.leverage)
        return gram

    def _draw(
        self, studied: ExactSum, plan: Plan, data: Table, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        norm = data.rows.features.norm
        ridge = methods.grid_ridge(_of_sketch(plan.noise_scale) / norm)
        if (rate := self._rate()) is None:
            sketch = draw_sketch(studied, ridge, self.n_components, rng)
        else:
            sketch = draw_sampled_sketch(data.sampled_gram, rate, ridge, self.n_components, rng)
        return {"sketch": norm / GRID_NORM * sketch}

    def _finish(self, rows: Rows) -> None:
        arrays, units = self.release_.arrays, own_units(rows.features)
        ridge = float(arrays.get("ridge", _of_sketch(self.noise_scale_) ** 2))
        rate, shape = self._rate() or 1.0, units @ units.T
        self.sketch_ = Sketch(
            units @ arrays["sketch"] / math.sqrt(rate),
            rows.features.names,
            ridge / rate * shape,
            self.release_.parameters.get("n_rows"),
            0.0 if rate == 1.0 else (1.0 - rate) / rate * rows.features.norm**2 * shape,
        )

    def intervals(self, level: float = 0.95, of: str = "table") -> Intervals:
        """Intervals for the inner products of all pairs of columns.

        Parameters
        ----------
        level : float, default 0.95
        of : {"table"}
            The inner products of this table: the noise of privacy and the randomness of the
            projection are covered. Other questions to `sketch_` come with standard errors.
        """
        _validate.one_of("of", of, ["table"])
        names, found = self.sketch_.columns, self.sketch_.gram()
        return Intervals.of_normal(names, *found, level=level, of=of, labels=names)

    def answers(self) -> list[Answer]:
        """The inner products of all pairs of columns."""
        names, gram = self.sketch_.columns, self.sketch_.gram()
        return Answer.of_matrix("Gram matrix", names, names, gram)

    # -- for auditors ------------------------------------------------------------------------

    @property
    def hidden_answers(self) -> int:
        """How many of the first answers are not released as they are, where a method has some."""
        return int(getattr(self._other, "hidden_answers", 0))

    def removal_losses(self, X: Any) -> QuadraticLoss:
        """The loss of one column for every row of X, row present first.

        For auditors: all removals at the price of one more pass, by leverages.
        """
        if self._other is not None:
            raise ValueError(
                f"Expected a method whose output is one Gaussian, got method={self.method!r}; "
                "audit it by samples."
            )
        table = self.prepare(X).data
        methods.check_leverages(table, self.leverage)
        noise = self._ridge(table.rows)[0][0].noise
        _, found = leverages(table, methods.grid_ridge(noise / table.rows.features.norm))
        return QuadraticLoss.from_leverage(np.minimum(found, 1.0))


def _of_sketch(noise: Noise) -> float:
    return float(noise["sketch"] if isinstance(noise, Mapping) else noise)
