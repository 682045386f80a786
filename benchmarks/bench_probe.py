"""Linear probes on a processor: default logistic regression of many classes beside bare gradients.

    python benchmarks/bench_probe.py [ROWS COLUMNS CLASSES]

Beside stand the gradients that scikit-learn's solver needs for a log loss as low as ours: so many
times the two products of a gradient, without anything else. Processor time of both sides, which
take turns; the least of two. Embeddings are made up: a centre for each class, and noise.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from timing import best_times

from ndis import PrivateLogisticRegression

# Rows, columns, classes.
SIZES = ((10_000, 256, 20), (20_000, 512, 50))
MOST = 50


def embeddings(n: int, d: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((n_classes, d))
    y = rng.integers(n_classes, size=n)
    X = centers[y] + 6.0 * rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1)[:, None], y


def gradients_needed(X: np.ndarray, y: np.ndarray, wanted: float) -> int:
    """How many steps of scikit-learn's solver lead to such a loss."""
    for steps in range(1, MOST):
        plain = LogisticRegression(C=np.inf, max_iter=steps).fit(X, y)
        if log_loss(y, plain.predict_proba(X)) <= wanted:
            break
    return steps


def products(X: np.ndarray, n_classes: int, n_gradients: int) -> None:
    theta, left = np.ones((X.shape[1], n_classes)), np.ones((len(X), n_classes))
    for _ in range(n_gradients):
        X @ theta
        X.T @ left


def line(n: int, d: int, n_classes: int) -> None:
    X, y = embeddings(n, d, n_classes)
    asked = {"epsilon": 4.0, "delta": 1e-6, "data_norm": 1.0, "random_state": 0}
    model = PrivateLogisticRegression(classes=range(n_classes), **asked).fit(X, y)
    loss = log_loss(y, model.predict_proba(X))
    steps = gradients_needed(X, y, loss)
    rivals = {"ours": lambda: model.fit(X, y), "beside": lambda: products(X, n_classes, steps)}
    best = best_times(rivals, 2)
    ratio = best["ours"] / best["beside"]
    cells = f"| {n} x {d} | {n_classes} | {loss:.2f} | {steps} | {best['ours']:.2f} |"
    print(f"{cells} {best['beside']:.2f} | {ratio:.1f} |", flush=True)


def main() -> None:
    warnings.simplefilter("ignore")
    asked = tuple(map(int, sys.argv[1:4]))
    print("| rows | classes | log loss | gradients beside | ours, s | beside, s | times |")
    print("| --- " * 7 + "|")
    for size in (asked,) if len(asked) == 3 else SIZES:
        line(*size)


if __name__ == "__main__":
    main()
