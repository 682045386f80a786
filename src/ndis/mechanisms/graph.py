"""A graph whose cuts may be asked by anyone, private for every edge (Blocki et al. 2012).

The complete graph is mixed in with weight w, and the Laplacian of the mixture is published through
a random projection: the n x r factor F with independent columns N(0, A),

    A = w (I - 11^T/n) + (1 - w/n) L.

Adding an edge adds a rank-one matrix to A. No edge has more effect than an edge of weight 1 in the
empty graph: there the variance in its direction grows by the factor 1 + t, t = (1 - w/n) 2/w.
docs/proofs/graph-and-covariance.md has the proof.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import Profile, QuadraticLoss
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.graph_sketch import GraphSketch
from ndis.mechanisms.johnson_lindenstrauss import asks_sketch
from ndis.mechanisms.projection_methods import least_ratio
from ndis.randomness import RandomState, draw_combinations, grid_spacing
from ndis.tables import Edges, read_edges
from ndis.tables.edges import WEIGHT, Node

if TYPE_CHECKING:
    from ndis.ledger import Ledger

# Most normals drawn at once: 64 MB.


@dataclass(frozen=True)
class Mixture:
    """How much of the complete graph is mixed in, and what that is worth.

    Attributes
    ----------
    weight : float
        w, the least positive eigenvalue of the mixture.
    share : float
        1 - w/n, what is left of every edge.
    loss : Profile
        The worst case over all graphs and edges, edge present first.
    """

    weight: float
    share: float
    loss: Profile


class PrivateGraph(PrivateEstimator):
    """A graph of which cuts can be asked, private for every edge.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for graphs in which the weight of one edge differs, anywhere in [0, 1].
    n_components : int
        The number r of columns of the released factor: relative errors are about sqrt(2/r).
    weight : str or None
        The edge attribute or column that holds weights; None counts every edge as 1.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    release_ : Release
        What may be published: the factor, the nodes, the mixture.
    sketch_ : GraphSketch
        The same, ready to be asked; the estimator itself answers the same questions.
    guarantee_ : Guarantee
    noise_scale_ : float
        The weight w of the complete graph.

    Notes
    -----
    The nodes are public: their number, and their names where they have any.

    Examples
    --------
    >>> import networkx as nx
    >>> from ndis import PrivateGraph
    >>> private = PrivateGraph(epsilon=1.0, delta=1e-6, n_components=738)
    >>> f"{private.calibrate(1000):.1f}"
    '147.8'
    >>> private.fit(nx.path_graph(1000)).cut(range(500)).value.shape
    ()
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        n_components: int,
        weight: str | None = WEIGHT,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_components = n_components
        self.weight = weight
        self.random_state = random_state
        self.ledger = ledger

    # -- before the data ---------------------------------------------------------------------

    def calibrate(self, n_nodes: int) -> float:
        """The weight w of the complete graph that is mixed in; needs no data."""
        return self._mixture(n_nodes).weight

    def worst_case(self, n_nodes: int) -> Profile:
        """The worst-case privacy loss, from which every (epsilon, delta) follows.

        Examples
        --------
        >>> from ndis import PrivateGraph
        >>> private = PrivateGraph(epsilon=1.0, delta=1e-6, n_components=738)
        >>> f"{private.worst_case(1000).epsilon(1e-9):.2f}"
        '1.41'
        """
        return self._mixture(n_nodes).loss

    def forecast(self, n_nodes: int, s: int, *, cut: float = 0.0) -> float:
        """The standard error to be expected of the cut of a set of s nodes.

        Parameters
        ----------
        n_nodes, s : int
            Nodes of the graph and of the set.
        cut : float, default 0
            The cut that one expects; of a large cut the sketch has a relative error besides.

        Examples
        --------
        >>> from ndis import PrivateGraph
        >>> f"{PrivateGraph(epsilon=1.0, delta=1e-6, n_components=738).forecast(1000, 10):.1f}"
        '89.4'
        """
        n = _validate.count("n_nodes", n_nodes, 2)
        if not 1 <= _validate.count("s", s) < n:
            raise ValueError(f"Expected 1 <= s < {n} nodes, got s={s}; pass the size of a cut.")
        mixture = self._mixture(n)
        added = mixture.weight * s * (n - s) / n / mixture.share
        return math.sqrt(2.0 / self._components()) * (added + _validate.non_negative("cut", cut))

    # -- with the data -----------------------------------------------------------------------

    def fit(
        self, X: Any, y: None = None, *, nodes: int | Sequence[Node] | None = None
    ) -> PrivateGraph:
        """Read the graph, spend the budget, release the factor.

        Parameters
        ----------
        X : networkx graph, scipy sparse adjacency matrix, or table of edges
            As in `ndis.tables.read_edges`: undirected, weights in [0, 1], no self-loops.
        y : None
            Ignored, for scikit-learn's sake.
        nodes : int or sequence of str or int, optional
            The public nodes; needed for a table of edges.
        """
        edges = self._read(X, nodes)
        mixture, r = self._mixture(edges.n_nodes), self._components()
        guarantee = Guarantee(
            self.epsilon, self.delta, NeighbourRelation.EDGE, "proven", mixture.loss
        )
        parameters = {
            "n_components": r,
            "nodes": edges.n_nodes if isinstance(edges.nodes, range) else list(edges.nodes),
            "weight": mixture.weight,
            "share": mixture.share,
        }
        self._release(
            lambda rng: draw_factor(edges, mixture, r, rng),
            guarantee,
            parameters,
            {"value": (edges.n_nodes, r)},
        )
        self.sketch_ = GraphSketch.from_release(self.release_)
        self.noise_scale_ = mixture.weight
        return self

    @property
    def relation(self) -> NeighbourRelation:
        """Who is protected: whoever an edge belongs to."""
        return NeighbourRelation.EDGE

    @property
    def output_copies(self) -> int:
        """The columns of the factor: independent draws of `output_law`."""
        return self._components()

    def output_law(self, X: Any, *, nodes: int | Sequence[Node] | None = None) -> Gaussian:
        """The law of one column of the factor; a release has n_components independent ones.

        For auditors, without the last node: a column adds up to 0, so the other entries tell it,
        and their covariance is dense and positive definite.
        """
        edges = self._read(X, nodes)
        n, mixture = edges.n_nodes, self._mixture(edges.n_nodes)
        complete = mixture.weight * (np.eye(n) - 1.0 / n)
        cov = complete + mixture.share * edges.laplacian()
        return Gaussian(np.zeros(n - 1), cov[:-1, :-1])

    cut = asks_sketch(GraphSketch.cut)
    cuts = asks_sketch(GraphSketch.cuts)
    effective_resistance = asks_sketch(GraphSketch.effective_resistance)
    laplacian = asks_sketch(GraphSketch.laplacian)
    spectrum = asks_sketch(GraphSketch.spectrum)
    to_networkx = asks_sketch(GraphSketch.to_networkx)

    # -- parts -------------------------------------------------------------------------------

    def _components(self) -> int:
        return _validate.count("n_components", self.n_components)

    def _read(self, X: Any, nodes: int | Sequence[Node] | None) -> Edges:
        return read_edges(X, nodes=nodes, weight=self.weight)

    def _mixture(self, n_nodes: int) -> Mixture:
        n = _validate.count("n_nodes", n_nodes, 2)
        return least_mixture(self.epsilon, self.delta, self._components(), n)


