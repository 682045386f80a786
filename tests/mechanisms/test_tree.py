"""Noisy counts of a grid, made consistent: against least squares by matrices."""

import numpy as np
import pytest

from ndis.mechanisms import tree
from ndis.mechanisms.tree import Parts


def following(seed: int) -> Parts:
    """Parts that follow rows which lie in a small part of the range."""
    rng = np.random.default_rng(seed)
    levels = [rng.exponential(3.0, (2, 1, 16)) ** 4, rng.exponential(3.0, (2, 1, 128)) ** 2]
    return tree.partitions(levels, 5.0, 2**14)[0]


PARTS = [Parts.even(), following(0), following(1)]


def design(parts: Parts) -> np.ndarray:
    """Which leaves each part of each level holds."""
    rows, own = [np.eye(tree.LEAVES)], np.eye(tree.LEAVES)
    for children in parts.children[:0:-1]:
        own = np.add.reduceat(own, np.cumsum(children) - children, axis=0)
        rows.insert(0, own)
    return np.vstack(rows)


@pytest.mark.parametrize("parts", PARTS)
def test_levels_are_fitted_by_least_squares(parts: Parts) -> None:
    rng = np.random.default_rng(0)
    A = design(parts)
    truth = rng.poisson(5.0, tree.LEAVES).astype(float)
    noisy = A @ truth + rng.normal(0, 3, len(A))
    levels = np.split(noisy, np.cumsum(tree.LEVELS)[:-1])
    total, variance = truth.sum() + 40.0, 25.0
    found = tree.fitted(levels, 9.0, np.asarray(total), variance, parts)
    more = np.vstack([A / 3.0, np.ones((1, tree.LEAVES)) / 5.0])
    expected = np.linalg.lstsq(more, np.append(noisy / 3.0, total / 5.0), rcond=None)[0]
    np.testing.assert_allclose(found, expected, atol=1e-8)
    kept = tree.fitted(levels, 9.0, np.asarray(total), 0.0, parts)
    assert abs(kept.sum() - total) < 1e-9 * total


@pytest.mark.parametrize("parts", PARTS)
def test_variances_of_prefixes_are_those_of_least_squares(parts: Parts) -> None:
    A = design(parts)
    inverse = np.linalg.inv(A.T @ A)
    ones = inverse.sum(axis=1)
    known = inverse - np.outer(ones, ones) / ones.sum()  # given the total
    prefixes = np.tril(np.ones((tree.LEAVES,) * 2))
    expected = np.einsum("ij,jk,ik->i", prefixes, known, prefixes)
    found = tree.prefix_variances(parts, 4.0)
    np.testing.assert_allclose(found, 4.0 * expected, atol=1e-9)


def test_parts_are_cut_where_rows_are_and_every_bin_is_in_one() -> None:
    rng = np.random.default_rng(2)
    bins = np.bincount((2**16 * rng.beta(3, 90, 20_000)).astype(int), minlength=2**16)
    levels: list[np.ndarray] = []
    parts = Parts.coarse(2**16)
    for level in tree.LEVELS:
        counts = tree.counted(bins[None], parts)
        assert counts.shape == (1, level)
        assert counts.sum() == 20_000
        edges = parts.edges[-1]
        assert counts[0, 3] == bins[edges[3] : edges[4]].sum()
        levels.append(counts[:, None] + rng.normal(0, 3, (1, 1, level)))
        parts = tree.partitions(levels, 3.0, 2**16)[0]
    assert counts.max() < 200  # of 20,000; parts of one width have
    even = np.histogram(np.repeat(np.arange(2**16), bins), 1024, (0, 2**16))[0]
    assert even.max() > 500
    # Where no level is finer than bins, or noise is all there is, parts are of one width.
    same = tree.partitions([np.zeros((1, 1, 16)), np.zeros((1, 1, 128))], 1.0, 1024)[0]
    np.testing.assert_array_equal(same.places, np.arange(1025) / 1024)


def test_curves_do_not_decrease_and_quantiles_are_read_off() -> None:
    rng = np.random.default_rng(1)
    curve = tree.increasing(np.cumsum(rng.normal(1, 5, (3, 1024)), axis=1), np.full(3, 900.0))
    assert (np.diff(curve, axis=1) >= 0).all()
    assert curve.min() >= 0
    assert curve.max() <= 900
    straight = np.arange(1.0, 1025.0)[None, :]
    for rank in (0.0, 1.0, 256.5, 1024.0):
        found = tree.quantile(straight, np.array([rank]), Parts.even().places)[0]
        assert abs(found - rank / 1024) < 1e-12
