"""Graphs by sketch, responses and answers: worst cases, laws, answers, and which is best."""

import math

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse, stats

from laws import output_law
from ndis import PrivateGraph, Release, audit, privacy_loss
from ndis.auditing import audit_loss
from ndis.calibration import meets, noise_multiplier
from ndis.loss import Profile, QuadraticLoss
from ndis.mechanisms.graph import draw_factor, draw_responses
from ndis.mechanisms.laws import pure_loss
from ndis.randomness import grid_spacing
from ndis.tables import Edges, read_edges
from samplers import LEVEL, accepts_gaussian, accepts_law, accepts_rate

EPSILON, DELTA = 1.0, 1e-6


def private(nodes=None, **changes):
    parameters = {"epsilon": EPSILON, "delta": DELTA, "method": "sketch", "random_state": 7}
    return PrivateGraph(nodes, **(parameters | changes))


def fitted(graph, **changes):
    return private(sorted(graph.nodes), **changes).fit(graph)


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


# --- sketch --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_nodes", "r", "weight"), [(1000, 738, 147.8), (100_000, 4239, 398.4)])
def test_the_noise_is_that_of_the_paper_in_its_own_units(n_nodes, r, weight) -> None:
    """Blocki et al. mix w of the complete graph into 1 - w/n of this one: w = v/(1 + v/n)."""
    v = private(n_components=r).calibrate(n_nodes)
    assert v / (1 + v / n_nodes) == pytest.approx(weight, abs=0.05)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 20.0])
@pytest.mark.parametrize("r", [1, 738])
def test_the_noise_of_a_sketch_is_private_and_the_least(epsilon, r) -> None:
    plan = private(epsilon=epsilon, n_components=r).plan(10)
    assert meets(plan.loss, epsilon, DELTA)
    more = Profile.both(QuadraticLoss(2.002 / plan.noise_scale, 0.0, r))
    assert more.log_delta(epsilon) > math.log(DELTA)


def test_no_edge_of_any_graph_is_worse_than_one_in_the_empty_graph() -> None:
    rng = np.random.default_rng(0)
    n, r = 6, 3
    estimator = private(n, n_components=r)
    worst, epsilons = estimator.plan().loss, np.array([0.0, 0.3, 1.0, 2.0])
    for _ in range(12):
        edges = random_edges(n, rng, density=rng.random())
        u, v = rng.choice(n, 2, replace=False)
        changed = nx.Graph()
        changed.add_nodes_from(range(n))
        changed.add_weighted_edges_from(
            zip(edges.first.tolist(), edges.second.tolist(), edges.weight, strict=True)
        )
        changed.add_edge(int(u), int(v), weight=rng.random())
        laws = [output_law(estimator, graph) for graph in (edges, changed)]
        pair = both_directions(*laws, r)
        assert np.all(pair.log_delta(epsilons) <= worst.log_delta(epsilons) + 1e-9)


def test_the_empty_graph_attains_the_worst_case() -> None:
    n, r = 9, 5
    estimator = private(n, n_components=r)
    laws = [output_law(estimator, graph) for graph in (nx.Graph([(2, 5)]), nx.empty_graph(n))]
    pair = both_directions(*laws, r)
    assert pair.log_delta(EPSILON) == pytest.approx(math.log(DELTA), rel=1e-8)
    assert pair.log_delta(0.2) == pytest.approx(estimator.plan().loss.log_delta(0.2), rel=1e-8)


def test_an_edge_of_the_computed_factor_is_never_longer_than_its_weight_allows() -> None:
    """Roots are rounded: what is drawn belongs to the rounded ones, of which this is the bound."""
    weights = np.concatenate([np.arange(1, 2**20, 999), [2**20]]) / 2**20
    edges = Edges(range(2000), np.arange(weights.size), np.full(weights.size, 1999), weights)
    squares = np.asarray((edges.incidence() ** 2).sum(axis=0)).reshape(-1)
    assert np.all(squares <= 2.0 * weights * (1 + 2.0**-50))
    assert squares[-1] == 2.0


def test_columns_follow_the_stated_law() -> None:
    n, r, noise = 5, 4000, 3.0
    edges = random_edges(n, np.random.default_rng(3))
    factor = draw_factor(edges, noise, r, np.random.default_rng(5))
    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    cov = basis.T @ (noise * np.eye(n) + edges.laplacian()) @ basis
    sample = (basis.T @ factor).T
    assert np.abs(factor.sum(axis=0)).max() <= n * grid_spacing(math.sqrt(noise))
    assert accepts_gaussian(sample, np.zeros(n - 1), cov, LEVEL)
    assert not accepts_gaussian(sample, np.zeros(n - 1), 1.1 * cov, LEVEL)
    assert not accepts_gaussian(sample, np.zeros(n - 1), noise * np.eye(n - 1), LEVEL)


