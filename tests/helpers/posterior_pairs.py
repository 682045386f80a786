"""Losses of all removals from one data set, in closed form, for the three Gaussian posteriors.

Independent of the bounds in `ndis.loss.posteriors`: exact laws of the data set with and
without each record, record present first. A loss has two terms: the direction in which the variance
changes, and the rest of the mean.
"""

import math

import numpy as np
from scipy.special import expit

from ndis import GaussianOutput, QuadraticLoss
from ndis.loss.posteriors import RankOneUpdate
from ndis.mechanisms.target import require_rows


def linear_regression(
    *, data_norm, label_bound, max_rows, n_features, lam=1.0, noise_variance=1.0, **parameters
) -> GaussianOutput:
    """Draws from the posterior of Bayesian linear regression: the example of docs/posteriors.md."""
    update = RankOneUpdate(
        data_norm**2 / lam * (1 + 1e-15), 1 / lam, noise_variance, label_bound, max_rows
    )

    def posterior(table):
        require_rows(len(table), max_rows)
        x, y = table[:, :-1], np.clip(table[:, -1], -label_bound, label_bound)
        x = x * np.minimum(1.0, data_norm / np.maximum(np.linalg.norm(x, axis=1), 1e-300))[:, None]
        inverse = np.linalg.inv(lam * np.eye(x.shape[1]) + x.T @ x / noise_variance)
        return inverse @ (x.T @ y) / noise_variance, 0.5 * (inverse + inverse.T)

    return GaussianOutput(
        posterior,
        dimension=n_features,
        max_spread=1.0 / math.sqrt(lam),
        worst_case=update.loss,
        **parameters,
    )


def rank_one_losses(covariance, widening, difference) -> QuadraticLoss:
    """N(m, S) against N(0, S + u u^T) for every row u of `widening` and m of `difference`."""
    whitened = np.linalg.inv(np.linalg.cholesky(covariance))
    u, m = widening @ whitened.T, difference @ whitened.T
    excess = (u * u).sum(axis=1)
    along = np.divide((u * m).sum(axis=1) ** 2, excess, out=np.zeros_like(excess), where=excess > 0)
    across = np.maximum((m * m).sum(axis=1) - along, 0.0)
    zero = np.zeros_like(excess)
    return QuadraticLoss(
        np.stack([-excess, zero], axis=1),
        np.stack([along, across], axis=1),
        np.stack([np.ones_like(excess), zero], axis=1),
    )


def linear_removals(X, y, lam, noise_variance, noise) -> QuadraticLoss:
    d = X.shape[1]
    C = np.linalg.inv(lam * np.eye(d) + X.T @ X / noise_variance)
    gain = X @ C
    left = 1.0 - (gain * X).sum(axis=1) / noise_variance
    error = y - gain @ (X.T @ y) / noise_variance
    difference = gain * (error / (left * noise_variance))[:, None]
    widening = gain / np.sqrt(left * noise_variance)[:, None]
    return rank_one_losses(C + noise**2 * np.eye(d), widening, difference)


def process_removals(X, y, points, kernel, noise_variance, noise) -> QuadraticLoss:
    inverse = np.linalg.inv(kernel(X) + noise_variance * np.eye(len(X)))
    across = kernel(X, points)
    gain, weights, left = inverse @ across, inverse @ y, np.diag(inverse)
    posterior = kernel(points) - across.T @ gain + noise**2 * np.eye(len(points))
    return rank_one_losses(
        0.5 * (posterior + posterior.T),
        gain / np.sqrt(left)[:, None],
        gain * (weights / left)[:, None],
    )


def logistic_removals(rows, signs, lam, noise) -> QuadraticLoss:
    """`rows` with their constant, within the norm; the optima of all removals at once."""
    n, d = rows.shape
    keep = np.vstack([np.ones(n), 1.0 - np.eye(n)])
    theta = optima(rows, signs, lam, keep)
    C = np.linalg.inv(lam * np.eye(d) + 0.25 * rows.T @ rows)
    gain = rows @ C
    left = 4.0 - (gain * rows).sum(axis=1)
    return rank_one_losses(
        C + noise**2 * np.eye(d), gain / np.sqrt(left)[:, None], theta[0] - theta[1:]
    )


def optima(rows, signs, lam, keep, steps: int = 200):
    """Penalised maximum likelihood for every row of 0/1 weights, by halved Newton steps."""
    signed = rows * signs[:, None]
    d = rows.shape[1]
    theta = np.zeros((len(keep), d))
    squares = (signed[:, :, None] * signed[:, None, :]).reshape(len(rows), d * d)

    def height(at):
        losses = (keep * np.logaddexp(0.0, -(at @ signed.T))).sum(axis=1)
        return losses + 0.5 * lam * (at * at).sum(axis=1)

    for _ in range(steps):
        away = expit(-(theta @ signed.T))
        gradient = lam * theta - (keep * away) @ signed
        if np.linalg.norm(gradient, axis=1).max() < 1e-9:
            return theta
        hessian = ((keep * away * (1.0 - away)) @ squares).reshape(-1, d, d) + lam * np.eye(d)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        here, length = height(theta), np.ones(len(keep))
        for _ in range(40):
            above = height(theta - length[:, None] * step) > here * (1.0 + 1e-13)
            if not above.any():
                break
            length[above] *= 0.5
        theta = theta - length[:, None] * step
    raise ArithmeticError("the reference solver did not converge")


def worst_log_delta(losses: QuadraticLoss, epsilon: float, n_draws: int = 1) -> float:
    """The largest ln delta of a batch, both directions."""
    both = [n_draws * losses, n_draws * losses.reversed()]
    return max(float(np.max(loss.log_delta(epsilon))) for loss in both)
