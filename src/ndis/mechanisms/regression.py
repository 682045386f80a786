"""Private least squares: linear regression whose coefficients may be published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import QuadraticLoss
from ndis.mechanisms.base import Arrays, Forecast, Plan, TableEstimator, mean_shift
from ndis.mechanisms.regression_methods import moments, newton
from ndis.mechanisms.regression_methods.newton import MAX_ROUNDS
from ndis.mechanisms.regression_methods.sketches import SKETCHES, Sketched, sketching
from ndis.tables import GRID_NORM, MOST_ROWS, Columns, Rows, Table

# An eigenvalue is known if it exceeds the largest that noise alone has by this factor.
_KNOWN = 1.5
# A column is informed if more than this share of it lies along known ones.
_MOST = 0.75
METHODS = ("newton", "noisy-gram", *SKETCHES)
_REASONS = {
    "newton": "In the benchmark it has the least error, or close to it, at all sizes and epsilons.",
    "noisy-gram": "Noisy second moments serve for any regression among the same columns.",
    "sketch": "A sketch serves for any regression among the same columns.",
    "als": "The solution of a sketch is released, and nothing else.",
    "gaussian-limit": "Coefficients are drawn from the limit law of a sketch's solution.",
}


@dataclass(frozen=True)
class Inference:
    """Coefficients with what is known about their errors, intercept first if there is one.

    Attributes
    ----------
    names : tuple of str
    estimate, standard_error, lower, upper : ndarray of shape (n,), or (n_labels, n) for many labels
        Estimates without shrinkage where the noise allows it; their standard errors; the ends of
        the intervals.
    coef : ndarray of the same shape
        The fitted coefficients, which are drawn towards zero where little is known.
    informed : ndarray of bool
        Whether a column carries information at this budget, which is whether most of it lies where
        the features stand out from the noise. Other columns have infinite errors.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    lower: FloatArray
    upper: FloatArray
    coef: FloatArray
    informed: Any

    def __str__(self) -> str:
        """A line for each coefficient."""
        n = len(self.names)
        values = (self.estimate, self.standard_error, self.lower, self.upper, self.coef)
        parts = [np.reshape(value, (-1, n)) for value in values]
        lines = [f"{'':16}{'estimate':>12}{'error':>12}{'from':>12}{'to':>12}{'fitted':>12}"]
        for label in range(len(parts[0])):
            for index, name in enumerate(self.names):
                numbers = "".join(f"{part[label, index]:12.4g}" for part in parts)
                drowned = "" if self.informed[index] else "  (no information at this budget)"
                lines.append(f"{name:16}{numbers}{drowned}")
        return "\n".join(lines)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLeastSquares(RegressorMixin, TableEstimator):  # type: ignore[misc]
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
        A public bound on the norm of a row of features (as scaled by `limits`, where there are
        any); longer rows are scaled down to it. One of the two is needed.
    label_bound : float, optional
        A public bound on the absolute value of the label, or on the norm of many, instead of
        limits; larger ones are clipped.
    method : str, default "auto"
        "auto" is "newton": a noisy Hessian, and rounds of noisy gradients whose clipping is chosen
        from what has been released before. "noisy-gram" reads the table once and releases second
        moments. "sketch" solves on a private projection of one label and its features; "als"
        releases the solution of a sketch only, "gaussian-limit" a draw from the limit law of that.
    n_components : int, optional
        Columns of the sketch, for the methods that have one.
    leverage, joint_leverage : float, optional
        Declare a set of tables for these methods: no row has a larger leverage among the features,
        or with the label. The noise follows from them, and the promise covers that set only.
    max_rows : int
        A public cap on the number of rows, for these methods.
    n_rounds : int or "auto", default "auto"
        Gradients of "newton"; "auto" decides by the released histogram of row norms.
    max_rounds : int, default 20
        The most that "auto" takes. It is public, and the budget does not depend on it.
    fit_intercept : bool, default True
        Without an intercept, columns are scaled by limits and not centred.
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

    label_limits: Any = None
    label_bound: float | None = None
    method: str = "auto"
    n_components: int | None = None
    leverage: float | None = None
    joint_leverage: float | None = None
    max_rows: int = MOST_ROWS
    n_rounds: int | str = "auto"
    max_rounds: int = MAX_ROUNDS
    fit_intercept: bool = True
    _labelled = True

    # -- before the data ---------------------------------------------------------------------

    def plan(self, size: Any = None, label: Any = None) -> Plan:
        """What `fit` will do; needs no data.

        Parameters
        ----------
        size : int, optional
            How many features there are, where `limits` or `columns` do not name them.
        label : str or sequence of str, optional
            The names of the labels, where `limits` or `columns` name them; the last if not given.
        """
        return self._planned(self._rows_declared(size, label))

    def _plan(self, rows: Rows) -> Plan:
        method, target = self._method(), self._target(rows)
        d, K = len(rows.features.names), len(rows.labels.names)
        one = K == 1
        shapes: dict[str, tuple[int, ...]] = {
            "coef": (d,) if one else (K, d),
            "intercept": () if one else (K,),
        }
        if method in SKETCHES:
            made = self._sketching(rows)
            shapes = {**made.shapes, "coef": (d - bool(self.fit_intercept),), "intercept": ()}
            return Plan(method, made.noise_scale, made.guarantee, shapes, _REASONS[method])
        if method == "newton":
            setting = self._setting(rows)
            parts = {name: (1.0, share) for name, share in setting.shares.items()}
            shapes |= setting.shapes
        else:
            parts = {"moments": (moments.sensitivity_of(d), 1.0)}
            shapes["moments"] = (d + 1 + K, d + 1 + K)
        noise, loss = mean_shift(target, parts, self.noise_scale)
        return Plan(method, noise, target.promise(loss, "add-remove"), shapes, _REASONS[method])

    def forecast(
        self,
        size: Any = None,
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
        size : int, optional
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
        >>> few, many = (model.forecast(n_rows=n).errors["R^2 lost"] for n in (500, 50_000))
        >>> few[1] > many[1]
        True
        """
        from ndis.mechanisms.regression_forecast import forecast

        rows = self._rows_declared(size, label)
        n = _validate.count("n_rows", self.n_rows if n_rows is None else n_rows)
        low, high = (_validate.probability("explained", share) for share in explained)
        return forecast(self, self._plan(rows), rows, n, (low, high))

    # -- with the data -----------------------------------------------------------------------

    def _study(self, table: Table, plan: Plan) -> Any:
        if plan.method == "newton" and table.once:
            raise ValueError(
                "Expected a table that can be read more than once, got one that cannot; hand over "
                "the table itself, or take method='noisy-gram', which reads it once."
            )
        studied: Any
        if plan.method in SKETCHES:
            studied = self._sketching(table.rows).study(table)
        elif plan.method == "newton":
            studied = newton.study(table, bool(self.fit_intercept))
        else:
            studied = moments.study(table)
        self._check_rows(table.n_rows)
        return studied

    def _draw(self, studied: Any, plan: Plan, table: Table, rng: np.random.Generator) -> Arrays:
        if not isinstance(plan.noise_scale, Mapping):
            made = self._sketching(table.rows).with_noise(plan.noise_scale)
            drawn = made.draw(studied, rng)
            return {**drawn, **self._from_sketch(drawn["coef"], table.rows)}
        released: dict[str, FloatArray]
        if plan.method == "newton":
            setting = self._setting(table.rows)
            noise = newton.Noise(**{name: plan.noise_scale[name] for name in setting.shares})
            found, released = newton.draw(table, studied, setting, noise, rng)
        else:
            released = {"moments": moments.draw(studied, plan.noise_scale["moments"], rng)}
            found = self._found(released, plan.noise_scale, table.rows)
        return {**_in_units(*found.curvature.slopes(found.theta), table.rows, self), **released}

    def _restore(self) -> None:
        known = self.release_.parameters
        labels = [known["label"]] if isinstance(known["label"], str) else list(known["label"])
        names = [name for name in known["columns"] if name not in labels]
        rows = self._both(self._recipe(names, self._limits_of(names, labels)), labels)
        self._named_ = not isinstance(self.limits, list) and self.columns is not None
        self._finish(self._bounded(rows, self.release_.arrays, self.noise_scale_))

    def _from_sketch(self, theta: FloatArray, rows: Rows) -> Arrays:
        """Coefficients and intercept in the table's own units; with one, its column comes first."""
        features, label = rows.features, rows.labels
        coef = theta * features.scale / label.scale[0]
        if not self.fit_intercept:
            return {"coef": coef, "intercept": np.array(0.0)}
        middle = features.middle[1:] @ coef[1:]
        return {"coef": coef[1:], "intercept": np.array(label.middle[0] + coef[0] - middle)}

    def _sketching(self, rows: Rows) -> Sketched:
        """The sketch method that was asked for."""
        if rows.bought or (rows.labels is not None and len(rows.labels.names) > 1):
            raise ValueError(
                f"Expected public limits and one label, got others for method={self.method!r}; "
                "pass the least and largest value of every column, or take another method."
            )
        given = self.noise_scale
        if isinstance(given, Mapping):
            raise ValueError(
                f"Expected noise_scale to be a number for method={self.method!r}, got {given!r}; "
                "pass the root of the ridge."
            )
        return sketching(
            self.method,
            self._target(rows),
            len(rows.features.names),
            n_components=self.n_components,
            noise_scale=given,
            leverage=self.leverage,
            joint_leverage=self.joint_leverage,
            max_rows=self.max_rows,
        )

    def removal_losses(self, X: Any, y: Any) -> QuadraticLoss:
        """The loss of the coefficients for every row, row present first, in one more pass.

        For auditors, and for "gaussian-limit" only: elsewhere leverages do not tell all.
        """
        if self._method() not in SKETCHES:
            raise ValueError(
                f"Expected method='gaussian-limit', got method={self.method!r}; audit others by "
                "samples."
            )
        table = self._view(X, y)
        return self._sketching(table.rows).removal_losses(table)

    def _finish(self, rows: Rows) -> None:
        arrays = self.release_.arrays
        self.coef_ = np.asarray(arrays["coef"], dtype=np.float64)
        intercept = np.asarray(arrays["intercept"], dtype=np.float64)
        self.intercept_ = float(intercept) if intercept.ndim == 0 else intercept
        self.feature_names_ = rows.features.names[int(rows.features.intercept) :]
        self._recipe_ = rows

    def fit(self, X: Any, y: Any = None) -> PrivateLeastSquares:
        """Read the table, spend the budget, release the coefficients.

        Parameters
        ----------
        X : table
            Anything that `ndis.tables.Table.open` opens, the label's column included if `y` names
            it.
        y : array_like of shape (n_rows,) or (n_rows, n_labels), or str
            The labels, or the name of the label's column.
        """
        self._named_ = isinstance(y, str)
        super().fit(X, y)
        return self

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
        check_is_fitted(self, "release_")
        features = self._recipe_.features
        if self._named_ and not isinstance(X, np.ndarray | list):
            view = Table.open(X, features.columns).with_rows(Rows(features))
            rows = np.hstack([block.features for block in view.blocks(raw=True)]).T
        else:
            rows = validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr")
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    # -- what is known about errors ------------------------------------------------------------

    def inference(self, level: float = 0.95, *, population: bool = False) -> Inference:
        """Intervals for every coefficient, from the release alone.

        They are for the coefficients of ordinary least squares on this table, values clipped to
        their limits: they count the noise of privacy. With `population` they are for the law from
        which rows were drawn, and count sampling too (equal variances).

        Parameters
        ----------
        level : float, default 0.95
        population : bool, default False

        Notes
        -----
        Along eigenvectors of the noisy Hessian that stand out from its noise, a Newton step without
        shrinkage gives an estimate with the variance of the gradients' noise, as much again for
        clipping, and what the Hessian's noise and its cut rows add along the way. Along the others
        coefficients stay as they are fitted, and err as much as if each explained as much of the
        label as fitted ones do on average; through the Hessian's noise their errors are those of
        the known ones too. A column that lies there for the most part is not
        `informed`: the noise does not even tell whether other columns could stand in for it, and
        its interval is the whole line.
        """
        check_is_fitted(self, "release_")
        if self._method() in SKETCHES:
            raise ValueError(
                f"Expected method='newton' or 'noisy-gram', got method={self.method!r}, which "
                "tells no intervals; take one of these, or a PrivateProjection."
            )
        share = _validate.probability("level", level)
        known = self.release_
        rows = self._recipe_
        found = self._found(known.arrays, known.parameters["noise_scale"], rows)
        theta, variance, resolved = _unshrunk(found, population)
        bend = found.curvature
        estimate, constant = bend.slopes(theta)
        squared = bend.vectors**2
        errors = np.sqrt(squared @ variance[:-1])
        # The intercept is where the fitted line meets zero in the table's units.
        d, K = errors.shape
        unit = rows.features.scale[:, None] / rows.labels.scale[None, :]
        zero = bend.mean + rows.features.middle * rows.features.scale / GRID_NORM
        leans = (bend.vectors.T @ zero) ** 2
        at_zero = np.sqrt(variance[-1] + leans @ variance[:-1]) * GRID_NORM / rows.labels.scale
        placed = _in_units(estimate, constant, rows, self)
        informed = squared @ resolved > _MOST
        estimate, errors = np.reshape(placed["coef"], (K, d)), (errors * unit).T
        coef = np.reshape(self.coef_, (K, d))
        names = rows.features.names
        if self.fit_intercept:
            names = ("intercept", *names)
            estimate = np.column_stack([np.reshape(placed["intercept"], K), estimate])
            errors = np.column_stack([at_zero, errors])
            coef = np.column_stack([np.reshape(self.intercept_, K), coef])
            informed = np.append(bool(leans @ resolved >= _MOST * leans.sum()), informed)
        errors = np.where(informed, errors, math.inf)
        reach = float(norm.isf(0.5 * (1.0 - share))) * errors
        one: Any = 0 if K == 1 else slice(None)
        return Inference(
            names,
            estimate[one],
            errors[one],
            (estimate - reach)[one],
            (estimate + reach)[one],
            coef[one],
            informed,
        )

    def _found(self, arrays: Mapping[str, Any], noise: Mapping[str, float], rows: Rows) -> Any:
        """What the released sums lead to: post-processing, done again from a release."""
        known = {name: np.asarray(array) for name, array in arrays.items()}
        if "moments" in known:
            d, intercept = len(rows.features.names), bool(self.fit_intercept)
            return moments.Solution(known["moments"], noise["moments"], d, intercept)
        setting = self._setting(rows)
        own = newton.Noise(**{name: noise[name] for name in setting.shares})
        return newton.Descent.again(setting, own, known)

    # -- parts -------------------------------------------------------------------------------

    def _method(self) -> str:
        name = _validate.one_of("method", self.method, ["auto", *METHODS])
        return "newton" if name == "auto" else name

    def _setting(self, rows: Rows) -> newton.Setting:
        """What "newton" knows beforehand."""
        assert rows.labels is not None
        n_rounds = self.n_rounds
        if isinstance(n_rounds, str):
            _validate.one_of("n_rounds", n_rounds, ["auto"])
        else:
            n_rounds = _validate.count("n_rounds", n_rounds)
        return newton.Setting(
            len(rows.features.names),
            len(rows.labels.names),
            bool(self.fit_intercept),
            n_rounds,
            _validate.count("max_rounds", self.max_rounds, newton.MIN_ROUNDS),
        )

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        return self._both(self._features(table, labels), labels)

    def _rows_declared(self, size: int | None, label: Any = None) -> Rows:
        labels = [label] if isinstance(label, str) else list(label or [])
        names = self.columns
        if names is None and isinstance(self.limits, Mapping):
            names = [*self.limits, *(self.levels or {})]
        if names is None:
            features = self._declared(size)
            return self._both(features, labels or ["y"])
        labels = labels or [name for name in names if name not in (self.levels or {})][-1:]
        left = [name for name in names if name not in labels]
        return self._both(self._recipe(left, self._limits_of(left, labels)), labels)

    def _both(self, features: Columns, labels: Sequence[str]) -> Rows:
        """Features and labels; a record's labels shrink with it if that keeps the relation."""
        return Rows(features, self._labels(labels), weighted=not self.fit_intercept)

    def _placed(self) -> tuple[bool, bool]:
        # A constant is added to the sums themselves, where it costs next to nothing; but a sketch
        # is of whole rows.
        centred = bool(self.fit_intercept)
        return centred and self.method in SKETCHES, centred

    def _labels(self, names: Sequence[str]) -> Columns:
        limits = self._label_limits(names)
        if (limits is None) == (self.label_bound is None):
            what = "none" if limits is None else "both"
            raise ValueError(
                f"Expected limits of the label or label_bound, got {what}; pass label_limits, its "
                "least and largest value (or name it in limits), or label_bound."
            )
        bound = self.label_bound
        bound = None if bound is None else _validate.positive("label_bound", bound)
        return Columns(names, limits=limits, norm=bound, centred=bool(self.fit_intercept))

    def _public(self, data: Table) -> dict[str, Any]:
        return {**super()._public(data), "label": list(data.rows.labels.columns)}

    @classmethod
    def from_public(cls, parameters: Mapping[str, Any], delta: float) -> Plan:
        """The plan that the parameters of a certificate imply, at the noise that they state."""
        return cls.from_certificate(parameters, delta).plan(label=parameters.get("label"))


def _in_units(
    slopes: FloatArray, constants: FloatArray, rows: Rows, model: PrivateLeastSquares
) -> Arrays:
    """Coefficients and intercept in the table's own units, from those of the grid."""
    features, labels = rows.features, rows.labels
    coef = slopes * features.scale[:, None] / labels.scale[None, :]
    intercept = labels.middle + constants * GRID_NORM / labels.scale - features.middle @ coef
    if not model.fit_intercept:
        intercept = np.zeros_like(intercept)
    one = len(labels.names) == 1
    return {"coef": coef[:, 0] if one else coef.T, "intercept": intercept[0] if one else intercept}


def _unshrunk(found: Any, population: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Coefficients along eigenvectors without shrinkage, their variances, and where both hold."""
    bend = found.curvature
    edge = bend.scale * math.sqrt(2 * len(bend.mean))
    resolved = np.append(bend.noisy_values > _KNOWN * edge, True)[:, None]
    values = np.where(resolved, bend.values[:, None], np.maximum(bend.values, bend.scale)[:, None])
    theta = found.theta
    for _ in range(2):
        here, _ = found.known(theta)
        theta = np.where(resolved, theta + here / values, theta)
    _, variance = found.known(theta)
    # Clipping is chosen to bias gradients by as much as the noise, and the Hessian is of cut rows.
    moved = theta - found.points.mean(axis=0)
    errors = 2.0 * variance / values**2 + (found.growth * moved) ** 2
    if population:
        errors = errors + found.residual_variance / theta.shape[1] / values
    # Coefficients that nobody knows: each explains as much of the label as those that are fitted do
    # on average, or as much as would if they explained a tenth of it.
    d, slopes = len(bend.mean), slice(None, -1)
    fitted = np.sum(bend.values[slopes, None] * found.theta[slopes] ** 2) / bend.rows
    explained = min(max(float(fitted), 0.1 * found.label_square), found.label_square)
    hidden = np.where(resolved, 0.0, explained * bend.rows / d / values)[slopes]
    # Through the Hessian's noise they lean on the others.
    errors = errors + bend.errors[:, None] * hidden.sum(axis=0) / values**2
    errors[slopes] += hidden
    if not bend.constant:
        errors[-1] = 0.0
    return theta, errors, resolved[:-1, 0].astype(np.float64)
