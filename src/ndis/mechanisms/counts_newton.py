"""Newton's method for counts and amounts: least squares' noisy sums, with a log link.

The expected label is m = e^(x theta), times an exposure where there is one. Labels y are in units
of their bound. Everything that reads rows is a sum with Gaussian noise, as in
`regression_methods.newton`:

    centre     sum of (x, c)                                             CENTRE D^2
    labels     a histogram of y, which says where to begin               LABELS D^2
    exposure   the sum of exposures, if there are any                    EXPOSURE D^2
    norms      a histogram of the lengths of rows u                      NORMS D^2
    hessian    sum of u u^T, u = sqrt(y) (x - m, c) cut to norm L        HESSIAN D^2
    products, spread, gradients as for least squares, with residuals y - m

The Hessian at the best coefficients is sum of m x x^T, and labels are right on average: weighted by
labels, it is known before any coefficient is. Steps with it are too short where labels are above
what is predicted, never far too long. (Amounts weigh the same in it, whatever they are.) No sum
knows a bound on e^(x theta): residuals are clipped, and a label is at most its bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import gammainc

from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP
from ndis.mechanisms.center import center_of, count_noise, count_of, draw_center
from ndis.mechanisms.regression_methods import newton
from ndis.mechanisms.regression_methods.curvature import Curvature
from ndis.mechanisms.regression_methods.descent import PAYS, Descent, Scales, Setting, n_cuts
from ndis.mechanisms.regression_methods.histogram import Histogram
from ndis.randomness import add_noise, add_symmetric_noise
from ndis.tables import GRID_NORM, ExactSum, Table, Together
from ndis.tables.sums import (
    BINS,
    CutHessian,
    CutHessians,
    HessianNorms,
    LogLink,
    Pull,
    tally_labels,
    total_exposure,
)

# Shares of D^2.
LABELS, EXPOSURE = 0.1, 0.01
# The constant beside rows of norm one, times the root of the number of columns.
_CONSTANT = 0.5
# About how long rows are.
_HALFWAY = 0.5
# How wrong the Hessian may be, everywhere, and as far as an exponential leaves its tangent.
_DOUBT, _BENDING = 0.3, 0.1
# A round moves predictions by at most this in mean square, and for the longest of rows.
_STEP, _LONG_STEP = 1.0, 2.0
# Rows that pull so many times more than usual are counted together.
_FAR = 32.0
# Laws of labels: means and shapes of those above zero, shares of zeros. Their means are about this
# (a power of two), so widely; a bin has a share that no law explains, and means are wrong by this.
_MEANS, _SHAPES = 2.0 ** np.arange(-9.0, 0.1, 0.5), 2.0 ** np.arange(-1.0, 4.1)
_ZEROS = np.append(np.arange(10) / 10, 0.95)
_LIKELIEST, _SPREAD, _UNLIKE, _WRONG = -3.0, 2.0, 0.02, 0.1
_VALUES = 2.0 ** (-0.25 - np.arange(BINS) / 2)
# Clips are at least so many times the usual residual; and rows that are not clipped are at least
# this share, as far as steps are made longer for their sake. Chosen on the benchmark's tables.
_USUAL, _KEPT = 1.2, 0.5
# What clips take leans by no more than this share of all that labels add up to.
_LEANING = 0.5
# So much of the rows that a law expects beyond a clip are no surprise.
_BELIEVED = 0.5
# By how much the Hessian may raise the mean label that a histogram tells.
_MORE = 4.0


@dataclass(frozen=True)
class LogSetting(Setting):
    """What is public before anything is released."""

    link: LogLink = field(default_factory=LogLink)

    @property
    def looks(self) -> tuple[int, ...]:
        """Further looks cost more than they tell: labels have a histogram of their own."""
        return 0, *self.counts

    @property
    def shares(self) -> dict[str, float]:
        """What each part takes of D^2."""
        more = {"labels": LABELS, **({"exposure": EXPOSURE} if self.link.exposure else {})}
        shares = {**super().shares, **more}
        return {**shares, "rounds": shares["rounds"] - sum(more.values())}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what is released."""
        more = {"exposure": ()} if self.link.exposure else {}
        return {**super().shapes, "labels": (BINS,), **more}

    @property
    def last(self) -> int:
        """The constant beside rows, on the grid."""
        return int(_CONSTANT / math.sqrt(self.n_features) * GRID_NORM)


@dataclass(frozen=True)
class LogScales(Scales):
    """The noise of a plan, for sums that a row moves by one."""

    labels: float = math.inf
    exposure: float = math.inf


