"""Graphs of any kind, as one list of weighted edges.

The nodes of a graph are public, its edges are not. Which nodes have edges, and in which order they
came up when the graph was built, tells something of the edges; hence nodes are never taken from a
graph: the caller says what is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import FloatArray, count
from ndis.tables.sources import Request, open_source, package_of
from ndis.tables.values import NUMBER, Kind, numbers

IntArray = NDArray[np.int64]
Node = int | str

WEIGHT = "weight"
# Weights are multiples of 1/UNIT: sums of them are sums of integers.
UNIT = 2**20


@dataclass(frozen=True)
class Edges:
    """The edges of an undirected graph, each once, with weights in [0, 1].

    They belong to the owner of the data: printing shows the nodes at most.

    Attributes
    ----------
    nodes : sequence of str or int
        The nodes; ``range(n)`` where they have no names.
    first, second : ndarray of int
        The ends of each edge, as positions in `nodes`.
    weight : ndarray of float
        The weights.
    """

    nodes: Sequence[Node]
    first: IntArray = field(repr=False)
    second: IntArray = field(repr=False)
    weight: FloatArray = field(repr=False)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.nodes)

    def grid(self) -> FloatArray:
        """The weights in units of 2^-20: doubles that hold integers."""
        return np.asarray(np.rint(self.weight * UNIT))

    def units(self, inside: NDArray[np.bool_]) -> float:
        """The exact total of `grid` over edges with one end inside a mask of nodes."""
        return float(np.sum(self.grid()[inside[self.first] != inside[self.second]]))

    def cut(self, inside: Iterable[Node]) -> float:
        """The total weight of edges with one end inside and one outside."""
        return self.units(masks(self.nodes, [inside])[0]) / UNIT

    def incidence(self) -> Any:
        """The n x m matrix with column sqrt(weight) (e_u - e_v) for each edge, sparse by row."""
        from scipy import sparse

        n_edges = self.weight.size
        root = np.sqrt(self.grid() / UNIT)
        ends = np.concatenate([self.first, self.second])
        columns = np.tile(np.arange(n_edges), 2)
        entries = np.concatenate([root, -root])
        return sparse.csr_array((entries, (ends, columns)), shape=(self.n_nodes, n_edges))

    def laplacian(self) -> FloatArray:
        """The Laplacian, dense: the sum over edges of weight (e_u - e_v)(e_u - e_v)^T."""
        matrix = np.zeros((self.n_nodes, self.n_nodes))
        weights = self.grid() / UNIT
        matrix[self.first, self.second] = matrix[self.second, self.first] = -weights
        np.fill_diagonal(matrix, -matrix.sum(axis=1))
        return matrix


def read_edges(graph: Any, *, nodes: int | Sequence[Node], weight: str | None = WEIGHT) -> Edges:
    """Read a graph of any kind.

    Parameters
    ----------
    graph : networkx graph, scipy sparse matrix, Edges, or table
        A table lists each edge once in its columns ``source`` and ``target``, and is anything that
        `Table.open` opens. A matrix is the symmetric adjacency matrix.
    nodes : int or sequence of str or int
        The public nodes; a number n stands for 0, ..., n - 1. They are not taken from the graph:
        which nodes have edges is no public fact.
    weight : str or None
        Edge attribute or column that holds the weight; edges without it have weight 1. None gives
        every edge the weight 1.

    Returns
    -------
    Edges

    Examples
    --------
    >>> import pyarrow as pa
    >>> from ndis.tables import read_edges
    >>> table = pa.table({"source": ["a", "c"], "target": ["b", "a"]})
    >>> read_edges(table, nodes=["a", "b", "c", "d"]).n_nodes
    4
    """
    known = labels(nodes)
    if isinstance(graph, Edges):
        if graph.nodes != known:
            raise _unknown_node()
        return graph
    package = package_of(type(graph))
    if package == "networkx":
        return _from_networkx(graph, known, weight)
    if package == "scipy":
        return _from_matrix(graph, known, weight)
    return _from_table(graph, known, weight)


def masks(nodes: Sequence[Node], sets: Iterable[Iterable[Node]]) -> NDArray[np.bool_]:
    """Sets of nodes as the rows of a boolean matrix; a set may be given as its row already.

    Examples
    --------
    >>> from ndis.tables.edges import masks
    >>> masks(("a", "b", "c"), [{"b", "c"}]).tolist()
    [[False, True, True]]
    """
    members = places(nodes, sets)
    rows = np.zeros((len(members), len(nodes)), dtype=np.bool_)
    for row, inside in zip(rows, members, strict=True):
        row[inside] = True
    return rows


def places(nodes: Sequence[Node], sets: Iterable[Iterable[Node]]) -> list[IntArray]:
    """The positions of each set's nodes, once each; takes no more memory than the sets.

    Examples
    --------
    >>> from ndis.tables.edges import places
    >>> [found.tolist() for found in places(range(10**12), [[7, 3]])]
    [[3, 7]]
    """
    n = len(nodes)
    known = {} if isinstance(nodes, range) else {node: index for index, node in enumerate(nodes)}

    def place(node: Any) -> int:
        # True is 1 to a dictionary: a mask of the wrong length must not pass for nodes.
        if isinstance(node, bool | np.bool_):
            raise KeyError(node)
        if not isinstance(nodes, range):
            return known[node]
        if not isinstance(node, int | np.integer) or not 0 <= node < n:
            raise KeyError(node)
        return int(node)

    found = []
    for inside in sets:
        if isinstance(inside, np.ndarray) and inside.dtype == np.bool_ and inside.shape == (n,):
            found.append(np.flatnonzero(inside))
            continue
        try:
            found.append(np.unique(np.array([place(node) for node in inside], dtype=np.int64)))
        except (KeyError, TypeError):
            raise ValueError(
                "Expected sets of nodes of the graph, got something else among them; "
                "name nodes that it has, or pass a boolean mask."
            ) from None
    return found


def _from_networkx(graph: Any, nodes: Sequence[Node], weight: str | None) -> Edges:
    if graph.is_directed() or graph.is_multigraph():
        raise ValueError(
            f"Expected an undirected graph with simple edges, got {type(graph).__name__}; "
            "convert it with networkx.Graph(graph)."
        )
    position = {label: index for index, label in enumerate(nodes)}
    named = graph.edges(data=weight, default=1.0) if weight else ((u, v, 1) for u, v in graph.edges)
    listed = list(named)
    try:
        first, second = ([position[edge[end]] for edge in listed] for end in (0, 1))
    except KeyError:
        raise _unknown_node() from None
    try:
        weights = np.array([edge[2] for edge in listed], dtype=np.float64)
    except (TypeError, ValueError):
        raise _bad_weight() from None
    return Edges(nodes, np.array(first, np.int64), np.array(second, np.int64), weights)


def _from_matrix(matrix: Any, nodes: Sequence[Node], weight: str | None) -> Edges:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"Expected a square adjacency matrix, got shape {matrix.shape}; "
            "hand over edges as a table with columns 'source' and 'target'."
        )
    if len(nodes) != matrix.shape[0]:
        raise ValueError(
            f"Expected {matrix.shape[0]} nodes, one for each row of the matrix, got {len(nodes)}; "
            "name every node."
        )
    by_row = matrix.tocsr().astype(np.float64)
    by_row.sum_duplicates()
    if abs(by_row - by_row.T).max() != 0:
        raise ValueError(
            "Expected the symmetric matrix of an undirected graph, got one that differs from its "
            "transpose; say which edges you mean, for instance with matrix.maximum(matrix.T)."
        )
    entries = by_row.tocoo()
    once = (entries.row <= entries.col) & (entries.data != 0)
    weights = entries.data[once] if weight else np.ones(np.count_nonzero(once))
    first, second = (np.asarray(ends[once], np.int64) for ends in (entries.row, entries.col))
    return Edges(nodes, first, second, weights)


def _from_table(table: Any, nodes: Sequence[Node], weight: str | None) -> Edges:
    opened = open_source(table)
    names = opened.names
    if not {"source", "target"} <= set(names):
        raise ValueError(
            f"Expected an edge list with columns 'source' and 'target', got columns "
            f"{', '.join(map(repr, names))}; rename the columns that hold the ends of an edge."
        )
    columns = ["source", "target", *([weight] if weight in names else [])]
    ends: Kind = NUMBER if isinstance(nodes, range) else tuple(nodes)
    kinds = dict(zip(columns, (ends, ends, NUMBER), strict=False))
    parts: list[list[NDArray[Any]]] = [[], [], []]
    for batch in opened.read(Request(tuple(columns), kinds, len(columns))):
        for part, name in zip(parts, ("source", "target"), strict=False):
            part.append(_positions(batch, name, nodes))
        parts[2].append(_weights(batch, weight if weight in names else None))
    first, second, weights = (np.concatenate([*part, np.zeros(0)]) for part in parts)
    return Edges(nodes, first.astype(np.int64), second.astype(np.int64), weights)


def _positions(batch: Any, name: str, nodes: Sequence[Node]) -> NDArray[Any]:
    """Where the ends of edges stand among the nodes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = batch.column(name)
    if isinstance(column, np.ndarray):
        return _positions_of_objects(column, nodes)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        if isinstance(nodes, range):
            ends: NDArray[Any] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            inside = not column.null_count and bool(np.all((ends >= 0) & (ends < len(nodes))))
        else:
            known = pa.array(nodes)
            found = pc.index_in(column.cast(known.type), value_set=known)
            inside = not found.null_count
            ends = found.to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise _unknown_node() from None
    if not inside:
        raise _unknown_node()
    return ends


