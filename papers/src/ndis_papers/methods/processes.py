"""A Gaussian process drawn at public points, given records of which only bounds are known.

One record moves the mean and the covariance of the posterior along one direction.
docs/proofs/posteriors.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from ndis.calibration import ROUND_UP
from ndis.loss import PrivacyLoss
from ndis.loss.posteriors import RankOneUpdate
from ndis.mechanisms import EstimatorMethod, Forecast, Part, Plan, Target, require_rows
from ndis.mechanisms.kernels import described, inducing_points, proven_variance
from ndis.mechanisms.posterior import SMALLEST, Draws, drawn
from ndis.tables import Block, Columns, Rows, Table, on_host
from ndis_papers import _validate
from ndis_papers._validate import FloatArray

# More than an eigenvalue routine and a kernel's rounding can take away.
_EIGEN_ROUND_UP = 1.0 + 1e-9
# Most points at which a process is drawn.
_MOST_POINTS = 4096
# A computed posterior may be off by this share of its noise.
_ROUNDING = 2.0**-10


@dataclass(frozen=True)
class Posterior:
    """The process at public points, given records of which only bounds are known.

    Attributes
    ----------
    kernel : scikit-learn kernel
    variance : float
        A bound on k(x, x).
    proven : bool
        Whether the kernel is proven to be positive semi-definite.
    points : ndarray of shape (m, d)
    noise_variance : float
        Of a label about the process.
    label_bound : float
        On the absolute value of a label.
    max_rows : int
    """

    kernel: Any
    variance: float
    proven: bool
    points: FloatArray
    noise_variance: float
    label_bound: float
    max_rows: int

    @cached_property
    def norm(self) -> float:
        """The largest eigenvalue of the prior covariance."""
        return float(np.linalg.eigvalsh(self.kernel(self.points))[-1]) * _EIGEN_ROUND_UP

    @property
    def update(self) -> RankOneUpdate:
        """What one record can do, in the worst case."""
        return RankOneUpdate(
            self.variance, self.norm, self.noise_variance, self.label_bound, self.max_rows
        )

    def plan(self, target: Target, n_draws: int, given: Any) -> Plan:
        """The least noise."""
        given = None if given is None else _validate.positive("noise_scale", given)
        noise, loss = _least_noise(self.update, target, n_draws, given)
        if self.rounding() > _ROUNDING * noise:
            raise ValueError(
                f"Expected a posterior that doubles can resolve, got noise_variance="
                f"{self.noise_variance:g} with max_rows={self.max_rows}; raise the one, or lower "
                "the other."
            )
        note = "" if self.proven else "It rests on the declared kernel_is_psd."
        basis = "proven" if self.proven else "declared"
        promise = target.promise(loss, "add-remove", basis, note)
        reason = "Draws of the process itself were asked for."
        shapes = {"draws": (n_draws, len(self.points))}
        return Plan("posterior", (Part(None, noise=noise),), promise, shapes, reason)

    def rounding(self) -> float:
        """How far doubles may move the mean: that of a solve with the largest condition number."""
        n, s2 = self.max_rows, self.noise_variance
        condition = (n * self.variance + s2) / s2
        largest = n * math.sqrt(self.variance * self.norm) * self.label_bound / s2
        return 2.0**-53 * condition * largest

    def law(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance at the points, given the records: one Cholesky factor."""
        require_rows(len(X), self.max_rows)
        prior = np.asarray(self.kernel(self.points))
        if not len(X):
            return np.zeros(len(prior)), prior
        if not self.proven and np.max(self.kernel.diag(X)) > self.variance:
            raise ValueError(
                f"Expected records with k(x, x) <= kernel_bound={self.variance}, got one beyond "
                "it; raise kernel_bound, or narrow the limits."
            )
        matrix = self.kernel(X)
        matrix[np.diag_indices_from(matrix)] += self.noise_variance
        factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        across = self.kernel(X, self.points)
        mean = across.T @ cho_solve((factor, True), y, check_finite=False)
        half = solve_triangular(factor, across, lower=True, check_finite=False)
        cov = prior - half.T @ half
        return mean, 0.5 * (cov + cov.T)

    def interpolate(self, X: FloatArray, draws: FloatArray, noise_scale: float) -> FloatArray:
        """Values between the points: the linear predictor under the prior, given the draws."""
        spread = noise_scale**2 / len(draws)
        matrix = np.asarray(self.kernel(self.points)) + spread * np.eye(len(self.points))
        weights = np.linalg.solve(matrix, draws.mean(axis=0))
        return np.asarray(self.kernel(X, self.points) @ weights)


@lru_cache(maxsize=256)
def _least_noise(
    update: RankOneUpdate, target: Target, n_draws: int, given: float | None
) -> tuple[float, PrivacyLoss]:
    size = math.sqrt(update.prior_norm)
    return Draws(target, n_draws, size, SMALLEST * size, given).least(update.loss)


