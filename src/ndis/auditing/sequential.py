"""Bets against a claim: a test that may stop whenever it has won.

A claim (epsilon, delta) says, of the laws P and Q of the outputs on two neighbours, that
E_P f <= e^epsilon E_Q f + delta for every function f with values in [0, 1], and the same with P and
Q exchanged. Let phi have values in [0, U], psi in [0, V], and let l + m = 2 - (U + V) delta. Draw
an output x of P and y of Q. Then, wherever neither factor can be negative,

    F(x) G(y) = (l + phi(x) - e^epsilon psi(x)) (m - e^epsilon phi(y) + psi(y))

has mean at most 1 if the claim holds: the means of the two factors add up to at most 2. So a bettor
who multiplies such products, choosing phi, psi, l, U and V from what was seen before, has a wealth
that ever exceeds 1/risk with probability at most `risk` (Ville).

If w(x) is the probability that an output x came from P and not from Q, the wealth grows fastest
with phi = w (l + e^-epsilon m) - l, and psi alike with 1 - w and the roles exchanged, both cut to
their ranges: F and G are then likelihood ratios of (P, Q) to the nearest pair that obeys the claim.
A classifier that learns from the outputs seen so far estimates w. Each output is scored before it
is learned from; those scores tell how far to trust the classifier, and which l, U and V to choose.
Several classifiers bet with purses of their own; the mean of their wealths is a wealth too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ndis._validate import FloatArray

# What part of the fastest bet a gambler dares: estimates from few outputs promise too much.
_DARING = np.array([1.0, 0.4])
# Pairs of outputs seen before the first bet, and from which trees are learned.
_FIRST, _MANY = 12, 48
# Classifiers learn anew when this many times as many outputs have been seen, of the last so many.
_AGAIN, _LONGEST = 1.5, 20_000
# Bets are made for batches of this share of what was seen.
_BATCH = 0.1
# A bound of delta is looked for among so many values above the claim.
_BOUNDS = 12
# Log-odds beyond this are as good as certain.
_CERTAIN = 12.0
# Levels between which scores are counted, as shares of what was seen, and how many outputs the
# curve of the scores is worth between two of them.
_SHARES = np.array([0.01, 0.03, 0.06, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.94, 0.97, 0.99])
_PRIOR = 20.0


class SequentialTest:
    """A test of delta(epsilon) <= delta that looks after every pair of outputs.

    Parameters
    ----------
    epsilon, delta : float
        The claim.
    risk : float
        With at most this probability a true claim is ever refuted.
    classifier : scikit-learn classifier, optional
        What tells the outputs apart; by default linear and quadratic discriminants and boosted
        trees.
    low_bits : bool
        Whether the trees see on which grid each number lies.

    Attributes
    ----------
    n_pairs : int
        Pairs of outputs looked at, until the claim was refuted.
    refuted : bool
    lower_bound : float
        Delta is at least this, with the confidence asked for; 0 while nothing is known.
    estimate : float
        The largest P(S) - e^epsilon Q(S) by the frequencies of outputs that the score had not
        seen.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        risk: float,
        classifier: Any = None,
        low_bits: bool = True,
    ) -> None:
        self._factor = math.exp(epsilon)
        # Values of delta, the claim first; a hair above it, so that to refute one is to be above.
        least = max(delta * (1.0 + 1e-6), 1e-12)
        above = np.geomspace(max(1.1 * least, 1e-7), 0.999, _BOUNDS)
        self._deltas = np.concatenate([[least], above[above > least]])
        self._wall = -math.log(risk)
        self._best = np.zeros(self._deltas.size, dtype=bool)
        self._classifiers: list[Any] = [_Linear(), Quadratic(), _trees(low_bits)]
        if classifier is not None:
            self._classifiers = [Given(classifier)]
        kinds = len(self._classifiers)
        self._seen: list[FloatArray] = []  # outputs of the first and second data set, paired
        self._scores = np.zeros((kinds, 2, 0))  # of outputs, before they were learned from
        self._learned = np.zeros(kinds)  # from how many pairs
        self._purse = np.zeros((self._deltas.size, kinds * _DARING.size))  # logs of wealths
        self._terms = np.zeros((3, self._deltas.size, kinds))  # l - m, U and V
        self._terms[1:] = 0.5 / self._factor
        self.n_pairs = 0

    def describe(self) -> str:
        """What the outputs are scored by."""
        return ", ".join(kind.name for kind in self._classifiers)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return bool(self._best[0])

    @property
    def lower_bound(self) -> float:
        """The largest delta up to which all are refuted."""
        n_refuted = int(np.argmin(np.append(self._best, False)))
        return float(self._deltas[n_refuted - 1]) if n_refuted else 0.0

    @property
    def estimate(self) -> float:
        """The largest P(S) - e^epsilon Q(S) that was seen, over the sets above a score."""
        n = self._scores.shape[2]
        if n == 0:
            return 0.0
        found = 0.0  # the empty set gives delta >= 0
        for first, second in self._scores:
            levels = np.quantile(np.concatenate([first, second]), np.linspace(0.02, 1.0, 25))
            above = [(part[:, None] >= levels).mean(axis=0) for part in (first, second)]
            below = [(part[:, None] <= levels).mean(axis=0) for part in (second, first)]
            gains = (part[0] - self._factor * part[1] for part in (above, below))
            found = max(found, *(float(gain.max()) for gain in gains))
        return found

    def run(self, first: FloatArray, second: FloatArray) -> None:
        """Look at more pairs of outputs, in order, until the claim is refuted."""
        start = 0
        while start < len(first) and not self.refuted:
            room = _FIRST - self.n_pairs if self.n_pairs < _FIRST else int(_BATCH * self.n_pairs)
            part = slice(start, start + max(4, room))
            new = np.stack([first[part], second[part]])
            self._bet(new)
            start += new.shape[1]

    def _bet(self, new: FloatArray) -> None:
        used = new.shape[1]
        if self.n_pairs >= _FIRST:
            self._learn()
            scores = np.stack([_scored(kind, new) for kind in self._classifiers])
            steps = self._steps(scores)  # (deltas, n, gamblers)
            path = _log_mean(self._purse[:, None] + np.cumsum(steps, axis=1))  # (deltas, n)
            self._best |= (path >= self._wall).any(axis=1)
            if self._best[0]:
                used = int(np.argmax(path[0] >= self._wall)) + 1
            self._purse = self._purse + steps.sum(axis=1)
            self._scores = np.concatenate([self._scores, scores[..., :used]], axis=2)
        self._seen.append(new)
        self.n_pairs += used

    def _learn(self) -> None:
        """Let those classifiers learn for which there is enough that is new."""
        due = [
            number
            for number, kind in enumerate(self._classifiers)
            if self.n_pairs >= max(kind.least, _AGAIN * self._learned[number])
        ]
        if due:
            seen = np.concatenate(self._seen, axis=1)[:, -_LONGEST:]
            self._seen = [seen]
            for number in due:
                self._classifiers[number].learn(seen[0], seen[1])
                self._learned[number] = self.n_pairs

    def _steps(self, scores: FloatArray) -> FloatArray:
        """Ln of the factors of a batch of pairs, by all gamblers."""
        parts = [_Share(*old) for old in self._scores]
        delta = self._deltas[:, None, None]
        share, counts = (np.stack([getattr(part, name) for part in parts])
                         for name in ("share", "counts"))  # fmt: skip
        self._terms = best_terms(share, counts, self._factor, delta, self._terms)
        now = np.stack([part(score) for part, score in zip(parts, scores, strict=True)])
        terms = self._terms[..., None]
        ahead = bet(now[:, 0], self._factor, delta, terms)[0]
        behind = bet(now[:, 1], self._factor, delta, terms)[1]
        steps = [np.log1p(d * (ahead - 1.0)) + np.log1p(d * (behind - 1.0)) for d in _DARING]
        return np.concatenate(steps, axis=1).swapaxes(1, 2)


