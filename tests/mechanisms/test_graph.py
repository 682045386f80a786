import itertools
import math

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse, stats

from ndis import BudgetExceeded, Ledger, PrivateGraph, Release, privacy_loss
from ndis.calibration import meets
from ndis.loss import Profile, QuadraticLoss
from ndis.mechanisms.graph import draw_factor, least_mixture
from ndis.mechanisms.graph_sketch import GraphSketch
from ndis.mechanisms.query_baselines import (
    gaussian_error,
    gaussian_weights,
    laplace_answers,
    laplace_error,
    randomized_response,
    response_error,
)
from ndis.randomness import grid_spacing
from ndis.tables import Edges, read_edges
from samplers import LEVEL, accepts_gaussian, accepts_law, accepts_rate

EPSILON, DELTA = 1.0, 1e-6


def private(**changes):
    parameters = {"epsilon": EPSILON, "delta": DELTA, "n_components": 200, "random_state": 7}
    return PrivateGraph(**(parameters | changes))


def airline_routes() -> nx.Graph:
    from bokeh_sampledata.airport_routes import routes

    pairs = zip(routes.Source, routes.Destination, strict=True)
    return nx.Graph((u, v) for u, v in pairs if u != v)


def random_edges(n: int, rng: np.random.Generator, density: float = 0.5) -> Edges:
    first, second = np.triu_indices(n, 1)
    kept = rng.random(first.size) < density
    weight = rng.random(np.count_nonzero(kept))
    return Edges(range(n), first[kept], second[kept], weight)


def both_directions(first, second, r: int) -> Profile:
    """The explicit pair of n x n laws, without the rounding errors of equal variances."""
    excess = privacy_loss(first, second).excess
    return Profile.both(QuadraticLoss(excess[np.abs(excess) > 1e-12], 0.0, r))


# --- calibration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_nodes", "r", "weight"), [(1000, 738, 147.8), (100_000, 4239, 398.4)])
def test_weights_do_not_grow_with_the_graph(n_nodes, r, weight) -> None:
    estimator = private(n_components=r)
    assert estimator.calibrate(n_nodes) == pytest.approx(weight, abs=0.05)
    assert estimator.calibrate(10**9) < 1.2 * weight


@pytest.mark.parametrize("n_nodes", [2, 3, 352, 10**9])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 20.0])
@pytest.mark.parametrize("r", [1, 738])
def test_exact_weight_is_private_and_the_least(epsilon, r, n_nodes) -> None:
    mixture = least_mixture(epsilon, DELTA, r, n_nodes)
    assert 0 < mixture.weight < n_nodes
    assert mixture.share + mixture.weight / n_nodes == pytest.approx(1.0, rel=1e-14)
    t = mixture.share * 2.0 / mixture.weight
    assert t <= mixture.loss.losses[0].excess[0]
    assert meets(mixture.loss, epsilon, DELTA)
    more = Profile.both(QuadraticLoss(t * 1.001, 0.0, r))
    assert more.log_delta(epsilon) > math.log(DELTA)


# --- worst case ----------------------------------------------------------------------------------


def test_no_edge_of_any_graph_is_worse_than_one_in_the_empty_graph() -> None:
    rng = np.random.default_rng(0)
    n, r = 6, 3
    estimator = private(n_components=r)
    worst, epsilons = estimator.worst_case(n), np.array([0.0, 0.3, 1.0, 2.0])
    for _ in range(12):
        edges = random_edges(n, rng, density=rng.random())
        u, v = rng.choice(n, 2, replace=False)
        changed = nx.Graph()
        changed.add_nodes_from(range(n))
        changed.add_weighted_edges_from(
            zip(edges.first.tolist(), edges.second.tolist(), edges.weight, strict=True)
        )
        changed.add_edge(int(u), int(v), weight=rng.random())
        laws = [estimator.output_law(graph) for graph in (edges, changed)]
        pair = both_directions(*laws, r)
        assert np.all(pair.log_delta(epsilons) <= worst.log_delta(epsilons) + 1e-9)


