"""Noise added to the answer: the Gaussian mechanism, for numbers, vectors, matrices and tensors.

Two answers that differ by at most the sensitivity make an equal-covariance pair of Gaussians, so
the worst case is one number, the shift in units of the noise, and the exact calibration is the
least noise at which that pair meets (epsilon, delta).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import noise_multiplier, shift_profile
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.mechanisms.publish import publish
from ndis.mechanisms.recompute import Implied
from ndis.randomness import RandomState, add_noise
from ndis.release import Release

if TYPE_CHECKING:
    from ndis.ledger import Ledger

Shape = tuple[int, ...]


def recompute(mechanism: str, parameters: Mapping[str, Any]) -> Implied:
    """What the parameters of a `GaussianMechanism` imply."""
    sensitivity = _validate.positive("sensitivity", parameters["sensitivity"])
    scale = _validate.positive("noise_scale", parameters["noise_scale"])
    return Implied(shift_profile(sensitivity / scale))


class GaussianMechanism:
    """Independent normal noise of one variance on every entry.

    Parameters
    ----------
    epsilon, delta : float
        What is to be met.
    sensitivity : float
        The largest Euclidean distance between the answers on neighbouring data sets.
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

    def __init__(
        self,
        epsilon: float,
        delta: float,
        sensitivity: float,
        *,
        relation: NeighbourRelation | str = "add-remove",
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = _validate.non_negative("epsilon", epsilon)
        self.delta = _validate.probability("delta", delta)
        self.sensitivity = _validate.positive("sensitivity", sensitivity)
        _validate.one_of("relation", str(relation), [str(r) for r in NeighbourRelation])
        self.relation = NeighbourRelation(relation)
        self.random_state = random_state
        self.ledger = ledger

    def calibrate(self) -> float:
        """The standard deviation of the noise in the quietest direction; needs no data."""
        return self.sensitivity * noise_multiplier(self.epsilon, self.delta)

    def guarantee(self) -> Guarantee:
        """What is promised, the same for every shape; needs no data."""
        # The loss at which the multiplier was proven, not one from the rounded product.
        loss = shift_profile(1.0 / noise_multiplier(self.epsilon, self.delta))
        return Guarantee(self.epsilon, self.delta, self.relation, "proven", loss)

    def noise(self, shape: Shape, rng: np.random.Generator) -> FloatArray:
        """One draw of the noise."""
        return np.asarray(self.calibrate() * rng.standard_normal(shape))

    def output_law(self, value: ArrayLike) -> Gaussian:
        """The law of what is released, its entries in order (but for the rounding grid)."""
        answer = _validate.floats("value", value)
        return Gaussian.isotropic(answer.reshape(-1), self.calibrate() ** 2)

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
        self._check(answer.shape)
        return publish(
            lambda rng: self._noisy(answer, rng),
            self.guarantee(),
            type(self).__name__,
            {"sensitivity": self.sensitivity, "noise_scale": self.calibrate()},
            {"value": answer.shape},
            random_state=self.random_state,
            ledger=self.ledger,
        )

    def _noisy(self, answer: FloatArray, rng: np.random.Generator) -> FloatArray:
        """What is released."""
        return add_noise(answer, self.calibrate(), rng)

    def _check(self, shape: Shape) -> None:
        """Refuse, before anything is paid, an answer to which the noise does not fit."""

    def __repr__(self) -> str:
        """Show the parameters."""
        return f"{type(self).__name__}({self.epsilon:g}, {self.delta:g}, {self.sensitivity:g})"


@dataclass(frozen=True)
class _Side:
    """The shape of the noise along the rows or the columns: eigenvalues and eigenvectors.

    No eigenvectors stand for the identity, by which large matrices need not be multiplied.
    """

    values: FloatArray
    vectors: FloatArray | None

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
        return cls(values, vectors)

    def turned(self, noise: FloatArray) -> FloatArray:
        """Noise given along the eigenvectors, in the coordinates of the answer."""
        return noise if self.vectors is None else np.asarray(self.vectors @ noise)


class MatrixGaussianMechanism(GaussianMechanism):
    """Normal noise with one covariance along the rows and one along the columns of a matrix.

    Two neighbours make an equal-covariance pair, whose shift is at most sensitivity/sqrt(least
    eigenvalue of the rows' covariance times that of the columns'), attained by a difference of
    rank one: the quietest direction has the noise of `GaussianMechanism`, the others have more.

    Parameters
    ----------
    epsilon, delta, sensitivity, relation, random_state, ledger
        As for `GaussianMechanism`; the sensitivity is in the Frobenius norm.
    rows, columns : array_like, optional
        Shapes of the covariances, up to a common factor that the calibration finds; the identity
        if not given.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import MatrixGaussianMechanism
    >>> mechanism = MatrixGaussianMechanism(1.0, 1e-5, sensitivity=1.0)
    >>> f"{mechanism.calibrate():.4f}"
    '3.7306'
    >>> mechanism.release(np.eye(10)).value.shape
    (10, 10)
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        sensitivity: float,
        *,
        rows: ArrayLike | None = None,
        columns: ArrayLike | None = None,
        relation: NeighbourRelation | str = "add-remove",
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            sensitivity,
            relation=relation,
            random_state=random_state,
            ledger=ledger,
        )
        self.rows = None if rows is None else _validate.floats("rows", rows, ndim=2)
        self.columns = None if columns is None else _validate.floats("columns", columns, ndim=2)

    def noise(self, shape: Shape, rng: np.random.Generator) -> FloatArray:
        """One draw of the noise, A Z B^T."""
        return self._turned(np.sqrt(self._variances(shape)) * rng.standard_normal(shape))

    def output_law(self, value: ArrayLike) -> Gaussian:
        """The law of what is released, row by row (but for the rounding grid)."""
        answer = _validate.floats("value", value, ndim=2)
        bases = [
            np.eye(side.values.size) if side.vectors is None else side.vectors
            for side in self._sides(answer.shape)
        ]
        spread = np.sqrt(self._variances(answer.shape).reshape(-1))
        return Gaussian.from_cholesky(answer.reshape(-1), np.kron(*bases) * spread)

    def _noisy(self, answer: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Noise as in the quietest direction, exact, after what other directions have more of it.

        Further noise that does not depend on the data costs no privacy, whatever its law is.
        """
        quiet = self.calibrate()
        # Rounding may leave the quietest direction a little below itself.
        more = np.maximum(self._variances(answer.shape) - quiet**2, 0.0)
        offset = self._turned(np.sqrt(more) * rng.standard_normal(answer.shape))
        return add_noise(answer, quiet, rng, offset=offset)

    def _check(self, shape: Shape) -> None:
        self._sides(shape)

    def _sides(self, shape: Shape) -> tuple[_Side, _Side]:
        if len(shape) != 2 or 0 in shape:
            raise ValueError(
                f"Expected a matrix with rows and columns, got shape {shape}; use "
                "GaussianMechanism for answers of other shapes."
            )
        return _Side.of("rows", self.rows, shape[0]), _Side.of("columns", self.columns, shape[1])

    def _variances(self, shape: Shape) -> FloatArray:
        """Variances along all pairs of eigenvectors; the least is that of `calibrate`."""
        rows, columns = (side.values for side in self._sides(shape))
        return np.outer(rows / rows.min(), columns / columns.min()) * self.calibrate() ** 2

    def _turned(self, noise: FloatArray) -> FloatArray:
        rows, columns = self._sides(noise.shape)
        return columns.turned(rows.turned(noise).T).T
