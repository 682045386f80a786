"""The second moments of a table by a random projection: Blocki et al. 2012, with its least noise.

Columns N(0, sum z z^T + w^2 I) are released. Under the relation "row-shift" a row moves by a vector
of norm at most one, and the worst pair does not depend on how long rows are; under "add-remove" a
row comes or goes. docs/proofs/graph-and-covariance.md has the proofs.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ndis import Profile, QuadraticLoss
from ndis.calibration import ROUND_UP
from ndis.loss import PrivacyLoss
from ndis.mechanisms import (
    EstimatorMethod,
    Forecast,
    Part,
    Plan,
    Run,
    Target,
    chosen_noise,
    mean_shift,
    noise_of,
)
from ndis.mechanisms.moments import row_shift
from ndis.randomness import add_noise, draw_sketch, least_ridge
from ndis.tables import GRID_NORM, MOST_ROWS, ExactSum, Rows, Table, leverages
from ndis_papers import _validate
from ndis_papers._validate import FloatArray


def sketch_loss(
    weight: float, length: float, shift: float | None, n_components: int
) -> QuadraticLoss:
    """The worst pair of a sketch with columns N(0, sum z z^T + weight^2 I), row present first.

    Parameters
    ----------
    weight : float
    length : float
        No row is longer.
    shift : float or None
        How far a row may move; None if it comes or goes.
    n_components : int

    Examples
    --------
    >>> from ndis_papers.methods.covariance import sketch_loss
    >>> sketch_loss(4.0, 2.0, None, 10).excess
    array([0.25])
    >>> lam = 1.0 + sketch_loss(2.0, 1e9, 1.0, 10).excess.max()
    >>> f"{lam + 1 / lam:.6f}"
    '2.250000'
    """
    longest = length / weight
    if shift is None:
        return QuadraticLoss(longest**2, 0.0, n_components)
    b = shift / weight
    worst = 0.5 * b + math.sqrt(1.0 + 0.25 * b * b)
    if longest >= worst:
        excess = b * worst
    else:
        shortest = max(longest - b, 0.0)
        excess = (longest - shortest) * (longest + shortest) / (1.0 + shortest**2)
    return QuadraticLoss([excess, -excess], 0.0, n_components)


@functools.lru_cache(maxsize=256)
def least_weight(
    target: Target,
    length: float,
    shift: float | None,
    n_components: int,
    beside: tuple[Part, ...],
) -> tuple[float, tuple[Part, ...]]:
    """The least noise of a sketch, and what is released beside it with its noise."""
    assert target.epsilon is not None
    bought, _ = mean_shift(target, beside)
    more = mean_shift(target, beside, noise_of(bought))[1] if beside else None

    def family(weight: float) -> PrivacyLoss:
        loss = Profile.both(sketch_loss(weight, length, shift, n_components))
        return loss if more is None else loss + more

    # Of the order of the weight that Blocki et al. (2012) publish, which is 300 times too large.
    size = length if shift is None else min(length, shift)
    guess = math.sqrt(n_components) * math.log(16.0 * n_components / target.delta)
    guess /= max(target.epsilon, 1e-2)
    weight, _ = target.least_noise(family, start=0.1 * size * guess)
    return weight, bought


# -- the method of PrivateCovariance ---------------------------------------------------------------


class Sketching(EstimatorMethod):
    """A sketch of the rows, with the sums and the number of rows where they are asked for."""

    def _plan(self, rows: Rows) -> Plan:
        model, recipe = self.model, rows.features
        if model.buys_norm:
            raise ValueError(
                "Expected radius='declared' for a sketch, got 'private'; buy it with noise on the "
                "matrix."
            )
        target, d = self.target(), len(recipe.names)
        r = _validate.count("n_components", model.n_components)
        beside = tuple(part for part in model.parts(recipe) if part.name != "matrix")
        length, reach = recipe.norm, row_shift(recipe) if model.shifts else None
        # With less than this, doubles could not tell the noise from the matrix.
        n_rows = MOST_ROWS if model.n_rows is None else _validate.count("n_rows", model.n_rows)
        least = math.sqrt(least_ridge(n_rows * length**2, d)) * ROUND_UP
        if model.noise_scale is None:
            weight, beside = least_weight(target, length, reach, r, beside)
            weight = max(weight, least)
        else:
            first, *others = chosen_noise(model.noise_scale, [Part("sketch"), *beside])
            weight, beside = first.noise, tuple(others)
            if weight < least:
                raise ValueError(
                    f"Expected noise_scale['sketch'] of at least {least:.3g}, got "
                    f"{weight:.3g}; raise it, or declare n_rows."
                )
        loss: PrivacyLoss = Profile.both(sketch_loss(weight, length, reach, r))
        if beside:
            loss = loss + mean_shift(target, beside, noise_of(beside))[1]
        known: dict[str, tuple[int, ...]] = {"sums": (d,), "count": ()}
        return Plan(
            "sketch",
            (Part("sketch", noise=weight), *beside),
            target.promise(loss, model.relation),
            {"sketch": (d, r), **{str(part.name): known[str(part.name)] for part in beside}},
            "A sketch was asked for.",
        )

    def _study(self, data: Table, plan: Plan) -> dict[str, ExactSum]:
        studied = data.moments
        self.check_rows(data.n_rows)
        return studied

    def _draw(
        self,
        studied: dict[str, ExactSum],
        plan: Plan,
        data: Table,
        rng: np.random.Generator,
    ) -> dict[str, FloatArray]:
        noise, unit = plan.noise_scale, data.rows.features.norm / GRID_NORM
        grid = GRID_NORM / data.rows.features.norm  # grid units of the longest row
        ridge = (grid * noise["sketch"]) ** 2 * ROUND_UP
        columns = draw_sketch(studied["gram"], ridge, plan.shapes["sketch"][1], rng)
        arrays = {"sketch": unit * columns}
        if "sums" in noise:
            arrays["sums"] = unit * add_noise(studied["sums"], grid * noise["sums"], rng)
        if "count" in noise:
            arrays["count"] = add_noise(studied["count"], noise["count"], rng)
        return arrays

    def removal_losses(self, run: Run) -> QuadraticLoss:
        """The loss of a column of the sketch for every row, present first."""
        unit = run.data.rows.features.norm / GRID_NORM
        _, leverage = leverages(run.data, (run.plan.noise_scale["sketch"] / unit) ** 2)
        return QuadraticLoss.from_leverage(np.minimum(leverage, 1.0))

    def _forecast(self, rows: Rows, plan: Plan, n_rows: int | None) -> Forecast:
        n, length = _validate.count("n_rows", n_rows), rows.features.norm
        noise, widths = plan.noise_scale, (GRID_NORM / (length * rows.features.scale)) ** 2
        share = math.sqrt(2.0 / self.model.n_components)
        low = share * noise["sketch"] ** 2
        more = 2.0 * length * noise.get("sums", 0.0), length**2 * noise.get("count", 0.0)
        high = math.hypot(low + share * n * length**2, *more)
        ends = low * float(widths.min()) / n, high * float(widths.max()) / n
        return Forecast(
            {"standard error of a variance": ends},
            (f"{n} rows", "a mean and a variance between zero and the bound on the rows"),
        )
