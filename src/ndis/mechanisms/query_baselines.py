"""What the Johnson-Lindenstrauss paper compares itself with, each with its own true guarantee.

Cuts of a graph: Laplace noise on every answer, randomized response on every pair of nodes, Gaussian
noise on every weight. Directional variances: Gaussian noise on the scatter matrix ("Analyze
Gauss"). Laplace noise and randomized response promise delta = 0; they are not Gaussian, and their
guarantees carry no loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP, noise_multiplier, shift_profile
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.mechanisms.covariance import read_moments
from ndis.mechanisms.publish import publish
from ndis.randomness import (
    RandomState,
    add_laplace_noise,
    add_noise,
    add_symmetric_noise,
    subsample_mask,
)
from ndis.release import Release
from ndis.tables import Rows, batches, read_edges
from ndis.tables.edges import WEIGHT, Node

if TYPE_CHECKING:
    from ndis.ledger import Ledger


def laplace_answers(
    answers: ArrayLike,
    *,
    sensitivity: float,
    epsilon: float,
    relation: str,
    random_state: RandomState = None,
    ledger: Ledger | None = None,
) -> Release:
    """Answers to k queries with Laplace noise on each, (epsilon, 0)-private together.

    Parameters
    ----------
    answers : array_like of shape (k,)
        The true answers.
    sensitivity : float
        How much each can differ between neighbours: 1 for a cut.
    epsilon : float
        For all answers together; the noise grows with k.
    relation : str
        Who the neighbours are, as in `NeighbourRelation`.
    random_state, ledger
        As everywhere.

    Examples
    --------
    >>> from ndis.mechanisms.query_baselines import laplace_answers
    >>> release = laplace_answers([10.0, 20.0], sensitivity=1.0, epsilon=1.0, relation="edge")
    >>> f"{release.parameters['noise_scale']:.3f}"
    '2.000'
    """
    true = _validate.floats("answers", answers, ndim=1)
    eps = _validate.positive("epsilon", epsilon)
    scale = true.size * _validate.positive("sensitivity", sensitivity) / eps * ROUND_UP

    def draw(rng: np.random.Generator) -> FloatArray:
        return add_laplace_noise(true, scale, rng)

    guarantee = Guarantee(eps, 0.0, NeighbourRelation(relation), "proven")
    parameters = {"noise_scale": scale}
    return publish(
        draw,
        guarantee,
        "laplace_answers",
        parameters,
        {"value": true.shape},
        random_state=random_state,
        ledger=ledger,
    )


def laplace_error(epsilon: float, n_queries: int) -> float:
    """The standard error of each of k cuts under `laplace_answers`."""
    return math.sqrt(2.0) * n_queries / epsilon


def randomized_response(
    graph: Any,
    *,
    epsilon: float,
    nodes: int | Sequence[Node] | None = None,
    weight: str | None = WEIGHT,
    random_state: RandomState = None,
    ledger: Ledger | None = None,
) -> Release:
    """An adjacency matrix in which every pair of nodes lies with probability 1/(1 + e^epsilon).

    Weights are rounded to 0 or 1 at random first. The released n x n matrix is unbiased: each
    pair's answer y became (y - q)/(1 - 2q). Sum it over a cut to estimate the cut.

    Examples
    --------
    >>> import networkx as nx
    >>> from ndis.mechanisms.query_baselines import randomized_response
    >>> randomized_response(nx.path_graph(5), epsilon=1.0).value.shape
    (5, 5)
    """
    edges = read_edges(graph, nodes=nodes, weight=weight)
    lie = 1.0 / (1.0 + math.exp(_validate.positive("epsilon", epsilon))) * ROUND_UP
    n = edges.n_nodes

    def draw(rng: np.random.Generator) -> FloatArray:
        truth = np.zeros((n, n), dtype=np.bool_)
        low, high = np.minimum(edges.first, edges.second), np.maximum(edges.first, edges.second)
        truth[low, high] = rng.random(low.size) < edges.weight
        upper = np.triu_indices(n, 1)
        answers = truth[upper] ^ subsample_mask(upper[0].size, lie, rng)
        matrix = np.zeros((n, n))
        matrix[upper] = (answers - lie) / (1.0 - 2.0 * lie)
        return matrix + matrix.T

    guarantee = Guarantee(epsilon, 0.0, NeighbourRelation.EDGE, "proven")
    return publish(
        draw,
        guarantee,
        "randomized_response",
        {"lie": lie},
        {"value": (n, n)},
        random_state=random_state,
        ledger=ledger,
    )


def response_error(epsilon: float, n_nodes: int, s: int) -> float:
    """The standard error of a cut of s nodes under `randomized_response` (weights 0 and 1)."""
    # sqrt(q (1-q)) / (1 - 2q) with q = 1/(1 + e^epsilon).
    return math.sqrt(s * (n_nodes - s)) / (2.0 * math.sinh(0.5 * epsilon))


def gaussian_weights(
    graph: Any,
    *,
    epsilon: float,
    delta: float,
    nodes: int | Sequence[Node] | None = None,
    weight: str | None = WEIGHT,
    random_state: RandomState = None,
    ledger: Ledger | None = None,
) -> Release:
    """An adjacency matrix with Gaussian noise on the weight of every pair of nodes.

    Examples
    --------
    >>> import networkx as nx
    >>> from ndis.mechanisms.query_baselines import gaussian_weights
    >>> gaussian_weights(nx.path_graph(5), epsilon=1.0, delta=1e-6).value.shape
    (5, 5)
    """
    edges = read_edges(graph, nodes=nodes, weight=weight)
    ratio, n = noise_multiplier(epsilon, delta), edges.n_nodes

    def draw(rng: np.random.Generator) -> FloatArray:
        upper = np.triu_indices(n, 1)
        matrix = np.zeros((n, n))
        matrix[upper] = add_noise(-edges.laplacian()[upper], ratio, rng)
        return matrix + matrix.T

    guarantee = Guarantee(
        epsilon, delta, NeighbourRelation.EDGE, "proven", shift_profile(1.0 / ratio)
    )
    return publish(
        draw,
        guarantee,
        "gaussian_weights",
        {"noise_scale": ratio},
        {"value": (n, n)},
        random_state=random_state,
        ledger=ledger,
    )


def gaussian_error(epsilon: float, delta: float, n_nodes: int, s: int) -> float:
    """The standard error of a cut of s nodes under `gaussian_weights`."""
    return math.sqrt(s * (n_nodes - s)) * noise_multiplier(epsilon, delta)


def analyze_gauss(
    table: Any,
    *,
    epsilon: float,
    delta: float,
    data_norm: float,
    columns: Sequence[str] | None = None,
    random_state: RandomState = None,
    ledger: Ledger | None = None,
) -> Release:
    """The scatter matrix with symmetric Gaussian noise, add/remove one row (Dwork et al. 2014).

    A row changes the scatter matrix by v v^T with |v| <= 2 data_norm, that is by at most
    4 data_norm^2 in the Frobenius norm. Noise of that sensitivity, independent in the coordinates
    S_ii and sqrt(2) S_ij, has standard deviation 4 data_norm^2 times the noise multiplier on the
    diagonal and 1/sqrt(2) of it off the diagonal, and hence the same standard error for every
    directional scatter x^T S x with |x| = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.query_baselines import analyze_gauss
    >>> release = analyze_gauss(np.eye(3), epsilon=1.0, delta=1e-6, data_norm=1.0)
    >>> f"{release.parameters['noise_scale']:.2f}"
    '16.90'
    """
    norm = _validate.positive("data_norm", data_norm)
    ratio = noise_multiplier(epsilon, delta)
    scale = 4.0 * norm**2 * ratio * ROUND_UP
    names = batches(table, columns).columns
    moments = read_moments(table, Rows(names, row_norm=norm))

    def draw(rng: np.random.Generator) -> FloatArray:
        return add_symmetric_noise(moments.scatter, scale, rng)

    loss = shift_profile(1.0 / ratio)
    guarantee = Guarantee(epsilon, delta, NeighbourRelation.ADD_REMOVE, "proven", loss)
    parameters = {"noise_scale": scale, "columns": list(names), "data_norm": norm}
    return publish(
        draw,
        guarantee,
        "analyze_gauss",
        parameters,
        {"value": (len(names), len(names))},
        random_state=random_state,
        ledger=ledger,
    )
