"""How many rows of a person count alike, where that is bought."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from attacks import replay
from ndis import PrivateCovariance, PrivateLeastSquares, PrivateLimits
from ndis.auditing.certificates import verify
from ndis.mechanisms.people import N_BINS, rows_per_person
from ndis.mechanisms.target import PEOPLE, PEOPLE_SHARE


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
    model = make(rows_per_person="private").fit(stays(), *label)
    assert model.rows_per_person_ in (8, 16)  # nine of ten have at most 11 rows
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


@pytest.mark.parametrize("m", [1, 2, 1000])
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


def test_noise_alone_is_no_people() -> None:
    noise = {PEOPLE: 10.0}
    counts = np.zeros(N_BINS)
    counts[[0, 3]] = 900.0, 100.0
    assert rows_per_person({PEOPLE: counts}, noise) == 1
    counts[20] = 29.0  # below three deviations
    assert rows_per_person({PEOPLE: counts}, noise) == 1
    counts[3] = 101.0
    assert rows_per_person({PEOPLE: counts}, noise) == 8
    assert rows_per_person({PEOPLE: np.zeros(N_BINS)}, noise) == 1


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
