"""Noisy counts of a grid, made consistent: against least squares by matrices."""

import numpy as np

from ndis.mechanisms import tree


def design() -> np.ndarray:
    leaves = np.eye(tree.LEAVES)
    return np.vstack([tree.counted(leaves, level).T for level in tree.LEVELS])


def test_levels_are_fitted_by_least_squares() -> None:
    rng = np.random.default_rng(0)
    A = design()
    truth = rng.poisson(5.0, tree.LEAVES).astype(float)
    noisy = A @ truth + rng.normal(0, 3, len(A))
    parts = np.split(noisy, np.cumsum(tree.LEVELS)[:-1])
    total, variance = truth.sum() + 40.0, 25.0
    found = tree.fitted(parts, 9.0, np.asarray(total), variance)
    more = np.vstack([A / 3.0, np.ones((1, tree.LEAVES)) / 5.0])
    expected = np.linalg.lstsq(more, np.append(noisy / 3.0, total / 5.0), rcond=None)[0]
    np.testing.assert_allclose(found, expected, atol=1e-8)
    kept = tree.fitted(parts, 9.0, np.asarray(total), 0.0)
    assert abs(kept.sum() - total) < 1e-9 * total


def test_variances_of_prefixes_are_those_of_least_squares() -> None:
    A = design()
    inverse = np.linalg.inv(A.T @ A)
    ones = inverse.sum(axis=1)
    known = inverse - np.outer(ones, ones) / ones.sum()  # given the total
    prefixes = np.tril(np.ones((tree.LEAVES,) * 2))
    some = [0, 100, 511, 700, 1023]
    expected = [prefixes[k] @ known @ prefixes[k] for k in some]
    np.testing.assert_allclose(
        tree.prefix_variances(4.0)[some], 4.0 * np.array(expected), atol=1e-9
    )


def test_curves_do_not_decrease_and_quantiles_are_read_off() -> None:
    rng = np.random.default_rng(1)
    curve = tree.increasing(np.cumsum(rng.normal(1, 5, (3, 1024)), axis=1), np.full(3, 900.0))
    assert (np.diff(curve, axis=1) >= 0).all()
    assert curve.min() >= 0
    assert curve.max() <= 900
    straight = np.arange(1.0, 1025.0)[None, :]
    for rank in (0.0, 1.0, 256.5, 1024.0):
        assert abs(tree.quantile(straight, np.array([rank]))[0] - rank / 1024) < 1e-12
