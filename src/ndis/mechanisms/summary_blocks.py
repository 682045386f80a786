"""What a record adds to the blocks of a summary, and the noise that they get."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP, shift_profile
from ndis.loss import PrivacyLoss
from ndis.mechanisms import laws
from ndis.mechanisms.run import Plan
from ndis.mechanisms.target import LIMITS, PEOPLE, Part, Target, chosen_noise
from ndis.tables import ExactSum
from ndis.tables.groups import STEPS

# Laplace noise that keeps whole what is counted.
WHOLE = "discrete laplace"
_COUNTED = ("means", "quantiles", "places", "shares", "count")
# Noise of a smaller scale is none, for what follows.
_SMALLEST = 0.01
# Coordinates of (1, t, t^2) in units of 1/UNITS: Bernstein's add up to one and are not negative,
# the squares of Lagrange's add up to at most one.
_BERNSTEIN = np.array([[1, -2, 1], [2, 0, -2], [1, 2, 1]])
COORDINATES = {
    WHOLE: _BERNSTEIN,
    "laplace": _BERNSTEIN,
    "gaussian": np.array([[0, -1, 1], [2, 0, -2], [0, 1, 1]]),
}
UNITS = {WHOLE: 4, "laplace": 4, "gaussian": 2}


class Asked(NamedTuple):
    """One part of what is bought: so many blocks, and how much of the budget it deserves."""

    name: str
    blocks: int
    weight: float


def coordinates(sums: Mapping[str, ExactSum], law: str) -> ExactSum:
    """Coordinates of a law, summed over the rows of each cell, in whole numbers."""
    steps = np.array([STEPS])
    rows = sums["count"].times(steps)[..., 0].times(steps)  # a column, to be added to all
    moments = (rows, sums["sums"].times(steps)[..., 0], sums["squares"])
    each = []
    for weights in COORDINATES[law]:
        terms = [m.times(np.array([k]))[..., 0] for k, m in zip(weights, moments, strict=True)]
        each.append(terms[0] + terms[1] + terms[2])
    limbs = ("high", "low") if each[0].part is None else ("high", "low", "part")
    return ExactSum(*(np.stack([getattr(e, name) for e in each], axis=-1) for name in limbs))


def planned_laplace(
    law: str,
    target: Target,
    moved: Mapping[str, float],
    shares: Mapping[str, float],
    given: Any,
    questions: Sequence[Asked],
) -> tuple[tuple[Part, ...], PrivacyLoss]:
    """Laplace noise for each part: the sums of moves over scales add up to one epsilon."""
    # A count that moves by one has a loss of its own. Where several numbers move by as much in sum,
    # as those of a mean do, or of a person's groups, it is not proven to be the worst.
    # Of whole numbers that move by one it is the worst.
    alone = moved == {"count": 1.0} and target.person is None
    numbers = 1 if alone and law != WHOLE else 2
    ratio = laws.deviation_of("laplace", 1.0, 1)
    parts = [Part(q.name, math.sqrt(q.blocks), shares[q.name]) for q in questions]
    first = {LIMITS: target.limits} if target.limits else {}  # what is found with normal noise
    first |= {PEOPLE: 1.0} if target.counts else {}
    parts += [Part(name, moves, 0.0) for name, moves in first.items()]

    def found(distance: float, normal: Mapping[str, float]) -> PrivacyLoss:
        loss = laws.loss_of("laplace", distance, numbers)
        spent = math.hypot(*(moves / normal[name] for name, moves in first.items()))
        return loss + shift_profile(spent) if spent else loss

    if given is None:
        normal = {LIMITS: target.limits_noise} if target.limits else {}
        normal |= {PEOPLE: target.people_noise} if target.counts else {}
        start = 1.0 / (target.epsilon or 1e-3)
        unit, _ = target.least_noise(lambda u: found(1.0 / u, normal), start=start)
        given = {
            name: ratio * unit * move / shares[name] * ROUND_UP * ROUND_UP
            for name, move in moved.items()
        }
        given |= normal
    known = chosen_noise(given, parts)
    noise = {str(part.name): part.noise for part in known}
    # From the noise alone, so that whoever has only that finds the same loss.
    distance = math.fsum(move * ratio / noise[name] for name, move in moved.items())
    return tuple(known), found(distance, noise)


def family(law: str) -> str:
    """Laplace's or the normal law, whatever numbers are kept whole."""
    return "laplace" if law == WHOLE else law


def covariance_of(law: str, noise: float) -> FloatArray:
    """Of the noise on the coordinates of (1, t, t^2)."""
    if law == WHOLE:
        return laws.counted_covariance(laws.scale_of("laplace", noise, 1))
    return noise**2 * np.eye(3)


def deviation_of(question: str, law: str, noise: float) -> float:
    """The standard deviation of the noise on each number of a question.

    Where numbers are kept whole it is less than that of Laplace noise, which the scale is told by.
    """
    if law != WHOLE or question not in _COUNTED:
        return noise
    if question == "means":
        return math.sqrt(covariance_of(law, noise)[0, 0])
    return laws.deviation_of(WHOLE, max(laws.scale_of("laplace", noise, 1), _SMALLEST), 1)


def reason_for(best: Plan, rest: list[Plan], questions: list[Asked], target: Target) -> str:
    """Why this law was chosen, with the noise of each that was possible."""
    if target.epsilon is None:
        return "The noise was given."
    name = questions[0].name
    many = sum(question.blocks for question in questions)
    blocks = "one block" if many == 1 else f"{many} blocks"
    of = f"A record moves {blocks} of numbers"
    noise = {p.method: deviation_of(name, p.method, p.noise_scale[name]) for p in (best, *rest)}
    if not rest:
        return f"{of}; {best.method} noise was asked for."
    told = ", ".join(f"{law} {deviation:.3g}" for law, deviation in noise.items())
    return f"{of}; standard deviation of the noise on each of {name}: {told}."
