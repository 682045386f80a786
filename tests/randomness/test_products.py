import math
import operator
from fractions import Fraction

import flint
import numpy as np
import pytest
from flint import arb
from scipy import sparse, stats

from attacks import reached, seen_delta, survives
from ndis.randomness import (
    draw_combinations,
    draw_gaussian,
    draw_sketch,
    generator,
    grid_spacing,
    least_ridge,
    products,
)
from ndis.randomness.reals import NORMAL
from samplers import LEVEL, NEVER, accepts_gaussian, accepts_law, accepts_scale

SOURCES = pytest.mark.parametrize(("seed", "level"), [(20240607, LEVEL), (None, NEVER)])
RIDGE = 2.5


def gram(d, condition, seed=0):
    """Integers whose largest eigenvalue is about `condition` ridges and whose rank is d - 1."""
    rows = generator(seed).standard_normal((d - 1, d)) if d > 1 else np.ones((1, 1))
    rows *= math.sqrt(condition * RIDGE / np.linalg.norm(rows, 2) ** 2)
    return np.rint(rows.T @ rows)


GRAMS = {
    "identity": np.eye(3),
    "nothing": np.zeros((2, 2)),
    "one column": np.array([[7.0]]),
    "equal columns": np.full((3, 3), 1e12),
    "ordinary": gram(6, 1e4),
    "ill-conditioned": gram(5, 1e12),
}
CASES = pytest.mark.parametrize("matrix", GRAMS.values(), ids=GRAMS.keys())


def spread(columns, scale):
    """Shift releases within their cells, so that they have a density again."""
    return columns + generator(99).uniform(-0.5, 0.5, columns.shape) * grid_spacing(scale)


# --- The factorisation ---------------------------------------------------------------------------


@CASES
def test_the_residual_is_known_far_beyond_doubles(matrix):
    root = products._Root(matrix, RIDGE, RIDGE)
    d, unit = len(matrix), Fraction(root.unit)
    F = [[Fraction(v) for v in row] for row in root.factor.tolist()]
    X = root._residual()
    largest = Fraction(float(np.max(np.sum(root.factor**2, axis=1))))
    for i in range(d):
        for j in range(d):
            exact = sum(a * b for a, b in zip(F[i], F[j], strict=True))
            exact -= (Fraction(matrix[i, j]) + (Fraction(RIDGE) if i == j else 0)) / unit**2
            exact += Fraction(root.noise) ** 2 if i == j else 0
            error = abs(Fraction(X[i, j]) - exact)
            assert error <= abs(exact) / 2**53 + largest / 2**98


def test_the_residual_of_a_large_matrix_comes_in_blocks(monkeypatch):
    whole = products._Root(gram(40, 1e6), RIDGE, RIDGE)._residual()
    monkeypatch.setattr(products, "_ROWS", 7)
    assert np.array_equal(products._Root(gram(40, 1e6), RIDGE, RIDGE)._residual(), whole)


@CASES
def test_the_correction_is_as_close_as_it_says(matrix):
    root = products._Root(matrix, RIDGE, RIDGE)
    d = len(matrix)
    with flint.ctx.workprec(500):
        factor, target = root._balls
        X = (factor * factor.transpose() - target) / root.square
        # (I - V)^2 = I - X, so (I - V) is off by at most |(I - V)^2 - (I - X)|.
        V = flint.arb_mat(d, d, root.correction.reshape(-1).tolist())
        one = flint.arb_mat(d, d, np.eye(d).reshape(-1).tolist())
        square = (one - V) * (one - V) - (one - X)
        off = sum((square[i, j] ** 2 for i in range(d) for j in range(d)), arb(0)).sqrt()
        size = sum((X[i, j] ** 2 for i in range(d) for j in range(d)), arb(0)).sqrt()
    assert off < 2 * root.doubt
    assert size <= root.theta


class Forced(products._Root):
    """Trusts no double."""

    def approximate(self, z):
        values, errors = super().approximate(z)
        return values, errors + 1e9


class Exact(Forced):
    """Trusts no correction either."""

    def enclose(self, i, column, bits):
        return self._enclose_exactly(i, column, bits + 64)


@CASES
def test_doubles_integers_and_balls_agree(matrix):
    spacing = grid_spacing(math.sqrt(RIDGE))
    draws = [
        kind(matrix, RIDGE, RIDGE).draw(30, spacing, generator(3))
        for kind in (products._Root, Forced, Exact)
    ]
    assert np.array_equal(draws[0], draws[1])
    assert np.array_equal(draws[0], draws[2])


