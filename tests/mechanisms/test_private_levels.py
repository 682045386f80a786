"""Levels that are found, to be used by several estimators."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ndis import (
    Ledger,
    PrivateLeastSquares,
    PrivateLevels,
    PrivateLogisticRegression,
    PrivateSummary,
    QuadraticLoss,
    Release,
)
from ndis.mechanisms.levels import exceeds

ASKED: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


def rents(n: int = 4000) -> pa.Table:
    rng = np.random.default_rng(6)
    town = rng.choice(["Ada", "Bern", "Cork", "Dale"], n, p=[0.5, 0.3, 0.199, 0.001])
    rent = 1000 + 500 * (town == "Ada") + rng.normal(0, 100, n)
    return pa.table({"town": town, "code": (town == "Ada") + 10, "rent": rent})


def test_what_is_found_serves_any_estimator_from_one_budget(tmp_path: Any) -> None:
    table = rents()
    with Ledger.create(tmp_path / "book", 1.5, 2e-6, "add-remove", accept=["seeded"]) as book:
        found = PrivateLevels(columns=["town"], ledger=book, **ASKED).fit(table)
        assert found.levels_ == {"town": ["Ada", "Bern", "Cork"]}
        known = {"town": found.levels_["town"][1:]}
        model = PrivateLeastSquares(
            columns=["town", "rent"],
            levels=known,
            label_limits=(0, 3000),
            epsilon=0.3,
            delta=1e-7,
            random_state=0,
            ledger=book,
        ).fit(table, "rent")
        assert model.intercept_ == pytest.approx(1500, abs=150)
        assert len(book.history()) == 2
    classes = PrivateLogisticRegression(
        classes=known["town"], levels={}, limits={"rent": (0, 3000)}
    )
    assert classes.classes == ["Bern", "Cork"]


def test_whole_numbers_that_were_found_are_levels_of_their_column() -> None:
    found = PrivateLevels(columns=["code"], **ASKED).fit(rents())
    known = {"code": [int(level) for level in found.levels_["code"]]}
    model = PrivateLeastSquares(
        columns=["code", "rent"], levels=known, label_limits=(0, 3000), **ASKED
    ).fit(rents(), "rent")
    assert model.feature_names_ == ("code=10", "code=11")
    assert model.coef_[1] - model.coef_[0] == pytest.approx(500, abs=100)


def test_a_level_of_one_row_is_published_with_its_share_of_delta_at_most() -> None:
    for law, k in (("laplace", 1), ("gaussian", 1), ("laplace", 3), ("gaussian", 3)):
        model = PrivateLevels(columns=["a", "b", "c"][:k], method=law, epsilon=1.0, delta=1e-6)
        noise = model.plan().noise_scale["levels"]
        each = exceeds(law, 1.0, noise, model._threshold(law, noise))
        assert 0.97e-7 < k * each <= 1e-7
        assert model.plan().guarantee.epsilon == 1.0


@pytest.mark.parametrize("k", [1, 3, 40])
def test_a_row_moves_one_count_of_each_column(k: int) -> None:
    columns, given = [f"c{n}" for n in range(k)], {"levels": 7.0}
    for law in ("laplace", "gaussian"):
        more: dict[str, Any] = {"columns": columns, "method": law, "noise_scale": given}
        loss = PrivateLevels(**more, epsilon=None, delta=1e-6).plan().loss
        if law == "laplace":
            epsilon = k * math.sqrt(2.0) / 7.0
            assert loss.delta(1.01 * epsilon) == pytest.approx(1e-7, rel=1e-3)
            assert loss.delta(0.98 * epsilon) > 1e-5
        else:
            shift = QuadraticLoss.from_shift(math.sqrt(k) / 7.0)
            for epsilon in (0.1, 1.0, 2.0):
                true = float(shift.delta(epsilon)) + 1e-7
                assert true * (1.0 - 1e-6) <= loss.delta(epsilon) <= 1.1 * true


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("k", [1, 4])
def test_levels_of_one_person_fail_with_their_share_together(law: str, k: int) -> None:
    asked: dict[str, Any] = {"person": "who", "levels_per_person": k, "method": law, **ASKED}
    found = PrivateLevels(columns=["town"], **asked)
    summary = PrivateSummary(levels={"town": "private"}, **asked)
    for model in (found, summary):
        noise = model.plan().noise_scale["levels"]
        above = model._threshold(law, noise)
        failure = exceeds(law, 1.0, noise, above) + (k - 1) * exceeds(law, 0.0, noise, above)
        assert 0.9e-7 < failure <= 1e-7


def test_the_law_with_the_lower_threshold_is_chosen() -> None:
    plan = PrivateLevels(columns=["a"], epsilon=1.0, delta=1e-6).plan()
    assert plan.method == "laplace"
    many = PrivateLevels(columns=[f"c{k}" for k in range(40)], epsilon=1.0, delta=1e-6).plan()
    assert many.method == "gaussian"
    assert "threshold" in many.reason


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_people_count_once_whatever_their_rows(law: str) -> None:
    """One person with a thousand rows of a level of their own does not make it known."""
    frame = pd.DataFrame({"who": np.arange(600), "town": np.repeat(["Ada", "Bern"], 300)})
    alone = pd.DataFrame({"who": [9999] * 1000, "town": ["mine"] * 1000})
    both = pd.concat([frame, alone], ignore_index=True)
    asked = {"columns": ["town", "who"], "person": "who", "method": law, **ASKED}
    found = PrivateLevels(**{**asked, "epsilon": 3.0}).fit(both)
    assert found.levels_ == {"town": ["Ada", "Bern"]}
    assert str(found.guarantee_.relation) == "person:who"


def test_the_public_has_the_same_from_the_file(tmp_path: Any) -> None:
    model = PrivateLevels(columns=["town", "code"], **ASKED).fit(rents())
    model.release_.save(tmp_path / "r.npz")
    again = PrivateLevels.from_release(Release.load(tmp_path / "r.npz"))
    assert again.levels_ == model.levels_
    assert again.threshold_ == model.threshold_
    assert [each.title for each in again.answers()] == ["levels of town", "levels of code"]
    low, high = model.forecast().errors["rows of a level that is found"]
    assert low < model.threshold_ < high


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"columns": None}, "columns"),
        ({"max_levels": 0}, "max_levels"),
        ({"person": "who", "rows_per_person": "private"}, "rows_per_person"),
    ],
)
def test_what_cannot_be_found_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PrivateLevels(**{"columns": ["town"], **ASKED, **more}).plan()


def test_other_estimators_say_how_levels_are_found() -> None:
    with pytest.raises(TypeError, match="PrivateLevels"):
        PrivateLeastSquares(
            levels={"town": "private"}, limits={"rent": (0, 1)}, label_limits=(0, 1), **ASKED
        ).plan(label="rent")