def test_the_empty_graph_attains_the_worst_case() -> None:
    n, r = 9, 5
    estimator = private(n_components=r)
    one = nx.Graph([(2, 5)])
    one.add_nodes_from(range(n))
    laws = [estimator.output_law(graph) for graph in (one, nx.empty_graph(n))]
    pair = both_directions(*laws, r)
    assert pair.log_delta(EPSILON) == pytest.approx(math.log(DELTA), rel=1e-8)
    assert pair.log_delta(0.2) == pytest.approx(estimator.worst_case(n).log_delta(0.2), rel=1e-8)


# --- sampling ------------------------------------------------------------------------------------


def test_columns_follow_the_stated_law() -> None:
    n, r = 5, 4000
    edges = random_edges(n, np.random.default_rng(3))
    mixture = least_mixture(8.0, 0.1, 2, n)
    factor = draw_factor(edges, mixture, r, np.random.default_rng(5))
    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    law = mixture.weight * (np.eye(n) - 1 / n) + mixture.share * edges.laplacian()
    cov = basis.T @ law @ basis
    sample = (basis.T @ factor).T
    assert np.abs(factor.sum(axis=0)).max() <= n * grid_spacing(math.sqrt(mixture.weight))
    assert accepts_gaussian(sample, np.zeros(n - 1), cov, LEVEL)
    assert not accepts_gaussian(sample, np.zeros(n - 1), 1.1 * cov, LEVEL)
    without_edges = basis.T @ (mixture.weight * (np.eye(n) - 1 / n)) @ basis
    assert not accepts_gaussian(sample, np.zeros(n - 1), without_edges, LEVEL)


def test_a_cut_is_a_scaled_chi_square() -> None:
    graph, r = nx.karate_club_graph(), 4
    inside, truth = range(10), read_edges(graph, weight=None).cut(range(10))
    estimator = private(n_components=r, epsilon=4.0, weight=None).fit(graph)
    w, share = estimator.sketch_.weight, estimator.sketch_.share
    mixture = least_mixture(4.0, DELTA, r, 34)
    many = draw_factor(read_edges(graph, weight=None), mixture, 3000 * r, np.random.default_rng(0))
    sketches = (GraphSketch(part, range(34), w, share) for part in np.split(many, 3000, axis=1))
    drawn = [float(sketch.cut(inside).value) for sketch in sketches]
    added = w * 10 * 24 / 34 / share
    ratios = (np.array(drawn) + added) / (truth + added) * r
    assert accepts_law(ratios, stats.chi2(r).cdf, LEVEL)
    assert not accepts_law(1.1 * ratios, stats.chi2(r).cdf, LEVEL)
    forecast = estimator.forecast(34, 10, cut=truth)
    assert forecast == pytest.approx(np.std(drawn), rel=0.1)


def test_what_is_released_is_on_the_grid_and_nothing_else() -> None:
    release = private().fit(nx.path_graph(30)).release_
    spacing = grid_spacing(math.sqrt(release.parameters["weight"]))
    assert list(release.arrays) == ["value"]
    assert np.all(release.value == np.rint(release.value / spacing) * spacing)
    assert set(release.parameters) == {"n_components", "nodes", "weight", "share"}


# --- queries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [airline_routes(), nx.les_miserables_graph()], ids=["air", "les"])
def test_promise_on_real_graphs(graph) -> None:
    eta, nu = 0.2, 0.05
    rng = np.random.default_rng(1)
    n = graph.number_of_nodes()
    masks = rng.random((1000, n)) < rng.uniform(0.02, 0.98, (1000, 1))
    masks = masks[masks.any(axis=1) & ~masks.all(axis=1)]
    estimator = private(n_components=738, weight=None).fit(graph)
    value, error = estimator.cuts(masks)
    edges = read_edges(graph, weight=None)
    truth = np.array([edges.cut(mask) for mask in masks])
    sizes, w, share = masks.sum(axis=1), estimator.noise_scale_, estimator.sketch_.share
    tau = eta * w * sizes * (n - sizes) / n / share
    missed = (value < (1 - eta) * truth - tau) | (value > (1 + eta) * truth + tau)
    assert np.mean(missed) <= nu
    assert np.mean(np.abs(value - truth) < 3 * error) > 0.9


