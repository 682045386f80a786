"""Which neighbours are searched, and what is told of those that are not."""

import numpy as np
import pytest

import planted
from ndis import (
    PrivateCovariance,
    QuadraticLoss,
    audit,
)
from ndis.auditing.neighbours import _log_delta_bound
from ndis.calibration import noise_multiplier
from planted import CLAIM, DELTA, EPSILON, RIDGE, TABLE


@pytest.mark.parametrize("ridge", [1e-9, 1e-15, 0.0])
def test_a_row_alone_in_its_direction_is_seen(ridge: float) -> None:
    table = np.column_stack([TABLE[:, :2], np.eye(12)[0]])
    verdict = audit(planted.sketch(ridge), table, CLAIM)
    assert verdict.refuted
    assert verdict.lower_bound > 0.999
    assert verdict.worst[0].row == 0


@pytest.mark.slow
def test_a_move_across_a_long_row_is_found() -> None:
    sound = PrivateCovariance(
        epsilon=1.0, delta=1e-6, method="sketch", n_components=20, center=False,
        relation="row-shift", data_norm=1e3, n_rows=1000,
    )  # fmt: skip
    verdict = audit(sound, TABLE[:3])
    assert verdict.outcome == "consistent"
    assert verdict.delta > 0.85e-6
    assert audit(sound, TABLE[:3], (1.0, 5e-7)).refuted


def test_the_worst_replacement_in_the_ball_is_found() -> None:
    rows = np.eye(3)
    assert audit(planted.noisy_mean, rows, CLAIM, relation="replace").delta < 1e-3
    sold = audit(planted.noisy_mean, rows, CLAIM, relation="replace", data_norm=1.0)
    double = QuadraticLoss.from_shift(2.0 / noise_multiplier(EPSILON, DELTA))
    assert sold.delta == pytest.approx(float(double.delta(EPSILON)), rel=0.05)


def test_too_many_replacements_are_sampled_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ndis.auditing.neighbours._REPLACEMENTS", 10)
    searched = audit(planted.noisy_mean, np.eye(4), CLAIM, relation="replace").searched
    assert searched[0].startswith("10 of 16 replacements, at random")


@pytest.mark.slow
def test_a_large_table_is_not_searched_locally_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ndis.auditing.whitebox._SEARCHED", 10)
    verdict = audit(planted.sketch(RIDGE), TABLE, CLAIM, data_norm=1.0, copies=20)
    assert "rows beside this table, which has more than 10 rows" in verdict.not_searched
    assert any("any row within the norm and a row of zeros" in part for part in verdict.searched)


def test_rows_are_ranked_by_what_they_give_away() -> None:
    p = np.random.default_rng(4).uniform(0.0, 0.2, 9000)
    ranked = np.argsort(-_log_delta_bound(QuadraticLoss.from_leverage(p, 50), 1.0))
    assert ranked[:10].tolist() == np.argsort(-p)[:10].tolist()
