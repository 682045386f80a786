"""The weights and numbers of components that Blocki et al. publish, beside the exact ones."""

import pytest
from scipy import stats

from ndis import QuadraticLoss
from ndis_papers import johnson_lindenstrauss as jl

EPSILON, DELTA = 1.0, 1e-6


@pytest.mark.parametrize(
    ("n_nodes", "eta", "nu", "r", "exact", "published"),
    [(1000, 0.2, 0.05, 738, 147.8, 12764), (100_000, 0.1, 0.01, 4239, 398.4, 33043)],
)
def test_weights_of_graphs(n_nodes, eta, nu, r, exact, published) -> None:
    assert jl.published_components(eta, nu) == r
    assert jl.exact_graph_weight(EPSILON, DELTA, r, n_nodes) == pytest.approx(exact, abs=0.05)
    assert jl.graph_weight(EPSILON, DELTA, r) == pytest.approx(published, abs=0.5)


def test_exact_weights_use_up_their_delta() -> None:
    loss = jl.graph_loss(jl.exact_graph_weight(EPSILON, DELTA, 50, 1000), 1000, 50)
    assert loss.delta(EPSILON) == pytest.approx(DELTA, rel=1e-6)
    loss = jl.covariance_loss(jl.exact_covariance_weight(EPSILON, DELTA, 50), 50)
    assert loss.delta(EPSILON) == pytest.approx(DELTA, rel=1e-6)


def test_published_weights_promise_far_less_than_they_give() -> None:
    """The paper promises ln delta = -13.8."""
    w = jl.graph_weight(EPSILON, DELTA, 738)
    assert jl.graph_loss(w, 10**9, 738).log_delta(EPSILON) == pytest.approx(-5325, abs=1)
    w = jl.covariance_weight(EPSILON, DELTA, 738)
    assert w == pytest.approx(38397, abs=0.5)
    assert jl.covariance_loss(w, 738).log_delta(EPSILON) == pytest.approx(-36587, abs=1)


def test_published_graphs_need_nodes() -> None:
    with pytest.raises(ValueError, match=r"w = 12764 nodes, got 1000; the paper assumes 25529"):
        jl.graph_loss(jl.graph_weight(EPSILON, DELTA, 738), 1000, 738)


def test_fewer_components_keep_the_same_promise() -> None:
    r = jl.least_components(0.2, 0.05)
    assert r == 191
    assert jl.failure(0.2, r) <= 0.05 < jl.failure(0.2, r - 1)
    law = stats.chi2(r)
    assert jl.failure(0.2, r) == pytest.approx(law.cdf(0.8 * r) + law.sf(1.2 * r))


@pytest.mark.parametrize(("eta", "nu"), [(0.0, 0.5), (0.5, 1.0)])
def test_accuracies_outside_the_unit_interval_are_refused(eta: float, nu: float) -> None:
    for components in (jl.published_components, jl.least_components):
        with pytest.raises(ValueError, match=r"Expected 0 < (eta|nu) < 1"):
            components(eta, nu)


def test_the_published_mean_holds_up_to_a_large_epsilon() -> None:
    for epsilon, holds in ((1.0, True), (40.0, False)):
        loss = QuadraticLoss.from_shift(1 / jl.mean_noise(epsilon, 1e-5))
        assert (loss.delta(epsilon) <= 1e-5) == holds
