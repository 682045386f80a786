"""The strongest attack on a mechanism: give a neighbour the same noisy answers, and compare.

Every number that `fit` releases goes through a few functions of `ndis.randomness`, whose laws are
attacked by themselves (tests/randomness). Here a mechanism runs on a table, and what it asked of
these functions is recorded: exact values, noise, answers. Then it runs on the neighbour and is
given the *same answers*. Whatever it decides by looking at the data shows: it asks another number
of questions, with other noise, or releases other numbers after the same answers. And the exact
values it asked for tell the loss of this very pair, given everything released before: how far the
sums moved in units of their noise. It must be within the promise, rounding included.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ndis import (
    DiscreteLaplaceLoss,
    Gaussian,
    QuadraticLoss,
    SphericalLoss,
    privacy_loss,
    randomness,
)
from ndis.mechanisms import levels
from ndis.mechanisms.laws import pure_loss
from ndis.tables import Table
from ndis.tables import table as table_module
from ndis_papers.methods import classification, covariance, processes, projection, regression

# Where mechanisms are; methods of the papers are loaded when they are first asked for.
HOMES = ("ndis.mechanisms", "ndis_papers.methods")
LOADED = (classification, covariance, processes, projection, regression)
FUNCTIONS = (
    "add_counted_laplace_noise",
    "add_discrete_laplace_noise",
    "add_laplace_noise",
    "add_noise",
    "add_spherical_noise",
    "add_symmetric_noise",
    "draw_combinations",
    "draw_gaussian",
    "draw_limit",
    "draw_sampled_sketch",
    "draw_sketch",
    "draw_solution",
)


@dataclass
class Question:
    """What was asked of a function: its name, exact values, every other argument; the answer."""

    function: str
    values: Any
    others: tuple[Any, ...]
    answer: np.ndarray


@dataclass
class Run:
    """What a mechanism did with a table, as far as anybody but its owner may see it."""

    questions: list[Question] = field(default_factory=list)
    error: str = ""
    told: list[str] = field(default_factory=list)
    certificate: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    promise: Any = None
    passes: list[int] = field(default_factory=list)  # answers known when a pass began
    opened: int = 0
    delta: float = 0.0


# Up to so many Laplace draws whose values move are composed one by one.
FEW = 12


class Leak(AssertionError):
    """The neighbours can be told apart, or the promise does not cover them."""


def compare(make: Any, data: tuple[Any, ...], neighbour: tuple[Any, ...]) -> Run:
    """Run a mechanism on both, raise `Leak` if that shows, and return the first run.

    Parameters
    ----------
    make : callable
        Makes the estimator, seeded.
    data, neighbour : tuple
        Arguments of `fit`.
    """
    first = run(make(), data)
    second = run(make(), neighbour, first.questions)
    if first.error or second.error:
        if first.error != second.error:
            raise Leak(f"one was refused: {first.error!r}, {second.error!r}")
        return first
    for name in ("told", "certificate", "opened"):
        if getattr(first, name) != getattr(second, name):
            raise Leak(f"{name}: {getattr(first, name)!r}, {getattr(second, name)!r}")
    if not first.questions or len(first.questions) != len(second.questions):
        raise Leak(f"{len(first.questions)} and {len(second.questions)} questions")
    for name, array in first.arrays.items():
        if not np.all(np.isfinite(array)):
            raise Leak(f"{name} is not finite")
        if array.tobytes() != second.arrays[name].tobytes():
            raise Leak(f"{name} differs after the same answers")
    promise = first.promise
    found = pair_delta(first, second, promise.epsilon)
    if found > promise.delta * (1.0 + 1e-9):
        raise Leak(f"delta {found} for a promise of {promise.delta}")
    first.delta = found
    return first


def run(model: Any, data: tuple[Any, ...], answers: list[Question] | None = None) -> Run:
    """Fit a model, with the answers of an earlier run if there was one."""
    done = Run()
    with _recorded(done, answers), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            model.fit(*data)
        except Leak:
            raise
        except (ValueError, TypeError, OSError) as error:  # the same for all neighbours
            done.error = f"{type(error).__name__}: {error}"
    done.told = [str(warning.message) for warning in told]
    if not done.error:
        done.promise = model.release_.guarantee
        done.certificate = model.release_.certificate()
        for array in done.certificate["arrays"].values():
            array.pop("sha256")
        done.arrays = dict(model.release_.arrays)
    return done


@contextmanager
def _recorded(done: Run, answers: list[Question] | None) -> Iterator[None]:
    """Stand between the mechanisms and the functions that draw; count what is read."""
    replaced: list[tuple[Any, str, Any]] = []

    def replace(home: Any, name: str, value: Any) -> None:
        replaced.append((home, name, getattr(home, name)))
        setattr(home, name, value)

    for function in (*FUNCTIONS, "draw_levels"):
        original = getattr(levels if function == "draw_levels" else randomness, function)
        for name, module in list(sys.modules.items()):
            inside = name == levels.__name__  # whose draw is one question
            here = name.startswith(HOMES) and not inside
            if here and getattr(module, function, None) is original:
                replace(module, function, _between(function, original, done, answers))
    requested, opened = Table._request, table_module.open_source

    def counted_request(self: Table, *args: Any) -> Any:  # once for every pass over the rows
        done.passes.append(len(done.questions))
        return requested(self, *args)

    def counted_open(*args: Any, **more: Any) -> Any:
        done.opened += 1
        return opened(*args, **more)

    replace(Table, "_request", counted_request)
    replace(table_module, "open_source", counted_open)
    try:
        yield
    finally:
        for home, name, value in reversed(replaced):
            setattr(home, name, value)


def _between(function: str, original: Any, done: Run, answers: list[Question] | None) -> Any:
    def asked(values: Any, *others: Any, **named: Any) -> np.ndarray:
        public = tuple(x for x in others if not isinstance(x, np.random.Generator))
        before_looking = len(done.passes)
        whole = values(np.arange) if function == "draw_sampled_sketch" else values  # all rows
        del done.passes[before_looking:]  # that was our pass
        exact: Any = None if function == "draw_levels" else exactly(whole)
        if function == "draw_gaussian":  # a mean and a covariance
            exact, public = (exact, exactly(public[0])), public[1:]
        if (offset := named.pop("offset", None)) is not None:
            exact = exact + exactly(offset)
        public += tuple(x for x in named.values() if not isinstance(x, np.random.Generator))
        if answers is None:
            again = {} if offset is None else {"offset": offset}
            answer = original(values, *others, **named, **again)
        else:
            place = len(done.questions)
            if place >= len(answers):
                raise Leak(f"{function} is asked once more")
            before = answers[place]
            if (before.function, before.others) != (function, public):
                raise Leak(f"asked {before.function}{before.others}, then {function}{public}")
            answer = before.answer.copy()
        done.questions.append(Question(function, exact, public, np.array(answer)))
        return answer

    return asked


def exactly(values: Any) -> Any:
    """Numbers as an array of fractions or integers."""
    if hasattr(values, "high"):
        high, low = values.high.astype(object), values.low.astype(object)
        part = 0 if values.part is None else values.part.astype(object) * Fraction(1, 2**26)
        return np.asarray(high * 2**26 + low + part, dtype=object)
    if hasattr(values, "toarray"):
        values = values.toarray()
    array = np.asarray(values)
    if array.dtype.kind == "f":
        flat = [Fraction(float(x)) for x in array.ravel()]
        return np.array(flat, dtype=object).reshape(array.shape)
    return array.astype(object)


def pair_delta(first: Run, second: Run, epsilon: float) -> float:
    """Delta(epsilon) of the two laws, given the same answers, in the worse direction."""
    shift = Fraction(0)
    pure, bounded, each = Fraction(0), Fraction(0), list[Any]()
    losses: list[Any] = []
    for here, there in zip(first.questions, second.questions, strict=True):
        if here.function in ("add_noise", "add_symmetric_noise"):
            moved = _flat(here.values - there.values)
            shift += sum((x * x for x in moved), Fraction(0)) / Fraction(here.others[0]) ** 2
        elif here.function == "add_spherical_noise":
            moved = _flat(here.values - there.values)
            length = float(sum((x * x for x in moved), Fraction(0))) ** 0.5
            losses.append(SphericalLoss(length / float(here.others[0]), dimension=len(moved)))
        elif here.function == "add_discrete_laplace_noise":
            moved = _flat(here.values - there.values)
            sizes = [(abs(x) / Fraction(here.others[0]), int(abs(x))) for x in moved if x]
            pure += sum((size for size, _ in sizes), Fraction(0))
            each += [DiscreteLaplaceLoss(float(size), steps) for size, steps in sizes]
        elif here.function == "add_counted_laplace_noise":  # no more than its largest loss
            bounded += sum(map(abs, _flat(here.values - there.values))) / Fraction(here.others[0])
        elif here.function == "add_laplace_noise":
            moved = _flat(here.values - there.values)
            sizes = [abs(x) / Fraction(here.others[0]) for x in moved if x]
            pure += sum(sizes, Fraction(0))
            each += [SphericalLoss(float(size), dimension=1) for size in sizes]
        else:
            losses += _covariances(here, there)
    left = epsilon - float(pure)
    if shift:
        losses.append(QuadraticLoss.from_shift(float(shift) ** 0.5))
    if bounded and not losses:  # nothing is worse than randomized response of the largest loss
        largest = float(pure + bounded)
        return max(math.expm1(largest - epsilon), 0.0) / (
            math.exp(-epsilon) + math.exp(largest - epsilon)
        )
    if bounded:
        losses.append(pure_loss(float(bounded)))
    if not losses and len(each) == 1:
        return float(each[0].delta(epsilon))
    if not losses:
        # L > epsilon only where each draw's loss is within -left of its end, at most this likely.
        far = isinstance(each[0], SphericalLoss) if each else False
        near = 1.0 - 0.5 * math.exp(0.5 * min(left, 0.0)) if far else 1.0
        return max(-math.expm1(left), 0.0) * near ** len(each)
    if 0 < len(each) <= FEW:  # the law of each draw, beside others
        losses, left = losses + each, epsilon
    if left < -1e-9:
        return 1.0
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    # Randomized response is the worst pure part of loss at most `pure`: it shifts epsilon by that,
    # down as often as it is right, and up as often as it is wrong.
    right = 1.0 / (1.0 + math.exp(-float(pure)))
    shares = ((right, max(left, 0.0)), (1.0 - right, 2.0 * epsilon - left))
    ways = (total, total.reversed())
    return max(sum(share * float(way.delta(at)) for share, at in shares) for way in ways)


def _flat(values: Any) -> list[Any]:
    return list(np.asarray(values, dtype=object).ravel())


def _covariances(here: Question, there: Question) -> list[Any]:
    """The loss of two Gaussian laws with different covariances."""
    if here.function == "draw_gaussian":
        scale, n_draws = here.others
        laws = []
        for question in (here, there):
            mean, cov = (np.array(part, dtype=float) for part in question.values)
            d = mean.size
            full = np.tril(cov) + np.tril(cov, -1).T + float(scale) ** 2 * np.eye(d)
            laws.append(Gaussian(mean, full))
        return [int(n_draws) * privacy_loss(*laws)]
    if here.function in ("draw_solution", "draw_levels"):
        return []  # laws of their own: see tests/loss, and tests/mechanisms/test_levels.py
    if here.function == "draw_sampled_sketch":  # seen at this rate, beside all others
        rate, *others = here.others
        pair = sorted((here, there), key=lambda each: -np.trace(each.values))  # row present first
        (loss,) = _covariances(
            *(Question("draw_sketch", each.values, (*others,), each.answer) for each in pair)
        )
        return [loss.subsampled(float(rate))]
    first, second = (_symmetric(question) for question in (here, there))
    if here.function == "draw_limit":
        return [privacy_loss(_limit(first, here), _limit(second, there))]
    ridge, n_components = float(here.others[0]), int(here.others[1])
    if here.function == "draw_combinations":
        first, second, ridge = first @ first.T, second @ second.T, ridge**2
    eye = ridge * np.eye(len(first))
    weights, vectors = np.linalg.eigh(first - second)
    largest = int(np.argmax(np.abs(weights)))
    rest = np.delete(np.abs(weights), largest)
    if rest.size and rest.max() > 1e-9 * abs(weights[largest]):  # not one row more or less
        zero, unit = np.zeros(len(first)), np.trace(first + eye)
        laws = [Gaussian(zero, (gram + eye) / unit) for gram in (first, second)]
        return [n_components * privacy_loss(*laws)]
    row = vectors[:, largest] * np.sqrt(abs(weights[largest]))
    more = first if weights[largest] > 0 else second
    leverage = float(row @ np.linalg.solve(more + eye, row))
    loss = QuadraticLoss.from_leverage(min(leverage, 1.0), n_components)
    return [loss if more is first else loss.reversed()]


def _symmetric(question: Question) -> np.ndarray:
    values = np.array(question.values, dtype=float)
    if question.function == "draw_combinations":
        return values
    return np.tril(values) + np.tril(values, -1).T


def _limit(moments: np.ndarray, question: Question) -> Gaussian:
    """The law that `draw_limit` states, from its table's moments."""
    ridge, n_components = float(question.others[0]), int(question.others[1])
    full = moments + ridge * np.eye(len(moments))
    solution = np.linalg.solve(full[:-1, :-1], full[:-1, -1])
    left = full[-1, -1] - full[-1, :-1] @ solution
    return Gaussian(solution, left * np.linalg.inv(full[:-1, :-1]) / n_components)
