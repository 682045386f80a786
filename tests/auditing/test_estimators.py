"""Every estimator and every method is audited as it runs: nothing of it is written twice.

What it promises is consistent with the worst that is found; the same noise sold for a sixth of the
epsilon is refuted, with a proof or with the stated confidence.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.stats import binom

from commands import example_estimator
from estimators import Case, all_cases
from ndis import GaussianMechanism, PrivateCovariance, PrivateLeastSquares, PrivateLimits, audit
from ndis.auditing import estimators, neighbours
from ndis.auditing.estimators import audit_estimator
from ndis.auditing.transcript import Difference, Recorder, UnlikeQuestions, log_ratio
from ndis.auditing.verdict import PROVEN
from ndis.randomness import add_noise
from ndis.tables import weights

# Those that take a while, on a machine that does nothing else.
DEAR = ("logistic", "output", "projection ptr", "least squares, als", "least squares, gaussian")
CASES = [
    pytest.param(case, id=case.name, marks=[pytest.mark.slow] * case.name.startswith(DEAR))
    for case in all_cases()
]
# No data that we know of are as bad as what these are calibrated for: a thirtieth of the noise.
LOOSE = ("process, posterior", "output, worst case")
FEW = (np.array([1.0, -1.0]),)  # numbers whose posterior moves a lot without one of them
CLAIM, SOLD = (1.0, 1e-6), (1.0 / 6.0, 1e-6)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The families that no data made are searched as always, the table a little."""
    monkeypatch.setattr(neighbours, "_ROWS", 3)
    monkeypatch.setattr(neighbours, "_PAIRS", 10)


@pytest.mark.parametrize("case", CASES)
def test_a_promise_is_kept_and_more_than_it_is_refuted(case: Case) -> None:
    model = case.make(epsilon=CLAIM[0], delta=CLAIM[1])
    kept = audit(model, case.data())
    assert kept.outcome == "consistent"
    assert kept.delta <= CLAIM[1] * (1.0 + 1e-9)
    claim = SOLD
    if case.name in LOOSE:
        less = case.make(epsilon=None, delta=CLAIM[1], noise_scale=model.calibrate(case.size) / 30)
        model, claim = less, CLAIM
    data = FEW if case.name.startswith("output") else case.data()
    sold = audit(model, data, claim)
    assert sold.outcome == "refuted"
    assert sold.lower_bound <= sold.delta
    assert sold.of_table == (not isinstance(model, GaussianMechanism))


def test_noise_that_was_given_is_the_noise_that_is_audited() -> None:
    table = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    known: dict[str, Any] = {"delta": 1e-6, "limits": [(-1, 1)] * 2}
    noise = PrivateCovariance(epsilon=1.0, **known).calibrate()
    less = {name: value / 3.0 for name, value in noise.items()}
    model = PrivateCovariance(noise_scale=less, **known)
    assert audit(model, (table,), CLAIM).refuted
    assert audit(model, (table,)).outcome == "consistent"  # its promise follows from its noise
    assert audit(model, (table,), CLAIM).basis == PROVEN


def test_families_that_no_data_made_know_nothing_of_the_data() -> None:
    rng = np.random.default_rng(0)
    verdicts = [
        audit_estimator(
            PrivateCovariance(epsilon=1.0, delta=1e-6, limits=[(-1, 1)] * 2),
            (table,),
            SOLD,
            of_table=False,
        )
        for table in (rng.uniform(-1, 1, (20, 2)), rng.uniform(-1, 1, (7, 2)))
    ]
    assert verdicts[0].refuted
    assert not verdicts[0].of_table
    assert verdicts[0].to_dict() == verdicts[1].to_dict()


# -- mechanisms of other people -------------------------------------------------------------------


EXAMPLE = example_estimator()


def people() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (20, 2))


def mean(**changed: Any) -> Any:
    """The example of docs/how-to-add-a-mechanism.md, with some of its methods changed."""
    own = type("PrivateMean", (EXAMPLE,), changed)
    return own(epsilon=1.0, delta=1e-6, limits=[(-1, 1)] * 2)


