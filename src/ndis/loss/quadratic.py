"""The privacy loss between two Gaussians, as one small object.

Whitened and diagonalised, an ordered pair of Gaussians (P, Q) is a list of independent
directions, each with variances v1 under P and v2 under Q and a mean difference. Only three
numbers per direction matter:

    excess  x:  v1/v2 = 1 + x for x >= 0,  v2/v1 = 1 - x for x < 0   (0: equal variances)
    shift   h:  squared mean difference over the smaller of the two variances
    count   n:  how many such directions there are (h is their total shift)

Written so, neither 1 - p nor 1 - ratio is ever formed by subtraction, reversing the pair is
x -> -x and nothing else, and composing two releases is concatenating two lists. The cumulant
function of the loss L = ln p(X)/q(X), X ~ P, is, with z = |x| and u = -s for x > 0, u = 1 + s
for x <= 0,

    Lambda(s) = ln E_P[e^{sL}] = sum n/2 [u ln(1+z) - ln(1+uz)] + sum h/2 u(u-1)/(1+uz)

which vanishes at s = 0 and s = -1. Everything else follows from Lambda.

Numbers that were rounded, or found by a floating-point eigenvalue routine, are near the pair that
is meant. Three more numbers per direction say how near:

    variance error   e:  relative error of the variances
    direction error  f:  what the covariances may have beside their diagonals, relatively
    shift error      g:  error of the root of the shift

(docs/proofs/certified-bounds.md has the precise meaning). `log_delta_bounds` encloses whatever lies
within these errors; everything else is about the numbers in the middle.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import certified, contour, curves, gammas, nearness, renyi
from ndis.loss.contract import SAFETY, Exactness, PrivacyLoss
from ndis.loss.tabulated import TabulatedLoss

BoolArray = NDArray[np.bool_]

# Below this excess ln(1+z) and z are close enough for their difference to need a series.
_SMALL = 0.25
# More than two roundings can take away, and the relative error of a number so rounded up.
_UP = 1.0 + 2.0**-51
_ROUNDED = 2.0**-50
_ROUNDING = 2.0**-53
_LEAST_DISTANCE = 1e-150
# What is this much rarer than delta, in logarithms, is not seen in its double; and attempts at
# finding out how rare that is.
_NEGLIGIBLE, _ROUNDS = 38.0, 4
# How far off a value may be that decides a search and no answer.
_ROUGH = 0.1
# Attempts at proving an epsilon that was found by a search.
_PROOFS = 8
# How far the fast value may lie outside proven bounds, by its own accuracy.
_FAST = 2e-12


_PARTS = ("excess", "shift", "count", "variance_error", "direction_error", "shift_error")


class QuadraticLoss(PrivacyLoss):
    """Privacy loss of one ordered pair of Gaussians, or of a batch of pairs of one shape.

    Users make one with `privacy_loss` or with a `from_...` factory; the constructor takes the
    stored numbers themselves.

    Parameters
    ----------
    excess, shift, count : array_like, shape (..., n_terms)
        Relative variances, squared mean shifts and multiplicities, as in the module's
        docstring. Leading dimensions are a batch of losses. An infinite excess means that the
        two laws are mutually singular: delta is 1 at every epsilon.
    variance_error, direction_error, shift_error : array_like
        How far the pair that is meant may be from these numbers; 0 for exactly these.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> shift = QuadraticLoss.from_shift(0.5)
    >>> f"{shift.delta(1.0):.6f}"
    '0.006830'
    >>> sketch = QuadraticLoss.from_leverage(0.01, n_components=100)
    >>> f"{(shift + sketch).delta(1.0):.6f}"
    '0.007284'
    """

    kind = "quadratic"
    stored = _PARTS
    infinite_mass = 0.0  # that of laws without a common support is counted by their cumulant
    exactness: Exactness = "exact"
    quick = True

    excess: FloatArray
    shift: FloatArray
    count: FloatArray
    variance_error: FloatArray
    direction_error: FloatArray
    shift_error: FloatArray
    _batch_shape: tuple[int, ...]
    _summands: tuple[QuadraticLoss, QuadraticLoss]

    def __init__(
        self,
        excess: ArrayLike,
        shift: ArrayLike,
        count: ArrayLike,
        variance_error: ArrayLike = 0.0,
        direction_error: ArrayLike = 0.0,
        shift_error: ArrayLike = 0.0,
    ) -> None:
        x = np.asarray(excess, dtype=np.float64) + 0.0  # no -0.0: equal losses have equal hashes
        if np.isnan(x).any():
            raise ValueError("Expected excess without NaN, got a NaN entry; remove or replace it.")
        rest = (shift, count, variance_error, direction_error, shift_error)
        parts = np.broadcast_arrays(
            np.atleast_1d(x),
            *(
                np.atleast_1d(_validate.floats_within(name, value, 0.0, math.inf))
                for name, value in zip(_PARTS[1:], rest, strict=True)
            ),
        )
        self._store(_merged(*parts) if parts[0].ndim == 1 else _only_live(parts))

    def _store(self, parts: Iterable[FloatArray]) -> QuadraticLoss:
        """Keep arrays that are known to be valid."""
        for name, part in zip(_PARTS, parts, strict=True):
            setattr(self, name, part)
        self._batch_shape = self.excess.shape[:-1]
        return self

    def parts(self) -> list[FloatArray]:
        """The stored arrays, in the constructor's order."""
        return [getattr(self, name) for name in _PARTS]

    # -- factories ---------------------------------------------------------------------------

    @classmethod
    def from_shift(cls, distance: ArrayLike) -> QuadraticLoss:
        """Equal covariances, means `distance` standard deviations apart (Mahalanobis).

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> f"{QuadraticLoss.from_shift(1.0).delta(0.0):.6f}"
        '0.382925'
        """
        d = _validate.floats_within("distance", distance, 0.0, 1.0 / _LEAST_DISTANCE)[..., None]
        tiny = (d > 0) & (d < _LEAST_DISTANCE)
        if tiny.any():
            raise ValueError(
                f"Expected distance={d[tiny][0]} to be 0 or at least {_LEAST_DISTANCE:g}, whose "
                "square a double can hold; round it up."
            )
        square, error = _squared(d)
        return cls(0.0, square, 0.0, shift_error=error)

    @classmethod
    def from_leverage(cls, leverage: ArrayLike, n_components: ArrayLike = 1) -> QuadraticLoss:
        """A zero-mean sketch of `n_components` columns with and without a row of this leverage.

        The row is present in P and absent in Q, the harder direction; `reversed()` is the
        other one. Leverage 1 gives mutually singular laws.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> f"{QuadraticLoss.from_leverage(0.1, n_components=10).delta(1.0):.4e}"
        '2.8160e-04'
        """
        p = _validate.floats_within("leverage", leverage, 0.0, 1.0)[..., None]
        r = _validate.floats_within("n_components", n_components, 1.0, math.inf)[..., None]
        # Two roundings may lower the quotient by an ulp or so; a larger excess dominates a smaller
        # one in both directions, so the pair that is stored is never the more private one.
        with np.errstate(divide="ignore"):
            return cls(p / (1.0 - p) * _UP, 0.0, r, _ROUNDED * p)

    @classmethod
    def from_log_ratios(
        cls, log_ratios: ArrayLike, shifts: ArrayLike = 0.0, multiplicities: ArrayLike = 1
    ) -> QuadraticLoss:
        """Directions given by ln(v1/v2).

        Parameters
        ----------
        log_ratios : array_like, shape (..., d)
            ln of variance under P over variance under Q, a direction each.
        shifts : array_like
            Mean differences (not squared), in standard deviations of the narrower law.
        multiplicities : array_like
            How many directions share each entry; shifts are then per direction.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> f"{QuadraticLoss.from_log_ratios([0.3, -0.2], shifts=[0.0, 0.1]).delta(0.2):.6f}"
        '0.040410'
        """
        logs = _validate.floats("log_ratios", log_ratios)
        distance = _validate.floats("shifts", shifts)
        n = _validate.floats_within("multiplicities", multiplicities, 0.0, math.inf)
        return _rounded(np.sign(logs) * np.expm1(np.abs(logs)), distance, n)

    # -- algebra -----------------------------------------------------------------------------

    def reversed(self) -> QuadraticLoss:
        """The loss of the pair (Q, P)."""
        return QuadraticLoss(-self.excess, *self.parts()[1:])

    def _plus(self, other: PrivacyLoss) -> PrivacyLoss | None:
        """Independent composition of two Gaussian releases: two lists, one after the other.

        They are joined when somebody looks: a sum of many losses takes time in proportion.
        """
        if not isinstance(other, QuadraticLoss):
            return other if self._says_nothing else None
        total = object.__new__(QuadraticLoss)
        total._summands = self, other
        total._batch_shape = np.broadcast_shapes(self.batch_shape, other.batch_shape)
        return total

    @property
    def _says_nothing(self) -> bool:
        """Whether both laws are the same, as where a sum of losses begins."""
        if self.batch_shape:
            return False
        x, h, n, *errors = self.parts()
        return not (np.any(x * n) or np.any(h) or any(np.any(error) for error in errors))

    def __getattr__(self, name: str) -> Any:
        """The arrays of a sum, joined now."""
        if name in _PARTS and "_summands" in self.__dict__:
            self._store(_joined(self, self._batch_shape))
            del self._summands
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _times(self, times: int) -> QuadraticLoss:
        x, h, n, e, f, g = self.parts()
        rounded = _ROUNDING * np.sqrt(h * times)
        return QuadraticLoss(x, h * times, n * times, e, f, math.sqrt(times) * _UP * g + rounded)

    def dominating(self) -> TabulatedLoss:
        """Itself, beside a table that says nothing."""
        return TabulatedLoss.beside(self)

    @property
    def squared_shift(self) -> float:
        """The squared mean difference of laws with one covariance; +inf for others."""
        same = (self.excess == 0.0) & (
            self.count * (self.variance_error + self.direction_error) == 0
        )
        farthest = np.where(
            self.shift_error == 0.0, self.shift, (np.sqrt(self.shift) + self.shift_error) ** 2
        )
        return float(np.sum(farthest)) if np.all(same) else math.inf

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch; () for a single loss."""
        return self._batch_shape

    def __getitem__(self, index: Any) -> QuadraticLoss:
        """Pick losses out of a batch."""
        if not self.batch_shape:
            raise TypeError(
                "Expected a batch of losses, got a single one; it has nothing to index."
            )
        rows = np.arange(math.prod(self.batch_shape)).reshape(self.batch_shape)[index]
        flat = (-1, self.excess.shape[-1])
        return QuadraticLoss(*(part.reshape(flat)[rows] for part in self.parts()))

    def __repr__(self) -> str:
        """Name the number of directions and the batch shape."""
        batch = f", batch_shape={self.batch_shape}" if self.batch_shape else ""
        return f"QuadraticLoss({self.excess.shape[-1]} distinct term(s){batch})"

    def to_dict(self) -> dict[str, Any]:
        """The stored numbers, exactly, as JSON-able hexadecimal floats; errors of 0 left out."""
        self.single()
        none = [name for name in _PARTS[3:] if not getattr(self, name).any()]
        return {name: part for name, part in super().to_dict().items() if name not in none}

    # -- the cumulant ------------------------------------------------------------------------

    def cumulant(self, s: ArrayLike) -> Any:
        """Lambda(s) = ln E_P[e^{sL}], +inf outside its strip of convergence (if there is one).

        Vectorised over `s` for a single loss.
        """
        exists = np.all(np.isfinite(self.excess), axis=-1)
        return np.where(exists, self._terms.value(_validate.floats("s", s)), np.inf)[()]

    # The loss of laws without a common support is infinite, and so are these.
    finite_cumulant = cumulant

    @functools.cached_property
    def _terms(self) -> contour.Cumulant:
        """Lambda, in a form without cancellation."""
        positive, z, half_n = self.excess > 0, np.abs(self.excess), 0.5 * self.count
        sign = np.where(positive, -1.0, 1.0)
        with np.errstate(all="ignore"):  # an infinite excess is looked at by nobody
            wide = np.where(positive, 1.0, 1.0 + z)
            log, less = np.log1p(z), contour.log1pmx(z)
            # ln(1+z) - z/(1+z), which is the former's slope at 0.
            rest = np.where(z < _SMALL, less + z * z / wide, log - z / wide)
            pull = 0.5 * self.shift / wide
            return contour.Cumulant(
                self.count,
                sign * z / wide,
                self.shift * (1.0 + z) / wide**3,
                half_n * np.where(positive, -less, rest) + pull,
                sign * half_n * log,
                pull,
                pull,
            )

    def strip(self) -> tuple[FloatArray, FloatArray]:
        """The open interval of s on which Lambda(s) is finite."""
        return self._terms.strip()

    def mean(self) -> FloatArray:
        """E_P[L], the Kullback-Leibler divergence of P from Q."""
        return self._terms.expand(np.zeros(self.batch_shape), 0.0).slope

    def variance(self) -> FloatArray:
        """Variance of L under P."""
        return self._terms.expand(np.zeros(self.batch_shape), 0.0).second

    def supremum(self) -> FloatArray:
        """The largest value L can take: finite only if P is narrower than Q everywhere.

        Of everything within the errors the largest.
        """
        x, h, n, e, f, g = self.parts()
        unbounded = np.any(_live(x, h, n, e, g) & (x >= 0), axis=-1)
        if unbounded.all():
            return np.full(unbounded.shape, np.inf)
        z = np.abs(x)
        with np.errstate(all="ignore"):
            share = np.max(np.where(e + f > 0, (1.0 + z) / z * (e + f), 0.0), axis=-1)
            logs = np.sum(n * (np.log1p(z) + 2.0 * (e + f * f)), axis=-1)
            pull = np.sum(np.where((h > 0) | (g > 0), (np.sqrt(h) + g) ** 2 / z, 0.0), axis=-1)
            top = 0.5 * (logs + pull / (1.0 - share))
        top *= 1.0 + (x.shape[-1] + 8.0) * 2.0 * _ROUNDING  # all terms are positive: rounded up
        return np.where(unbounded | ~(share < 1.0), np.inf, top)

    # -- delta -------------------------------------------------------------------------------

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """Ln delta(epsilon), right far below the smallest double; -inf only where delta is 0.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> f"{QuadraticLoss.from_shift(1.0).log_delta(100.0):.6f}"
        '-4960.254554'
        """
        flat, eps, shape = self._flat(epsilon)
        return flat._log_delta(eps).reshape(shape)[()]

    def _log_delta(self, eps: FloatArray, accurate: float = contour.ACCURATE) -> FloatArray:
        """Ln delta of a flat batch."""
        result = self._fast_log_delta(eps, accurate)
        for row in np.flatnonzero(np.isnan(result)):
            result[row] = _rows(self, np.array([row]))._certified_log_delta(float(eps[row]))
        return result

    def log_delta_bounds(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        """Proven lower and upper bounds on ln delta(epsilon), by ball arithmetic.

        What is enclosed is the delta of every pair within the errors, and the double that
        `log_delta` returns.
        """
        flat, eps, shape = self._flat(epsilon)
        if any(part.any() for part in flat.parts()[3:]):
            (low, _), (_, high) = flat._proven(eps, 1), flat._proven(eps, -1)
        else:
            low, high = flat._proven(eps, 1)
        low, high = flat._with_value(eps, low, high)
        return low.reshape(shape)[()], high.reshape(shape)[()]

    def _with_value(
        self, eps: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds that hold the fast value of a flat batch too, where it is near them."""
        value = self._fast_log_delta(eps)
        with np.errstate(invalid="ignore"):
            margin = _FAST * np.maximum(1.0, np.abs(value))
            near = (value > low - margin) & (value < high + margin)
        return (
            np.where(near, np.minimum(low, value), low),
            np.where(near, np.maximum(high, value), high),
        )

    def _proven(self, eps: FloatArray, side: int) -> tuple[FloatArray, FloatArray]:
        """Bounds on ln delta of a flat batch by ball arithmetic, good below (1) or above (-1)."""
        numbers, step, _ = self._near(eps, 0.0, _ROUGH, side)
        bounds = [
            certified.log_delta_bounds(_rows(numbers, slice(row, row + 1)), at)
            for row, at in enumerate(step.moved(side).tolist())
        ]
        low, high = np.array(bounds).reshape((-1, 2)).T
        high = np.where(eps >= self.supremum(), -np.inf, np.minimum(step.raised(high), 0.0))
        return step.lowered(low), high

    def _near(
        self, eps: FloatArray, tolerance: float, accurate: float, side: int = -1
    ) -> tuple[QuadraticLoss, nearness.Step, FloatArray]:
        """Numbers without errors, the step from them to what is meant, and ln delta before it.

        For upper bounds; with side 1 for lower ones, and ln delta after it. What a step leaves out
        should be rare beside that delta, and where epsilon moves by more than `tolerance` not much
        rarer. Every step is right, and of those that are tried the best is taken: beyond the end of
        a loss that is bounded but for its errors, delta is smaller than any step can tell.
        """
        parts = (nearness.worst if side < 0 else nearness.best)(self.parts())
        numbers = _raw([*parts[:3], *np.zeros((3, *self.excess.shape))])
        least = _NEGLIGIBLE + np.maximum(eps, 0.0)
        log_rare = least + 750.0
        found: nearness.Tried | None = None
        for left in range(_ROUNDS if parts[3].any() or parts[4].any() else 1, 0, -1):
            step = nearness.step(eps, parts, log_rare)
            value = numbers._log_delta(step.moved(side), accurate)
            needed = least - value
            poor = needed > log_rare
            poor |= (step.width > tolerance) & (needed < 0.5 * log_rare)
            tried = (step, value)
            found = tried if found is None else nearness.tighter(found, tried, side)
            if left == 1 or not poor.any():
                break
            wanted = np.where(np.isfinite(needed), 1.1 * needed, 4.0 * log_rare)
            log_rare = np.where(poor, wanted, log_rare)
        assert found is not None  # there is one round at least
        return numbers, *found

    def _flat(self, epsilon: ArrayLike) -> tuple[QuadraticLoss, FloatArray, tuple[int, ...]]:
        """Losses and epsilons as one flat batch, each repeated along the other, and its shape."""
        eps = _validate.epsilons(epsilon)
        shape = np.broadcast_shapes(eps.shape, self.batch_shape)
        terms = self.excess.shape[-1:]
        parts = self.parts()
        if shape != self.batch_shape:
            parts = [np.broadcast_to(part, shape + terms) for part in parts]
        flat = _raw(part.reshape((-1, *terms)) for part in parts)
        return flat, np.broadcast_to(eps, shape).reshape(-1), shape

    def _fast_log_delta(self, eps: FloatArray, accurate: float = contour.ACCURATE) -> FloatArray:
        """Ln delta of a flat batch in floating point; NaN where that is not accurate."""
        result = np.full(eps.size, np.nan)
        x, h, n, e, _, g = self.parts()
        with np.errstate(all="ignore"):  # what overflows comes back as NaN and is certified
            singular = np.isinf(x).any(axis=-1)
            trivial = ~_live(x, h, n, e, g).any(axis=-1)
            beyond = eps >= self.supremum()
            if (singular | trivial | beyond).any():
                result[beyond] = -np.inf
                result[trivial] = np.log(-np.expm1(np.minimum(eps[trivial], 0.0)))
                result[singular] = 0.0
            integral = functools.partial(QuadraticLoss._contour_log_delta, accurate=accurate)
            for route in (QuadraticLoss._closed_log_delta, integral):
                todo = np.flatnonzero(np.isnan(result))
                if todo.size:
                    part = self if todo.size == eps.size else _rows(self, todo)
                    result[todo] = route(part, eps[todo])
        return result

    def upper_log_delta(
        self, epsilon: FloatArray, matters: FloatArray | float = -math.inf
    ) -> FloatArray:
        """Ln delta, raised by what the errors can do and by SAFETY for the fast path.

        That is a hundred times what the fast path was ever found to be off.
        """
        if not self.batch_shape and not np.isinf(self.excess).any() and np.any(matters > -np.inf):
            s = renyi.few_orders(self.strip()[1])
            lines = renyi.log_delta_bound(self.cumulant(s), s, epsilon[..., None])
            bound = np.minimum(np.min(lines, axis=-1) + 1e-9 * (1.0 + np.abs(epsilon)), 0.0)
            some = bound > matters
            bound[some] = self.upper_log_delta(epsilon[some])
            return np.asarray(bound)
        flat, eps, shape = self._flat(epsilon)
        _, step, value = flat._near(eps, SAFETY, contour.ACCURATE)
        upper = np.minimum(step.raised(value) + SAFETY, 0.0)
        return np.where(eps >= flat.supremum(), -np.inf, upper).reshape(shape)

    def epsilon(self, delta: ArrayLike) -> Any:
        """The least epsilon >= 0 at which delta(epsilon) is at most delta, rounded up.

        It is found on the fast path and then proven by ball arithmetic, once as a rule, which takes
        5 to 20 ms; so is each of a batch of losses.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> f"{QuadraticLoss.from_shift(1.0).epsilon(1e-6):.6f}"
        '4.886554'
        """
        flat, wanted, shape = self._flat(_validate.deltas(delta))
        result = np.maximum(flat.supremum(), 0.0)
        if wanted.any():
            alike = np.column_stack([wanted, *flat.parts()])[wanted > 0]
            _, first, place = np.unique(alike, axis=0, return_index=True, return_inverse=True)
            some = np.flatnonzero(wanted)[first]
            found = _rows(flat, some)._proven_epsilons(np.log(wanted[some]))
            result[wanted > 0] = found[place.ravel()]
        return result.reshape(shape)[()]

    def _proven_epsilons(self, target: FloatArray) -> FloatArray:
        """The least epsilons at which ln delta of a flat batch is proven to be below targets."""
        worst, end = nearness.worst(self.parts()), self.supremum()
        numbers = _raw([*worst[:3], *np.zeros((3, *self.excess.shape))])
        result, rows = np.full(target.size, np.inf), np.arange(target.size)
        # The proof raises delta, and the step raises epsilon: aim lower by as much.
        aim = target - SAFETY - 1.5 * nearness.step(0.0 * target, worst, _NEGLIGIBLE - target).a
        for _ in range(_PROOFS):
            found = curves.least_epsilons(
                lambda eps, some: _rows(numbers, some)._log_delta(eps, _ROUGH), aim[rows]
            )
            rows, found = rows[np.isfinite(found)], found[np.isfinite(found)]
            rare = 1.2 * (_NEGLIGIBLE + found - target[rows])
            step = nearness.step(found, [part[rows] for part in worst], rare)
            # Beyond the end of a bounded loss delta is 0, and at epsilon 0 there may be no need.
            found = np.where(found > 0, np.minimum(step.moved(1), end[rows]), 0.0)
            high = _rows(self, rows)._proven_upper(found)
            proven = high <= np.nextafter(target[rows], -np.inf)
            result[rows[proven]] = found[proven]
            aim[rows] -= 2.0 * np.maximum(high - target[rows], 0.0) + SAFETY
            rows = rows[~proven]
            if not rows.size:
                return result
        result[rows] = curves.least_epsilons(
            lambda eps, some: _rows(self, rows[some])._proven_upper(eps), target[rows]
        )
        return result

    def _proven_upper(self, eps: FloatArray) -> FloatArray:
        """The upper ones of `log_delta_bounds`, for a flat batch."""
        return self._with_value(eps, *self._proven(eps, -1))[1]

    def _closed_log_delta(self, eps: FloatArray) -> FloatArray:
        """Ln delta of a flat batch of leverages of as many components; NaN for others."""
        half = 0.5 * float(self.count[0, 0])
        alike = self.excess.shape[-1] == 1 and 0 < half <= min(gammas.MOST, gammas.FEW + eps.size)
        alike = alike and half % 0.5 == 0 and bool(np.all(self.count == 2.0 * half))
        wide = self.excess[:, 0] > 0
        if alike and np.all(wide == wide[0]) and not self.shift.any():
            return gammas.log_delta(half, np.abs(self.excess[:, 0]), eps, bool(wide[0]))
        return np.full(eps.size, np.nan)

    def _contour_log_delta(self, eps: FloatArray, accurate: float = contour.ACCURATE) -> FloatArray:
        """Ln delta by steepest descent for a flat batch; NaN where that is not accurate."""
        size = max(1, contour.CHUNK // (32 * self.excess.shape[-1]))
        if eps.size > size:
            pieces = [slice(i, i + size) for i in range(0, eps.size, size)]
            return np.concatenate(
                [_rows(self, p)._contour_log_delta(eps[p], accurate) for p in pieces]
            )
        problem, start, complement = self.problem(eps)
        value, good = contour.log_integral(problem, start, accurate)
        # Of delta and 1 - delta the smaller is the one with digits; the guess may be wrong.
        other = np.flatnonzero(value > -0.5)
        if other.size:
            complement[other] = ~complement[other]
            problem, start, _ = _rows(self, other).problem(eps[other], complement[other])
            value[other], good[other] = contour.log_integral(problem, start, accurate)
        value = np.where(complement, np.log1p(-np.exp(value)), value)
        return np.where(good, value, np.nan)

    def problem(
        self, t: FloatArray, complement: BoolArray | None = None
    ) -> tuple[contour.Problem, FloatArray, BoolArray]:
        """The integral of exp(Lambda(s) - s t) / (s (s + 1)), and a guess at its saddle point.

        It is delta on the strip to the right of 0, and delta - 1 on the strip (-1, 0), the
        complement; left to choose, this takes the side on which it is likely to be small.
        """
        problem, start = self._terms.problem(t, (0.0, -1.0))
        if complement is None:
            complement = problem.derivatives(np.zeros(t.size))[0] > 0.7
        low, high = np.where(complement, -1.0, 0.0), np.where(complement, 0.0, problem.high)
        return (
            replace(problem, low=low, high=high),
            np.where(complement, -0.5, start),
            np.asarray(complement),
        )

    def _certified_log_delta(self, eps: float) -> float:
        """Ln delta of the numbers in the middle, where they are far enough from delta = 0."""
        low, high = certified.log_delta_bounds(self, eps)
        if high == -math.inf and any(part.any() for part in self.parts()[3:]):
            low, high = (float(bound[0]) for bound in self.log_delta_bounds(np.array([eps])))
        known = high - low <= 1e-9 * max(1.0, abs(high))
        return 0.5 * (low + high) if known else high  # the upper bound is the safe answer


def _raw(parts: Iterable[FloatArray]) -> QuadraticLoss:
    """A loss from arrays that are known to be valid."""
    loss = object.__new__(QuadraticLoss)
    loss._store(parts)
    return loss


def _rows(loss: QuadraticLoss, rows: Any) -> QuadraticLoss:
    return _raw(part[rows] for part in loss.parts())


def _joined(total: QuadraticLoss, batch: tuple[int, ...]) -> list[FloatArray]:
    """The arrays of all that a sum was made of, one after the other, merged if it is no batch."""
    waiting, leaves = [total], []
    while waiting:
        loss = waiting.pop()
        if "_summands" in loss.__dict__:
            waiting.extend(reversed(loss._summands))
        else:
            leaves.append(loss.parts())
    columns = list(zip(*leaves, strict=True))
    if not batch:
        return _merged(*map(np.concatenate, columns))
    return [
        np.concatenate([np.broadcast_to(p, batch + p.shape[-1:]) for p in column], axis=-1)
        for column in columns
    ]


def _squared(d: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The square, rounded up unless it is exact, and a bound on the error of its root."""
    square = d * d
    high = 134217729.0 * d  # Dekker's product: half of the digits, and the rest
    high = high - (high - d)
    low = d - high
    missing = ((high * high - square) + 2.0 * high * low) + low * low
    exact = (missing == 0.0) & ((d == 0.0) | (d > 1e-140))
    up = np.where(exact | (missing < 0.0), square, np.nextafter(square, np.inf))
    return up, np.where(exact, 0.0, 2.0 * _ROUNDING * d)


def _rounded(excess: FloatArray, distance: FloatArray, n: FloatArray) -> QuadraticLoss:
    """A loss whose excess was rounded two or three times, of mean differences `distance`."""
    size, root = np.abs(excess), np.abs(distance) * np.sqrt(n)
    error = _ROUNDED * size / (1.0 + size)
    return QuadraticLoss(excess, distance**2 * n, n, error, 0.0, _ROUNDED * root)


def _live(x: FloatArray, h: FloatArray, n: FloatArray, e: FloatArray, g: FloatArray) -> BoolArray:
    """Directions that carry a loss."""
    return np.asarray((n > 0) & ((x != 0) | (e > 0)) | (h > 0) | (g > 0))


def _only_live(parts: Sequence[FloatArray]) -> Sequence[FloatArray]:
    """A batch whose directions that carry no loss are those of equal laws, without errors."""
    x, h, n, e, _, g = parts
    live = _live(x, h, n, e, g)
    return parts if live.all() else [np.where(live, part, 0.0) for part in parts]


def _merged(x: FloatArray, h: FloatArray, n: FloatArray, *errors: FloatArray) -> list[FloatArray]:
    """One entry for each distinct excess; directions that carry no loss are dropped."""
    e, f, g = errors
    live = _live(x, h, n, e, g)
    values, place, sizes = np.unique(x[live], return_inverse=True, return_counts=True)
    if values.size == 0:
        return [np.zeros(1)] * len(_PARTS)
    total_h, total_n, total_g = (np.bincount(place, p[live], values.size) for p in (h, n, g))
    worst = np.zeros((2, values.size))
    np.maximum.at(worst[0], place, e[live])
    np.maximum.at(worst[1], place, f[live])
    total_n = np.where((values == 0) & (worst[0] == 0), 0.0, total_n)
    total_g += _ROUNDING * (sizes - 1) * (np.sqrt(total_h) + 2.0 * total_g)  # sums are rounded
    return [values, total_h, total_n, *worst, total_g]
