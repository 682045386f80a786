"""An audit of training code that is too dear to run twice.

Put m canaries, records made for the audit, into the data: each one by a fair coin of its own. Run
the algorithm once. Then say of as many canaries as you like whether they were in, from whatever
the algorithm gave out, and count the right guesses, W of r.

Under (epsilon, 0)-differential privacy for one record each guess, whatever the others were, is
right with probability at most q = e^epsilon / (1 + e^epsilon): W is at most Binomial(r, q) in
distribution. Delta adds at most 2 m delta max_i P(v - i <= Binomial(r, q) < v) / i to the
probability of v or more (Steinke, Nasr and Jagielski, 2023, theorem 5.2).

A second bound uses the whole curve that is claimed (the idea of Mahloujifar, Melis and Chaudhuri,
2024). With everything else fixed, turn the coin of one canary over: a right guess of it with W = w
becomes a wrong one with W = w - 1. The claim bounds the probability of the former by e^epsilon
times that of the latter plus delta, for all w >= k together and for every (epsilon, delta) of the
curve. Averaged over the m canaries and their coins, with p_w = P(W = w), that is

    sum over w >= k of w p_w  <=  e^epsilon sum over w >= k - 1 of (r - w) p_w  +  m delta.

The largest P(W >= v) under these constraints is found from above: all of it is at w = v, and each
p_w below is as small as the constraint for k = w + 1 allows. (Were one larger, moving a part of it
one step down would leave the sums of (r - w) p_w as they are, lower those of w p_w and the total.)
Where the total would exceed 1, P(W >= v) is smaller. Both bounds hold, so the smaller one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.auditing.verdict import Claim, Verdict
from ndis.loss import PrivacyLoss

# A total probability above this is above 1, whatever rounding did.
_FULL = 1.0 + 1e-9


def audit_one_run(
    scores: ArrayLike,
    included: ArrayLike,
    claim: Any,
    *,
    n_guesses: int | None = None,
    confidence: float = 0.99,
) -> Verdict:
    """Test a claim on one run, by guesses at which canaries took part in it.

    Parameters
    ----------
    scores : array_like of shape (m,)
        One number for each canary, larger where it seems to have been in: the fall of its loss, or
        the inner product of its gradient with the change of the weights.
    included : array_like of bool, shape (m,)
        Whether it was in; each by its own fair coin, tossed before the run.
    claim : (epsilon, delta) or Guarantee
        What is claimed for one record that comes or goes.
    n_guesses : int, optional
        How many canaries to guess: the half of them with the largest scores is said to have been
        in, the half with the smallest not. Half of all by default. Choose it before looking.
    confidence : float
        A true claim is refuted with probability at most 1 - confidence.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.auditing import audit_one_run
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(1000) < 0.5
    >>> noisy = included + rng.standard_normal(1000)  # one number of each canary, noise 1
    >>> audit_one_run(noisy, included, (0.5, 1e-5)).outcome
    'refuted'
    """
    asked = Claim.of(claim)
    risk = 1.0 - _validate.probability("confidence", confidence)
    values = _validate.floats("scores", scores, (None,))
    coins = np.asarray(included)
    if coins.shape != values.shape or coins.dtype != np.bool_:
        raise ValueError(
            f"Expected one true or false for each of {values.size} canaries in included, got "
            f"shape {coins.shape} of {coins.dtype}; say of each whether it was in."
        )
    m = values.size
    r = max(2, m // 2) if n_guesses is None else _validate.count("n_guesses", n_guesses, 2)
    if r > m:
        raise ValueError(f"Expected at most {m} guesses, one for each canary, got {r}; make fewer.")
    order = np.argsort(values, kind="stable")
    right = int(coins[order[m - (r - r // 2) :]].sum() + (~coins[order[: r // 2]]).sum())
    bound = _least_delta(m, r, right, asked.epsilon, risk)
    found = max(bound, _least_delta_by_binomial(m, r, right, asked.epsilon, 0.5))
    with np.errstate(divide="ignore"):
        logs = float(np.log(found)), float(np.log(bound))
    searched = f"{m} canaries in one run, {r} guessed, {right} rightly"
    missed, basis = "other canaries, other scores, other runs", f"with confidence {confidence:g}"
    return Verdict(asked, *logs, "the canaries given", (searched,), (missed,), basis=basis)


def chance_of_guesses(n_canaries: int, n_guesses: int, right: int, claim: Any) -> float:
    """The probability, at most, of so many right guesses or more if a claim holds.

    Parameters
    ----------
    n_canaries, n_guesses, right : int
        Canaries, guesses made, and how many of these were right.
    claim : (epsilon, delta), Guarantee or PrivacyLoss
        One point of the privacy curve, or all of it: then everything that the curve says counts.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.auditing.one_run import chance_of_guesses
    >>> f"{chance_of_guesses(100, 50, 45, (1.0, 0.0)):.4f}"
    '0.0031'
    >>> chance_of_guesses(1000, 500, 450, QuadraticLoss.from_shift(0.5)) < 1e-3
    True
    """
    m, r, points = n_canaries, n_guesses, _points(claim)
    by_binomial = min(_by_binomial(m, r, right, *point) for point in points)
    if right == 0:
        return by_binomial
    lines = _lines(points[:, None])  # against many chances at once
    return min(by_binomial, _largest(lambda c: _least_total(m, r, right, c, lines) <= _FULL)[1])


def _points(claim: Any) -> FloatArray:
    """Pairs (epsilon, delta) that are claimed, one in each row."""
    if not isinstance(claim, PrivacyLoss):
        asked = Claim.of(claim)
        return np.array([[asked.epsilon, asked.delta]])
    losses = claim, claim.reversed()
    epsilons = np.linspace(0.0, max(loss.epsilon(1e-9) for loss in losses), 40)
    return np.column_stack([epsilons, np.max([loss.delta(epsilons) for loss in losses], axis=0)])


def _by_binomial(m: int, r: int, right: int, epsilon: float, delta: float) -> float:
    exact, slope = _binomial(r, right, epsilon)
    return min(1.0, exact + 2.0 * m * delta * slope)


def _binomial(r: int, right: int, epsilon: float) -> tuple[float, float]:
    """P(W >= v) and the largest P(v - i <= W < v)/i over i, W ~ Binomial(r, q)."""
    from scipy.stats import binom

    q = 1.0 / (1.0 + math.exp(-epsilon))
    below = binom.pmf(np.arange(right - 1, -1, -1), r, q)
    slope = np.max(np.cumsum(below) / np.arange(1, right + 1), initial=0.0)
    return float(binom.sf(right - 1, r, q)), float(slope)


def _lines(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ends and slopes: P <= e^eps Q + delta of sets, and of complements with P and Q exchanged."""
    factors, deltas = np.exp(points[..., 0]), points[..., 1]
    ends = np.concatenate([deltas, 1.0 - (1.0 - deltas) / factors])
    return ends, np.concatenate([1.0 / factors, factors])


