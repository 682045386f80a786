"""Noise added to the answer: the Gaussian mechanism, for numbers, vectors, matrices and tensors.

Two answers that differ by at most the sensitivity make an equal-covariance pair of Gaussians, so
the worst case is one number, the shift in units of the noise, and the exact calibration is the
least noise at which that pair meets (epsilon, delta). The published conditions are kept beside
it: what they cost can be computed, and their true delta stands in the guarantee.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP, least_noise, meets
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.mechanisms.publish import publish
from ndis.mechanisms.recompute import Implied
from ndis.randomness import RandomState, add_noise, generator, round_to_grid
from ndis.release import Release

if TYPE_CHECKING:
    from ndis.ledger import Ledger

Shape = tuple[int, ...]


def shift_profile(distance: float) -> Profile:
    """The worst case of a mean that moves by `distance` noise scales, rounded up."""
    return Profile.both(QuadraticLoss.from_shift(ROUND_UP * distance))


def recompute(mechanism: str, parameters: Mapping[str, Any]) -> Implied:
    """What the parameters of a `GaussianMechanism` imply."""
    if parameters["calibration"] == "relative":
        raise ValueError("Expected public noise, got noise that depends on the data; trust nobody.")
    sensitivity = _validate.positive("sensitivity", parameters["sensitivity"])
    scale = _validate.positive("noise_scale", parameters["noise_scale"])
    return Implied(shift_profile(sensitivity / scale))


@functools.lru_cache(maxsize=1024)
def noise_multiplier(epsilon: float, delta: float) -> float:
    """The least noise for a sensitivity of 1: the analytic Gaussian mechanism, rounded up.

    Examples
    --------
    >>> from ndis.mechanisms.additive import noise_multiplier
    >>> f"{noise_multiplier(1.0, 1e-5):.6f}"
    '3.730632'
    """
    start = math.sqrt(2.0 * math.log(1.25 / delta)) / max(epsilon, 1e-3)
    return least_noise(lambda noise: shift_profile(1.0 / noise), epsilon, delta, start=start)


@dataclass(frozen=True)
class AccuracyLoss:
    """Moments of the squared length of Gaussian noise, from the traces of its covariance's powers.

    Parameters
    ----------
    scale : float
        Tr C, which is also the mean.
    traces : tuple of float
        Tr(C^k)/(Tr C)^k for k = 2, 3, 4.

    Examples
    --------
    >>> from ndis.mechanisms.additive import AccuracyLoss
    >>> loss = AccuracyLoss.of_equal_variances(10, 2.0)
    >>> loss.mean, round(loss.kurtosis, 6), round(loss.raw_kurtosis, 6)
    (20.0, 4.2, 1.866667)
    """

    scale: float
    traces: tuple[float, float, float]

    @classmethod
    def of_equal_variances(cls, dimension: int, variance: float) -> AccuracyLoss:
        """Independent coordinates with one variance."""
        n = float(dimension)
        return cls(n * variance, (1 / n, n**-2, n**-3))

    @classmethod
    def of_variances(cls, *factors: FloatArray) -> AccuracyLoss:
        """A covariance that is the Kronecker product of matrices with these eigenvalues."""
        totals = [float(np.sum(f)) for f in factors]
        shares = [f / total for f, total in zip(factors, totals, strict=True)]
        powers = (math.prod(float(np.sum(s**k)) for s in shares) for k in (2, 3, 4))
        t2, t3, t4 = powers
        return cls(math.prod(totals), (t2, t3, t4))

    @property
    def mean(self) -> float:
        """E[L] = Tr C (theorems 4 and 7)."""
        return self.scale

    @property
    def variance(self) -> float:
        """Variance of L, 2 Tr C^2."""
        return 2.0 * self.traces[0] * self.scale**2

    @property
    def skewness(self) -> float:
        """The standard, central skewness."""
        t2, t3, _ = self.traces
        return 8.0 * t3 / math.pow(2.0 * t2, 1.5)

    @property
    def kurtosis(self) -> float:
        """The standard, central kurtosis (3 for a normal law)."""
        t2, _, t4 = self.traces
        return 3.0 + 48.0 * t4 / (2.0 * t2) ** 2

    @property
    def raw_skewness(self) -> float:
        """E[L^3]/E[L^2]^(3/2), which theorem 9 of the rank-one paper calls skewness."""
        t2, t3, _ = self.traces
        return (8.0 * t3 + 6.0 * t2 + 1.0) / math.pow(2.0 * t2 + 1.0, 1.5)

    @property
    def raw_kurtosis(self) -> float:
        """E[L^4]/E[L^2]^2, which theorem 8 of the rank-one paper calls kurtosis."""
        t2, t3, t4 = self.traces
        fourth = 48.0 * t4 + 32.0 * t3 + 12.0 * t2**2 + 12.0 * t2 + 1.0
        return fourth / (2.0 * t2 + 1.0) ** 2


class AdditiveMechanism(ABC):
    """What all mechanisms that add noise share: parameters, `release` and the way to show them."""

    calibrations: tuple[str, ...]
    acknowledge_refuted = False

    def __init__(
        self,
        epsilon: float,
        delta: float,
        sensitivity: float,
        *,
        calibration: str,
        relation: NeighbourRelation | str,
        random_state: RandomState,
        ledger: Ledger | None,
    ) -> None:
        self.epsilon = _validate.non_negative("epsilon", epsilon)
        self.delta = _validate.probability("delta", delta)
        self.sensitivity = _validate.positive("sensitivity", sensitivity)
        self.calibration = _validate.one_of("calibration", calibration, self.calibrations)
        _validate.one_of("relation", str(relation), [str(r) for r in NeighbourRelation])
        self.relation = NeighbourRelation(relation)
        self.random_state = random_state
        self.ledger = ledger

    @abstractmethod
    def calibrate(self, shape: Shape = ()) -> float:
        """The noise for an answer of this shape; needs no data."""

    @abstractmethod
    def guarantee(self, shape: Shape = ()) -> Guarantee:
        """What is promised for an answer of this shape, and on what basis."""

    @abstractmethod
    def noise(self, shape: Shape, rng: np.random.Generator) -> FloatArray:
        """One draw of the noise."""

    @abstractmethod
    def accuracy_loss(self, shape: Shape = ()) -> AccuracyLoss:
        """Moments of the squared length of the noise, in closed form."""

    @abstractmethod
    def _grid_scale(self, shape: Shape) -> float:
        """The public noise scale of the quietest entry, for the grid of released numbers."""

    def release(self, value: ArrayLike) -> Release:
        """Add the noise and publish.

        Parameters
        ----------
        value : array_like
            The exact answer: a number, vector, matrix or tensor whose distance (the Euclidean
            norm over all entries) between neighbours is at most `sensitivity`.

        Returns
        -------
        Release
        """
        answer = _validate.floats("value", value)
        guarantee = self.guarantee(answer.shape)
        return self._publish(answer.shape, lambda rng: self._noisy(answer, rng), guarantee)

    def _noisy(self, answer: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The answer with its noise, on the release grid."""
        noisy = answer + self.noise(answer.shape, rng)
        return round_to_grid(noisy, self._grid_scale(noisy.shape))

    def _publish(self, shape: Shape, draw: Any, guarantee: Guarantee) -> Release:
        self._grid_scale(shape)  # refuses a shape that has no noise
        return publish(
            draw,
            guarantee,
            type(self).__name__,
            self._parameters(),
            {"value": shape},
            random_state=self.random_state,
            ledger=self.ledger,
            acknowledge_refuted=self.acknowledge_refuted,
        )

    def simulate(self, shape: Shape, n_draws: int, random_state: RandomState = None) -> FloatArray:
        """Draw the accuracy loss (the squared length of the noise) `n_draws` times."""
        rng = generator(random_state)
        count = _validate.count("n_draws", n_draws)
        return np.array([float(np.sum(self.noise(shape, rng) ** 2)) for _ in range(count)])

    def _parameters(self) -> dict[str, Any]:
        return {"calibration": self.calibration, "sensitivity": self.sensitivity}

    def _promise(self, loss: PrivacyLoss, basis: str = "proven", note: str = "") -> Guarantee:
        return Guarantee(self.epsilon, self.delta, self.relation, basis, loss, note=note)

    def _proven(self, loss: PrivacyLoss) -> Guarantee:
        """A guarantee that a published condition claims, checked by our own computation."""
        if not meets(loss, self.epsilon, self.delta):
            raise ValueError(
                f"Expected a condition that keeps its promise, got calibration="
                f"{self.calibration!r} at epsilon={self.epsilon}, delta={self.delta}, where it "
                f"does not; use calibration={self.calibrations[0]!r}."
            )
        true = float(loss.log_delta(self.epsilon)) / math.log(10)
        return self._promise(loss, note=f"The true delta at this epsilon is 10^{true:.2f}.")

    def __repr__(self) -> str:
        """Show the parameters."""
        shown = f"{self.epsilon:g}, {self.delta:g}, {self.sensitivity:g}"
        return f"{type(self).__name__}({shown}, calibration={self.calibration!r})"