def test_cuts_are_the_laplacian_and_the_networkx_graph() -> None:
    graph = nx.les_miserables_graph()
    estimator = private(weight=None).fit(graph)
    sets = [["Valjean"], ["Valjean", "Javert", "Cosette"]]
    value, error = estimator.cuts(sets)
    exported, laplacian = estimator.to_networkx(), estimator.laplacian()
    assert min(weight for _, _, weight in exported.edges(data="weight")) < 0
    for index, inside in enumerate(sets):
        assert nx.cut_size(exported, inside, weight="weight") == pytest.approx(value[index])
        x = np.isin(estimator.sketch_.nodes, inside).astype(float)
        assert x @ laplacian @ x == pytest.approx(value[index])
        assert estimator.cut(inside) == pytest.approx((value[index], error[index]))


def test_the_public_reads_the_same_from_the_file(tmp_path) -> None:
    estimator = private(weight=None).fit(nx.les_miserables_graph())
    path = estimator.release_.save(tmp_path / "graph.npz")
    sketch = GraphSketch.load(path)
    assert sketch.cut(["Valjean"]) == estimator.cut(["Valjean"])
    assert Release.load(path).guarantee.loss == estimator.worst_case(sketch.n_nodes)
    with pytest.raises(ValueError, match="Expected a release of PrivateGraph"):
        GraphSketch.from_release(
            laplace_answers([1.0], sensitivity=1.0, epsilon=1.0, relation="edge", random_state=0)
        )


def test_spectrum_bounds_hold() -> None:
    graph = nx.complete_graph(40)
    estimator = private(epsilon=20.0, n_components=4000).fit(graph)
    value, low, high = estimator.spectrum(39)
    truth = 40.0  # each of the 39 positive eigenvalues of the complete graph
    assert np.all((low < truth) & (truth < high))
    assert np.all(high - low < 60)
    assert np.all(np.diff(value) <= 0)
    assert np.all(np.isinf(private(n_components=20).fit(graph).spectrum(3).high))


def test_effective_resistance() -> None:
    graph = nx.complete_graph(30)
    estimator = private(epsilon=50.0, n_components=6000, delta=1e-3).fit(graph)
    value, error = estimator.effective_resistance(0, 1)
    assert error < 0.01
    assert abs(value - nx.resistance_distance(graph, 0, 1)) < 3 * error
    mixed, mixed_error = estimator.effective_resistance(0, 1, debias=False)
    # The mixture of the complete graph with itself has Laplacian (w + share n) (I - 11^T/n).
    truth = 2 / (estimator.noise_scale_ + 30 * estimator.sketch_.share)
    assert abs(mixed - truth) < 3 * mixed_error
    with pytest.raises(ValueError, match="stands out from the noise"):
        private().fit(nx.path_graph(30)).effective_resistance(0, 1)
    with pytest.raises(ValueError, match=r"n_nodes \+ 2 = 32, got 20"):
        private(n_components=20).fit(graph).effective_resistance(0, 1, debias=False)


# --- input ---------------------------------------------------------------------------------------


