"""Rounds of logistic regression: what a row may move."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from ndis import PrivateLogisticRegression
from ndis.mechanisms import classification
from ndis.mechanisms.classification_newton import Newton, Point, class_basis
from ndis.tables import Columns, Rows, Table, Weights, contrasts


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("radius", [1.0, 0.3])
@pytest.mark.parametrize("center", [0.0, -(2.0**19)])
def test_no_row_moves_a_round_further_than_is_paid_for(
    monkeypatch: pytest.MonkeyPatch, plain: bool, classes: int, radius: float, center: float
) -> None:
    """By the noise that is drawn: a row of norm one that the coefficients get quite wrong."""
    drawn, known = [], list(range(classes))
    monkeypatch.setattr(
        classification, "add_noise", lambda sums, scale, _: drawn.append(sums.value / scale) or 0.0
    )
    model = PrivateLogisticRegression(
        classes=known, epsilon=1.0, delta=1e-6, data_norm=1.0, method="newton"
    )
    plan, basis = model.plan(2), class_basis(classes)
    features, labels = Columns(["a", "b"], norm=1.0), Columns(["y"], {"y": known})
    table = Table.open(pd.DataFrame({"a": [0.6], "b": [0.8], "y": [1]}), typed=["y"])
    ask = classification._asking(
        table.with_rows(Rows(features, labels, weighted=False)),
        classes,
        plan,
        Weights(np.full(2, center), radius),
        None,
    )
    wrong = np.outer([0.6, 0.8], np.eye(classes)[0] - np.eye(classes)[1])
    parts = 5 if center else 1
    of_rounds = [part for part in plan.parts if part.name in ("gradients", "residuals")]
    paid = sum((part.sensitivity / part.noise) ** 2 for part in of_rounds)
    moved = []
    for length in (0.0, 0.5, 1.0, 2.0, 50.0):
        drawn.clear()
        ask((length * wrong @ basis, np.zeros(classes - 1)), plain, parts)
        moved.append(sum(float(np.sum(part**2)) for part in drawn))
    # A long row counts little for the constant; one beyond 1 from the centre for less than is paid.
    least = 0.2 if center else 0.89
    assert least < max(moved) / (paid * parts / classification._ROUNDS["newton"]) <= 1.0


def test_many_rows_need_few_rounds_and_the_last_takes_what_is_left() -> None:
    rng, rounds = np.random.default_rng(0), []
    X = rng.uniform(-1, 1, (20_000, 5))
    y = (X[:, 0] + rng.logistic(size=len(X)) > 0).astype(int)
    for n, epsilon in ((20_000, 1.0), (300, 0.1)):
        model = PrivateLogisticRegression(
            classes=[0, 1], epsilon=epsilon, delta=1e-6, limits=[(-1, 1)] * 5, random_state=0
        ).fit(X[:n], y[:n])
        parts = model.release_.arrays["parts"]
        used = int(np.count_nonzero(parts))
        assert parts.sum() == classification._ROUNDS["newton"]
        assert np.all(parts[: used - 1] == 1.0)
        assert not np.any(model.release_.arrays["gradients"][used:])
        rounds.append(used)
        if n == len(X):
            best = LogisticRegression(C=np.inf).fit(X, y)
            assert np.abs(model.coef_ - best.coef_).max() < 0.1
        again = PrivateLogisticRegression.from_release(model.release_)
        assert np.array_equal(again._logits.coefficients()[0], model._logits.coefficients()[0])
    assert rounds[0] < rounds[1]


def test_what_is_bought_for_several_rounds_is_as_much_more_precise() -> None:
    """A last round is estimated with the variance that it has."""
    gram, zero = 100.0 * np.eye(2), np.zeros((2, 1))
    noise = {"gram": 1.0, "sums": 1.0, "count": 1.0, "gradients": 2.0, "residuals": 1.0}
    model = Newton(2, gram, np.zeros(2), np.array(1000.0), noise)
    one, four = (model._round((zero, np.zeros(1)), False, np.zeros(1), n) for n in (1, 4))
    np.testing.assert_allclose(one.variances, 4.0 * four.variances)
    assert one.of_totals == pytest.approx(4.0 * four.of_totals)


def test_steps_go_as_far_as_many_cautious_ones_and_not_further_than_noise_allows() -> None:
    def unit(n: float, noise: float) -> float:
        arrays = {"center": np.append(np.zeros(3), n)}
        return classification._unit(arrays, {"center": 1.0, "gradients": noise}, 2)

    assert 32 * unit(1e6, 1.0) == pytest.approx(100 * 4.0 * 4 / (1e6 * 1.1225), rel=0.01)
    assert unit(1e4, 1000.0) * 1000.0 * math.sqrt(32 * 1.1225) == pytest.approx(0.9)


def descended(curvatures: np.ndarray, wanted: float = 1.0) -> tuple[np.ndarray, list[float]]:
    """Where noisy steps lead to on a quadratic, and what each of them takes."""
    rng, n, d = np.random.default_rng(0), 1e5, len(curvatures)
    noise = {"center": 1.0, "gradients": 30.0, "residuals": 30.0}
    taken = []

    def ask(point: Point, plain: bool, parts: float) -> tuple[np.ndarray, np.ndarray]:
        taken.append(parts)
        error = 30.0 / math.sqrt(parts) * rng.standard_normal((d + 1, 1))
        ahead = n * curvatures[:, None] * (wanted - point[0])
        return ahead + error[1:], -0.25 * n * point[1] + error[0]

    arrays = {"center": np.append(np.zeros(d), n)}
    return classification.descend(ask, arrays, noise, (d, 1)), taken


def test_steps_follow_the_curvature_that_gradients_have_shown() -> None:
    """Few rounds where it is small, more where it is large, and never more than is paid for."""
    flat, steep, one = np.full(150, 1e-3), np.full(150, 0.05), np.full(150, 1e-3)
    one[0] = 0.2
    for curvatures, least, most in ((flat, 10, 10), (steep, 11, 32), (one, 11, 32)):
        theta, taken = descended(curvatures)
        assert math.fsum(taken) == 32.0
        assert least <= len(taken) <= most
        way = 1.0 - np.exp(-curvatures * 100 * 4.0 * 4 / 1.1225)
        np.testing.assert_allclose(theta[1:, 0], way, atol=0.2)


def test_noise_alone_leads_as_far_as_the_parts_say() -> None:
    theta, taken = descended(np.full(400, 1e-9))
    assert len(taken) < 14
    arrays = {"center": np.append(np.zeros(400), 1e5)}
    unit = classification._unit(arrays, {"center": 1.0, "gradients": 30.0}, 2)
    assert theta[1:].std() == pytest.approx(30.0 * unit * math.sqrt(32), rel=0.1)


def test_contrasts_are_the_coordinates_of_the_class_basis() -> None:
    for k in (2, 3, 10, 100):
        basis = class_basis(k)
        np.testing.assert_allclose(basis.T @ basis, np.eye(k - 1), atol=1e-13)
        np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-13)
        vectors = np.random.default_rng(k).normal(size=(k, 5))
        vectors -= vectors.mean(axis=0)
        np.testing.assert_allclose(contrasts(np, vectors), basis.T @ vectors, atol=1e-12)
