"""Private regression of counts, rates and positive amounts: a log link, Poisson or gamma."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray, wrong
from ndis.answer import Answer
from ndis.mechanisms import counts_newton
from ndis.mechanisms.counts_newton import LogDescent, LogScales, LogSetting
from ndis.mechanisms.intervals import COVERED, Intervals
from ndis.mechanisms.labelled import LabelledEstimator
from ndis.mechanisms.manners import require_fitted
from ndis.mechanisms.regression_forecast import imagined
from ndis.mechanisms.regression_methods import newton
from ndis.mechanisms.regression_methods.descent import MAX_ROUNDS, MIN_ROUNDS
from ndis.mechanisms.regression_methods.errors import Units, in_columns, known, widths_of
from ndis.mechanisms.run import Arrays, Forecast, Plan
from ndis.mechanisms.tabular import Regressor
from ndis.mechanisms.target import Part
from ndis.tables import GRID_NORM, Columns, Rows, Table
from ndis.tables.columns import INTERCEPT
from ndis.tables.sums import LogLink

# The power of the variance function, by which deviances are told.
_POWERS = {"poisson": 1, "gamma": 2}
# A label is at most so many times its expectation, as far as residuals of "gamma" go.
_RATIO = 64.0
_REASON = "Privacy follows from clipped sums alone, whatever the coefficients are."
# A release tells nothing of a coefficient whose error, over the width of its column's limits,
# changes expected labels by more than this exponent.
_NOTHING = 6.0
# No exponent beyond this is taken.
_FAR = 700.0
# Of imagined tables: rows, the mean label as a share of its limit, how far logarithms of expected
# labels spread.
_ROWS, _MEANS, _SPREADS = 3_000, (0.02, 0.2), (0.3, 1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePoissonRegression(Regressor, LabelledEstimator):
    """Regression of counts or amounts with a log link, private for every person with one row.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for the presence of one row.
    limits : mapping of str to (low, high), sequence of pairs, or "private", optional
        Public limits of the columns, the label's too where they are named; for arrays one pair for
        each feature. Values are clipped to them. "private", also instead of a pair: nobody knows
        them, and a tenth of the squared budget finds them; those of the label have to be known.
    label_limits : (low, high), optional
        Public limits of the label; the noise grows with the larger one. For "gamma" the least has
        to be positive.
    data_norm : float, optional
        The largest length a row of features can have; only if you give no limits. Longer rows are
        scaled down to it.
    family : {"poisson", "gamma"}, default "poisson"
        "poisson": counts, whose variance goes with their mean. "gamma": positive amounts, whose
        standard deviation does.
    exposure : str, optional
        A column that says how long, or how many, a row was exposed to be counted; expected labels
        are in proportion to it. Its limits are among `limits`, positive, and it is no feature.
    n_rounds : int or "auto", default "auto"
        Gradients; "auto" decides by the released histogram of row norms.
    max_rounds : int, default 20
        The most that "auto" takes. It is public, and the budget does not depend on it.
    formula : str, optional
        Which terms to fit, as for `PrivateLeastSquares`; not beside an exposure.
    columns, levels, n_rows
        As for every table.
    noise_scale, random_state, ledger
        As everywhere.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Of the logarithm of the expected label, in the table's own units.
    intercept_ : float
    feature_names_ : tuple of str
        The columns' names, levels included.
    release_ : Release
        What may be published: the coefficients and what they were computed from.
    guarantee_ : Guarantee
    noise_scale_ : dict of str to float
        Noise of the released sums, in units of what one row can change.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivatePoissonRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (50_000, 2))
    >>> y = rng.poisson(np.exp(0.5 + X @ [1.0, -0.5]))
    >>> model = PrivatePoissonRegression(
    ...     epsilon=1.0, delta=1e-6, limits=[(-1, 1)] * 2, label_limits=(0, 20), random_state=0
    ... ).fit(X, y)
    >>> bool(np.abs(model.coef_ - [1.0, -0.5]).max() < 0.05)
    True
    >>> bool(abs(model.predict([[0.0, 0.0]])[0] - np.exp(0.5)) < 0.05)
    True
    """

    family: str = "poisson"
    exposure: str | None = None
    n_rounds: int | str = "auto"
    max_rounds: int = MAX_ROUNDS
    formula: str | None = None  # type: ignore[misc]
    fit_intercept: ClassVar[bool] = True  # type: ignore[misc]
    methods: ClassVar[tuple[str, ...]] = ("newton",)
    weighs: ClassVar[bool] = True

    # -- before the data ---------------------------------------------------------------------

    def _plan(self, rows: Rows) -> Plan:
        setting = self._setting(rows)
        parts = [Part(name, 1.0, share) for name, share in setting.shares.items()]
        shapes = {"coef": (setting.n_features,), "intercept": (), **setting.shapes}
        return Plan.buying(
            parts,
            self._target(rows),
            self.noise_scale,
            method="newton",
            shapes=shapes,
            reason=_REASON,
        )

    def forecast(
        self, n_features: Any = None, n_rows: int | None = None, *, label: Any = None
    ) -> Forecast:
        """How much of the explained deviance noise will take; from public numbers.

        The method runs on imagined tables, whose labels have a mean of 2% to 20% of their limit,
        and expected labels that differ little or much.

        Parameters
        ----------
        n_features : int, optional
            How many features there are, where `limits` or `columns` do not name them.
        n_rows : int, optional
            Rows of the imagined tables; the declared `n_rows` if not given.
        label : str, optional
            The name of the label, as in `plan`.
        """
        rows = self._rows_declared(n_features, label)
        n_all = self._expected_rows(n_rows)
        n, d = min(n_all, _ROWS), len(rows.features.names)
        ends = float(rows.labels.low[0]), float(rows.labels.high[0])
        # Finding limits and exposures are left out: imagined tables are in units of their bounds.
        model = self._copy().set_params(
            **dict.fromkeys(("limits", "levels", "columns", "exposure", "n_rows", "ledger")),
            data_norm=1.0,
            label_limits=ends,
        )
        plan = model.plan(d).with_noise(n / n_all)
        # Imagined people have one row each; the plan has the noise for more.
        model = model.set_params(
            person=None,
            rows_per_person=1,
            missing_person="refuse",
            sample_weight=None,
            max_weight=None,
        )
        rng, lost = np.random.default_rng(0), []
        for mean, spread in itertools.product(_MEANS, _SPREADS):
            X, eta = imagined(d, 1, n, 0.5, spread, 0.0, 1.0, rng)
            expected = np.exp(eta[:, 0] - spread**2 / 2) * mean * ends[1]
            if self._family() == "poisson":
                y = np.asarray(rng.poisson(expected), np.float64)
            else:
                y = rng.gamma(2.0, expected / 2)
            y = np.clip(y, *ends)
            drawn = model.prepare(X, y, plan=plan).draw(rng)
            found = _expected(X @ drawn["coef"] + drawn["intercept"])
            best, own = (self._explained(y, m) for m in (expected, found))
            lost.append(max(best - own, 0.0))
        return Forecast(
            {"explained deviance lost": (min(lost), max(lost))},
            (
                self._assumed_rows(n_all),
                f"a mean label of {_MEANS[0]:.0%} to {_MEANS[1]:.0%} of its limit",
                f"logarithms of expected labels that spread by {_SPREADS[0]} to {_SPREADS[1]}",
            ),
        )

    def _explained(self, y: Any, expected: FloatArray, weights: Any = None) -> float:
        """The share of the deviance that expected labels explain."""
        from sklearn.metrics import d2_tweedie_score

        power = _POWERS[self._family()]
        return float(d2_tweedie_score(y, expected, sample_weight=weights, power=power))

    # -- with the data -----------------------------------------------------------------------

    def _study(self, table: Table, plan: Plan) -> Any:
        if table.once:
            raise ValueError(
                "Expected a table that can be read more than once, got one that cannot; hand over "
                "the table itself."
            )
        studied = newton.study(table, intercept=True)
        self._check_rows(table.n_rows)
        return studied

    def _draw(
        self, studied: Any, plan: Plan, table: Table, rng: np.random.Generator
    ) -> Mapping[str, Any]:
        setting = self._setting(table.rows)
        noise = LogScales(**{name: plan.noise_scale[name] for name in setting.shares})
        found, released = counts_newton.draw(table, studied, setting, noise, rng)
        return Arrays({**_in_units(found, found.theta, table.rows), **released}, found)

    def predict(self, X: Any) -> FloatArray:
        """Expected labels of new rows.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features), or a table with the features' columns
            With an `exposure`, a table that has its column too.
        """
        require_fitted(self)
        expected = _expected(self._raw(X) @ self.coef_ + self.intercept_)
        if self.exposure is not None:
            own = Columns([self.exposure], norm=1.0)
            blocks = Table.open(X, [self.exposure]).with_rows(Rows(own)).blocks(raw=True)
            expected = expected * np.concatenate([block.features[0] for block in blocks])
        return np.asarray(expected)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D^2, the share of the deviance that predictions explain.

        Parameters
        ----------
        X : table
            With the columns that were fitted.
        y : array_like or str
            Labels, or the name of the label's column in `X`.
        sample_weight : array_like of shape (n_rows,), optional
        """
        if isinstance(y, str):
            y = self._label_values(Table.open(X, [y]))
        return self._explained(y, self.predict(X), sample_weight)

    # -- what is known about errors ------------------------------------------------------------

    def intervals(self, level: float = 0.95, of: str = "population") -> Intervals:
        """Intervals for every coefficient, from the release alone, intercept first.

        Parameters
        ----------
        level : float, default 0.95
        of : {"population", "table"}
            "population": the coefficients of the law from which rows were drawn; sampling and the
            noise of privacy are covered. "table": those that an ordinary fit has on this table,
            values clipped to their limits; only the noise is covered.

        Notes
        -----
        As for `PrivateLeastSquares`, with one addition: residuals of counts are skewed, so that to
        clip them is a bias. What the released histogram says was clipped off counts as an error, as
        if it leaned in one direction. Noise may hide some of it: where amounts have heavy tails,
        intervals are too short. Sampling errors allow for any dispersion: variances that are not
        the mean are estimated.
        """
        require_fitted(self)
        _validate.one_of("of", of, list(COVERED))
        rows = self._recipe_
        if self._solution is None:
            arrays = {name: np.asarray(each) for name, each in self.release_.arrays.items()}
            setting = self._setting(rows)
            noise = LogScales(**{name: self.noise_scale_[name] for name in setting.shares})
            self._solution = LogDescent.again(setting, noise, arrays)
        found, bend = known(self._solution), self._solution.curvature
        placed = _in_units(self._solution, found.theta, rows)
        units = Units(rows.features.scale, rows.features.middle)
        weights = in_columns(bend, units) / GRID_NORM
        covariance = found.covariance(weights, of == "population")
        errors = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        reach = np.append(1.0, widths_of(rows.features))
        told = found.complete & (errors * reach < _NOTHING)
        return Intervals.of_normal(
            (INTERCEPT, *rows.features.names),
            np.append(placed["intercept"], placed["coef"])[None, :],
            errors,
            told,
            level=level,
            of=of,
            labels=rows.labels.names[:1],
        )

    def answers(self) -> list[Answer]:
        """The coefficients with intervals."""
        found = self.intervals()
        return found.answers([f"Regression of the logarithm of {name}" for name in found.labels])

    # -- parts -------------------------------------------------------------------------------

    def _family(self) -> str:
        return _validate.one_of("family", self.family, list(_POWERS))

    def _setting(self, rows: Rows) -> LogSetting:
        """What is known beforehand."""
        assert rows.labels is not None
        n_rounds = self.n_rounds
        if isinstance(n_rounds, str):
            _validate.one_of("n_rounds", n_rounds, ["auto"])
        else:
            n_rounds = _validate.count("n_rounds", n_rounds)
        most = _validate.count("max_rounds", self.max_rounds, MIN_ROUNDS)
        own = rows.labels
        low, high = float(own.low[0]), float(own.high[0])
        link = LogLink()
        if self._family() == "gamma":
            link = LogLink(low * float(own.scale[0]) / GRID_NORM, min(high / low, _RATIO))
        if self.exposure is not None:
            link = replace(link, exposure=1.0 / float(own.low[1] * own.scale[1]))
        return LogSetting(len(rows.features.names), 1, True, n_rounds, most, link)

    def _aside(self, labels: Sequence[str]) -> tuple[str, ...]:
        return (*labels, *(() if self.exposure is None else (self.exposure,)))

    def _placed(self) -> tuple[bool, bool]:
        return False, True  # a constant is added to the sums themselves

    def _both(self, features: Columns, labels: Sequence[str]) -> Rows:
        """Features, the label and the exposure."""
        if len(labels) != 1:
            raise ValueError(
                f"Expected one label, got {len(labels)}; fit a model for each of them."
            )
        limits = {labels[0]: self._ends(labels[0])}
        if self.exposure is not None and self.formula is not None:
            raise ValueError(
                f"Expected a formula or an exposure, got both, {self.formula!r} and "
                f"{self.exposure!r}; leave one out."
            )
        if self.exposure is not None:
            ends = self.limits.get(self.exposure) if isinstance(self.limits, Mapping) else None
            if ends is None or isinstance(ends, str) or not 0 < ends[0] < ends[1]:
                raise ValueError(
                    f"Expected public limits of the exposure {self.exposure!r} above zero, got "
                    f"{ends}; name them in limits."
                )
            limits[self.exposure] = ends
        columns = [*labels, *self._aside(())]
        return Rows(features, Columns(columns, limits=limits, centered=False), weighted=False)

    def _ends(self, label: str) -> tuple[float, float]:
        """The public limits of the label."""
        told = (self._label_limits([label]) or {}).get(label)
        if told is None or isinstance(told, str):
            raise wrong("label_limits")(
                f"Expected public limits of the label, got {told}; pass label_limits, its least "
                "and largest value, or name it in limits."
            )
        low, high = float(told[0]), float(told[1])
        if low < 0 or (low == 0 and self._family() == "gamma"):
            least = "at least 0" if self.family == "poisson" else "above 0"
            raise ValueError(
                f"Expected limits of the label {least} for family={self.family!r}, got "
                f"({low:g}, {high:g}); correct them, or take PrivateLeastSquares."
            )
        return low, high

    def _public(self, data: Table) -> dict[str, Any]:
        return {**super()._public(data), "label": [data.rows.labels.columns[0]]}


def _expected(logarithms: Any) -> FloatArray:
    """Exponentials that stay positive and finite, for rows far from all that were seen."""
    return np.asarray(np.exp(np.clip(logarithms, -_FAR, _FAR)))


def _in_units(found: LogDescent, theta: FloatArray, rows: Rows) -> dict[str, FloatArray]:
    """Coefficients and intercept in the table's own units, from those of the grid."""
    slopes, constants = found.curvature.slopes(theta)
    features, labels = rows.features, rows.labels
    coef = slopes[:, 0] * features.scale / GRID_NORM
    unit = GRID_NORM / float(labels.scale[0])
    if found.link.exposure:
        unit *= float(labels.scale[1]) * found.link.exposure
    intercept = constants[0] + found.base + math.log(unit) - features.middle @ coef
    return {"coef": coef, "intercept": np.asarray(intercept)}
