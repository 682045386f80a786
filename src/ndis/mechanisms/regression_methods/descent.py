"""From what is released, in order, to coefficients: post-processing, run again from a release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP
from ndis.mechanisms.center import center_of
from ndis.mechanisms.regression_methods.curvature import Curvature
from ndis.mechanisms.regression_methods.histogram import NOBODY, Histogram, shifted
from ndis.tables import GRID_NORM, ExactSum
from ndis.tables.sums import (
    BINS,
    Pull,
)

# Shares of D^2, and of what is left for rounds.
CENTER, NORMS, HESSIAN, PRODUCTS, MOMENTS, PULLS = 0.03, 0.03, 0.2, 0.025, 0.06, 0.02
BEYOND = 0.05
MIN_ROUNDS, MAX_ROUNDS = 3, 20
# Noise of this share of the sampling variance is not worth a bias: a share of the residuals' own
# variance instead would be an error that does not fall with the number of rows.
_NEGLIGIBLE = 0.1
# Up to this share it may be where noise hides curvature. There rows are short in the metric, and so
# is what sampling does, while few rows far out, which no histogram shows, can pull all that way.
_BEARABLE = 0.5
# Rounds end early only where it is less.
_QUIET = 0.2
# Bins that do not stand out hide about so many deviations of their noise, all together.
_MISSED = 8.0
# Without an intercept the Hessian loses at most so many times more rows than is best for its bias:
# it also tells what columns do in place of a constant.
_THROUGH_ZERO = 3.0
# A clip rises if it cuts off so many times the noise that gradients with a larger one have.
_RISES = 2.0
# The bias of clips is thought to be so many deviations of the noise at least, so many where
# curvature is hidden, and so many at most.
_CLIPPED = (0.7, 1.5, 10.0)
# Rows beyond a clip count as far as they are more than so many deviations.
SURELY = 1.25
# After so many rounds rows are looked for that are spread thinly.
_LATER = 3
# Second moments in the metric are of rows cut to this many times their mean square, or to more if
# their noise stays below a share; and they are bought where they tell curvatures of this share.
_SPREADS, _MOST_CUT, PAYS = ((0.05, 5.0), (0.15, 12.0)), 400.0, 6.0
# With so many times more rows, the next gradient may be the last.
_MANY = 13.0
# Residuals count there up to so many standard deviations, however near to the centre rows are.
_FAR = 64.0
# The next round is the last after a step this short: squared, a share of the sampling variance.
_SETTLED = 0.25
# Looks are alike if predictions moved by less than this share of residuals between them.
_ALIKE = 0.2
# And so much, as a share of residuals, may predictions have moved since residuals were looked at.
_EXPLAINED = 0.5

# Ladders, half an octave between rungs; later clips are finer below the last one.
_CUTS, _MOST_SUMS, _MOST_PULLS = 24, 2**23, 2**12
_FIRST_CLIPS = 2.0 ** (6.0 - np.arange(32) / 2)
_LATER_CLIPS = 2.0 ** np.concatenate([4.0 - np.arange(8) / 2, -np.arange(16) / 4])


@dataclass(frozen=True)
class Setting:
    """What is public before anything is released."""

    n_features: int
    n_labels: int
    intercept: bool
    n_rounds: int | str = "auto"
    max_rounds: int = MAX_ROUNDS

    @property
    def shares(self) -> dict[str, float]:
        """What each part takes of D^2."""
        taken = {"center": CENTER} if self.intercept else {}
        taken |= {"norms": NORMS, "hessian": HESSIAN}
        return {**taken, "rounds": 1.0 - sum(taken.values())}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what is released."""
        d = self.n_features + 1
        most = self.max_rounds if isinstance(self.n_rounds, str) else self.n_rounds
        return {
            **({"center": (d,)} if self.intercept else {}),
            "norms": (BINS,),
            "hessian": (d, d),
            "products": (len(self.looks), BINS),
            "gradients": (most, d, self.n_labels),
            **({"metric": (d, d), "spread": (1 + self.n_labels, d, d)} if self.spreads else {}),
            **({"beyond": (len(self.counts),)} if self.counts else {}),
        }

    @property
    def looks(self) -> tuple[int, ...]:
        """Before these rounds stands a histogram of products."""
        return 0, 1, 3, 7, 15

    @property
    def counts(self) -> tuple[int, ...]:
        """With these histograms rows beyond the clip are counted, when predictions have settled."""
        return 3, 7

    @property
    def spreads(self) -> bool:
        """Whether second moments in the metric may be bought: they must not be too many."""
        d, K = self.n_features + 1, self.n_labels
        return (1 + K) * d**2 <= _MOST_SUMS and K * d <= _MOST_PULLS


