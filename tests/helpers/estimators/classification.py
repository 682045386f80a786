"""Logistic regression by each of its methods."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from estimators import Case
from ndis import PrivateLogisticRegression


def labelled(n_rows: int, n_features: int, n_classes: int) -> tuple[Any, Any]:
    """Rows of norm at most one, and classes that depend on them."""
    rng = np.random.default_rng(n_rows + n_features)
    X = rng.standard_normal((n_rows, n_features))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    logits = 4.0 * X @ rng.standard_normal((n_features, n_classes))
    return X, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def without_one(n_rows: int, n_features: int, n_classes: int) -> tuple[Any, Any]:
    """The same without the last row."""
    X, y = labelled(n_rows, n_features, n_classes)
    return X[:-1], y[:-1]


def case(name: str, n_features: int, n_classes: int, **parameters: Any) -> Case:
    shape = (400, n_features, n_classes)
    return Case(
        name,
        partial(
            PrivateLogisticRegression,
            **{"classes": list(range(n_classes)), "data_norm": 1.0, **parameters},
        ),
        partial(labelled, *shape),
        partial(without_one, *shape),
        size=n_features,
    )


CASES = [
    case("logistic-newton", 3, 2),
    case("logistic-classes", 2, 3, data_norm=None, limits=[(-1, 1), (-1, 1)]),
    case("logistic-descent", 4, 3, method="descent"),
    case("logistic-limits", 2, 2, data_norm=None, limits="private"),
    case("logistic-posterior", 3, 2, method="posterior", prior_precision=20.0, n_draws=2),
]