def test_a_mechanism_that_follows_the_protocol_can_be_audited() -> None:
    assert audit(mean(), (people(),)).outcome == "consistent"
    assert audit(mean(), (people(),)).delta > 0.99e-6


def test_a_sum_that_moves_further_than_it_says_is_refuted() -> None:
    def louder(self: Any, studied: Any, *args: Any) -> Any:
        doubled = {name: total + total for name, total in studied.items()}
        return EXAMPLE._draw(self, doubled, *args)

    verdict = audit(mean(_draw=louder), (people(),))
    assert verdict.refuted
    assert verdict.basis == PROVEN


def test_noise_that_depends_on_the_data_is_told() -> None:
    def peeking(self: Any, studied: Any, plan: Any, table: Any, rng: Any) -> Any:
        scale = 5.0 + float(studied["count"].value)
        return {"sums": add_noise(studied["sums"], scale, rng)}

    with pytest.raises(UnlikeQuestions, match="audit it by samples"):
        audit(mean(_draw=peeking), (people(),))


# -- bets -----------------------------------------------------------------------------------------


def limits() -> tuple[Recorder, tuple[Any, Any]]:
    table = np.random.default_rng(5).uniform(18, 90, (60, 1))
    model = PrivateLimits(epsilon=1.0, delta=1e-2)
    return Recorder(model), ((table,), (table[1:],))


def test_rounds_that_follow_answers_are_told_from_those_that_do_not() -> None:
    recorder, (data, _) = limits()
    assert recorder.adapts(data, recorder.run(data))
    fixed = Recorder(PrivateCovariance(epsilon=1.0, delta=1e-6, limits=[(-1, 1)] * 2))
    assert not fixed.adapts((people(),), fixed.run((people(),)))


@pytest.mark.parametrize("n", [60, pytest.param(1000, marks=pytest.mark.evidence)])
def test_likelihood_ratios_of_runs_have_delta_as_their_mean(n: int) -> None:
    """E (1 - e^(epsilon - L))_+ is delta, which is known for limits: one shift on every path."""
    recorder, (data, other) = limits()
    rng, gains = np.random.default_rng(0), []
    for _ in range(n):
        here = recorder.run(data, rng=rng)
        there = recorder.run(other, like=here)
        gains.append(max(0.0, -math.expm1(min(0.0, 0.1 - log_ratio(here, there)))))
    square = Difference.between(here, there).square
    truth = math.exp(Difference(square=square).height(0.1))
    error = np.std(gains) / math.sqrt(n)
    assert abs(np.mean(gains) - truth) < 4.0 * error
    assert truth > 0.03


@pytest.mark.evidence
def test_a_true_claim_is_refuted_as_rarely_as_stated() -> None:
    """Of delta itself, at a risk of a fifth, and with bets of a size that a win decides."""
    recorder, pair = limits()
    here = recorder.run(pair[0])
    square = Difference.between(here, recorder.run(pair[1], like=here)).square
    delta = math.exp(Difference(square=square).height(1.5))
    refuted = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        claim = estimators.Claim(1.5, delta)
        refuted += estimators._bet(recorder, pair, claim, 0, rng, 0.2)[0] > -math.inf
    assert refuted <= binom.ppf(0.999, 100, 0.2)


# -- people --------------------------------------------------------------------------------------