def test_a_cut_is_a_scaled_chi_square() -> None:
    graph, r = nx.karate_club_graph(), 4
    estimator = fitted(graph, n_components=3000 * r, noise_scale=40.0, epsilon=None, weight=None)
    truth = nx.cut_size(graph, range(10))
    x, added = np.zeros(34), 40.0 * 10 * 24 / 34
    x[:10] = 1
    forms = np.mean((x @ estimator.release_.arrays["factor"]).reshape(3000, r) ** 2, axis=1)
    ratios = forms / (truth + added) * r
    assert accepts_law(ratios, stats.chi2(r).cdf, LEVEL)
    assert not accepts_law(1.1 * ratios, stats.chi2(r).cdf, LEVEL)
    value, error = estimator.cut(range(10))
    assert abs(value - truth) < 4 * error


# --- responses and answers -----------------------------------------------------------------------


def test_pure_losses_are_those_of_two_answers() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        loss, q = pure_loss(epsilon), 1.0 / (1.0 + math.exp(epsilon))
        for e in (0.0, 0.3 * epsilon, 0.9 * epsilon):
            assert loss.delta(e) == pytest.approx(1 - q - math.exp(e) * q, rel=1e-9)
            assert loss.delta(e) >= 1 - q - math.exp(e) * q
        assert loss.delta(1.001 * epsilon) == 0.0


def test_responses_lie_as_often_as_stated() -> None:
    n, graph = 150, nx.path_graph(150)
    model = private(n, method="responses").fit(graph)
    noise = model.noise_scale_
    lie = 0.5 * (1.0 - 1.0 / math.sqrt(1.0 + 4.0 * noise**2))
    # The least that is private: P(1 | edge) = e^epsilon P(1 | none) + delta.
    assert 1 - lie == pytest.approx(math.exp(EPSILON) * lie + DELTA, rel=1e-6)
    truth = nx.to_numpy_array(graph)[np.triu_indices(n, 1)]
    lies = np.count_nonzero(model.release_.arrays["responses"] != truth)
    assert accepts_rate(lies, truth.size, lie, LEVEL)
    assert not accepts_rate(lies, truth.size, 1.15 * lie, LEVEL)
    laplacian = model.laplacian()
    spread = np.std(laplacian[np.triu_indices(n, 2)])
    assert spread == pytest.approx(noise, rel=0.05)


def test_weights_are_rounded_at_random() -> None:
    edges = Edges(range(400), np.arange(399), np.arange(1, 400), np.full(399, 0.25))
    rng = np.random.default_rng(0)
    upper = np.triu_indices(400, 1)
    on_path = upper[1] - upper[0] == 1
    seen = [int(draw_responses(edges, 1e-3, rng)[on_path].sum()) for _ in range(20)]
    assert accepts_rate(sum(seen), 20 * 399, 0.25, LEVEL)
    model = private(400, method="responses", epsilon=5.0).fit(edges)
    value, error = model.cuts([range(200), range(0, 400, 2)])
    assert np.all(np.abs(value - [0.25, 399 * 0.25]) < 4 * error)


@pytest.mark.parametrize("k", [1, 40])
def test_answers_have_the_noise_of_what_an_edge_can_cross(k) -> None:
    graph = nx.gnp_random_graph(60, 0.3, seed=1)
    sets = [list(range(j + 1)) for j in range(k)]
    model = private(60, method="answers", sets=sets).fit(graph)
    laplace = math.sqrt(2.0) * k / EPSILON
    gauss = math.sqrt(k) * noise_multiplier(EPSILON, DELTA)
    assert model.noise_scale_ == pytest.approx(min(laplace, gauss), rel=1e-5)
    truth = [nx.cut_size(graph, inside) for inside in sets]
    value, error = model.cuts(sets)
    assert np.all(np.abs(value - truth) < 5 * error)
    other = set(range(60)) - set(sets[0])
    assert model.cut(other) == model.cut(sets[0])
    with pytest.raises(ValueError, match="cuts were declared"):
        model.cut([59])
    with pytest.raises(ValueError, match="Expected a sketch, got a release by answers"):
        model.laplacian()


def test_disjoint_sets_are_crossed_twice_at_most() -> None:
    thirds = [range(20), range(20, 40), range(40, 60)]
    one = private(60, method="answers", sets=thirds[:1]).calibrate()
    assert private(60, method="answers", sets=thirds).calibrate() == pytest.approx(2 * one)


