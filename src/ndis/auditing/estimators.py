"""Audits of the estimators of this library, as they are run.

Each is run on a data set and, with the same answers, on neighbours (`ndis.auditing.transcript`).
Where no question depends on an earlier answer, the two laws are known, and a refutation is a
proof. Where later questions follow earlier answers, one path tells which neighbour to look at, and
bets on many runs decide: a run on P whose answers have the likelihood ratio e^L adds
X = (1 - e^(epsilon - L))_+, whose mean is delta. If delta is at most d, a wealth that is
multiplied by 1 + s (X/d - 1) after each run, 0 <= s <= 1, passes 1/risk with probability at most
`risk`, ever (Ville).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ndis import _validate
from ndis._validate import FloatArray
from ndis.auditing.neighbours import Data, places
from ndis.auditing.transcript import Difference, Recorder, UnlikeQuestions, log_ratio
from ndis.auditing.verdict import Claim, Neighbour, Verdict, clears, decide
from ndis.gaussian import Gaussian
from ndis.guarantee import NeighbourRelation
from ndis.mechanisms.additive import GaussianMechanism
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.multiparty import Agreement, output_law
from ndis.tables import track

# The worst neighbours that a verdict lists; runs in either direction at most; what is staked.
_LISTED, _RUNS, _STAKE = 10, 100, 0.02
_REPLACED = 18  # rows of parties that are replaced
_CHANCE = "with confidence {:g}"


@dataclass
class _Worst:
    """The worst pair seen so far, given the answers of one run."""

    claim: Claim
    worst: list[Neighbour] = field(default_factory=list)
    difference: Difference = field(default_factory=Difference)
    pair: tuple[Data, Data] | None = None
    refused: list[str] = field(default_factory=list)

    def consider(self, difference: Difference, kind: str, row: int | None, *pair: Data) -> None:
        """Weigh a pair."""
        height = difference.height(self.claim.epsilon)
        if not self.worst or height > self.worst[0].log_delta:
            self.difference, self.pair = difference, (pair[0], pair[1])
        # Of records that nobody has, only the worst of each kind.
        same = [each for each in self.worst if row is None is each.row and each.kind == kind]
        if not same or same[0].log_delta < height:
            self.worst = [each for each in self.worst if each not in same]
            self.worst.append(Neighbour(height, kind, row))
        self.worst.sort(key=lambda each: -each.log_delta)
        del self.worst[_LISTED:]


def audit_estimator(
    estimator: PrivateEstimator,
    data: Data,
    claim: Any = None,
    *,
    relation: NeighbourRelation | str | None = None,
    of_table: bool = True,
    confidence: float = 0.99,
    random_state: int = 0,
) -> Verdict:
    """Look for neighbours on which an estimator breaks its claim, by running it.

    Parameters
    ----------
    estimator : PrivateEstimator
        With the noise that it was given, or that it plans.
    data : tuple
        Arguments of `fit`.
    claim : (epsilon, delta) or Guarantee, optional
        By default what the estimator promises.
    relation : NeighbourRelation or str, optional
        By default that of its promise.
    of_table : bool
        Whether neighbours of the data are looked at. If not, the verdict is about the estimator and
        families that no data have made, and may be shared.
    confidence : float
        With which a claim is refuted where rounds depend on earlier answers.
    random_state : int
        Of the audit's own draws.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateCovariance
    >>> from ndis.auditing.estimators import audit_estimator
    >>> table = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    >>> model = PrivateCovariance(epsilon=1.0, delta=1e-6, limits=[(-1, 1)] * 2)
    >>> audit_estimator(model, (table,)).outcome
    'consistent'
    >>> audit_estimator(model, (table,), claim=(0.5, 1e-6)).outcome
    'refuted'
    """
    risk = 1.0 - _validate.probability("confidence", confidence)
    recorder = Recorder(estimator)
    if isinstance(estimator, GaussianMechanism):
        return _audit_answers(estimator, data[0], claim, of_table)
    named = str(relation or getattr(estimator, "relation", NeighbourRelation.ADD_REMOVE))
    kind = NeighbourRelation(_validate.one_of("relation", named, [*map(str, NeighbourRelation)]))
    asked = Claim.of(recorder.promise(data) if claim is None else claim)
    search, hidden = _Worst(asked), getattr(estimator, "hidden_answers", 0)
    looked, rounds = list[str](), 1
    for place in places(estimator, data, kind, of_table):
        try:
            here = recorder.run(place.data)
        except UnlikeQuestions:
            raise
        except ValueError as error:  # an owner may be refused
            search.refused.append(str(error))
            continue
        rounds = max(rounds, len(here.questions))
        for name, row, other in track(place.neighbours, "Replaying on neighbours"):
            try:
                there = recorder.run(other, like=here)
            except UnlikeQuestions:
                raise
            except ValueError as error:
                search.refused.append(str(error))
                continue
            difference = Difference.between(here, there, hidden)
            search.consider(difference, name, row, place.data, other)
        if place.said not in looked:
            looked.append(place.said)
    if search.pair is None:
        raise ValueError(
            "Expected a mechanism that accepts the data and a neighbour of them, got one that "
            f"refuses all that were tried ({search.refused[0] if search.refused else 'none was'}); "
            "audit it around other data."
        )
    missed = ["other neighbours, and neighbours of other data sets"]
    if search.refused:
        missed.append(f"{len(search.refused)} data sets that the mechanism refuses")
    bound, basis, loss = search.difference.bound(asked.epsilon)
    if rounds > 1:
        looked.append(f"{rounds} questions in turn, given the answers of one run")
    if clears(bound, asked):
        here = recorder.run(search.pair[0])
        if recorder.adapts(search.pair[0], here):
            rng = np.random.default_rng(random_state)
            bets = _Bets(recorder, search.pair, asked, hidden, rng)
            bound, basis = bets.bound(risk), _CHANCE.format(confidence)
            looked.append(f"{bets.n_runs} runs on the worst pair, to bet against the claim")
    return decide(
        asked,
        search.worst[0].log_delta,
        bound,
        search.worst[0].kind,
        (*looked, *(f"not searched: {part}" for part in missed)),
        basis=basis,
        worst=tuple(search.worst),
        of_table=of_table,
        loss=loss,
    )


class _Bets:
    """Runs on both data sets of a pair in turn, and what they add to a wealth."""

    def __init__(
        self,
        recorder: Recorder,
        pair: tuple[Data, Data],
        claim: Claim,
        hidden: int,
        rng: np.random.Generator,
    ) -> None:
        self.recorder, self.pair, self.claim = recorder, pair, claim
        self.hidden, self.rng = hidden, rng
        self.gains: list[float] = []

    @property
    def n_runs(self) -> int:
        """How many there were."""
        return len(self.gains)

    def bound(self, risk: float) -> float:
        """ln of a delta that is refuted with this risk of being wrong; stops above the claim."""
        log_least = math.log(max(self.claim.delta, 1e-300))
        while self.n_runs < 2 * _RUNS and self._wealth(log_least) < -math.log(risk):
            self._run(self.pair[self.n_runs % 2], self.pair[1 - self.n_runs % 2])

        def above(log_delta: float) -> float:
            return self._wealth(log_delta) + math.log(risk)

        if above(log_least) <= 0.0:
            return -math.inf
        return float(brentq(above, log_least, 0.0)) if above(0.0) < 0.0 else 0.0

    def _wealth(self, log_delta: float) -> float:
        """Its logarithm, against a claim of this delta."""
        with np.errstate(divide="ignore"):
            won = np.log(_STAKE) + np.log(self.gains) - log_delta
        return float(np.sum(np.logaddexp(math.log1p(-_STAKE), won)))

    def _run(self, data: Data, other: Data) -> None:
        here = self.recorder.run(data, rng=self.rng)
        there = self.recorder.run(other, like=here)
        ratio = log_ratio(here, there, self.hidden)
        self.gains.append(-math.expm1(min(0.0, self.claim.epsilon - ratio)))  # the positive part


def _audit_answers(
    mechanism: GaussianMechanism, answer: Any, claim: Any, of_table: bool
) -> Verdict:
    """Answers as far apart as the sensitivity allows, in the direction with the least noise."""
    from ndis.auditing.whitebox import _Search as Pairs

    promise = mechanism.plan(np.shape(answer)).guarantee
    asked = Claim.of(promise if claim is None else claim)
    value = np.zeros(np.shape(answer))
    here = mechanism.output_law(value)
    if here.variances is not None:
        way = np.eye(1, here.dimension, int(np.argmin(here.variances)))[0]
    else:
        way = np.linalg.eigh(here.cov)[1][:, 0]
    assert mechanism.sensitivity is not None
    move = mechanism.sensitivity * way / np.linalg.norm(way) * (1.0 - 1e-12)
    search = Pairs(asked, 1)
    search.consider(here, mechanism.output_law(value + move.reshape(value.shape)), _APART)
    search.stand_above_rounding(here)
    said = "two answers as far apart as the sensitivity allows, where there is the least noise"
    return search.verdict([said], ["whether answers are never further apart"])


_APART = "two answers as far apart as declared"


def audit_parties(
    agreement: Agreement, parties: Sequence[str], table: FloatArray, claim: Any
) -> Verdict:
    """Look for rows whose replacement breaks what parties of an agreement promise.

    Parameters
    ----------
    agreement : Agreement
    parties : sequence of str
        One party, whose columns are protected, or all of them.
    table : ndarray
        Their columns, party by party.
    claim : (epsilon, delta) or Guarantee
    """
    from ndis.auditing.whitebox import _Search as Pairs

    held = [agreement.party_columns(party) for party in parties]
    limits = {name: pair for party in parties for name, pair in agreement.parties[party].items()}
    ends = np.array([limits[name] for names in held for name in names], dtype=float).T

    def law(rows: FloatArray) -> Gaussian:
        parts = np.split(rows, np.cumsum([len(names) for names in held])[:-1], axis=1)
        laws = [
            output_law(agreement, party, part) for party, part in zip(parties, parts, strict=True)
        ]
        return Gaussian.from_diagonal(
            np.concatenate([each.mean for each in laws]),
            np.concatenate([each.variances for each in laws if each.variances is not None]),
        )

    search, here = Pairs(Claim.of(claim), 1), law(table)
    away = np.abs(table - ends.mean(axis=0)).sum(axis=1)
    some = np.argsort(-away)[:_REPLACED].tolist()
    for place in track(some, "Replacing rows", len(some)):
        for end in ends:
            other = table.copy()
            other[place] = end
            search.consider(here, law(other), "one row replaced", place)
    start, other = np.tile(ends[0], (2, len(table), 1))
    other[0] = ends[1]
    search.consider(law(start), law(other), "one end of the limits replaced by the other")
    search.stand_above_rounding(here)
    looked = [f"{len(some)} rows replaced by the ends of all limits, and one end by the other"]
    return replace(search.verdict(looked, ["other rows and other tables"]), of_table=True)