@CASES
def test_bounds_on_doubles_hold(matrix):
    root = products._Root(matrix, RIDGE, RIDGE)
    d = len(matrix)
    reals = NORMAL.draw(2 * d * 200, generator(4))
    values, errors = root.approximate(reals.doubles().reshape(2 * d, 200))
    for j in range(0, 200, 7):
        column = products._Column(reals, j, 200)
        for i in range(d):
            with flint.ctx.workprec(400):
                exact = root.enclose(i, column, 57)
                assert abs(exact - float(values[i, j])) < errors[i, j]
                exact = root.enclose(i, column, 185)
                assert abs(exact - float(values[i, j])) < errors[i, j]


def test_the_correction_may_be_left_out_of_doubles(monkeypatch):
    # Both ways the columns are the same; one leaves more roundings to integers.
    spacing, matrix = grid_spacing(math.sqrt(RIDGE)), GRAMS["ill-conditioned"]
    assert products._Root(matrix, RIDGE, RIDGE).corrects
    assert not products._Root(GRAMS["ordinary"], RIDGE, RIDGE).corrects
    draws = []
    for share in (0.0, math.inf):
        monkeypatch.setattr(products, "_SHARE", share)
        draws.append(products._Root(matrix, RIDGE, RIDGE).draw(500, spacing, generator(5)))
    assert np.array_equal(*draws)


def test_columns_come_in_blocks(monkeypatch):
    monkeypatch.setattr(products, "_BLOCK", 50)
    columns = draw_sketch(gram(6, 1e4), RIDGE, 2001, generator(6))
    assert columns.shape == (6, 2001)
    scale = math.sqrt(RIDGE)
    cov = gram(6, 1e4) + RIDGE * np.eye(6)
    assert accepts_gaussian(spread(columns, scale).T, np.zeros(6), cov, LEVEL)


def test_pairs_and_integers_are_exact():
    class Pairs:
        high = np.array([[2**50, 7], [7, 2**50 + 1]])
        low = np.array([[1, 2], [2, 3]])
        part = None

    exact = [[int(Pairs.high[i, j]) * 2**26 + int(Pairs.low[i, j]) for j in (0, 1)] for i in (0, 1)]
    drawn = [draw_sketch(g, 2.0**40, 50, generator(7)) for g in (Pairs, exact)]
    assert np.array_equal(*drawn)


# --- The laws ------------------------------------------------------------------------------------


@SOURCES
@CASES
def test_sketches(matrix, seed, level):
    columns = draw_sketch(matrix, RIDGE, 50_000, generator(seed))
    assert np.all(np.fmod(columns, grid_spacing(math.sqrt(RIDGE))) == 0)
    d = len(matrix)
    values, vectors = np.linalg.eigh(matrix + RIDGE * np.eye(d))
    # Along eigenvectors, so that a test in doubles sees the noise beside a large matrix.
    white = vectors.T @ spread(columns, math.sqrt(RIDGE))
    for value, row in zip(values, white, strict=True):
        assert accepts_law(row, stats.norm(scale=math.sqrt(value)).cdf, level / 20)
        assert accepts_scale(row, math.sqrt(value), level / 20)
        for wrong in (0.95, 1.05):
            assert not accepts_scale(row, wrong * math.sqrt(value), NEVER)


@SOURCES
def test_the_noise_between_equal_columns_is_not_swallowed(seed, level):
    # Two equal columns up to 1e9 in 1000 rows: in doubles G + ridge I loses the ridge. Row-shift
    # neighbours differ by noise that vanished (issue A3).
    x = generator(1).uniform(0, 1e9, 1000)
    ridge = 2.0**26
    matrix = np.full((2, 2), float(x @ x))
    assert np.linalg.matrix_rank(matrix + np.eye(2)) == 1
    assert ridge > least_ridge(2 * float(x @ x), 2)
    columns = draw_sketch(matrix, ridge, 50_000, generator(seed))
    difference = spread(columns, math.sqrt(ridge))[0] - spread(columns, math.sqrt(ridge))[1]
    assert accepts_scale(difference, math.sqrt(2 * ridge), level)
    for wrong in (0.95, 1.05):
        assert not accepts_scale(difference, wrong * math.sqrt(2 * ridge), NEVER)