def test_a_plan_costs_no_more_than_its_parameters() -> None:
    """A stranger's certificate may name any number of nodes."""
    known = {"nodes": 10**15, "method": "answers", "sets": [[7], [3, 7]], "noise_scale": 2.0}
    assert PrivateGraph.from_public(known, DELTA).shapes == {"answers": (2,)}


def test_answers_follow_the_laws_they_state() -> None:
    path, rng = nx.path_graph(5), np.random.default_rng(0)
    how = {"epsilon": None, "method": "answers"}
    pure = private(5, sets=[[0]], noise_scale=math.sqrt(2.0), **how).prepare(path)
    draws = np.array([pure.draw(rng)["answers"][0] for _ in range(700)])
    assert accepts_law(draws - 1.0, stats.laplace.cdf, LEVEL)
    assert not accepts_law(1.6 * (draws - 1.0), stats.laplace.cdf, LEVEL)
    gauss = private(5, sets=[[0]] * 3000, noise_scale=3.0, **how)
    draws = gauss.prepare(path).draw(rng)["answers"]
    assert accepts_law((draws - 1.0) / 3.0, stats.norm.cdf, LEVEL)
    assert not accepts_law(1.15 * (draws - 1.0) / 3.0, stats.norm.cdf, LEVEL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"method": "sketch", "n_components": 5},
        {"method": "answers", "sets": [[0], [0, 1], [0, 1, 2]] * 8},
    ],
)
def test_audits(how) -> None:
    path, empty = nx.path_graph(5), nx.empty_graph(5)
    sound = private(5, **how)
    assert audit(sound, path).outcome == "consistent"
    careless = private(5, **how, epsilon=None, noise_scale=0.5 * sound.calibrate())
    assert audit(careless, empty, claim=(EPSILON, DELTA)).outcome == "refuted"


def test_audits_of_pure_losses() -> None:
    """Lies and Laplace noise meet their claim, and the same with half the noise does not."""
    for how in ({"method": "responses"}, {"method": "answers", "sets": [[0]]}):
        sound = private(5, **how)
        assert float(sound.plan().loss.delta(EPSILON)) <= DELTA
        careless = private(5, **how, epsilon=None, noise_scale=0.5 * sound.calibrate())
        assert careless.plan().guarantee.epsilon > 1.5 * EPSILON
        with pytest.raises(ValueError, match="attains"):
            audit_loss(sound.plan().loss, (EPSILON, DELTA))


# --- which is best -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "s", "k", "best"),
    [
        (1000, 1, 1, "answers"),
        (1000, 1, 100, "sketch"),
        (1000, 10, None, "sketch"),
        (1000, 100, None, "responses"),
        (1000, 100, 100, "answers"),
        (1000, 100, 10_000, "responses"),
        (100_000, 1000, None, "sketch"),
    ],
)
def test_auto_takes_the_least_error(n, s, k, best) -> None:
    plan = private(method="auto", cut_size=s, n_cuts=k, n_components=738).plan(n)
    assert plan.method == best
    assert plan.reason.startswith(f"A cut of {s} nodes has a standard error of about")


@pytest.mark.slow
def test_forecasts_are_the_errors_that_are_seen() -> None:
    graph = nx.gnp_random_graph(60, 0.2, seed=2)
    truth = nx.cut_size(graph, range(30))
    for method in ("sketch", "responses", "answers"):
        how = {"method": method, "cut_size": 30, "sets": [range(30)], "weight": None}
        off = [
            float(private(60, **how, random_state=s, epsilon=4.0).fit(graph).cut(range(30)).value)
            for s in range(60)
        ]
        forecast = private(60, **how, epsilon=4.0).forecast(n_rows=graph.size())
        ((low, high),) = forecast.errors.values()
        assert 0.6 * low < np.sqrt(np.mean(np.subtract(off, truth) ** 2)) < 1.35 * high


# --- queries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [airline_routes(), nx.les_miserables_graph()], ids=["air", "les"])
def test_promise_on_real_graphs(graph) -> None:
    eta, nu = 0.2, 0.05
    rng = np.random.default_rng(1)
    n = graph.number_of_nodes()
    masks = rng.random((1000, n)) < rng.uniform(0.02, 0.98, (1000, 1))
    masks = masks[masks.any(axis=1) & ~masks.all(axis=1)]
    estimator = fitted(graph, n_components=738, weight=None)
    value, error = estimator.cuts(masks)
    edges = read_edges(graph, nodes=sorted(graph.nodes), weight=None)
    truth = np.array([edges.cut(mask) for mask in masks])
    sizes = masks.sum(axis=1)
    tau = eta * estimator.noise_scale_ * sizes * (n - sizes) / n
    missed = (value < (1 - eta) * truth - tau) | (value > (1 + eta) * truth + tau)
    assert np.mean(missed) <= nu
    assert np.mean(np.abs(value - truth) < 3 * error) > 0.9


