"""How private least squares is done, method by method, each like its algorithm's box.

Rows are [x, y]: features, intercept included, and label, with |[x, y]| <= l = data_norm and
|y| <= Y = label_bound. Three kinds of method:

* *sketches* add a ridge to the table and release (or solve) Gaussian combinations of its rows;
* *moments* add Gaussian noise to X^T X, X^T y and the like: one mean shift, however many parts;
* *relative* ones protect this database and its neighbours only.

A method says what its worst-case loss is, finds the least noise, and draws. What it draws is on
the release grid, and everything computed from that is post-processing. The proofs are in
docs/proofs/least-squares.md.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import least_noise, meets
from ndis.gaussian import Gaussian
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.loss.least_squares import LeastSquaresLoss, TriangleLoss, removal_loss
from ndis.loss.student import SketchAndSolveLoss
from ndis.mechanisms import projection_methods
from ndis.mechanisms.projection import draw_sketch
from ndis.mechanisms.projection_methods import least_ratio, lsv_ratio, sketch_loss
from ndis.mechanisms.worst_cases import with_failure
from ndis.randomness import add_noise, round_to_grid
from ndis.tables import Gram, batches, leverage_error, leverages_and_residuals

# Coefficients drawn from a law that depends on the data are put on a grid this much finer than
# the standard deviation they have on an empty table, 1/sqrt(r): there the spread is largest.
_FINER = 2.0**-8
# Of the budget of "newton" these shares go into the Hessian, which only steers, and into the
# number of rows and the sum of squared labels, which only set clips.
_HESSIAN_SHARE, _SIZE_SHARE = 0.15, 0.02
# A ridge is at least so many times sqrt(d) the noise of the Hessian, above the largest eigenvalue
# that the noise itself has; and a step must seem to pay by so many standard errors.
_FLOOR, _CAUTION = 2.0, 1.0
_LADDER = np.concatenate([[0.0], np.geomspace(0.1, 1e4, 40)])

# ln of a delta below which a relative method's own delta is not told apart.
_NEGLIGIBLE = math.log(1e-30)

# The most that a calibration leaves below the delta asked for, in ln delta, to certify it; and the
# least noise over l, below which 1 - s would lose digits.
_MOST_ROOM, _LEAST_RATIO = 1.0, 2.0**-4

Arrays = dict[str, FloatArray]


@dataclass(frozen=True)
class Task:
    """What is asked of a method, all of it public."""

    epsilon: float
    delta: float
    n_features: int  # intercept included
    data_norm: float
    label_bound: float
    n_components: int | None
    n_rounds: int
    published: bool

    @property
    def failure(self) -> float:
        """The probability with which published methods may fail to be accurate."""
        return self.delta / 10.0

    def components(self, default: float) -> int:
        """The number of components asked for, or a method's own."""
        if self.n_components is not None:
            return self.n_components
        return math.ceil(default)


@dataclass(frozen=True)
class Table:
    """The data as a method sees them: Gram matrix of [features, label], and ways to read again."""

    source: Any
    gram: Gram
    label: str

    @property
    def order(self) -> list[int]:
        """Positions of the features, then of the label."""
        last = self.gram.columns.index(self.label)
        return [i for i in range(len(self.gram.columns)) if i != last] + [last]

    @property
    def moments(self) -> FloatArray:
        """The Gram matrix with the label last."""
        return np.asarray(self.gram.matrix[np.ix_(self.order, self.order)])

    def blocks(self) -> Any:
        """Rows [features, label] in blocks, in one more pass."""
        order, seen = self.order, 0
        rows = self.gram.rows
        for batch in batches(self.source, rows.columns, levels=rows.levels):
            for block in rows.blocks(batch):
                seen += len(block)
                yield block[:, order]
        if seen != self.gram.n_rows:
            raise ValueError(
                "Expected a table that can be read more than once, got one that cannot; "
                "hand over the table itself, or take method='adassp', which reads it once."
            )

    def gradient(self, theta: FloatArray, clip: float) -> FloatArray:
        """X^T clip(y - X theta, -clip, clip)."""
        total = np.zeros(len(theta))
        for block in self.blocks():
            total += block[:, :-1].T @ np.clip(block[:, -1] - block[:, :-1] @ theta, -clip, clip)
        return total

    def leverages(self) -> tuple[FloatArray, FloatArray, float]:
        """p, q of every row, and a bound on their relative error."""
        p, q = leverages_and_residuals(self.source, self.gram, self.label)
        return p, q, leverage_error(self.gram, label=self.label)


