"""Logistic regression as a draw from Böhning's Gaussian surrogate of the posterior.

With rows r = (1, x), |x| <= 1, and a prior N(0, I/lam), the surrogate is N(theta, (lam I + R^T R/4)
^-1), theta the penalised maximum of the likelihood (Böhning 1992). A row moves theta by at most
sqrt(2)/lam and changes the precision by a matrix of rank one. docs/proofs/classification.md has the
proofs, and what is left to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import flint
import numpy as np
from flint import arb, arb_mat

from ndis import QuadraticLoss
from ndis.calibration import ROUND_UP
from ndis.loss import PrivacyLoss
from ndis.loss.posteriors import Envelope
from ndis.mechanisms import Arrays, EstimatorMethod, Forecast, Part, Plan, Target, require_rows
from ndis.mechanisms.classification import Logits, in_table_units
from ndis.mechanisms.posterior import SMALLEST, Draws, drawn
from ndis.tables import FINER, GRID_NORM, ExactSum, Rows, Scores, Table
from ndis_papers import _validate
from ndis_papers._validate import FloatArray

# The norm of a row with its constant.
_NORM = math.sqrt(2.0) * ROUND_UP
# The solver stops at a gradient of this share of a row's norm.
_TOLERANCE = 1e-6
# Passes over the table; a few dozen are usual.
_STEPS = 500
# A cap on rows, for what rounding may do, where none is declared.
MOST_ROWS = 2**30
# The computed weight of a row is off by less than this (see `ndis.tables.exponentials`).
_WEIGHT_ERROR = 2.0**-39
# Rounding of the covariance is hidden by so many times as much variance.
_HIDDEN = 2.0**20


@dataclass(frozen=True)
class Posterior:
    """What one row can do to the law, by public numbers.

    Parameters
    ----------
    lam : float
        The prior precision, in units of rows of norm one.
    n_features : int
    max_rows : int, optional
        A public cap on the number of rows.
    n_draws : int
    """

    lam: float
    n_features: int
    max_rows: int | None = None
    n_draws: int = 1

    @property
    def mean_sensitivity(self) -> float:
        """How far one row can move the computed mean.

        An optimum moves by |r|/lam. A computed one is off by its gradient over lam: what the solver
        tolerates, the error of n weights, and the rounding of numbers as large as theta.
        """
        n = self.max_rows or MOST_ROWS
        largest = 2.0 * math.sqrt(2.0 * math.log(2.0) * n / self.lam)
        rounding = n * _NORM * (_WEIGHT_ERROR + 2.0**-50 * _NORM * largest)
        rounding += 2.0**-50 * self.lam * largest
        off = _TOLERANCE * _NORM + rounding
        return (_NORM + 2.0 * off) / self.lam * ROUND_UP

    @property
    def covariance_error(self) -> float:
        """How far rounding to doubles moves a covariance of at most 1/lam, in spectral norm."""
        return (self.n_features + 1) * 2.0**-52 / self.lam

    def envelope(self, added_variance: float) -> Envelope:
        """What one row does to mean and covariance at this much added noise variance."""
        lam, gain = self.lam, 0.25 * _NORM**2
        # (1/lam + v) / (1/(lam + gain) + v) - 1, without a subtraction.
        excess = gain / (lam * (1.0 + added_variance * (lam + gain)))
        kappa = math.log1p(excess * ROUND_UP)
        least = 0.0 if self.max_rows is None else 1.0 / (lam + self.max_rows * gain)
        shift = self.mean_sensitivity / math.sqrt(added_variance + least) * ROUND_UP
        return Envelope(shift, kappa, kappa, rank=1)

    def loss(self, added_variance: float, split: float) -> PrivacyLoss:
        """A pair that dominates all neighbours, row present first.

        A share of the noise is as good as a release of its own: it hides the rounding of the
        covariances, whose ratio is within 1 +- 2^-18 in each direction then, whichever is larger.
        """
        left = max(added_variance - _HIDDEN * self.covariance_error, 0.5 * added_variance)
        d = float(self.n_features + 1)
        ratio = 4.0 / _HIDDEN
        rounding = QuadraticLoss([-ratio, ratio / (1.0 + ratio)], [0.0, 0.0], [d, d])
        whole: PrivacyLoss = self.envelope(left).dominating(split) + rounding
        return whole


@lru_cache(maxsize=256)
def least_noise(
    posterior: Posterior, target: Target, given: float | None = None, share: float | None = None
) -> tuple[float, PrivacyLoss, float]:
    """The least noise on each coefficient of a draw, or the given one; its loss; and the share.

    A share that is given, as a certificate does, need not be searched for: any of them will do.
    """
    floor = max(
        SMALLEST / math.sqrt(posterior.lam),
        math.sqrt(2.0 * _HIDDEN * posterior.covariance_error),
    )
    start = 4.0 * posterior.mean_sensitivity / max(target.epsilon or 1.0, 0.1)
    draws = Draws(target, posterior.n_draws, start, floor, given, share)
    return draws.least_divided(
        posterior.loss, lambda variance, share: posterior.envelope(variance).dominating(share)
    )


def law(table: Table, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the coefficients of the log-odds, the constant's first."""
    precision = _precision(table.moments, posterior.lam)
    return solve(table, posterior.lam, precision), _inverse(precision)


