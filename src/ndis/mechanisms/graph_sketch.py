"""What the public can do with the sketch of a graph: cuts and more, with their errors.

The factor has r independent columns N(0, A), A = weight (I - 11^T/n) + share L, where L is the
Laplacian of the graph. So x^T F F^T x / r is x^T A x times chi2_r / r, for every x. On the vectors
that sum to 0, of dimension n - 1, F F^T is a Wishart matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.mechanisms.sketch import Estimate
from ndis.release import Release
from ndis.tables.edges import Node, masks

MECHANISM = "PrivateGraph"

# Most numbers of a block of answers: 64 MB.
_BLOCK = 1 << 23


class Spectrum(NamedTuple):
    """Eigenvalues, and bounds that hold for all of them at once."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class GraphSketch:
    """A released graph: n x r numbers from which any cut can be estimated.

    Parameters
    ----------
    factor : ndarray of shape (n, r)
        What was released: a row a node, every column summing to 0.
    nodes : sequence of str or int
        The nodes, in the order of the rows.
    weight : float
        The noise, as the paper counts it: the complete graph was mixed in with total weight
        `weight` at every node (w in the paper).
    share : float
        What the mixing left of each edge's weight, 1 - w/n.

    Examples
    --------
    >>> import networkx as nx
    >>> from ndis import PrivateGraph
    >>> graph = nx.path_graph(2000)
    >>> sketch = PrivateGraph(
    ...     epsilon=2.0, delta=1e-6, n_components=500, random_state=0
    ... ).fit(graph).sketch_
    >>> value, error = sketch.cut(range(10))
    >>> bool(abs(value - 1.0) < 3 * error)
    True
    """

    factor: FloatArray = field(repr=False)
    nodes: Any = field(repr=False)
    weight: float
    share: float

    @classmethod
    def from_release(cls, release: Release) -> GraphSketch:
        """The sketch in a release of `PrivateGraph`."""
        if release.mechanism != MECHANISM:
            raise ValueError(
                f"Expected a release of {MECHANISM}, got one of {release.mechanism}; "
                "read its arrays instead."
            )
        known = release.parameters
        nodes = known["nodes"]
        return cls(
            # The columns sum to 0; rounding to the release grid hid that a little.
            release.value - release.value.mean(axis=0),
            range(nodes) if isinstance(nodes, int) else tuple(nodes),
            known["weight"],
            known["share"],
        )

    @classmethod
    def load(cls, path: str | Path) -> GraphSketch:
        """Read the sketch from a file that `Release.save` wrote."""
        return cls.from_release(Release.load(path))

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return int(self.factor.shape[0])

    @property
    def n_components(self) -> int:
        """The number r of columns."""
        return int(self.factor.shape[1])

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
            The sets.

        Returns
        -------
        value, standard_error : ndarray of shape (k,)

        Notes
        -----
        The standard error of one cut is sqrt(2/r) (w s(n-s)/n / (1 - w/n) + cut), for a set of s
        nodes; here the estimate stands for the cut.
        """
        inside = masks(self.nodes, sets)
        n, r = self.n_nodes, self.n_components
        sizes = inside.sum(axis=1)
        if np.any((sizes == 0) | (sizes == n)):
            raise ValueError(
                "Expected sets with some but not all nodes, got an empty set or the set of all; "
                "their cut is 0."
            )
        step = max(1, _BLOCK // max(n, r))
        forms = np.concatenate(
            [
                np.mean(
                    (inside[start : start + step].astype(np.float64) @ self.factor) ** 2, axis=1
                )
                for start in range(0, len(inside), step)
            ]
            or [np.zeros(0)]
        )
        return Estimate(
            (forms - self.weight * sizes * (n - sizes) / n) / self.share,
            math.sqrt(2.0 / r) * forms / self.share,
        )

    # -- the Laplacian -----------------------------------------------------------------------

    def laplacian(self) -> FloatArray:
        """The Laplacian of the graph without bias, as a dense matrix of shape (n, n).

        It is a Laplacian of a graph that may have negative weights, and may have negative
        eigenvalues.
        """
        n = self.n_nodes
        mixed: FloatArray = self.factor @ self.factor.T / self.n_components
        mixed += self.weight / n
        mixed[np.diag_indices(n)] -= self.weight
        return mixed / self.share

    def to_networkx(self) -> Any:
        """The estimated graph: complete, with weights that may be negative.

        Every pair of nodes has its edge, and the noise in a weight is as large below 0 as above.
        Cuts and other sums over many edges make sense; single weights hardly do, and algorithms
        that need non-negative weights (shortest paths, flows) do not.
        """
        try:
            import networkx as nx
        except ImportError:
            raise ImportError(
                "Expected networkx for a graph, but it is not installed; run: pip install networkx."
            ) from None
        weights = -self.laplacian()
        graph = nx.Graph()
        graph.add_nodes_from(self.nodes)
        for u in range(self.n_nodes - 1):
            graph.add_weighted_edges_from(
                (self.nodes[u], self.nodes[v], float(weights[u, v]))
                for v in range(u + 1, self.n_nodes)
            )
        return graph

    def effective_resistance(self, u: Node, v: Node, *, debias: bool = True) -> Estimate:
        """The resistance between two nodes, if edges are conductors of their weight.

        Parameters
        ----------
        u, v : nodes
        debias : bool, default True
            Take the complete graph out before solving: consistent as the sketch grows, with the
            standard error of its linear approximation; impossible where the noise is larger than
            the graph. Without it, the resistance in the *mixed* graph, whose edges weigh
            w/n + (1 - w/n) times what they did: unbiased, with its exact standard error; needs
            n_components > n + 2.

        Returns
        -------
        value, standard_error : float

        Notes
        -----
        With b = e_u - e_v and p = n - 1 dimensions, b^T A^+ b / b^T (F F^T)^+ b is chi-square with
        r - p + 1 degrees of freedom. The debiased one has the error of x^T A x / share at
        x = L^+ b to first order.
        """
        n, r = self.n_nodes, self.n_components
        b = np.subtract(*masks(self.nodes, [[u], [v]]).astype(np.float64))
        freedom = r - n + 2
        if not debias and freedom <= 4:
            raise ValueError(
                f"Expected n_components > n_nodes + 2 = {n + 2}, got {r}; release more components."
            )
        matrix = self.laplacian() if debias else self.factor @ self.factor.T / r
        # On vectors that sum to 0, adding a multiple of 11^T changes nothing.
        matrix = matrix + np.trace(matrix) / n**2
        try:
            factor = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise ValueError(
                "Expected a graph that stands out from the noise, got a sketch in which it does "
                "not; pass debias=False, or release a larger sketch."
            ) from None
        x = np.linalg.solve(factor.T, np.linalg.solve(factor, b))
        resistance = float(b @ x)
        if debias:
            form = float(np.mean((x @ self.factor) ** 2))
            return _estimate(resistance, math.sqrt(2.0 / r) * form / self.share)
        resistance *= (freedom - 2) / r
        return _estimate(resistance, math.sqrt(2.0 / (freedom - 2)) * resistance)

    def spectrum(self, k: int, *, level: float = 0.95) -> Spectrum:
        """The k largest eigenvalues of the Laplacian, with bounds.

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
        n, r = self.n_nodes, self.n_components
        most = min(n - 1, r)
        if _validate.count("k", k) > most:
            raise ValueError(
                f"Expected k <= min(n_nodes - 1, n_components) = {most}, got k={k}; "
                "ask for fewer eigenvalues."
            )
        doubt = 1.0 - _validate.probability("level", level)
        small = self.factor.T @ self.factor if r < n else self.factor @ self.factor.T
        values = np.linalg.eigvalsh(small)[::-1][:k] / r
        reach = (math.sqrt(n - 1) + math.sqrt(2.0 * math.log(2.0 / doubt))) / math.sqrt(r)
        above = values / (1.0 - reach) ** 2 if reach < 1 else np.full(k, np.inf)
        below = values / (1.0 + reach) ** 2
        value, low, high = ((part - self.weight) / self.share for part in (values, below, above))
        return Spectrum(value, low, high)


def _estimate(value: float, error: float) -> Estimate:
    return Estimate(np.float64(value), np.float64(error))  # type: ignore[arg-type]