@pytest.mark.parametrize("method", ["sketch", "responses"])
def test_cuts_are_the_laplacian_and_the_networkx_graph(method) -> None:
    estimator = fitted(nx.les_miserables_graph(), method=method, weight=None)
    sets = [["Valjean"], ["Valjean", "Javert", "Cosette"]]
    value, error = estimator.cuts(sets)
    exported, laplacian = estimator.to_networkx(), estimator.laplacian()
    assert min(weight for _, _, weight in exported.edges(data="weight")) < 0
    for index, inside in enumerate(sets):
        assert nx.cut_size(exported, inside, weight="weight") == pytest.approx(value[index])
        x = np.isin(sorted(nx.les_miserables_graph()), inside).astype(float)
        assert x @ laplacian @ x == pytest.approx(value[index])
        assert estimator.cut(inside) == pytest.approx((value[index], error[index]))


@pytest.mark.parametrize("method", ["sketch", "responses", "answers"])
def test_the_public_reads_the_same_from_the_file(tmp_path, method) -> None:
    sets = [["Valjean"], ["Javert", "Valjean"]]
    estimator = fitted(nx.les_miserables_graph(), method=method, weight=None, sets=sets)
    public = PrivateGraph.from_release(
        Release.load(estimator.release_.save(tmp_path / "graph.npz"))
    )
    assert public.cut(["Valjean"]) == estimator.cut(["Valjean"])
    assert public.plan().guarantee.epsilon == pytest.approx(EPSILON, rel=1e-6)
    planned = PrivateGraph.from_public(public.release_.parameters, DELTA)
    assert planned.loss.delta(EPSILON) == pytest.approx(DELTA, rel=1e-6)


def test_spectrum_bounds_hold() -> None:
    graph = nx.complete_graph(40)
    estimator = fitted(graph, epsilon=20.0, n_components=4000)
    value, low, high = estimator.spectrum(39)
    truth = 40.0  # each of the 39 positive eigenvalues of the complete graph
    assert np.all((low < truth) & (truth < high))
    assert np.all(high - low < 60)
    assert np.all(np.diff(value) <= 0)
    assert np.all(np.isinf(fitted(graph, n_components=20).spectrum(3).high))


def test_effective_resistance() -> None:
    graph = nx.complete_graph(30)
    estimator = fitted(graph, epsilon=50.0, n_components=6000, delta=1e-3)
    value, error = estimator.effective_resistance(0, 1)
    assert error < 0.01
    assert abs(value - nx.resistance_distance(graph, 0, 1)) < 3 * error
    mixed, mixed_error = estimator.effective_resistance(0, 1, debias=False)
    # The complete graph with v/n added to its edges has Laplacian (v + n) (I - 11^T/n).
    truth = 2 / (estimator.noise_scale_ + 30)
    assert abs(mixed - truth) < 3 * mixed_error
    with pytest.raises(ValueError, match="stands out from the noise"):
        fitted(nx.path_graph(30)).effective_resistance(0, 1)
    with pytest.raises(ValueError, match=r"n_components > 32, .* got 20"):
        fitted(graph, n_components=20).effective_resistance(0, 1, debias=False)


# --- input ---------------------------------------------------------------------------------------


def test_all_kinds_of_graphs_give_one_release() -> None:
    graph = nx.Graph()
    graph.add_nodes_from(range(6))
    graph.add_weighted_edges_from([(0, 1, 0.5), (1, 2, 1.0), (2, 0, 0.25), (5, 3, 0.75)])
    frame = nx.to_pandas_edgelist(graph)
    sources = {
        "networkx": graph,
        "matrix": nx.to_scipy_sparse_array(graph),
        "coo": sparse.coo_matrix(nx.to_scipy_sparse_array(graph)),
        "pandas": frame,
        "arrow": pa.table(frame),
    }
    laws = {name: output_law(private(6), source).cov for name, source in sources.items()}
    for law in laws.values():
        assert np.array_equal(law, laws["networkx"])
    named = pa.table({"source": ["b", "a"], "target": ["c", "b"], "kilometres": [0.1, 0.2]})
    edges = read_edges(named, nodes=["a", "b", "c", "d"], weight="kilometres")
    assert edges.cut(["b"]) == pytest.approx(0.3, abs=1e-5)
    assert read_edges(named, nodes=["a", "b", "c", "d"], weight=None).cut(["b"]) == 2.0
    coded = pd.DataFrame({"source": pd.Categorical(["b"]), "target": pd.Categorical(["a"])})
    assert read_edges(coded, nodes=["a", "b"]).cut(["a"]) == 1.0