def _precision(moments: dict[str, ExactSum], lam: float) -> list[list[arb]]:
    """Lam I + R^T R / 4 as balls, without rounding that matters."""
    gram, sums, count = moments["gram"], moments["sums"], moments["count"]
    d = len(sums.high)

    def exact(part: ExactSum, index: tuple[int, ...], unit: int) -> arb:
        value = (int(part.high[index]) << 26) + int(part.low[index])
        return arb(value) / (4 * unit)

    with flint.ctx.workprec(256):
        rows = [[arb(0)] * (d + 1) for _ in range(d + 1)]
        rows[0][0] = exact(count, (), 1)
        for i in range(d):
            rows[0][i + 1] = rows[i + 1][0] = exact(sums, (i,), GRID_NORM)
            for j in range(d):
                rows[i + 1][j + 1] = exact(gram, (i, j), GRID_NORM**2)
        for i in range(d + 1):
            rows[i][i] += arb(lam)
    return rows


def _inverse(precision: list[list[arb]]) -> FloatArray:
    """The inverse, each entry correct to the last digit or two of a double."""
    with flint.ctx.workprec(512):
        inverse = arb_mat(precision).inv()
        d = len(precision)
        cov = np.array([[float(inverse[i, j].mid()) for j in range(d)] for i in range(d)])
        worst = max(float(inverse[i, j].rad()) for i in range(d) for j in range(d))
    if not worst < 2.0**-60 * float(np.abs(cov).max()):
        raise ArithmeticError(
            "The posterior's covariance could not be computed closely enough, and nothing was "
            "released; raise prior_precision."
        )
    return np.asarray(0.5 * (cov + cov.T))


def solve(table: Table, lam: float, precision: list[list[arb]]) -> FloatArray:
    """The penalised maximum of the likelihood, up to a gradient of the tolerance.

    A quasi-Newton method on exact sums. It starts from Böhning's bound on the curvature, with which
    no step is too long, and learns the true one from differences of gradients.
    """
    bound = np.array([[float(entry.mid()) for entry in row] for row in precision])
    inverse = np.linalg.inv(bound)
    theta, gradient = _gradient(table, np.zeros(len(bound)), lam)
    for _ in range(_STEPS):
        if float(np.linalg.norm(gradient)) <= 0.5 * _TOLERANCE * _NORM:
            return theta
        step, slope = -inverse @ gradient, -float(gradient @ inverse @ gradient)
        there, new = _gradient(table, theta + step, lam)
        while float(new @ step) > -0.9 * slope:  # beyond the minimum along the step
            step = 0.5 * step
            there, new = _gradient(table, theta + step, lam)
        s, y = there - theta, new - gradient
        theta, gradient = there, new
        if (along := float(s @ y)) > 0:
            left = np.eye(len(s)) - np.outer(s, y) / along
            inverse = left @ inverse @ left.T + np.outer(s, s) / along
    raise ArithmeticError(
        f"The posterior's mean was not found in {_STEPS} passes, and nothing was released; "
        "raise prior_precision."
    )


