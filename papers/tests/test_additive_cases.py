"""The reproductions of the additive mechanisms run, and every row says what is true."""

import math
from pathlib import Path

import numpy as np
import pytest

from ndis_papers import descent
from ndis_papers.counts import data_aware, hierarchy
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


@pytest.mark.slow
def test_location_counts_of_the_stops(tmp_path: Path) -> None:
    rows = {row["mechanism"]: row for row in location_counts.run(tmp_path, quick=True)}
    published, equal = rows["rank-one, published"], rows["analytic, as private as rank-one"]
    assert published["basis"] == "refuted"
    assert published["true_log10_delta"] == pytest.approx(equal["true_log10_delta"])
    assert published["expected_loss"] > 7 * equal["expected_loss"]
    for row in rows.values():
        assert row["loss_on_valid_cells"] < row.get("simulated_loss", math.inf)
    assert rows["H_b"]["loss_on_valid_cells"] < rows["analytic"]["loss_on_valid_cells"]
    names = {"figures_4_and_5.json", "figure_4.png", "figure_5.png"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_maps_made_for_counts_have_the_noise_that_they_need() -> None:
    # Without structure, DAWA's buckets beat noise on every cell.
    exact, rng = np.full((89, 89), 7.0), np.random.default_rng(0)
    cells = 2 * (2 / 0.5) ** 2  # the variance of Laplace noise for a record that moves
    errors = {
        name: np.mean([np.mean((release(exact, 0.5, rng) - exact) ** 2) for _ in range(5)])
        for name, release in (("hierarchy", hierarchy), ("data aware", data_aware))
    }
    assert errors["data aware"] < 0.8 * cells
    assert cells < errors["hierarchy"] < 4.1 * cells  # half of epsilon on each level
    total = np.sum(hierarchy(exact, 1e9, rng))
    assert total == pytest.approx(exact.sum())


def test_equation_16_gives_the_budgets_of_the_paper() -> None:
    training = private_sgd.Training(rate=256 / 60_000, steps=round(30 * 60_000 / 256))
    epsilon, delta = private_sgd.rank_one_budget(1.795, training)
    assert round(epsilon, 2) == 0.71
    assert delta == pytest.approx(3.33e-7, rel=2e-3)


def test_gradient_steps_compose_as_without_sampling_when_everybody_is_sampled() -> None:
    from ndis import QuadraticLoss

    loss = QuadraticLoss.from_shift(0.2)
    table = descent.descent_loss(5.0, 1 - 1e-9, 5)
    exact = 5 * loss
    assert exact.delta(0.5) <= table.delta(0.5) < 1.01 * exact.delta(0.5)


@pytest.mark.slow
def test_private_pca_of_the_digits(tmp_path: Path) -> None:
    rows = private_pca.run(tmp_path, quick=True)
    assert {row["basis"] for row in rows if row["mechanism"] == "rank-one, published"} == {
        "refuted"
    }
    analytic = [row for row in rows if row["mechanism"] == "analytic, MGM"]
    assert analytic[0]["total_deviation"] > analytic[1]["total_deviation"]
    exact, drawn = rows[0]["exact_accuracy"], [r for r in rows if r["mechanism"] == "PPCA"]
    assert all(0.8 < row["accuracy"] < exact for row in drawn)
    assert (tmp_path / "figure_6.png").exists()


@pytest.mark.slow
def test_private_gradient_descent(tmp_path: Path) -> None:
    rows = private_sgd.run(tmp_path, quick=True)
    for none, gaussian, rank_one in (rows[:3], rows[3:]):
        assert none["accuracy"] > gaussian["accuracy"] > 0.5
        assert none["train_accuracy"] > gaussian["train_accuracy"] > 0.5
        assert gaussian["delta"] <= 1e-5
        assert rank_one["delta_at_least"] > 0.4
        assert rank_one["one_step_true_delta"] > 0.99
    assert (tmp_path / "figure_7.png").exists()


def test_images_are_read_from_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(private_sgd.SHAPES, "cifar", (4, 2, 2, 3))
    images = {"x_train": np.full((4, 2, 2, 3), 255, np.uint8), "y_train": np.zeros((4, 1), int)}
    images |= {"x_test": np.zeros((1, 2, 2, 3), np.uint8)}
    np.savez(tmp_path / "cifar.npz", **images)
    with pytest.raises(ValueError, match="got no y_test"):
        private_sgd.read_images(tmp_path / "cifar.npz", "cifar")
    np.savez(tmp_path / "cifar.npz", **images, y_test=np.ones((1, 1), int))
    features, labels, test, test_labels = private_sgd.read_images(tmp_path / "cifar.npz", "cifar")
    assert features.tolist() == [[1.0] * 12] * 4
    assert (labels.shape, test.shape, test_labels.tolist()) == ((4,), (1, 12), [1])
    with pytest.raises(ValueError, match=r"Expected images of shape \(60000, 28, 28\), got"):
        private_sgd.read_images(tmp_path / "cifar.npz", "mnist")


def test_descent_clips_what_a_row_can_do() -> None:
    """One row with an enormous gradient moves a step by the clip, not by more."""
    huge = np.array([[1e9], [0.0]])
    moved = descent.private_descent(
        lambda theta, rows: huge[rows],
        np.zeros(1),
        2,
        rate=1 - 1e-12,
        steps=1,
        noise=0.0,
        learning_rate=2.0,
        clip=0.5,
        rng=np.random.default_rng(0),
    )
    assert moved[0] == pytest.approx(-0.5)


@pytest.mark.slow
def test_price_of_keeping_the_promise(tmp_path: Path) -> None:
    rows = additive_tables.price(tmp_path, quick=True)
    ratios = np.array([row["rank_one_loss"] / row["analytic_loss"] for row in rows])
    assert np.all(ratios > 4)
    assert math.log10(ratios.max()) > 4
    assert (tmp_path / "rank_one_price.png").exists()