class GaussianMechanism(AdditiveMechanism):
    """Independent normal noise of one variance on every entry.

    Parameters
    ----------
    epsilon, delta : float
        What is to be met.
    sensitivity : float
        The largest Euclidean distance between the answers on neighbouring data sets.
    calibration : {"analytic", "classic", "relative"}
        "analytic" adds the least noise that meets (epsilon, delta) and proves it. "classic" is
        Delta sqrt(2 ln(1.25/delta))/epsilon, for epsilon < 1 only. "relative" (the mechanism of
        the same name in the paper of 2024) scales the analytic noise to the distance between this
        answer and the `neighbours` given to `release`; `sensitivity` is then a public bound on
        that distance, and the guarantee covers this database and those neighbours only.
    relation : NeighbourRelation or str
        The relation for which the sensitivity was worked out.
    random_state : int, Generator or None
        None draws from the operating system; anything else is not private.
    ledger : Ledger, optional
        Where the budget is kept.

    Examples
    --------
    >>> from ndis import GaussianMechanism
    >>> mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=2.0)
    >>> f"{mechanism.calibrate():.4f}"
    '7.4613'
    >>> mechanism.release([[10.0, 20.0], [30.0, 40.0]]).value.shape
    (2, 2)
    """

    calibrations = ("analytic", "classic", "relative")

    def __init__(
        self,
        epsilon: float,
        delta: float,
        sensitivity: float,
        *,
        calibration: str = "analytic",
        relation: NeighbourRelation | str = "add-remove",
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            sensitivity,
            calibration=calibration,
            relation=relation,
            random_state=random_state,
            ledger=ledger,
        )
        if self.calibration == "classic" and not 0 < self.epsilon < 1:
            raise ValueError(
                f"Expected 0 < epsilon < 1 for the classic calibration, got epsilon={epsilon}; "
                "use calibration='analytic'."
            )

    def calibrate(self, shape: Shape = ()) -> float:
        """The standard deviation of each entry's noise, the same for every shape."""
        return self.sensitivity * self._multiplier()

    def _multiplier(self) -> float:
        if self.calibration == "classic":
            return math.sqrt(2.0 * math.log(1.25 / self.delta)) / self.epsilon
        return noise_multiplier(self.epsilon, self.delta)

    def guarantee(self, shape: Shape = ()) -> Guarantee:
        """What is promised; the same for every shape."""
        loss = shift_profile(1.0 / self._multiplier())
        if self.calibration == "classic":
            return self._proven(loss)
        return self._promise(loss, "relative" if self.calibration == "relative" else "proven")

    def release(
        self, value: ArrayLike, *, neighbours: Iterable[ArrayLike] | None = None
    ) -> Release:
        """Add the noise and publish.

        Parameters
        ----------
        value : array_like
            The exact answer, of any shape.
        neighbours : iterable of array_like, optional
            For calibration="relative": the answers on all neighbouring data sets that the
            guarantee is to cover.

        Returns
        -------
        Release
        """
        if (neighbours is not None) != (self.calibration == "relative"):
            raise ValueError(
                f"Expected neighbours exactly if calibration='relative', got calibration="
                f"{self.calibration!r}; pass both or neither."
            )
        if neighbours is None:
            return super().release(value)
        answer = _validate.floats("value", value)
        local = _farthest(answer, neighbours)
        if local > self.sensitivity:
            raise ValueError(
                "Expected neighbours within `sensitivity` of the value, got one beyond it; "
                "pass a public bound that covers them."
            )
        scale = local * self._multiplier()

        def draw(rng: np.random.Generator) -> FloatArray:
            noisy = answer + scale * rng.standard_normal(answer.shape)
            return round_to_grid(noisy, self._grid_scale(noisy.shape))

        return self._publish(answer.shape, draw, self.guarantee())

    def _noisy(self, answer: FloatArray, rng: np.random.Generator) -> FloatArray:
        return add_noise(answer, self.calibrate(), rng)

    def _parameters(self) -> dict[str, Any]:
        scale = None if self.calibration == "relative" else self.calibrate()
        return {**super()._parameters(), "noise_scale": scale}

    def noise(self, shape: Shape, rng: np.random.Generator) -> FloatArray:
        """One draw of the noise."""
        return np.asarray(self.calibrate() * rng.standard_normal(shape))

    def accuracy_loss(self, shape: Shape = ()) -> AccuracyLoss:
        """Moments of the squared length of the noise: of sigma^2 times a chi-square."""
        return AccuracyLoss.of_equal_variances(math.prod(shape), self.calibrate() ** 2)

    def output_law(self, value: ArrayLike) -> Gaussian:
        """The law of what is released, its entries in order (but for the rounding grid)."""
        answer = _validate.floats("value", value)
        return Gaussian.isotropic(answer.reshape(-1), self.calibrate() ** 2)

    def _grid_scale(self, shape: Shape) -> float:
        return self.calibrate()


