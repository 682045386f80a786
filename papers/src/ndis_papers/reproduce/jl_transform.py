"""Tables I and II of the Johnson-Lindenstrauss paper, measured: cuts and directional variances.

The paper compares orders of errors; here every mechanism that can be run answers the same queries
about a made-up graph, or table, at the same (epsilon, delta). The exponential mechanism weighs all
graphs and is run where there are few nodes. Multiplicative weights and IDC learn a graph, or a
matrix, from noisy answers to the queries that it answers worst (pure epsilon).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from ndis.calibration import noise_multiplier
from ndis.tables import track
from ndis_papers import johnson_lindenstrauss as jl
from ndis_papers._validate import FloatArray
from ndis_papers.reproduce._output import Row, write_rows
from ndis_papers.sketches import draw_sketch

EPSILON, DELTA = 1.0, 1e-6
# Relative error and failure probability that a sketch is made for.
ETA, NU = 0.2, 0.05
QUERIES = 100
DENSITY = 0.1
# Rounds of multiplicative weights and of IDC.
ROUNDS = 10
# So few nodes that all graphs can be weighed.
FEW = 6

Answer = Callable[[np.random.Generator], FloatArray]


def laplace_scale(k: int) -> float:
    """The scale of Laplace noise on each of k answers of sensitivity 1: the better composition.

    Examples
    --------
    >>> from ndis_papers.reproduce.jl_transform import laplace_scale
    >>> laplace_scale(1)
    1.0
    """

    def advanced(share: float) -> float:
        return math.sqrt(2 * k * math.log(1 / DELTA)) * share + k * share * math.expm1(share)

    share = float(brentq(lambda e: advanced(e) - EPSILON, 1e-12, EPSILON))
    return 1.0 / max(share, EPSILON / k)


def random_graph(n: int, rng: np.random.Generator, density: float = DENSITY) -> FloatArray:
    """The adjacency matrix of a random graph."""
    upper = np.triu(rng.random((n, n)) < density, 1).astype(np.float64)
    return np.asarray(upper + upper.T)


def cuts(weights: FloatArray, members: FloatArray) -> FloatArray:
    """The weight of edges that leave each set; a row of `members` has ones for its nodes."""
    return np.asarray(np.einsum("ki,ij,kj->k", members, weights, 1.0 - members, optimize=True))


def sketched_cuts(
    weights: FloatArray, members: FloatArray, w: float, r: int, rng: np.random.Generator
) -> FloatArray:
    """Cuts of a published sketch of the graph mixed with the complete one, freed from the mixture.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.reproduce.jl_transform import sketched_cuts
    >>> ring = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    >>> one = np.eye(6)[:1]
    >>> bool(abs(sketched_cuts(ring, one, 2.0, 10**5, np.random.default_rng(0))[0] - 2) < 0.1)
    True
    """
    n = len(weights)
    mixed = w / n + (1.0 - w / n) * weights
    np.fill_diagonal(mixed, 0.0)
    laplacian = np.diag(mixed.sum(axis=1)) - mixed
    sketch = members @ draw_sketch(laplacian, 0.0, r, rng)
    s = members.sum(axis=1)
    return np.asarray((np.mean(sketch**2, axis=1) - w * s * (n - s) / n) / (1.0 - w / n))


def exponential(weights: FloatArray, members: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Cuts of a graph drawn among all graphs, likelier the smaller its largest error is.

    One edge changes that error by at most 1, so that e^(-eps/2 error) has pure epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.reproduce.jl_transform import cuts, exponential
    >>> path, nodes = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1), np.eye(4)
    >>> exponential(path, nodes, np.random.default_rng(0)).shape
    (4,)
    """
    n = len(weights)
    ends = np.triu_indices(n, 1)
    n_edges = len(ends[0])
    graphs = (np.arange(2**n_edges)[:, None] >> np.arange(n_edges)) & 1
    crossing = members[:, ends[0]] != members[:, ends[1]]
    answers = graphs @ crossing.T.astype(np.float64)
    error = np.abs(answers - cuts(weights, members)).max(axis=1)
    return np.asarray(answers[np.argmax(-0.5 * EPSILON * error + rng.gumbel(size=error.size))])