@SOURCES
@pytest.mark.parametrize("ridge", [0.0, 1e-30, 1.0])
def test_sketches_of_matrices_that_are_known_to_be_large(ridge, seed, level):
    matrix = gram(3, 1e3) + 50.0 * np.eye(3)
    columns = draw_sketch(matrix, ridge, 50_000, generator(seed), least=50.0)
    law, scale = matrix + ridge * np.eye(3), math.sqrt(50.0 + ridge)
    assert np.all(np.fmod(columns, grid_spacing(scale)) == 0)
    assert accepts_gaussian(spread(columns, scale).T, np.zeros(3), law, level)
    assert not accepts_gaussian(spread(columns, scale).T, np.zeros(3), 1.1 * law, NEVER)


@SOURCES
def test_gaussians(seed, level):
    mean, cov = np.array([1e6, -3.0, 0.1]), gram(3, 1e3) + 0.3
    draws = draw_gaussian(mean, cov, 0.5, 50_000, generator(seed))
    assert draws.shape == (50_000, 3)
    assert np.all(np.fmod(draws, grid_spacing(0.5)) == 0)
    law = cov + 0.25 * np.eye(3)
    assert accepts_gaussian(spread(draws, 0.5), mean, law, level)
    assert not accepts_gaussian(spread(draws, 0.5), mean, 1.1 * law, NEVER)
    assert not accepts_gaussian(spread(draws, 0.5), mean + np.array([0, 0, 5.0]), law, NEVER)


@SOURCES
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_combinations(kind, seed, level):
    factor = np.array([[1.0, 0.0, 3.0], [0.0, -2.0, 0.0], [0.0, 0.0, 0.0]])
    columns = draw_combinations(kind(factor), 0.7, 50_000, generator(seed))
    law = factor @ factor.T + 0.49 * np.eye(3)
    assert accepts_gaussian(spread(columns, 0.7).T, np.zeros(3), law, level)
    assert not accepts_gaussian(spread(columns, 0.7).T, np.zeros(3), 1.1 * law, NEVER)


def test_combinations_are_correctly_rounded():
    factor = generator(8).standard_normal((3, 4)) * 10.0 ** generator(9).uniform(-9, 9, (3, 4))
    columns = draw_combinations(factor, 0.3, 100, generator(10))
    assert np.array_equal(
        draw_combinations(sparse.csr_array(factor), 0.3, 100, generator(10)), columns
    )
    reals, spacing = NORMAL.draw(700, generator(10)), Fraction(grid_spacing(0.3))
    weights = [[Fraction(w) for w in [*row, 0.3]] for row in factor.tolist()]
    for j in range(100):
        z = [Fraction(reals.floor(k * 100 + j, 400), 2**400) for k in range(7)]
        for i in range(3):
            exact = sum(w * v for w, v in zip(weights[i], [*z[:4], z[4 + i]], strict=True))
            steps = math.floor(exact / spacing + Fraction(1, 2))
            assert columns[i, j] == float(steps * spacing)


# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 10, 60])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_a_public_trace_says_what_can_be_drawn(d, scale):
    # Adversarial matrices of the largest trace allowed: duplicates, one giant row, graded columns.
    rng = generator(11)
    rows = [
        np.ones((3, d)),
        np.eye(d)[:1],
        rng.standard_normal((2, d)),
        np.diag(2.0 ** -np.arange(d)),
        rng.standard_normal((1, 1)) * 2.0 ** -(np.arange(d) / 3.0)[None] + np.zeros((1, d)),
        np.repeat(rng.standard_normal((4, 1)), d, axis=1) + 1e-8 * rng.standard_normal((4, d)),
    ]
    for table in rows:
        matrix = table.T @ table
        matrix *= scale / np.trace(matrix)
        ridge = least_ridge(scale, d)
        root = products._Root(matrix, ridge, ridge)
        assert root.theta <= 0.5
        columns = draw_sketch(matrix, ridge, 300, generator(12))
        assert np.isfinite(columns).all()


