"""Private logistic regression: a draw from Böhning's Gaussian surrogate of the posterior.

With a prior N(0, I/lam) the surrogate is N(theta, (lam I + X^T X/4)^{-1}), theta the penalised
maximum of the likelihood (Böhning 1992). A record of norm at most R moves theta by at most R/lam
and changes the precision by a matrix of rank one, x x^T/4: one variance changes, all others stay.
docs/proofs/posteriors.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ndis import _validate
from ndis._validate import FloatArray
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.posterior import (
    ROUND_UP,
    SMALLEST,
    Calibrated,
    Envelope,
    draw_on_grid,
    least_envelope_noise,
    require_rows,
    with_noise,
)
from ndis.randomness import RandomState
from ndis.tables import scale_rows

if TYPE_CHECKING:
    from ndis.ledger import Ledger

# Newton's method needs a dozen steps; so many mean that rounding is in its way.
_STEPS = 500


@dataclass(frozen=True)
class Sensitivity:
    """The envelope of one record, as a function of the added noise variance.

    Attributes
    ----------
    mean : float
        How far the mean can move.
    gain : float
        The most that a record adds to the precision: R^2/4.
    lam : float
        The prior precision.
    least_variance : float
        What no posterior variance can fall below.
    """

    mean: float
    gain: float
    lam: float
    least_variance: float

    def __call__(self, added_variance: float) -> Envelope:
        """The envelope at this noise."""
        # (1/lam + v) / (1/(lam + gain) + v) - 1, without a subtraction.
        excess = self.gain / (self.lam * (1.0 + added_variance * (self.lam + self.gain)))
        kappa = math.log1p(excess * ROUND_UP)
        shift = self.mean / math.sqrt(added_variance + self.least_variance)
        return Envelope(shift, kappa, kappa, rank=1)


@lru_cache(maxsize=256)
def _rank_one_noise(
    sensitivity: Sensitivity, epsilon: float, delta: float, n_draws: int
) -> Calibrated:
    return least_envelope_noise(
        sensitivity,
        epsilon,
        delta,
        n_draws=n_draws,
        start=4.0 * sensitivity.mean / max(epsilon, 0.1),
        floor=SMALLEST / math.sqrt(sensitivity.lam),
    )


class PrivateLogisticRegression(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Logistic regression with two classes, as draws from a Gaussian posterior.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for the presence of one record.
    data_norm : float
        A public bound on the norm of a record's features; longer ones are scaled down to it.
    lam : float, default 1
        Precision of the prior N(0, I/lam) of the coefficients, the intercept's included. The
        noise is proportional to 1/lam: with n records a lam of some n/100 is a good start.
    fit_intercept : bool, default True
        Whether to put a constant 1 in front of the features.
    classes : sequence of two labels, optional
        The two classes, if they are to be public knowledge from the start. By default the labels
        found in y are published as `classes_`.
    max_rows : int, optional
        A public bound on the number of records, where there is one; it saves a little noise.
    n_draws : int, default 1
        Independent draws to release, all under one guarantee.
    tol : float, default 1e-6
        The solver stops when the gradient is shorter than `tol * data_norm`. What the solution may
        then be off is part of the sensitivity.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    release_ : Release
        What may be published.
    coef_, intercept_ : ndarray of shape (1, d) and (1,)
        The mean of the draws.
    draws_ : ndarray of shape (n_draws, d) or (n_draws, 1 + d)
        The draws, the intercept first.
    classes_ : ndarray of shape (2,)
    guarantee_ : Guarantee
    noise_scale_ : float
        Standard deviation of the noise that was added to each coefficient.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2)) / np.sqrt(2)
    >>> y = (X[:, 0] + 0.2 * rng.standard_normal(20_000) > 0).astype(int)
    >>> model = PrivateLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, data_norm=1.0, lam=100.0, classes=[0, 1], random_state=7
    ... )
    >>> f"{model.calibrate():.4f}"
    '0.0634'
    >>> model.fit(X, y).score(X, y) > 0.85
    True
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        data_norm: float | None = None,
        lam: float = 1.0,
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
        max_rows: int | None = None,
        n_draws: int = 1,
        tol: float = 1e-6,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.max_rows = max_rows
        self.n_draws = n_draws
        self.tol = tol
        self.random_state = random_state
        self.ledger = ledger

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # of a test with fifty records and much noise
        return tags

    # -- before the data ---------------------------------------------------------------------

    @property
    def output_copies(self) -> int:
        """How many independent draws of `output_law` are released."""
        return _validate.count("n_draws", self.n_draws)

    def calibrate(self) -> float:
        """The standard deviation of the noise added to each coefficient; needs no data."""
        return self._calibrated().noise_scale

    def guarantee(self) -> Guarantee:
        """The guarantee that a release will carry; needs no data."""
        return self._guarantee(self._calibrated())

    def envelope(self, added_variance: float) -> Envelope:
        """What one record can do to the noised law: one variance, and the mean."""
        return self.sensitivity()(added_variance)

    def sensitivity(self) -> Sensitivity:
        """The public numbers from which the envelope follows."""
        return Sensitivity(
            self.mean_sensitivity(),
            0.25 * self._row_norm() ** 2,
            self._lam(),
            self._least_variance(),
        )

    def mean_sensitivity(self) -> float:
        """How far one record can move the computed mean: (R + 2 tol R) / lam."""
        norm = self._row_norm()
        slack = 2.0 * _validate.positive("tol", self.tol) * norm
        return (norm + slack) / self._lam() * ROUND_UP

    # -- with the data -----------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:
        """Find the posterior, spend the budget, release the draws.

        Parameters
        ----------
        X : array_like of shape (n, d)
        y : array_like of shape (n,)
            Labels, of two classes.
        """
        self._row_norm()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes = self._two_classes(y)
        calibrated = self._calibrated()
        self._ask(self._guarantee(calibrated))
        law = self._posterior(X, _signs(y, classes))

        def draw(rng: np.random.Generator) -> dict[str, FloatArray]:
            return {"draws": draw_on_grid(law, self.output_copies, calibrated.noise_scale, rng)}

        parameters = {
            "data_norm": self.data_norm,
            "lam": self.lam,
            "fit_intercept": bool(self.fit_intercept),
            "classes": classes.tolist(),
            "max_rows": self.max_rows,
            "n_draws": self.output_copies,
            "tol": self.tol,
            "noise_scale": calibrated.noise_scale,
        }
        shapes = {"draws": (self.output_copies, law.dimension)}
        self._release(draw, self._guarantee(calibrated), parameters, shapes)
        self.classes_, self.noise_scale_ = classes, calibrated.noise_scale
        self.draws_ = self.release_.arrays["draws"]
        centre = self.draws_.mean(axis=0)
        first = int(bool(self.fit_intercept))
        self.coef_ = centre[None, first:]
        self.intercept_ = centre[:1] if first else np.zeros(1)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """The log-odds of the second class."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: Any) -> Any:
        """The more probable class of each row."""
        above = self.decision_function(X) > 0
        return self.classes_[above.astype(int)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of both classes, a column each."""
        odds = self.decision_function(X)
        return np.column_stack([expit(-odds), expit(odds)])

    def output_law(self, X: Any, y: Any = None) -> Gaussian:
        """The law of one draw; a release has n_draws independent ones.

        For auditors. Without y the last column of X holds the label. A number counts as the nearer
        of the two classes (0 and 1 if none were declared), so that a search may vary it.
        """
        table = _validate.floats("X", X, ndim=2)
        labels = table[:, -1] if y is None else np.asarray(y)
        table = table[:, :-1] if y is None else table
        if np.issubdtype(labels.dtype, np.number):
            low, high = (0.0, 1.0) if self.classes is None else map(float, sorted(self.classes))
            signs = np.where(labels > 0.5 * (low + high), 1.0, -1.0)
        else:
            signs = _signs(labels, self._two_classes(labels))
        noise = self._calibrated().noise_scale
        return with_noise(self._posterior(table, signs), noise)

    # -- parts -------------------------------------------------------------------------------

    def _row_norm(self) -> float:
        """The bound on a row with its constant."""
        if self.data_norm is None:
            raise ValueError(
                "Expected data_norm, a public bound on the norm of a row, got None; "
                "derive it from limits of the columns, or pay for it with PrivateNorm."
            )
        norm = _validate.positive("data_norm", self.data_norm)
        return math.hypot(norm, 1.0) * ROUND_UP if self.fit_intercept else norm

    def _lam(self) -> float:
        return _validate.positive("lam", self.lam)

    def _least_variance(self) -> float:
        """What the posterior variance cannot fall below; 0 if the number of rows is private."""
        if self.max_rows is None:
            return 0.0
        n = _validate.count("max_rows", self.max_rows)
        return 1.0 / (self._lam() + 0.25 * n * self._row_norm() ** 2)

    def _two_classes(self, y: Any) -> Any:
        if self.classes is not None:
            classes = np.unique(np.asarray(self.classes))
            if classes.size != 2:
                raise ValueError(
                    f"Expected classes to name two labels, got {classes.size}; pass both of them."
                )
            if not np.isin(y, classes).all():
                raise ValueError(
                    "Expected labels from the declared classes, got another one; "
                    "remove those records, or declare other classes."
                )
            return classes
        classes = np.unique(y)
        if classes.size == 1:
            raise ValueError(
                "Expected labels of two classes, got one class only; "
                "declare both with `classes` if the other has no records."
            )
        if classes.size > 2:
            raise ValueError(
                "Only binary classification is supported. Expected labels of two classes, "
                "got more; fit one class against the rest."
            )
        return classes

    def _posterior(self, X: FloatArray, signs: FloatArray) -> Gaussian:
        """Böhning's surrogate."""
        if self.max_rows is not None:
            require_rows(len(X), self.max_rows)
        rows = np.array(X, dtype=np.float64)
        scale_rows(rows, _validate.positive("data_norm", self.data_norm))
        if self.fit_intercept:
            rows = np.column_stack([np.ones(len(rows)), rows])
        lam = self._lam()
        mean = solve(rows, signs, lam, 0.5 * self.tol * self._row_norm())
        return Gaussian.from_precision(mean, lam * np.eye(mean.size) + 0.25 * rows.T @ rows)

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
        return _rank_one_noise(self.sensitivity(), epsilon, delta, self.output_copies)


def solve(rows: FloatArray, signs: FloatArray, lam: float, tolerance: float) -> FloatArray:
    """The penalised maximum of the likelihood, up to a gradient of length `tolerance`.

    Newton's method with step halving, on sum ln(1 + exp(-sign x.theta)) + lam/2 |theta|^2. The
    objective is lam-strongly convex, so the solution is within tolerance/lam of the optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.logistic import solve
    >>> solve(np.array([[1.0], [1.0]]), np.array([1.0, 1.0]), 1.0, 1e-9).round(6)
    array([0.674832])
    """
    signed = rows * signs[:, None]
    theta = np.zeros(rows.shape[1])

    def gradient(at: FloatArray, margins: FloatArray) -> FloatArray:
        return np.asarray(lam * at - signed.T @ expit(-margins))

    def height(at: FloatArray, margins: FloatArray) -> float:
        return float(np.logaddexp(0.0, -margins).sum() + 0.5 * lam * (at @ at))

    margins = signed @ theta
    slope = gradient(theta, margins)
    for _ in range(_STEPS):
        if float(np.linalg.norm(slope)) <= tolerance:
            return theta
        weights = expit(margins) * expit(-margins)
        hessian = lam * np.eye(theta.size) + (signed * weights[:, None]).T @ signed
        step = cho_solve(cho_factor(hessian), slope)
        here, fall, length = height(theta, margins), float(slope @ step), 1.0
        while True:
            trial = theta - length * step
            trial_margins = signed @ trial
            trial_slope = gradient(trial, trial_margins)
            lower = height(trial, trial_margins) <= here - 1e-4 * length * fall
            # Close to the optimum heights differ by less than their rounding; slopes still tell.
            if lower or np.linalg.norm(trial_slope) < np.linalg.norm(slope) or length < 1e-12:
                break
            length *= 0.5
        theta, margins, slope = trial, trial_margins, trial_slope
    raise ArithmeticError(
        f"The solver did not reach a gradient of {tolerance:.3g}, and nothing was released; "
        "raise tol."
    )


def _signs(y: Any, classes: Any) -> FloatArray:
    return np.where(y == classes[1], 1.0, -1.0)
