"""Graph cuts: which release answers which question best, what it costs, what it is off by.

    python benchmarks/bench_graph.py

Prints the figures of docs/graph.md and draws its pictures into docs/assets/. Times are processor
times on one core; rivals take turns and each keeps its best.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
from timing import best_times, peak_memory

from ndis import PrivateGraph, plots
from ndis.calibration import noise_multiplier
from ndis.mechanisms.graph import draw_factor
from ndis.randomness import generator
from ndis.tables import Edges, read_edges

ASSETS = Path(__file__).resolve().parent.parent / "docs" / "assets"
PROMISE = {"epsilon": 1.0, "delta": 1e-6}


def rule() -> None:
    print(
        "Standard errors of a cut of s of n nodes, epsilon 1: sketch (r = 738), responses; answers"
    )
    print("to k declared cuts that one edge may all cross. The method that is chosen comes last.")
    for n, s, k in (
        (100, 1, 100), (100, 10, 100), (1000, 1, 10), (1000, 10, 100), (1000, 10, 10_000),
        (1000, 100, 100), (10_000, 10, 10_000), (10_000, 1000, 10_000), (100_000, 100, 10**6),
    ):  # fmt: skip
        shared = {"cut_size": s, "n_cuts": k, "n_components": 738, **PROMISE}
        errors = []
        for method in ("sketch", "responses", "answers"):
            possible = method != "responses" or n <= 10_000
            forecast = PrivateGraph(n, method=method, **shared).forecast() if possible else None
            errors.append(
                "-" if forecast is None else f"{next(iter(forecast.errors.values()))[0]:.3g}"
            )
        chosen = PrivateGraph(n, **shared).plan().method
        print(f"  n {n}, s {s}, k {k}: {errors[0]}, {errors[1]}; {errors[2]}: {chosen}")


# --- time and memory -----------------------------------------------------------------------------


def random_graph(n_nodes: int, n_edges: int) -> Edges:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, n_nodes, (2, n_edges + n_edges // 8))
    low, high = ends.min(axis=0), ends.max(axis=0)
    keys = rng.permutation(np.unique((low * n_nodes + high)[low != high]))[:n_edges]
    return Edges(range(n_nodes), keys // n_nodes, keys % n_nodes, np.ones(n_edges))


def large_graph(n_nodes: int = 100_000, n_edges: int = 1_000_000, r: int = 100) -> None:
    edges = random_graph(n_nodes, n_edges)
    noise = PrivateGraph(n_nodes, method="sketch", n_components=r, **PROMISE).calibrate()
    incidence = edges.incidence()

    def plain() -> None:
        rng = np.random.default_rng(0)
        for _ in range(0, r, 10):  # all at once would take 0.8 GB, and longer
            incidence @ rng.standard_normal((n_edges, 10))

    times = best_times(
        {"release": lambda: draw_factor(edges, noise, r, generator()), "plain": plain}, rounds=2
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
        f"a sparse incidence matrix; peak memory {peak.strip()} GB (target < 1)"
    )


def peak() -> None:
    """Print the peak memory of a whole release, in a process of its own."""
    edges = random_graph(100_000, 1_000_000)
    private = PrivateGraph(100_000, method="sketch", n_components=100, **PROMISE).fit(edges)
    private.cut(range(100))
    print(f"{peak_memory() / 1024:.2f}")


# --- real graphs ---------------------------------------------------------------------------------


def airline_routes() -> nx.Graph:
    from bokeh_sampledata.airport_routes import routes

    pairs = zip(routes.Source, routes.Destination, strict=True)
    return nx.Graph((u, v) for u, v in pairs if u != v)


def real_graphs() -> None:
    print("1,000 random cuts of one release: root mean square error, stated, median true cut")
    rng = np.random.default_rng(0)
    for name, network in (("airline", airline_routes()), ("Les Mis", nx.les_miserables_graph())):
        nodes = sorted(network.nodes)
        n, edges = len(nodes), read_edges(network, nodes=nodes, weight=None)
        inside = np.array([rng.permutation(n) < rng.integers(1, n) for _ in range(1000)])
        truth = np.array([edges.cut(mask) for mask in inside])
        for method in ("sketch", "responses", "answers"):
            private = PrivateGraph(
                nodes, method=method, n_components=738, weight=None, random_state=0,
                sets=inside if method == "answers" else None, **PROMISE,
            ).fit(network)  # fmt: skip
            value, error = private.cuts(inside)
            print(
                f"  {name} ({n} nodes), {method}: {np.sqrt(np.mean((value - truth) ** 2)):.0f}, "
                f"{np.sqrt(np.mean(error**2)):.0f}, {np.median(truth):.0f}"
            )
        print(f"    auto: {PrivateGraph(nodes, **PROMISE).plan().method}")


# --- pictures ------------------------------------------------------------------------------------


def pictures(n_nodes: int = 100_000, r: int = 4239) -> None:
    sketch = PrivateGraph(n_nodes, method="sketch", n_components=r, **PROMISE)
    v, sigma = sketch.calibrate(), noise_multiplier(**PROMISE)
    lies = PrivateGraph(100, method="responses", **PROMISE).calibrate()

    def by_sketch(s: int) -> float:
        return math.sqrt(2.0 / r) * v * s * (n_nodes - s) / n_nodes

    def by_pairs(noise: float) -> Callable[[int], float]:
        return lambda s: noise * math.sqrt(s * (n_nodes - s))

    sizes = np.unique(np.geomspace(1, n_nodes // 2, 60).astype(int))
    per_size: dict[str, Callable[[int], float]] = {
        "sketch": by_sketch,
        "randomized response": by_pairs(lies),
        "Gaussian noise on every weight": by_pairs(sigma),
        "answers, 1,000 cuts": lambda s: math.sqrt(1000) * sigma,
    }
    draw(per_size, sizes, "nodes in the cut", ASSETS / "graph-error-by-size.svg")
    queries = np.unique(np.geomspace(1, 10**6, 60).astype(int))
    per_query: dict[str, Callable[[int], float]] = {
        "sketch": lambda k: by_sketch(100),
        "randomized response": lambda k: by_pairs(lies)(100),
        "Gaussian noise on every answer": lambda k: math.sqrt(k) * sigma,
        "Laplace noise on every answer": lambda k: math.sqrt(2.0) * k / PROMISE["epsilon"],
    }
    draw(per_query, queries, "cuts of 100 nodes", ASSETS / "graph-error-by-queries.svg")


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
    rule()
    real_graphs()
    large_graph()
    print("Pictures")
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "ndis"}):
        pictures()


if __name__ == "__main__":
    main()