class Method(ABC):
    """What differs between the methods.

    Attributes
    ----------
    noise_scale : float
        The noise, in the method's own terms (see `PrivateLeastSquares`).
    loss : PrivacyLoss or None
        The worst case; None where it depends on the data.
    """

    noise_scale: float
    loss: PrivacyLoss | None = None
    basis = "proven"
    note = ""
    passes = 1

    @abstractmethod
    def __init__(self, task: Task) -> None: ...

    @abstractmethod
    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Draw what is released: "coef" (intercept first, if any) and what it was computed from."""

    def law(self, table: Table) -> Gaussian:
        """The law of "coef", where that is Gaussian."""
        raise ValueError(
            "Expected a method whose coefficients have a Gaussian law, got one for which they do "
            "not; audit it by samples."
        )


# -- sketches: a ridge, and Gaussian combinations of the rows -------------------------------------


def solve(second_moments: FloatArray) -> FloatArray:
    """Coefficients of the last column on the others, from second moments; least norm if many."""
    X = second_moments[:-1, :-1]
    return np.asarray(np.linalg.lstsq(X, second_moments[:-1, -1], rcond=None)[0])


def ridged_law(moments: FloatArray, ridge: float, n_components: int) -> Gaussian:
    """The limit law N(x, ||e||^2 (B^T B)^{-1} / r) on the ridged table (M_LS of ndis-2024)."""
    ridged = moments + ridge * np.eye(len(moments))
    X, b = ridged[:-1, :-1], ridged[:-1, -1]
    inverse = np.linalg.inv(X)
    coefficients = inverse @ b
    # The ridged table has a row (0, sigma), which no coefficient explains, so the squared norm of
    # its residuals is at least the ridge: rounding must not take it below.
    residual = max(float(ridged[-1, -1] - b @ coefficients), ridge)
    return Gaussian(coefficients, residual * inverse / n_components)


@functools.lru_cache(maxsize=256)
def least_triangle_ratio(
    kind: type[TriangleLoss], epsilon: float, delta: float, n_features: int, n_components: int
) -> float:
    """The least sqrt(ridge)/l for which the certified worst case meets (epsilon, delta).

    Infinite for a delta that this kind of loss cannot certify.

    Examples
    --------
    >>> from ndis.loss.least_squares import LeastSquaresLoss
    >>> from ndis.mechanisms.regression_methods import least_triangle_ratio
    >>> f"{least_triangle_ratio(LeastSquaresLoss, 1.0, 1 / 327_346, 2, 1269):.3f}"
    '8.437'
    """

    def losses(ratio: float) -> tuple[TriangleLoss, TriangleLoss]:
        loss = kind(ratio**-2, n_features, n_components)
        return loss, loss.reversed()

    def attained(log_ratio: float) -> float:
        deltas = [float(loss.log_delta(epsilon)) for loss in losses(math.exp(log_ratio))]
        return max(*deltas, kind.floor)

    target, least = math.log(delta), math.log(_LEAST_RATIO)
    if target < kind.floor + _MOST_ROOM:
        return math.inf
    low = high = max(math.log(least_ratio(epsilon, delta, max(n_components, n_features))), least)
    while attained(high) > target:
        high += 0.5
    while low > least and attained(low) <= target:
        low = max(low - 0.25, least)
    room, ratio = kind.tolerance, _LEAST_RATIO
    if attained(low) > target:
        found = brentq(lambda x: attained(x) - target, low, high, xtol=1e-5)
        # The certificate needs room in delta: as much as a thousandth more noise makes, but not
        # all of a cliff (the loss of sketch-and-solve is bounded, so delta may fall to 0 at once).
        room = min(max(attained(found) - attained(found + 1e-3), kind.tolerance), _MOST_ROOM)
        while attained(high) > target - room:
            high += 0.5
        ratio = math.exp(brentq(lambda x: attained(x) - target + room, found, high, xtol=1e-5))
    more = 2.0**-10
    while any(
        loss.bounds_within(epsilon, 0.0, target - 1e-9)[1] > target for loss in losses(ratio)
    ):
        ratio, more = ratio * (1.0 + more), 2.0 * more
    return ratio


class Sketched(Method):
    """Add (ratio l)^2 to the diagonal, then draw."""

    ratio: float

    def _fix(self, task: Task, ratio: float, loss: PrivacyLoss | None) -> None:
        self.ratio, self.loss = ratio, loss
        self.noise_scale = ratio * task.data_norm
        self.ridge = self.noise_scale**2

    def _coefficient_grid(self, values: FloatArray) -> FloatArray:
        return round_to_grid(values, _FINER / math.sqrt(self.n_components))

    n_components: int


class Sketch(Sketched):
    """Least squares on a private projection of [X, y]: post-processing."""

    def __init__(self, task: Task) -> None:
        self.n_components = _enough(task.components(_large_sketch(task)), task.n_features)
        ratio = self._least_ratio(task)
        self._fix(task, ratio, Profile.both(sketch_loss(ratio, self.n_components)))

    def _least_ratio(self, task: Task) -> float:
        return projection_ratio(task.epsilon, task.delta, self.n_components)

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the sketch and what it says about the coefficients."""
        sketch = draw_sketch(table.moments, self.ridge, self.n_components, rng)
        sketch = round_to_grid(sketch, self.noise_scale)
        second = sketch @ sketch.T
        debiased = second / self.n_components - self.ridge * np.eye(len(second))
        return {"coef": solve(second), "sketch": sketch, "moments": debiased}


