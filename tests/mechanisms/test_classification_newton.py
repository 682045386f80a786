"""Rounds of logistic regression: what a row may move."""

import numpy as np
import pandas as pd
import pytest

from ndis import PrivateLogisticRegression
from ndis.mechanisms import classification
from ndis.mechanisms.classification_newton import class_basis
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
    of_rounds = [part for part in plan.parts if part.name in ("gradients", "residuals")]
    paid = sum((part.sensitivity / part.noise) ** 2 for part in of_rounds)
    moved = []
    for length in (0.0, 0.5, 1.0, 2.0, 50.0):
        drawn.clear()
        ask((length * wrong @ basis, np.zeros(classes - 1)), plain)
        moved.append(sum(float(np.sum(part**2)) for part in drawn))
    # A long row counts little for the constant; one beyond 1 from the centre for less than is paid.
    least = 0.2 if center else 0.89
    assert least < max(moved) / (paid / classification._ROUNDS["newton"]) <= 1.0


def test_contrasts_are_the_coordinates_of_the_class_basis() -> None:
    for k in (2, 3, 10, 100):
        basis = class_basis(k)
        np.testing.assert_allclose(basis.T @ basis, np.eye(k - 1), atol=1e-13)
        np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-13)
        vectors = np.random.default_rng(k).normal(size=(k, 5))
        vectors -= vectors.mean(axis=0)
        np.testing.assert_allclose(contrasts(np, vectors), basis.T @ vectors, atol=1e-12)