def _least_total(
    m: int, r: int, right: int, chance: Any, lines: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """The least total probability with P(W >= right) = chance, as far as it is below 1."""
    ends, slopes = m * lines[0], lines[1]
    hits, misses, total = right * chance, (r - right) * chance, chance
    for w in range(right - 1, -1, -1):
        needed = np.max(slopes * (hits - ends), axis=0)
        # A probability of at least 0; any above 1 ends it, and 2 does not overflow later.
        p = np.minimum(np.maximum(needed - misses, 0.0) / (r - w), 2.0)
        hits, misses, total = hits + w * p, misses + (r - w) * p, total + p
        if np.all(total > _FULL):
            break
    return np.asarray(total)


def _largest(holds: Callable[[FloatArray], Any]) -> tuple[float, float]:
    """Two near numbers in [1e-15, 1]: something holds up to the first; (1, 1) if everywhere."""
    low, high = 1e-15, 1.0
    for _ in range(3):
        grid = np.geomspace(low, high, 64)
        first = int(np.argmin(np.append(holds(grid), False)))
        if first == 64:
            return 1.0, 1.0
        low, high = float(grid[max(first - 1, 0)]), float(grid[first])
    return low, high


def _least_delta(m: int, r: int, right: int, epsilon: float, risk: float) -> float:
    """The largest delta at which so many right guesses are still a surprise; 0 if at none."""
    by_binomial = _least_delta_by_binomial(m, r, right, epsilon, risk)

    def surprise(delta: FloatArray) -> Any:
        lines = _lines(np.stack([np.full_like(delta, epsilon), delta], axis=-1)[None])
        return _least_total(m, r, right, np.full_like(delta, risk), lines) > _FULL

    if right == 0 or not surprise(np.array([1e-15]))[0]:
        return by_binomial
    return max(by_binomial, _largest(surprise)[0])


def _least_delta_by_binomial(m: int, r: int, right: int, epsilon: float, risk: float) -> float:
    exact, slope = _binomial(r, right, epsilon)
    if risk <= exact:
        return 0.0  # no surprise without delta either
    # With no right guess there is no slope, and exact = 1; a delta is at most 1.
    return min(1.0, (risk - exact) / (2.0 * m * slope))
