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
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ndis._validate import FloatArray
from ndis.auditing.neighbours import Data, Neighbours, Place, places
from ndis.auditing.transcript import Difference, Recorder, Transcript, UnlikeQuestions, log_ratio
from ndis.auditing.verdict import Claim, Neighbour, Verdict, clears
from ndis.guarantee import NeighbourRelation
from ndis.mechanisms import PrivateEstimator
from ndis.mechanisms.additive import GaussianMechanism
from ndis.mechanisms.multiparty import Agreement, release_party
from ndis.randomness.listening import listening
from ndis.tables import track

# The worst neighbours that a verdict lists; runs in either direction at most; what is staked; and
# with what confidence a claim is refuted where rounds depend on earlier answers.
_LISTED, _RUNS, _STAKE, _CONFIDENCE = 10, 100, 0.02, 0.99
_REPLACED = 18  # rows of parties that are replaced


@dataclass
class Search:
    """The worst pair of data sets seen so far, at the claimed epsilon.

    `compare` tells what a mechanism did on one data set from what it did on a neighbour.
    """

    claim: Claim
    compare: Callable[[Any, Any], Difference]
    worst: list[Neighbour] = field(default_factory=list)
    difference: Difference = field(default_factory=Difference)
    pair: tuple[Data, Data] | None = None
    looked: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def look(self, places: Iterable[Place], run: Callable[..., Any]) -> None:
        """Run a mechanism on data sets and their neighbours: `run(data)`, `run(other, like)`."""
        for place in places:
            here = self._accepted(run, place.data)
            if here is None:
                continue
            for name, row, other in track(place.neighbours, "Looking at neighbours"):
                there = self._accepted(run, other, here)
                if there is not None:
                    self._consider(self.compare(here, there), name, row, (place.data, other))
            if place.said not in self.looked:
                self.looked.append(place.said)

    def _accepted(self, run: Callable[..., Any], *data: Any) -> Any:
        """The result of a run; None where the mechanism refuses, as it may."""
        try:
            return run(*data)
        except UnlikeQuestions:
            raise
        except ValueError as error:
            self.refused.append(str(error))
            return None

    def _consider(
        self, difference: Difference, kind: str, row: int | None, pair: tuple[Data, Data]
    ) -> None:
        height = difference.height(self.claim.epsilon)
        if not self.worst or height > self.worst[0].log_delta:
            self.difference, self.pair = difference, pair
        # Of records that nobody has, only the worst of each kind.
        same = [
            each for each in self.worst if row is None and each.row is None and each.kind == kind
        ]
        if not same or same[0].log_delta < height:
            self.worst = [each for each in self.worst if each not in same]
            self.worst.append(Neighbour(height, kind, row))
        self.worst.sort(key=lambda each: -each.log_delta)
        del self.worst[_LISTED:]

    def verdict(
        self, of_table: bool = True, bound: tuple[float, str, Any] | None = None
    ) -> Verdict:
        """The verdict; by default its bound is that of the worst pair's difference."""
        if self.pair is None:
            raise ValueError(
                "Expected a mechanism that accepts the data and a neighbour of them, got one that "
                f"refuses all that were tried ({[*self.refused, 'none was'][0]}); audit it around "
                "other data."
            )
        log_bound, basis, loss = bound or self.difference.bound(self.claim)
        missed = [*self.missed, "other neighbours, and neighbours of other data sets"]
        if self.refused:
            missed.append(f"{len(self.refused)} data sets that the mechanism refuses")
        return Verdict(
            self.claim,
            self.worst[0].log_delta,
            log_bound,
            self.worst[0].kind,
            tuple(self.looked),
            tuple(missed),
            basis=basis,
            worst=tuple(self.worst),
            of_table=of_table,
            loss=loss,
        )


