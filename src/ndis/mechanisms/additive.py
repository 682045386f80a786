"""Noise added to the answer, for numbers, vectors, matrices and tensors.

Two answers that differ by at most the sensitivity make one worst pair of laws, a shift in units
of the noise, and the exact calibration is the least noise at which it meets (epsilon, delta):
normal noise, or the law that has the least variance. The sensitivity is the caller's word, so that
every promise here is "declared".
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.guarantee import NeighbourRelation
from ndis.mechanisms import laws
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.intervals import Intervals
from ndis.mechanisms.manners import require_fitted
from ndis.mechanisms.run import Forecast, Plan, Run
from ndis.mechanisms.target import Part, Target
from ndis.randomness import (
    add_discrete_laplace_noise,
    add_laplace_noise,
    add_noise,
    add_spherical_noise,
    grid_spacing,
)
from ndis.randomness.noise import parts_of
from ndis.release import Release

Shape = tuple[int, ...]
# Answers and noise up to this size add up within the doubles.
_LARGEST = 2.0**1000
# What every promise rests on.
_DECLARED = "declared", "It rests on the sensitivity that was declared."


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

    # A table of answers is released row by row: who is protected and how many rows there are is
    # public.
    needs = ("sensitivity",)
    asks = ("relation", "shape")
    reads = "answers"

    sensitivity: float | None = None
    relation: NeighbourRelation | str = "add-remove"
    _certified = frozenset({"shape"})

    # -- before the answer -------------------------------------------------------------------

    def plan(self, shape: Any = None) -> Plan:
        """What `release` will do; noise and promise are the same for every shape.

        Parameters
        ----------
        shape : int or tuple of int, optional
            The shape of the answer; one number if not given.
        """
        return self._plan(self._shape(shape))

    def _plan(self, shape: Shape) -> Plan:
        sensitivity = _validate.positive("sensitivity", self.sensitivity)
        _validate.one_of("relation", str(self.relation), [str(r) for r in NeighbourRelation])
        plan = Plan.buying(
            [Part(None, sensitivity)],
            self._target(),
            self.noise_scale,
            method="gaussian",
            shapes={"value": shape},
            reason="Normal noise hides a shift of this length in whichever direction it points.",
            relation=self.relation,
        )
        scale = plan.noise_scale
        if not scale <= _LARGEST:
            raise ValueError(
                f"Expected noise of at most {_LARGEST:g}, got {scale:g}; measure in other units."
            )
        grid_spacing(scale)  # refuses noise that is too small for doubles
        basis, note = _DECLARED
        return replace(plan, guarantee=replace(plan.guarantee, basis=basis, note=note))

    def forecast(self, shape: Any = None, *, n_rows: int | None = None) -> Forecast:
        """How large the errors will be; they depend on neither the answer nor `n_rows`."""
        spread = self._spread(self.plan(shape))
        return Forecast(
            {
                "standard error of a number": (float(spread.min()), float(spread.max())),
                "root of the summed squared errors": (float(np.linalg.norm(spread)),) * 2,
            },
            (f"an answer of shape {spread.shape}",),
        )

    def _shape(self, shape: Any) -> Shape:
        sizes = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        return tuple(_validate.count("shape", each, 0) for each in sizes)

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
            norm over all entries) between neighbours is at most `sensitivity`. Integers are exact
            up to 2^89. A table of people is no answer, and is refused.

        Returns
        -------
        Release
        """
        return self.fit(value).release_

    def prepare(self, X: ArrayLike, y: Any = None, *, plan: Plan | None = None) -> Run:
        """Plan what will happen to an answer, as in `release`; spends nothing.

        Parameters
        ----------
        X : array_like
            The exact answer.
        y : None
            Ignored.
        plan : Plan, optional
            One that was made before for an answer of this shape.
        """
        answer = _answer(X)
        return Run(self, answer, self.plan(answer.shape) if plan is None else plan, self)

    def intervals(self, level: float = 0.95, of: str = "table") -> Intervals:
        """Intervals for every number of the exact answer, by the law of the noise.

        Parameters
        ----------
        level : float, default 0.95
        of : {"table"}
            The exact answer: only the noise of privacy is covered. What the answer says about
            people who are not in the table, nobody here knows.
        """
        require_fitted(self)
        _validate.one_of("of", of, ["table"])
        value, plan = self.release_.value, self._plan_certified(self.release_.parameters)
        spread, share = self._spread(plan), _validate.probability("level", level)
        count = max(math.prod(value.shape), 1)
        return Intervals.of_normal(
            tuple(", ".join(map(str, place)) or "value" for place in np.ndindex(value.shape)),
            np.reshape(value, (1, -1)),
            np.reshape(spread, (1, -1)),
            reach=laws.reach_of(plan.method, share, float(plan.noise_scale), count),
            level=share,
            of=of,
        )

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
            "shape": list(data.shape),
        }


