"""Private least squares: linear regression whose coefficients may be published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ndis import _validate
from ndis._validate import FloatArray
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import QuadraticLoss
from ndis.loss.least_squares import removal_loss
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.regression_methods import METHODS, Method, Table, Task
from ndis.randomness import RandomState
from ndis.tables import batches, leverages_and_residuals, read_gram
from ndis.tables.rows import default_names

if TYPE_CHECKING:
    from ndis.ledger import Ledger
    from ndis.mechanisms.regression_forecast import RegressionForecast

# Between these, fourth powers of norms neither overflow nor vanish.
_SMALLEST, _LARGEST = 1e-60, 1e60


def _within_range(name: str, value: float) -> float:
    bound = _validate.positive(name, value)
    if not _SMALLEST <= bound <= _LARGEST:
        raise ValueError(
            f"Expected {name} between {_SMALLEST:g} and {_LARGEST:g}, got {name}={value!r}; "
            "measure in other units."
        )
    return bound


@dataclass(frozen=True)
class Inference:
    """Coefficients with what is known about their errors, intercept first if there is one.

    Attributes
    ----------
    names : tuple of str
    estimate, standard_error, lower, upper : ndarray of shape (n_coefficients,)
        Estimates without shrinkage, so they may differ from `coef_`; standard errors of sampling
        and privacy noise together; the ends of confidence intervals.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    lower: FloatArray
    upper: FloatArray


