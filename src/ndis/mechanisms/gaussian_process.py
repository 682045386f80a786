"""Private Gaussian process regression at public points.

The values of the posterior at m query points are one joint Gaussian, not m releases. A record
moves its mean and its covariance along one and the same direction, so that the whole release is
as private as one coordinate of it. docs/proofs/posteriors.md has the proofs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from sklearn.base import RegressorMixin, clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.validation import check_is_fitted, validate_data

from ndis import _validate
from ndis._validate import FloatArray
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.posterior import (
    ROUND_UP,
    Calibrated,
    RankOneUpdate,
    draw_on_grid,
    require_rows,
    with_noise,
)
from ndis.randomness import RandomState

if TYPE_CHECKING:
    from ndis.ledger import Ledger

# More than an eigenvalue routine and a kernel's rounding can take away.
_EIGEN_ROUND_UP = 1.0 + 1e-9


class PrivateGaussianProcess(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Draws of a Gaussian process at public points, given private records.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for the presence of one record.
    label_bound : float
        A public bound on the absolute value of a label; others are clipped to it.
    max_rows : int
        A public bound on the number of records. The mean cannot be bounded without it.
    query_points : array_like of shape (m, d), optional
        Public points at which the process is drawn; by default the origin alone.
    kernel : scikit-learn kernel, optional
        With fixed, public hyperparameters; by default ``RBF(1.0)``.
    noise_variance : float, default 1
        Variance of a label about the process. The noise falls as it grows.
    kernel_bound : float, optional
        A public bound on k(x, x); only kernels that are not stationary need it.
    n_draws : int, default 1
        Independent draws to release, all under one guarantee.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    release_ : Release
        What may be published.
    query_points_ : ndarray of shape (m, d)
    draws_ : ndarray of shape (n_draws, m)
        The released values at the query points.
    guarantee_ : Guarantee
    noise_scale_ : float
        Standard deviation of the noise that was added to each value.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateGaussianProcess
    >>> x = np.linspace(0, 1, 2000)[:, None]
    >>> model = PrivateGaussianProcess(
    ...     epsilon=1.0,
    ...     delta=1e-6,
    ...     label_bound=1.0,
    ...     max_rows=2000,
    ...     query_points=[[0.2], [0.8]],
    ...     noise_variance=30.0,
    ... )
    >>> f"{model.calibrate():.3f}"
    '0.001'
    >>> model.fit(x, np.sin(3 * x[:, 0])).draws_.shape
    (1, 2)
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        label_bound: float | None = None,
        max_rows: int | None = None,
        query_points: Any = None,
        kernel: Any = None,
        noise_variance: float = 1.0,
        kernel_bound: float | None = None,
        n_draws: int = 1,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.label_bound = label_bound
        self.max_rows = max_rows
        self.query_points = query_points
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.kernel_bound = kernel_bound
        self.n_draws = n_draws
        self.random_state = random_state
        self.ledger = ledger

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # of a test with two hundred records and much noise
        return tags

    # -- before the data ---------------------------------------------------------------------

    @property
    def output_copies(self) -> int:
        """How many independent draws of `output_law` are released."""
        return _validate.count("n_draws", self.n_draws)

    def calibrate(self) -> float:
        """The standard deviation of the noise added to each value; needs no data."""
        return self._calibrated().noise_scale

    def guarantee(self) -> Guarantee:
        """The guarantee that a release will carry; needs no data."""
        return self._guarantee(self._calibrated())

    def update(self) -> RankOneUpdate:
        """What one record can do, in the worst case."""
        largest = self._kernel_bound()
        norm = largest
        if self.query_points is not None:
            points = _validate.floats("query_points", self.query_points, ndim=2)
            prior = np.asarray(self._kernel()(points))
            norm = float(np.linalg.eigvalsh(prior)[-1]) * _EIGEN_ROUND_UP
        return RankOneUpdate(
            largest,
            norm,
            _validate.positive("noise_variance", self.noise_variance),
            self._label_bound(),
            self._max_rows(),
        )

    # -- with the data -----------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> PrivateGaussianProcess:
        """Condition the process on the records, spend the budget, release the draws.

        Parameters
        ----------
        X : array_like of shape (n, d)
        y : array_like of shape (n,)
        """
        calibrated = self._calibrated()
        self._ask(self._guarantee(calibrated))
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        points = self._points(X.shape[1])
        law = self._posterior(X, y, points)

        def draw(rng: np.random.Generator) -> dict[str, FloatArray]:
            return {"draws": draw_on_grid(law, self.output_copies, calibrated.noise_scale, rng)}

        parameters = {
            "kernel": repr(self._kernel()),
            "kernel_bound": self._kernel_bound(),
            "query_points": points.tolist(),
            "label_bound": self.label_bound,
            "max_rows": self.max_rows,
            "noise_variance": self.noise_variance,
            "n_draws": self.output_copies,
            "noise_scale": calibrated.noise_scale,
        }
        shapes = {"draws": (self.output_copies, len(points))}
        self._release(draw, self._guarantee(calibrated), parameters, shapes)
        self.noise_scale_ = calibrated.noise_scale
        self.query_points_ = points
        self.draws_ = self.release_.arrays["draws"]
        return self

    def predict(self, X: Any) -> FloatArray:
        """Values between the query points, from the release alone.

        The mean of the draws is smoothed as if it were the process at the query points plus the
        released noise: the linear predictor under the prior.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        kernel, points = self._kernel(), self.query_points_
        spread = self.noise_scale_**2 / len(self.draws_)
        matrix = np.asarray(kernel(points)) + spread * np.eye(len(points))
        weights = np.linalg.solve(matrix, self.draws_.mean(axis=0))
        return np.asarray(kernel(X, points) @ weights)

    def output_law(self, X: Any, y: Any = None) -> Gaussian:
        """The law of one draw; a release has n_draws independent ones.

        For auditors. Without y the last column of X holds the label.
        """
        table = _validate.floats("X", X, ndim=2)
        labels = table[:, -1] if y is None else _validate.floats("y", y, ndim=1)
        inputs = table[:, :-1] if y is None else table
        law = self._posterior(inputs, labels, self._points(inputs.shape[1]))
        return with_noise(law, self.calibrate())

    # -- parts -------------------------------------------------------------------------------

    def _kernel(self) -> Any:
        return RBF(1.0) if self.kernel is None else clone(self.kernel)

    def _kernel_bound(self) -> float:
        """K, from the kernel itself where it is stationary."""
        kernel = self._kernel()
        if self.kernel_bound is not None:
            bound = _validate.positive("kernel_bound", self.kernel_bound)
            if kernel.is_stationary() and _diagonal(kernel) > bound:
                raise ValueError(
                    f"Expected a kernel with k(x, x) <= kernel_bound={bound}, got one that exceeds "
                    "it everywhere; raise kernel_bound, or leave it out."
                )
            return bound
        if not kernel.is_stationary():
            raise ValueError(
                f"Expected kernel_bound, a public bound on k(x, x), for {kernel!r}, got None; "
                "only stationary kernels have one of their own."
            )
        return _diagonal(kernel) * ROUND_UP

    def _label_bound(self) -> float:
        if self.label_bound is None:
            raise ValueError(
                "Expected label_bound, a public bound on the absolute value of a label, got None; "
                "take it from what the labels mean, not from the data."
            )
        return _validate.positive("label_bound", self.label_bound)

    def _max_rows(self) -> int:
        if self.max_rows is None:
            raise ValueError(
                "Expected max_rows, a public bound on the number of records, got None; "
                "the mean of a Gaussian process cannot be bounded without it."
            )
        return _validate.count("max_rows", self.max_rows)

    def _points(self, n_features: int) -> FloatArray:
        if self.query_points is None:
            return np.zeros((1, n_features))
        points = _validate.floats("query_points", self.query_points, ndim=2)
        if points.shape[1] != n_features:
            raise ValueError(
                f"Expected query_points with {n_features} column(s), as the records have, got "
                f"{points.shape[1]}; pass one coordinate a feature."
            )
        return points

    def _posterior(self, X: FloatArray, y: FloatArray, points: FloatArray) -> Gaussian:
        """The law of the process at the query points, given the records: one Cholesky factor."""
        require_rows(len(X), self._max_rows())
        kernel, bound = self._kernel(), self._kernel_bound()
        if not len(X):
            return Gaussian(np.zeros(len(points)), kernel(points))
        if not kernel.is_stationary() and np.max(kernel.diag(X)) > bound:
            raise ValueError(
                f"Expected records with k(x, x) <= kernel_bound={bound}, got one beyond it; "
                "raise kernel_bound, or scale the features."
            )
        labels = np.clip(y, -self._label_bound(), self._label_bound())
        matrix = kernel(X)
        matrix[np.diag_indices_from(matrix)] += _validate.positive(
            "noise_variance", self.noise_variance
        )
        factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        across = kernel(X, points)
        mean = across.T @ cho_solve((factor, True), labels, check_finite=False)
        half = solve_triangular(factor, across, lower=True, check_finite=False)
        return Gaussian(mean, kernel(points) - half.T @ half)

    def _guarantee(self, calibrated: Calibrated) -> Guarantee:
        return Guarantee(
            self.epsilon,
            self.delta,
            NeighbourRelation.ADD_REMOVE,
            "proven",
            calibrated.loss,
        )

    def _calibrated(self) -> Calibrated:
        epsilon = _validate.non_negative("epsilon", self.epsilon)
        delta = _validate.probability("delta", self.delta)
        return self.update().calibrate(epsilon, delta, self.output_copies)


def _diagonal(kernel: Any) -> float:
    """The value of k(x, x) of a stationary kernel, whose hyperparameters tell its dimension."""
    sizes = [np.size(value) for name, value in kernel.get_params().items() if "scale" in name]
    return math.fabs(float(kernel.diag(np.zeros((1, max([1, *sizes]))))[0]))