class LeastSingularValue(Sketch):
    """The baseline "lsv": the same, calibrated as it used to be (Sheffet 2019)."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        assert self.loss is not None
        self.basis = "proven" if meets(self.loss, task.epsilon, task.delta) else "refuted"

    def _least_ratio(self, task: Task) -> float:
        epsilon = _validate.positive("epsilon", task.epsilon)
        return lsv_ratio(epsilon, task.delta, self.n_components)


class MutualInformation(Sketch):
    """The baseline "mutual-information" (Showkatbakhsh et al.), as ndis-2024 compares with it."""

    basis = "refuted"
    note = projection_methods.MutualInformation.note

    def __init__(self, task: Task) -> None:
        self.n_components = _enough(task.components(_large_sketch(task)), task.n_features)
        projection = projection_methods.Task(
            task.epsilon, task.delta, task.data_norm, self.n_components, 1.0, "best"
        )
        self._projection = projection_methods.MutualInformation(projection)
        self.noise_scale = self._projection.noise_scale

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the coefficients only: the ridge depends on the data."""
        self.ridge = self._projection.study(table.source, table.gram)(rng)
        sketch = draw_sketch(table.moments, self.ridge, self.n_components, rng)
        return {"coef": self._coefficient_grid(solve(sketch @ sketch.T))}


class GaussianLimit(Sketched):
    """Draw from the limit law of sketch-and-solve on the ridged table (M_LS)."""

    def __init__(self, task: Task) -> None:
        self.n_components = task.components(_large_sketch(task))
        d, r = task.n_features, self.n_components
        if task.published:
            ratio = published_ratio(task.epsilon, task.delta, d, r)
        else:
            ratio = least_triangle_ratio(LeastSquaresLoss, task.epsilon, task.delta, d, r)
        self._fix(task, ratio, Profile.both(LeastSquaresLoss(ratio**-2, d, r)))
        assert self.loss is not None
        if task.published and not meets(self.loss, task.epsilon, task.delta):
            self.basis = "refuted"

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Draw the coefficients."""
        law = self.law(table)
        noise = np.linalg.cholesky(law.cov) @ rng.standard_normal(len(law.mean))
        return {"coef": self._coefficient_grid(law.mean + noise)}

    def law(self, table: Table) -> Gaussian:
        """The law of the coefficients."""
        return ridged_law(table.moments, self.ridge, self.n_components)


class SketchAndSolve(Sketched):
    """Solve the sketched problem and release the solution only (M_ALS), exactly accounted."""

    def __init__(self, task: Task) -> None:
        self.n_components = _enough(task.components(_large_sketch(task)), task.n_features)
        d, r = task.n_features, self.n_components
        solved = least_triangle_ratio(SketchAndSolveLoss, task.epsilon, task.delta, d, r)
        sketched = least_ratio(task.epsilon, task.delta, r)
        # The solution is a post-processing of the sketch, so either calibration will do.
        if solved <= sketched:
            self._fix(task, solved, Profile.both(SketchAndSolveLoss(solved**-2, d, r)))
        else:
            self._fix(task, sketched, Profile.both(sketch_loss(sketched, r)))

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Draw a sketch, solve it, forget it."""
        sketch = draw_sketch(table.moments, self.ridge, self.n_components, rng)
        return {"coef": self._coefficient_grid(solve(sketch @ sketch.T))}


@functools.cache
def projection_ratio(epsilon: float, delta: float, n_components: int) -> float:
    """`least_ratio`, remembered."""
    return least_ratio(epsilon, delta, n_components)


def published_ratio(epsilon: float, delta: float, n_features: int, n_components: int) -> float:
    """Noise over l of ndis-2024, figure 4: delta of (q, p) = (2, 1) (l/sigma)^2 alone.

    Safe only where the sketch is not small: for d = r = 1 and epsilon = 0.1 it claims 1e-6 where
    7e-5 is true.

    Examples
    --------
    >>> from ndis.mechanisms.regression_methods import published_ratio
    >>> f"{published_ratio(1.0, 1 / 327_346, 2, 1269):.2f}"
    '11.97'
    """

    def family(ratio: float) -> PrivacyLoss:
        # sigma > sqrt(2) l, or q is no leverage: noise is counted from there.
        p = 1.0 / (2.0 + ratio**2)
        return Profile.both(removal_loss(2.0 * p, p, n_features, n_components))

    return math.sqrt(2.0 + least_noise(family, epsilon, delta, start=10.0) ** 2)


def _large_sketch(task: Task) -> float:
    """As many components as make the sketch's own error small beside the noise."""
    return max(300.0, 20.0 * task.n_features)


def _enough(n_components: int, n_features: int) -> int:
    if n_components < n_features:
        raise ValueError(
            f"Expected at least as many components as coefficients, got n_components="
            f"{n_components} and {n_features} coefficients; take more components."
        )
    return n_components


# -- moments: Gaussian noise on sums of products --------------------------------------------------


@functools.cache
def unit_noise(epsilon: float, delta: float) -> float:
    """The noise of a mean shift by one (the analytic Gaussian mechanism)."""
    return least_noise(lambda s: Profile.both(QuadraticLoss.from_shift(1.0 / s)), epsilon, delta)


