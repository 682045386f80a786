"""An audit of training code that is too dear to run twice.

Put m canaries, records made for the audit, into the data: each one by a fair coin of its own. Run
the algorithm once. Then say of as many canaries as you like whether they were in, from whatever
the algorithm gave out, and count the right guesses. Under (epsilon, 0)-differential privacy for
one record each guess, whatever the others were, is right with probability at most
q = e^epsilon / (1 + e^epsilon): the number of right ones is at most Binomial(r, q) in
distribution. Delta adds at most 2 m delta max_i P(v - i <= Binomial(r, q) < v) / i to the
probability of v or more (Steinke, Nasr and Jagielski, 2023, theorem 5.2).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from ndis import _validate
from ndis.auditing.verdict import Claim, Verdict, decide


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
    values = _validate.floats("scores", scores, ndim=1)
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
    found = _least_delta(m, r, right, asked.epsilon, 0.5)
    with np.errstate(divide="ignore"):
        logs = float(np.log(found)), float(np.log(bound))
    searched = (
        f"{m} canaries in one run, {r} guessed, {right} rightly",
        "not searched: other canaries, other scores, other runs",
    )
    basis = f"with confidence {confidence:g}"
    return decide(asked, *logs, "the canaries given", searched, basis=basis)


def chance_of_guesses(n_canaries: int, n_guesses: int, right: int, claim: Any) -> float:
    """The probability, at most, of so many right guesses or more if a claim holds.

    Examples
    --------
    >>> from ndis.auditing.one_run import chance_of_guesses
    >>> f"{chance_of_guesses(100, 50, 45, (1.0, 0.0)):.4f}"
    '0.0031'
    """
    asked = Claim.of(claim)
    exact, slope = _chance(n_guesses, right, asked.epsilon)
    return min(1.0, exact + 2.0 * n_canaries * asked.delta * slope)


def _chance(r: int, right: int, epsilon: float) -> tuple[float, float]:
    """P(W >= v) and the largest P(v - i <= W < v)/i over i, W ~ Binomial(r, q)."""
    q = 1.0 / (1.0 + math.exp(-epsilon))
    below = binom.pmf(np.arange(right - 1, -1, -1), r, q)
    slope = np.max(np.cumsum(below) / np.arange(1, right + 1), initial=0.0)
    return float(binom.sf(right - 1, r, q)), float(slope)


def _least_delta(m: int, r: int, right: int, epsilon: float, risk: float) -> float:
    """The largest delta at which so many right guesses are still a surprise; 0 if at none."""
    exact, slope = _chance(r, right, epsilon)
    if exact > risk:
        return 0.0
    return min(1.0, (risk - exact) / max(2.0 * m * slope, 1e-300))