def _farthest(answer: FloatArray, neighbours: Iterable[ArrayLike]) -> float:
    distances = [0.0]
    for neighbour in neighbours:
        other = _validate.floats("neighbours", neighbour)
        if other.shape != answer.shape:
            raise ValueError(
                f"Expected neighbours of shape {answer.shape}, got {other.shape}; "
                "ask all data sets the same question."
            )
        distances.append(ROUND_UP * float(np.linalg.norm((other - answer).reshape(-1))))
    return max(distances)


def leading_directions(components: ArrayLike, share: float) -> FloatArray:
    """A covariance shape that gives the leading directions a share of the precision budget.

    The squared precisions of all directions add up to 1: `share` of it goes to the given
    components in equal parts, the rest to the directions orthogonal to them. The published
    condition of the matrix-variate mechanism bounds just this sum.

    Parameters
    ----------
    components : array_like of shape (dimension, k)
        Orthonormal columns, chosen without looking at the private data.
    share : float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.additive import leading_directions
    >>> np.round(leading_directions(np.eye(3)[:, :1], 0.5), 4).diagonal().tolist()
    [1.4142, 2.0, 2.0]
    """
    basis = _validate.floats("components", components, ndim=2)
    dimension, k = basis.shape
    share = _validate.probability("share", share)
    if not 0 < k < dimension or not np.allclose(basis.T @ basis, np.eye(k), atol=1e-8):
        raise ValueError(
            f"Expected fewer than {dimension} orthonormal columns, got shape {basis.shape}; "
            "orthonormalise them with numpy.linalg.qr."
        )
    leading, rest = math.sqrt(k / share), math.sqrt((dimension - k) / (1.0 - share))
    return rest * np.eye(dimension) + (leading - rest) * (basis @ basis.T)