class _Share:
    """The probability of an output with some score to have come from the first law.

    From the scores that earlier outputs had before they were learned from: a logistic curve of the
    score, corrected by how often either law gave scores between two levels.
    """

    def __init__(self, first: FloatArray, second: FloatArray) -> None:
        seen = np.sort(np.concatenate([first, second]))
        self._levels = np.quantile(seen, _SHARES) if seen.size else np.zeros(_SHARES.size)
        places = [np.searchsorted(self._levels, part) for part in (first, second)]
        counts = np.array([np.bincount(part, minlength=_SHARES.size + 1) for part in places])
        shift, trust = _calibrated(first, second)
        middle = np.convolve(np.concatenate([self._levels[:1], self._levels, self._levels[-1:]]),
                             [0.5, 0.5], "valid")  # fmt: skip
        curve = 1.0 / (1.0 + np.exp(-shift - trust * middle))
        both = counts.sum(axis=0)
        self.share = (counts[0] + _PRIOR * curve) / (both + _PRIOR)
        # Two more pairs, which could be of one law, keep the first bets small.
        self.counts = counts + (both + 1e-9) / (both.sum() + 1.0)

    def __call__(self, scores: FloatArray) -> FloatArray:
        return np.asarray(self.share[np.searchsorted(self._levels, scores)])


