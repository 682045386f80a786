"""How many rows of a person count alike, where that is bought."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ndis
from attacks import replay
from ndis import PrivateCovariance, PrivateLeastSquares, PrivateLimits
from ndis.auditing.certificates import verify
from ndis.cli import main
from ndis.mechanisms import TableEstimator
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.people import CLEAR_OF_CLIPS, N_BINS, rows_per_person
from ndis.mechanisms.plugins import methods_of
from ndis.mechanisms.target import PEOPLE, PEOPLE_SHARE
from ndis.release import Release
from ndis.report.summary_page import write_summary

PAGE = Path(__file__).parents[2] / "docs/people.md"


def stays(n_people: int = 4000, mean: float = 5.0, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_people), rng.geometric(1.0 / mean, n_people))
    a = rng.uniform(-1, 1, len(who))
    return pa.table({"who": who, "a": a, "y": 0.5 * a + 0.1 * rng.standard_normal(len(who))})


ASKED: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "person": "who"}
MODELS = [
    partial(PrivateCovariance, **ASKED, limits={"a": (-1, 1)}, columns=["a"]),
    partial(PrivateLeastSquares, **ASKED, limits={"a": (-1, 1), "y": (-2, 2)}),
    partial(PrivateLeastSquares, **ASKED, limits="private"),
    partial(PrivateLimits, **ASKED, columns=["a"]),
]


@pytest.mark.parametrize("make", MODELS)
def test_the_number_is_that_of_most_people(make: Any) -> None:
    label = ["y"] if make.func is PrivateLeastSquares else []
    epsilon = 3.0 if label else 1.0  # clips of a regression cost more
    model = make(rows_per_person="private", epsilon=epsilon).fit(stays(8000), *label)
    assert model.rows_per_person_ in (4, 8)  # which keep .59 and .83 of the rows
    assert model.release_.parameters["rows_per_person"] == "private"
    assert model.release_.arrays[PEOPLE].shape == (N_BINS,)
    assert verify(model.release_).outcome == "checked"
    assert type(model).from_release(model.release_).rows_per_person_ == model.rows_per_person_


def test_it_is_paid_for() -> None:
    plain, bought = (MODELS[0](rows_per_person=number).plan() for number in (1, "private"))
    parts = {part.name: part for part in bought.parts}
    assert parts[PEOPLE].share == PEOPLE_SHARE
    assert sum(part.share for part in bought.parts) == pytest.approx(1.0)
    assert parts["matrix"].noise > plain.parts[0].noise
    assert bought.guarantee == plain.guarantee


@pytest.mark.parametrize("m", [1, 2, 1000, 1_000_000])
def test_nobody_is_seen_in_it(m: int) -> None:
    others = stays(200, seed=1)
    new = pa.table({"who": np.full(m, -1), "a": np.ones(m), "y": np.full(m, -2.0)})
    for make in MODELS[:2]:
        label = ["y"] if make.func is PrivateLeastSquares else []
        done = replay.compare(
            partial(make, rows_per_person="private", random_state=0),
            (pa.concat_tables([others, new]), *label),
            (others, *label),
        )
        assert not done.error
        assert 0 < done.delta <= 1e-6


def test_all_that_can_fail_fails_before_the_payment() -> None:
    broken = stays(50).append_column("b", [[None] * len(stays(50))])
    model = PrivateCovariance(
        **ASKED, limits={"b": (0, 1)}, columns=["b"], rows_per_person="private"
    )
    run = model.prepare(broken)
    with pytest.raises(ValueError, match="Column 'b'"):
        run.study()


def bought(counts: dict[int, float], noise: float = 1.0, *clear: float) -> int:
    """The number for people in bins with the ends 2^place, of noise that only hides single ones."""
    histogram = np.zeros(N_BINS)
    histogram[list(counts)] = list(counts.values())
    return rows_per_person({PEOPLE: histogram}, {PEOPLE: noise}, *clear)


def test_the_number_keeps_four_rows_in_five() -> None:
    assert bought({}) == 1
    assert bought({0: 9000.0, 3: 300.0}) == 1  # 9,300 of 10,800 rows
    assert bought({0: 9000.0, 3: 1000.0}) == 4  # 13,000 of 15,000; 11,000 with two
    assert bought({0: 9000.0, 3: 10_000.0}) == 8
    assert bought({0: 9000.0, 20: 3.9}) == 1  # noise alone is nobody


def test_it_is_no_larger_than_noise_allows() -> None:
    counts = {0: 2000.0, 1: 1600.0, 2: 2300.0, 3: 2000.0, 4: 2000.0}
    numbers = [bought(counts, noise) for noise in (1.0, 80.0, 100.0, 200.0)]
    assert numbers == [8, 4, 2, 1]
    numbers = [bought(counts, noise, CLEAR_OF_CLIPS) for noise in (1.0, 25.0, 34.0, 67.0)]
    assert numbers == [8, 4, 2, 1]


def test_who_does_not_stand_out_may_have_one_row() -> None:
    """Where one bin is seen of many its people must not be taken for all."""
    counts = {1: 180.0, 2: 200.0, 3: 200.0, 4: 250.0, 5: 170.0}
    assert bought(counts, 60.0) == 1
    assert bought({4: 250.0}, 60.0) > 1


def test_what_takes_no_signal_costs_nothing() -> None:
    """Everybody has nine rows or more: each sum is the same with any number up to eight."""
    for noise in (1.0, 200.0):
        assert bought({4: 5000.0}, noise) >= 8


@pytest.mark.parametrize("limits", [{"a": (-1, 1)}, "private"])
def test_rows_weigh_by_the_number_that_was_found(limits: Any) -> None:
    """Also where limits are found first, whose pass everybody counts once in."""
    table = stays(500, seed=2)
    noise = dict.fromkeys(("matrix", "sums", "count", PEOPLE), 0.2)
    noise |= {"limits": 0.2} if limits == "private" else {}
    model = PrivateCovariance(
        delta=1e-6,
        person="who",
        rows_per_person="private",
        limits=limits,
        columns=["a"],
        noise_scale=noise,
    ).fit(table)
    m = np.unique(table["who"].to_numpy(), return_counts=True)[1]
    wanted = np.minimum(m / model.rows_per_person_, 1.0).sum()
    assert wanted < 0.6 * len(m)
    assert float(model.release_.arrays["count"]) == pytest.approx(wanted, abs=2.0)


# -- rows that do not say whose they are -------------------------------------------------------

DECLARED = "A row without a who counts as a who of its own."


def some_alone() -> pa.Table:
    table = stays(300, seed=3)
    who = [None if k % 3 == 0 else each for k, each in enumerate(table["who"].to_pylist())]
    return table.set_column(0, "who", pa.array(who, pa.int64()))


@pytest.mark.parametrize("make", MODELS)
def test_what_is_declared_of_rows_without_a_person_is_in_the_promise(make: Any) -> None:
    label = ["y"] if make.func is PrivateLeastSquares else []
    plain, model = make(), make(missing_person="own")
    promised = model.plan(*[1] * (make.keywords.get("limits") == "private")).guarantee
    assert (promised.basis, promised.note) == ("declared", DECLARED)
    assert DECLARED in str(promised)
    model.fit(some_alone(), *label)
    assert model.guarantee_.note == DECLARED
    assert model.noise_scale_ == plain.fit(stays(300), *label).noise_scale_
    assert verify(model.release_).outcome == "checked"
    again = type(model).from_release(model.release_)
    assert (again.missing_person, again.guarantee_) == ("own", model.guarantee_)


@pytest.mark.parametrize("more", [{}, {"note": ""}, {"basis": "proven"}])
def test_a_certificate_that_hides_it_is_refuted(more: dict[str, str]) -> None:
    honest = MODELS[0](missing_person="own").fit(some_alone()).release_
    hiding = replace(honest.guarantee, **more)
    forged = Release(honest.arrays, hiding, honest.mechanism, honest.parameters)
    assert verify(forged).outcome == ("refuted" if more else "checked")


def test_a_ledger_counts_it_where_that_is_accepted(tmp_path: Path) -> None:
    model = MODELS[0](missing_person="own")
    for accept in ([], ["declared"]):
        place = tmp_path / f"{len(accept)}.ndis"
        with ndis.Ledger.create(place, 2.0, 1e-5, "person:who", accept=accept) as ledger:
            model.set_params(ledger=ledger)
            if accept:
                model.fit(some_alone())
                break
            with pytest.raises(ValueError, match=r"accept=\['declared'\]"):
                model.fit(some_alone())


@pytest.mark.parametrize("asked", [{"person": None}, {"missing_person": "each"}])
def test_it_is_declared_beside_a_person_and_in_one_word(asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="missing_person"):
        MODELS[0](**{"missing_person": "own"} | asked).plan()


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("number", [1, "private"])
def test_a_row_without_a_person_is_not_seen(gap: bool, number: Any) -> None:
    """Beside others without one, or as the only one of a table."""
    row = pa.table({"who": pa.array([None], pa.int64()), "a": [None if gap else 1.0], "y": [-2.0]})
    for make in MODELS[:2]:
        label = ["y"] if make.func is PrivateLeastSquares else []
        more = {"missing_person": "own", "rows_per_person": number, "drop_missing": gap}
        for others in (some_alone(), some_alone()[:0]):
            done = replay.compare(
                partial(make, random_state=0, **more),
                (pa.concat_tables([others, row.cast(others.schema)]), *label),
                (others, *label),
            )
            assert not done.error
            assert (done.delta > 0) == (not gap)
            assert done.delta <= 1e-6


# -- what is said of people --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"person": "who"}, "every who counts once, by the mean of their rows."),
        ({"person": "who", "rows_per_person": 3}, "rows of one who count alike up to 3, 1/3 each."),
        (
            {"person": "who", "sample_weight": "w", "max_weight": 2.0},
            "every who counts once, by the mean of their rows; rows count by w over 2.",
        ),
        ({"sample_weight": "w", "max_weight": 2.0}, "Counts are total weights: rows count by w"),
        ({}, ""),
    ],
)
def test_counts_say_what_they_are(asked: dict[str, Any], said: str, tmp_path: Path) -> None:
    table = stays(300).append_column("w", [np.ones(len(stays(300)))])
    model = ndis.PrivateSummary(epsilon=1.0, delta=1e-6, limits={"a": (-1, 1)}, **asked).fit(table)
    counts, *others = ndis.PrivateSummary.from_release(model.release_).answers()
    assert counts.title == "count"
    assert said in counts.note
    assert bool(said) == bool(counts.note)
    assert not any(each.note for each in others)
    assert (said or "\nCounts are not") in model.summary()
    write_summary(model, tmp_path / "page.html")
    assert said in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("make", MODELS[:2])
def test_a_forecast_is_for_so_many_people(make: Any) -> None:
    said, *_ = make().forecast(n_rows=2000).assumptions
    assert said == "2,000 people who count once each"


# -- who takes people at all -------------------------------------------------------------------


def estimators() -> list[type[PrivateEstimator]]:
    """All that the library has, without those that are only made of others."""
    named = (getattr(ndis, name) for name in ndis.__all__)
    return [each for each in named if isinstance(each, type) and issubclass(each, PrivateEstimator)]


def ways() -> list[tuple[type[PrivateEstimator], str]]:
    """Every estimator with every method of it, those of other packages too."""
    return [
        (each, method)
        for each in estimators()
        for method in sorted({"auto", *each.methods, *methods_of(each)} if each.methods else {""})
    ]


def page() -> tuple[str, str]:
    """The two columns of the page's table of methods."""
    table = PAGE.read_text().partition("## Which methods take it")[2].partition("\n\n## ")[0]
    lines = [line.strip().strip("|").split("|") for line in table.splitlines() if "|" in line]
    taken, refused = zip(*lines[2:], strict=True)
    return "\n".join(taken), "\n".join(refused)