@dataclass(frozen=True)
class _Side:
    """The shape of the noise along the rows or the columns: eigenvalues and a factor."""

    eigenvalues: FloatArray
    factor: FloatArray | None

    @classmethod
    def of(cls, name: str, covariance: FloatArray | None, dimension: int) -> _Side:
        if covariance is None:
            return cls(np.ones(dimension), None)
        if covariance.shape != (dimension, dimension):
            raise ValueError(
                f"Expected {name} of shape ({dimension}, {dimension}), got {covariance.shape}; "
                "it must fit the answer."
            )
        values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        # What rounding may have added to an eigenvalue.
        values = values - 4.0 * dimension * np.finfo(np.float64).eps * float(np.abs(values).max())
        if values[0] <= 0 or not np.allclose(covariance, covariance.T):
            raise ValueError(
                f"Expected {name} to be symmetric and positive definite, got a matrix that is "
                "not; noise must reach every direction."
            )
        return cls(values, vectors * np.sqrt(values))

    @property
    def least(self) -> float:
        return float(self.eigenvalues.min())

    @property
    def precision(self) -> float:
        """The Euclidean norm of the inverse eigenvalues, ||sigma(Sigma^-1)||_2."""
        return float(np.linalg.norm(1.0 / self.eigenvalues))


class MatrixGaussianMechanism(AdditiveMechanism):
    """Normal noise with one covariance along the rows and one along the columns of a matrix.

    Parameters
    ----------
    epsilon, delta, sensitivity, relation, random_state, ledger
        As for `GaussianMechanism`; the sensitivity is in the Frobenius norm.
    calibration : {"exact", "published", "appendix-c"}
        "exact": two neighbours make an equal-covariance pair, whose shift is at most
        sensitivity/sqrt(least eigenvalue of the rows' covariance times that of the columns'),
        attained by a difference of rank one. "published": the sufficient condition of the
        matrix-variate mechanism, which needs `norm_bound`. "appendix-c": the same condition
        without the norm of the answer, completed by us from the sketch in appendix C of the
        rank-one paper. The two are for comparison: they hold, with far too much noise.
    rows, columns : array_like, optional
        Shapes of the covariances, up to a common factor that the calibration finds; the identity
        if not given. `leading_directions` makes one.
    norm_bound : float, optional
        A public bound on the Frobenius norm of the answer.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import MatrixGaussianMechanism
    >>> mechanism = MatrixGaussianMechanism(1.0, 1e-5, sensitivity=1.0)
    >>> f"{mechanism.calibrate((10, 10)):.4f}"
    '3.7306'
    >>> mechanism.release(np.eye(10)).value.shape
    (10, 10)
    """

    calibrations = ("exact", "published", "appendix-c")

    def __init__(
        self,
        epsilon: float,
        delta: float,
        sensitivity: float,
        *,
        calibration: str = "exact",
        rows: ArrayLike | None = None,
        columns: ArrayLike | None = None,
        norm_bound: float | None = None,
        relation: NeighbourRelation | str = "add-remove",
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            sensitivity,
            calibration=calibration,
            relation=relation,
            random_state=random_state,
            ledger=ledger,
        )
        self.rows = None if rows is None else _validate.floats("rows", rows, ndim=2)
        self.columns = None if columns is None else _validate.floats("columns", columns, ndim=2)
        self._known_sides: dict[Shape, tuple[_Side, _Side]] = {}
        self.norm_bound = None
        if calibration == "published":
            bound = _validate.positive("norm_bound", norm_bound)
            if bound < self.sensitivity / 2:
                raise ValueError(
                    f"Expected norm_bound >= sensitivity/2, got norm_bound={bound}; two answers "
                    "of smaller norm are never so far apart."
                )
            self.norm_bound = bound
        elif norm_bound is not None:
            raise ValueError(
                f"Expected norm_bound for calibration='published' only, got "
                f"norm_bound={norm_bound}; leave it out."
            )

    def calibrate(self, shape: Shape = ()) -> float:
        """The standard deviation of the noise in the quietest direction of an M x N matrix."""
        if self.calibration == "exact":
            return self.sensitivity * noise_multiplier(self.epsilon, self.delta)
        rows, columns = self._sides(shape)
        # ||sigma(Sigma^-1)|| ||sigma(Psi^-1)|| of the shapes, over what the condition allows.
        variance = rows.precision * columns.precision / self.precision_bound(shape)
        return math.sqrt(variance * rows.least * columns.least)

    def precision_bound(self, shape: Shape) -> float:
        """What a published condition allows ||sigma(Sigma^-1)||_2 ||sigma(Psi^-1)||_2 to be."""
        m, n = self._matrix_shape(shape)
        ranks = np.arange(1, min(m, n) + 1, dtype=np.float64)
        harmonic, half_harmonic = float(np.sum(1.0 / ranks)), float(np.sum(ranks**-0.5))
        log, change = -math.log(self.delta), self.sensitivity
        if self.norm_bound is not None:
            alpha = (harmonic + half_harmonic) * self.norm_bound**2
            alpha += 2.0 * harmonic * self.norm_bound * change
        else:
            alpha = harmonic * change**2
        tail = 2.0 * math.sqrt(m * n * log) + 2.0 * log + m * n
        beta = 2.0 * math.pow(m * n, 0.25) * harmonic * change * tail
        # ((-beta + sqrt(beta^2 + 8 alpha eps))/(2 alpha))^2, without the cancellation.
        root = 4.0 * self.epsilon / (beta + math.sqrt(beta**2 + 8.0 * alpha * self.epsilon))
        return root**2

    def guarantee(self, shape: Shape = ()) -> Guarantee:
        """What is promised for a matrix of this shape; published conditions are checked."""
        loss = shift_profile(self.sensitivity / self.calibrate(shape))
        return self._promise(loss) if self.calibration == "exact" else self._proven(loss)

    def noise(self, shape: Shape, rng: np.random.Generator) -> FloatArray:
        """One draw of the noise, A Z B^T."""
        rows, columns = self._sides(shape)
        draw = rng.standard_normal(shape) * self._unit(rows, columns, shape)
        draw = draw if rows.factor is None else rows.factor @ draw
        return np.asarray(draw if columns.factor is None else draw @ columns.factor.T)

    def _noisy(self, answer: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Noise as in the quietest direction, exact, after what other directions have more of it.

        Further noise that does not depend on the data costs no privacy, whatever its law is.
        """
        rows, columns = self._sides(answer.shape)
        quiet, variance = self.calibrate(answer.shape), self._unit(rows, columns, answer.shape) ** 2
        more = variance * np.outer(rows.eigenvalues, columns.eigenvalues) - quiet**2
        offset = np.sqrt(np.maximum(more, 0.0)) * rng.standard_normal(answer.shape)
        for side in (rows, columns):
            if side.factor is not None:
                offset = side.factor / np.sqrt(side.eigenvalues) @ offset
            offset = offset.T
        return add_noise(answer, quiet, rng, offset=offset)

    def accuracy_loss(self, shape: Shape = ()) -> AccuracyLoss:
        """Moments of the squared length of the noise."""
        rows, columns = self._sides(shape)
        variance = self._unit(rows, columns, shape) ** 2
        return AccuracyLoss.of_variances(variance * rows.eigenvalues, columns.eigenvalues)

    def output_law(self, value: ArrayLike) -> Gaussian:
        """The law of what is released, row by row (but for the rounding grid)."""
        answer = _validate.floats("value", value, ndim=2)
        rows, columns = self._sides(answer.shape)
        factors = [
            np.eye(s.eigenvalues.size) if s.factor is None else s.factor for s in (rows, columns)
        ]
        factor = self._unit(rows, columns, answer.shape) * np.kron(*factors)
        return Gaussian.from_cholesky(answer.reshape(-1), factor)

    def _sides(self, shape: Shape) -> tuple[_Side, _Side]:
        if shape not in self._known_sides:
            m, n = self._matrix_shape(shape)
            sides = _Side.of("rows", self.rows, m), _Side.of("columns", self.columns, n)
            self._known_sides[shape] = sides
        return self._known_sides[shape]

    def _unit(self, rows: _Side, columns: _Side, shape: Shape) -> float:
        """The factor by which the given shapes are multiplied, as a standard deviation."""
        return self.calibrate(shape) / math.sqrt(rows.least * columns.least)

    def _grid_scale(self, shape: Shape) -> float:
        self._matrix_shape(shape)
        return self.calibrate(shape)

    @staticmethod
    def _matrix_shape(shape: Shape) -> tuple[int, int]:
        if len(shape) != 2 or 0 in shape:
            raise ValueError(
                f"Expected a matrix with rows and columns, got shape {shape}; use "
                "GaussianMechanism for answers of other shapes."
            )
        return shape[0], shape[1]