@functools.lru_cache(maxsize=256)
def least_mixture(epsilon: float, delta: float, n_components: int, n_nodes: int) -> Mixture:
    """The least weight of the complete graph that is (epsilon, delta)-private for every edge.

    t = (1 - w/n) 2/w, solved for w. Since t > 0, w is always less than n.

    Examples
    --------
    >>> from ndis.mechanisms.graph import least_mixture
    >>> f"{least_mixture(1.0, 1e-6, 4239, 100_000).weight:.1f}"
    '398.4'
    """
    excess = least_ratio(epsilon, delta, n_components) ** -2
    t = excess / ROUND_UP
    return Mixture(
        2.0 / (t + 2.0 / n_nodes),
        t / (t + 2.0 / n_nodes),
        Profile.both(QuadraticLoss(excess, 0.0, n_components)),
    )


def draw_factor(
    edges: Edges, mixture: Mixture, n_components: int, rng: np.random.Generator
) -> FloatArray:
    """Draw the n x r factor, on the release grid, without any n x n matrix.

    An edge contributes sqrt(weight) g (e_u - e_v) with a normal g; the complete graph of weight w/n
    contributes normals times sqrt(w), less their mean. The mean is subtracted from what is
    released: edges do not change it, for their columns sum to zero.
    """
    root = math.sqrt(mixture.weight)
    incidence = math.sqrt(mixture.share) * edges.incidence()
    factor = draw_combinations(incidence, root, n_components, rng)
    spacing = grid_spacing(root)
    factor -= np.rint(factor.mean(axis=0) / spacing) * spacing
    return factor
