"""The papers' rivals, against laws computed by another route."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from ndis_papers.bingham import components, draw_direction
from ndis_papers.reproduce import jl_transform


def sphere(n: int, seed: int) -> np.ndarray:
    points = np.random.default_rng(seed).standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.mark.parametrize("steep", [0.5, 5.0, 40.0])
def test_bingham_directions_have_the_right_second_moments(steep: float) -> None:
    """Against weighted uniform points on the sphere."""
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    matrix = steep * turn @ np.diag([0.0, 0.6, 1.0]) @ turn.T
    points = sphere(200_000, 2)
    height = np.einsum("ni,ij,nj->n", points, matrix, points)
    weight = np.exp(height - height.max())
    known = (points.T * weight) @ points / weight.sum()
    rng = np.random.default_rng(3)
    drawn = np.array([draw_direction(matrix, rng) for _ in range(2000)])
    assert np.allclose(np.linalg.norm(drawn, axis=1), 1.0)
    assert np.abs(drawn.T @ drawn / len(drawn) - known).max() < 0.04


@pytest.mark.slow
@pytest.mark.parametrize("sweeps", [0, 3])
def test_two_of_three_components_are_the_complement_of_one(sweeps: int) -> None:
    """At once: what is left out is a Bingham direction of the negative matrix. Or one by one."""
    scatter, epsilon = np.diag([0.0, 4.0, 9.0]), 0.8
    rng = np.random.default_rng(5)
    left = []
    for _ in range(600):
        first, second = components(scatter, epsilon, 2, rng, sweeps=sweeps).T
        left.append(np.cross(first, second) ** 2)
    if sweeps:
        points = sphere(200_000, 6)
        weight = np.exp(-0.5 * epsilon * (points**2 @ scatter.diagonal()))
    else:
        # The first with epsilon/2, the second in its plane with epsilon/2: what is left out is
        # weighed by the two laws, with the plane's own total.
        share = 0.25 * epsilon * scatter.diagonal()
        firsts, angles = sphere(20_000, 7), np.linspace(0, np.pi, 60, endpoint=False)
        one = np.cross(firsts, [1.0, 0.0, 0.0])
        one /= np.linalg.norm(one, axis=1, keepdims=True)
        two = np.cross(firsts, one)
        seconds = np.cos(angles)[:, None, None] * one + np.sin(angles)[:, None, None] * two
        inner = np.exp(seconds**2 @ share)
        weight = (np.exp(firsts**2 @ share) / inner.sum(axis=0) * inner).reshape(-1)
        points = np.cross(firsts, seconds).reshape(-1, 3)
    known = weight @ points**2 / weight.sum()
    assert np.abs(np.mean(left, axis=0) - known).max() < 0.045


def test_exponential_mechanism_draws_by_its_weights() -> None:
    """All graphs of three nodes, weighed one by one."""
    path, nodes = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0.0]]), np.eye(3)
    degrees: dict[tuple[int, ...], float] = {}
    for a, b, c in itertools.product((0, 1), repeat=3):
        found = (a + b, a + c, b + c)
        error = max(abs(x - y) for x, y in zip(found, (1, 2, 1), strict=True))
        degrees[found] = degrees.get(found, 0.0) + float(np.exp(-jl_transform.EPSILON / 2 * error))
    rng = np.random.default_rng(0)
    drawn = [tuple(jl_transform.exponential(path, nodes, rng).astype(int)) for _ in range(4000)]
    counts = [drawn.count(each) for each in degrees]
    share = np.array(list(degrees.values())) / sum(degrees.values())
    assert sum(counts) == 4000
    assert chisquare(counts, 4000 * share).pvalue > 1e-4


def test_one_edge_changes_the_score_by_at_most_one() -> None:
    """The sensitivity that the exponential mechanism and the rounds of learning are paid for."""
    rng = np.random.default_rng(1)
    members = (rng.random((40, 8)) < 0.5).astype(float)
    graph = jl_transform.random_graph(8, rng, 0.5)
    for a, b in itertools.combinations(range(8), 2):
        other = graph.copy()
        other[a, b] = other[b, a] = 1.0 - graph[a, b]
        moved = jl_transform.cuts(other, members) - jl_transform.cuts(graph, members)
        assert np.abs(moved).max() <= 1.0


@pytest.mark.parametrize("multiplicative", [True, False])
def test_learning_pays_for_every_round(
    multiplicative: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Laplace noises have scale 1/share, and all shares add up to epsilon."""
    scales = []

    class Watched:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)

        def laplace(self, scale: float) -> float:
            scales.append(scale)
            return float(self.rng.laplace(scale=scale))

        def gumbel(self, size: int) -> np.ndarray:
            return self.rng.gumbel(size=size)

    directions = np.linalg.qr(np.random.default_rng(2).standard_normal((5, 5)))[0]
    graph = jl_transform.random_graph(5, np.random.default_rng(3), 0.5)
    for job in (
        lambda: jl_transform.learnt_variances(np.eye(5), directions, Watched(), multiplicative),
        lambda: jl_transform.learnt_cuts(graph, np.eye(5), Watched(), multiplicative),
    ):
        scales.clear()
        job()
        selections = jl_transform.ROUNDS
        assert len(scales) == jl_transform.ROUNDS + multiplicative
        spent = sum(1 / scale for scale in scales) + selections / scales[-1]
        assert spent == pytest.approx(jl_transform.EPSILON)


def test_learnt_matrices_answer_what_was_measured() -> None:
    gram = 1e7 * np.diag([5.0, 3.0, 1.0])
    rng = np.random.default_rng(4)
    found = jl_transform.learnt_variances(gram, np.eye(3), rng, False)
    assert found == pytest.approx(gram.diagonal(), rel=1e-4)
    close = jl_transform.learnt_variances(gram, np.eye(3), rng, True)
    flat = np.full(3, gram.trace() / 3)
    assert np.abs(close - gram.diagonal()).max() < 0.6 * np.abs(flat - gram.diagonal()).max()
