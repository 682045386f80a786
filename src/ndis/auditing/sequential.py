"""Bets against a claim: a test that may stop whenever it has won.

A claim (epsilon, delta) says P(S) <= e^epsilon Q(S) + delta for every set S of outputs. Draw an
output of either data set, and let a and b say whether each lies in S. For any q0 >= 0, with
p0 = e^epsilon q0 + delta, and any stake u small enough that neither factor is negative,

    (1 + u (a - p0)) (1 - e^epsilon u (b - q0))

has mean at most 1 if the claim holds: with P(S) = p0 + e^epsilon t and Q(S) = q0 + t it is
1 - (e^epsilon u t)^2, and a smaller P(S) only lowers the first factor. So whoever multiplies such
factors, choosing S, q0 and u from what was seen before, has a wealth that exceeds 1/risk with
probability at most `risk`, ever (Ville). The choice here is the one under which the wealth grows
fastest if the frequencies seen so far are the probabilities, which is the likelihood ratio against
the nearest pair (p0, q0) that obeys the claim. Many gamblers bet on many sets; the mean of their
wealths is a wealth too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndis._validate import FloatArray

# Thresholds of the score on which gamblers bet, in each direction, as shares of what was seen.
_SHARES = np.array([0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.995, 1.0])
# What part of the fastest stake a gambler dares: frequencies of few samples promise too much.
_DARING = np.array([1.0, 0.5])
# Pairs of outputs seen before the first bet, and from which the second kind of score is learned.
_FIRST, _MANY = 16, 200
# Bets are made for batches of this share of what was seen.
_BATCH = 0.1
# A bound of delta is looked for among so many values above the claim.
_BOUNDS = 20


class SequentialTest:
    """A test of delta(epsilon) <= delta that looks after every pair of outputs.

    Parameters
    ----------
    epsilon, delta : float
        The claim.
    risk : float
        With at most this probability a true claim is ever refuted.
    classifier : scikit-learn classifier, optional
        What proposes sets; by default quadratic discriminants and, from 200 pairs, boosted trees.

    Attributes
    ----------
    n_pairs : int
        Pairs of outputs looked at, until the claim was refuted.
    refuted : bool
    lower_bound : float
        Delta is at least this, with the confidence asked for; 0 while nothing is known.
    estimate : float
        The largest P(S) - e^epsilon Q(S) by the frequencies of outputs that the score has not
        seen.
    n_sets : int
        Sets that are bet on at a time.
    """

    def __init__(self, epsilon: float, delta: float, risk: float, classifier: Any = None) -> None:
        self._factor = math.exp(epsilon)
        # Values of delta, the claim first; a hair above it, so that to refute one is to be above.
        least = max(delta * (1.0 + 1e-6), 1e-12)
        above = np.geomspace(max(1.1 * least, 1e-7), 0.999, _BOUNDS)
        self._deltas = np.concatenate([[least], above[above > least]])
        self._wall = -math.log(risk)
        self._classifier = classifier
        self._seen: list[FloatArray] = []  # outputs of the first and second data set, paired
        self._wealth = np.zeros(self._deltas.size)  # ln of the mean over gamblers, so far
        self._best = np.zeros(self._deltas.size, dtype=bool)
        # What is bet on: scores, levels of each, how often outputs of either law were beyond them
        # when these were learned and by now, and what each gambler has.
        self._scores: list[Any] = []
        self._levels: list[FloatArray] = []
        self._trained = self._counts = np.zeros((2, 0))
        self._purse = np.zeros((self._deltas.size, 0))
        self._unseen = 0
        self.n_pairs = 0
        self.estimate = 0.0
        self.n_sets = 0

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return bool(self._best[0])

    @property
    def lower_bound(self) -> float:
        """The largest delta up to which all are refuted."""
        n_refuted = int(np.argmin(np.append(self._best, False)))
        return float(self._deltas[n_refuted - 1]) if n_refuted else 0.0

    def run(self, first: FloatArray, second: FloatArray) -> None:
        """Look at more pairs of outputs, in order, until the claim is refuted."""
        start = 0
        while start < len(first) and not self.refuted:
            # Scores are learned anew whenever twice as many outputs have been seen.
            learned = 0 if self.n_pairs < _FIRST else 2 ** int(math.log2(self.n_pairs))
            room = _FIRST - self.n_pairs if not learned else 2 * learned - self.n_pairs
            size = min(room, max(4, int(_BATCH * self.n_pairs)), len(first) - start)
            part = slice(start, start + size)
            self._bet(first[part], second[part], learned)
            start += size

    def _bet(self, first: FloatArray, second: FloatArray, learned: int) -> None:
        new = np.stack([first, second])
        used = new.shape[1]
        if learned:
            if self.n_pairs == learned:
                self._learn()
            bits = self._bits(new)  # (2, n, sets)
            steps = self._steps(bits)
            path = _log_mean(self._purse[:, None] + np.cumsum(steps, axis=1))  # (deltas, n)
            self._best |= (path >= self._wall).any(axis=1)
            if self._best[0]:
                used = int(np.argmax(path[0] >= self._wall)) + 1
            self._purse = self._purse + steps.sum(axis=1)
            self._wealth = path[:, -1]
            self._counts = self._counts + bits.sum(axis=1)
            self._unseen += used
            fresh = self._counts - self._trained
            gain = fresh[0] - self._factor * fresh[1]
            # The empty set gives delta >= 0, so this is no clip.
            self.estimate = max(0.0, float(gain.max()) / self._unseen)
        self._seen.append(new)
        self.n_pairs += used

    def _learn(self) -> None:
        """Propose sets from all that was seen, and share out the wealth among new gamblers."""
        seen = np.concatenate(self._seen, axis=1)
        self._scores = _learn(seen[0], seen[1], self._classifier)
        self._levels = [np.quantile(score(np.concatenate(seen)), _SHARES) for score in self._scores]
        # The largest score seen is a level of its own: beyond it lies what one law never gives.
        self._counts = self._bits(seen).sum(axis=1)
        self._trained, self._unseen = self._counts, 0
        self.n_sets = self._counts.shape[1]
        shape = (self._deltas.size, _DARING.size * self.n_sets)
        self._purse = np.broadcast_to(self._wealth[:, None], shape)

    def _bits(self, outputs: FloatArray) -> FloatArray:
        """Whether outputs of the laws (P, Q) lie in each set: shape (2, n, sets).

        Sets above a level are bet on as they are; below it the two laws change places.
        """
        parts = []
        for score, levels in zip(self._scores, self._levels, strict=True):
            values = np.stack([score(law) for law in outputs])[..., None]
            above, below = values >= levels, values <= levels
            parts += [above, below[::-1]]
        return np.concatenate(parts, axis=2).astype(np.float64)

    def _steps(self, bits: FloatArray) -> FloatArray:
        """Ln of the factors of a batch of pairs: shape (deltas, n, gamblers)."""
        n = self.n_pairs + 1.0
        p, q = (self._counts + 0.5) / n
        q0, stake = fastest_bet(p, q, self._factor, self._deltas[:, None])
        p0 = self._factor * q0 + self._deltas[:, None]
        a, b = bits
        parts = []
        for daring in _DARING:
            u = (daring * stake)[:, None]
            won = np.log1p(u * (a - p0[:, None]))
            parts.append(won + np.log1p(-self._factor * u * (b - q0[:, None])))
        return np.concatenate(parts, axis=2)


def fastest_bet(p: Any, q: Any, factor: float, delta: Any) -> tuple[FloatArray, FloatArray]:
    """The q0 and the stake of the likelihood ratio of (p, q) to the nearest pair that obeys.

    Stakes are 0 where (p, q) itself obeys p <= factor q + delta. Errors of this computation make a
    bet slower, never unfair.

    Examples
    --------
    >>> q0, stake = fastest_bet(0.5, 0.1, 1.0, 0.1)
    >>> f"{float(q0):.4f} {float(stake):.4f}"
    '0.2339 0.7471'
    """
    p, q, delta = np.broadcast_arrays(np.asarray(p, np.float64), q, delta)
    # The divergence along the boundary is convex in q0: bisect its derivative, which rises.
    low = np.maximum((1e-12 - delta) / factor, 1e-12) + np.zeros(p.shape)
    high = np.maximum((1.0 - 1e-12 - delta) / factor, 2e-12)
    for _ in range(60):
        middle = 0.5 * (low + high)
        p0 = np.minimum(factor * middle + delta, 1.0 - 1e-13)
        slope = factor * (p0 - p) / (p0 * (1.0 - p0)) + (middle - q) / (middle * (1.0 - middle))
        low, high = np.where(slope < 0, middle, low), np.where(slope < 0, high, middle)
    q0 = low
    p0 = factor * q0 + delta
    with np.errstate(divide="ignore", invalid="ignore"):
        stake = (p - p0) / (p0 * (1.0 - p0))
    # Neither factor may reach 0: a gambler who has lost everything never bets again.
    most = 0.999 * np.minimum(1.0 / p0, 1.0 / (factor * (1.0 - q0)))
    obeys = ~(p > factor * q + delta)
    return q0, np.where(obeys | ~np.isfinite(stake), 0.0, np.minimum(np.maximum(stake, 0.0), most))


def _learn(first: FloatArray, second: FloatArray, classifier: Any) -> list[Any]:
    """Functions that score outputs: higher where the first law is more likely."""
    from sklearn.base import clone
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    models = [classifier]
    if classifier is None:
        models = [QuadraticDiscriminantAnalysis(reg_param=min(0.5, 4.0 / len(first)))]
        if len(first) >= _MANY:
            models.append(HistGradientBoostingClassifier(max_iter=30, early_stopping=False))
    seen, known = np.concatenate([first, second]), np.repeat([1, 0], len(first))
    return [_score(make_pipeline(StandardScaler(), clone(m)).fit(seen, known)) for m in models]


def _score(model: Any) -> Any:
    place = list(model.classes_).index(1)

    def score(outputs: FloatArray) -> FloatArray:
        # A score only proposes sets: probabilities of 0 and 1 get a finite one.
        share = np.clip(model.predict_proba(outputs)[:, place], 1e-300, 1.0 - 1e-16)
        return np.asarray(np.log(share) - np.log1p(-share))

    return score


def _log_mean(logs: FloatArray) -> FloatArray:
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.mean(np.exp(logs - top), axis=-1)))