def symmetric_noise(values: FloatArray, scale: float, rng: np.random.Generator) -> FloatArray:
    """Add symmetric noise: variance scale^2 on the diagonal, half of it off the diagonal.

    A row changes the matrix by x x^T, whose squared distance in this noise is
    (sum_i x_i^4 + 2 sum_{i<j} x_i^2 x_j^2)/scale^2 = |x|^4/scale^2: with equal variances on and off
    the diagonal the worst case would be the same and the noise larger.
    """
    normal = rng.standard_normal(values.shape)
    noisy = values + scale * (normal + normal.T) / 2.0
    return round_to_grid(noisy, scale / math.sqrt(2.0))


class Moments(Method):
    """AdaSSP (Wang 2018): noisy X^T X, X^T y and least eigenvalue, solved with the ridge they need.

    Exact: three mean shifts are one. Published: a third of epsilon and delta for each.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        l2, lY = task.data_norm**2, task.data_norm * task.label_bound
        if task.published:
            unit = unit_noise(task.epsilon / 3.0, task.delta / 3.0)
        else:
            unit = unit_noise(task.epsilon, task.delta) * math.sqrt(3.0)
        self.loss = Profile.both(QuadraticLoss.from_shift(math.sqrt(3.0) / unit))
        self._unit, self.noise_scale, self._moment_scale = unit, unit * l2, unit * lY

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the three statistics; solve with the ridge of the paper."""
        task, d = self._task, self._task.n_features
        X, b = table.moments[:-1, :-1], table.moments[:-1, -1]
        if task.published:
            upper = np.triu(add_noise(X, self.noise_scale, rng))
            noisy = upper + np.triu(upper, 1).T
        else:
            noisy = symmetric_noise(X, self.noise_scale, rng)
        moment = add_noise(b, self._moment_scale, rng)
        least = add_noise(np.linalg.eigvalsh(X)[0], self.noise_scale, rng)
        low = max(float(least) - self.noise_scale * math.sqrt(math.log(6.0 / task.delta)), 0.0)
        spread = math.sqrt(d * math.log(2.0 * d**2 / task.failure))
        ridge = max(0.0, spread * self.noise_scale - low)
        coef = np.asarray(np.linalg.lstsq(noisy + ridge * np.eye(d), moment, rcond=None)[0])
        return {"coef": coef, "gram": noisy, "moment": moment, "least_eigenvalue": least}


