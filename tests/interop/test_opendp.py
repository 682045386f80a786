import numpy as np
import pytest

dp = pytest.importorskip("opendp.prelude")

from ndis import (  # noqa: E402
    GaussianMechanism,
    Guarantee,
    PrivateGraph,
    PrivateProjection,
    QuadraticLoss,
)
from ndis.interop.opendp import make_measurement  # noqa: E402


@pytest.fixture(autouse=True)
def features() -> None:
    dp.enable_features("contrib", "honest-but-curious")


def projection(**more: object) -> PrivateProjection:
    return PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=1.0, n_components=9, **more)


def test_a_projection_measures() -> None:
    ours = projection()
    measurement = make_measurement(lambda table: ours.fit(table).release_, ours.guarantee(2))
    assert measurement.input_metric == dp.symmetric_distance()
    assert measurement.map(0) == (0.0, 0.0)
    assert measurement.map(1) == (1.0, 1e-6)
    group = ours.guarantee(2).for_group(2)
    assert measurement.map(2) == (group.epsilon, group.delta)
    assert measurement.check(1, (1.0, 1e-6))
    assert not measurement.check(1, (0.99, 1e-6))
    assert measurement(np.eye(2)).arrays["sketch"].shape == (2, 9)


def test_renyi_divergences_are_those_of_the_loss() -> None:
    guarantee = Guarantee(1.0, 1e-6, "replace", "proven", QuadraticLoss.from_shift(0.2))
    measurement = make_measurement(lambda data: data, guarantee, measure="renyi")
    assert measurement.input_metric == dp.change_one_distance()
    curve = measurement.map(1)
    for order in (1.5, 2.0, 32.0):
        assert 1.0 <= curve(order) / guarantee.loss.renyi(order) < 1.0 + 1e-10
        assert curve(order) == pytest.approx(0.5 * order * 0.2**2)
    assert measurement.map(0)(2.0) == 0.0
    with pytest.raises(dp.OpenDPException, match="at most 1"):
        measurement.map(2)


def test_another_relation_has_its_own_metric() -> None:
    private = PrivateGraph(4, epsilon=1.0, delta=1e-6)
    measurement = make_measurement(lambda graph: private.fit(graph).release_, private.guarantee())
    assert "edge" in str(measurement.input_metric)
    assert measurement.map(1) == (1.0, 1e-6)


def test_what_is_not_proven_is_refused() -> None:
    for guarantee in (
        Guarantee(1.0, 1e-6, "replace", "relative"),
        Guarantee(1.0, 1e-6, "replace", "proven", private=False),
        GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).guarantee(),
    ):
        with pytest.raises(ValueError, match="Expected a proven guarantee"):
            make_measurement(lambda data: data, guarantee)
    with pytest.raises(ValueError, match="carries its loss"):
        make_measurement(
            lambda data: data, Guarantee(1.0, 1e-6, "replace", "proven"), measure="renyi"
        )


def test_a_release_with_another_guarantee_does_not_come_out() -> None:
    seeded = projection(random_state=1)
    measurement = make_measurement(lambda table: seeded.fit(table).release_, seeded.guarantee(2))
    with pytest.raises(dp.OpenDPException, match="guarantee of the measurement"):
        measurement(np.eye(2))
