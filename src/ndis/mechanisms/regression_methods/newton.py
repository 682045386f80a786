"""Newton's method on noisy sums: clipped gradients in the metric of a noisy Hessian.

Rows x have norm at most 1 and labels y too (grid units over 2^20). Everything that reads rows is a
sum with Gaussian noise, and the squared shifts of all of them add up to the total D^2:

    center     sum of (x, c), if there is an intercept            CENTER D^2
    norms      a histogram of |x - m|, m the centre               NORMS D^2
    hessian    sum of (x', c)(x', c)^T, x' = x - m cut to norm L  HESSIAN D^2
    products   histograms of q = |z| |r| at a few rounds          PRODUCTS of the rest each
    beyond     how many rows a clip cuts, if n is large enough    BEYOND of the rest each
    metric     a sum of z z^T, if n is large enough               MOMENTS of the rest
    spread     sums of z z^T and r^2 z z^T, z in its metric       MOMENTS, PULLS of the rest
    gradients  sum of z r^T min(1, clip/q), T of them             the rest, in equal parts
               or the last takes what is left, as soon as others would change little

z is the row in the metric of the Hessian, r its residuals. In the metric of their own second
moments, rows are about equally long in directions too that noise hides from the Hessian. Limits are
rarely centred on the rows: about their own centre these are short, and the Hessian needs the less
noise. How many rounds there are, and so how many histograms, is decided by the first histogram
alone. All else is post-processing: `Descent` needs nothing but what was released, and can be run
again from a release.

A cut or a clip is chosen from a histogram. On a cluster it costs no pass of its own: the sums are
made for a whole ladder of them beside the histogram, and only the chosen one is released. Elsewhere
a pass costs less than a ladder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP
from ndis.mechanisms.center import center_of, draw_center
from ndis.mechanisms.regression_methods.curvature import Curvature
from ndis.mechanisms.regression_methods.descent import Cuts, Descent, Scales, Setting, n_cuts
from ndis.randomness import add_noise, add_symmetric_noise
from ndis.tables import GRID_NORM, ExactSum, Table
from ndis.tables.sums import (
    CutGram,
    CutMoments,
    CutNorms,
    PullCounts,
    PullGrams,
    PullSum,
    Together,
    totals,
)


def cut_gram(descent: Descent, cut: Mapping[str, ExactSum], rng: np.random.Generator) -> FloatArray:
    """The noisy Hessian of rows cut to the length that was found, and a constant.

    A cut row has norm 2^20 at most, in the matrix and in the sums, so that with a whole number c it
    moves the whole by 2^40 + c^2 at most.
    """
    unit = GRID_NORM / descent.cut
    last = math.floor(descent.constant * unit)
    gram = augmented(cut, last)
    del cut  # matrices, which nobody else holds
    noise = descent.noise.hessian * (float(GRID_NORM) ** 2 + float(last) ** 2) * ROUND_UP
    noisy = add_symmetric_noise(gram, noise, rng)
    noisy /= unit**2
    return noisy


def moments_of(
    table: Table, studied: Mapping[str, ExactSum], rung: int, center: FloatArray | None
) -> Mapping[str, ExactSum]:
    """The moments of rows cut to the length that was found, from the ladder or a further pass."""
    if "grams" not in studied:
        return table.sum(CutGram(rung, center), what="Reading moments")
    sums, gram = studied["sums"][rung], studied["grams"][rung]
    return {"count": studied["count"], "sums": sums, "gram": gram}


def augmented(cut: Mapping[str, ExactSum], last: int) -> ExactSum:
    """The exact sum of (u, c)(u, c)^T."""
    by = np.array([last])
    side, corner = cut["sums"].times(by), cut["count"].times(by).times(by)
    return ExactSum.block([[cut["gram"], side], [side.T, corner]])


def clipped_gradient(
    descent: Descent, total: ExactSum, unit: float, rng: np.random.Generator
) -> FloatArray:
    """A noisy gradient, as a sum of z r^T.

    Sums of (k, 1) w^T are exact integers. Their product with the whitener is too, and moves with a
    row by clip unit_z unit_w at most. It is rounded down to a row's 27 to 40 bits, which adds at
    most one to each entry.
    """
    whitener, unit_z = descent.curvature.whitener
    moved = descent.clip * unit * unit_z * ROUND_UP
    digits = max(-((40 - math.frexp(moved)[1]) // 13), 0)
    product = total.multiplied(whitener, digits)
    most = math.ldexp(moved, -13 * digits) + math.sqrt(product.high.size)
    noisy = add_noise(product, descent.scale * most * ROUND_UP, rng)
    return np.asarray(np.ldexp(noisy, 13 * digits) / (unit * unit_z))


def draw(
    table: Table,
    studied: Mapping[str, ExactSum],
    setting: Setting,
    noise: Scales,
    rng: np.random.Generator,
) -> tuple[Descent, dict[str, FloatArray]]:
    """Everything that is released, in order, and where it leads."""
    released = {name: np.zeros(shape) for name, shape in setting.shapes.items()}
    center = np.zeros(setting.n_features)
    if setting.intercept:
        released["center"] = draw_center(studied, noise.center, rng)
        center = center_of(released["center"], noise.center)
        studied = read_norms(table, center)
    released["norms"] = add_noise(studied["norms"], noise.norms, rng)
    descent = Descent(setting, noise, released["norms"], center)
    released["hessian"] = cut_gram(descent, moments_of(table, studied, descent.rung, center), rng)
    descent.bend(released["hessian"])
    while not descent.done:
        draw_round(table, descent, released, rng)
    return descent, released


def draw_round(
    table: Table,
    descent: Descent,
    released: dict[str, FloatArray],
    rng: np.random.Generator,
) -> None:
    """A round: everything that is released in it, and what is learned from that."""
    t, rung, K = len(descent.points), 0, descent.theta.shape[1]
    looking = t in descent.looks
    cuts, spread = None, None
    if descent.spreads and descent.last:
        released["metric"] = draw_moments(table, descent, rng)
        descent.read_moments(released["metric"])
        cuts = descent.cuts(descent.sharp)
        spread = spread_of(descent, cuts)
    if looking and table.here:  # a further pass costs less than a ladder of gradients
        counts = table.sum(PullCounts(descent.pull(), descent.top), what="Reading for a clip")
        draw_look(descent, counts["products"], released, rng)
    pulls = gradients_of(descent, looking and not table.here)
    both = pulls if spread is None else Together((pulls, spread))
    sums = table.sum(both, what="Reading for a gradient")
    if looking and not table.here:
        rung = draw_look(descent, sums["products"], released, rng)
    total = sums["gradient"][:, rung * K : (rung + 1) * K]
    gradient = clipped_gradient(descent, total, pulls.unit, rng)
    released["gradients"][t] = gradient
    if cuts is not None:
        released["spread"] = noisy_spread(descent, sums["spread"], cuts, rng)
        descent.read_spread(released["spread"], cuts)
    descent.learn(gradient)


def draw_look(
    descent: Descent,
    exact: ExactSum,
    released: dict[str, FloatArray],
    rng: np.random.Generator,
) -> int:
    """A noisy histogram of products, and how many are beyond the clip: the rung of a new clip."""
    t, ladder = len(descent.points), descent.clips(looking=True)
    index = descent.looks.index(t)
    released["products"][index] = add_noise(exact, descent.noise.look(), rng)
    rung = descent.look(released["products"][index])
    if t in descent.counts:
        beyond = add_noise(descent.rows_beyond(exact), descent.noise.beyond(), rng)
        released["beyond"][descent.counts.index(t)] = beyond[0]
        rung = descent.look_beyond(float(beyond[0]), ladder)
    return rung


def gradients_of(descent: Descent, looking: bool) -> PullSum:
    """What the next pass sums: a gradient, or a ladder of them and the histogram that chooses."""
    return PullSum(
        descent.pull(),
        tuple(map(float, descent.clips(looking))),
        GRID_NORM / descent.longest,
        descent.top if looking else None,
    )


def rows_of(descent: Descent) -> PullGrams:
    """What sums second moments of rows in the metric of the Hessian."""
    return PullGrams(descent.pull(), descent.cuts(descent.curvature).rows)


def spread_of(descent: Descent, cuts: Cuts) -> PullGrams:
    """What sums them, and those of pulls, in the metric of second moments."""
    return PullGrams(descent.pull(descent.sharp), cuts.rows, cuts.pulls, cuts.most)


def draw_moments(table: Table, descent: Descent, rng: np.random.Generator) -> FloatArray:
    """Noisy second moments of rows in the metric of the Hessian."""
    bend, noise = descent.curvature, float(descent.noise.spread()[0])
    exact = table.sum(rows_of(descent), what="Reading for second moments")["spread"][0]
    return noisy_moments(exact, bend, descent.cuts(bend).moved[0], 1.0, noise, len(exact.high), rng)


def noisy_spread(
    descent: Descent, exact: ExactSum, cuts: Cuts, rng: np.random.Generator
) -> FloatArray:
    """Noisy second moments of rows, and of their pulls, in the metric of second moments."""
    (of_rows, of_pulls), (n, d, _), noise = cuts.moved, exact.high.shape, descent.noise.spread()
    noisy = []
    for k in range(n):
        length, unit = (of_pulls / cuts.most, cuts.most) if k else (of_rows, 1.0)
        own = noise[min(k, 1)], math.sqrt(n) * d
        noisy.append(noisy_moments(exact[k], descent.sharp, length, unit, *own, rng))
    return np.asarray(noisy)


def noisy_moments(
    exact: ExactSum,
    bend: Curvature,
    length: float,
    unit: float,
    noise: float,
    rounding: float,
    rng: np.random.Generator,
) -> FloatArray:
    """A matrix in a metric, noisy, of rows of at most some length; see `Curvature.spreader`.

    Exact sums are rounded down to the last 27 to 40 bits of a row: by one at most each, and by
    `rounding` as a whole.
    """
    spreader, whole = bend.spreader
    moved = (length * whole) ** 2 * ROUND_UP
    digits = max(-((40 - math.frexp(moved)[1]) // 13), 0)
    bound = math.ldexp(moved, -13 * digits) + rounding
    own = add_symmetric_noise(
        exact.sandwiched(spreader, digits), float(noise) * bound * ROUND_UP, rng
    )
    np.ldexp(own, 13 * digits, out=own)
    own *= (unit / whole) ** 2
    return own


def study(table: Table, intercept: bool) -> dict[str, ExactSum]:
    """Exact sums, or moments without an intercept: the pass in which all that can fail fails."""
    if intercept:
        return table.sum(totals, again=True, what="Reading the table")
    return read_norms(table, None)


def read_norms(table: Table, center: FloatArray | None) -> dict[str, ExactSum]:
    """Norms; on a cluster, where a pass costs more than a matrix, with moments for all cuts."""
    ladder = CutMoments(n_cuts(len(table.rows.features.names)), center)
    return table.sum(CutNorms(center) if table.here else ladder, again=True, what="Reading norms")