class NoisyGram(Method):
    """The whole Gram matrix of [X, y] with symmetric noise: one mean shift of l^2/scale.

    Coefficients are ridge regression with the ridge that `Hessian` chooses. The release serves for
    confidence intervals and for any other regression among the same columns.
    """

    def __init__(self, task: Task) -> None:
        unit = unit_noise(task.epsilon, task.delta)
        self.loss = Profile.both(QuadraticLoss.from_shift(1.0 / unit))
        self.noise_scale = unit * task.data_norm**2

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the noisy Gram matrix."""
        noisy = symmetric_noise(table.moments, self.noise_scale, rng)
        hessian = Hessian(noisy[:-1, :-1], self.noise_scale)
        coef = Descent(hessian, noisy[:-1, -1], self.noise_scale**2 / 2.0).coef
        return {"coef": coef, "moments": noisy}


class Hessian:
    """A noisy X^T X in its eigenbasis, ready for ridge steps."""

    def __init__(self, matrix: FloatArray, scale: float) -> None:
        values, self.vectors = np.linalg.eigh(matrix)
        self.values = np.maximum(values, 0.0)  # X^T X has no negative eigenvalues
        self.scale = scale  # of the noise

    def factors(self, gradient: FloatArray, variance: FloatArray) -> FloatArray:
        """What a step multiplies a noisy gradient by: the ridge of the least estimated risk.

        A step t from the current coefficients changes the risk by t^T A t - 2 t^T g. With R the
        inverse of the ridged noisy matrix, t = R g, Stein's identity for the noise in A and in g
        gives, but for what negative eigenvalues would add,

            t^T A t - 2 t^T g + s_A^2 (t^T R t + tr R |t|^2) + 2 tr R V,

        to which its standard error without a signal, sqrt(2 tr (R V)^2), is added for caution. No
        step is made unless that is negative. All of it is post-processing.
        """
        ridges = (_FLOOR + _LADDER) * self.scale * math.sqrt(len(gradient))
        inverse = 1.0 / (self.values + ridges[:, np.newaxis])
        steps = inverse * gradient
        curvature = self.values + self.scale**2 * (inverse + inverse.sum(axis=1, keepdims=True))
        noise = inverse * variance
        risk = np.sum(steps**2 * curvature - 2.0 * steps * gradient + 2.0 * noise, axis=1)
        risk += _CAUTION * np.sqrt(2.0 * np.sum(noise**2, axis=1))
        best = int(np.argmin(risk))
        return inverse[best] if risk[best] < 0 else np.zeros(len(gradient))


class Descent:
    """Coefficients on their way down, and all that is known of the gradient where they are.

    A step t takes A t from the gradient, so what was known before it is known after it, with the
    error E t of the Hessian besides: variance s_A^2 |t|^2 (d + 1)/(2 d). The next noisy gradient
    is averaged with that by precision. Noise on which a step was made has been followed already:
    where a step took the share 1 - A R of the gradient away, Stein's identity counts the noise in
    it by that share only. All in the eigenbasis of the Hessian, all post-processing.
    """

    def __init__(self, hessian: Hessian, gradient: FloatArray, variance: float) -> None:
        self._hessian = hessian
        self._theta = np.zeros(len(gradient))
        self._gradient = hessian.vectors.T @ gradient
        self._counted = np.full(len(gradient), variance)
        self.variance = variance
        self._step()

    @property
    def coef(self) -> FloatArray:
        """The coefficients."""
        return np.asarray(self._hessian.vectors @ self._theta)

    @property
    def gradient(self) -> FloatArray:
        """The gradient there, as far as it is known: each direction with `variance`."""
        return np.asarray(self._hessian.vectors @ self._gradient)

    def learn(self, gradient: FloatArray, variance: float) -> None:
        """A noisy gradient at the present coefficients: take it in and make a step."""
        new = self.variance / (self.variance + variance)
        along = self._hessian.vectors.T @ gradient
        self._gradient = new * along + (1.0 - new) * self._gradient
        self._counted = new**2 * variance + (1.0 - new) ** 2 * self._counted
        self.variance = new * variance
        self._step()

    def _step(self) -> None:
        hessian, d = self._hessian, len(self._theta)
        factors = hessian.factors(self._gradient, self._counted)
        step = factors * self._gradient
        left = 1.0 - hessian.values * factors
        self._theta = self._theta + step
        self._gradient, self._counted = left * self._gradient, left * self._counted
        self.variance += hessian.scale**2 * float(step @ step) * (d + 1) / (2 * d)


class Newton(Method):
    """A noisy Hessian, once, and noisy gradients of clipped residuals, round by round.

    One mean shift, D^2 = l^4/s_A^2 + 2/s_n^2 + T l^2/s_g^2: s_n is the noise of the number of rows
    and of the squared labels in units of Y^2, C s_g that of a gradient with clip C. The clip is
    chosen from what has been released before; the first one is Y. The Hessian only steers: its
    error is corrected by the next gradient, and gradients are exact but for d numbers of noise.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        unit = unit_noise(task.epsilon, task.delta)
        self.loss = Profile.both(QuadraticLoss.from_shift(1.0 / unit))
        self.passes = task.n_rounds
        self.noise_scale = unit * task.data_norm**2 / math.sqrt(_HESSIAN_SHARE)
        self.size_scale = unit * math.sqrt(2.0 / _SIZE_SHARE)
        rounds = task.n_rounds / (1.0 - _HESSIAN_SHARE - _SIZE_SHARE)
        self.gradient_scale = unit * task.data_norm * math.sqrt(rounds)

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the Hessian and the size, then a gradient a round."""
        task, moments = self._task, table.moments
        noisy = symmetric_noise(moments[:-1, :-1], self.noise_scale, rng)
        size = np.array([table.gram.n_rows, moments[-1, -1] / task.label_bound**2])
        size = add_noise(size, self.size_scale, rng)
        points, clips = [np.zeros(len(noisy))], [task.label_bound]
        gradients = [add_noise(moments[:-1, -1], self.gradient_scale * clips[0], rng)]
        hessian = Hessian(noisy, self.noise_scale)
        descent = Descent(hessian, gradients[0], (self.gradient_scale * clips[0]) ** 2)
        for _ in range(1, task.n_rounds):
            points.append(descent.coef)
            clips.append(self._clip(descent, gradients[0], size))
            scale = self.gradient_scale * clips[-1]
            gradients.append(add_noise(table.gradient(points[-1], clips[-1]), scale, rng))
            descent.learn(gradients[-1], scale**2)
        return {
            "coef": descent.coef,
            "gram": noisy,
            "size": size,
            "points": np.array(points),
            "clips": np.array(clips),
            "gradients": np.array(gradients),
        }

    def _clip(self, descent: Descent, moment: FloatArray, size: FloatArray) -> float:
        """A clip that costs as much in bias as in noise, by what has been released.

        (r - C)_+ <= 27 r^4/(256 C^3), so if residuals are no heavier in the tails than a normal
        law, sum r^4 <= 3 n m^2 with m their mean square, clipping at C moves the gradient by at
        most l n 81 m^2/(256 C^3); the noise is C s_g sqrt(d). Both are equal at the clip returned.
        m, with its noise on the side of caution, is from (|y|^2 - theta (b + g))/n. Nothing is
        lost beyond Y and the longest prediction, if that is at most Y too.
        """
        task, coef = self._task, descent.coef
        Y, length = task.label_bound, float(np.linalg.norm(coef))
        n_rows = max(float(size[0]) - self.size_scale, 1.0)
        variance = (self.gradient_scale * Y) ** 2 + descent.variance
        error = math.sqrt((self.size_scale * Y**2) ** 2 + length**2 * variance)
        squares = max(float(size[1]) * Y**2 - float(coef @ (moment + descent.gradient)), 0.0)
        mean_square = min((squares + error) / n_rows, Y**2)
        noise = self.gradient_scale / task.data_norm * math.sqrt(task.n_features)
        clip = math.sqrt(mean_square * math.sqrt(81.0 / 256.0 * n_rows / noise))
        return min(clip, Y + min(task.data_norm * length, Y))


# -- mixing: sketches that only steer, or are tested first ----------------------------------------


def renyi_epsilon(loss: QuadraticLoss, delta: float) -> float:
    """The epsilon that follows from Renyi divergences at the best order: not tight.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.mechanisms.regression_methods import renyi_epsilon
    >>> loss = QuadraticLoss.from_leverage(0.01, n_components=100)
    >>> f"{renyi_epsilon(loss, 1e-6):.3f}", f"{loss.epsilon(1e-6):.3f}"
    ('0.370', '0.332')
    """
    orders = 1.0 + np.geomspace(1e-2, 1e5, 1000)
    divergences = np.asarray(loss.renyi(orders))
    epsilons = divergences + np.log1p(-1.0 / orders)
    epsilons -= (math.log(delta) + np.log(orders)) / (orders - 1.0)
    return float(np.min(np.where(np.isfinite(epsilons), epsilons, np.inf)))


def renyi_ratio(epsilon: float, delta: float, n_components: int, n_sketches: int = 1) -> float:
    """The least sqrt(ridge)/l under the accounting of Lev et al. (2025).

    Three parts of the mechanism have a delta of their own: the sketches, by Renyi divergences; a
    noisy least eigenvalue of noise (ridge + l^2)/sqrt(n_components), by the classic Gaussian
    mechanism; and its failure. Epsilons add.

    Parameters
    ----------
    epsilon : float
        Of all parts together.
    delta : float
        Of each part.
    n_components, n_sketches : int

    Examples
    --------
    >>> from ndis.mechanisms.projection_methods import least_ratio
    >>> from ndis.mechanisms.regression_methods import renyi_ratio
    >>> ratio = renyi_ratio(1.0, 1e-6 / 3, 50) / least_ratio(1.0, 1e-6, 50)
    >>> f"{ratio**2:.2f}"
    '2.55'
    """

    def excess(log_ratio: float) -> float:
        ratio = math.exp(log_ratio)
        test = math.sqrt(2.0 * math.log(1.25 / delta) * n_components) / (1.0 + ratio**2)
        sketches = renyi_epsilon(sketch_loss(ratio, n_components * n_sketches), delta)
        return sketches + test - epsilon

    low = high = math.log(least_ratio(epsilon, delta, n_components))
    while excess(high) > 0:
        high += 0.5
    while excess(low) <= 0:
        low -= 0.5
    return math.exp(brentq(excess, low, high, xtol=1e-9) + 1e-9)


class LinearMixing(Method):
    """Test the least eigenvalue, then solve on a sketch of [X, y] (Lev et al. 2025).

    Exact: the division of the budget between test and sketch that is best, and exact losses.
    Published: Renyi divergences, noise of the test tied to the ridge.
    """

    def __init__(self, task: Task) -> None:
        d = task.n_features
        default = 2.5 * max(d, math.log(2.0 / task.failure))
        self.n_components = _enough(task.components(default), d)
        projection = projection_methods.Task(
            task.epsilon, task.delta, task.data_norm, self.n_components, 1.0, "best"
        )
        kind = _PublishedTest if task.published else projection_methods.ProposeTestRelease
        self._ptr: projection_methods.ProposeTestRelease = kind(projection)
        assert self._ptr.loss is not None
        self.loss, self.noise_scale = self._ptr.loss, self._ptr.noise_scale
        if task.published and not meets(self._ptr.loss, task.epsilon, task.delta):
            self.basis = "refuted"

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the sketch under the ridge that the test leaves."""
        ridge = self._ptr.study(table.source, table.gram)(rng)
        sketch = draw_sketch(table.moments, ridge, self.n_components, rng)
        sketch = round_to_grid(sketch, self.noise_scale)
        return {"coef": solve(sketch @ sketch.T), "sketch": sketch, "ridge": np.array(ridge)}


