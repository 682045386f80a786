"""Private least squares: linear regression whose coefficients may be published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray, wrong
from ndis.answer import Answer
from ndis.loss import QuadraticLoss
from ndis.mechanisms.center import count_noise, count_of
from ndis.mechanisms.intervals import COVERED, Intervals
from ndis.mechanisms.labelled import LabelledEstimator
from ndis.mechanisms.manners import require_fitted
from ndis.mechanisms.people import CLEAR_OF_CLIPS
from ndis.mechanisms.regression_methods import newton, noisy_moments
from ndis.mechanisms.regression_methods.descent import (
    MAX_ROUNDS,
    MIN_ROUNDS,
    Descent,
    Scales,
    Setting,
)
from ndis.mechanisms.regression_methods.errors import (
    Known,
    Units,
    fit_of,
    in_columns,
    known,
    widths_of,
)
from ndis.mechanisms.regression_summary import Figure, RegressionSummary, WaldTest
from ndis.mechanisms.run import Arrays, Forecast, Plan
from ndis.mechanisms.tabular import Regressor
from ndis.mechanisms.target import Part
from ndis.tables import GRID_NORM, MOST_ROWS, Columns, Rows, Table
from ndis.tables.columns import INTERCEPT

# A release tells nothing of a coefficient whose error, over the width of its column's limits, is
# more than so many widths of the label's. (Limits may be much wider than what is between them.)
_NOTHING = 6.0
_REASONS = {
    "newton": "In the benchmark it has the least error, or close to it, at all sizes and epsilons.",
    "noisy-gram": "Noisy second moments serve for any regression among the same columns.",
}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLeastSquares(Regressor, LabelledEstimator):
    """Linear regression, private for every person with one row in the table.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for the presence of one row.
    limits : mapping of str to (low, high), sequence of pairs, or "private", optional
        Public limits of the columns, the label's too where they are named; for arrays one pair for
        each feature. Values are clipped to them. "private", also instead of a pair: nobody knows
        them, and a tenth of the squared budget finds them.
    label_limits : (low, high), or sequence of pairs, optional
        Public limits of the label, or of each label.
    data_norm : float, optional
        The largest length a row of features can have; only if you give no limits. Longer rows are
        scaled down to it. With limits, the length of a row that they have scaled.
    label_bound : float, optional
        A public bound on the absolute value of the label, or on the norm of many, instead of
        limits; larger ones are clipped.
    method : str, default "auto"
        How the fit is computed; leave it at "auto". That is "newton": a noisy Hessian, and rounds
        of noisy gradients whose clipping is chosen from what was released before. "noisy-gram"
        reads the table once and releases second moments. With the package ndis-papers,
        "sketch" solves on a private projection of one label and its features; "als" releases the
        solution of a sketch only, "gaussian-limit" a draw from the limit law of that.
    n_components : int, optional
        Columns of the sketch, for the methods that have one.
    leverage, joint_leverage : float, optional
        Promise that no row has more than this leverage, among the features or with the label; the
        guarantee then covers only such tables. For these methods.
    max_rows : int
        A public cap on the number of rows, for these methods.
    n_rounds : int or "auto", default "auto"
        Gradients of "newton"; "auto" decides by the released histogram of row norms.
    max_rounds : int, default 20
        The most that "auto" takes. It is public, and the budget does not depend on it.
    fit_intercept : bool, default True
        Without an intercept, columns are scaled by limits and not centred.
    formula : str, optional
        Which terms to fit, as formulaic reads it: ``"pay ~ age + C(sector) + bs(hired, df=4)"``.
        Limits and levels travel through it, so that every column of the design matrix has public
        bounds. The first level of a column is the baseline.
    columns, levels, n_rows
        As for every table.
    noise_scale, random_state, ledger
        As everywhere.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,), or (n_labels, n_features)
        In the table's own units.
    intercept_ : float, or ndarray of shape (n_labels,)
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
    >>> from ndis import PrivateLeastSquares
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (50_000, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + 0.3 + 0.1 * rng.standard_normal(50_000)
    >>> model = PrivateLeastSquares(
    ...     epsilon=1.0, delta=1e-6, limits=[(-1, 1)] * 3, label_limits=(-4, 5), random_state=0
    ... ).fit(X, y)
    >>> bool(np.abs(model.coef_ - [1.0, -2.0, 0.5]).max() < 0.02)
    True
    >>> f"{model.score(X, y):.2f}"
    '0.99'
    """

    label_bound: float | None = None
    method: str = "auto"
    n_components: int | None = None
    leverage: float | None = None
    joint_leverage: float | None = None
    max_rows: int = MOST_ROWS
    n_rounds: int | str = "auto"
    max_rounds: int = MAX_ROUNDS
    fit_intercept: bool = True
    formula: str | None = None  # type: ignore[misc]
    methods = ("newton", "noisy-gram")
    weighs = True
    _clear = CLEAR_OF_CLIPS

    # -- before the data ---------------------------------------------------------------------

    def _plan(self, rows: Rows) -> Plan:
        method, target = self._method(), self._target(rows)
        d, K = len(rows.features.names), len(rows.labels.names)
        one = K == 1
        shapes: dict[str, tuple[int, ...]] = {
            "coef": (d,) if one else (K, d),
            "intercept": () if one else (K,),
        }
        if method == "newton":
            setting = self._setting(rows)
            parts = [Part(name, 1.0, share) for name, share in setting.shares.items()]
            shapes |= setting.shapes
        else:
            parts = [Part("moments", noisy_moments.sensitivity_of(d))]
            shapes["moments"] = (d + 1 + K, d + 1 + K)
        reason = _REASONS[method]
        return Plan.buying(
            parts, target, self.noise_scale, method=method, shapes=shapes, reason=reason
        )

    def forecast(
        self,
        n_features: Any = None,
        n_rows: int | None = None,
        *,
        explained: tuple[float, float] = (0.2, 0.9),
        label: Any = None,
    ) -> Forecast:
        """What the release will be good for, before any budget is spent; from public numbers.

        The method runs on imagined tables, under assumptions that span what tables are like; the
        range is over all of them.

        Parameters
        ----------
        n_features : int, optional
            How many features there are, where `limits` or `columns` do not name them.
        n_rows : int, optional
            Rows of the imagined tables; the declared `n_rows` if not given.
        explained : (float, float), default (0.2, 0.9)
            The least and largest R^2 to assume: the explained share of the label's variance.
        label : str or sequence of str, optional
            The names of the labels, as in `plan`.

        Examples
        --------
        >>> from ndis import PrivateLeastSquares
        >>> model = PrivateLeastSquares(
        ...     epsilon=1.0, delta=1e-6, limits=[(0, 1)] * 3, label_limits=(0, 1)
        ... )
        >>> few, many = (model.forecast(n_rows=n).errors for n in (500, 50_000))
        >>> max(few["explained variance lost"]) > max(many["explained variance lost"])
        True
        """
        from ndis.mechanisms.regression_forecast import forecast

        rows = self._rows_declared(n_features, label)
        n = self._expected_rows(n_rows)
        low, high = (_validate.probability("explained", share) for share in explained)
        # Finding limits is left out: imagined tables are in units of their bounds.
        return forecast(self, self._other or self, rows, n, (low, high))

    # -- with the data -----------------------------------------------------------------------

    def _study(self, table: Table, plan: Plan) -> Any:
        if plan.method == "newton" and table.once:
            raise ValueError(
                "Expected a table that can be read more than once, got one that cannot; hand over "
                "the table itself, or take method='noisy-gram', which reads it once."
            )
        studied: Any
        if plan.method == "newton":
            studied = newton.study(table, bool(self.fit_intercept))
        else:
            studied = noisy_moments.study(table)
        self._check_rows(table.n_rows)
        return studied

    def _draw(
        self, studied: Any, plan: Plan, table: Table, rng: np.random.Generator
    ) -> Mapping[str, Any]:
        released: dict[str, FloatArray]
        if plan.method == "newton":
            setting = self._setting(table.rows)
            noise = Scales(**{name: plan.noise_scale[name] for name in setting.shares})
            found, released = newton.draw(table, studied, setting, noise, rng)
        else:
            released = {"moments": noisy_moments.draw(studied, plan.noise_scale["moments"], rng)}
            del studied  # matrices
            found = self._found(released, plan.noise_scale, table.rows)
        units = Units(table.rows.features.scale, table.rows.features.middle)
        slopes = found.curvature.coefficients(found.theta)
        coefficients = _in_units(slopes, units, table.rows.labels, self.fit_intercept)
        return Arrays({**coefficients, **released}, found)

    def removal_losses(self, X: Any, y: Any) -> QuadraticLoss:
        """The loss of the coefficients for every row, row present first, in one more pass.

        For auditors, and for methods of other packages that know it.
        """
        other = self._other
        if other is None or not hasattr(other, "removal_losses"):
            raise ValueError(
                f"Expected method='gaussian-limit', got method={self.method!r}; audit others by "
                "samples."
            )
        losses: QuadraticLoss = other.removal_losses(self.prepare(X, y).data)
        return losses

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any) -> FloatArray:
        """Predicted labels of new rows.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features), or a table with the features' columns
        """
        require_fitted(self)
        return np.asarray(self._raw(X) @ self.coef_.T + self.intercept_)

    # -- what is known about errors ------------------------------------------------------------

    def intervals(self, level: float = 0.95, of: str = "population") -> Intervals:
        """Intervals for every coefficient, from the release alone, intercept first.

        Parameters
        ----------
        level : float, default 0.95
        of : {"population", "table"}
            "population": the coefficients of the law from which rows were drawn; sampling and the
            noise of privacy are covered. "table": those that ordinary least squares has on this
            table, values clipped to their limits; only the noise is covered.

        Notes
        -----
        The estimates are not drawn towards zero, as `coef_` is where little is known. Errors are
        what the noise of gradients does, as much again for clipping, and what is hidden by the
        noise of the Hessian. Sampling errors are those of a sandwich estimate where there are rows
        enough to buy it (at epsilon 1 and four columns about 2,000), and else those of equal
        variances. Where columns hardly differ, errors count the noise in that, as Fieller's
        interval of a quotient does. All numbers are NaN where noise hides a direction, so that
        columns may stand in for each other; those of one column are where its error tells nothing:
        over the width of its limits, six times the width of the label's.
        """
        names, estimate, covariance = self._told(of)
        return Intervals.of_normal(
            names,
            estimate,
            np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)),
            level=level,
            of=of,
            labels=self._recipe_.labels.names,
        )

    def answers(self) -> list[Answer]:
        """The regression table; of several labels, the coefficients of each."""
        if len(labels := self._recipe_.labels.names) == 1:
            return self.summary().answers()
        return self.intervals().answers([f"Linear regression of {name}" for name in labels])

    def wald_test(self, names: Sequence[str], of: str = "population") -> WaldTest:
        """Whether some coefficients may all be zero, from the release alone.

        Parameters
        ----------
        names : sequence of str
            Columns or, of columns with levels, single levels, as in `feature_names_`.
        of : {"population", "table"}
            What errors count, as in `intervals`.

        Returns
        -------
        WaldTest
            With `statistic`, `df` and `p_value`, all counting the noise of privacy.
        """
        told, estimate, covariance = self._told(of)
        places = self._places(names, told)
        chosen = np.ix_(places, places)
        left = self._counted()[0] - len(told)
        wanted = tuple(told[place] for place in places)
        return WaldTest.of(wanted, estimate[0][places], covariance[0][chosen], left)

    def summary(self, level: float = 0.95, of: str = "population") -> RegressionSummary:
        """What a regression table has, from the release alone; `print` shows it.

        Parameters
        ----------
        level : float, default 0.95
        of : {"population", "table"}
            What errors, tests and intervals count, as in `intervals`.

        Notes
        -----
        R^2 and the residual standard deviation of "newton" come from a histogram of residuals and
        of row lengths together. They are rough where few rows are far out in heavy tails, since
        noise hides these, and their intervals carry no more than what nearby bins may hide.
        """
        found = self.intervals(level, of)
        if len(self._recipe_.labels.names) > 1:
            raise ValueError(
                f"Expected one label for a summary, got {len(self._recipe_.labels.names)}; fit one "
                "at a time, or ask for intervals."
            )
        (rows, rows_noise), p = self._counted(), len(found.names)
        fit, sampling = fit_of(self._solved, self._errors), of == "population"
        share, error = fit.share
        # Noise may make the share of a column that explains nothing negative.
        drawn = 2.0 * math.sqrt(max(share, 0.0)) * (1.0 - share) / math.sqrt(rows)
        error = math.hypot(error, drawn * sampling)
        left = rows - p
        widened = (rows - bool(self.fit_intercept)) / left if left > 0 else math.nan
        unit = GRID_NORM / float(self._recipe_.labels.scale[0])
        square, noise = fit.residual
        noise = math.hypot(noise, fit.residual_sampling * sampling)
        deviation = unit * math.sqrt(max(square, 0.0) * max(widened, 0.0))
        return RegressionSummary(
            self._recipe_.labels.names[0],
            found,
            Figure.of_normal(share, error, level, (0.0, 1.0)),
            Figure.of_normal(1.0 - (1.0 - share) * widened, error * widened, level, (-1.0, 1.0)),
            Figure.of_normal(deviation, 0.5 * deviation * noise / square, level, (0.0, math.inf)),
            Figure.of_normal(rows, rows_noise, level, (0.0, math.inf)),
            self.wald_test([name for name in found.names if name != INTERCEPT], of),
            str(self.release_.parameters["method"]),
            self.guarantee_,
        )

    def submodel(self, names: Sequence[str]) -> PrivateLeastSquares:
        """The regression on some of the features, for free, from released second moments.

        Parameters
        ----------
        names : sequence of str
            Columns of the table; one with levels brings all of them.
        """
        require_fitted(self)
        if "moments" not in self.release_.arrays:
            raise ValueError(
                f"Expected method='noisy-gram', got method={self.method!r}; its release serves for "
                "one set of features only: fit another."
            )
        rows = self._recipe_
        columns = [name for name in rows.features.columns if name in {*names}]
        if not columns or len(columns) < len(names):
            raise ValueError(
                f"Expected some of the columns {', '.join(map(repr, rows.features.columns))}, got "
                f"{list(names)!r}; name columns of the table."
            )
        places = self._places(columns, self.feature_names_)
        d, K = len(self.feature_names_), len(rows.labels.names)
        kept = [*places, *range(d, d + 1 + K)]
        part = np.asarray(self.release_.arrays["moments"])[np.ix_(kept, kept)]
        model = copy(self)
        model._recipe_ = replace(rows, features=rows.features.only(columns))
        model._units_ = Units(*(np.asarray(each)[places] for each in self._units_))
        model._features_read, model.n_features_in_ = tuple(columns), len(columns)
        model.feature_names_ = model._recipe_.features.names
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_
        model._solution = noisy_moments.Solution(
            part,
            self.noise_scale_["moments"],
            len(places),
            bool(self.fit_intercept),
            noisy_moments.constant_of(d),
        )
        model._known = None
        bend, theta = model._solution.curvature, model._solution.theta
        placed = _in_units(bend.coefficients(theta), model._units_, rows.labels, self.fit_intercept)
        model.coef_, model.intercept_ = placed["coef"], placed["intercept"]
        return model

    def _finish(self, rows: Rows) -> None:
        super()._finish(rows)
        self._units_ = Units(rows.features.scale, rows.features.middle)
        self._known: Known | None = None

    def _told(self, of: str) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
        """Names, estimates and covariances of coefficients, a row for each label.

        An estimate is NaN where the noise leaves no information.
        """
        require_fitted(self)
        if self._other is not None:
            raise ValueError(
                f"Expected method='newton' or 'noisy-gram', got method={self.method!r}, which "
                "tells no intervals; take one of these, or a PrivateProjection."
            )
        _validate.one_of("of", of, list(COVERED))
        bend, found, labels = self._solved.curvature, self._errors, self._recipe_.labels
        units, d, K = self._units_, len(self.feature_names_), len(labels.names)
        placed = _in_units(bend.coefficients(found.theta), units, labels, self.fit_intercept)
        estimate = np.reshape(placed["coef"], (K, d))
        weights, names = in_columns(bend, units), self.feature_names_
        if self.fit_intercept:
            estimate = np.column_stack([np.reshape(placed["intercept"], K), estimate])
            names = (INTERCEPT, *names)
        else:
            weights = weights[1:]
        covariance = found.covariance(weights, of == "population")
        covariance = covariance / labels.scale[:, None, None] ** 2
        reach = np.append([1.0] * self.fit_intercept, widths_of(self._recipe_.features))
        errors = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)) * reach
        told = found.complete & (errors < _NOTHING * widths_of(labels)[:, None])
        return names, np.where(told, estimate, np.nan), covariance

    @property
    def _solved(self) -> Any:
        """What the release leads to, found again where it was read from a file."""
        if self._solution is None:
            self._solution = self._found(self.release_.arrays, self.noise_scale_, self._recipe_)
        return self._solution

    @property
    def _errors(self) -> Known:
        """What is known about errors, found when it is first asked for."""
        if self._known is None:
            self._known = known(self._solved)
        return self._known

    def _counted(self) -> tuple[float, float]:
        """About how many rows there are, and the noise of that."""
        if self.n_rows is not None:
            return float(self.n_rows), 0.0
        arrays, noise = self.release_.arrays, self.noise_scale_
        if "center" in arrays:
            return count_of(arrays["center"], noise["center"]), count_noise(noise["center"])
        counted: tuple[float, float] = self._solved.counted
        return counted

    def _places(self, names: Sequence[str], told: Sequence[str]) -> list[int]:
        """Where columns, with all their levels, or single coefficients stand among those told."""
        if isinstance(names, str):
            names = [names]
        features = self._recipe_.features
        each = {name: features.names_of(name) for name in features.columns}
        wanted = [part for name in names for part in each.get(name, (name,))]
        if not wanted or not {*wanted} <= {*told}:
            raise ValueError(
                f"Expected names of columns or coefficients, got {list(names)!r}; choose from "
                f"{', '.join(map(repr, told))}."
            )
        return [list(told).index(name) for name in wanted]

    def _found(self, arrays: Mapping[str, Any], noise: Mapping[str, float], rows: Rows) -> Any:
        """What the released sums lead to: post-processing, done again from a release."""
        known = {name: np.asarray(array) for name, array in arrays.items()}
        if "moments" in known:
            d, intercept = len(rows.features.names), bool(self.fit_intercept)
            return noisy_moments.Solution(known["moments"], noise["moments"], d, intercept)
        setting = self._setting(rows)
        own = Scales(**{name: noise[name] for name in setting.shares})
        return Descent.again(setting, own, known)

    # -- parts -------------------------------------------------------------------------------

    def _method(self) -> str:
        return "newton" if self.method == "auto" else self.method

    def _setting(self, rows: Rows) -> Setting:
        """What "newton" knows beforehand."""
        assert rows.labels is not None
        n_rounds = self.n_rounds
        if isinstance(n_rounds, str):
            _validate.one_of("n_rounds", n_rounds, ["auto"])
        else:
            n_rounds = _validate.count("n_rounds", n_rounds)
        return Setting(
            len(rows.features.names),
            len(rows.labels.names),
            bool(self.fit_intercept),
            n_rounds,
            _validate.count("max_rounds", self.max_rounds, MIN_ROUNDS),
        )

    def _both(self, features: Columns, labels: Sequence[str]) -> Rows:
        """Features and labels; a record's labels shrink with it if that keeps the relation."""
        return Rows(features, self._labels(labels), weighted=not self.fit_intercept)

    def _placed(self) -> tuple[bool, bool]:
        # A constant is added to the sums themselves, where it costs next to nothing; but a sketch
        # is of whole rows.
        centered = bool(self.fit_intercept)
        return centered and getattr(self._other, "whole_rows", False), centered

    def _labels(self, names: Sequence[str]) -> Columns:
        limits = self._label_limits(names)
        if (limits is None) == (self.label_bound is None):
            what = "none" if limits is None else "both"
            raise wrong("label_limits", "label_bound")(
                f"Expected limits of the label or label_bound, got {what}; pass label_limits, its "
                "least and largest value (or name it in limits), or label_bound; for a label that "
                "is text use a logistic regression."
            )
        bound = self.label_bound
        bound = None if bound is None else _validate.positive("label_bound", bound)
        return Columns(names, limits=limits, norm=bound, centered=bool(self.fit_intercept))


def _in_units(
    line: tuple[FloatArray, FloatArray], units: Units, labels: Columns, intercept: bool
) -> dict[str, Any]:
    """Coefficients and intercept in the table's own units, from those of the grid."""
    slopes, constants = line
    coef = slopes * units.scale[:, None] / labels.scale[None, :]
    constant = labels.middle + constants * GRID_NORM / labels.scale - units.middle @ coef
    if not intercept:
        constant = np.zeros_like(constant)
    one = len(labels.names) == 1
    return {"coef": coef[:, 0] if one else coef.T, "intercept": constant[0] if one else constant}
