"""Mixing: sketches that only steer, or are tested first (Lev et al. 2025)."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from ndis.calibration import least_noise, meets
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.mechanisms import projection_methods
from ndis.mechanisms.projection import draw_sketch
from ndis.mechanisms.projection_methods import least_ratio, sketch_loss
from ndis.mechanisms.regression_methods.base import (
    Arrays,
    Method,
    Table,
    Task,
    enough,
    solve,
    unit_noise,
)
from ndis.mechanisms.worst_cases import with_failure
from ndis.randomness import add_noise, round_to_grid
from ndis.release import Shapes


def renyi_epsilon(loss: QuadraticLoss, delta: float) -> float:
    """The epsilon that follows from Renyi divergences at the best order: not tight.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.mechanisms.regression_methods.mixing import renyi_epsilon
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
    >>> from ndis.mechanisms.regression_methods.mixing import renyi_ratio
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
        self.n_components = enough(task.components(default), d)
        projection = projection_methods.Task(
            task.epsilon, task.delta, task.data_norm, self.n_components, 1.0, "best"
        )
        kind = _PublishedTest if task.published else projection_methods.ProposeTestRelease
        self._ptr: projection_methods.ProposeTestRelease = kind(projection)
        assert self._ptr.loss is not None
        self.loss, self.noise_scale = self._ptr.loss, self._ptr.noise_scale
        if task.published and not meets(self._ptr.loss, task.epsilon, task.delta):
            self.basis = "refuted"

    def shapes(self, n_features: int) -> Shapes:
        """The shapes of what `draw` returns."""
        return {
            "coef": (n_features,),
            "sketch": (n_features + 1, self.n_components),
            "ridge": (),
        }

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
        self.n_components = k = enough(task.components(default), d)
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

    def shapes(self, n_features: int) -> Shapes:
        """The shapes of what `draw` returns."""
        return {
            "coef": (n_features,),
            "sketches": (self._task.n_rounds, n_features, self.n_components),
            "gradients": (self._task.n_rounds, n_features),
            **({"least_eigenvalue": ()} if self._task.published else {}),
        }

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
