"""Intervals of estimates: what they hold, how they are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndis import PrivateCovariance, PrivateGaussianProcess, PrivateLogisticRegression
from ndis.mechanisms import Intervals


def test_the_ends_are_those_of_a_normal_law() -> None:
    found = Intervals.of_normal(("a",), np.array([[2.0]]), np.array([[0.5]]), level=0.9)
    np.testing.assert_allclose([found.lower, found.upper], [[1.17757], [2.82243]], rtol=1e-5)


def test_what_is_unknown_has_no_number_and_says_so() -> None:
    values, errors = np.ones((2, 2)), np.ones((2, 2))
    found = Intervals.of_normal(("a", "b"), values, errors, [True, False], labels=("y", "z"))
    frame = found.to_frame()
    assert frame.loc[("z", "b")].isna().all()
    assert frame.loc[("z", "a")].notna().all()
    assert str(found).count("no information at this budget") == 2


@pytest.mark.parametrize("wrong", [{"level": 2.0}, {"of": "sample"}])
def test_sentences(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Intervals.of_normal(("a",), np.ones((1, 1)), np.ones((1, 1)), **wrong)


@pytest.mark.slow
def test_intervals_of_the_population_are_longer_by_what_sampling_does() -> None:
    """One voice: means, coefficients and processes, in 12 runs."""
    public: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-6}
    held: dict[str, list[float]] = {"mean": [], "log-odds": [], "process": []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (3000, 1)) ** 3
        sick = (rng.random(3000) < 1 / (1 + np.exp(-2.0 * X[:, 0]))).astype(int)
        y = X[:, 0] + 0.2 * rng.standard_normal(3000)
        more: dict[str, Any] = {**public, "limits": (-1, 1), "random_state": seed}
        mean = PrivateCovariance(**more).fit(X)
        odds = PrivateLogisticRegression(classes=[0, 1], **more).fit(X, sick)
        process = PrivateGaussianProcess(label_limits=(-2, 2), **more).fit(X, y)
        for name, model, truth in (("mean", mean, 0.0), ("log-odds", odds, 2.0)):
            wide, narrow = model.intervals(), model.intervals(of="table")
            assert wide.standard_error.item() > narrow.standard_error.item() > 0.0
            assert (wide.of, narrow.of) == ("population", "table")
            held[name].append(wide.lower.item() < truth < wide.upper.item())
        at = process.intervals([[-0.5], [0.5]])
        assert at.names == ("-0.5", "0.5")
        held["process"] += list((at.lower < [-0.5, 0.5]) & (at.upper > [-0.5, 0.5]))
    own = PrivateCovariance(**public, limits=(-1, 1), random_state=0).fit(X).intervals(of="table")
    assert own.lower[0] < X.mean() < own.upper[0]
    for name, hits in held.items():
        assert np.mean(hits) >= 0.85, name


def test_where_there_is_nothing_to_tell() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    public: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "limits": (-1, 1)}
    with pytest.raises(ValueError, match="center=True"):
        PrivateCovariance(center=False, **public).fit(X).intervals()
    process = PrivateGaussianProcess(label_limits=(-1, 1), **public).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="of"):
        process.intervals(X, of="table")