class _PublishedTest(projection_methods.ProposeTestRelease):
    """The test and the sketch with one noise for both, as in the paper."""

    loss: PrivacyLoss

    def __init__(self, task: projection_methods.Task) -> None:
        self.failure = task.delta / 3.0
        ratio = renyi_ratio(task.epsilon, self.failure, task.n_components)
        self.needed = 1.0 + ratio**2
        self.test_ratio = self.needed / math.sqrt(task.n_components)
        together = sketch_loss(ratio, task.n_components)
        together = together + QuadraticLoss.from_shift(1.0 / self.test_ratio)
        self.loss = with_failure(together, self.failure, task.epsilon, task.delta)
        self.quantile = math.sqrt(2.0 * math.log(20.0 / task.delta))
        self.noise_scale = ratio * task.data_norm
        self._unit = task.data_norm**2


class HessianMixing(Method):
    """Iterative Hessian mixing: a sketched Hessian and a noisy clipped gradient a round.

    Exact: T Lambda_sketch + T Lambda_shift, the gradients' share fixed beforehand. Published: half
    of epsilon for the sketches and a test of the least eigenvalue, by Renyi divergences, half for
    the gradients.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        d, rounds = task.n_features, task.n_rounds
        self.passes = rounds
        default = 6.0 * max(d, math.log(4.0 * rounds / task.failure))
        self.n_components = k = _enough(task.components(default), d)
        if task.published:
            # A quarter of delta each for sketches, test, failure of the test, and gradients.
            part = task.delta / 4.0
            ratio = renyi_ratio(task.epsilon / 2.0, part, k, rounds)
            unit = unit_noise(task.epsilon / 2.0, part) * math.sqrt(rounds)
            self._needed = 1.0 + ratio**2
            test = QuadraticLoss.from_shift(math.sqrt(k) / self._needed)
        else:
            # The gradients are the signal: they get most of the budget.
            unit = 1.2 * unit_noise(task.epsilon, task.delta) * math.sqrt(rounds)
        gradients = QuadraticLoss.from_shift(math.sqrt(rounds) / unit)
        if task.published:
            together = sketch_loss(ratio, k * rounds) + gradients + test
            self.loss = with_failure(together, part, task.epsilon, task.delta)
            self.basis = "proven" if meets(self.loss, task.epsilon, task.delta) else "refuted"
        else:

            def family(ratio: float) -> Profile:
                return Profile.both(sketch_loss(ratio, k * rounds) + gradients)

            ratio = least_noise(family, task.epsilon, task.delta, start=10.0)
            self.loss = family(ratio)
        self.noise_scale = ratio * task.data_norm
        self._gradient_scale = unit * task.data_norm * task.label_bound

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Mix, step, repeat."""
        task, X = self._task, table.moments[:-1, :-1]
        ridge, released = self.noise_scale**2, {}
        if task.published:
            unit, quantile = task.data_norm**2, math.sqrt(2.0 * math.log(40.0 / task.delta))
            scale = self._needed * unit / math.sqrt(self.n_components)
            least = float(add_noise(np.linalg.eigvalsh(X)[0], scale, rng))
            ridge = max(0.0, self._needed * unit - max(least - scale * quantile, unit))
            released = {"least_eigenvalue": np.array(least)}
        theta, sketches, gradients = np.zeros(len(X)), [], []
        for _ in range(task.n_rounds):
            sketch = draw_sketch(X, ridge, self.n_components, rng)
            sketches.append(round_to_grid(sketch, self.noise_scale))
            exact = table.gradient(theta, task.label_bound)
            gradients.append(add_noise(exact, self._gradient_scale, rng))
            hessian = sketches[-1] @ sketches[-1].T / self.n_components
            theta = theta + np.linalg.lstsq(hessian, gradients[-1], rcond=None)[0]
        return {
            "coef": theta,
            "sketches": np.array(sketches),
            "gradients": np.array(gradients),
            **released,
        }