def bet(
    share: FloatArray, factor: float, delta: Any, terms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The factors F and G of an output that came from P, and not from Q, with probability `share`.

    Terms are l - m, U and V. The mean of F under P times that of G under Q is at most 1 for every
    pair of laws that obeys the claim.

    Examples
    --------
    >>> import numpy as np
    >>> F, G = bet(np.array([0.0, 0.5, 1.0]), factor=np.e, delta=0.0, terms=np.array([0, 0.3, 0.3]))
    >>> print(F.round(2), G.round(2))
    [0.18 1.   1.3 ] [1.3  1.   0.18]
    """
    difference, most, most_back = terms
    total = 2.0 - (most + most_back) * delta
    left, right = 0.5 * (total + difference), 0.5 * (total - difference)
    # Up to these values no factor is negative.
    most = np.minimum(most, 0.999 * right / factor)
    most_back = np.minimum(most_back, 0.999 * left / factor)
    phi = np.minimum(np.maximum(share * (left + right / factor) - left, 0.0), most)
    psi = np.minimum(np.maximum((1.0 - share) * (right + left / factor) - right, 0.0), most_back)
    return left + phi - factor * psi, right - factor * phi + psi


def best_terms(
    share: FloatArray, counts: FloatArray, factor: float, delta: Any, terms: FloatArray
) -> FloatArray:
    """Terms under which the wealth grows faster, if outputs come as often as counted.

    The growth is concave in the three terms; each is searched once, from where they were.
    """

    def growth(number: int, value: FloatArray) -> FloatArray:
        trial = terms.copy()
        trial[number] = value
        ahead, behind = bet(share, factor, delta, trial[..., None])
        return np.asarray((counts[:, 0] * np.log(ahead) + counts[:, 1] * np.log(behind)).sum(-1))

    terms, golden = terms.copy(), 0.5 * (math.sqrt(5.0) - 1.0)
    # Within these ends l and m stay positive.
    most = 1.0 / (factor * np.maximum(1.0, 2.0 * delta[..., 0]))
    for number, (low, high) in enumerate([(-0.9, 0.9), (0.0, most), (0.0, most)]):
        lows, highs = np.full(terms.shape[1:], low), np.full(terms.shape[1:], 1.0) * high
        ends = [highs - golden * (highs - lows), lows + golden * (highs - lows)]
        values = [growth(number, end) for end in ends]
        for _ in range(8):
            down = values[0] > values[1]
            lows, highs = np.where(down, lows, ends[0]), np.where(down, ends[1], highs)
            fresh = np.where(down, highs - golden * (highs - lows), lows + golden * (highs - lows))
            kept, value = np.where(down, *ends), np.where(down, *values)
            new = growth(number, fresh)
            ends = [np.where(down, fresh, kept), np.where(down, kept, fresh)]
            values = [np.where(down, new, value), np.where(down, value, new)]
        terms[number] = 0.5 * (lows + highs)
    return terms


def _calibrated(first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """A shift and a slope of log-odds that would have fitted past outputs, by logistic regression.

    With few outputs a shift of 0 and a slope of 1/2 are as likely as anything.
    """
    scores = np.concatenate([first, second])
    known = np.repeat([1.0, 0.0], first.size)
    design = np.column_stack([np.ones(scores.size), scores])
    prior, weight = np.array([0.0, 0.5]), np.diag([4.0, 4.0])
    found = prior.copy()
    for _ in range(8):
        share = 1.0 / (1.0 + np.exp(-design @ found))
        slope = design.T @ (known - share) - weight @ (found - prior)
        bend = (design.T * (share * (1.0 - share))) @ design + weight
        found = found + np.linalg.solve(bend, slope)
    # It only proposes a bet: no score counts the wrong way round, or more than twice.
    return float(found[0]), float(np.clip(found[1], 0.0, 2.0))


class Quadratic:
    """Log-odds of two normal laws, with covariances that are shrunk to their diagonals."""

    name, least = "a quadratic one", _FIRST
    one_covariance = False

    def learn(self, first: FloatArray, second: FloatArray) -> None:
        """Learn from outputs of either law."""
        self._laws = [_moments(part) for part in (first, second)]
        covariances = [law[1] for law in self._laws]
        if self.one_covariance:
            covariances = [0.5 * (covariances[0] + covariances[1])] * 2
        width = np.sqrt(np.diag(_moments(np.concatenate([first, second]))[1]))
        self._width = np.where(width > 0.0, width, 1.0)
        part = min(0.9, (2.0 + 0.5 * width.size) / len(first))
        self._roots = []
        for matrix in covariances:
            scaled = matrix / np.outer(self._width, self._width)
            scaled = (1.0 - part) * scaled + part * np.diag(np.diag(scaled) + 0.1 * part)
            self._roots.append(np.linalg.cholesky(scaled + 1e-9 * np.eye(width.size)))

    def score(self, outputs: FloatArray) -> FloatArray:
        """Score outputs: higher where the first law is more likely."""
        logs = []
        for (mean, _), root in zip(self._laws, self._roots, strict=True):
            flat = np.linalg.solve(root, ((outputs - mean) / self._width).T)
            logs.append(-0.5 * (flat**2).sum(axis=0) - np.log(np.diag(root)).sum())
        return np.asarray(logs[0] - logs[1])


class _Linear(Quadratic):
    """The same with one covariance."""

    name = "a linear discriminant"
    one_covariance = True


class Given:
    """Log-odds by any classifier, of what it is to `see` of the outputs."""

    def __init__(
        self,
        classifier: Any,
        name: str = "",
        least: int = _FIRST,
        see: Callable[[FloatArray], FloatArray] = np.asarray,
    ) -> None:
        self._model, self.name = classifier, name or type(classifier).__name__
        self.least, self._see = least, see

    def learn(self, first: FloatArray, second: FloatArray) -> None:
        """Learn from outputs of either law."""
        from sklearn.base import clone
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        seen, known = self._see(np.concatenate([first, second])), np.repeat([1, 0], len(first))
        self._fitted = make_pipeline(StandardScaler(), clone(self._model)).fit(seen, known)

    def score(self, outputs: FloatArray) -> FloatArray:
        """Score outputs: higher where the first law is more likely."""
        shares = self._fitted.predict_proba(self._see(outputs))
        # A score only proposes a bet: probabilities of 0 and 1 get a finite one.
        share = np.clip(shares[:, list(self._fitted.classes_).index(1)], 1e-9, 1.0 - 1e-9)
        return np.asarray(np.log(share) - np.log1p(-share))


def _trees(low_bits: bool) -> Given:
    """Log-odds by boosted trees, which may also see on which grid each number lies."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=15, learning_rate=0.2, min_samples_leaf=8, early_stopping=False
    )
    if not low_bits:
        return Given(model, "boosted trees", _MANY)
    return Given(model, "boosted trees with low bits", _MANY, _with_grids)


def _with_grids(outputs: FloatArray) -> FloatArray:
    """Outputs beside the exponents of the largest powers of two that divide them."""
    fraction, exponent = np.frexp(outputs)
    whole = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] + exponent
    return np.concatenate([outputs, np.where(outputs == 0.0, 2000.0, lowest)], axis=1)


def _scored(kind: Any, outputs: FloatArray) -> FloatArray:
    if not hasattr(kind, "_fitted") and not hasattr(kind, "_laws"):
        return np.zeros(outputs.shape[:2])  # has not learned yet
    # A score only proposes a bet.
    return np.asarray(np.clip([kind.score(part) for part in outputs], -_CERTAIN, _CERTAIN))


def _moments(outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    return outputs.mean(axis=0), np.atleast_2d(np.cov(outputs.T))


def _log_mean(logs: FloatArray) -> FloatArray:
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.mean(np.exp(logs - top), axis=-1)))