@lru_cache(maxsize=1)
def _imagined() -> FloatArray:
    """Shares of bins in a family of laws: zeros, and gamma-distributed labels above them."""
    means, shapes, zeros = (
        each.reshape(-1) for each in np.meshgrid(_MEANS, _SHAPES, _ZEROS, indexing="ij")
    )
    edges = 2.0 ** (-np.arange(1, BINS) / 2)
    below = gammainc(shapes[:, None], np.outer(shapes / means, edges))
    below = np.column_stack([np.ones(len(means)), below, np.zeros(len(means))])
    shares = (below[:, :-1] - below[:, 1:]) * (1.0 - zeros[:, None])
    shares[:, -1] += zeros
    return np.asarray(shares)


@dataclass(frozen=True)
class Labels:
    """What a noisy histogram in half octaves tells of labels.

    Laws of a family are weighed by their likelihood, which tells more than the sum of the labels
    does where noise hides most bins; where the sum is known better, it counts.

    Parameters
    ----------
    noisy : ndarray
    scale : float
    rows, rows_scale : float
        About how many rows there are, and the noise in that.
    """

    noisy: FloatArray
    scale: float
    rows: float
    rows_scale: float

    @cached_property
    def shares(self) -> FloatArray:
        """Of bins, on average over the laws."""
        return np.asarray(self._weights @ _imagined())

    @cached_property
    def _weights(self) -> FloatArray:
        laws = _imagined()
        square = np.sum(laws**2, axis=1)
        away = laws @ self.noisy - self.rows * square
        variance, of_rows = self.scale**2 + (_UNLIKE * self.rows) ** 2, self.rows_scale**2
        like = self.rows * (away + 0.5 * self.rows * square) / variance
        like += 0.5 * away**2 * of_rows / (variance * (variance + of_rows * square))
        like -= 0.5 * np.log1p(of_rows * square / variance)
        like -= 0.5 * ((np.log2(laws @ _VALUES) - _LIKELIEST) / _SPREAD) ** 2
        weights = np.exp(like - like.max())
        return np.asarray(weights / weights.sum())

    def moment(self, power: int) -> tuple[float, float]:
        """The mean of a power of the labels, and its error as a share of it.

        Laws and the sum tell it, each by its variance.
        """
        values = _VALUES**power
        logs = np.log(_imagined() @ values)
        middle = float(self._weights @ logs)
        variance = float(self._weights @ (logs - middle) ** 2) + (_WRONG * power) ** 2
        mean, noise = math.exp(middle), self.scale * float(np.linalg.norm(values)) / self.rows
        share = 1.0 / (1.0 + (noise / mean) ** 2 / variance)
        told = share * float(values @ self.noisy) / self.rows + (1.0 - share) * mean
        return min(max(told, mean / 2.0), 1.0), math.sqrt(share) * noise / mean

    def clipped(self, mean: float, clips: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of residuals from one mean: shares within clips; how much more is cut off above."""
        left = _VALUES - mean
        kept = (np.abs(left) <= clips[:, None]) @ self.shares
        cut = np.sign(left) * np.maximum(np.abs(left) - clips[:, None], 0.0)
        return kept, cut @ self.shares


class LogDescent(Descent):
    """From what is released to coefficients, see `Descent`.

    Parameters
    ----------
    setting : LogSetting
    noise : LogScales
    released : mapping
        With "center", "norms", "labels", and "exposure" where there is one.
    """

    # Long rows with large labels make up most of the Hessian along rare levels: without them steps
    # are too long, and with too much noise for their sake they are lost. An exponential takes more
    # rounds than a parabola.
    more_cut, least_rounds, settling, counting = 6.0, 8, math.inf, PAYS

    def __init__(
        self, setting: LogSetting, noise: LogScales, released: Mapping[str, FloatArray]
    ) -> None:
        center = released["center"]
        rows = count_of(center, noise.center)
        norms = released["norms"].copy()
        norms[-1] *= bool(setting.link.least)  # labels of zero
        super().__init__(setting, noise, norms, center_of(center, noise.center), rows)
        self.link, self._rows_scale = setting.link, count_noise(noise.center)
        self.constant = setting.last / GRID_NORM
        self.labels = Labels(released["labels"], noise.labels, rows, count_noise(noise.center))
        self.mean, self._mean_error = self.labels.moment(1)
        square, _ = self.labels.moment(2)
        spread = math.sqrt(max(square - self.mean**2, self.mean**2 / 16))
        self._spread, self._leaning = spread, 0.0
        per_exposure = self.mean
        if self.link.exposure:
            total = max(float(released["exposure"]), noise.exposure)
            per_exposure = self.mean / (total / rows * GRID_NORM * self.link.exposure)
        self.base = math.log(per_exposure)
        self._rates, self._before = np.ones(self._d + 1), np.zeros(self._d + 1)
        self.expected, self.weight = spread, self.mean
        if self.link.least:
            self.weight = 1.0 / self.link.most
            self.expected = min(spread / self.mean * self.weight, 1.0)
        usual = math.sqrt(self.mean) * _HALFWAY
        self._cut_at(2 * usual if self._norms.empty else max(self.cut, usual))
        share = 1.0 if self._norms.empty else min(float(self._norms.counts.sum()) / rows, 1.0)
        # Of rows without the root of the label, and without the constant.
        square = share * self._norms.mean_square(self.cut) / self.mean - self.constant**2
        self._square = min(max(square, self.constant**2), 1.0)

    @property
    def longest(self) -> float:
        """No residual is longer than this."""
        return 1.0

    @property
    def top(self) -> float:
        """Rows that pull more than this are not told apart: noise there would cost most."""
        return min(super().top, _FAR * self._usual)

    def clipped_by(self, unseen: FloatArray) -> FloatArray:
        """By which factor clipping adds to the variance of the noise, in every direction.

        Labels with a log link are skewed, so that clipping is a bias even for the best fit: what
        the histogram says that it took, as far as it may lean in one direction, counts as an error.
        """
        noise = self.gradient_scale * self.clip
        return np.full(unseen.shape, 2.0 + (self.lost / noise) ** 2 / (self._d + 1))

    def bend(self, hessian: FloatArray) -> None:
        """The noisy Hessian of cut rows."""
        scale = self.noise.hessian * self.cut**2
        if self.link.least:
            rows, rows_scale = self.rows * self.weight, self._rows_scale * self.weight
            hessian, scale = hessian * self.weight, scale * self.weight
        else:
            rows_scale, rows = scale / self.constant**2, float(hessian[-1, -1]) / self.constant**2
            before = self.weight * self.rows
            rows = min(max(rows, before), _MORE * before) if rows > 2 * rows_scale else before
            # Labels tell it too: without them steps for the constant were far too short where noise
            # hides the Hessian's corner.
            known = before * self._mean_error
            rows_scale *= known / math.hypot(rows_scale, known)
        self.curvature = Curvature(
            hessian,
            scale,
            self.constant,
            rows,
            rows_scale,
            self._square,
            self._norms.lost(self.cut),
            True,
            self._center / GRID_NORM,
        )
        self.weight = rows / self.rows
        self.curvature.doubt, self.curvature.bending = _DOUBT, _BENDING
        self._fill(rows * self._square)

    def _fill(self, total: float) -> None:
        """Curvature where noise hides it: an equal part of the total, which is known.

        Without it there would be no steps along half of the directions, those that noise happens
        to make flat. The more the matrix differs from equal parts than noise does, the less is
        filled in (James and Stein's rule, for a matrix).
        """
        bend, d = self.curvature, self._d
        away = float(np.sum((bend.noisy_values - total / d) ** 2))
        share = max(1.0 - bend.scale**2 * d * (d + 1) / 2 / away, 0.0)
        filled = share * bend.values[:-1] + (1.0 - share) * total / d
        bend.values[:-1] = np.maximum(bend.values[:-1], filled)

    def _explicable(self, square: float) -> float:
        """The variance of logarithms, were they normal."""
        unit = self.weight if self.link.least else self.mean
        return math.log1p(square / unit**2)

    def _best_clip(self, seen: Histogram) -> float:
        """The clip whose noise and bias together are least, as shares of what a step shows.

        Below the usual residual a clip is never: noise hides the few that are far longer.
        """
        clips = self.clips(looking=True)
        kept, leaning = self._clipped_by(clips)
        error = (self.gradient_scale * clips) ** 2 * (self._d + 1) + leaning**2
        error /= np.maximum(kept, _KEPT) ** 2
        usual = _USUAL * math.sqrt(self.curvature.lever * self.residual_variance)
        return float(clips[np.argmin(np.where(clips < usual, math.inf, error))])

    def _clipped_by(self, clips: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Shares of rows that are not clipped; how far what is lost of the others leans upwards.

        A histogram of products has no signs, and noise hides its few long rows or makes some. That
        of the labels tells how skewed they are.
        """
        unit = min(math.sqrt(self.residual_variance), self.expected) / self._spread
        unit *= math.sqrt(self.curvature.lever)
        kept, leaning = self.labels.clipped(self.mean, clips / unit)
        most = _LEANING * self.rows * self.weight * math.sqrt(self.curvature.lever)
        return kept, np.clip(leaning * unit * self.rows, -most, most)

    def _take(self, wanted: float, ladder: FloatArray) -> int:
        """Beside the clip, what is known of clipped residuals: how they bend, where they lean."""
        rung = super()._take(wanted, ladder)
        kept, leaning = self._clipped_by(np.array([self.clip]))
        self.bent, self.kept = max(float(kept[0]), _KEPT), 1.0
        self._leaning = float(leaning[0]) / math.sqrt(self.curvature.lever)
        self.lost = max(self.lost, abs(float(leaning[0])), self._tail / self.clip)
        return rung

    def look_beyond(self, beyond: float, ladder: FloatArray) -> int:
        """As for least squares, but for rows that the law of the labels expects there.

        Their residuals lean for all alike, which is put right (`learn`). Of a law that is fitted to
        all labels half is believed: a few groups may make up its tail.
        """
        kept, _ = self._clipped_by(np.array([self.clip]))
        expected = _BELIEVED * self.rows * (1.0 - float(kept[0]))
        return super().look_beyond(beyond - expected, ladder)

    def pull(self, bend: Curvature | None = None) -> Pull:
        """What measures rows at the present coefficients, in another metric if there is one."""
        pull = super().pull(bend)
        shifts = np.append(pull.shifts[:-1], pull.shifts[-1] - self.base)
        return replace(pull, shifts=shifts, link=self.link)

    def _rises(self, seen: Histogram, wanted: float) -> bool:
        """It never does: this clip weighs noise against bias already."""
        return False

    def learn(self, gradient: FloatArray) -> None:
        """A noisy clipped gradient: a step that is not too long for an exponential."""
        before, bend = self.theta, self.curvature
        leaning = np.append(np.zeros(self._d), self._leaning * bend.metric[-1])
        super().learn(gradient + leaning[:, None])
        moved = self._unswung(self.theta - before)
        size = math.sqrt(float(np.sum(bend.values[:, None] * moved**2)) / bend.rows)
        reach = math.hypot(math.sqrt(self._square) * np.linalg.norm(moved[:-1]), moved[-1, 0])
        least = max(size / _STEP, reach / _LONG_STEP, 1.0)
        self.theta = before + moved / least

    def _unswung(self, moved: FloatArray) -> FloatArray:
        """The way to go, halved along directions in which it swings back, and forth again.

        There the Hessian is too small.
        """
        bend = self.curvature
        noise = math.sqrt(self.variances[-1]) / np.maximum(bend.widths * bend.values, 1e-300)
        back = (moved[:, 0] * self._before < 0) & (np.abs(moved[:, 0]) > np.abs(self._before) / 2)
        back &= np.abs(moved[:, 0]) > noise
        self._rates = np.where(back, self._rates / 2, np.minimum(self._rates * 1.2, 1.0))
        self._before = moved[:, 0] * self._rates
        return np.asarray(moved * self._rates[:, None])

    @classmethod
    def again(  # type: ignore[override]
        cls, setting: LogSetting, noise: LogScales, released: Mapping[str, FloatArray]
    ) -> LogDescent:
        """All of it again, from a release."""
        descent = cls(setting, noise, released)
        descent.bend(released["hessian"])
        while not descent.done:
            descent.repeat(released)
        return descent


def draw(
    table: Table,
    studied: Mapping[str, ExactSum],
    setting: LogSetting,
    noise: LogScales,
    rng: np.random.Generator,
) -> tuple[LogDescent, dict[str, FloatArray]]:
    """Everything that is released, in order, and where it leads."""
    released = {name: np.zeros(shape) for name, shape in setting.shapes.items()}
    released["center"] = draw_center(studied, noise.center, rng)
    center, link = center_of(released["center"], noise.center), setting.link
    rows = center, float(setting.last), not link.least
    # Where a pass is cheap, one matrix in a further pass costs less than all of them in this one.
    ladder = CutHessians(*rows, n_cuts(setting.n_features))
    norms = HessianNorms(*rows) if table.here else ladder
    more = (tally_labels, total_exposure) if link.exposure else (tally_labels,)
    read = table.sum(Together((norms, *more)), what="Reading norms")
    released["norms"] = add_noise(read["norms"], noise.norms, rng)
    released["labels"] = add_noise(read["labels"], noise.labels, rng)
    if link.exposure:
        unit = float(GRID_NORM)
        released["exposure"] = add_noise(read["exposure"], noise.exposure * unit, rng) / unit
    descent = LogDescent(setting, noise, released)
    most = float(GRID_NORM) ** 2  # which a cut row moves the matrix by, at most
    if table.here:
        gram = table.sum(CutHessian(*rows, descent.rung), what="Reading moments")["gram"]
    else:
        gram = read["grams"][descent.rung]
    released["hessian"] = add_symmetric_noise(gram, noise.hessian * most * ROUND_UP, rng)
    released["hessian"] *= descent.cut**2 / most
    del gram, read  # matrices, which the rounds need no more
    descent.bend(released["hessian"])
    while not descent.done:
        newton.draw_round(table, descent, released, rng)
    return descent, released