def worst_first(
    truth: FloatArray,
    answers: Callable[[], FloatArray],
    learn: Callable[[int, float], None],
    share: float,
    rng: np.random.Generator,
) -> None:
    """In every round find, privately, the query that is answered worst; measure and learn it.

    Answers have sensitivity 1. A round costs two shares of pure epsilon: one for the exponential
    mechanism, one for Laplace noise. ``learn`` gets the query and by how much its answer is off.
    """
    for _ in range(ROUNDS):
        found = answers()
        worst = int(np.argmax(0.5 * share * np.abs(truth - found) + rng.gumbel(size=truth.size)))
        learn(worst, float(truth[worst] + rng.laplace(scale=1 / share) - found[worst]))


def learnt_cuts(
    weights: FloatArray, members: FloatArray, rng: np.random.Generator, multiplicative: bool
) -> FloatArray:
    """Cuts of a graph learnt by multiplicative weights, or by IDC of Frieze and Kannan's kind.

    IDC starts from nothing, and puts what is missing in a cut on all pairs across in equal parts.
    Multiplicative weights start from equal weights, with a noisy total.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.reproduce.jl_transform import learnt_cuts, random_graph
    >>> graph = 1e6 * random_graph(40, np.random.default_rng(0))
    >>> half = (np.arange(40) < 20).astype(float)[None]
    >>> exact = half[0] @ graph @ (1 - half[0])
    >>> found = learnt_cuts(graph, half, np.random.default_rng(1), False)[0]
    >>> bool(abs(found / exact - 1) < 1e-3)
    True
    """
    n, share = len(weights), EPSILON / (2 * ROUNDS + multiplicative)
    total = float(weights.sum()) + 2 * rng.laplace(scale=1 / share) if multiplicative else 0.0
    learnt = np.full((n, n), max(total, 0.0) / (n * (n - 1)))
    np.fill_diagonal(learnt, 0.0)

    def learn(query: int, missing: float) -> None:
        across = np.outer(members[query], 1.0 - members[query])
        if not multiplicative:
            learnt[:] += missing / across.sum() * (across + across.T)
        elif total > 0:
            learnt[:] *= np.exp((across + across.T) * missing / total)
            learnt[:] *= total / learnt.sum()

    worst_first(cuts(weights, members), lambda: cuts(learnt, members), learn, share, rng)
    return cuts(learnt, members)


def learnt_variances(
    gram: FloatArray, directions: FloatArray, rng: np.random.Generator, multiplicative: bool
) -> FloatArray:
    """The same for variances along directions, of a matrix: MW by its exponential, IDC by sums.

    A matrix log L is learnt by adding multiples of x x^T, with a noisy trace; IDC adds them to the
    matrix itself, which then answers along x what was measured.
    """
    d, share = len(gram), EPSILON / (2 * ROUNDS + multiplicative)
    total = float(np.trace(gram)) + rng.laplace(scale=1 / share) if multiplicative else 1.0
    total = max(total, 1.0)
    state = np.zeros((d, d))

    def answers() -> FloatArray:
        learnt = state
        if multiplicative:
            values, vectors = np.linalg.eigh(state)
            powers = np.exp(values - values.max())
            learnt = (vectors * (total / powers.sum() * powers)) @ vectors.T
        return np.asarray(np.einsum("ki,ij,kj->k", directions, learnt, directions))

    def learn(query: int, missing: float) -> None:
        step = missing / total if multiplicative else missing
        state[:] += step * np.outer(directions[query], directions[query])

    truth = np.einsum("ki,ij,kj->k", directions, gram, directions)
    worst_first(truth, answers, learn, share, rng)
    return answers()


