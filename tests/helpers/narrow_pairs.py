"""Random pairs of which the first law is the narrower: their loss is bounded, and delta ends there.

The truth is computed by mpmath and the tests' oracle from the numbers as given to a factory; it
shares no code with `ndis`.
"""

import math
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpf

from dense_pairs import terms_as_given
from ndis import Gaussian, QuadraticLoss, privacy_loss
from oracles import Term, delta_reference, loss_laws

SEED = 30
KINDS = ("leverage", "log ratios", "numbers", "composed", "dense")


class NarrowPair(NamedTuple):
    kind: str
    loss: QuadraticLoss
    terms: list[Term]
    delta: float


def narrow_pair(number: int) -> NarrowPair:
    """Pair `number`, and a delta from 1e-6 down to 1e-30."""
    rng = np.random.default_rng([SEED, number])
    kind = KINDS[number % len(KINDS)]
    loss, terms = globals()[f"_{kind.replace(' ', '_')}"](rng)
    return NarrowPair(kind, loss, terms, float(10 ** rng.uniform(-30, -6)))


def _leverage(rng: np.random.Generator) -> tuple[QuadraticLoss, list[Term]]:
    p, r = 1.0 - float(10 ** rng.uniform(-4, -1e-4)), int(rng.choice([1, 1, 2, 3, 10, 60]))
    return QuadraticLoss.from_leverage(p, r).reversed(), [Term.from_leverage(p, r).reversed()]


def _log_ratios(rng: np.random.Generator) -> tuple[QuadraticLoss, list[Term]]:
    logs, shifts, counts = _directions(rng)
    loss = QuadraticLoss.from_log_ratios(logs, shifts, counts)
    rows = zip(logs.tolist(), shifts.tolist(), counts.tolist(), strict=True)
    return loss, [Term.from_log_ratio(*row) for row in rows]


def _directions(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logarithms of ratios, shifts that do not hide them, and counts."""
    d = int(rng.integers(1, 4))
    logs = -(10 ** rng.uniform(-3, 0.5)) * rng.uniform(0.3, 1.0, d)
    shifts = np.abs(logs) * 10 ** rng.uniform(-1, 0.5, d) * rng.integers(2)
    return logs, shifts, rng.choice([1, 1, 2, 5], d)


def _numbers(rng: np.random.Generator) -> tuple[QuadraticLoss, list[Term]]:
    logs, shifts, counts = _directions(rng)
    excess, total = np.expm1(logs), shifts**2 * counts
    rows = zip(excess.tolist(), total.tolist(), counts.tolist(), strict=True)
    return QuadraticLoss(excess, total, counts), [Term.from_excess(*row) for row in rows]


def _composed(rng: np.random.Generator) -> tuple[QuadraticLoss, list[Term]]:
    (one, first), (two, second), k = _leverage(rng), _log_ratios(rng), int(rng.integers(1, 4))
    return k * one + two, [*(term.repeated(k) for term in first), *second]


def _dense(rng: np.random.Generator) -> tuple[QuadraticLoss, list[Term]]:
    d = int(rng.integers(2, 5))
    a, b = rng.standard_normal((2, d, d))
    narrow = a.T @ a / d + 0.1 * np.eye(d)
    wide = narrow + 10 ** rng.uniform(-1, 0.5) * (b.T @ b / d + 0.3 * np.eye(d))
    mean = 0.1 * rng.standard_normal(d) * rng.integers(2)
    P, Q = Gaussian(mean, 0.5 * (narrow + narrow.T)), Gaussian(np.zeros(d), 0.5 * (wide + wide.T))
    terms = terms_as_given(P, Q)
    assert isinstance(terms, list)
    return privacy_loss(P, Q), terms


def true_end(terms: list[Term]) -> mpf:
    """The largest value of the loss."""
    with mp.workdps(60):
        return loss_laws(terms)[0].shift


def excess_of_delta(pair: NarrowPair, epsilon: float) -> float:
    """How far the true delta at an epsilon is above the one asked for, relatively; -1 where 0.

    Closer to the end than 1e-40 it takes the delta there, which is larger: the oracle would need
    all digits between.
    """
    with mp.workdps(100):
        end = true_end(pair.terms)
        at = min(mpf(epsilon), end * (1 - mpf(10) ** -40)) if 0 < epsilon < end else mpf(epsilon)
        truth = delta_reference(pair.terms, at, 20).value
        return float(truth / mpf(pair.delta) - 1)


def share_of_end(pair: NarrowPair, epsilon: float) -> float:
    """The distance from the end of the loss, relatively."""
    end = true_end(pair.terms)
    return float((end - mpf(epsilon)) / end) if end > 0 else math.inf