def test_all_kinds_of_graphs_give_one_release() -> None:
    graph = nx.Graph()
    graph.add_nodes_from(range(6))
    graph.add_weighted_edges_from([(0, 1, 0.5), (1, 2, 1.0), (2, 0, 0.25), (5, 3, 0.75)])
    frame = nx.to_pandas_edgelist(graph)
    sources = {
        "networkx": (graph, None),
        "matrix": (nx.to_scipy_sparse_array(graph), None),
        "coo": (sparse.coo_matrix(nx.to_scipy_sparse_array(graph)), None),
        "pandas": (frame, 6),
        "arrow": (pa.table(frame), range(6)),
    }
    laws = {
        name: private().output_law(source, nodes=nodes).cov
        for name, (source, nodes) in sources.items()
    }
    for law in laws.values():
        assert np.array_equal(law, laws["networkx"])
    named = pa.table({"source": ["b", "a"], "target": ["c", "b"], "kilometres": [0.1, 0.2]})
    edges = read_edges(named, nodes=["a", "b", "c", "d"], weight="kilometres")
    assert edges.cut(["b"]) == pytest.approx(0.3)
    assert read_edges(named, nodes=["a", "b", "c", "d"], weight=None).cut(["b"]) == 2.0
    coded = pd.DataFrame({"source": pd.Categorical(["b"]), "target": pd.Categorical(["a"])})
    assert read_edges(coded, nodes=["a", "b"]).cut(["a"]) == 1.0


def test_the_order_of_edges_does_not_show() -> None:
    pairs = [("d", "a"), ("c", "b"), ("a", "b")]
    orders = [
        private().fit(nx.Graph(order)).sketch_.nodes for order in itertools.permutations(pairs)
    ]
    assert set(orders) == {("a", "b", "c", "d")}


@pytest.mark.parametrize(
    "graph", [nx.empty_graph(10), nx.Graph([(0, 1), (2, 3)]), sparse.csr_array((4, 4))]
)
def test_empty_and_disconnected_graphs_are_graphs(graph) -> None:
    value, error = private().fit(graph).cut([0, 1])
    assert abs(value) < 4 * error


def weighted(weight: object) -> nx.Graph:
    graph = nx.path_graph(4)
    graph.edges[0, 1]["weight"] = weight
    return graph


@pytest.mark.parametrize(
    ("graph", "nodes", "message"),
    [
        (nx.Graph([(0, 1), (1, 1)]), None, "without self-loops"),
        (sparse.csr_array(np.eye(3)), None, "without self-loops"),
        (weighted(1.5), None, "weights between 0 and 1"),
        (weighted(-0.1), None, "weights between 0 and 1"),
        (weighted(math.nan), None, "weights between 0 and 1"),
        (weighted("heavy"), None, "weights between 0 and 1"),
        (nx.DiGraph([(0, 1)]), None, "undirected graph .* got DiGraph"),
        (nx.MultiGraph([(0, 1), (0, 1)]), None, "undirected graph .* got MultiGraph"),
        (sparse.csr_array([[0.0, 1.0], [0.0, 0.0]]), None, "symmetric matrix"),
        (sparse.csr_array((2, 3)), None, r"square adjacency matrix, got shape \(2, 3\)"),
        (sparse.csr_array((3, 3)), 4, "Expected 3 nodes"),
        (nx.Graph(), None, "at least two nodes, got 0"),
        (nx.empty_graph(1), None, "at least two nodes, got 1"),
        (nx.path_graph(4), 3, "leads elsewhere"),
        (nx.path_graph(2), ["a", "a"], "distinct nodes"),
        (pa.table({"source": [0], "target": [1]}), None, "nodes of an edge list"),
        (pa.table({"source": [0], "target": [7]}), 3, "leads elsewhere"),
        (pa.table({"source": ["x"], "target": ["y"]}), 3, "leads elsewhere"),
        (pa.table({"source": [0, 1], "target": [1, 0]}), 3, "each edge once"),
        (pa.table({"source": [0, None], "target": [1, 2]}), 3, "leads elsewhere"),
        (pa.table({"from": [0], "to": [1]}), 3, "columns 'source' and 'target', got"),
        (pa.table({"source": [0], "target": [1], "weight": ["x"]}), 3, "weights between 0 and 1"),
    ],
)
def test_bad_graphs(graph, nodes, message) -> None:
    with pytest.raises(ValueError, match=message):
        private().fit(graph, nodes=nodes)