def _positions_of_objects(ends: NDArray[Any], nodes: Sequence[Node]) -> NDArray[Any]:
    """The same where ends have no type in common: each by itself, 7 and 7.0 and "7" alike."""
    numbered = isinstance(nodes, range)
    known = {} if numbered else {str(node): index for index, node in enumerate(nodes)}
    found = []
    for end in ends:
        whole = isinstance(end, float | np.floating) and end == np.floor(end)
        text = str(int(end) if whole else end)
        inside = text.isdecimal() and int(text) < len(nodes) if numbered else text in known
        if not inside:
            raise _unknown_node()
        found.append(int(text) if numbered else known[text])
    return np.array(found, dtype=np.int64)


def _weights(batch: Any, weight: str | None) -> FloatArray:
    import pyarrow as pa

    if weight is None:
        return np.ones(batch.num_rows)
    column = batch.column(weight)
    try:
        if isinstance(column, np.ndarray):
            return numbers(weight, column)
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except (pa.ArrowException, ValueError):
        raise _bad_weight() from None


def labels(nodes: int | Iterable[Node]) -> Sequence[Node]:
    """The nodes as a range or as distinct names."""
    if isinstance(nodes, int | np.integer):
        return range(count("nodes", nodes))
    named = [int(label) if isinstance(label, np.integer) else label for label in nodes]
    for label in named:
        if isinstance(label, bool) or not isinstance(label, int | str):
            raise TypeError(
                f"Expected nodes named by strings or integers, got {type(label).__name__}; "
                "rename them, for instance with networkx.convert_node_labels_to_integers."
            )
    if len(set(named)) < len(named):
        raise ValueError("Expected distinct nodes, got one more than once; list each node once.")
    return range(len(named)) if named == list(range(len(named))) else tuple(named)


def _check(edges: Edges) -> None:
    if edges.n_nodes < 2:
        raise ValueError(
            f"Expected a graph of at least two nodes, got {edges.n_nodes}; "
            "a smaller graph has no edges to hide."
        )
    if np.any(edges.first == edges.second):
        raise ValueError(
            "Expected a graph without self-loops, got one that has some; "
            "remove them, since no cut contains them."
        )
    if not np.all((edges.weight >= 0) & (edges.weight <= 1)):  # NaN is outside, too
        raise _bad_weight()
    low, high = np.minimum(edges.first, edges.second), np.maximum(edges.first, edges.second)
    if np.unique(low * edges.n_nodes + high).size < low.size:
        raise ValueError(
            "Expected each edge once, got one more than once (u-v and v-u are the same edge); "
            "sum or drop the repetitions."
        )


def _unknown_node() -> ValueError:
    return ValueError(
        "Expected edges between the nodes that were declared, got one that leads elsewhere; "
        "list all public nodes."
    )


def _bad_weight() -> ValueError:
    return ValueError(
        "Expected edge weights between 0 and 1, got one that is not; divide them by a public "
        "bound, or pass weight=None to count every edge once."
    )