# -- relative: this database and its neighbours only ----------------------------------------------


class Relative(Method):
    """Nothing is added if every row's own pair (q, p) is private enough; else the full ridge.

    Neighbours are the database without one of its rows, or with one of them repeated: leverages
    (q, p), or (q/(1+q), p/(1+p)). delta is monotone in neither, so all records are looked at, each
    with its rounding error, in boxes first.
    """

    basis = "relative"
    note = projection_methods.Relative.note
    absolute: Callable[[Task], Sketched]

    def __init__(self, task: Task) -> None:
        self._task = task
        self._absolute = type(self).absolute(task)
        self.noise_scale = self._absolute.noise_scale
        self.n_components = self._absolute.n_components
        self.inherent_delta: float | None = None

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the coefficients only: whether a ridge was needed is not told."""
        self._study(table)
        return {"coef": self._absolute.draw(table, rng)["coef"]}

    def law(self, table: Table) -> Gaussian:
        """The law of the coefficients."""
        self._study(table)
        return self._absolute.law(table)

    def _family(self) -> TriangleLoss:
        return LeastSquaresLoss(1.0, self._task.n_features, self.n_components)

    def _study(self, table: Table) -> None:
        p, q, error = table.leverages()
        family, eps = self._family(), self._task.epsilon
        worst = max(
            worst_record(loss, *pair, error, eps)
            for loss in (family, family.reversed())
            for pair in ((q, p), (q / (1.0 + q), p / (1.0 + p)))
        )
        self.inherent_delta = math.exp(worst)
        if worst <= math.log(self._task.delta) - 1e-9:
            self._absolute.noise_scale = self._absolute.ridge = 0.0
            self.noise_scale = 0.0


class RelativeLimit(Relative):
    """The limit law, relative."""

    absolute = GaussianLimit


class RelativeSolve(Relative):
    """Sketch-and-solve, relative."""

    absolute = SketchAndSolve

    def _family(self) -> TriangleLoss:
        return SketchAndSolveLoss(1.0, self._task.n_features, self.n_components)


class RelativeSketch(Relative):
    """The sketch, relative: it is private enough if the largest leverage is small enough."""

    absolute = Sketch

    def _study(self, table: Table) -> None:
        _, q, error = table.leverages()
        largest = float(np.max(q)) * (1.0 + error)
        largest = largest if largest < 1.0 else 1.0  # no bound, or none below one: it may be one
        inherent = Profile.both(QuadraticLoss.from_leverage(largest, self.n_components))
        self.inherent_delta = float(inherent.delta_bounds(self._task.epsilon)[1])
        if meets(inherent, self._task.epsilon, self._task.delta):
            self._absolute.noise_scale = self._absolute.ridge = self.noise_scale = 0.0

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the sketch, on a grid that does not tell the noise."""
        self._study(table)
        ridge = self._absolute.ridge
        sketch = draw_sketch(table.moments, ridge, self.n_components, rng)
        sketch = round_to_grid(sketch, self._task.data_norm)
        return {"coef": solve(sketch @ sketch.T), "sketch": sketch}


