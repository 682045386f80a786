"""What an estimator of this library asked of the functions that draw, and what that gives away.

A run on a data set is written down: exact values, public noise, answers. A run on its neighbour is
given the same answers, so that whatever it asks next follows the same path. The values asked for
then tell the two output laws apart, question by question: normal noise by the shift of a mean,
sketches and posteriors by two covariances, coins by their probabilities.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ndis._validate import FloatArray
from ndis.auditing.verdict import FLOATING, PROVEN, Claim, clears
from ndis.gaussian import Gaussian, log_delta_bounds, privacy_loss
from ndis.loss import DiscreteLaplaceLoss, PrivacyLoss, QuadraticLoss, SphericalLoss
from ndis.loss.student import SketchAndSolveLoss
from ndis.mechanisms import Plan, PrivateEstimator, Run
from ndis.mechanisms.laws import all_beyond, scale_of
from ndis.mechanisms.levels import decoded, exceeds
from ndis.randomness import grid_spacing
from ndis.randomness.listening import listening
from ndis.randomness.noise import parts_of
from ndis.tables import Table

# Sums of squares and the like are off by less than this, relatively.
_ROUNDING = 1e-12
# What a mechanism's own arithmetic may have done to an entry of a covariance, in units of rounding
# and of its diagonal; to be multiplied by the dimension, and by the condition of the matrix.
_ROUNDINGS = 64.0 * float(np.finfo(np.float64).eps)
# Covariance matrices up to this size are enclosed together with their eigenvalue problem.
_ENCLOSED = 100
# What rounding of leverages may do to ln delta, and the conditioning up to which it does no more.
_LEVERAGES, _CONDITION = 1e-6, 1e9


class UnlikeQuestions(ValueError):
    """A mechanism asks other questions on a neighbour, after the same answers."""


@dataclass(frozen=True)
class Question:
    """What was asked: the function, the exact values, what is public, the answer."""

    function: str
    values: Mapping[str, Any]
    public: tuple[Any, ...]
    answer: FloatArray


@dataclass
class Transcript:
    """All questions of a run, and the answers that are to be given again."""

    given: list[FloatArray] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    like: Transcript | None = None
    questions: list[Question] = field(default_factory=list)

    def __call__(self, draw: Callable[..., FloatArray], *args: Any, **named: Any) -> FloatArray:
        """Answer a question as it was answered before, or else by a draw."""
        bound = inspect.signature(draw).bind(*args, **named)
        bound.apply_defaults()
        bound.arguments["rng"] = self.rng
        asked = dict(bound.arguments)
        del asked["rng"]
        values = {name: asked.pop(name) for name in _VALUES if name in asked}
        public, place = tuple(asked.values()), len(self.questions)
        if self.like is not None:
            before = self.like.questions[place : place + 1]
            if [(each.function, each.public) for each in before] != [(draw.__name__, public)]:
                raise UnlikeQuestions(_UNLIKE)
        answer = self.given[place].copy() if place < len(self.given) else draw(**bound.arguments)
        self.questions.append(Question(draw.__name__, values, public, np.array(answer)))
        return answer

    @property
    def answers(self) -> list[FloatArray]:
        """All answers in order."""
        return [each.answer for each in self.questions]

    def same(self, other: Transcript) -> bool:
        """Whether the same was asked, whatever was answered."""
        pairs = zip(self.questions, other.questions, strict=False)
        return len(self.questions) == len(other.questions) and all(
            here.public == there.public
            and all(
                np.array_equal(_dense(here.values[name]), _dense(there.values[name]))
                for name in here.values
            )
            for here, there in pairs
        )


# Arguments that hold exact values; all others are public, but for the generator.
_VALUES = ("values", "offset", "gram", "mean", "cov", "factor", "moments", "shares", "sampled")
_UNLIKE = (
    "Expected a mechanism that asks for the same noise on both data sets, got one that asks for "
    "other noise after the same answers: it depends on the data; audit it by samples."
)


class Recorder:
    """An estimator whose runs are written down; nothing is paid, nothing is published.

    Parameters
    ----------
    estimator : PrivateEstimator
        A copy of it is run, planned once: its plan is public, and the same for all neighbours.
    """

    def __init__(self, estimator: PrivateEstimator) -> None:
        from sklearn.base import clone

        self.model = clone(estimator).set_params(random_state=0, ledger=None)
        self._plan: Plan | None = None

    def prepare(self, data: tuple[Any, ...]) -> Run:
        """A run that nobody pays for.

        Parameters
        ----------
        data : tuple
            Arguments of `fit`.
        """
        if getattr(self.model, "n_rows", None) is not None:  # public, hence that of the data
            self.model.set_params(n_rows=_n_rows(data[0]))
        run: Run = self.model.prepare(*data, plan=self._plan)
        self._plan = run.plan
        return run

    def run(
        self,
        data: tuple[Any, ...],
        like: Transcript | None = None,
        rng: np.random.Generator | None = None,
        given: list[FloatArray] | None = None,
    ) -> Transcript:
        """Draw, with the answers of an earlier run or with other answers, if there are any.

        Parameters
        ----------
        data : tuple
            Arguments of `fit`.
        like : Transcript, optional
            A run on a neighbour: its answers are given again, and its questions expected.
        rng : Generator, optional
            Where answers come from that are not given.
        given : list of ndarray, optional
            Answers to give.
        """
        done = Transcript(given or ([] if like is None else like.answers), like=like)
        if rng is not None:
            done.rng = rng
        with listening(done), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the owner's, about the data
            self.prepare(data).draw(done.rng)
        if like is not None and len(done.questions) != len(like.questions):
            raise UnlikeQuestions(_UNLIKE)
        return done

    def promise(self, data: tuple[Any, ...]) -> Any:
        """What is promised: (epsilon, delta), or what follows from the noise that was given."""
        if getattr(self.model, "epsilon", None) is not None:
            return self.model.epsilon, self.model.delta
        return self.prepare(data).plan.guarantee

    def adapts(self, data: tuple[Any, ...], transcript: Transcript) -> bool:
        """Whether later questions depend on earlier answers: they are given other ones.

        Tried are fresh noise, zeros, and answers far off in both directions.
        """
        if len(transcript.questions) < 2:
            return False
        lines = ((0.0, 0.0), (-2.0, -1.0), (1e3, 1e3))
        tries: list[list[FloatArray] | None] = [None]
        tries += [[slope * each + start for each in transcript.answers] for slope, start in lines]
        for given in tries:
            try:
                other = self.run(data, rng=np.random.default_rng(1), given=given)
            except Exception:  # whatever nonsense makes it raise, it has looked at the answers
                return True
            if not transcript.same(other):
                return True
        return False


def _n_rows(data: Any) -> int:
    if isinstance(data, Table):
        return sum(batch.num_rows for batch in data.records())
    return len(data)


# -- what two transcripts give away ------------------------------------------------------------


@dataclass
class Difference:
    """The laws of two transcripts, given the same answers: all of it in one direction.

    Attributes
    ----------
    square : float
        Squared shift of all means under independent normal noise, in units of the noise.
    laws : list of (Gaussian, Gaussian, int)
        Pairs of normal laws and how many draws there are of each.
    pure : list of float
        Shifts of values under Laplace noise, in units of its scale.
    whole : list of (float, int)
        Shifts of whole numbers under discrete Laplace noise, in units of its scale, and in steps.
    counted : list of (float, float)
        Shifts of numbers whose Laplace noise keeps whole what they add up to, in units of its
        scale, and a lower bound on how likely the loss is as large.
    spherical : list of (float, int)
        Shifts under spherical noise, in units of its scale, and how many numbers move.
    bits : list of (float, float)
        Probabilities of single bits under both laws.
    solved : list of (SketchAndSolveLoss, float, float)
        A row of leverages (q, p) in a sketch that was solved.
    sampled : list of (QuadraticLoss, float)
        A row that is in a secret sample with some probability, and what it shows if it is.
    """

    square: float = 0.0
    laws: list[tuple[Gaussian, Gaussian, int]] = field(default_factory=list)
    pure: list[float] = field(default_factory=list)
    whole: list[tuple[float, int]] = field(default_factory=list)
    counted: list[tuple[float, float]] = field(default_factory=list)
    spherical: list[tuple[float, int]] = field(default_factory=list)
    bits: list[tuple[float, float]] = field(default_factory=list)
    solved: list[tuple[SketchAndSolveLoss, float, float]] = field(default_factory=list)
    sampled: list[tuple[QuadraticLoss, float]] = field(default_factory=list)

    @classmethod
    def between(cls, here: Transcript, there: Transcript, hidden: int = 0) -> Difference:
        """Compare two transcripts with the same answers.

        Parameters
        ----------
        here, there : Transcript
        hidden : int
            How many of the first answers are not released as they are: if their values move,
            nothing is known.
        """
        found = cls()
        for place, pair in enumerate(zip(here.questions, there.questions, strict=True)):
            before = found.square
            _COMPARE[pair[0].function](found, *pair)
            if place < hidden and found.square - before > _ROUNDING:
                return cls()
        return found

    @property
    def largest(self) -> float:
        """The largest loss of all noise whose losses are bounded, but for levels."""
        return math.fsum([*self.pure, *(each for each, _ in [*self.whole, *self.counted])])

    def height(self, epsilon: float) -> float:
        """ln delta in the worse direction."""
        loss = self.loss()
        ways = (loss, loss.reversed())
        return max(
            *(float(way.log_delta(epsilon)) for way in ways),
            *(height for height, _, _ in self._others(epsilon)),
        )

    def bound(self, claim: Claim) -> tuple[float, str, PrivacyLoss | None]:
        """A lower bound on ln delta, what it rests on, and the loss where all is normal.

        A mechanism's own arithmetic rounds its laws, and a sound one may meet its claim with
        equality. So every difference counts as smaller by what rounding can have added; one pair
        of laws that breaks the claim even so is enclosed in ball arithmetic.
        """
        loss, least = self.loss(), self.loss(least=True)
        found = [
            (float(low.log_delta_bounds(claim.epsilon)[0]), FLOATING if self.laws else PROVEN, way)
            for way, low in ((loss, least), (loss.reversed(), least.reversed()))
        ]
        others = [(low, why, None) for _, low, why in self._others(claim.epsilon)]
        low, basis, way = max([*found, *others], key=lambda each: each[0])
        if clears(low, claim) and len(self.laws) == 1 and not self.square and way is not None:
            (P, Q, copies), forward = self.laws[0], way is loss
            if P.dimension <= _ENCLOSED:
                pair = (P, Q) if forward else (Q, P)
                low = min(low, log_delta_bounds(*pair, claim.epsilon, copies)[0])
                basis = PROVEN
        return low, basis, way

    def loss(self, least: bool = False) -> QuadraticLoss:
        """All that is normal as one loss; every difference smaller by what rounding can do."""
        shift = math.sqrt(self.square) * (1.0 - _ROUNDING * least)
        loss = QuadraticLoss.from_shift(shift)
        for P, Q, copies in self.laws:
            pair = copies * privacy_loss(P, Q)
            loss = loss + (_blurred(pair, (P, Q), copies) if least else pair)
        return loss

    def _others(self, epsilon: float) -> list[tuple[float, float, str]]:
        """Of what is not normal, each part alone: ln delta, a bound, and what it rests on."""
        found = [(-math.inf, -math.inf, PROVEN)]
        growth = math.exp(epsilon)
        for pair in self.bits:
            ways = (pair, pair[::-1])
            lower = max(max(a - growth * b, (1.0 - a) - growth * (1.0 - b)) for a, b in ways)
            found.append((*_logs(lower), PROVEN))
        if self.pure:  # one answer alone
            lower = -math.expm1(0.5 * (epsilon - max(self.pure)))
            found.append((*_logs(lower), PROVEN))
        # All of them on the side where the loss is largest.
        chance = 0.5 ** len([*self.pure, *self.whole])
        chance *= math.prod(chance for _, chance in self.counted)
        found.append((*_logs(-math.expm1(epsilon - self.largest) * chance), PROVEN))
        for distance, steps in self.whole:
            one = DiscreteLaplaceLoss(distance * (1.0 - _ROUNDING), steps)
            height = float(one.log_delta_bounds(epsilon)[0])
            found.append((height, height, PROVEN))
        for distance, count in self.spherical:
            least = SphericalLoss(distance * (1.0 - _ROUNDING), count)
            height = float(least.log_delta_bounds(epsilon)[0])
            found.append((height, height, PROVEN))
        for loss, q, p in self.solved:
            ends = (loss, loss.reversed())
            height = max(float(way.attained_at(q, p, epsilon)) for way in ends)
            found.append((height, height - _LEVERAGES, FLOATING))
        for seen, rate in self.sampled:
            once = seen.subsampled(rate)
            bounds = [way.log_delta_bounds(epsilon)[0] for way in (once, once.reversed())]
            found.append((*2 * (float(max(bounds)),), FLOATING))
        return found


def _blurred(loss: QuadraticLoss, pair: tuple[Gaussian, Gaussian], copies: int) -> QuadraticLoss:
    """A loss with every difference smaller by what rounding can do to the laws of its pair."""
    blur, move = 0.0, 0.0
    for law in pair:
        if law.variances is not None:
            spread = np.sqrt(law.variances)
            condition, d, alive = 1.0, 1, spread > 0
        else:
            spread = np.sqrt(np.diag(law.cov))
            alive = spread > 0
            scaled = law.cov[np.ix_(alive, alive)] / np.outer(*2 * [spread[alive]])
            least = float(np.linalg.eigvalsh(scaled)[0]) if alive.any() else 1.0
            d = int(alive.sum())
            condition = 1.0 / max(least, 1e-300)
        blur = max(blur, _ROUNDINGS * d * condition)
        sizes = np.abs(law.mean[alive]) / spread[alive]
        move = max(move, _ROUNDINGS * math.sqrt(d * condition) * float(sizes.max(initial=0.0)))
    size = np.abs(loss.excess)
    with np.errstate(invalid="ignore"):
        less = np.where(np.isinf(size), size, np.maximum(size * (1.0 - blur) - blur, 0.0))
    nearer = np.sqrt(loss.shift) * (1.0 - blur) - math.sqrt(copies) * move
    return QuadraticLoss(np.sign(loss.excess) * less, np.maximum(nearer, 0.0) ** 2, loss.count)


def _logs(delta: float) -> tuple[float, float]:
    """Of a delta that was computed, and of one that is surely below."""
    height = math.log(delta) if delta > 0 else -math.inf
    return height, height - _ROUNDING


def _dense(values: Any) -> Any:
    if values is None:
        return np.zeros(0)
    if callable(values):  # a Gram matrix of some rows: here of all
        values = values(np.arange)
    return values.toarray() if hasattr(values, "toarray") else sum(parts_of(values))


def _moved(here: Question, there: Question) -> FloatArray:
    """How far exact values are apart: differences of doubles are rounded once."""
    first, second = (parts_of(each.values["values"]) for each in (here, there))
    return np.asarray(sum(a - b for a, b in zip(first, second, strict=True)))


def _normal_scales(question: Question, shape: tuple[int, ...]) -> FloatArray:
    """Standard deviations of independent entries; infinite for those that repeat others."""
    (scale,) = question.public
    if question.function == "add_noise":
        return np.full(shape, scale)
    scales = np.full(shape, scale * math.sqrt(0.5) * (1.0 + 2.0**-49))
    np.fill_diagonal(scales, scale)
    scales[np.tril_indices(len(scales), -1)] = np.inf
    return scales


def _normal(found: Difference, here: Question, there: Question) -> None:
    moved = _moved(here, there)
    found.square += float(np.sum((moved / _normal_scales(here, moved.shape)) ** 2))


def _laplace(found: Difference, here: Question, there: Question) -> None:
    moved = np.abs(_moved(here, there)) / here.public[0]
    found.pure += moved[moved > 0].tolist()


def _whole(found: Difference, here: Question, there: Question) -> None:
    moved = np.abs(_moved(here, there)).astype(np.float64)
    found.whole += [(each / here.public[0], int(each)) for each in moved[moved > 0].tolist()]


def _counted(found: Difference, here: Question, there: Question) -> None:
    scale, step = here.public
    moved = _moved(here, there) / scale
    for row in moved.reshape(-1, moved.shape[-1]):
        if row.any():
            alike = len(row) == 3 and not (row.min() < 0 < row.max())
            chance = all_beyond(scale / step) if alike else 0.0
            found.counted.append((float(np.abs(row).sum()), chance))


def _spherical(found: Difference, here: Question, there: Question) -> None:
    moved = _moved(here, there).astype(np.float64)
    if moved.any():
        found.spherical.append((float(np.linalg.norm(moved)) / here.public[0], moved.size))


def _levels(found: Difference, here: Question, there: Question) -> None:
    """Counts of levels that both have move; others are published by one alone."""
    law, noise, above, _ = here.public
    first, second = (
        dict(zip(each.values["values"].names, each.values["values"].toarray(), strict=True))
        for each in (here, there)
    )
    for name in first.keys() | second.keys():
        if name in first and name in second:
            away = abs(first[name] - second[name]) / scale_of(law, noise, 1)
            found.square += away**2 if law == "gaussian" else 0.0
            found.pure += [away] if law == "laplace" and away else []
        else:
            count = float({**first, **second}[name])
            found.bits.append((exceeds(law, count, noise, above), 0.0))


def _bits(found: Difference, here: Question, there: Question) -> None:
    unit, lie = here.public
    shares = [np.asarray(each.values["shares"]) for each in (here, there)]
    for place in np.flatnonzero(shares[0] != shares[1]):
        first, second = (float(each[place]) / unit for each in shares)
        found.bits.append((lie + (1 - 2 * lie) * first, lie + (1 - 2 * lie) * second))


def _covariance(question: Question) -> FloatArray:
    """Of a sketch, in units of its ridge."""
    scale = question.public[0]
    if question.function == "draw_combinations":
        factor = question.values["factor"]
        return np.asarray(_dense(factor @ factor.T) / scale**2 + np.eye(factor.shape[0]))
    gram = _symmetric(question.values["gram"])
    unit = scale + question.public[2]
    return np.asarray(gram / unit + scale / unit * np.eye(len(gram)))


def _symmetric(values: Any) -> FloatArray:
    full = np.asarray(_dense(values), dtype=np.float64)
    return np.tril(full) + np.tril(full, -1).T


def _sketch(found: Difference, here: Question, there: Question) -> None:
    P, Q = (Gaussian(np.zeros(len(cov)), cov) for cov in map(_covariance, (here, there)))
    found.laws.append((P, Q, int(here.public[1])))


def _sampled(found: Difference, here: Question, there: Question) -> None:
    """One row more or less, seen along a direction in which no other row has anything.

    There the law is a mixture of two, whichever others are in the sample; elsewhere it is one of
    too many, and nothing is known.
    """
    rate, ridge, n_components = here.public
    less, more = sorted(
        (_symmetric(each.values["sampled"]) / ridge for each in (here, there)), key=np.trace
    )
    weights, vectors = np.linalg.eigh(more - less)
    row = vectors[:, -1] * math.sqrt(max(float(weights[-1]), 0.0))
    others, ways = np.linalg.eigh(less)
    free = ways[:, others <= _ROUNDING * max(float(others[-1]), 1.0)]
    alone = free @ (free.T @ row)
    size = float(alone @ alone) * (1.0 - _LEVERAGES)
    if size > _LEVERAGES:
        found.sampled.append((QuadraticLoss(size, 0.0, int(n_components)), float(rate)))


def _posterior(found: Difference, here: Question, there: Question) -> None:
    scale, n_draws = here.public
    P, Q = (
        Gaussian(mean / scale, _symmetric(each.values["cov"]) / scale**2 + np.eye(mean.size))
        for each in (here, there)
        for mean in [np.asarray(each.values["mean"], dtype=np.float64)]
    )
    found.laws.append((P, Q, int(n_draws)))


def _limit_law(moments: FloatArray, n_components: int) -> Gaussian:
    """What `draw_limit` draws from, with a ridge of one: N(x, |e|^2 (B^T B)^-1 / r)."""
    ridged = moments + np.eye(len(moments))
    X, b = ridged[:-1, :-1], ridged[:-1, -1]
    inverse = np.linalg.inv(X)
    coefficients = inverse @ b
    # The ridged table has a row (0, 1), which no coefficient explains, so the squared norm of its
    # residuals is at least one: rounding must not take it below.
    residual = max(float(ridged[-1, -1] - b @ coefficients), 1.0)
    return Gaussian(coefficients, residual * inverse / n_components)


def _limit(found: Difference, here: Question, there: Question) -> None:
    ridge, n_components, _ = here.public
    P, Q = (
        _limit_law(_symmetric(each.values["moments"]) / ridge, n_components)
        for each in (here, there)
    )
    found.laws.append((P, Q, 1))


def _solution(found: Difference, here: Question, there: Question) -> None:
    """One row more or less, by its leverages with and without the label."""
    ridge, n_components, _ = here.public
    first, second = (_symmetric(each.values["moments"]) / ridge for each in (here, there))
    weights, vectors = np.linalg.eigh(first - second)
    place = int(np.argmax(np.abs(weights)))
    more = (first if weights[place] > 0 else second) + np.eye(len(first))
    others = np.delete(np.abs(weights), place)
    if others.max(initial=0.0) > 1e-9 * abs(weights[place]) or np.linalg.cond(more) > _CONDITION:
        return  # not one row, or not to be told apart from rounding
    row = vectors[:, place] * math.sqrt(abs(weights[place]))
    q = float(row @ np.linalg.solve(more, row))
    p = float(row[:-1] @ np.linalg.solve(more[:-1, :-1], row[:-1]))
    if q < 1.0:
        loss = SketchAndSolveLoss(q / (1.0 - q), len(row) - 1, n_components)
        found.solved.append((loss, q, min(p, q)))


_COMPARE: dict[str, Callable[[Difference, Question, Question], None]] = {
    "add_noise": _normal,
    "add_symmetric_noise": _normal,
    "add_laplace_noise": _laplace,
    "add_discrete_laplace_noise": _whole,
    "add_counted_laplace_noise": _counted,
    "add_spherical_noise": _spherical,
    "draw_bits": _bits,
    "draw_levels": _levels,
    "draw_sketch": _sketch,
    "draw_combinations": _sketch,
    "draw_sampled_sketch": _sampled,
    "draw_gaussian": _posterior,
    "draw_limit": _limit,
    "draw_solution": _solution,
}


# -- one run, both likelihoods -----------------------------------------------------------------


def log_ratio(here: Transcript, there: Transcript, hidden: int = 0) -> float:
    """A lower bound on ln P/Q of the answers that were drawn on `here`, replayed on `there`.

    Answers are rounded to a grid: the ratio of the cells' probabilities is at least the least
    ratio of densities in the cell. A solved sketch that comes last is left out, as anybody who
    is given a release may do. If values of hidden answers move, nothing is known.
    """
    total = 0.0
    pairs = list(zip(here.questions, there.questions, strict=True))
    for place, (first, second) in enumerate(pairs):
        if first.function in ("add_noise", "add_symmetric_noise"):
            moved = _moved(first, second)
            scales = _normal_scales(first, moved.shape)
            steps = moved / scales
            if place < hidden and float(np.sum(steps**2)) > _ROUNDING:
                return -math.inf
            noise = sum((-part for part in parts_of(first.values["values"])), first.answer) / scales
            spacing = np.maximum(grid_spacing(first.public[0]), np.spacing(np.abs(first.answer)))
            total += float(np.sum(steps * (noise + 0.5 * steps)))
            total -= float(np.sum(np.abs(steps) * spacing / scales)) * 0.5
        elif first.function in _LAPLACE:
            total += _laplace_ratio(first, second, _LAPLACE[first.function])
        elif first.function == "draw_levels":
            total += _levels_ratio(first, second)
        elif first.function in ("draw_sketch", "draw_combinations"):
            total += _sketch_ratio(first, second)
        elif place + 1 < len(pairs):
            return -math.inf
    return total - _ROUNDING * (1.0 + abs(total))


# How many roundings to the grid are in an answer.
_LAPLACE: dict[str, Callable[[FloatArray], int]] = {
    "add_laplace_noise": lambda answer: 1,
    "add_discrete_laplace_noise": lambda answer: 0,
    "add_counted_laplace_noise": lambda answer: answer.shape[-1],
}


def _laplace_ratio(
    here: Question, there: Question, roundings: Callable[[FloatArray], int]
) -> float:
    """|x - v'| - |x - v| changes by at most the length of a cell within it."""
    scale, moved = here.public[0], _moved(here, there)
    away = sum((-part for part in parts_of(here.values["values"])), here.answer)
    least = np.spacing(np.abs(here.answer))
    spacing = np.maximum(roundings(here.answer) * grid_spacing(scale), least)
    gained = np.abs(away + moved) - np.abs(away) - spacing * (moved != 0)
    return float(np.sum(gained) / scale)