class PrivateLeastSquares(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Linear regression, private for every person with one row in the table.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee: epsilon >= 0, 0 < delta < 1, for the presence of one row.
    data_norm : float
        A public bound on the Euclidean norm of a whole row: features, label and, if there is
        one, the 1 of the intercept. Longer rows are scaled down to it. The label's units are
        free: measured so that its bound is small beside `data_norm`, it costs next to nothing.
    label_bound : float, optional
        A public bound on the label's absolute value; larger labels are clipped. `data_norm` if
        not given. "newton" and "adassp" use it, the others only clip.
    method : str, default "auto"
        "auto" is "newton", in the benchmark the best or close to it at all epsilons and sizes.
        "newton" releases a noisy Hessian and `n_rounds` noisy gradients of residuals, clipped by
        what has been released before, and reads the table `n_rounds` times. "noisy-gram" and
        "adassp" (Wang 2018) read it once. "sketch" solves on a private projection; "als" releases
        the solution of a sketched problem only, and "gaussian-limit" draws from the limit law of
        that.
    n_components : int, optional
        Size of the sketch, for methods that have one.
    n_rounds : int, default 3
        Gradients of "newton".
    fit_intercept : bool, default True
    columns, levels, clip
        Which columns to read and how to make numbers of them, as in `ndis.tables.Rows`, for
        tables with named columns; the label is among `columns` if they are given.
    n_rows : int, optional
        The number of rows, only where it is public. `inference` uses it.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    release_ : Release
        What may be published: the coefficients and what they were computed from.
    guarantee_ : Guarantee
    noise_scale_ : float
        For sketches the root of the ridge; else the noise on the diagonal of X^T X.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateLeastSquares
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (50_000, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + 0.3 + 0.1 * rng.standard_normal(50_000)
    >>> model = PrivateLeastSquares(
    ...     epsilon=1.0, delta=1e-6, data_norm=5.0, label_bound=4.0, random_state=0
    ... ).fit(X, y)
    >>> bool(np.abs(model.coef_ - [1.0, -2.0, 0.5]).max() < 0.1)
    True
    >>> f"{model.score(X, y):.2f}"
    '0.99'
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        data_norm: float | None = None,
        label_bound: float | None = None,
        method: str = "auto",
        n_components: int | None = None,
        n_rounds: int = 3,
        fit_intercept: bool = True,
        columns: Sequence[str] | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        clip: Mapping[str, float] | None = None,
        n_rows: int | None = None,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.label_bound = label_bound
        self.method = method
        self.n_components = n_components
        self.n_rounds = n_rounds
        self.fit_intercept = fit_intercept
        self.columns = columns
        self.levels = levels
        self.clip = clip
        self.n_rows = n_rows
        self.random_state = random_state
        self.ledger = ledger

    # -- before the data ---------------------------------------------------------------------

    def calibrate(self, n_features: int) -> float:
        """The noise that `fit` will use for so many features; needs no data.

        Parameters
        ----------
        n_features : int
            Without the intercept.

        Returns
        -------
        noise_scale : float
            As `noise_scale_`.

        Examples
        --------
        >>> from ndis import PrivateLeastSquares
        >>> model = PrivateLeastSquares(
        ...     epsilon=1.0, delta=1 / 327_346, data_norm=1.0, method="gaussian-limit",
        ...     n_components=1269, fit_intercept=False,
        ... )
        >>> model.calibrate(2) <= 8.44
        True
        """
        d = _validate.count("n_features", n_features) + bool(self.fit_intercept)
        return self._method(d).noise_scale

    def forecast(
        self,
        n_features: int,
        n_rows: int | None = None,
        *,
        explained: float = 0.5,
        label_spread: float | None = None,
    ) -> RegressionForecast:
        """The error to be expected, before any budget is spent, from public numbers only.

        The method is run on an imagined table: rows of norm `data_norm`, features that are
        uncorrelated and of equal size, none of them and no label clipped.

        Parameters
        ----------
        n_features : int
            Without the intercept.
        n_rows : int, optional
            Rows of the imagined table; the declared `n_rows` if not given.
        explained : float, default 0.5
            The share of the label's mean square that the features explain, their R^2.
        label_spread : float, optional
            Root mean square of the label; half of `label_bound` if not given.

        Returns
        -------
        RegressionForecast

        Examples
        --------
        >>> from ndis import PrivateLeastSquares
        >>> model = PrivateLeastSquares(epsilon=1.0, delta=1e-6, data_norm=2.0, label_bound=1.0)
        >>> few, many = (model.forecast(3, n_rows=n).lost for n in (1_000, 100_000))
        >>> bool(1e-2 > few > 1e-3), bool(many < 1e-6)
        (True, True)
        """
        from ndis.mechanisms import regression_forecast as imagined

        d = _validate.count("n_features", n_features)
        table = imagined.imagined_table(
            _validate.count("n_rows", self.n_rows if n_rows is None else n_rows),
            d,
            intercept=bool(self.fit_intercept),
            data_norm=self._data_norm(),
            label_spread=0.5 * min(self._label_bound(), self._data_norm())
            if label_spread is None
            else _validate.positive("label_spread", label_spread),
            explained=_validate.probability("explained", explained),
        )
        first = int(bool(self.fit_intercept))
        return imagined.forecast(self._method(d + first), table, first)

    # -- with the data -----------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> PrivateLeastSquares:
        """Read the table, spend the budget, release the coefficients.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features), or a table with named columns
            A table is anything that `ndis.tables.batches` reads, the label's column included.
        y : array_like of shape (n_rows,), or str
            The labels, or the name of the label's column.
        """
        table = self._table(X, y)
        d = len(table.gram.columns) - 1
        method = self._method(d)
        if method.passes > 1:
            self._check_readable_again(table)
        names = [table.gram.columns[i] for i in table.order]
        parameters = {
            "method": self._method_name(),
            "data_norm": self.data_norm,
            "label_bound": self._label_bound(),
            "columns": names[:-1],
            "label": names[-1],
            "n_components": getattr(method, "n_components", None),
            "n_rows": self.n_rows,
            "noise_scale": method.noise_scale,
        }
        guarantee = Guarantee(
            self.epsilon,
            self.delta,
            NeighbourRelation.ADD_REMOVE,
            "proven",
            method.loss,
        )
        self._release(lambda rng: method.draw(table, rng), guarantee, parameters, method.shapes(d))
        coefficients = np.asarray(self.release_.arrays["coef"], dtype=np.float64)
        first = int(bool(self.fit_intercept))
        self.coef_ = coefficients[first:]
        self.intercept_ = float(coefficients[0]) if first else 0.0
        self.noise_scale_ = method.noise_scale
        self.n_features_in_ = d - first
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predicted labels of new rows, in the order of the features that were fitted.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features)
        """
        check_is_fitted(self, "release_")
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(rows @ self.coef_ + self.intercept_)

    def output_law(self, X: Any, y: Any) -> Gaussian:
        """The Gaussian law of the coefficients, intercept first, for auditors.

        Only "gaussian-limit" has one.
        """
        table = self._table(X, y)
        return self._method(len(table.gram.columns) - 1).law(table)

    def removal_losses(self, X: Any, y: Any) -> QuadraticLoss:
        """The loss of the coefficients for every row, row present first, in one more pass.

        For auditors, and for "gaussian-limit" only: elsewhere the leverages do not tell all.
        """
        if self._method_name() != "gaussian-limit":
            raise ValueError(
                f"Expected method='gaussian-limit', got method={self.method!r}; "
                "audit others by their output_law or by samples."
            )
        table = self._table(X, y)
        d = len(table.gram.columns) - 1
        method = self._method(d)
        ridge = method.noise_scale**2
        p, q = leverages_and_residuals(table.source, table.gram, table.label, ridge)
        q = np.minimum(q, 1.0)
        return removal_loss(q, np.minimum(p, q), d, getattr(method, "n_components", 1))

    def inference(self, level: float = 0.95) -> Inference:
        """Confidence intervals that count privacy noise and sampling, from the release alone.

        Parameters
        ----------
        level : float, default 0.95

        Returns
        -------
        Inference

        Notes
        -----
        Needs noisy second moments: methods "newton", "noisy-gram" and "sketch". With c =
        (-coefficients, 1), the error of the solution of the noisy normal equations is to first
        order X^{-1} (D c), D the error of the moments; its covariance is known for each method.
        ("newton" counts coefficients from where its last gradients were taken.) To it is added the
        sampling covariance s^2 X^{-1} of a regression with equal variances. The number of rows, for
        s^2, is `n_rows`, or what the release says about it. Rows that were scaled down or clipped
        are counted as they were used.
        """
        check_is_fitted(self, "release_")
        share = _validate.probability("level", level)
        arrays, known = self.release_.arrays, self.release_.parameters
        if "moments" not in arrays and "gradients" not in arrays:
            raise ValueError(
                f"Expected a release with second moments, got that of method={known['method']!r}; "
                "fit with method='newton', method='noisy-gram' or method='sketch'."
            )
        moments = self._released_moments()
        X, b = moments[:-1, :-1], moments[:-1, -1]
        if float(np.linalg.eigvalsh(X)[0]) <= 0:
            raise ValueError(
                "Expected features that stand out from the noise, got a release in which they do "
                "not; leave columns out, or spend more."
            )
        inverse = np.linalg.inv(X)
        estimate = inverse @ b
        c = np.append(-estimate, 1.0)
        privacy = self._noise_covariance(moments, c)[:-1, :-1]
        n_rows = self._known_rows(moments)
        variance = max(float(c @ moments @ c), 0.0) / max(n_rows - len(b), 1.0)
        covariance = inverse @ privacy @ inverse + variance * inverse
        error = np.sqrt(np.diag(covariance))
        reach = float(norm.isf(0.5 * (1.0 - share))) * error
        return Inference(
            tuple(known["columns"]), estimate, error, estimate - reach, estimate + reach
        )

    def _released_moments(self) -> FloatArray:
        """Noisy second moments of all columns, label last."""
        arrays = self.release_.arrays
        if "moments" in arrays:
            return np.asarray(arrays["moments"], dtype=np.float64)
        X = np.asarray(arrays["gram"], dtype=np.float64)
        point, gradient, _ = self._last_gradients()
        b = gradient + X @ point
        squares = float(arrays["size"][1]) * min(self._label_bound(), self._data_norm()) ** 2
        return np.block([[X, b[:, None]], [b[None, :], np.array([[squares]])]])

    def _last_gradients(self) -> tuple[FloatArray, FloatArray, float]:
        """Where the gradients of "newton" but the first were taken, they, and their noise.

        Means by precision; the gradient is linear but for clipping. The first is taken at zero,
        far from the others, and counts only if it is the only one.
        """
        arrays = self.release_.arrays
        last = slice(1, None) if len(arrays["clips"]) > 1 else slice(None)
        clips, points, gradients = (
            np.asarray(arrays[name], dtype=np.float64)[last]
            for name in ("clips", "points", "gradients")
        )
        weight = clips**-2.0 / np.sum(clips**-2.0)
        scale = getattr(self._method(points.shape[1]), "gradient_scale", 0.0)
        return weight @ points, weight @ gradients, scale / float(np.sqrt(np.sum(clips**-2.0)))

    def _noise_covariance(self, moments: FloatArray, c: FloatArray) -> FloatArray:
        """Covariance of D c, where D is the error of the released second moments."""
        if "sketch" in self.release_.arrays:
            # Wishart: Cov(D c) = (A c^T A c + A c c^T A) / r, with A the ridged moments.
            r = self.release_.arrays["sketch"].shape[1]
            A = moments + self.noise_scale_**2 * np.eye(len(c))
            return np.asarray((A * float(c @ A @ c) + np.outer(A @ c, A @ c)) / r)
        scale, identity = 0.5 * self.noise_scale_**2, np.eye(len(c))
        if "gradients" in self.release_.arrays:
            # The Hessian's noise counts by the distance from where gradients were taken.
            point, _, noise = self._last_gradients()
            moved = np.append(-c[:-1] - point, 0.0)
            gradients = noise**2 * identity
            return np.asarray(
                scale * (float(moved @ moved) * identity + np.outer(moved, moved)) + gradients
            )
        # Symmetric noise: Cov(D c) = (|c|^2 I + c c^T) s^2 / 2.
        return np.asarray(scale * (float(c @ c) * identity + np.outer(c, c)))

    def _known_rows(self, moments: FloatArray) -> float:
        if self.n_rows is not None:
            return float(self.n_rows)
        if "size" in self.release_.arrays:
            return float(self.release_.arrays["size"][0])
        if self.fit_intercept:
            return float(moments[0, 0])
        raise ValueError(
            "Expected to know about how many rows there are, got neither n_rows nor an intercept; "
            "declare n_rows if it is public, or fit an intercept."
        )

    # -- parts -------------------------------------------------------------------------------

    def _method_name(self) -> str:
        name = _validate.one_of("method", self.method, ["auto", *METHODS])
        return "newton" if name == "auto" else name

    def _data_norm(self) -> float:
        if self.data_norm is None:
            raise ValueError(
                "Expected data_norm, a public bound on the norm of a row [x, y], got None; "
                "derive it from limits of the columns, or pay for it with PrivateNorm."
            )
        return _within_range("data_norm", self.data_norm)

    def _label_bound(self) -> float:
        bound = self._data_norm() if self.label_bound is None else self.label_bound
        return _within_range("label_bound", bound)

    def _method(self, n_features: int) -> Method:
        data_norm = self._data_norm()
        components = self.n_components
        task = Task(
            _validate.non_negative("epsilon", self.epsilon),
            _validate.probability("delta", self.delta),
            n_features,
            data_norm,
            min(self._label_bound(), data_norm),
            None if components is None else _validate.count("n_components", components),
            _validate.count("n_rounds", self.n_rounds),
        )
        return METHODS[self._method_name()](task)

    def _table(self, X: Any, y: Any) -> Table:
        """The Gram matrix of [features, label], from one pass."""
        self._method_name()  # a wrong name is told before any data are read
        if isinstance(y, str):
            source, label, columns = X, y, self.columns
            names = batches(source, columns, levels=self.levels).columns
            if label not in names:
                raise ValueError(
                    f"Expected the label to be one of {', '.join(map(repr, names))}, got "
                    f"{label!r}; name a column of the table."
                )
        else:
            rows, labels = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
            features = getattr(self, "feature_names_in_", default_names(rows.shape[1]))
            label = "y"
            while label in features:
                label += "_"
            source = np.column_stack([rows, np.asarray(labels, dtype=np.float64)])
            columns = (*map(str, features), label)
        gram = read_gram(
            source,
            self._data_norm(),
            columns=columns,
            levels=self.levels,
            clip={**(self.clip or {}), label: self._label_bound()},
            intercept=bool(self.fit_intercept),
        )
        if self.n_rows is not None and gram.n_rows != _validate.count("n_rows", self.n_rows):
            raise ValueError(
                f"Expected a table of {self.n_rows} rows, as declared public, got another number; "
                "correct n_rows, or leave it out to keep it private."
            )
        return Table(source, gram, label)

    def _check_readable_again(self, table: Table) -> None:
        rows = table.gram.rows
        if next(iter(batches(table.source, rows.columns, levels=rows.levels)), None) is None:
            raise ValueError(
                "Expected a table that can be read more than once, got one that cannot; "
                "hand over the table itself, or take method='adassp', which reads it once."
            )
