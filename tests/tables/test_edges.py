import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from ndis.tables import Edges, read_edges
from ndis.tables.edges import masks


def test_matrices_are_those_of_networkx() -> None:
    graph = nx.gnp_random_graph(12, 0.4, seed=1)
    for weight, (u, v) in zip(np.linspace(0, 1, graph.size()), graph.edges, strict=True):
        graph.edges[u, v]["weight"] = weight
    edges = read_edges(graph, nodes=12)
    laplacian = nx.laplacian_matrix(graph).toarray()
    np.testing.assert_allclose(edges.laplacian(), laplacian, atol=1e-5)
    incidence = edges.incidence()
    assert incidence.shape == (12, graph.size())
    np.testing.assert_allclose((incidence @ incidence.T).toarray(), laplacian, atol=1e-5)
    inside = [0, 3, 7]
    assert edges.cut(inside) == pytest.approx(nx.cut_size(graph, inside, weight="weight"), abs=1e-5)


def test_printing_shows_no_edges() -> None:
    assert repr(read_edges(nx.path_graph(3), nodes=3)) == "Edges(nodes=range(0, 3))"


def test_edges_made_by_hand_are_checked() -> None:
    one, two = np.array([0]), np.array([1])
    with pytest.raises(ValueError, match="between 0 and 1"):
        Edges(range(2), one, two, np.array([2.0]))
    made = Edges(range(2), one, two, np.array([0.5]))
    assert read_edges(made, nodes=2) is made
    with pytest.raises(ValueError, match="leads elsewhere"):
        read_edges(made, nodes=3)


def test_masks() -> None:
    given = np.array([True, False, True])
    sets = masks(("a", "b", "c"), [given, ["b"], set()])
    assert sets.tolist() == [[True, False, True], [False, True, False], [False, False, False]]
    with pytest.raises(ValueError, match="or pass a boolean mask"):
        masks(range(2), [np.array([True, False, True])])


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint32(), pa.float64()])
def test_numbered_ends_of_any_type(kind) -> None:
    table = pa.table({"source": pa.array([0, 2], kind), "target": pa.array([1, 1], kind)})
    assert read_edges(table, nodes=3).cut([1]) == 2.0


@pytest.mark.parametrize("other", ["2,a", "a,01", "1.0,a"])
def test_one_edge_of_a_file_does_not_change_the_others(other, tmp_path) -> None:
    """If all ends are numbers, "01" is not the node "1"."""
    (tmp_path / "edges.csv").write_text(f"source,target\n1,01\n{other}\n")
    edges = read_edges(tmp_path / "edges.csv", nodes=["1", "1.0", "01", "2", "a"])
    assert (edges.first[0], edges.second[0]) == (0, 2)


@pytest.mark.parametrize("other", ["a", 3.0, 2])
def test_one_edge_of_a_frame_does_not_change_the_others(other) -> None:
    """As a float, 1 would be the node "1.0"."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"source": [1, other], "target": ["01", "1.0"]}, dtype=object)
    edges = read_edges(frame, nodes=["1", "1.0", "01", "2", "3", "a"])
    assert (edges.first[0], edges.second[0]) == (0, 2)
    with pytest.raises(ValueError, match="leads elsewhere"):
        read_edges(frame.assign(target=[None, "1"]), nodes=["1", "a"])


def test_numbered_ends_without_a_type() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"source": [0, 2.0], "target": ["1", 1]}, dtype=object)
    assert read_edges(frame, nodes=3).cut([1]) == 2.0
    for end in (2.5, -1, 3, "x", None):
        with pytest.raises(ValueError, match="leads elsewhere"):
            read_edges(frame.assign(source=[0, end]), nodes=3)