def test_nodes_are_never_taken_from_the_graph() -> None:
    for graph in (nx.path_graph(4), nx.to_scipy_sparse_array(nx.path_graph(4))):
        with pytest.raises(ValueError, match="Expected the public nodes of the graph, got none"):
            private().fit(graph)
    nodes = private(["d", "b", "c", "a", "x"]).fit(nx.Graph([("d", "a"), ("c", "b")]))
    assert nodes.release_.parameters["nodes"] == ["d", "b", "c", "a", "x"]


@pytest.mark.parametrize(
    "graph", [nx.empty_graph(4), nx.Graph([(0, 1), (2, 3)]), sparse.csr_array((4, 4))]
)
def test_empty_and_disconnected_graphs_are_graphs(graph) -> None:
    value, error = private(4).fit(graph).cut([0, 1])
    assert abs(value) < 4 * error


def weighted(weight: object) -> nx.Graph:
    graph = nx.path_graph(4)
    graph.edges[0, 1]["weight"] = weight
    return graph


@pytest.mark.parametrize(
    ("graph", "nodes", "message"),
    [
        (nx.Graph([(0, 1), (1, 1)]), 2, "without self-loops"),
        (sparse.csr_array(np.eye(3)), 3, "without self-loops"),
        (weighted(1.5), 4, "weights between 0 and 1"),
        (weighted(-0.1), 4, "weights between 0 and 1"),
        (weighted(math.nan), 4, "weights between 0 and 1"),
        (weighted("heavy"), 4, "weights between 0 and 1"),
        (nx.DiGraph([(0, 1)]), 2, "undirected graph .* got DiGraph"),
        (nx.MultiGraph([(0, 1), (0, 1)]), 2, "undirected graph .* got MultiGraph"),
        (sparse.csr_array([[0.0, 1.0], [0.0, 0.0]]), 2, "symmetric matrix"),
        (sparse.csr_array((2, 3)), 2, r"square adjacency matrix, got shape \(2, 3\)"),
        (sparse.csr_array((3, 3)), 4, "Expected 3 nodes"),
        (nx.empty_graph(1), 1, "nodes >= 2, got nodes=1"),
        (nx.path_graph(4), 3, "leads elsewhere"),
        (nx.path_graph(2), ["a", "a"], "distinct nodes"),
        (pa.table({"source": [0], "target": [1]}), None, "public nodes"),
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
        private(nodes).fit(graph)


def test_nodes_need_plain_names() -> None:
    with pytest.raises(TypeError, match="strings or integers, got tuple"):
        private(list(nx.grid_2d_graph(2, 2))).plan()


@pytest.mark.parametrize("inside", [[], range(10), np.zeros(10, bool), np.ones(10, bool)])
def test_cut_of_nothing_or_everything(inside) -> None:
    with pytest.raises(ValueError, match="some but not all nodes"):
        private(10).fit(nx.path_graph(10)).cut(inside)


def test_bad_questions() -> None:
    estimator = private(10)
    with pytest.raises(ValueError, match="not fitted yet"):
        estimator.cut([0])
    estimator.fit(nx.path_graph(10))
    with pytest.raises(ValueError, match="sets of nodes of the graph"):
        estimator.cut([10])
    with pytest.raises(ValueError, match="sets of nodes of the graph"):
        estimator.cuts([3])
    assert estimator.cuts([]).value.shape == (0,)
    with pytest.raises(ValueError, match=r"k <= 9, .* got k=10"):
        estimator.spectrum(10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cut_size": 10, "method": "auto"}, "cut_size < 10"),
        ({"n_components": 0}, "n_components >= 1"),
        ({"method": "answers"}, "Expected the sets"),
        ({"method": "answers", "sets": [[0]], "n_cuts": 2}, "as many sets as n_cuts=2, got 1"),
        ({"method": "auto", "epsilon": None, "noise_scale": 2.0}, "a method for a given"),
        ({"method": "guess"}, "method to be one of"),
        ({"method": "responses", "nodes": 20_000}, "at most 10000 nodes"),
    ],
)
def test_bad_plans(changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        private(**{"nodes": 10, **changes}).plan()


def test_sets_must_be_named_before_the_graph_is_read() -> None:
    with pytest.raises(ValueError, match="Expected the sets"):
        private(10, method="auto", n_cuts=1).fit("no graph")
