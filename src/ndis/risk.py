"""What a privacy loss means for one person: how well somebody can attack it, exactly, rounded up.

Everything is read off delta(epsilon), the largest over both orders of two neighbours. For every
epsilon >= 0 an attack with false-positive rate alpha has a true-positive rate of at most

    delta(epsilon) + e^epsilon alpha   and   1 - e^-epsilon (1 - alpha - delta(epsilon)),

and the least of these is the best that any attack can do (docs/risk.md). So a search for the best
epsilon need not be trusted: a wrong one costs tightness. It also means that a risk is met as soon
as one (epsilon, delta) is met, which `Risk.pair` names; calibration needs nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss import PrivacyLoss, Profile
from ndis.loss.curves import Curve, lowest

__all__ = ["Risk", "advantage", "belief", "gaussian_mu", "guess", "measure", "true_positive"]

# Steps of a search, where each of them takes a while.
_FEW = 12
# Cells of the false-positive rates over which a Gaussian is fitted, and how closely.
_CELLS, _TIGHT = 512, 1e-6
# More than the rounding of the few sums and products of a line.
_ROUND_UP = 1.0 + 2.0**-49
# What is aimed at is less than what is asked for by this share, so that neither rounding nor
# another machine's last digit carries a risk above it.
_AIM = 1.0 - 2.0**-20

Height = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True)
class Risk:
    """A risk that is not to be exceeded, in place of epsilon: exactly one of these.

    Parameters
    ----------
    advantage : float
        Of the best membership attack: its true- less its false-positive rate. Somebody who thinks
        both cases equally likely then guesses right with probability (1 + advantage) / 2.
    true_positive, false_positive : float
        The true-positive rate of the best attack with this false-positive rate.
    belief, prior, beta : float
        What somebody who believed it with probability `prior` believes after the release, but for
        a probability of at most `beta`.
    guess, candidates : float, int
        The probability of guessing a record among so many equally likely candidates.

    Examples
    --------
    >>> from ndis import QuadraticLoss, Risk
    >>> risk = Risk(true_positive=0.1, false_positive=0.01)
    >>> f"{risk.of(QuadraticLoss.from_shift(1.0)):.4f}"
    '0.0924'
    """

    advantage: float | None = None
    true_positive: float | None = None
    false_positive: float | None = None
    belief: float | None = None
    prior: float | None = None
    beta: float | None = None
    guess: float | None = None
    candidates: int | None = None

    def __post_init__(self) -> None:
        given = {name for name, value in vars(self).items() if value is not None}
        if given not in map(set, _KINDS):
            kinds = ", ".join(" with ".join(kind) for kind in _KINDS)
            raise ValueError(
                f"Expected exactly one of {kinds}, got {', '.join(sorted(given)) or 'none'}; "
                "say which risk is not to be exceeded."
            )
        for name in given - {"candidates"}:
            object.__setattr__(self, name, _validate.probability(name, getattr(self, name)))
        if self.candidates is not None:
            _validate.count("candidates", self.candidates, 2)
        most, without = self.limit, self.without
        if not without < most:
            raise ValueError(
                f"Expected a risk above {without:g}, which there is without any release, got "
                f"{most:g}; raise it."
            )

    @property
    def limit(self) -> float:
        """What is not to be exceeded."""
        known = (self.advantage, self.true_positive, self.belief, self.guess)
        return next(value for value in known if value is not None)

    @property
    def without(self) -> float:
        """The same risk where nothing is released."""
        known = (self.false_positive, self.prior)
        first = next((value for value in known if value is not None), 0.0)
        return first if self.candidates is None else 1.0 / self.candidates

    @property
    def aim(self) -> float:
        """What calibration aims at, a little below the limit."""
        return self.without + _AIM * (self.limit - self.without)

    def of(self, loss: PrivacyLoss) -> float:
        """What a loss has of this kind of risk, never below it."""
        names = ("false_positive", "prior", "beta", "candidates")
        return measure(loss, **{name: getattr(self, name) for name in names})

    def pair(self, loss: PrivacyLoss | None = None) -> tuple[float, float]:
        """An (epsilon, delta) that keeps to this risk: the cheapest one for losses like this.

        Without a loss, for a Gaussian that moves.
        """
        if self.advantage is not None:
            return 0.0, self.aim
        most, level = self._attack()
        if loss is None:
            quantile = float(ndtri(level))
            mu = float(ndtri(most)) - quantile
            epsilon = -mu * quantile - 0.5 * mu * mu
        else:
            _, epsilon = _most(loss, level)
        rest = (
            most - level * math.exp(epsilon)
            if epsilon >= 0.0
            else (1.0 - level) - (1.0 - most) * math.exp(-epsilon)
        )
        return abs(epsilon), rest

    def _attack(self) -> tuple[float, float]:
        """The same risk as a true- and a false-positive rate."""
        if self.prior is not None and self.beta is not None:
            assert self.belief is not None
            odds = self.prior / (1.0 - self.prior) * (1.0 - self.belief) / self.belief
            return self.beta, self.beta * odds / _AIM
        return self.aim, self.without

    def __str__(self) -> str:
        """As on the command line."""
        return ",".join(f"{k}={v!r}" for k, v in vars(self).items() if v is not None)

    @classmethod
    def parse(cls, text: str) -> Risk:
        """Read what `str` wrote.

        Examples
        --------
        >>> from ndis import Risk
        >>> Risk.parse("true_positive=0.1,false_positive=0.01").limit
        0.1
        """
        try:
            words = dict(word.split("=") for word in text.replace(" ", "").split(","))
            numbers: dict[str, Any] = {
                name: int(value) if name == "candidates" else float(value)
                for name, value in words.items()
            }
            if not numbers.keys() <= vars(cls(advantage=0.5)).keys():
                raise ValueError
        except ValueError:
            raise ValueError(
                f"Expected a risk such as advantage=0.1 or true_positive=0.1,false_positive=0.01, "
                f"got {text!r}; correct it."
            ) from None
        return cls(**numbers)


_KINDS = (
    ("advantage",),
    ("true_positive", "false_positive"),
    ("belief", "prior", "beta"),
    ("guess", "candidates"),
)


def measure(loss: PrivacyLoss, **question: Any) -> float:
    """The risk that is asked for: by a false-positive rate, prior and beta, or candidates.

    Without any of them it is the advantage.

    Parameters
    ----------
    loss : PrivacyLoss
    **question
        ``false_positive``, or ``prior`` and ``beta``, or ``candidates``; what is None is not asked.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.risk import measure
    >>> loss = QuadraticLoss.from_shift(0.5)
    >>> f"{measure(loss):.4f} {measure(loss, candidates=10):.4f}"
    '0.1974 0.2172'
    """
    asked = {name: value for name, value in question.items() if value is not None}
    for names, risk in _QUESTIONS.items():
        if asked.keys() == set(names):
            return risk(loss, **asked)
    raise ValueError(
        f"Expected false_positive, prior and beta, or candidates, got {', '.join(asked)}; ask "
        "for one risk at a time."
    )


def advantage(loss: PrivacyLoss) -> float:
    """The largest true- less false-positive rate of any membership attack, rounded up.

    That is the total variation distance of the two laws, delta(0).

    Parameters
    ----------
    loss : PrivacyLoss

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.risk import advantage
    >>> f"{advantage(QuadraticLoss.from_shift(1.0)):.6f}"
    '0.382925'
    """
    # The same in both orders of a pair, so that one of the two will do.
    first, *others = loss.alternatives()
    parts = [first, *(part for part in others if first not in (part, part.reversed()))]
    found = max(float(part.upper_log_delta(np.zeros(1))[0]) for part in parts)
    return min(math.exp(found) * _ROUND_UP, 1.0)  # delta <= 1 is a theorem


def true_positive(loss: PrivacyLoss, false_positive: float) -> float:
    """The true-positive rate of the best attack with this false-positive rate, rounded up.

    Parameters
    ----------
    loss : PrivacyLoss
        The worst over both orders of its neighbours counts.
    false_positive : float
        How often the attack names somebody who is not there, at most; between 0 and 1.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.risk import true_positive
    >>> f"{true_positive(QuadraticLoss.from_shift(1.0), 0.05):.6f}"
    '0.259511'
    """
    level = float(_validate.floats_within("false_positive", false_positive, 0.0, 1.0))
    return _most(loss, level)[0]


def belief(loss: PrivacyLoss, prior: float, beta: float) -> float:
    """The belief that is exceeded with probability at most `beta`, rounded up.

    Somebody believes with probability `prior` that a record is there, and sees the release. Whether
    it is there or not, the belief afterwards is larger with probability at most `beta`. It holds
    for every pair of neighbours that `loss` dominates.

    Parameters
    ----------
    loss : PrivacyLoss
    prior, beta : float
        Between 0 and 1.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.risk import belief
    >>> f"{belief(QuadraticLoss.from_shift(0.5), prior=0.5, beta=0.05):.6f}"
    '0.757779'
    """
    before, rest = _validate.probability("prior", prior), _validate.probability("beta", beta)

    def height(epsilon: FloatArray, delta: FloatArray) -> FloatArray:
        # ln of beta over the least false-positive rate at that true-positive rate.
        e = np.abs(epsilon)
        # Both terms are at most 1 where it matters, and may cancel: less by what rounding can do.
        behind = np.log(rest) - np.log((1.0 - delta) - (1.0 - rest) * np.exp(e) - 2.0**-50)
        ratio = np.where(epsilon >= 0.0, e - np.log1p(-delta / rest), behind)
        return np.where(np.isnan(ratio), np.inf, ratio)

    gain, _ = _least(loss, height)
    if math.isinf(gain):
        return 1.0
    odds = (1.0 - before) / before * math.exp(-gain * _ROUND_UP)
    return min(_ROUND_UP / (1.0 + odds), 1.0)


def guess(loss: PrivacyLoss, candidates: int) -> float:
    """The probability of guessing a record among equally likely candidates, rounded up.

    It is at most the true-positive rate at a false-positive rate of one over their number.

    Parameters
    ----------
    loss : PrivacyLoss
        Of the table with any candidate against one common table: that without the record, or that
        with one of the candidates.
    candidates : int
        How many there are, at least two.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.risk import guess
    >>> f"{guess(QuadraticLoss.from_shift(0.5), 10):.6f}"
    '0.217239'
    """
    return _most(loss, 1.0 / _validate.count("candidates", candidates, 2))[0]


_QUESTIONS: dict[tuple[str, ...], Callable[..., float]] = {
    (): advantage,
    ("false_positive",): true_positive,
    ("prior", "beta"): belief,
    ("candidates",): guess,
}


def _most(loss: PrivacyLoss, level: float) -> tuple[float, float]:
    """The largest true-positive rate at a false-positive rate, and the epsilon that says so."""

    def height(epsilon: FloatArray, delta: FloatArray) -> FloatArray:
        return np.asarray(
            np.where(epsilon >= 0.0, delta, -np.expm1(epsilon))
            + np.exp(epsilon) * (level + np.where(epsilon >= 0.0, 0.0, delta))
        )

    found, epsilon = _least(loss, height)
    return min(found * _ROUND_UP, 1.0), epsilon  # a rate is at most 1


def _least(loss: PrivacyLoss, height: Height) -> tuple[float, float]:
    """The least height over epsilons and where: a function with one valley, seen at points.

    For epsilon < 0 the height is given the delta of the reversed pair at -epsilon.
    """
    loss.single()
    both = Profile(loss.directions())

    def valley(curve: Curve, *where: Any) -> tuple[float, float]:
        def heights(epsilon: FloatArray, _: Any) -> FloatArray:
            with np.errstate(all="ignore"):
                return height(epsilon, np.exp(curve(np.abs(epsilon))))

        found, epsilon = lowest(heights, 1, *where)
        return float(found[0]), float(epsilon[0])

    if both.quick:
        return valley(both.upper_log_delta)
    # A rough curve says about where; bounds are looked at there only.
    _, about = valley(both.rough_log_delta)
    return valley(both.upper_log_delta, np.sort(about * np.linspace(0.4, 1.6, 5)), _FEW)


def gaussian_mu(loss: PrivacyLoss, false_positive: float) -> tuple[float, float]:
    """The smallest mu whose Gaussian curve lies below this one at all rates >= `false_positive`.

    Rates are those of errors; with mu comes its regret. No mu does this at all rates for a sketch
    (docs/risk.md has the proof), hence the stated rate. A Gaussian shift has its mu at all rates,
    without regret.

    Parameters
    ----------
    loss : PrivacyLoss
    false_positive : float
        Tests of which both error rates are at least this count; below 1/2.

    Returns
    -------
    mu : float
        Rounded up.
    regret : float
        How much the Gaussian overstates the risk somewhere: the least k such that a test of the
        loss with both error rates worse by k is as good as the Gaussian's; to about 1e-4, as seen
        at 400 levels.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.risk import gaussian_mu
    >>> sketch = QuadraticLoss.from_leverage(0.01, n_components=100)
    >>> mu, regret = gaussian_mu(sketch, 0.01)
    >>> f"{mu:.4f} {regret:.3f}"
    '0.0787 0.002'
    """
    rate = float(_validate.floats_within("false_positive", false_positive, 0.0, 0.5, closed=False))
    both = Profile(loss.directions())
    shift = max(part.squared_shift for part in both.alternatives())
    if math.isfinite(shift):
        return math.sqrt(shift) * _ROUND_UP, 0.0

    def powers(z: FloatArray) -> FloatArray:
        """The most powerful test's quantile; a curve that rises with the level's."""
        return np.asarray(-ndtri(np.asarray(both.tradeoff(ndtr(z)))))

    # On a cell mu is at most the power at its upper end less the level at its lower one. Cells
    # where that is above what is attained are halved, up to so many.
    ends = np.linspace(float(ndtri(rate)), 0.0, _CELLS + 1)
    heights, most = powers(ends), -math.inf
    low, high, power = ends[:-1], ends[1:], heights[1:]
    attained = float(np.max(heights - ends))
    while True:
        bound = power - low
        open_ = np.flatnonzero(bound > attained * (1.0 + _TIGHT))
        most = max(most, float(np.max(np.delete(bound, open_), initial=-math.inf)))
        if not 0 < open_.size <= _CELLS:
            break
        low, high, power = low[open_], high[open_], power[open_]
        middle = 0.5 * (low + high)
        between = powers(middle)
        attained = max(attained, float(np.max(between - middle)))
        low, high = np.append(low, middle), np.append(middle, high)
        power = np.append(between, power)
    mu = max(most, float(np.max(bound)), 0.0) * _ROUND_UP
    return mu, _regret(both, mu, rate)


def _regret(both: PrivacyLoss, mu: float, rate: float) -> float:
    """The least k with f(x + k) - k <= G_mu(x) at all levels x from `rate` on."""
    levels = np.concatenate([np.geomspace(rate, 0.5, 200), np.linspace(0.5, 1.0, 201)[1:]])
    gaussian = ndtr(ndtri(1.0 - levels) - mu)
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        k = 0.5 * (low + high)
        ahead = np.asarray(both.tradeoff(np.minimum(levels + k, 1.0))) - k
        low, high = (low, k) if np.all(ahead <= gaussian) else (k, high)
    return high