def test_nodes_need_plain_names() -> None:
    with pytest.raises(TypeError, match="strings or integers, got tuple"):
        private().fit(nx.grid_2d_graph(2, 2))


@pytest.mark.parametrize("inside", [[], range(10), np.zeros(10, bool), np.ones(10, bool)])
def test_cut_of_nothing_or_everything(inside) -> None:
    with pytest.raises(ValueError, match="some but not all nodes"):
        private().fit(nx.path_graph(10)).cut(inside)


def test_bad_questions() -> None:
    estimator = private()
    with pytest.raises(ValueError, match="fitted PrivateGraph"):
        estimator.cut([0])
    estimator.fit(nx.path_graph(10))
    with pytest.raises(ValueError, match="sets of nodes of the graph"):
        estimator.cut([10])
    with pytest.raises(ValueError, match="sets of nodes of the graph"):
        estimator.cuts([3])
    assert estimator.cuts([]).value.shape == (0,)
    with pytest.raises(ValueError, match="= 9, got k=10"):
        estimator.spectrum(10)
    with pytest.raises(ValueError, match="1 <= s < 10"):
        estimator.forecast(10, 10)
    with pytest.raises(ValueError, match="n_components >= 1"):
        private(n_components=0).calibrate(10)


def test_spends_from_a_ledger(tmp_path) -> None:
    graph = nx.path_graph(20)
    with Ledger.create(tmp_path / "budget.ndis", 1.5, 1e-5, "edge", accept=["seeded"]) as ledger:
        private(ledger=ledger).fit(graph)
        assert ledger.remaining().epsilon < 1.5
        with pytest.raises(BudgetExceeded):
            private(ledger=ledger, epsilon=1.4).fit(graph)


# --- baselines -----------------------------------------------------------------------------------


def test_laplace_answers() -> None:
    release = laplace_answers(
        np.zeros(20_000), sensitivity=1.0, epsilon=2.0, relation="edge", random_state=0
    )
    scale = release.parameters["noise_scale"]
    assert 10_000.0 < scale < 10_000.0 * (1 + 1e-14)
    assert accepts_law(release.value, stats.laplace(0, scale).cdf, LEVEL)
    assert not accepts_law(release.value, stats.laplace(0, 1.1 * scale).cdf, LEVEL)
    assert (release.guarantee.epsilon, release.guarantee.delta) == (2.0, 0.0)
    assert laplace_error(2.0, 20_000) == pytest.approx(math.sqrt(2) * scale)


def test_randomized_response() -> None:
    n, epsilon = 100, 1.0
    release = randomized_response(nx.path_graph(n), epsilon=epsilon, random_state=0)
    lie = release.parameters["lie"]
    assert math.log((1 - lie) / lie) <= epsilon
    pairs = np.triu_indices(n, 2)  # no edges there
    lies = np.count_nonzero(release.value[pairs] > 0.5)
    assert accepts_rate(lies, pairs[0].size, lie, LEVEL)
    assert not accepts_rate(lies, pairs[0].size, 1.1 * lie, LEVEL)
    cut = release.value[:50, 50:].sum()
    assert abs(cut - 1.0) < 3 * response_error(epsilon, n, 50)
    spread = np.std(release.value[pairs]) * math.sqrt(50 * 50)
    assert response_error(epsilon, n, 50) == pytest.approx(spread, rel=0.05)
    assert release.guarantee.delta == 0.0


def test_gaussian_weights() -> None:
    n = 60
    release = gaussian_weights(nx.path_graph(n), epsilon=EPSILON, delta=DELTA, random_state=0)
    assert meets(release.guarantee.loss, EPSILON, DELTA)
    noise = release.value[np.triu_indices(n, 2)]
    assert gaussian_error(EPSILON, DELTA, n, 30) == pytest.approx(30 * np.std(noise), rel=0.05)
    assert abs(release.value[:30, 30:].sum() - 1.0) < 3 * gaussian_error(EPSILON, DELTA, n, 30)