def n_cuts(n_features: int) -> int:
    """How many cuts the ladder has: fewer where there are very many columns."""
    return int(min(max(_MOST_SUMS // n_features**2, 4), _CUTS))


@dataclass(frozen=True)
class Scales:
    """The noise of a plan, for sums that a row moves by one."""

    norms: float
    hessian: float
    rounds: float  # of one gradient, were it alone
    center: float = math.inf

    def look(self) -> float:
        """The noise of a histogram of products."""
        return self.rounds / math.sqrt(PRODUCTS) * ROUND_UP

    def beyond(self) -> float:
        """The noise of the number of rows beyond the last clip."""
        return self.rounds / math.sqrt(BEYOND) * ROUND_UP

    def spread(self) -> FloatArray:
        """The noise of second moments in the metric: of rows each time, and of their pulls."""
        return self.rounds / np.sqrt([MOMENTS, PULLS]) * ROUND_UP

    def gradient(self, taken: float) -> float:
        """That of all gradients together, of whose share so much is taken by other things."""
        return self.rounds / math.sqrt(1 - taken) * ROUND_UP


class Cuts(NamedTuple):
    """Bounds of second moments in the metric: of rows, of their pulls, of residuals.

    Rounding may add `rounded` to the length of rows, and as much times the bound of residuals to
    that of pulls.
    """

    rows: float
    pulls: float
    most: float
    rounded: float

    @property
    def moved(self) -> tuple[float, float]:
        """The roots of how far a row moves the moments of rows, and of pulls."""
        return self.rows + self.rounded, self.pulls + self.most * self.rounded


class Descent:
    """From what is released, in order, to coefficients: `cut`, `bend`, then `look` and `learn`.

    Parameters
    ----------
    setting : Setting
    noise : Scales
    norms : ndarray
        The noisy histogram of row norms, about the centre.
    center : ndarray of shape (n_features,), or 0.0
        The centre, see `center_of`.
    rows : float, optional
        About how many rows there are, where it is known better than from the norms.
    """

    curvature: Curvature
    seen: Histogram  # of products, at the last look
    # What a clip cuts off times that clip, as far as rows beyond one stood out; and the least clip
    # that is worth its noise then.
    _tail = _least_clip = 0.0
    label_square: float  # about the mean square of what predictions may explain
    residual_variance: float  # and of residuals
    # The Hessian may lose so many times more rows than is best for its bias: what it loses only
    # slows.
    more_cut = 10.0
    # How much a row counts in the Hessian, and how long a vector of labels is expected to be.
    weight = expected = bent = 1.0
    least_rounds = MIN_ROUNDS
    # The curvature with a constant, while columns are tried in its place.
    _untried: Curvature | None = None
    # After so many rounds a short step says that the next gradient may be the last.
    settling: float = 4
    # Rows beyond the clip are counted with so many times more rows than noise hides.
    counting = _MANY

    def __init__(
        self,
        setting: Setting,
        noise: Scales,
        norms: FloatArray,
        center: FloatArray | float = 0.0,
        rows: float | None = None,
    ) -> None:
        self.noise, self._d, self._K = noise, setting.n_features, setting.n_labels
        self._intercept, self._center = setting.intercept, center
        self._norms = Histogram(norms, 1.0, noise.norms, thinly=True)
        self.rows = rows = self._norms.total if rows is None else rows
        d, n_rounds = self._d, setting.n_rounds
        if isinstance(n_rounds, str):
            mu = math.sqrt(noise.norms**-2.0 + noise.hessian**-2.0 + noise.rounds**-2.0)
            paying = 0.0 if self._norms.empty else rows * mu / math.sqrt(d)
            n_rounds = int(min(max(paying, self.least_rounds), setting.max_rounds))
        self.n_rounds = n_rounds
        self.looks = [t for t in setting.looks if t < n_rounds]
        # In the metric a row's mean square is (d + 1)/n, and a curvature of one must not be hidden.
        self._reach = rows / (float(noise.spread()[0]) * (d + 1))
        reach = 0.0 if self._norms.empty else self._reach / math.sqrt(2 * (d + 1))
        self._many = reach > _MANY
        self.spreads = setting.spreads and n_rounds >= MIN_ROUNDS and reach > PAYS
        self.counts = [t for t in setting.counts if t < n_rounds and reach > self.counting]
        self.taken = PRODUCTS * len(self.looks) + (2 * MOMENTS + PULLS) * self.spreads
        self.taken += BEYOND * len(self.counts)
        self.gradient_scale = noise.gradient(self.taken)
        # Rows cut to this length: with s sqrt(2 d) rows cut, bias and noise would be equal.
        more = self.more_cut if setting.intercept else min(self.more_cut, _THROUGH_ZERO)
        most = min(more * noise.hessian * math.sqrt(2 * d), rows / 2)
        self._cut_at(0.5 if self._norms.empty else self._norms.above(most))
        self._square = self._norms.mean_square(self.cut)
        self.constant = math.sqrt(self._square / d)  # as long as a column
        self.theta = np.zeros((d + 1, self._K))
        self.points = np.zeros((0, d + 1, self._K))
        self.gradients, self.variances, self._clips = self.points, np.zeros(0), np.zeros(0)
        self.clip, self._looked_at, self._looked_top = math.inf, self.theta, 1.0
        self._looks: list[FloatArray] = []
        self._settled = self._done = False

    def _cut_at(self, wanted: float) -> None:
        self.rung = min(max(round(-2 * math.log2(wanted)), 0), n_cuts(self._d) - 1)
        self.cut = 2.0 ** (-self.rung / 2)

    def bend(self, hessian: FloatArray) -> None:
        """The noisy Hessian of cut rows."""
        scale = self.noise.hessian * (self.cut**2 + self.constant**2)
        self.rows, rows_error = self._rows_with(float(hessian[-1, -1]), scale)
        self._built = partial(
            Curvature,
            hessian,
            scale,
            self.constant,
            self.rows,
            rows_error,
            self._square,
            self._norms.lost(self.cut),
            self._intercept,
            self._center / GRID_NORM,
            self._norms.cut_off(self.cut),
        )
        self.curvature = self._built()
        # Few long rows, of which cutting leaves little, may undo what short ones have in common.
        clear = self.curvature.drift > self._norms.cut_off(self.cut, 1.0)
        if self.curvature.doubtful and clear and self.n_rounds > MIN_ROUNDS:
            self._untried = self.curvature
            self.curvature = self._built(stands_in=False, through_zero=True)

    def _rows_with(self, corner: float, scale: float) -> tuple[float, float]:
        """About how many rows there are, told by the Hessian's corner too; and the error of that.

        Rows in bins that do not stand out are missed by the histogram's total, and steps for a
        constant that counts less than half of the rows would swing ever wider.
        """
        norms = self._norms
        found = np.array([norms.total, norms.sum, corner / self.constant**2])
        errors = np.array([_MISSED, math.sqrt(BINS), scale / self.constant**2 / norms.scale])
        weights = errors**-2.0 / np.sum(errors**-2.0)
        error = norms.scale * float(np.sum(errors**-2.0)) ** -0.5
        return max(float(weights @ found), norms.total), error

    @property
    def top(self) -> float:
        """No row pulls more than this at the present coefficients: in half octaves, like bins."""
        octaves = math.ceil(2 * math.log2(self.longest)) / 2
        return self.curvature.longest * math.exp2(octaves)

    @property
    def longest(self) -> float:
        """No residual is longer than this at the present coefficients."""
        away = np.linalg.norm(self.theta[:-1]) * (1.0 + np.linalg.norm(self.curvature.mean))
        return 1.0 + float(away + np.linalg.norm(self.theta[-1]))

    def clips(self, looking: bool) -> FloatArray:
        """The clips among which the next gradient's is."""
        if not looking:
            return np.array([self.clip])
        if math.isinf(self.clip):
            return np.asarray(_FIRST_CLIPS * self._usual)
        return np.asarray(_LATER_CLIPS * self.clip)

    @property
    def _usual(self) -> float:
        """About how much a row pulls before anything is explained."""
        return math.sqrt(self.curvature.lever) * self.expected

    @property
    def dispersion(self) -> float:
        """The variance of a gradient by sampling, in units of the Hessian."""
        return self.residual_variance / self.weight

    def _explicable(self, square: float) -> float:
        """What predictions may explain of labels of this mean square."""
        return square

    @property
    def clipped(self) -> float:
        """By which factor clipping adds to the variance of the noise of all gradients together."""
        return float(self.clipped_by(np.zeros(1))[0])

    def clipped_by(self, unseen: FloatArray) -> FloatArray:
        """The same along directions where noise hides such a share of the curvature.

        What is cut off is told by the histogram, beyond what is seen too, and pulls in any
        direction. Where curvature is hidden, so are few rows far out that all pull there.
        """
        noise = math.sqrt(self._K * (self._d + 1) / float(np.sum(1.0 / self.variances)))
        least, far, most = _CLIPPED
        lost = max(self.seen.lost_beyond(self.clip), self._tail / self.clip)
        bias = np.clip(lost / noise, least, most)
        return np.asarray(1.0 + np.maximum(far * np.minimum(unseen, 1.0), bias) ** 2)

    def _best_clip(self, seen: Histogram) -> float:
        """The clip that costs as much bias as noise, if all clipped rows pull the same way."""
        if seen.empty:
            return 0.5 * self._usual
        return seen.quantile(self.gradient_scale * math.sqrt((self._d + 1) * self._K))

    def _most_clip(self, seen: Histogram, quiet: float) -> float:
        """The largest clip worth its noise, given one whose noise is negligible.

        Beyond all rows, wherever they move, a larger clip has more noise and no less bias.
        """
        return min(quiet, seen.quantile(NOBODY) * (1.0 + self._moving))

    def _rises(self, seen: Histogram, wanted: float) -> bool:
        """Whether the clip cuts off more than the noise that gradients with a larger one have."""
        left = self.n_rounds - len(self.points)
        noise = self.gradient_scale * math.sqrt(self.n_rounds / left) * wanted
        return seen.kept(self.clip)[1] > _RISES * noise * math.sqrt((self._d + 1) * self._K)

    @property
    def _bearable(self) -> float:
        """The noise of gradients that is not worth a bias, as a share of the sampling variance."""
        if not self._many:  # noise is what errs most
            return _NEGLIGIBLE
        weak = float(np.min((self.curvature.values * self.curvature.metric**2)[: self._d]))
        return min(_NEGLIGIBLE / max(weak**2, 1e-9), _BEARABLE)

    @property
    def _moving(self) -> float:
        """How far predictions may move on, as a share of residuals: as far as in the last step."""
        return self._moved_since(self.points[-1]) if len(self.points) else 1.0

    def _moved_since(self, theta: FloatArray) -> float:
        """How far predictions are from those of other coefficients, as a share of residuals."""
        moved = self.curvature.values[:, None] * (self.theta - theta) ** 2
        return math.sqrt(float(np.sum(moved)) / (self.rows * self.dispersion))

    def pull(self, bend: Curvature | None = None) -> Pull:
        """What measures rows at the present coefficients, in another metric if there is one."""
        if bend is None:
            return self.curvature.pull(self.theta)
        turn = bend.vectors.T @ self.curvature.vectors
        return bend.pull(np.vstack([turn @ self.theta[:-1], self.theta[-1:]]))

    def look(self, products: FloatArray) -> int:
        """A noisy histogram of products: the rung of a clip that costs as much bias as noise.

        That is, if all clipped rows pulled the same way.
        """
        first, ladder = math.isinf(self.clip), self.clips(looking=True)
        products, noise = self._seen_together(products)
        lever, K = self.curvature.lever, self._K
        thinly = len(self.points) >= _LATER  # before, a clip that is too large costs most
        seen = Histogram(products, self.top, noise, self._usual, thinly)
        if first:
            square = 0.25 * self.expected**2
            if not seen.empty:
                square = min(seen.mean_square(self.top) / lever, 1.0)
            self.label_square, self.residual_variance = self._explicable(square), square
            self._unit = (
                self.label_square / self._square / K
            )  # variance if the columns explain everything
        wanted = self._best_clip(seen) if first else self.clip
        if not seen.empty:
            self.residual_variance = seen.mean_square(self.top) / lever
            found = self._best_clip(seen)
            least = math.sqrt(self._bearable * self.dispersion / K)
            wanted = max(found, self._most_clip(seen, least / self.gradient_scale))
            if wanted > self.clip and not self._rises(seen, wanted):
                wanted = self.clip
        self.seen = seen
        return self._take(max(wanted, self._least_clip), ladder)

    def _take(self, wanted: float, ladder: FloatArray) -> int:
        """The rung of the clip that is wanted, and what it cuts off less than those before it."""
        rung = max(int(np.count_nonzero(ladder >= wanted)) - 1, 0)
        self.clip = float(ladder[rung])
        self.kept, self.lost = self.seen.kept(self.clip)
        # Gradients with a smaller clip have a bias that the next ones do not share.
        lost = [max(self._cut_off(clip) - self._cut_off(self.clip), 0.0) for clip in self._clips]
        self.variances = self.variances + self._spread_out(np.array(lost) / self.bent)
        return rung

    def _cut_off(self, clip: float) -> float:
        """The sum of what a clip cuts off, as far as it is seen."""
        return max(self.seen.kept(clip)[1], self._tail / clip)

    def rows_beyond(self, products: ExactSum) -> ExactSum:
        """How many rows pull more than the clip: those of whole bins."""
        return products[: max(math.floor(2 * math.log2(self.top / self.clip)), 0)].total()

    def look_beyond(self, beyond: float, ladder: FloatArray) -> int:
        """The rung of a clip that rises where many rows are beyond it, spread over many bins.

        If N rows exceed a clip c, and tails are as heavy as second moments allow, N/f^2 exceed f c,
        by as much on average. That bias of N c/f, where all pull the same way, is as large as noise
        of s f c if f^2 = N/s.
        """
        rows = beyond - SURELY * self.noise.beyond()
        if rows > 0:
            self._tail = rows * self.clip**2
            noise = self.gradient_scale * math.sqrt((self._d + 1) * self._K)
            self._least_clip = max(self._least_clip, math.sqrt(self._tail / noise))
        return self._take(max(self.clip, self._least_clip), ladder)

    def _spread_out(self, length: FloatArray) -> FloatArray:
        """The square of a length, for each direction and label alike."""
        return length**2 / ((self._d + 1) * self._K)

    def _seen_together(self, products: FloatArray) -> tuple[FloatArray, float]:
        """The mean of this look and those before it, if predictions are still alike; and its noise.

        What is noise in one look is hardly so in the next, and few rows far out stand out in all.
        """
        moved = self._moved_since(self._looked_at) if self._looks else math.inf
        shift = 2.0 * math.log2(self.top / self._looked_top) if self._looks else 0.0
        alike = moved < _ALIKE and abs(shift - round(shift)) < _ALIKE
        before = self._looks if alike else []
        self._looks = [shifted(each, round(shift)) for each in before] + [products]
        self._looked_at, self._looked_top = self.theta, self.top
        return np.mean(self._looks, axis=0), self.noise.look() / math.sqrt(len(self._looks))

    def cuts(self, bend: Curvature) -> Cuts:
        """Where rows z, and z r, are cut for their second moments in a metric."""
        wide, wider = (min(max(share * self._reach, least), _MOST_CUT) for share, least in _SPREADS)
        square, residual = bend.lever, math.sqrt(self.residual_variance)
        return Cuts(
            math.sqrt(wide * square * self.weight),
            math.sqrt(wider * square) * residual,
            min(self.longest, _FAR * residual),
            bend.rounded * math.sqrt(self._K),
        )

    @property
    def last(self) -> bool:
        """Whether the next gradient is the last: there are no more, or more would change little."""
        return len(self.points) >= self.n_rounds - 1 or self._settled

    @property
    def done(self) -> bool:
        """Whether there was a last one."""
        return self._done

    @property
    def scale(self) -> float:
        """The noise of the next gradient that a row moves by one; the last has all that is left."""
        left = self.n_rounds - len(self.points) if self.last else 1
        return self.gradient_scale * math.sqrt(self.n_rounds / left) * ROUND_UP

    def learn(self, gradient: FloatArray) -> None:
        """A noisy clipped gradient, as a sum of z r^T: all that is known of it here, and a step."""
        self._done = self.last
        bend = self._sharpened() if self._done and self.spreads else self.curvature
        along = np.vstack([bend.vectors.T @ gradient[:-1], gradient[-1:]])
        along = along / bend.widths[:, None] / self.bent
        self.variances = np.append(self.variances, (self.scale * self.clip / self.bent) ** 2)
        self._clips = np.append(self._clips, self.clip)
        self.points = np.concatenate([self.points, self.theta[None]])
        self.gradients = np.concatenate([self.gradients, along[None]])
        if self._untried is not None and len(self.points) == 2:
            self._judge(self._untried)
            bend = self.curvature
        released = self.points, self.gradients, self.variances
        here, variance = bend.combine(*released, self.theta)
        sampling, square = self.dispersion / self._K, self.label_square / self._K
        self.theta = bend.step(self.theta, here, variance, sampling, self._unit, square)
        if self._untried is not None:
            self.theta[-1] = 0.0
        enough = self._many and len(self.points) >= self.settling
        self._settled = enough and self._quiet and self._step_is_short

    def _judge(self, otherwise: Curvature) -> None:
        """Whether columns, which moved alone, took most of what a constant would explain."""
        before, now = (float(np.sum(each[-1] ** 2)) for each in self.gradients)
        stand_in = now < before / 2
        self._untried = None
        self._turn_to(self._built(stands_in=True) if stand_in else otherwise)

    def _turn_to(self, bend: Curvature) -> None:
        """All that is known, about another centre and along the eigenvectors there.

        Noise of gradients there is at most what it is taken for.
        """
        old, self.curvature = self.curvature, bend
        turn, away = bend.vectors.T @ old.vectors, old.mean - bend.mean
        more = away @ bend.vectors

        def turned(theta: FloatArray) -> FloatArray:
            slopes = old.vectors @ theta[:-1]
            return np.vstack([turn @ theta[:-1], theta[-1:] - away @ slopes])

        self.theta = turned(self.theta)
        self.points = np.array([turned(each) for each in self.points])
        self.gradients = np.array(
            [np.vstack([turn @ g[:-1] + np.outer(more, g[-1]), g[-1:]]) for g in self.gradients]
        )
        self.gradients[:, -1] *= bend.constant
        noise = turn**2 @ old.widths[:-1] ** -2 + (more / old.widths[-1]) ** 2 * bend.constant
        grown = float(np.max(noise * bend.widths[:-1] ** 2))
        self.variances = self.variances * max(grown, 1.0)
        self._looks, self._looked_at = [], self.theta

    @property
    def _quiet(self) -> bool:
        """Whether noise of all gradients together is small beside sampling: clips make it so."""
        return (self.gradient_scale * self.clip) ** 2 * self._K < _QUIET * self.dispersion

    @property
    def _step_is_short(self) -> bool:
        """Whether the last step was within what sampling does to the coefficients."""
        moved = (self.theta - self.points[-1]) / self.curvature.widths[:, None]
        short = float(np.sum(moved**2)) < _SETTLED * self.dispersion * len(moved)
        # Where steps since the last look explain residuals, these were no sampling error.
        return short and self._moved_since(self._looked_at) < _EXPLAINED

    def read_moments(self, moments: FloatArray) -> None:
        """Noisy second moments of rows in the metric, which make a better one."""
        bend = self.curvature
        noise = float(self.noise.spread()[0]) * self.cuts(bend).moved[0] ** 2
        along = bend.vectors.T @ moments[:-1, :-1] @ bend.vectors
        self.sharp = bend.sharpened(along, noise)

    def read_spread(self, spread: FloatArray, cuts: Cuts) -> None:
        """The same in the better metric, and those of rows times each residual."""
        turn = np.eye(self._d + 1)
        turn[:-1, :-1] = self.sharp.vectors
        self.spread = turn.T @ spread @ turn
        self.spread_scales = self.noise.spread() * np.square(cuts.moved)

    @property
    def turn(self) -> FloatArray:
        """From eigenvectors of the Hessian to those of the second moments."""
        return np.asarray(self.curvature.vectors.T @ self.sharp.vectors)

    def _sharpened(self) -> Curvature:
        """The Hessian with what second moments in their metric tell of its eigenvalues."""
        bend, d = copy(self.curvature), self._d
        back = self.turn / self.sharp.metric[:d]
        moments, variances, _ = (part[:d, :d] for part in self.joined())
        values = np.einsum("ij,jk,ik->i", back, moments, back)
        bend.values = np.append(np.maximum(values, 0.0), bend.values[d:])
        bend.rho = np.sqrt(np.einsum("ij,jk,ik->i", back**2, variances, back**2))
        return bend

    def joined(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Two noisy looks at the rows in their metric, put together entry by entry.

        With variances of both together, and of the Hessian's alone.

        The Hessian knows its long eigenvectors best, and is wrong by a share of itself where its
        rows were cut or weighted; the moments were bought in the metric.
        """
        bend, noise, turn = self.curvature, self.spread_scales[0], self.turn
        d = len(bend.metric) - (not bend.constant)
        metric, share = self.sharp.metric[:d], math.hypot(bend.doubt, self.growth)
        own, seen = np.zeros((2, d, d))
        scales = np.full((d, d), bend.scale**2)
        n = self._d
        own[:n, :n] = (turn.T * bend.noisy_values) @ turn
        seen[:n, :n] = (turn.T * bend.values[:n]) @ turn
        if bend.constant:
            own[-1, -1] = seen[-1, -1] = bend.values[-1]
            scales[-1], scales[:, -1] = 2 * bend.row_errors, 2 * bend.row_errors
            scales[-1, -1] = bend.row_errors[-1]
        wrong = np.diag(seen) * metric**2
        first = scales * np.outer(metric, metric) ** 2 + share**2 * np.outer(wrong, wrong)
        variances = 1 / (1 / noise**2 + 1 / first)
        own = own * np.outer(metric, metric)
        together = variances * (self.spread[0][:d, :d] / noise**2 + own / first)
        return together, variances, first

    def known(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The gradient at some coefficients as far as it is known, and its variance."""
        return self.curvature.combine(self.points, self.gradients, self.variances, theta)

    @property
    def counted(self) -> tuple[float, float]:
        """About how many rows there are, and the noise of that: of the bins that are added up."""
        return self._norms.total, self._norms.scale * math.sqrt(BINS)

    @property
    def growth(self) -> float:
        """By which share the Hessian of whole rows is larger than that of cut ones."""
        return max(self._norms.mean_square(1.0) / self._square - 1.0, 0.0)

    @classmethod
    def again(cls, setting: Setting, noise: Scales, released: Mapping[str, FloatArray]) -> Descent:
        """All of it again, from a release."""
        center = center_of(released["center"], noise.center) if setting.intercept else 0.0
        descent = cls(setting, noise, released["norms"], center)
        descent.bend(released["hessian"])
        while not descent.done:
            descent.repeat(released)
        return descent

    def repeat(self, released: Mapping[str, FloatArray]) -> None:
        """A round again, from a release."""
        t, cuts = len(self.points), None
        if self.spreads and self.last:
            self.read_moments(released["metric"])
            cuts = self.cuts(self.sharp)
        if t in self.looks:
            ladder = self.clips(looking=True)
            self.look(released["products"][self.looks.index(t)])
            if t in self.counts:
                self.look_beyond(float(released["beyond"][self.counts.index(t)]), ladder)
        if cuts is not None:
            self.read_spread(released["spread"], cuts)
        self.learn(released["gradients"][t])
