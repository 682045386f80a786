"""In a notebook every estimator, and every release, shows its guarantee as a sentence."""

import importlib
import pkgutil
from collections.abc import Iterator
from html import unescape

import numpy as np
import pyarrow as pa
import pytest

import ndis
import ndis.mechanisms
from estimators import SLOW, all_cases, fitted
from ndis import (
    Gaussian,
    GaussianMechanism,
    PrivateProjection,
    Profile,
    QuadraticLoss,
    audit_pair,
)
from ndis.mechanisms.base import PrivateEstimator

PROMISE = {"epsilon": 1.0, "delta": 1e-6}
X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2))
Y = X @ [0.5, 0.2]
EDGES = pa.table({"source": [0, 1], "target": [1, 2]})


# One case of each estimator.
CASES = {type(case.make()): case for case in reversed(all_cases()) if case.name not in SLOW}


def subclasses(parent: type = PrivateEstimator) -> Iterator[type]:
    for module in pkgutil.walk_packages(ndis.mechanisms.__path__, "ndis.mechanisms."):
        importlib.import_module(module.name)
    for child in parent.__subclasses__():
        yield child
        yield from subclasses(child)


def test_no_estimator_is_forgotten() -> None:
    public = {kind for kind in subclasses() if kind.__name__ in ndis.__all__}
    assert public == set(CASES)


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_an_estimator_shows_its_guarantee(kind: type) -> None:
    model = fitted(CASES[kind])
    html = model._repr_mimebundle_()["text/html"]
    assert str(model.guarantee_) in unescape(html)
    assert kind.__name__ in html
    shown = unescape(model.release_._repr_html_()).replace("</p><p>", " ")
    assert str(model.guarantee_) in shown


def test_a_release_shows_its_guarantee_and_its_values() -> None:
    release = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).release([1234.5])
    html = release._repr_html_()
    assert str(release.guarantee) in unescape(html).replace("</p><p>", " ")
    assert f"{int(release.value[0])}." in html


def test_a_loss_shows_points_of_its_curve() -> None:
    loss = Profile.both(QuadraticLoss.from_shift(1.0))
    shown = loss._repr_html_()
    assert f"<td>1</td><td>{loss.delta(1.0):.4g}</td>" in shown
    batch = QuadraticLoss(np.zeros((2, 1)), [[1.0], [2.0]], 1)
    assert "<table>" not in batch._repr_html_()


def test_a_verdict_shows_its_sentence_and_what_was_searched() -> None:
    verdict = audit_pair(Gaussian([0.0], [[1.0]]), Gaussian([1.0], [[1.0]]), (1.0, 0.01))
    shown = unescape(verdict._repr_html_())
    assert str(verdict) in shown
    assert all(part in shown for part in (*verdict.searched, *verdict.not_searched))


def test_a_sketch_shows_values_with_errors() -> None:
    table = pa.table({"a": X[:, 0], "<b>": X[:, 1]})
    projection = PrivateProjection(n_components=50, data_norm=1.0, **PROMISE).fit(table)
    value, error = projection.sketch_.gram()
    shown = projection.sketch_._repr_html_()
    assert f"<td>a</td><td>{value[0, 0]:.6g}</td><td>{error[0, 0]:.2g}</td>" in shown
    assert "<b>" not in shown.replace("<b>Sketch</b>", "")
