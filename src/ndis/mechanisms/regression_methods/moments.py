"""Moments: Gaussian noise on sums of products, one mean shift however many parts."""

from __future__ import annotations

import math

import numpy as np

from ndis._validate import FloatArray
from ndis.calibration import noise_multiplier
from ndis.loss import Profile, QuadraticLoss
from ndis.mechanisms.regression_methods.base import Arrays, Method, Table, Task
from ndis.randomness import add_noise, add_symmetric_noise
from ndis.release import Shapes

# Of the budget of "newton" these shares go into the Hessian, which only steers, and into the
# number of rows and the sum of squared labels, which only set clips.
_HESSIAN_SHARE, _SIZE_SHARE = 0.15, 0.02
# A ridge is at least so many times sqrt(d) the noise of the Hessian, above the largest eigenvalue
# that the noise itself has; and a step must seem to pay by so many standard errors.
_FLOOR, _CAUTION = 2.0, 1.0
_LADDER = np.concatenate([[0.0], np.geomspace(0.1, 1e4, 40)])


class Moments(Method):
    """AdaSSP (Wang 2018): noisy X^T X, X^T y and least eigenvalue, solved with the ridge they need.

    Three mean shifts are one.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        l2, lY = task.data_norm**2, task.data_norm * task.label_bound
        unit = noise_multiplier(task.epsilon, task.delta) * math.sqrt(3.0)
        self.loss = Profile.both(QuadraticLoss.from_shift(math.sqrt(3.0) / unit))
        self._unit, self.noise_scale, self._moment_scale = unit, unit * l2, unit * lY

    def shapes(self, n_features: int) -> Shapes:
        """The shapes of what `draw` returns."""
        return {
            "coef": (n_features,),
            "gram": (n_features, n_features),
            "moment": (n_features,),
            "least_eigenvalue": (),
        }

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the three statistics; solve with the ridge of the paper."""
        task, d = self._task, self._task.n_features
        X, b = table.moments[:-1, :-1], table.moments[:-1, -1]
        noisy = add_symmetric_noise(X, self.noise_scale, rng)
        moment = add_noise(b, self._moment_scale, rng)
        least = add_noise(np.linalg.eigvalsh(X)[0], self.noise_scale, rng)
        low = max(float(least) - self.noise_scale * math.sqrt(math.log(6.0 / task.delta)), 0.0)
        spread = math.sqrt(d * math.log(20.0 * d**2 / task.delta))
        ridge = max(0.0, spread * self.noise_scale - low)
        coef = np.asarray(np.linalg.lstsq(noisy + ridge * np.eye(d), moment, rcond=None)[0])
        return {"coef": coef, "gram": noisy, "moment": moment, "least_eigenvalue": least}


class NoisyGram(Method):
    """The whole Gram matrix of [X, y] with symmetric noise: one mean shift of l^2/scale.

    Coefficients are ridge regression with the ridge that `Hessian` chooses. The release serves for
    confidence intervals and for any other regression among the same columns.
    """

    def __init__(self, task: Task) -> None:
        unit = noise_multiplier(task.epsilon, task.delta)
        self.loss = Profile.both(QuadraticLoss.from_shift(1.0 / unit))
        self.noise_scale = unit * task.data_norm**2

    def shapes(self, n_features: int) -> Shapes:
        """The shapes of what `draw` returns."""
        return {"coef": (n_features,), "moments": (n_features + 1, n_features + 1)}

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the noisy Gram matrix."""
        noisy = add_symmetric_noise(table.moments, self.noise_scale, rng)
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
        unit = noise_multiplier(task.epsilon, task.delta)
        self.loss = Profile.both(QuadraticLoss.from_shift(1.0 / unit))
        self.passes = task.n_rounds
        self.noise_scale = unit * task.data_norm**2 / math.sqrt(_HESSIAN_SHARE)
        self.size_scale = unit * math.sqrt(2.0 / _SIZE_SHARE)
        rounds = task.n_rounds / (1.0 - _HESSIAN_SHARE - _SIZE_SHARE)
        self.gradient_scale = unit * task.data_norm * math.sqrt(rounds)

    def shapes(self, n_features: int) -> Shapes:
        """The shapes of what `draw` returns."""
        return {
            "coef": (n_features,),
            "gram": (n_features, n_features),
            "size": (2,),
            "points": (self.passes, n_features),
            "clips": (self.passes,),
            "gradients": (self.passes, n_features),
        }

    def draw(self, table: Table, rng: np.random.Generator) -> Arrays:
        """Release the Hessian and the size, then a gradient a round."""
        task, moments = self._task, table.moments
        noisy = add_symmetric_noise(moments[:-1, :-1], self.noise_scale, rng)
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