def audit_estimator(
    estimator: PrivateEstimator,
    data: Data,
    claim: Any = None,
    *,
    relation: NeighbourRelation | str | None = None,
    of_table: bool = True,
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
    recorder, hidden = Recorder(estimator), getattr(estimator, "hidden_answers", 0)
    own = getattr(estimator, "relation", NeighbourRelation.ADD_REMOVE)
    if (person := getattr(estimator, "person", None)) is not None:
        own = NeighbourRelation.of_person(person)
    kind = NeighbourRelation(relation or own)
    asked = Claim.of(recorder.promise(data) if claim is None else claim)
    search = Search(asked, lambda here, there: Difference.between(here, there, hidden))
    around = places(recorder.prepare(data), data, kind, asked.epsilon, of_table)
    search.look(around, recorder.run)
    if search.difference.sampled:
        search.missed.append("what a row shows in directions that other rows of a sample have, too")
    bound = search.difference.bound(asked)
    if search.pair is not None:
        here = recorder.run(search.pair[0])
        if len(here.questions) > 1:
            search.looked.append(
                f"{len(here.questions)} questions in turn, given the answers of one run"
            )
        if clears(bound[0], asked) and recorder.adapts(search.pair[0], here):
            rng = np.random.default_rng(0)  # an audit can be repeated
            low, runs = _bet(recorder, search.pair, asked, hidden, rng, 1.0 - _CONFIDENCE)
            bound = low, f"with confidence {_CONFIDENCE:g}", bound[2]
            search.looked.append(f"{runs} runs on the worst pair, to bet against the claim")
    return search.verdict(of_table and not isinstance(estimator, GaussianMechanism), bound)


def _bet(
    recorder: Recorder,
    pair: tuple[Data, Data],
    claim: Claim,
    hidden: int,
    rng: np.random.Generator,
    risk: float,
) -> tuple[float, int]:
    """ln of a delta that is refuted with this risk of being wrong, and how many runs it took.

    Runs are on both data sets in turn, until the wealth against the claim is large enough.
    """
    gains: list[float] = []

    def above(log_delta: float) -> float:
        """How far the logarithm of the wealth against a claim of this delta is above its wall."""
        with np.errstate(divide="ignore"):
            won = np.log(_STAKE) + np.log(gains) - log_delta
        return float(np.sum(np.logaddexp(math.log1p(-_STAKE), won))) + math.log(risk)

    from scipy.optimize import brentq

    log_least = math.log(max(claim.delta, 1e-300))
    while len(gains) < 2 * _RUNS and above(log_least) < 0.0:
        first = len(gains) % 2
        here = recorder.run(pair[first], rng=rng)
        ratio = log_ratio(here, recorder.run(pair[1 - first], like=here), hidden)
        gains.append(-math.expm1(min(0.0, claim.epsilon - ratio)))  # the positive part
    if above(log_least) <= 0.0:
        return -math.inf, len(gains)
    return float(brentq(above, log_least, 0.0)) if above(0.0) < 0.0 else 0.0, len(gains)


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
    held = [agreement.party_columns(party) for party in parties]
    limits = {name: pair for party in parties for name, pair in agreement.parties[party].items()}
    ends = np.array([limits[name] for names in held for name in names], dtype=float).T

    cuts = np.cumsum([len(names) for names in held])[:-1]

    def run(data: Data, like: Transcript | None = None) -> Transcript:
        done = Transcript([] if like is None else like.answers, like=like)
        with listening(done), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing is published
            for party, part in zip(parties, np.split(data[0], cuts, axis=1), strict=True):
                release_party(agreement, party, part, random_state=0)
        return done

    away = np.abs(table - ends.mean(axis=0)).sum(axis=1)
    some = np.argsort(-away)[:_REPLACED].tolist()

    def replaced(rows: FloatArray, place: int, end: FloatArray) -> Data:
        other = rows.copy()
        other[place] = end
        return (other,)

    around: Neighbours = (
        ("one row replaced", place, replaced(table, place, end)) for place in some for end in ends
    )
    start = np.tile(ends[0], (len(table), 1))
    other = ("one end of the limits replaced by the other", None, replaced(start, 0, ends[1]))
    search = Search(Claim.of(claim), Difference.between)
    search.look(
        [
            Place((table,), around, f"{len(some)} rows replaced by the ends of all limits"),
            Place((start,), iter([other]), "one end of all limits replaced by the other"),
        ],
        run,
    )
    return search.verdict()