@pytest.mark.parametrize(("estimator", "method"), ways())
def test_every_method_takes_people_or_says_why_not_as_the_page_has_it(
    estimator: Any, method: str
) -> None:
    taken, refused = page()
    name = f"`{estimator.__name__}`"
    if not issubclass(estimator, TableEstimator):
        assert name in refused
        with pytest.raises(TypeError, match="make one row of each person first"):
            estimator(epsilon=1.0, delta=1e-6, person="who")
        return
    own = {"n_components": 3, "method": method}
    fields = {"method"} & set(estimator.__dataclass_fields__) if method else set()
    more = {name: own[name] for name in {*estimator.needs, *fields} & own.keys()}
    model = estimator(**ASKED, **more)
    rows = [place for place, line in enumerate(taken.splitlines()) if name in line]
    beside = refused.splitlines()[rows[0]] if rows else refused
    if model._takes_weights():
        assert model._weighting().person == "who"
        assert rows
        assert f'"{method}"' not in beside
        return
    with pytest.raises(ValueError, match="make one row of each person first"):
        model._weighting()
    assert f'"{method}"' in beside if rows else name in refused


@pytest.mark.parametrize("relation", ["row-shift", "replace"])
def test_other_relations_than_adding_a_person_are_refused(relation: str) -> None:
    levels: dict[str, Any] = {"levels": {"ward": ["A", "B"]}, "by": ["ward"]}
    estimator: Any = PrivateCovariance if relation == "row-shift" else ndis.PrivateSummary
    more = {"limits": {"a": (-1, 1)}} if relation == "row-shift" else levels
    with pytest.raises(ValueError, match=r"person"):
        estimator(**ASKED, relation=relation, **more).plan()
    assert f'relation="{relation}"' in re.sub(r"\s+", " ", page()[1])


def test_the_command_line_says_who_takes_no_people(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["release", "graph", "g.csv"], ["party", "release", "a.json"]):
        with pytest.raises(SystemExit):
            main([*words, "--person", "patient"])
        assert "make one row of each person first" in capsys.readouterr().err