def adversarial(rng):
    """A table of three columns, the trace that it may have, and a direction without data."""
    scale = 10.0 ** rng.uniform(-150, 150)
    n = int(rng.integers(1, 40))
    table = rng.standard_normal((n, 3)) * 10.0 ** rng.uniform(-6, 0, 3)
    null = np.array([1.0, -1.0, 0.0])
    kind = rng.integers(4)
    if kind == 0:
        table[:, 0] = 1.0  # a constant column, and a copy of it
    elif kind == 1:
        table[0] *= 1e9  # one giant row
    elif kind == 2:
        table[:] = table[:, :1]  # copies only
    else:
        table[:, 1] = 0.0  # nothing
        null = np.array([0.0, 1.0, 0.0])
    if kind != 3:
        table[:, 1] = table[:, 0]
    table *= scale / np.linalg.norm(table)
    return table, scale**2, null / np.linalg.norm(null)


@pytest.mark.slow
def test_noise_is_as_stated_beside_a_thousand_adversarial_tables():
    rng, rejected = generator(19), 0
    for seed in range(1000):
        table, trace, null = adversarial(rng)
        ridge = least_ridge(trace, 3) * 2.0 ** rng.uniform(0, 40)
        columns = draw_sketch(table.T @ table, ridge, 400, generator(seed))
        # The noise alone, in a direction where the table has nothing.
        rejected += not accepts_scale(null @ columns, math.sqrt(ridge), 0.01)
    assert 0 < rejected < 40  # binomial(1000, 0.01)


def test_what_is_too_large_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="lower max_rows or the bounds on the data"):
        draw_sketch(np.full((2, 2), 1e20), 1.0, 3, generator(1))
    with pytest.raises(ValueError, match="lower max_rows or the bounds on the data"):
        draw_sketch(-np.eye(2), 0.5, 3, generator(1))
    with pytest.raises(ValueError, match=r"Expected ridge \+ least > 0"):
        draw_sketch(np.eye(2), 0.0, 3, generator(1))
    with pytest.raises(ValueError, match="Expected noise_scale > 0"):
        draw_gaussian([0.0], [[1.0]], 0.0, 3, generator(1))


# --- The attack ----------------------------------------------------------------------------------


def neighbours():
    """Gram matrices of two equal columns up to 1e9, without and with one entry moved by 1."""
    x = np.rint(generator(1).uniform(0, 1e9, 1000))
    moved = x.copy()
    moved[0] += 1.0
    columns = [[[int(v) for v in c] for c in pair] for pair in ((x, x), (x, moved))]
    return [[[sum(map(operator.mul, a, b)) for b in pair] for a in pair] for pair in columns]


def test_the_attack_finds_a_swallowed_ridge():
    seen = []
    for matrix in neighbours():
        values, vectors = np.linalg.eigh(np.array(matrix, dtype=float) + 115.0**2 * np.eye(2))
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        columns = factor @ generator(2).standard_normal((2, 20_000))
        seen.append(columns[0] - columns[1])
    assert seen_delta(*seen, epsilon=1.0, level=1e-6) > 0.1


def test_no_ridge_is_swallowed():
    rng, ridge, (first, second) = generator(3), 2.0**27, neighbours()
    assert ridge >= least_ridge(2 * first[0][0], 2)

    def draw(neighbour, n):
        columns = draw_sketch((first, second)[neighbour], ridge, n, rng)
        return np.column_stack([columns.T, columns[0] - columns[1]])

    # The second matrix has leverage below 1e-7 along the difference.
    assert survives(draw, epsilon=1.0, delta=1e-3)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e12])
def test_no_value_of_a_sketch_is_possible_under_one_neighbour_only(size):
    rng = generator(14)
    ridge = 20.0
    matrices = [np.full((2, 2), size), np.full((2, 2), size + 1.0)]
    scales = [math.sqrt(m[0, 0] + ridge) for m in matrices]

    def draw(neighbour, n):
        return draw_sketch(matrices[neighbour], ridge, n, rng).T

    looks = [reached(0.0, scale) for scale in scales]
    assert survives(draw, epsilon=1.0, delta=1e-3, looks=looks)


def test_no_value_of_a_gaussian_is_possible_under_one_neighbour_only():
    # The law of issue A4: as wide as 15500, with little noise.
    rng, noise = generator(15), 15_500 * 2.0**-20

    def draw(neighbour, n):
        return draw_gaussian([0.0], [[(15_500.0 + neighbour) ** 2]], noise, n, rng)

    looks = [reached(0.0, math.sqrt((15_500 + k) ** 2 + noise**2)) for k in (0, 1)]
    assert survives(draw, epsilon=1.0, delta=1e-3, looks=looks)