def graph_mechanisms(
    weights: FloatArray, members: FloatArray
) -> dict[str, tuple[str, float | None, Answer | None, str]]:
    """Name, published order and its value, how to answer, and a remark."""
    n, k, s = len(weights), len(members), float(members.sum(axis=1).mean())
    truth, edges = cuts(weights, members), weights.sum() / 2
    r = jl.least_components(ETA, NU)
    w = jl.exact_graph_weight(EPSILON, DELTA, r, n) if n > FEW else math.nan
    printed = jl.graph_weight(EPSILON, DELTA, jl.published_components(ETA, NU))
    flip = 1.0 / (1.0 + math.exp(EPSILON))
    sigma = noise_multiplier(EPSILON, DELTA)

    def edge_noise(rng: np.random.Generator) -> FloatArray:
        upper = np.triu(sigma * rng.standard_normal((n, n)), 1)
        return cuts(weights + upper + upper.T, members)

    def response(rng: np.random.Generator) -> FloatArray:
        upper = np.triu((weights > 0) ^ (rng.random((n, n)) < flip), 1).astype(np.float64)
        told = np.triu((upper - flip) / (1 - 2 * flip), 1)
        return cuts(told + told.T, members)

    log_k = math.log(k)
    return {
        "Laplace noise, query by query": (
            "sqrt(k)/eps",
            math.sqrt(k) / EPSILON,
            lambda rng: truth + rng.laplace(scale=laplace_scale(k), size=k),
            "interactive",
        ),
        "Gaussian noise, query by query": (
            "not in the paper",
            None,
            lambda rng: truth + math.sqrt(k) * sigma * rng.standard_normal(k),
            "interactive",
        ),
        "randomized response": (
            "sqrt(s n ln k)/eps",
            math.sqrt(s * n * log_k) / EPSILON,
            response,
            "delta = 0",
        ),
        "Gaussian noise on every edge": ("not in the paper", None, edge_noise, "answers any cut"),
        "exponential mechanism": (
            "n ln(n)/eps",
            n * math.log(n) / EPSILON,
            (lambda rng: exponential(weights, members, rng)) if n <= FEW else None,
            f"weighs all 2^{n * (n - 1) // 2} graphs, delta = 0"
            if n <= FEW
            else f"not run: 2^{n * (n - 1) // 2} graphs to weigh; see {FEW} nodes",
        ),
        "multiplicative weights": (
            "sqrt(|E|) ln(k)/eps",
            math.sqrt(edges) * log_k / EPSILON,
            lambda rng: learnt_cuts(weights, members, rng, True),
            f"{ROUNDS} rounds, delta = 0",
        ),
        "IDC": (
            "sqrt(|E|) ln(k)/eps",
            math.sqrt(edges) * log_k / EPSILON,
            lambda rng: learnt_cuts(weights, members, rng, False),
            f"{ROUNDS} rounds, delta = 0",
        ),
        "JL, published weight": (
            "s sqrt(ln k)/eps",
            s * math.sqrt(log_k) / EPSILON,
            None,
            f"not run: w = {printed:.0f} needs n > {2 * printed:.0f}",
        ),
        "JL, exact weight": (
            "s sqrt(ln k)/eps",
            s * math.sqrt(log_k) / EPSILON,
            (lambda rng: sketched_cuts(weights, members, w, r, rng)) if n > FEW else None,
            f"w = {w:.1f}, r = {r}" if n > FEW else "not run: its weight needs more nodes",
        ),
    }