def whole(block: Block) -> FloatArray:
    """A block's rows with their labels below."""
    return np.vstack([on_host(block.dense), on_host(block.labels)])


def records_of(whole: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Inputs in the units of the table, and labels about their middle, from grid integers."""
    columns, labels = rows.features, rows.labels
    inputs = columns.middle + (whole[:-1] / columns.scale[:, None]).T
    return np.clip(inputs, columns.low, columns.high), whole[-1] / labels.scale[0]


# -- the method of PrivateGaussianProcess ----------------------------------------------------------


class Drawing(EstimatorMethod):
    """Draws of the process at the query points."""

    def _plan(self, rows: Rows) -> Plan:
        n_draws = _validate.count("n_draws", self.model.n_draws)
        return self.posterior(rows).plan(self.target(), n_draws, self.model.noise_scale)

    def _study(self, data: Table, plan: Plan) -> tuple[FloatArray, FloatArray]:
        """The law of the process, given the records."""
        records = data.measure(whole, len(data.rows.features.names) + 1)
        self.check_rows(records.shape[1])
        return self.posterior(data.rows).law(*records_of(records, data.rows))

    def _draw(
        self,
        studied: tuple[FloatArray, FloatArray],
        plan: Plan,
        data: Table,
        rng: np.random.Generator,
    ) -> dict[str, FloatArray]:
        return drawn(*studied, plan, rng)

    def finish(self, rows: Rows) -> None:
        """Show the draws, and where they are."""
        model = self.model
        model.query_points_ = self.posterior(rows).points
        model.draws_ = float(rows.labels.middle[0]) + model.release_.arrays["draws"]

    def predict(self, inputs: FloatArray, rows: Rows) -> FloatArray:
        """The process at other inputs, about the middle of the labels."""
        draws, noise = self.model.release_.arrays["draws"], self.model.noise_scale_
        return self.posterior(rows).interpolate(inputs, draws, noise)

    def _forecast(self, rows: Rows, plan: Plan, n_rows: int | None) -> Forecast:
        wide = math.hypot(plan.noise_scale, math.sqrt(self.posterior(rows).variance))
        said = "the process is known exactly, or not at all"
        name = "distance of a draw from the posterior's mean"
        return Forecast({name: (plan.noise_scale, wide)}, (said,))

    def _public(self, rows: Rows) -> dict[str, Any]:
        return {"query_points": self.posterior(rows).points.tolist()}

    def posterior(self, rows: Rows) -> Posterior:
        """The law of the process at the query points, as far as parameters tell."""
        columns, labels, model = rows.features, rows.labels, self.model
        kernel, bound = model.kernel_of(rows), float(0.5 * (labels.high[0] - labels.low[0]))
        given = model.noise_variance
        largest = proven_variance(kernel, columns.low, columns.high)
        shape = np.shape(model.query_points)
        asked = shape[0] if shape else model.n_inducing or 0
        if asked > _MOST_POINTS:
            raise ValueError(
                f"Expected at most {_MOST_POINTS} points, got {asked}; ask for fewer: the law of "
                "a draw is a matrix with a row for each."
            )
        if model.query_points is None:
            half = 0.5 * (columns.high - columns.low)
            points = columns.middle + half * inducing_points(len(half), model.n_inducing)
        else:
            points = _validate.floats("query_points", model.query_points)
            if points.ndim != 2 or points.shape[1] != len(columns.names):
                raise ValueError(
                    f"Expected query_points with {len(columns.names)} columns, got shape "
                    f"{points.shape}; pass a row for each point."
                )
        if model.max_rows is None:
            raise ValueError(
                "Expected max_rows, a public bound on the number of rows, got None; the mean of "
                "a posterior cannot be bounded without it."
            )
        return Posterior(
            kernel,
            self._declared_variance(kernel, columns) if largest is None else largest,
            largest is not None,
            points,
            bound**2 if given is None else _validate.positive("noise_variance", given),
            bound * ROUND_UP,
            _validate.count("max_rows", model.max_rows),
        )

    def _declared_variance(self, kernel: Any, columns: Columns) -> float:
        """The bound on k(x, x) of a kernel that the caller vouches for."""
        if not self.model.kernel_is_psd:
            raise ValueError(
                "Expected a kernel that is proven to be positive semi-definite, got "
                f"{described(kernel)}; take another, or declare kernel_is_psd=True if you can "
                "prove it."
            )
        stationary = kernel.is_stationary()
        if self.model.kernel_bound is None and not stationary:
            raise ValueError(
                f"Expected kernel_bound, a public bound on k(x, x), for {described(kernel)}, got "
                "None; only stationary kernels have one of their own."
            )
        own = float(kernel.diag(columns.middle[None, :])[0]) if stationary else math.inf
        if not own > 0:
            raise ValueError(
                f"Expected a kernel with k(x, x) > 0, got {described(kernel)}; no process has a "
                "variance that is not positive."
            )
        if self.model.kernel_bound is None:
            return own * ROUND_UP
        return _validate.positive("kernel_bound", self.model.kernel_bound)
