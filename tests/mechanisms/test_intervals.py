"""Intervals of estimates: what they hold, how they are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from estimators import all_cases, fitted, parameters
from ndis import (
    GaussianMechanism,
    MatrixGaussianMechanism,
    NoiseMechanism,
    PrivateCovariance,
    PrivateGaussianProcess,
    PrivateLogisticRegression,
)
from ndis.mechanisms import Intervals

# Estimators that have no errors to tell, each with the reason.
WITHOUT = {
    "GaussianOutput": "a draw of somebody else's law is the answer itself",
    "MultiPartyRegression": "what several parties release says nothing of its errors",
    "PrivateLevels": "levels are names, not estimates",
    "PrivateLimits": "limits are public bounds, not estimates",
}

# Methods that do not know their errors, and say so.
SILENT = {
    *("least squares, als", "least squares, gaussian-limit", "least squares, sketch"),
    *("logistic-descent", "logistic-posterior", "process, posterior"),
    *("covariance, not centred", "covariance, sketch alone"),  # of a mean that is not released
}


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


# -- one way to tell uncertainty -------------------------------------------------------------------


@pytest.mark.parametrize("case", parameters(all_cases()))
def test_every_estimator_tells_its_errors_in_one_way(case: Any) -> None:
    model = fitted(case)
    assert not hasattr(model, "inference")
    assert [name for name in vars(model) if name.endswith("_error_")] == []
    if type(model).__name__ in WITHOUT:
        assert not hasattr(model, "intervals")
        return
    at: tuple[Any, ...] = ([[1.0]],) if isinstance(model, PrivateGaussianProcess) else ()
    if case.name in SILENT:
        with pytest.raises(ValueError, match="Expected"):
            model.intervals(*at)
        return
    wide, narrow = (model.intervals(*at, level=level) for level in (0.99, 0.5))
    assert (wide.level, narrow.level) == (0.99, 0.5)
    known = ~np.isnan(wide.estimate)
    assert np.all((wide.upper - wide.lower)[known] >= (narrow.upper - narrow.lower)[known])
    assert wide.names == narrow.names


@pytest.mark.parametrize("law", ["gaussian", "spherical", "laplace", "discrete laplace"])
def test_intervals_of_answers_hold_as_often_as_they_say(law: str) -> None:
    """By the law of the noise: 1,000 answers of five numbers."""
    how = {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0, "sum_sensitivity": 1.0}
    truth, held = np.arange(5), []
    for seed in range(200):
        model = NoiseMechanism(law=law, integers=True, random_state=seed, **how).fit(truth)
        found = model.intervals(level=0.9)
        held += list((found.lower <= truth) & (truth <= found.upper))
    # Neighbouring numbers of one release are dependent: four standard deviations of 200 are 0.085.
    assert 0.86 < np.mean(held) < (0.97 if law == "discrete laplace" else 0.94)


def test_entries_of_an_answer_have_the_names_of_their_places() -> None:
    how: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0}
    assert GaussianMechanism(**how).fit(3.0).intervals().names == ("value",)
    model = MatrixGaussianMechanism(**how, rows=np.diag([1.0, 4.0])).fit(np.zeros((2, 1)))
    found = model.intervals()
    assert found.names == ("0, 0", "1, 0")
    np.testing.assert_allclose(found.standard_error[1] / found.standard_error[0], 2.0)
    with pytest.raises(ValueError, match="the mechanism that made the release"):
        MatrixGaussianMechanism.from_release(model.release_).intervals()
    with pytest.raises(ValueError, match="of"):
        model.intervals(of="population")
