"""Anybody finds from the parameters of a certificate what its maker planned."""

import json

import pytest

from estimators import all_cases, fitted
from ndis.mechanisms.recompute import implied

CASES = {case.name: case for case in all_cases()}
SOME = ["gaussian", "covariance, matrix", "graph, answers", "limits", "projection ridge in limits"]


@pytest.mark.parametrize("name", SOME)
def test_parameters_in_a_file_imply_the_plan(name: str) -> None:
    model = fitted(CASES[name])
    release = model.release_
    found = implied(release.mechanism, json.loads(json.dumps(release.parameters)), 1e-6)
    assert found is not None
    assert found.noise_scale == model.noise_scale_
    assert found.loss.delta(1.0) <= 1e-6


@pytest.mark.parametrize("name", ["Nonsense", "Guarantee", "__doc__", "audit"])
def test_what_is_no_mechanism_implies_nothing(name: str) -> None:
    assert implied(name, {}, 1e-6) is None
