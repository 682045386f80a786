"""Gaussian laws, given in whatever form their covariance is known.

Two laws become one `QuadraticLoss` here, by whitening; errors of the linear algebra are bounded and
go into the loss, so that its proven bounds hold for the laws that were meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import numpy as np
from flint import arb_mat, fmpz_mat, nmod_mat
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import Profile, QuadraticLoss, certified, diagonal

IntArray = NDArray[np.intp]
_T = TypeVar("_T")

# Numbers that a simulation draws at once.
_SAMPLES_AT_ONCE = 1 << 20
_EXACT_BITS = 512
# Each halves the condition of a root at first, and doubles its digits at the end.
_ROOT_STEPS = 60
_PRIME = 2**61 - 1


class Gaussian:
    """The law N(mean, cov), possibly degenerate.

    Parameters
    ----------
    mean : array_like, shape (d,)
    cov : array_like, shape (d, d)
        Symmetric and positive semi-definite. The factories below take a diagonal, a precision
        matrix, a Cholesky (or any) factor, or a multiple of the identity instead.

    Examples
    --------
    >>> from ndis import Gaussian, privacy_loss
    >>> P = Gaussian([0.0, 0.0], [[1.0, 0.2], [0.2, 1.0]])
    >>> Q = Gaussian([0.1, 0.0], [[1.1, 0.2], [0.2, 1.0]])
    >>> f"{privacy_loss(P, Q).delta(0.1):.6f}"
    '0.000000'
    """

    __slots__ = ("_form", "_given", "_matrix", "mean", "variances")

    # The covariance in doubles, and what it was computed from, which is the law as given.
    _form: Literal["covariance", "factor", "precision"]
    _given: FloatArray
    _matrix: FloatArray | None
    # Of a law that is known to have independent coordinates, else None.
    variances: FloatArray | None

    def __init__(self, mean: ArrayLike, cov: ArrayLike) -> None:
        self.mean = _mean(mean)
        matrix = _validate.floats("cov", np.atleast_2d(cov), 2 * self.mean.shape)
        scale = float(np.abs(matrix).max())
        if np.abs(matrix - matrix.T).max() > 1e-10 * scale:
            raise ValueError(
                "Expected cov to be symmetric, got a matrix that differs from its transpose; "
                "pass (cov + cov.T) / 2 if that is what you mean."
            )
        matrix = 0.5 * (matrix + matrix.T)
        _check_semi_definite(matrix, scale)
        self._matrix, self.variances = matrix, None
        self._form, self._given = "covariance", matrix

    @classmethod
    def from_diagonal(cls, mean: ArrayLike, variances: ArrayLike) -> Gaussian:
        """Independent coordinates with these variances.

        Examples
        --------
        >>> from ndis import Gaussian
        >>> Gaussian.from_diagonal([0.0, 1.0], [1.0, 2.0]).dimension
        2
        """
        law = cls.__new__(cls)
        law.mean = _mean(mean)
        given = _validate.floats("variances", variances, law.mean.shape)
        law.variances = _validate.floats_within("variances", given, 0.0, np.inf)
        law._matrix, law._form = None, "covariance"
        return law

    @classmethod
    def isotropic(cls, mean: ArrayLike, variance: float) -> Gaussian:
        """The law N(mean, variance I)."""
        center = _mean(mean)
        return cls.from_diagonal(
            center, np.full(center.size, _validate.non_negative("variance", variance))
        )

    @classmethod
    def from_precision(cls, mean: ArrayLike, precision: ArrayLike) -> Gaussian:
        """The law whose inverse covariance is `precision`, which must be positive definite."""
        center = _mean(mean)
        matrix = _validate.floats("precision", np.atleast_2d(precision), 2 * center.shape)
        try:
            factor = np.linalg.cholesky(0.5 * (matrix + matrix.T))
        except np.linalg.LinAlgError:
            raise ValueError(
                "Expected precision to be positive definite, got a matrix that is not; "
                "a law without a density has no precision matrix."
            ) from None
        inverse = np.linalg.solve(factor, np.eye(center.size))
        law = cls(center, inverse.T @ inverse)
        law._form, law._given = "precision", 0.5 * (matrix + matrix.T)
        return law

    @classmethod
    def from_cholesky(cls, mean: ArrayLike, factor: ArrayLike) -> Gaussian:
        """The law of mean + factor @ z, z standard normal; any d x k factor will do."""
        center = _mean(mean)
        matrix = _validate.floats("factor", factor, (center.size, None))
        law = cls(center, matrix @ matrix.T)
        if np.any((np.diag(law.cov) == 0) & matrix.any(axis=1)):
            raise ValueError(
                "Expected a factor whose squares are above the smallest double, got a row whose "
                "variance comes out as 0; use larger units."
            )
        law._form, law._given = "factor", matrix
        return law

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return int(self.mean.size)

    @property
    def cov(self) -> FloatArray:
        """The covariance matrix."""
        if self._matrix is None:
            return np.diag(np.asarray(self.variances))
        return self._matrix

    def sample(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Draw `size` vectors, shape (size, d)."""
        width = self._given.shape[1] if self._form == "factor" else self.dimension
        z = generator.standard_normal((_validate.count("size", size), width))
        if self._form == "factor":
            return np.asarray(self.mean + z @ self._given.T)
        if self._matrix is None:
            diagonal: FloatArray = self.mean + z * np.sqrt(np.asarray(self.variances))
            return diagonal
        values, vectors = np.linalg.eigh(self._matrix)
        # Eigenvalues of a semi-definite matrix that rounding made negative are zeros.
        draws: FloatArray = self.mean + (z * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return draws

    def __repr__(self) -> str:
        """Name the dimension and the form of the covariance."""
        form = "dense" if self.variances is None else "diagonal"
        return f"Gaussian(dimension={self.dimension}, {form} covariance)"


def privacy_loss(P: Gaussian, Q: Gaussian) -> QuadraticLoss:
    """The privacy loss ln p(X)/q(X), X ~ P, of an ordered pair of Gaussians.

    Laws that do not live on the same affine subspace are mutually singular: delta is 1. What is
    computed belongs to the doubles of the means and covariances (factors, precisions) as given,
    taken as exact, and `delta_bounds` of the loss encloses it: where doubles do not resolve a
    covariance to 12 digits, ball arithmetic does, in up to 128 dimensions. In more, `delta` may
    have as few as 8 digits of a pair that is ill-conditioned, and in more than 1000 three; the
    bounds say how many. A pair that neither resolves is refused.

    Examples
    --------
    >>> from ndis import Gaussian, privacy_loss
    >>> loss = privacy_loss(Gaussian([0.0], [[1.0]]), Gaussian([1.0], [[1.0]]))
    >>> f"{loss.delta(1.0):.6f}"
    '0.126937'
    """
    return _loss(P, Q, finest=False)


def profile(P: Gaussian, Q: Gaussian) -> Profile:
    """The worst of both directions of a pair of Gaussians.

    Examples
    --------
    >>> from ndis import Gaussian, profile
    >>> pair = profile(Gaussian([0.0], [[1.0]]), Gaussian([0.0], [[1.2]]))
    >>> f"{pair.delta(0.1):.6f}"
    '0.023244'
    """
    return Profile.both(privacy_loss(P, Q))


def log_delta_bounds(
    P: Gaussian, Q: Gaussian, epsilon: float, copies: int = 1
) -> tuple[float, float]:
    """Proven bounds on ln delta(epsilon) of two Gaussians, their eigenvalue problem included.

    With `copies` > 1 so many independent draws of either law are compared.

    The enclosure is that of `privacy_loss(P, Q)` with an eigenvalue problem solved in ball
    arithmetic in any case: as narrow as doubles can name it, and slower (a second in 200
    dimensions).

    Examples
    --------
    >>> from ndis import Gaussian
    >>> from ndis.gaussian import log_delta_bounds
    >>> P = Gaussian([0.0, 0.1], [[1.0, 0.2], [0.2, 1.0]])
    >>> Q = Gaussian([0.0, 0.0], [[1.1, 0.2], [0.2, 1.0]])
    >>> low, high = log_delta_bounds(P, Q, 0.1)
    >>> f"{low:.12f}", bool(high - low < 1e-12)
    ('-4.361838249094', True)
    """
    eps, k = _validate.real("epsilon", epsilon), _validate.count("copies", copies)
    low, high = (k * _loss(P, Q, finest=True)).log_delta_bounds(eps)
    return float(low), float(high)


def monte_carlo_delta(
    P: Gaussian,
    Q: Gaussian,
    epsilon: float,
    alpha: float,
    gamma: float,
    random_state: int | np.random.Generator | None = None,
) -> float:
    """Estimate delta(epsilon) by simulation, with a promise.

    With probability at least 1 - gamma the estimate is within alpha of the truth: it is the mean
    of ln(2/gamma) / (2 alpha^2) independent values of (1 - e^{epsilon - L})_+, which lie between 0
    and 1 (Hoeffding). It knows nothing of the exact route and so can check it.

    Examples
    --------
    >>> from ndis import Gaussian, monte_carlo_delta
    >>> P, Q = Gaussian([1.0], [[1.0]]), Gaussian([0.0], [[1.0]])
    >>> abs(monte_carlo_delta(P, Q, 1.0, alpha=0.005, gamma=1e-3, random_state=0) - 0.1269) < 0.005
    True
    """
    eps = _validate.real("epsilon", epsilon)
    accuracy, risk = _validate.probability("alpha", alpha), _validate.probability("gamma", gamma)
    _same_space(P, Q)
    with _refusing():
        simulated = _on_support(P, Q, np.arange(P.dimension), lambda pair: pair.simulated())
    if simulated is None:
        return 1.0
    quadratic, linear, constant = simulated
    generator = np.random.default_rng(random_state)
    wanted = math.ceil(math.log(2.0 / risk) / (2.0 * accuracy**2))
    chunk = max(1, _SAMPLES_AT_ONCE // linear.size)
    total = 0.0
    for done in range(0, wanted, chunk):
        z = generator.standard_normal((linear.size, min(chunk, wanted - done)))
        loss = constant + linear @ z + 0.5 * (z * (quadratic @ z)).sum(axis=0)
        total += float(-np.expm1(np.minimum(eps - loss, 0.0)).sum())
    return total / wanted


def _same_space(first: Gaussian, second: Gaussian) -> FloatArray:
    """The difference of the means of two laws on one space."""
    if first.dimension != second.dimension:
        raise ValueError(
            f"Expected two laws of one dimension, got {first.dimension} and {second.dimension}; "
            "a privacy loss compares two laws on the same space."
        )
    return first.mean - second.mean


def _loss(P: Gaussian, Q: Gaussian, *, finest: bool) -> QuadraticLoss:
    """The loss of a pair, with errors that cover the laws as given."""
    difference = _same_space(P, Q)
    v1, v2 = (_variances(law) for law in (P, Q))
    live, dead = np.flatnonzero(v1 != 0), v1 == 0
    with _refusing():
        if np.any(v1 < 0) or np.any(v2 < 0) or P.cov[dead].any():
            raise diagonal.Unresolved  # rounded to what is no covariance
        if np.any(dead != (v2 == 0)) or np.any(difference[dead] != 0):
            return QuadraticLoss(np.inf, 0.0, 1.0)
        if P.variances is not None and Q.variances is not None:
            return diagonal.diagonal_loss(v1[live], v2[live], difference[live])
        if _equal(P, Q):
            return QuadraticLoss(0.0, 0.0, 0.0)
        loss = _on_support(P, Q, live, lambda pair: pair.loss(finest=finest))
        return loss if loss is not None else QuadraticLoss(np.inf, 0.0, 1.0)


def _equal(P: Gaussian, Q: Gaussian) -> bool:
    """Whether two laws were given by the same numbers."""
    return (
        P._form == Q._form
        and np.array_equal(P.mean, Q.mean)
        and np.array_equal(_given(P), _given(Q))
    )


def _on_support(
    P: Gaussian, Q: Gaussian, coordinates: IntArray, ask: Callable[[_Pair], _T]
) -> _T | None:
    """What a pair answers, on its support where it is degenerate; None for different supports."""
    try:
        return ask(_Pair(P, Q, coordinates))
    except diagonal.Unresolved:
        common = _common_coordinates(P, Q)
        return None if common is None else ask(_Pair(P, Q, common))


@contextmanager
def _refusing() -> Iterator[None]:
    """Say in a sentence that a pair is not resolved."""
    try:
        yield
    except diagonal.Unresolved:
        raise ValueError(
            "Expected covariances that are positive definite or exactly singular, got one that "
            "cannot be told from a matrix that is neither; add a ridge, or give a law of low rank "
            "by Gaussian.from_cholesky."
        ) from None


class _Pair:
    """Two laws on some coordinates, in units of about one standard deviation each.

    The units are powers of two, so nothing is rounded; and delta is the same in all units, but
    no column is small beside another any more.
    """

    def __init__(self, P: Gaussian, Q: Gaussian, coordinates: IntArray) -> None:
        size = np.sqrt(np.maximum(_variances(P), _variances(Q)))
        self.unit = -np.frexp(np.where(size > 0, size, 1.0))[1]
        self.keep, self.laws = coordinates, (P, Q)

    def loss(self, *, finest: bool) -> QuadraticLoss:
        """The privacy loss; Unresolved if the covariances are not seen to be positive definite."""
        both, keep = self.unit[:, None] + self.unit, np.ix_(self.keep, self.keep)
        S1, S2 = (np.ldexp(law.cov, both)[keep] for law in self.laws)
        difference = np.ldexp(self.laws[0].mean - self.laws[1].mean, self.unit)[self.keep]
        errors = (_rounding(self.laws[0]), _rounding(self.laws[1]))
        return diagonal.matrix_loss(S1, S2, difference, errors, self.balls, finest=finest)

    def balls(self) -> tuple[Any, Any, Any]:
        """The covariances and the difference of the means, as given."""
        S1, S2 = (self._covariance(law) for law in self.laws)
        means = (np.ldexp(law.mean, self.unit)[self.keep, None] for law in self.laws)
        first, second = (arb_mat(mean.tolist()) for mean in means)
        return S1, S2, first - second

    def _covariance(self, law: Gaussian) -> Any:
        given = arb_mat(self.scaled(law).tolist())
        if law._form == "factor":
            return given * given.transpose()
        try:
            return given.inv() if law._form == "precision" else given
        except ZeroDivisionError:
            raise diagonal.Unresolved from None

    def scaled(self, law: Gaussian) -> FloatArray:
        """The matrix that a law was given by, in these units and coordinates."""
        matrix, unit = _given(law), self.unit[:, None]
        if law._form == "factor":
            return np.ldexp(matrix, unit)[self.keep]
        both = unit + unit.T
        scaled: FloatArray = np.ldexp(matrix, -both if law._form == "precision" else both)
        return scaled[np.ix_(self.keep, self.keep)]

    def simulated(self) -> tuple[FloatArray, FloatArray, float]:
        """A, b and c of the loss z^T A z/2 + b^T z + c, z standard normal, under the first law.

        A textbook's formulas with far more bits than they need: A = R S2^-1 R - I and so on, with
        the symmetric root R of S1 by the iteration of Denman and Beavers. The exact route does
        none of this.
        """
        with certified.precision(_EXACT_BITS):
            S1, S2, mean = self.balls()
            one = arb_mat(np.eye(S1.nrows()).tolist())
            try:
                inverse = S2.inv()
                constant = (S2.det() / S1.det()).log() + (mean.transpose() * inverse * mean)[0, 0]
                root, other = S1.mid(), one
                for _ in range(_ROOT_STEPS):
                    mean_root, mean_other = root + other.inv(), other + root.inv()
                    root, other = (mean_root / 2).mid(), (mean_other / 2).mid()
            except ZeroDivisionError:
                raise diagonal.Unresolved from None
            off = diagonal.floats(other * S1 * other - one)  # NaN without a root
            if not (np.abs(off).max() < 1e-9 and constant.is_finite()):
                raise diagonal.Unresolved
            quadratic, linear = root * inverse * root - one, root * inverse * mean
            return diagonal.floats(quadratic), diagonal.floats(linear)[:, 0], 0.5 * float(constant)


def _variances(law: Gaussian) -> FloatArray:
    return np.diag(law.cov) if law.variances is None else law.variances


def _given(law: Gaussian) -> FloatArray:
    return law.cov if law._form == "covariance" else law._given


def _rounding(law: Gaussian) -> float:
    """How far the covariance in doubles may be from the law as given, beside its deviations."""
    if law._form == "covariance":
        return 0.0
    terms = law._given.shape[1] + 4 if law._form == "factor" else math.inf
    return terms * float(np.finfo(np.float64).eps)


def _common_coordinates(P: Gaussian, Q: Gaussian) -> IntArray | None:
    """Coordinates that determine all others under either law; None if their supports differ.

    Decided by ranks in integer arithmetic, so exact for the doubles as given.
    """
    pair = _Pair(P, Q, np.arange(P.dimension))
    # Columns that span what a law's covariance spans, up to a power of two.
    spans = [_integers(pair.scaled(law)) for law in (P, Q)]
    coordinates = [_independent_rows(span) for span in spans]
    for law, rows in zip((P, Q), coordinates, strict=True):
        with certified.precision(_EXACT_BITS):
            diagonal.whitening(_Pair(law, law, rows).balls()[0])  # positive definite there
    moved = _integers(np.ldexp(np.stack([P.mean, Q.mean], axis=1), pair.unit[:, None]))
    difference = [[a - b] for a, b in moved]
    joined = [a + b + c for a, b, c in zip(*spans, difference, strict=True)]
    if not coordinates[0].size == coordinates[1].size == fmpz_mat(joined).rank():
        return None
    if coordinates[0].size == P.dimension:
        raise diagonal.Unresolved
    return coordinates[0]


def _independent_rows(rows: list[list[int]]) -> IntArray:
    """As many independent rows of an integer matrix as it has."""
    reduced, rank = nmod_mat(fmpz_mat(rows).transpose(), _PRIME).rref()
    if rank != fmpz_mat(rows).rank():
        raise diagonal.Unresolved  # the prime divides a minor, once in 1e18 times
    table = [[int(v) for v in row] for row in reduced.tolist()[:rank]]
    return np.array([next(j for j, v in enumerate(row) if v) for row in table], dtype=np.intp)


def _integers(matrix: FloatArray) -> list[list[int]]:
    """A matrix of doubles times a power of two that makes its entries whole."""
    mantissa, exponent = np.frexp(matrix)
    whole = np.ldexp(mantissa, 53).astype(np.int64).tolist()
    up = (exponent - exponent[mantissa != 0].min(initial=0)).tolist()
    return [
        [a << max(k, 0) for a, k in zip(row, shifts, strict=True)]
        for row, shifts in zip(whole, up, strict=True)
    ]


def _check_semi_definite(matrix: FloatArray, scale: float) -> None:
    """Refuse what has a negative eigenvalue beyond rounding."""
    # Below this an eigenvalue is indistinguishable from 0.
    slack = 8.0 * len(matrix) * float(np.finfo(np.float64).eps) * scale
    try:
        # The factorisation is ten times as fast as the eigenvalues, which a message needs.
        np.linalg.cholesky(matrix + slack * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(matrix)[0]) if scale else 0.0
        if smallest < -slack:
            raise ValueError(
                f"Expected cov to be positive semi-definite, got a least eigenvalue of "
                f"{smallest:.3g}; check how it was computed."
            ) from None


def _mean(mean: ArrayLike) -> FloatArray:
    center = np.atleast_1d(_validate.floats("mean", mean))
    if center.ndim != 1 or center.size == 0:
        raise ValueError(
            f"Expected mean to be a non-empty vector, got shape {center.shape}; reshape it."
        )
    return center
