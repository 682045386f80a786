"""Linear models from what several parties released.

All of it is post-processing. In half-widths, with n rows, k mixed rows and noise sigma_c on
column c, the second moments M = S^T S/n of the released rows are those of the data plus
nu_c = k sigma_c^2/n on the diagonal (docs/proofs/multi-party.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ndis import _validate
from ndis._validate import FloatArray
from ndis.mechanisms.multiparty.agreement import Agreement
from ndis.mechanisms.multiparty.releasing import WHOLE
from ndis.release import Release

# The prior of the coefficients: this much on no relation at all; the rest on coefficients that
# explain the label by so many shares of its variance, if features were uncorrelated.
NO_RELATION = 0.5
SHARES = np.geomspace(1e-2, 1.0, 13)
# How often the variance of the residuals is worked out again, and the floor that keeps few mixed
# rows from looking like none at all in some direction.
ROUNDS = 6
FLOOR = 1e-3


@dataclass(frozen=True)
class LinearModel:
    """A linear model in the units of the data.

    Attributes
    ----------
    label : str
    features : tuple of str
    coef : ndarray of shape (n_features,)
    intercept : float
    """

    label: str
    features: tuple[str, ...]
    coef: FloatArray
    intercept: float

    def predict(self, X: Any) -> FloatArray:
        """Predict the label from an array whose columns are `features`, in order."""
        return np.asarray(
            _validate.floats("X", X, (None, len(self.coef))) @ self.coef + self.intercept
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description."""
        return {
            "label": self.label,
            "intercept": self.intercept,
            "coefficients": dict(zip(self.features, self.coef.tolist(), strict=True)),
        }


def train(release: Release, label: str, features: Sequence[str] | None = None) -> LinearModel:
    """Fit a linear model to the combined release; it costs no budget, whatever the label.

    Parameters
    ----------
    release : Release
        From `combine`.
    label : str
        Any column.
    features : sequence of str, optional
        The columns to predict from; all others if not given.

    Returns
    -------
    LinearModel
    """
    if release.mechanism != WHOLE:
        raise ValueError(
            f"Expected the combined release of all parties, got one of {release.mechanism}; "
            "run `ndis party combine` first."
        )
    agreement = Agreement.from_dict(release.parameters["agreement"])
    names = agreement.columns
    _validate.one_of("label", label, names)
    chosen = tuple(name for name in names if name != label) if features is None else tuple(features)
    for name in chosen:
        _validate.one_of("features", name, [each for each in names if each != label])
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"Expected distinct features, at least one, got {list(chosen)}; name each once."
        )
    used = [names.index(name) for name in (*chosen, label)]
    # In half-widths, counted from the middle of the limits.
    coef, intercept = _shrunken(agreement, release.arrays["rows"], release.arrays["ones"], used)
    half, middle = agreement.half_widths[used], agreement.middles[used]
    coef = coef * half[-1] / half[:-1]
    intercept = middle[-1] + half[-1] * intercept - float(coef @ middle[:-1])
    return LinearModel(label, chosen, coef, intercept)


def _shrunken(
    agreement: Agreement, rows: FloatArray, ones: FloatArray, used: list[int]
) -> tuple[FloatArray, float]:
    """Centre by the released means, take the noise off, shrink by Bayes' rule."""
    n, k = agreement.n_rows, agreement.n_components
    means, mixed, signs = rows[0, used] / n, rows[1:, used], ones[1:]
    centered = mixed - np.outer(signs, means)
    noisy = centered.T @ centered / (n * (k - 1))
    # Noise of variance k sigma^2 on the sums; the mean's own noise enters through the signs.
    variance = k * agreement.noise_scales[used] ** 2 / n
    taken_off = variance * (1.0 + float(signs @ signs) / ((k - 1) * n**2))
    coef = shrink(noisy, noisy - np.diag(taken_off), k - 1)
    return coef, float(means[-1] - means[:-1] @ coef)


def shrink(noisy: FloatArray, clean: FloatArray, n_mixed: int) -> FloatArray:
    """Coefficients of the last column on the others: the mean of their posterior law.

    The gradient c - C w of unbiased second moments (C, c) is close to normal at the true w, with
    covariance M omega^2/k, where M are the noisy moments and omega^2 = (w, -1)^T M (w, -1). With
    the prior N(0, tau^2 I) the posterior mean is tau^2 C (tau^2 C C + M omega^2/k)^-1 c: no
    eigenvalue of C, small or negative, is ever divided by. tau is averaged over its own
    posterior.

    Parameters
    ----------
    noisy, clean : ndarray of shape (d + 1, d + 1)
        M, and M less the noise.
    n_mixed : int
        k.

    Returns
    -------
    coef : ndarray of shape (d,)
    """
    d = len(noisy) - 1
    M, C, c = noisy[:d, :d], clean[:d, :d], clean[:d, d]
    # What is left of a variance after the noise is off may be negative: not below its own error.
    features = max(float(np.trace(C)), math.sqrt(2.0 * float(np.sum(M**2)) / n_mixed))
    label = max(float(clean[d, d]), math.sqrt(2.0 / n_mixed) * float(noisy[d, d]))
    prior = SHARES * label / features
    log_prior = np.log([NO_RELATION, *[(1.0 - NO_RELATION) / len(prior)] * len(prior)])
    error = (M + FLOOR * np.trace(M) / d * np.eye(d)) / n_mixed
    coef = np.zeros(d)
    for _ in range(ROUNDS):
        residual = np.append(coef, -1.0)
        likelihood, means = [], []
        for variance in (0.0, *prior):
            law = variance * C @ C + float(residual @ noisy @ residual) * error
            factor = cho_factor(law)
            solved = cho_solve(factor, c)
            likelihood.append(-float(np.sum(np.log(np.diag(factor[0])))) - 0.5 * float(c @ solved))
            means.append(variance * C @ solved)
        weights = np.asarray(likelihood) + log_prior
        weights = np.exp(weights - weights.max())
        coef = np.asarray(weights @ np.array(means) / weights.sum())
    return coef
