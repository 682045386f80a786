"""Checks of the protocol that could not fail would be none: mechanisms that break a sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import example_estimator
from ndis.mechanisms import Forecast
from ndis.randomness import add_noise
from ndis.tables import GRID_NORM
from ndis.testing import ESTIMATOR_CHECKS, Case, check_estimator

EXAMPLE = example_estimator()
TABLE = np.random.default_rng(0).uniform(-1, 1, (40, 2))


class PrivateMean(EXAMPLE):  # type: ignore[misc, valid-type]
    """The example of docs/how-to-add-a-mechanism.md."""


def changed(**methods: Any) -> Case:
    """The example, with some of its methods changed."""
    return case(type("PrivateMean", (EXAMPLE,), methods))


def case(own: Any) -> Case:
    def make(**more: Any) -> Any:
        return own(**{"limits": [(-1, 1)] * 2, **more})

    return Case("mean", make, lambda: (TABLE,), lambda: (TABLE[1:],))


def quiet(self: Any, sums: Any, plan: Any, table: Any, rng: Any) -> Any:
    """Half of the noise that is promised."""
    noise = plan.noise_scale
    return {
        "sums": add_noise(sums["sums"], 0.5 * noise["sums"] * GRID_NORM, rng) / GRID_NORM,
        "count": add_noise(sums["count"], noise["count"], rng),
    }


class QuietMean(EXAMPLE):  # type: ignore[misc, valid-type]
    """A mean that promises too much."""

    _draw = quiet


def ragged(self: Any, sums: Any, plan: Any, table: Any, rng: Any) -> Any:
    """An array of another shape than planned."""
    return {**EXAMPLE._draw(self, sums, plan, table, rng), "count": np.zeros(2)}


def known(self: Any, data: Any) -> Any:
    """The number of rows, which is nobody's to know."""
    return {**EXAMPLE._public(self, data), "n_rows": data.n_rows}


BROKEN: dict[str, dict[str, Any]] = {
    "an audit finds nothing": {"_draw": quiet},
    "a run draws what is planned": {"_draw": ragged},
    "a neighbour changes released numbers only": {"_public": known},
    "forecasts are ranges": {"forecast": lambda *_, **__: Forecast({"error": (2.0, 1.0)}, ("a",))},
    "it is shown in a notebook": {"_repr_html_": lambda self: ""},
}


@pytest.mark.parametrize("check", BROKEN)
def test_a_broken_sentence_is_seen(check: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, AttributeError)):
        ESTIMATOR_CHECKS[check](changed(**BROKEN[check]), tmp_path)


def test_all_of_it_holds_for_the_example_and_what_does_not_is_named() -> None:
    check_estimator(case(PrivateMean))
    with pytest.raises(AssertionError) as caught:
        check_estimator(case(QuietMean))
    assert caught.value.__notes__ == ["(it does not hold that an audit finds nothing)"]
