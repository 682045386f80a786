"""The reproductions of the additive mechanisms run, and every row says what is true."""

import math
from pathlib import Path

import numpy as np
import pytest

from ndis_papers.reproduce import additive_tables, location_counts, private_pca, private_sgd


def test_classic_table_shows_what_the_paper_says_and_by_how_much() -> None:
    rows = additive_tables.classic()
    assert all(row["true_delta"] < row["delta"] / 100 for row in rows)
    assert min(row["saved"] for row in rows) == pytest.approx(0.203, abs=5e-4)
    assert max(row["saved"] for row in rows) == pytest.approx(0.365, abs=5e-4)


def test_matrix_table_grows_with_the_shape() -> None:
    ratios = [row["published_over_exact"] for row in additive_tables.matrix_variate()]
    assert ratios == sorted(ratios)
    assert ratios[0] == pytest.approx(1499, rel=1e-3)


def test_rank_one_table_refutes_all_but_three_dimensions() -> None:
    rows = additive_tables.rank_one(quick=True)
    assert [row["basis"] for row in rows] == ["proven"] + ["refuted"] * 5
    assert all(row["true_delta_high"] / row["true_delta_low"] < 1 + 1e-10 for row in rows)
    assert all(row["loss_over_analytic"] > 3 for row in rows)


def test_accuracy_table_agrees_with_simulation() -> None:
    for row in additive_tables.accuracy(n_draws=400):
        assert row["simulated_mean"] == pytest.approx(row["mean"], rel=0.2)


def test_location_counts_of_the_stops(tmp_path: Path) -> None:
    rows = {row["mechanism"]: row for row in location_counts.run(tmp_path, quick=True)}
    published, equal = rows["rank-one, published"], rows["analytic, as private as rank-one"]
    assert published["basis"] == "refuted"
    assert published["true_log10_delta"] == pytest.approx(equal["true_log10_delta"])
    assert published["expected_loss"] > 7 * equal["expected_loss"]
    names = {"location_counts.json", "location_counts.png", "location_losses.png"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_equation_16_gives_the_budgets_of_the_paper() -> None:
    training = private_sgd.Training(rate=256 / 60_000, steps=round(30 * 60_000 / 256))
    epsilon, delta = private_sgd.rank_one_budget(1.795, training)
    assert round(epsilon, 2) == 0.71
    assert delta == pytest.approx(3.33e-7, rel=2e-3)


def test_gradient_steps_compose_as_without_sampling_when_everybody_is_sampled() -> None:
    from ndis import QuadraticLoss

    loss = QuadraticLoss.from_shift(0.2)
    table = private_sgd.sampled(loss.delta, 1 - 1e-9, 2.0**-8, 8.0) * 5
    exact = 5 * loss
    assert exact.delta(0.5) <= table.delta(0.5) < 1.01 * exact.delta(0.5)


@pytest.mark.slow
def test_private_pca_of_the_digits(tmp_path: Path) -> None:
    rows = private_pca.run(tmp_path, quick=True)
    assert {row["basis"] for row in rows if row["mechanism"] == "rank-one, published"} == {
        "refuted"
    }
    analytic = [row for row in rows if row["mechanism"] == "analytic"]
    assert analytic[0]["total_deviation"] > analytic[1]["total_deviation"]
    assert (tmp_path / "private_pca.png").exists()


@pytest.mark.slow
def test_private_gradient_descent(tmp_path: Path) -> None:
    none, gaussian, rank_one = private_sgd.run(tmp_path, quick=True)
    assert none["accuracy"] > gaussian["accuracy"] > 0.5
    assert gaussian["true_delta"] <= 1e-5
    assert rank_one["true_delta"] > 0.4
    assert rank_one["one_step_true_delta"] > 0.99
    assert (tmp_path / "private_sgd.png").exists()


@pytest.mark.slow
def test_price_of_keeping_the_promise(tmp_path: Path) -> None:
    rows = additive_tables.price(tmp_path, quick=True)
    ratios = np.array([row["rank_one_loss"] / row["analytic_loss"] for row in rows])
    assert np.all(ratios > 4)
    assert math.log10(ratios.max()) > 4
    assert (tmp_path / "rank_one_price.png").exists()
