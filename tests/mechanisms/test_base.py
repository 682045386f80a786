"""One protocol for every estimator and every method of it (docs/architecture.md)."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import ndis
from estimators import all_cases, parameters
from ndis.mechanisms import PrivateEstimator, TableEstimator
from ndis.testing import ESTIMATOR_CHECKS, Case

CASES = all_cases()
# Estimators that publish the names of a data frame's columns.
NAMED = (TableEstimator, ndis.MultiPartyRegression)


# An audit of each is in tests/auditing/test_estimators.py.
CHECKS = [name for name in ESTIMATOR_CHECKS if name != "an audit finds nothing"]
SLOW = {"a rate in epsilons place"}


@pytest.fixture(params=parameters(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_every_estimator_of_the_library_is_here() -> None:
    public = {
        name
        for name in ndis.__all__
        if inspect.isclass(getattr(ndis, name))
        and issubclass(getattr(ndis, name), PrivateEstimator)
    }
    listed = {type(case.made()).__name__ for case in CASES}
    assert public <= listed, public - listed


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: ndis.PrivateLeastSquares(1, 1e-7),
            "Expected parameters of PrivateLeastSquares by name, got 2 values without; write "
            "epsilon=1, delta=1e-07.",
        ),
        (
            lambda: ndis.GaussianMechanism(1, 1e-6, 2),
            "epsilon=1, delta=1e-06, sensitivity=2.",
        ),
        (lambda: ndis.PrivatePCA(3, 1.0), "got 2 values without; write epsilon=1.0."),
        (lambda: ndis.PrivateCovariance(eps=1), "got 'eps'; did you mean epsilon?"),
        (lambda: ndis.PrivateLimits(q=1), "got 'q'; it takes epsilon, delta, "),
    ],
)
def test_values_without_names_and_unknown_names_get_a_sentence(call, sentence: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert sentence in str(caught.value)


def test_only_a_first_parameter_may_go_without_its_name(case: Case) -> None:
    known = inspect.signature(type(case.made())).parameters.values()
    free = [each.name for each in known if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert free in ([], ["n_components"], ["algorithm"], ["nodes"])


def test_few_exceptions_each_with_its_reason() -> None:
    exceptions = [reason for case in CASES for reason in case.exceptions.values()]
    assert len(set(exceptions)) <= 5
    assert all(len(reason) > 20 for reason in exceptions)


# Under a target the worst case of these losses is searched again and again, for half a minute each;
# `make evidence` does it. The other searched losses are checked here.
LONG = {
    "least squares, als": ("rate", "risk", "target", "spent budget"),
    "least squares, gaussian-limit": ("rate",),
}


@pytest.mark.parametrize(
    ("case", "check"),
    [
        pytest.param(
            *one.values,
            name,
            id=f"{one.id}-{name}",
            marks=[
                *one.marks,
                # One worker for each slow case, which remembers what it has calibrated.
                *[pytest.mark.xdist_group(one.id)] * bool(one.marks),
                *[pytest.mark.slow] * (name in SLOW),
                *[pytest.mark.evidence] * any(word in name for word in LONG.get(one.id, ())),
            ],
        )
        for one in parameters(CASES)
        for name in CHECKS
    ],
)
def test_protocol(case: Case, check: str, tmp_path: Path) -> None:
    ESTIMATOR_CHECKS[check](case, tmp_path)


@pytest.mark.parametrize("place", [0, -1])
def test_a_record_is_no_name(case: Case, place: int) -> None:
    """pandas.read_csv of a file without a header line makes names of the first person's values."""
    pandas = pytest.importorskip("pandas")
    X, *labels = case.data()
    if not (isinstance(X, np.ndarray) and X.ndim == 2) or not isinstance(case.made(), NAMED):
        pytest.skip("reads no data frame")
    names = [f"name {index}" for index in range(X.shape[1] + 1)]
    names[place] = "54.0"
    frame = pandas.DataFrame(X, columns=names[1:] if place and not labels else names[:-1])
    y = [pandas.Series(label, name=names[-1]) if label.ndim == 1 else label for label in labels]
    if "54.0" not in (*frame.columns, *(getattr(label, "name", None) for label in y)):
        pytest.skip("has no label of one column")
    model = case.made()
    with pytest.raises(ValueError, match="looks like a record"):
        model.fit(frame, *y)
    assert not hasattr(model, "release_")