class RelativeGaussian(Method):
    """The solution itself plus noise for the largest change that one of its own rows makes."""

    basis = "relative"
    note = Relative.note

    def __init__(self, task: Task) -> None:
        self._unit = unit_noise(task.epsilon, task.delta)
        self.noise_scale = math.nan  # depends on the data

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the solution; the grid is that of a standard normal, for want of public units."""
        law = self.law(table)
        noise = self.noise_scale * rng.standard_normal(len(law.mean))
        return {"coef": round_to_grid(law.mean + noise, _FINER)}

    def law(self, table: Table) -> Gaussian:
        """The law of the coefficients."""
        moments = table.moments
        theta = solve(moments)
        inverse = np.linalg.pinv(moments[:-1, :-1], hermitian=True)
        largest = 0.0
        for block in table.blocks():
            X, y = block[:, :-1], block[:, -1]
            moved = X @ inverse
            left = 1.0 - np.sum(moved * X, axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                change = np.linalg.norm(moved, axis=1) * np.abs(y - X @ theta) / left
            largest = max(largest, float(np.max(np.where(left > 1e-9, change, np.inf))))
        if not math.isfinite(largest):
            raise ValueError(
                "Expected a table in which no row decides a coefficient alone, got one with such a "
                "row; use a method that protects every table."
            )
        self.noise_scale = self._unit * largest * (1.0 + 1e-9)
        return Gaussian.isotropic(theta, self.noise_scale**2)


def worst_record(
    loss: TriangleLoss, q: FloatArray, p: FloatArray, error: float, epsilon: float
) -> float:
    """A bound on ln of the largest delta(epsilon) over records with these leverages.

    Records with similar q and p/q are bounded together, in ever smaller boxes, as long as the bound
    is more than a tolerance above what one record attains; at last one by one, each in a box
    as large as its leverages are uncertain.
    """
    if not error < 1e-2:
        return 0.0  # a leverage may be one
    factors = np.array([[1.0 - 2.0 * error], [1.0 + 2.0 * error]] * 2)
    attained, worst = _NEGLIGIBLE, _NEGLIGIBLE
    for width in (0.25, 0.06, 0.015, 0.004, 0.0):
        if not q.size:
            break
        start = np.arange(q.size)
        if width > 0:
            place = np.floor(np.log(np.maximum(q, 1e-300)) / width) * 1e6
            place += np.floor(p / np.maximum(q, 1e-300) / width)
            order = np.argsort(place)
            q, p, place = q[order], p[order], place[order]
            start = np.flatnonzero(np.diff(place, prepend=-np.inf))
        attained = max(attained, float(np.max(loss.log_delta_at(q[start], p[start], epsilon))))
        extremes = [f.reduceat(v, start) for v in (p, q) for f in (np.minimum, np.maximum)]
        cells = np.array(extremes) * factors
        sound = cells[3] < 1.0
        bounds = np.zeros(start.size)
        bounds[sound] = loss.cell_bounds(cells[:, sound], epsilon, attained)
        settled = (bounds <= attained + loss.tolerance) | (width == 0)
        worst = max(worst, float(np.max(bounds[settled], initial=-math.inf)))
        left = np.repeat(~settled, np.diff(np.append(start, q.size)))
        q, p = q[left], p[left]
    return worst


METHODS: dict[str, type[Method]] = {
    "newton": Newton,
    "noisy-gram": NoisyGram,
    "adassp": Moments,
    "gaussian-limit": GaussianLimit,
    "sketch": Sketch,
    "als": SketchAndSolve,
    "linear-mixing": LinearMixing,
    "hessian-mixing": HessianMixing,
    "lsv": LeastSingularValue,
    "mutual-information": MutualInformation,
    "relative-limit": RelativeLimit,
    "relative-sketch": RelativeSketch,
    "relative-als": RelativeSolve,
    "relative-gaussian": RelativeGaussian,
}
