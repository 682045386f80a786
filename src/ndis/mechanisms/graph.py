"""A graph whose cuts may be asked, private for every edge.

Three ways to release it, each with one number that decides its error; n nodes, a cut of s of them:

* sketch (Blocki et al. 2012): n x r numbers with independent columns N(0, v (I - 11^T/n) + L), L
  the Laplacian. An edge adds a rank-one matrix, and weighs most in the empty graph: there the
  variance in its direction grows by the factor 1 + 2/v. A cut has the error
  sqrt(2/r) (v s (n - s)/n + cut).
* responses: for every pair of nodes whether there is an edge, with a chance of a lie. A cut has an
  error proportional to sqrt(s (n - s)).
* answers: the cuts of sets that are declared beforehand, with noise for the number of them that one
  edge can cross.

docs/proofs/graph-and-covariance.md has the proofs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndis import _validate
from ndis._validate import FloatArray, wrong
from ndis.answer import Answer
from ndis.calibration import ROUND_UP, shift_profile
from ndis.guarantee import NeighbourRelation
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss, TabulatedLoss
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.intervals import Intervals
from ndis.mechanisms.laws import pure_loss
from ndis.mechanisms.manners import require_fitted
from ndis.mechanisms.run import Forecast, Plan, Run
from ndis.mechanisms.sketch import Estimate
from ndis.mechanisms.target import Part, Target
from ndis.randomness import (
    add_laplace_noise,
    add_noise,
    draw_bits,
    draw_combinations,
    grid_spacing,
)
from ndis.tables import Edges, read_edges
from ndis.tables.edges import UNIT, WEIGHT, Node, labels, masks, places

METHODS = ("sketch", "responses", "answers")
# A response for every pair of nodes must fit into memory.
_MOST_NODES = 10_000
# Most numbers of a block of answers: 64 MB.
_BLOCK = 1 << 23


class Eigenvalues(NamedTuple):
    """Eigenvalues, and bounds that hold for all of them at once."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGraph(PrivateEstimator):
    """A graph that answers cuts, private for every edge.

    Parameters
    ----------
    nodes : int or sequence of str or int
        The public nodes; a number n stands for 0, ..., n - 1. Their names become part of the
        release.
    epsilon, delta : float
        What is to be promised, for graphs in which the weight of one edge differs, anywhere in
        [0, 1].
    method : {"auto", "sketch", "responses", "answers"}
        How cuts are made answerable. "auto" takes the least forecast error of a cut of `cut_size`
        nodes, and says why in the plan. "answers" answers the cuts of `sets` alone.
    cut_size : int, optional
        How many nodes the sets have whose cuts will be asked for; half of them if not given.
    n_cuts : int, optional
        How many cuts will be asked for, if these are known beforehand; `sets` must then name them.
    sets : sequence of sets of nodes, or boolean array of shape (n_cuts, n), optional
        The public sets of which the cuts are to be answered.
    n_components : int, default 200
        The number r of columns of a sketch: relative errors are about sqrt(2/r).
    weight : str or None
        The edge attribute or column that holds weights; None counts every edge as 1. Weights are
        rounded to multiples of 2^-20.
    noise_scale : float, optional
        As in `PrivateEstimator`: v for a sketch, otherwise the standard deviation of a pair's
        response or of an answer.
    random_state, ledger
        As in `PrivateEstimator`.

    Attributes
    ----------
    release_ : Release
        What may be published.
    guarantee_ : Guarantee
    noise_scale_ : float

    Examples
    --------
    >>> import networkx as nx
    >>> from ndis import PrivateGraph
    >>> private = PrivateGraph(1000, epsilon=1.0, delta=1e-6, cut_size=500, random_state=0)
    >>> private.plan().method
    'responses'
    >>> value, error = private.fit(nx.path_graph(1000)).cut(range(500))
    >>> bool(abs(value - 1) < 3 * error)
    True
    """

    needs = ("nodes",)
    reads = "edges"
    methods = METHODS

    nodes: int | Sequence[Node] | None = field(default=None, kw_only=False)
    method: str = "auto"
    cut_size: int | None = None
    n_cuts: int | None = None
    sets: Any = None
    n_components: int = 200
    weight: str | None = WEIGHT

    # -- before the data ---------------------------------------------------------------------

    def plan(self, n_nodes: int | None = None) -> Plan:
        """What `fit` will do; needs no data.

        Parameters
        ----------
        n_nodes : int, optional
            The number of nodes, where `nodes` does not say it.
        """
        return self._plan(self._count(n_nodes))

    def _plan(self, n: int) -> Plan:
        method = _validate.one_of("method", self.method, ("auto", *METHODS))
        if method != "auto":
            return self._planned_by(method, n, "It was asked for.")
        if self.noise_scale is not None:
            raise ValueError(
                "Expected a method for a given noise_scale, got 'auto'; say what the noise is of."
            )
        s = self._cut_size(n)
        possible = [self._planned_by(name, n, "") for name in METHODS if self._can(name, n)]
        errors = [self._cut_error(plan, n, s) for plan in possible]
        best = int(np.argmin(errors))
        others = ", ".join(
            f"{error:.3g} by {plan.method}"
            for plan, error in zip(possible, errors, strict=True)
            if plan is not possible[best]
        )
        return replace(
            possible[best],
            reason=f"A cut of {s} nodes has a standard error of about {errors[best]:.3g} by "
            f"{possible[best].method}{f', {others}' if others else ''}.",
        )

    def forecast(self, n_nodes: int | None = None, *, n_rows: int | None = None) -> Forecast:
        """The standard error to be expected of a cut of `cut_size` nodes.

        Parameters
        ----------
        n_nodes : int, optional
            The number of nodes, where `nodes` does not say it.
        n_rows : int, optional
            About how many edges there are, if it is known: the rows of a table of edges.
        """
        n = self._count(n_nodes)
        s, plan = self._cut_size(n), self.plan(n_nodes)
        edges = 0 if n_rows is None else _validate.count("n_rows", n_rows, 0)
        cut = edges * 2.0 * s * (n - s) / (n * (n - 1.0))
        return Forecast(
            {f"standard error of a cut of {s} nodes": (
                self._cut_error(plan, n, s), self._cut_error(plan, n, s, cut)
            )},
            ("no edge" if not edges else f"between no edge and {edges} anywhere",),
        )  # fmt: skip

    def _count(self, n_nodes: int | None) -> int:
        n = len(self._labels) if n_nodes is None or self.nodes is not None else n_nodes
        return _validate.count("nodes", n, 2)

    @property
    def _labels(self) -> Sequence[Node]:
        """The public nodes."""
        if self.nodes is None:
            raise ValueError(
                "Expected the public nodes of the graph, got none: which nodes have edges is no "
                "public fact; pass nodes, their number or their list."
            )
        return labels(self.nodes)

    def _cut_size(self, n: int) -> int:
        s = n // 2 if self.cut_size is None else _validate.count("cut_size", self.cut_size)
        if s >= n:
            raise ValueError(f"Expected cut_size < {n} nodes, got {s}; pass the size of a set.")
        return s

    def _can(self, method: str, n: int) -> bool:
        known = self.sets is not None or self.n_cuts is not None
        return method == "sketch" or (known if method == "answers" else n <= _MOST_NODES)

    def _planned_by(self, method: str, n: int, reason: str) -> Plan:
        target, given = self._target(), self.noise_scale
        if given is not None:
            given = _validate.positive("noise_scale", given)
        shapes: dict[str, tuple[int, ...]]
        if method == "sketch":
            r = _validate.count("n_components", self.n_components)
            noise, loss = _least(_sketch_loss, r, target, given)
            shapes = {"factor": (n, r)}
        elif method == "responses":
            if n > _MOST_NODES:
                raise ValueError(
                    f"Expected at most {_MOST_NODES} nodes for responses of all pairs, got {n}; "
                    "use another method."
                )
            noise, loss = _least(_response_loss, 1, target, given)
            shapes = {"responses": (n * (n - 1) // 2,)}
        else:
            crossed, k = self._crossed(n)
            laws = (_laplace_loss, _gaussian_loss)
            both = [_least(law, crossed, target, given) for law in laws]
            at = [float(loss.epsilon(target.delta)) if given else noise for noise, loss in both]
            noise, loss = both[int(at[1] < at[0])]
            shapes = {"answers": (k,)}
        promise = target.promise(loss, self.relation)
        return Plan(method, (Part(None, noise=noise),), promise, shapes, reason)

    def _crossed(self, n: int) -> tuple[int, int]:
        """The most declared cuts that one edge can cross, and how many there are."""
        if self.sets is None:
            if self.n_cuts is None:
                raise ValueError(
                    "Expected the sets whose cuts are to be answered, got none; pass sets, or "
                    "another method."
                )
            k = _validate.count("n_cuts", self.n_cuts)
            return k, k
        members = self._members()
        # An edge crosses at most the sets of its two ends.
        _, often = np.unique(np.concatenate(members), return_counts=True)
        k, most = len(members), np.sort(often)[-2:]
        return max(1, min(k, int(most.sum()))), k

    def _members(self) -> list[NDArray[np.int64]]:
        """The positions of the nodes of each declared set."""
        known = self._labels
        members = places(known, self.sets)
        if not members or self.n_cuts not in (None, len(members)):
            raise ValueError(
                f"Expected as many sets as n_cuts={self.n_cuts}, got {len(members)}; correct one."
            )
        if any(part.size in (0, len(known)) for part in members):
            raise _no_cut()
        return members

    def declared_sets(self) -> NDArray[np.bool_]:
        """The declared sets as masks of the nodes, one in each row."""
        self._members()
        return masks(self._labels, self.sets)

    def _cut_error(self, plan: Plan, n: int, s: int, cut: float = 0.0) -> float:
        noise = plan.noise_scale
        if plan.method == "sketch":
            return math.sqrt(2.0 / self.n_components) * float(noise * s * (n - s) / n + cut)
        if plan.method == "answers":
            return float(noise)
        rounded = 0.0 if self.weight is None else cut
        return math.sqrt(noise**2 * s * (n - s) + rounded)

    # -- with the data -----------------------------------------------------------------------

    def prepare(self, X: Any, y: Any = None, *, plan: Plan | None = None) -> Run:
        """Plan what will happen to a graph; reads nothing and spends nothing.

        Parameters
        ----------
        X : networkx graph, scipy sparse adjacency matrix, or table of edges
            As in `ndis.tables.read_edges`: undirected, weights in [0, 1], no self-loops.
        y : None
            Ignored, for scikit-learn's sake.
        plan : Plan, optional
            One that was made before.
        """
        plan = self.plan() if plan is None else plan
        if plan.method == "answers" and self.sets is None:
            raise ValueError(
                "Expected the sets whose cuts are to be answered, got none; pass sets, or leave "
                "n_cuts out."
            )
        return Run(self, X, plan, self)

    def _study(self, data: Any, plan: Plan) -> Edges:
        return read_edges(data, nodes=self._labels, weight=self.weight)

    def _draw(
        self, edges: Edges, plan: Plan, data: Any, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        noise = plan.noise_scale
        if plan.method == "sketch":
            return {"factor": draw_factor(edges, noise, self.n_components, rng)}
        if plan.method == "responses":
            return {"responses": draw_responses(edges, noise, rng)}
        inside = self.declared_sets()
        integers = np.array([edges.units(mask) for mask in inside])
        pure = isinstance(plan.loss.directions()[0], TabulatedLoss)
        add = functools.partial(add_laplace_noise, scale=UNIT * noise * math.sqrt(0.5) * ROUND_UP)
        add = add if pure else functools.partial(add_noise, scale=UNIT * noise)
        return {"answers": add(integers, rng=rng) / UNIT}

    def _public(self, data: Any) -> dict[str, Any]:
        named = self._labels
        shown = len(named) if isinstance(named, range) else list(named)
        known: dict[str, Any] = {"nodes": shown, "weight": self.weight}
        if self.sets is not None:
            known["sets"] = [[named[place] for place in part] for part in self._members()]
        return {**super()._public(data), **known}

    @property
    def relation(self) -> NeighbourRelation:
        """Who is protected: the owner of an edge."""
        return NeighbourRelation.EDGE

    # -- cuts --------------------------------------------------------------------------------

    def cut(self, inside: Iterable[Node]) -> Estimate:
        """The total weight of the edges that leave a set of nodes, without bias.

        Parameters
        ----------
        inside : iterable of nodes, or boolean mask of shape (n,)
            The set; neither empty nor all nodes.

        Returns
        -------
        value, standard_error : float
            The estimate may be negative where the noise is larger than the cut.
        """
        value, error = self.cuts([inside])
        return Estimate(value[0], error[0])

    def cuts(self, sets: Iterable[Iterable[Node]]) -> Estimate:
        """Many cuts at once; each is as good as if it were the only one.

        Parameters
        ----------
        sets : iterable of iterables of nodes, or boolean array of shape (k, n)
            The sets; of "answers", those that were declared.

        Returns
        -------
        value, standard_error : ndarray of shape (k,)
        """
        arrays, noise = self._arrays(), self.noise_scale_
        if "answers" in arrays:
            return self._answered(places(self._labels, sets), arrays["answers"], noise)
        inside = masks(self._labels, sets)
        sizes, n = inside.sum(axis=1), inside.shape[1]
        if np.any((sizes == 0) | (sizes == n)):
            raise _no_cut()
        if "responses" in arrays:
            weights = self._weights()
            value = np.array([float(np.sum(weights[mask][:, ~mask])) for mask in inside])
            rounded = 0.0 if self.weight is None else np.maximum(value, 0.0)
            return Estimate(value, np.sqrt(noise**2 * sizes * (n - sizes) + rounded))
        factor = self._factor()
        r = factor.shape[1]
        step = max(1, _BLOCK // max(n, r))
        parts = [inside[start : start + step] for start in range(0, len(inside), step)]
        forms = np.concatenate(
            [
                np.zeros(0),
                *(np.mean((part.astype(np.float64) @ factor) ** 2, axis=1) for part in parts),
            ]
        )
        return Estimate(forms - noise * sizes * (n - sizes) / n, math.sqrt(2.0 / r) * forms)

    def _answered(
        self, asked: list[NDArray[np.int64]], answers: FloatArray, noise: float
    ) -> Estimate:
        n = len(self._labels)
        if any(members.size in (0, n) for members in asked):
            raise _no_cut()
        known = {_one_side(members, n): k for k, members in enumerate(self._members())}
        try:
            found = [known[_one_side(members, n)] for members in asked]
        except KeyError:
            raise ValueError(
                "Expected sets whose cuts were declared, got another; ask for those in sets."
            ) from None
        return Estimate(answers[found], np.full(len(found), noise))

    def intervals(self, level: float = 0.95, of: str = "table") -> Intervals:
        """Intervals for the cuts that were declared, or for those of single nodes.

        Parameters
        ----------
        level : float, default 0.95
        of : {"table"}
            The cuts of this graph: the noise of privacy is covered, and that of a projection.
        """
        _validate.one_of("of", of, ["table"])
        sets = self.sets or [[node] for node in self._labels]
        names = tuple(",".join(map(str, inside)) for inside in sets)
        value, error = (part[None] for part in self.cuts(sets))
        return Intervals.of_normal(names, value, error, level=level, of=of)

    def answers(self) -> list[Answer]:
        """The cuts that were declared, or those of single nodes."""
        found = self.intervals()
        return [
            Answer.of_estimate("cuts", found.names, (found.estimate, found.standard_error)),
        ]

    # -- the Laplacian -----------------------------------------------------------------------

    def laplacian(self) -> FloatArray:
        """The Laplacian of the graph without bias, as a dense matrix of shape (n, n).

        It is a Laplacian of a graph that may have negative weights, and may have negative
        eigenvalues. There is none of "answers".
        """
        if "responses" in self._arrays():
            weights = self._weights()
            return np.asarray(np.diag(weights.sum(axis=1)) - weights)
        factor, n, noise = self._factor(), len(self._labels), self.noise_scale_
        mixed: FloatArray = factor @ factor.T / factor.shape[1]
        mixed += noise / n
        mixed[np.diag_indices(n)] -= noise
        return mixed

    def to_networkx(self) -> Any:
        """The estimated graph: complete, with weights that may be negative.

        Every pair of nodes has its edge, and the noise in a weight is as large below 0 as above.
        Cuts and other sums over many edges make sense; single weights hardly do, and algorithms
        that need non-negative weights (shortest paths, flows) do not.
        """
        with _validate.installed("networkx for a graph", "networkx"):
            import networkx as nx
        weights, nodes = -self.laplacian(), self._labels
        graph = nx.Graph()
        graph.add_nodes_from(nodes)
        for u in range(len(nodes) - 1):
            graph.add_weighted_edges_from(
                (nodes[u], nodes[v], float(weights[u, v])) for v in range(u + 1, len(nodes))
            )
        return graph

    def effective_resistance(self, u: Node, v: Node, *, debias: bool = True) -> Estimate:
        """The resistance between two nodes, if edges are conductors of their weight; of a sketch.

        Parameters
        ----------
        u, v : nodes
        debias : bool, default True
            Take the noise out before solving: consistent as the sketch grows, with the standard
            error of its linear approximation; impossible where the noise is larger than the graph.
            Without it, the resistance in the graph to whose edges v/n was added: unbiased, with its
            exact standard error; needs n_components > n + 2.

        Returns
        -------
        value, standard_error : float

        Notes
        -----
        With b = e_u - e_v, p = n - 1 dimensions and A the covariance of a column,
        b^T A^+ b / b^T (F F^T)^+ b is chi-square with r - p + 1 degrees of freedom. The debiased
        one has the error of x^T A x at x = L^+ b to first order.
        """
        factor = self._factor()
        n, r = factor.shape
        b = np.subtract(*masks(self._labels, [[u], [v]]).astype(np.float64))
        freedom = r - n + 2
        if not debias and freedom <= 4:
            raise wrong("n_components")(
                f"Expected n_components > {n + 2}, two more than nodes, got {r}; release more "
                "components."
            )
        matrix = self.laplacian() if debias else factor @ factor.T / r
        # On vectors that sum to 0, adding a multiple of 11^T changes nothing.
        matrix = matrix + np.trace(matrix) / n**2
        try:
            root = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise wrong("debias")(
                "Expected a graph that stands out from the noise, got a sketch in which it does "
                "not; pass debias=False, or release a larger sketch."
            ) from None
        x = np.linalg.solve(root.T, np.linalg.solve(root, b))
        resistance = float(b @ x)
        if debias:
            error = math.sqrt(2.0 / r) * float(np.mean((x @ factor) ** 2))
        else:
            resistance *= (freedom - 2) / r
            error = math.sqrt(2.0 / (freedom - 2)) * resistance
        return Estimate(np.asarray(resistance), np.asarray(error))

    def spectrum(self, k: int, *, level: float = 0.95) -> Eigenvalues:
        """The k largest eigenvalues of the Laplacian, with bounds; of a sketch.

        Parameters
        ----------
        k : int
            At most min(n - 1, r).
        level : float, default 0.95
            The probability with which all bounds hold at once, at least.

        Returns
        -------
        value, low, high : ndarray of shape (k,)
            Largest first. Values are too far apart unless r is much larger than n; the bounds
            account for it, and are infinite above where r is less than n.

        Notes
        -----
        F = A^{1/2} Z with (n-1) x r normals Z, so the k-th singular value of F is that of A^{1/2}
        times a number between the extreme singular values of Z (Ostrowski). Those are within
        sqrt(n-1) + t of sqrt(r), each but with probability exp(-t^2/2) (Davidson and Szarek).
        """
        factor = self._factor()
        n, r = factor.shape
        if _validate.count("k", k) > min(n - 1, r):
            raise ValueError(
                f"Expected k <= {min(n - 1, r)}, the rank of the sketch, got k={k}; "
                "ask for fewer eigenvalues."
            )
        doubt = 1.0 - _validate.probability("level", level)
        small = factor.T @ factor if r < n else factor @ factor.T
        values = np.linalg.eigvalsh(small)[::-1][:k] / r
        reach = (math.sqrt(n - 1) + math.sqrt(2.0 * math.log(2.0 / doubt))) / math.sqrt(r)
        above = values / (1.0 - reach) ** 2 if reach < 1 else np.full(k, np.inf)
        noise = self.noise_scale_
        return Eigenvalues(values - noise, values / (1.0 + reach) ** 2 - noise, above - noise)

    # -- parts -------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, FloatArray]:
        require_fitted(self)
        return dict(self.release_.arrays)

    def _factor(self) -> FloatArray:
        """The sketch; its columns sum to 0, which rounding to the release grid hid a little."""
        arrays = self._arrays()
        if "factor" not in arrays:
            raise ValueError(
                f"Expected a sketch, got a release by {self.release_.parameters['method']}; "
                "release it with method='sketch'."
            )
        return np.asarray(arrays["factor"] - arrays["factor"].mean(axis=0))

    def _weights(self) -> FloatArray:
        """Unbiased estimates of all weights, from responses: shape (n, n)."""
        n, noise = len(self._labels), self.noise_scale_
        truth = _truth(noise)
        weights = np.zeros((n, n))
        weights[np.triu_indices(n, 1)] = (self._arrays()["responses"] - 0.5) / truth + 0.5
        return weights + weights.T


def draw_factor(
    edges: Edges, noise: float, n_components: int, rng: np.random.Generator
) -> FloatArray:
    """Draw the n x r factor, on the release grid, without any n x n matrix.

    An edge contributes a g (e_u - e_v) with a normal g and a the root of its weight, a double that
    depends on this edge alone. The mean is subtracted from what is released: edges do not change
    it, for their columns sum to zero.
    """
    root = math.sqrt(noise) * ROUND_UP
    factor = draw_combinations(edges.incidence(), root, n_components, rng)
    spacing = grid_spacing(root)
    factor -= np.rint(factor.mean(axis=0) / spacing) * spacing
    return factor


def draw_responses(edges: Edges, noise: float, rng: np.random.Generator) -> FloatArray:
    """A bit for every pair of nodes in order, 1 for an edge, each a lie with the same probability.

    Weights are rounded to 0 or 1 at random first.
    """
    n = edges.n_nodes
    low, high = np.minimum(edges.first, edges.second), np.maximum(edges.first, edges.second)
    place = low * n - low * (low + 1) // 2 + high - low - 1
    shares = np.zeros(n * (n - 1) // 2)
    shares[place] = edges.grid()
    return draw_bits(shares, UNIT, 0.5 * (1.0 - _truth(noise) / ROUND_UP), rng)


def _truth(noise: float) -> float:
    """1 - 2q, if q is the rate of lies at which (y - q)/(1 - 2q) has this standard deviation."""
    return 1.0 / math.sqrt(1.0 + 4.0 * noise**2)


@functools.lru_cache(maxsize=256)
def _least(
    law: Callable[[int, float], PrivacyLoss], size: int, target: Target, given: float | None
) -> tuple[float, PrivacyLoss]:
    """The least noise of a family of losses, or the given one; and its loss."""
    return target.least_noise(functools.partial(law, size), math.sqrt(size), given)


def _sketch_loss(n_components: int, noise: float) -> PrivacyLoss:
    """The worst pair of a sketch: an edge of weight 1 in the empty graph, present first."""
    return Profile.both(QuadraticLoss(2.0 / noise * ROUND_UP, 0.0, n_components))


def _response_loss(_: int, noise: float) -> PrivacyLoss:
    """Two answers, one the likelier by (1 - q)/q = (1 + truth)/(1 - truth)."""
    return _either_way(2.0 * math.asinh(0.5 / noise))


def _laplace_loss(crossed: int, noise: float) -> PrivacyLoss:
    return _either_way(crossed * math.sqrt(2.0) / noise)


def _gaussian_loss(crossed: int, noise: float) -> PrivacyLoss:
    return shift_profile(math.sqrt(crossed) / noise)


def _either_way(epsilon: float) -> PrivacyLoss:
    loss = pure_loss(epsilon)
    return Profile([loss, loss])


def _no_cut() -> ValueError:
    return ValueError(
        "Expected sets with some but not all nodes, got an empty set or the set of all; "
        "their cut is 0."
    )


def _one_side(members: NDArray[np.int64], n: int) -> bytes:
    """The same for a set and its complement, which have one cut; no longer than the set."""
    if 2 * members.size > n or (2 * members.size == n and members[0] != 0):
        members = np.setdiff1d(np.arange(n), members)
    return members.astype(np.int64).tobytes()