def _gradient(table: Table, theta: FloatArray, lam: float) -> tuple[FloatArray, FloatArray]:
    """Where the gradient was taken, which is on a grid, and the gradient of the penalised loss."""
    longest = float(np.linalg.norm(theta[1:]))
    unit = 2.0 ** (math.frexp(longest)[1] - 31) if longest > 0 else 1.0
    whole = np.round(theta[1:] / unit)
    rest = np.round((theta[1:] / unit - whole) / FINER)
    there = np.concatenate([theta[:1], (whole + rest * FINER) * unit])
    # The log-odds of the second class as logits of both, of which one is zero.
    zero = np.zeros_like(whole)
    columns = np.column_stack([zero, whole, zero, rest])
    intercept = np.array([0.0, theta[0]])
    sums = table.sum(Scores(columns, unit / GRID_NORM, intercept, math.sqrt(2.0), fine=True))
    fine = 1.0 / GRID_NORM
    residuals = sums["residuals"].value + fine * sums["fine_residuals"].value
    products = sums["gradient"].value[:, 0] + fine * sums["fine_gradient"].value[:, 0]
    score = np.concatenate([residuals / GRID_NORM, products / GRID_NORM**2])
    # In the basis of contrasts a residual is sqrt(2) (y_0 - p_0), in units of the bound sqrt(2).
    return there, lam * there + score


# -- the method of PrivateLogisticRegression -------------------------------------------------------


class Drawing(EstimatorMethod):
    """Draws from the surrogate, for two classes."""

    says = ("share",)

    def _posterior(self, n_features: int) -> Posterior:
        """What the parameters declare about the draw."""
        model, n_classes = self.model, len(self.model.declared_classes())
        if n_classes > 2:
            raise ValueError(
                f"Expected two classes for method='posterior', got {n_classes}; use method='auto'."
            )
        lam = model.prior_precision
        if lam is None:
            if model.epsilon is None:
                raise ValueError(
                    "Expected prior_precision where epsilon is not given, got none; pass the "
                    "precision of the prior."
                )
            lam = max(1.0, 20.0 / max(_validate.non_negative("epsilon", model.epsilon), 1e-3))
        most = None if model.max_rows is None else _validate.count("max_rows", model.max_rows)
        draws = _validate.count("n_draws", model.n_draws)
        return Posterior(_validate.positive("prior_precision", lam), n_features, most, draws)

    def _noise(self, n_features: int, target: Target) -> tuple[float, PrivacyLoss, float]:
        """The noise of a draw, its loss, and the share by which that is a bound."""
        given, share = self.model.noise_scale, self.said.get("share")
        if given is not None:
            given = _validate.positive("noise_scale", given)
        if share is not None:
            share = _validate.probability("share", share)
        return least_noise(self._posterior(n_features), target, given, share)

    def _plan(self, rows: Rows) -> Plan:
        d = len(rows.features.names)
        target, n_draws = self.target(), self._posterior(d).n_draws
        scale, loss, _ = self._noise(d, target)
        shapes = {"coef": (1, d), "intercept": (1,), "draws": (n_draws, d + 1)}
        promise = target.promise(loss, "add-remove")
        part, reason = Part(None, noise=scale), "It was asked for."
        return Plan("posterior", (part,), promise, shapes, reason)

    def _study(self, data: Table, plan: Plan) -> tuple[FloatArray, FloatArray]:
        """The law."""
        self.model.read_totals(data)
        require_rows(data.n_rows, MOST_ROWS)
        return law(data, self._posterior(len(data.rows.features.names)))

    def _draw(
        self,
        studied: tuple[FloatArray, FloatArray],
        plan: Plan,
        data: Table,
        rng: np.random.Generator,
    ) -> Arrays:
        draws = drawn(*studied, plan, rng)
        logits = self.logits(draws)
        return Arrays(draws | in_table_units(logits, data.rows), logits)

    def logits(self, arrays: Mapping[str, FloatArray]) -> Logits:
        """What the draws say about the logits of both classes."""
        theta = np.outer(arrays["draws"].mean(axis=0), [-0.5, 0.5])
        return Logits(theta[1:], theta[0], 1.0, theta[0])

    def finish(self, rows: Rows) -> None:
        """Show the draws."""
        self.model.draws_ = self.model.release_.arrays["draws"]

    def _forecast(self, rows: Rows, plan: Plan, n_rows: int | None) -> Forecast:
        ends = (plan.noise_scale, math.sqrt(2.0) * plan.noise_scale)
        said = "rows between the middle and the bound; the posterior's own spread not counted"
        return Forecast({"noise of a log-odds": ends}, (said,))

    def _public(self, rows: Rows) -> dict[str, Any]:
        d = len(rows.features.names)
        return {
            "prior_precision": self._posterior(d).lam,
            "share": self._noise(d, self.target())[2],
        }
