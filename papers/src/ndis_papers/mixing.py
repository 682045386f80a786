"""Mixing (Lev et al. 2025): a sketch behind a test of the least eigenvalue, or one that steers.

Both are competitors of the library's regression, with their published accounting and with an
exact one. They draw coefficients from arrays; nothing is released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from ndis import PrivateProjection
from ndis.calibration import least_noise, noise_multiplier
from ndis.loss import Profile, QuadraticLoss
from ndis.loss.renyi import epsilon_bound
from ndis_papers._validate import FloatArray
from ndis_papers.least_squares import solve
from ndis_papers.sketches import draw_sketch, least_ratio, sketch_loss


def renyi_epsilon(loss: QuadraticLoss, delta: float) -> float:
    """The epsilon that follows from Renyi divergences at the best order: not tight.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis_papers.mixing import renyi_epsilon
    >>> loss = QuadraticLoss.from_leverage(0.01, n_components=100)
    >>> f"{renyi_epsilon(loss, 1e-6):.3f}", f"{loss.epsilon(1e-6):.3f}"
    ('0.370', '0.332')
    """
    s = np.geomspace(1e-2, 1e5, 1000)
    epsilons = epsilon_bound(loss.finite_cumulant(s), s, delta)
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
    >>> from ndis_papers.mixing import renyi_ratio
    >>> from ndis_papers.sketches import least_ratio
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


class LinearMixing:
    """Test the least eigenvalue, then solve on a sketch of [X, y] (Lev et al. 2025).

    Parameters
    ----------
    epsilon, delta : float
    n_features : int
    data_norm : float
        A bound on the norm of a row [x, y].
    n_components : int, optional
        Size of the sketch; the paper's choice if not given.
    accounting : {"published", "exact"}
        "published": Renyi divergences, noise of the test tied to the ridge. "exact": the division
        of the budget between test and sketch that is best, and exact losses: the library's
        projection with method="ptr", solved.

    Attributes
    ----------
    noise_scale : float
        The root of the ridge if the test says nothing.
    true_delta : float
        A bound on delta at epsilon, the failure of the test included.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        n_features: int,
        *,
        data_norm: float = 1.0,
        n_components: int | None = None,
        accounting: str = "published",
    ) -> None:
        default = 2.5 * max(n_features, math.log(20.0 / delta))
        self.n_components = n_components or math.ceil(default)
        self.unit = data_norm**2
        self.published = accounting == "published"
        k = self.n_components
        if not self.published:
            self._projection = PrivateProjection(
                epsilon=epsilon, delta=delta, data_norm=data_norm, n_components=k, method="ptr"
            )
            noise = self._projection.calibrate(n_features + 1)
            assert isinstance(noise, Mapping)
            self.noise_scale = noise["sketch"]
            self.true_delta = delta
            return
        ratio = renyi_ratio(epsilon, delta / 3.0, k)
        self.needed = 1.0 + ratio**2
        self.test_scale = self.needed * self.unit / math.sqrt(k)
        self.quantile = math.sqrt(2.0 * math.log(20.0 / delta))
        self.noise_scale = ratio * data_norm
        both = sketch_loss(ratio, k) + QuadraticLoss.from_shift(math.sqrt(k) / self.needed)
        failure = float(norm.sf(self.quantile))
        self.true_delta = float(Profile.both(both).delta_bounds(epsilon)[1]) + failure

    def draw(self, X: FloatArray, y: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Coefficients of one run."""
        table = np.column_stack([X, y])
        if not self.published:
            fitted = self._projection.set_params(random_state=rng).fit(table)
            sketch = np.asarray(fitted.release_.arrays["sketch"])
            return solve(sketch @ sketch.T)
        moments = table.T @ table
        least = float(np.linalg.eigvalsh(moments)[0]) + self.test_scale * rng.standard_normal()
        low = max(least - self.test_scale * self.quantile, self.unit)
        ridge = max(0.0, self.needed * self.unit - low)
        sketch = draw_sketch(moments, ridge, self.n_components, rng)
        return solve(sketch @ sketch.T)


class HessianMixing:
    """Iterative Hessian mixing: a sketched Hessian and a noisy clipped gradient in every round.

    Parameters
    ----------
    epsilon, delta : float
    n_features : int
    data_norm, label_bound : float
        Bounds on the norm of a row [x, y] and on a label.
    n_components : int, optional
        Size of each sketch; the paper's choice if not given.
    n_rounds : int, default 3
    accounting : {"published", "exact"}
        "published": half of epsilon for the sketches and a test of the least eigenvalue, by Renyi
        divergences, half for the gradients. "exact": one sum of losses, no test, the gradients'
        share fixed beforehand.

    Attributes
    ----------
    noise_scale : float
        The root of the ridge if the test says nothing.
    true_delta : float
        A bound on delta at epsilon, the failure of the test included.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        n_features: int,
        *,
        data_norm: float = 1.0,
        label_bound: float = 1.0,
        n_components: int | None = None,
        n_rounds: int = 3,
        accounting: str = "published",
    ) -> None:
        default = 6.0 * max(n_features, math.log(40.0 * n_rounds / delta))
        self.n_components = k = n_components or math.ceil(default)
        self.n_rounds, self.unit, self.label_bound = n_rounds, data_norm**2, label_bound
        self.quantile = math.sqrt(2.0 * math.log(40.0 / delta))
        self.published = accounting == "published"
        failure = 0.0
        if self.published:
            # A quarter of delta each for sketches, test, failure of the test, and gradients.
            part = delta / 4.0
            ratio = renyi_ratio(epsilon / 2.0, part, k, n_rounds)
            scale = noise_multiplier(epsilon / 2.0, part) * math.sqrt(n_rounds)
            self.needed, failure = 1.0 + ratio**2, float(norm.sf(self.quantile))
        else:
            # The gradients are the signal: they get most of the budget.
            scale = 1.2 * noise_multiplier(epsilon, delta) * math.sqrt(n_rounds)
        rest: Any = QuadraticLoss.from_shift(math.sqrt(n_rounds) / scale)
        if self.published:
            rest = rest + QuadraticLoss.from_shift(math.sqrt(k) / self.needed)

        def family(ratio: float) -> Profile:
            return Profile.both(sketch_loss(ratio, k * n_rounds) + rest)

        if not self.published:
            ratio = least_noise(family, epsilon, delta, start=10.0)
        self.true_delta = float(family(ratio).delta_bounds(epsilon)[1]) + failure
        self.noise_scale = ratio * data_norm
        self.gradient_scale = scale * data_norm * label_bound

    def draw(self, X: FloatArray, y: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Mix, step, repeat: the coefficients of one run."""
        gram, ridge = X.T @ X, self.noise_scale**2
        if self.published:
            scale = self.needed * self.unit / math.sqrt(self.n_components)
            least = float(np.linalg.eigvalsh(gram)[0]) + scale * rng.standard_normal()
            low = max(least - scale * self.quantile, self.unit)
            ridge = max(0.0, self.needed * self.unit - low)
        theta = np.zeros(X.shape[1])
        for _ in range(self.n_rounds):
            sketch = draw_sketch(gram, ridge, self.n_components, rng)
            clipped = np.clip(y - X @ theta, -self.label_bound, self.label_bound)
            gradient = X.T @ clipped + self.gradient_scale * rng.standard_normal(len(theta))
            hessian = sketch @ sketch.T / self.n_components
            theta = theta + np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        return theta