def _answer(value: Any) -> Any:
    """Numbers, as they are: doubles, or integers that need not be doubles."""
    if hasattr(value, "columns") or hasattr(value, "__dataframe__") or hasattr(value, "schema"):
        raise TypeError(
            f"Expected an answer, got a table ({type(value).__name__}), whose every row would be "
            "published with noise; compute the answer first, or use an estimator of tables."
        )
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            "Expected an answer, got a masked array, whose hidden entries would be published with "
            "noise; fill them with public numbers, or leave them out by a public rule."
        )
    given = np.asarray(value)
    if given.dtype.kind == "O" or (given.dtype.kind == "f" and not isinstance(value, np.ndarray)):
        each = np.asarray(value, dtype=object)
        if all(isinstance(number, int | np.integer) for number in each.flat):
            return each
        if not all(_as_double(number) for number in each.flat):
            raise TypeError(
                "Expected numbers that doubles hold exactly, or integers alone, got others; round "
                "them where their sensitivity is known."
            )
    if given.dtype.kind not in "iufbO" or given.dtype.itemsize > 8:
        raise TypeError(
            f"Expected an answer of real numbers, got {given.dtype.name}; pass numbers or an array "
            "of doubles or integers."
        )
    return given if given.dtype.kind in "iu" else _validate.floats("value", given)


def _as_double(number: Any) -> bool:
    """Whether a double is exactly this number; whatever is not finite is told apart later."""
    if not isinstance(number, numbers.Number) or isinstance(number, complex):
        return False
    as_double: Any = float(number)  # type: ignore[arg-type]
    return bool(as_double == number or math.isnan(as_double))