def _levels_ratio(here: Question, there: Question) -> float:
    """Of which levels were published; one that somebody does not have is published by chance 0."""
    law, noise, above, _ = here.public
    published, total = set(decoded(here.answer)), 0.0
    known = [
        dict(zip(each.names, each.toarray().tolist(), strict=True))
        for each in (here.values["values"], there.values["values"])
    ]
    for name in sorted(known[0].keys() | known[1].keys()):
        counts = [each.get(name) for each in known]
        if counts[0] != counts[1]:
            odds = [0.0 if count is None else exceeds(law, count, noise, above) for count in counts]
            if name.decode() not in published:
                odds = [1.0 - each for each in odds]
            total += math.log(odds[0] / odds[1]) if min(odds) > 0 else -math.inf
    return total - 0.01 * abs(total)  # noise is rounded to a grid


def _sketch_ratio(here: Question, there: Question) -> float:
    unit = float(here.public[0])
    unit = unit if here.function == "draw_combinations" else math.sqrt(unit + here.public[2])
    columns = here.answer / unit
    half = 0.5 * grid_spacing(unit) / unit
    inverse, determinant = [], []
    for cov in (_covariance(here), _covariance(there)):
        if np.linalg.cond(cov) > _CONDITION:
            return -math.inf
        inverse.append(np.linalg.inv(cov))
        determinant.append(float(np.linalg.slogdet(cov)[1]))
    bend = inverse[1] - inverse[0]
    slope = bend @ columns
    value = 0.5 * float(np.sum(columns * slope))
    value += 0.5 * columns.shape[1] * (determinant[1] - determinant[0])
    doubt = half * float(np.abs(slope).sum())
    doubt += 0.5 * half**2 * columns.shape[1] * float(np.abs(bend).sum())
    size = 0.5 * float(np.sum(np.abs(columns) * (np.abs(inverse[0]) @ np.abs(columns))))
    return float(value - doubt - _CONDITION * 1e-15 * (1.0 + size))
