"""Exponentials that do not depend on place or hardware."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

from ndis.tables.exponentials import exp_minus, softmax

X = np.concatenate([np.linspace(0.0, 32.0, 10_007), 2.0 ** -np.arange(60.0)])


def test_exp_minus_is_close() -> None:
    assert np.abs(exp_minus(np, X) / np.exp(-X) - 1.0).max() < 1e-12
    assert exp_minus(np, np.array([0.0]))[0] == 1.0


def test_far_out_it_is_small_and_finite() -> None:
    far = exp_minus(np, np.array([32.0, 33.0, 1e308, math.inf]))
    assert (far == far[0]).all()
    assert 0.0 < far[0] < 2.0**-46


def test_softmax_is_close() -> None:
    logits = np.random.default_rng(0).normal(0.0, 8.0, (7, 5_000))
    np.testing.assert_allclose(softmax(np, logits), special.softmax(logits, axis=0), atol=1e-12)
    assert np.abs(softmax(np, logits).sum(axis=0) - 1.0).max() < 1e-14
    assert abs(softmax(np, np.array([[1e300], [-1e300]]))[0, 0] - 1.0) < 1e-12


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 15, 4096])
def test_the_place_does_not_matter(length: int) -> None:
    """numpy's own exp differs by an ulp between vector lanes and the rest of an array."""
    values = np.random.default_rng(length).uniform(0.0, 32.0, length)
    one_by_one = [float(exp_minus(np, values[i : i + 1])[0]) for i in range(length)]
    assert exp_minus(np, values).tolist() == one_by_one
    logits = np.stack([values, values[::-1], 0.5 * values])
    alone = np.hstack([softmax(np, np.ascontiguousarray(logits[:, [i]])) for i in range(length)])
    assert softmax(np, logits).tolist() == alone.tolist()


@pytest.mark.parametrize(
    "name",
    ["array_api_strict", pytest.param("array_api_compat.torch", marks=pytest.mark.slow)],
)
def test_the_array_library_does_not_matter(name: str) -> None:
    if name.endswith("torch"):
        pytest.importorskip("torch")
    xp: Any = pytest.importorskip(name)
    logits = np.random.default_rng(1).normal(0.0, 6.0, (4, 999))
    there = xp.asarray(logits)
    for function, value in ((exp_minus, np.abs(logits)), (softmax, logits)):
        other = xp.abs(there) if function is exp_minus else there
        assert np.asarray(function(xp, other)).tolist() == function(np, value).tolist()