@dataclass(kw_only=True, eq=False, repr=False)
class NoiseMechanism(GaussianMechanism):
    """Noise of the law with the least variance, for so many planned releases.

    Parameters
    ----------
    epsilon, delta : float
        What all planned releases together are to meet.
    sensitivity : float
        The largest Euclidean distance between the answers on neighbouring data sets.
    sum_sensitivity : float, optional
        The largest sum of absolute differences, where it is known; for one number it is the same.
    law : {"auto", "gaussian", "spherical", "laplace", "discrete laplace"}
        The law of the noise. "auto" takes the least variance; with a ledger that decides release by
        release, the Gaussian, which adds up best there.
    integers : bool
        Whether all answers are whole numbers, on every table; others are then refused. Discrete
        Laplace noise keeps them whole, and is compared too.
    n_releases : int
        How many such releases are planned. More than one needs a ledger of mode "plan", which
        refuses one more: ``ledger.plan(n * [mechanism.guarantee(shape)])``.
    relation, noise_scale, random_state, ledger
        As for `GaussianMechanism`. A `noise_scale` is the standard deviation of each number's
        noise; "auto" then takes the law with the least epsilon.

    Examples
    --------
    >>> from ndis import NoiseMechanism
    >>> mechanism = NoiseMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    >>> print(mechanism.plan(5).reason)
    Least variance for 5 numbers and 1 release: spherical 5.84, gaussian 17.8.
    >>> mechanism.release([12.0, 7.0, 3.0, 28.0, 1.0]).value.shape
    (5,)
    """

    sum_sensitivity: float | None = None
    law: str = "auto"
    integers: bool = False
    n_releases: int = 1

    def _plan(self, shape: Shape) -> Plan:
        """Which law, and the variances of the others."""
        target = self._target()
        _validate.one_of("relation", str(self.relation), [str(r) for r in NeighbourRelation])
        law = _validate.one_of("law", self.law, ("auto", *laws.LAWS))
        times, count = _validate.count("n_releases", self.n_releases), math.prod(shape)
        self._enforced(times)
        moved = self._sensitivities(count)
        known, numbers_ = self._in_question(law), max(count, 1)
        if target.epsilon is None:
            found = self._given(known, moved, numbers_, target.delta)
        else:
            found = laws.candidates(target, *moved, numbers_, times, known, self.integers)
        if not found:
            raise ValueError(
                f"Expected a law that fits {count} numbers, got law={law!r}; use another, or "
                "pass the sum_sensitivity, which Laplace noise needs (and integers=True, discrete)."
            )
        noise, given = next(iter(found.values())), target.epsilon is None
        reason = "The noise was given." if given else _compared(found, count, times)
        if not noise.deviation <= _LARGEST:
            raise ValueError(
                f"Expected noise of at most {_LARGEST:g}, got {noise.deviation:g}; "
                "measure in other units."
            )
        if noise.law != "discrete laplace":
            grid_spacing(noise.scale)  # refuses noise that is too small for doubles
        alone = target if times == 1 else Target(None, target.delta)
        promise = alone.promise(noise.loss, self.relation, *_DECLARED)
        part = Part(None, moved[0], noise=noise.deviation)
        return Plan(noise.law, (part,), promise, {"value": shape}, reason)

    def _sensitivities(self, count: int) -> tuple[float, float | None]:
        moved = _validate.positive("sensitivity", self.sensitivity)
        if self.sum_sensitivity is not None:
            return moved, _validate.positive("sum_sensitivity", self.sum_sensitivity)
        return moved, moved if count == 1 else None

    def _in_question(self, law: str) -> tuple[str, ...]:
        """The laws to compare."""
        if law != "auto":
            return (law,)
        adds_up = self.ledger is not None and self.ledger.mode == "adaptive"
        return ("gaussian",) if adds_up else laws.LAWS

    def _enforced(self, times: int) -> None:
        if times > 1 and (self.ledger is None or self.ledger.mode != "plan"):
            raise ValueError(
                f"Expected a ledger of mode 'plan' for n_releases={times}, which refuses one more, "
                "got another or none; make one with Ledger.create(..., mode='plan')."
            )

    def _given(
        self, known: tuple[str, ...], moved: tuple[float, float | None], count: int, delta: float
    ) -> dict[str, laws.NoiseLaw]:
        """Noise that the caller has chosen, of each law; that with the least epsilon first."""
        spread, found = _validate.positive("noise_scale", self.noise_scale), []
        for law in known:
            away, steps = moved[1] if "laplace" in law else moved[0], 1
            if law == "discrete laplace":
                steps = math.floor(away) if away is not None and self.integers else 0
                away = float(steps) or None
            if away is not None:
                scale = laws.scale_of(law, spread, count)
                loss = laws.loss_of(law, away / scale, count, steps)
                found.append(laws.NoiseLaw(law, scale, spread, loss))
        found.sort(key=lambda noise: float(noise.loss.epsilon(delta)))
        return {noise.law: noise for noise in found}

    def _study(self, data: FloatArray, plan: Plan) -> FloatArray:
        """Whole numbers, where they were declared."""
        if self.integers and any(np.any(part != np.rint(part)) for part in parts_of(data)):
            raise ValueError(
                "Expected whole numbers, got others; leave out integers=True, or count in units in "
                "which they are whole."
            )
        return super()._study(data, plan)

    def _draw(
        self, studied: FloatArray, plan: Plan, data: FloatArray, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        count = max(math.prod(plan.shapes["value"]), 1)
        scale = laws.scale_of(plan.method, plan.noise_scale, count)
        draws = {
            "gaussian": add_noise,
            "spherical": add_spherical_noise,
            "laplace": add_laplace_noise,
            "discrete laplace": add_discrete_laplace_noise,
        }
        return {"value": draws[plan.method](studied, scale, rng)}

    def _public(self, data: FloatArray) -> dict[str, Any]:
        law = self.plan(data.shape).method
        own = {
            "law": law,
            "sum_sensitivity": self.sum_sensitivity,
            "integers": self.integers or None,
        }
        return super()._public(data) | {k: v for k, v in own.items() if v is not None}


def _compared(found: dict[str, laws.NoiseLaw], count: int, times: int) -> str:
    numbers_, releases = "number" + "s" * (count != 1), "release" + "s" * (times > 1)
    variances = ", ".join(f"{law} {noise.deviation**2:.3g}" for law, noise in found.items())
    return f"Least variance for {count} {numbers_} and {times} {releases}: {variances}."


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
            return cls(np.broadcast_to(1.0, dimension), None)  # no memory, whatever a file says
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
    >>> mechanism = MatrixGaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=1.0)
    >>> f"{mechanism.calibrate():.4f}"
    '3.7306'
    >>> mechanism.release(np.eye(10)).value.shape
    (10, 10)
    """

    rows: ArrayLike | None = None
    columns: ArrayLike | None = None
    _shapes_known: bool = field(default=True, init=False)

    def _restore(self, release: Release) -> None:
        super()._restore(release)
        self._shapes_known = False

    def intervals(self, level: float = 0.95, of: str = "table") -> Intervals:
        """As in `GaussianMechanism`; not from a file, which leaves out `rows` and `columns`."""
        if not self._shapes_known:
            raise ValueError(
                "Expected the mechanism that made the release, got one from a file, which tells "
                "the noise of the quietest direction only; ask whoever made it."
            )
        return super().intervals(level, of)

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

    def _shape(self, shape: Any) -> Shape:
        if shape is None:
            sides = (self.rows, self.columns)
            shape = [1 if side is None else len(np.asarray(side)) for side in sides]
        checked = super()._shape(shape)
        self._sides(checked)  # refuses what does not fit
        return checked

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
