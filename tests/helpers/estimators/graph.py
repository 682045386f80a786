"""Graphs, by each method."""

from functools import partial

import networkx as nx

from estimators import Case
from ndis import PrivateGraph

N = 40
SETS = [list(range(10)), list(range(5, 30)), [3]]


def graph():
    return (nx.path_graph(N),)


def with_another_edge():
    more = nx.path_graph(N)
    more.add_edge(3, 30)
    return (more,)


def case(name, **parameters):
    return Case(name, partial(PrivateGraph, N, **parameters), graph, with_another_edge)


CASES = [
    case("graph, sketch", method="sketch", n_components=5),
    case("graph, responses", method="responses"),
    case("graph, answers", method="answers", sets=SETS),
    case("graph, Gaussian answers", sets=[list(range(k + 1)) for k in range(25)], method="answers"),
]