def stays(text: bool = True) -> pa.Table:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(30), rng.geometric(0.3, 30))
    return pa.table(
        {
            "who": [f"id {each}" for each in who] if text else who,
            "a": rng.uniform(-1, 1, len(who)),
            "b": rng.uniform(-1, 1, len(who)),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["formula", "levels", "label beside"])
def test_text_and_formulas_can_be_audited(form: str) -> None:
    rng = np.random.default_rng(0)
    sector = pa.array(rng.choice(["Pédiatrie", "Urgences"], 30)).cast(pa.large_string())  # pandas'
    columns = {"age": pa.array(rng.uniform(18, 80, 30)), "sector": sector}
    pay = rng.uniform(0, 8000, 30)
    limits, levels = {"age": (18, 80), "pay": (0, 8000)}, {"sector": ["Pédiatrie", "Urgences"]}
    asked: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "limits": limits, "levels": levels}
    data: tuple[Any, ...] = (pa.table(columns | {"pay": pay}), "pay")
    if form == "levels":
        asked |= {"levels": {"sector": ["Urgences"]}, "columns": ["age", "sector", "pay"]}
    else:
        pytest.importorskip("formulaic")
        asked["formula"] = "pay ~ age + C(sector) + age:C(sector)"
        data = (pa.table(columns), pa.table({"pay": pay})) if form == "label beside" else data[:1]
    model = PrivateLeastSquares(**asked)
    verdict = audit_estimator(model, data)
    assert verdict.outcome == "consistent"
    assert verdict.log_delta > math.log(0.99e-6)  # the bound is reached
    assert audit_estimator(model, data, claim=(0.3, 1e-6)).outcome == "refuted"


def of_people(**more: Any) -> PrivateCovariance:
    limits = {"a": (-1, 1), "b": (-1, 1)}
    asked: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "limits": limits, "columns": ["a", "b"]}
    return PrivateCovariance(**asked | {"person": "who"} | more)


@pytest.mark.parametrize("text", [True, False])
def test_people_with_many_rows_are_tried(text: bool) -> None:
    verdict = audit_estimator(of_people(), (stays(text),))
    assert verdict.outcome == "consistent"
    assert verdict.log_delta > math.log(0.99e-6)  # the bound is reached
    assert any("people with 1 to 1000 rows" in each for each in verdict.searched)
    assert audit_estimator(of_people(), (stays(text),), of_table=False).outcome == "consistent"
    capped = audit_estimator(of_people(rows_per_person=3), (stays(text),))
    assert capped.outcome == "consistent"


@pytest.mark.parametrize("declared", ["own", "refuse"])
def test_rows_without_a_person_are_tried_where_they_count(declared: str) -> None:
    table = stays(True)
    who = [None if k % 4 == 0 else each for k, each in enumerate(table["who"].to_pylist())]
    table = table.set_column(0, "who", [who])
    model = of_people(missing_person=declared, drop_missing=declared == "refuse")
    for rows in (table, table.set_column(0, "who", [[None] * len(who)])):
        verdict = audit_estimator(model, (rows,))
        assert verdict.outcome == "consistent"
        n = len({*rows["who"].to_pylist()} - {None}) + (declared == "own") * rows["who"].null_count
        assert any(f" of {n} people of the table" in each for each in verdict.searched)


def test_a_promise_for_rows_is_refuted_for_people() -> None:
    verdict = audit_estimator(of_people(person=None), (stays(),), relation="person:who")
    assert verdict.outcome == "refuted"


def forgetful(counts: Any) -> Any:
    """As if rows were counted in one file of many."""
    return np.minimum(counts, 3)


def doubled(counts: Any) -> Any:
    """As if every second row were counted."""
    return (counts + 1) // 2


@pytest.mark.parametrize("wrong", [forgetful, doubled])
def test_wrong_weights_are_refuted(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of = weights.Lookup.of
    monkeypatch.setattr(weights.Lookup, "of", lambda self, found: wrong(of(self, found)))
    assert audit_estimator(of_people(), (stays(),)).outcome == "refuted"


def test_ids_that_are_taken_for_one_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leaves changes the weights of those who are taken for them."""
    whole = weights.ids
    monkeypatch.setattr(
        weights, "ids", lambda *given, **more: pc.utf8_slice_codeunits(whole(*given, **more), 0, 1)
    )
    rows = {"who": ["x1"] * 500 + ["x2", "y"], "a": [1.0] * 502, "b": [1.0] * 500 + [-1.0, 0.0]}
    assert audit_estimator(of_people(), (pa.table(rows),)).outcome == "refuted"