def variance_mechanisms(
    table: FloatArray, directions: FloatArray
) -> dict[str, tuple[str, float | None, Answer | None, str]]:
    """The same for |A x|^2 along k directions; rows have norm at most 1, and one is replaced."""
    (n, d), k = table.shape, len(directions)
    gram = table.T @ table
    truth = np.einsum("ki,ij,kj->k", directions, gram, directions)
    sigma, log_k = noise_multiplier(EPSILON, DELTA), math.log(k)
    r = jl.least_components(ETA, NU)
    w = jl.exact_covariance_weight(EPSILON, DELTA, r)
    printed = jl.covariance_weight(EPSILON, DELTA, jl.published_components(ETA, NU))

    def along(matrix: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("ki,ij,kj->k", directions, matrix, directions))

    def rows(rng: np.random.Generator) -> FloatArray:
        noisy = table + 2 * sigma * rng.standard_normal(table.shape)
        return along(noisy.T @ noisy - n * (2 * sigma) ** 2 * np.eye(d))

    def analyze_gauss(rng: np.random.Generator) -> FloatArray:
        upper = np.triu(math.sqrt(2) * sigma * rng.standard_normal((d, d)))
        return along(gram + upper + np.triu(upper, 1).T)

    def sketch(weight: float, size: int) -> Answer:
        def answer(rng: np.random.Generator) -> FloatArray:
            columns = directions @ draw_sketch(gram, weight**2, size, rng)
            return np.asarray(np.mean(columns**2, axis=1) - weight**2)

        return answer

    return {
        "Laplace noise, query by query": (
            "sqrt(k)/eps",
            math.sqrt(k) / EPSILON,
            lambda rng: truth + rng.laplace(scale=laplace_scale(k), size=k),
            "interactive",
        ),
        "randomized response": (
            "sqrt(d ln k)/eps",
            math.sqrt(d * log_k) / EPSILON,
            rows,
            "noise on every row: the error grows with sqrt(n)",
        ),
        "Analyze Gauss": ("not in the paper", None, analyze_gauss, "noise on the matrix"),
        "multiplicative weights": (
            "d sqrt(n) ln(k)/eps",
            d * math.sqrt(n) * log_k / EPSILON,
            lambda rng: learnt_variances(gram, directions, rng, True),
            f"{ROUNDS} rounds on matrices, delta = 0; not on rows: 3^{d} of them at 3 values each",
        ),
        "IDC": (
            "d sqrt(n) ln(k)/eps",
            d * math.sqrt(n) * log_k / EPSILON,
            lambda rng: learnt_variances(gram, directions, rng, False),
            f"{ROUNDS} rounds, delta = 0",
        ),
        "JL, published weight": (
            "ln(k)/eps^2",
            log_k / EPSILON**2,
            sketch(printed, jl.published_components(ETA, NU)),
            f"w = {printed:.0f}",
        ),
        "JL, exact weight": (
            "ln(k)/eps^2",
            log_k / EPSILON**2,
            sketch(w, r),
            f"w = {w:.1f}, r = {r}; any row may move by 1",
        ),
    }


def _rows(
    mechanisms: dict[str, tuple[str, float | None, Answer | None, str]],
    truth: FloatArray,
    n_runs: int,
    **where: float,
) -> list[Row]:
    rows: list[Row] = []
    for name, (order, value, answer, remark) in mechanisms.items():
        rng = np.random.default_rng(1)
        errors = [answer(rng) - truth for _ in range(n_runs)] if answer is not None else []
        rms = float(np.sqrt(np.mean(np.square(errors)))) if errors else None
        rows.append(
            {
                "mechanism": name,
                **where,
                "epsilon": EPSILON,
                "delta": DELTA,
                "queries": truth.size,
                "mean_answer": float(truth.mean()),
                "published_order": order,
                "order_without_constants": value,
                "rms_error": rms,
                "relative_error": None if rms is None else rms / float(truth.mean()),
                "remark": remark,
            }
        )
    return rows


def run(folder: str | Path, quick: bool = False) -> dict[str, list[Row]]:
    """Write both tables into the folder.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        300 nodes and two runs instead of 1,000 and ten.
    """
    rng = np.random.default_rng(0)
    n, n_runs = (300, 2) if quick else (1000, 10)
    graph = random_graph(n, rng)
    first: list[Row] = []
    sizes = (1, n // 20, n // 4)
    for s in track(sizes, "Cutting", len(sizes)):
        members = np.zeros((QUERIES, n))
        for line in members:
            line[rng.choice(n, s, replace=False)] = 1.0
        answers = graph_mechanisms(graph, members)
        first += _rows(answers, cuts(graph, members), n_runs, nodes=n, nodes_in_a_query=s)
    few = random_graph(FEW, np.random.default_rng(3), 0.5)
    ones = np.eye(FEW)
    first += _rows(graph_mechanisms(few, ones), cuts(few, ones), 20, nodes=FEW, nodes_in_a_query=1)
    d, people = 20, 2_000
    table = rng.standard_normal((people, d)) * 0.8 ** np.arange(d)
    table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1.0)
    directions = rng.standard_normal((QUERIES, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    truth = np.sum((table @ directions.T) ** 2, axis=0)
    answers = variance_mechanisms(table, directions)
    return {
        "table_1": write_rows(folder, "table_1", first),
        "table_2": write_rows(
            folder, "table_2", _rows(answers, truth, n_runs, rows=people, columns=d)
        ),
    }
