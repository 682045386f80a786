"""Noise added to the answer: the Gaussian mechanism, for numbers, vectors, matrices and tensors.

Two answers that differ by at most the sensitivity make an equal-covariance pair of Gaussians, so
the worst case is one number, the shift in units of the noise, and the exact calibration is the
least noise at which that pair meets (epsilon, delta).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.guarantee import NeighbourRelation
from ndis.mechanisms.base import Forecast, Plan, PrivateEstimator, mean_shift
from ndis.randomness import add_noise, grid_spacing
from ndis.release import Release

Shape = tuple[int, ...]
# Answers and noise up to this size add up within the doubles.
_LARGEST = 2.0**1000


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianMechanism(PrivateEstimator):
    """Independent normal noise of one variance on every entry.

    Parameters
    ----------
    epsilon, delta : float
        What is to be met.
    sensitivity : float
        The largest Euclidean distance between the answers on neighbouring data sets.
    relation : NeighbourRelation or str
        The relation for which the sensitivity was worked out.
    noise_scale : float, optional
        Noise to use instead of the least; then `epsilon` is left out, and the guarantee says
        which epsilon follows.
    random_state : int, SeedSequence, Generator or None
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

    epsilon: float | None = field(default=None, kw_only=False)
    delta: float | None = field(default=None, kw_only=False)
    sensitivity: float | None = field(default=None, kw_only=False)
    relation: NeighbourRelation | str = "add-remove"

    # -- before the answer -------------------------------------------------------------------

    def plan(self, size: Any = None) -> Plan:
        """What `release` will do; noise and promise are the same for every shape.

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape of the answer; one number if not given.
        """
        target, given = self._target(), None
        sensitivity = _validate.positive("sensitivity", self.sensitivity)
        _validate.one_of("relation", str(self.relation), [str(r) for r in NeighbourRelation])
        if target.epsilon is None:
            given = {"value": _validate.positive("noise_scale", self.noise_scale)}
        noise, loss = mean_shift(target, {"value": (sensitivity, 1.0)}, given)
        scale = noise["value"]
        if not scale <= _LARGEST:
            raise ValueError(
                f"Expected noise of at most {_LARGEST:g}, got {scale:g}; measure in other units."
            )
        grid_spacing(scale)  # refuses noise that is too small for doubles
        promise, shapes = target.promise(loss, self.relation), {"value": self._shape(size)}
        reason = "Normal noise hides a shift of this length in whichever direction it points."
        return Plan("gaussian", scale, promise, shapes, reason)

    def forecast(self, size: Any = None, *, n_rows: int | None = None) -> Forecast:
        """How large the errors will be; they depend on neither the answer nor `n_rows`."""
        spread = self._spread(self.plan(size))
        return Forecast(
            {
                "standard error of a number": (float(spread.min()), float(spread.max())),
                "root of the summed squared errors": (float(np.linalg.norm(spread)),) * 2,
            },
            (f"an answer of shape {spread.shape}",),
        )

    def _shape(self, size: Any) -> Shape:
        sizes = () if size is None else (size,) if isinstance(size, int) else tuple(size)
        return tuple(_validate.count("size", each, 0) for each in sizes)

    def _spread(self, plan: Plan) -> FloatArray:
        """The standard deviation of every entry's noise."""
        return np.full(plan.shapes["value"], plan.noise_scale)

    # -- with the answer ---------------------------------------------------------------------

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
        return self._release(answer, self.plan(answer.shape))

    def fit(self, value: ArrayLike) -> Self:
        """The same as `release`, which is then in `release_`."""
        self.release(value)
        return self

    def quietest(self, shape: Shape) -> FloatArray:
        """A direction of length one in which the noise is least; for auditors."""
        return np.eye(1, math.prod(shape)).reshape(shape)

    def _study(self, data: FloatArray, plan: Plan) -> FloatArray:
        """Nothing that leaves the doubles once the noise is paid for."""
        if not np.all(np.abs(data) <= _LARGEST):
            raise ValueError(
                f"Expected entries of at most {_LARGEST:g}, got a larger one; "
                "measure in other units."
            )
        return data

    def _draw(
        self, studied: FloatArray, plan: Plan, data: FloatArray, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        return {"value": add_noise(studied, plan.noise_scale, rng)}

    def _public(self, data: FloatArray) -> dict[str, Any]:
        return {
            "sensitivity": self.sensitivity,
            "relation": str(self.relation),
            "size": list(data.shape),
        }


@dataclass(frozen=True)
class _Side:
    """The shape of the noise along the rows or the columns: eigenvalues and eigenvectors.

    Eigenvalues are in units of the least. No eigenvectors stand for the identity, by which large
    matrices need not be multiplied.
    """

    values: FloatArray
    vectors: FloatArray | None

    @classmethod
    def of(cls, name: str, covariance: ArrayLike | None, dimension: int) -> _Side:
        if covariance is None:
            return cls(np.ones(dimension), None)
        matrix = _validate.floats(name, covariance, (dimension, dimension))
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        # What rounding may have added to an eigenvalue.
        values = values - 4.0 * dimension * np.finfo(np.float64).eps * float(np.abs(values).max())
        if values[0] <= 0 or not np.allclose(matrix, matrix.T):
            raise ValueError(
                f"Expected {name} to be symmetric and positive definite, got a matrix that is "
                "not; noise must reach every direction."
            )
        return cls(values / values[0], vectors)

    def turned(self, noise: FloatArray) -> FloatArray:
        """Noise given along the eigenvectors, in the coordinates of the answer."""
        return noise if self.vectors is None else np.asarray(self.vectors @ noise)

    def entries(self) -> FloatArray:
        """The variances of the entries."""
        return self.values if self.vectors is None else self.vectors**2 @ self.values


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixGaussianMechanism(GaussianMechanism):
    """Normal noise with one covariance along the rows and one along the columns of a matrix.

    Two neighbours make an equal-covariance pair, whose shift is at most sensitivity/sqrt(least
    eigenvalue of the rows' covariance times that of the columns'), attained by a difference of
    rank one: the quietest direction has the noise of `GaussianMechanism`, the others have more.

    Parameters
    ----------
    epsilon, delta, sensitivity, relation, noise_scale, random_state, ledger
        As for `GaussianMechanism`; the sensitivity is in the Frobenius norm.
    rows, columns : array_like, optional
        Shapes of the covariances, up to a common factor that the calibration finds; the identity
        if not given. A certificate states the noise of the quietest direction only.

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

    rows: ArrayLike | None = None
    columns: ArrayLike | None = None

    def quietest(self, shape: Shape) -> FloatArray:
        """A difference of rank one, along the quietest direction of either side."""
        rows, columns = (side.turned(np.eye(side.values.size, 1)) for side in self._sides(shape))
        return np.asarray(rows @ columns.T)

    def _draw(
        self, studied: FloatArray, plan: Plan, data: FloatArray, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Noise as in the quietest direction, exact, after what other directions have more of it.

        Further noise that does not depend on the data costs no privacy, whatever its law is.
        """
        rows, columns = self._sides(studied.shape)
        # Rounding may leave the quietest direction a little below itself.
        more = np.sqrt(np.maximum(_variances(rows, columns) - 1.0, 0.0))
        further = plan.noise_scale * more * rng.standard_normal(studied.shape)
        offset = columns.turned(rows.turned(further).T).T
        return {"value": add_noise(studied, plan.noise_scale, rng, offset=offset)}

    def _shape(self, size: Any) -> Shape:
        if size is None:
            sides = (self.rows, self.columns)
            size = [1 if side is None else len(np.asarray(side)) for side in sides]
        shape = super()._shape(size)
        self._sides(shape)  # refuses what does not fit
        return shape

    def _spread(self, plan: Plan) -> FloatArray:
        rows, columns = (side.entries() for side in self._sides(plan.shapes["value"]))
        return np.asarray(plan.noise_scale * np.sqrt(np.outer(rows, columns)))

    def _sides(self, shape: Shape) -> tuple[_Side, _Side]:
        if len(shape) != 2 or 0 in shape:
            raise ValueError(
                f"Expected a matrix with rows and columns, got shape {shape}; use "
                "GaussianMechanism for answers of other shapes."
            )
        return _Side.of("rows", self.rows, shape[0]), _Side.of("columns", self.columns, shape[1])


def _variances(rows: _Side, columns: _Side) -> FloatArray:
    """Variances along all pairs of eigenvectors, in units of the least."""
    return np.outer(rows.values, columns.values)
