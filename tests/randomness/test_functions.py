import flint
import numpy as np
import pytest
from flint import arb
from scipy import stats

from attacks import survives
from ndis.randomness import draw_exactly, draw_limit, draw_solution, generator, grid_spacing
from ndis.randomness.functions import Normals
from ndis.randomness.reals import NORMAL
from samplers import LEVEL, NEVER, accepts_gaussian, accepts_law

SOURCES = pytest.mark.parametrize(("seed", "level"), [(20240607, LEVEL), (None, NEVER)])

ROWS = generator(1).standard_normal((40, 4)) * [1.0, 3.0, 0.2, 2.0]
MOMENTS, RIDGE, R, GRID = np.rint(100 * ROWS.T @ ROWS), 250.0, 12, 1e-6


def least_squares():
    """The solution on the ridged table, and the squared residuals times the inverse of B^T B."""
    A = MOMENTS + RIDGE * np.eye(4)
    x = np.linalg.solve(A[:3, :3], A[:3, 3])
    return x, (A[3, 3] - A[3, :3] @ x) * np.linalg.inv(A[:3, :3])


def test_any_function_of_normals_is_correctly_rounded():
    def student(z):
        return [
            10 + z[0] / sum((v * v for v in (z[i] for i in range(1, 6))), arb(0)).sqrt(),
            z[0] * z[1].exp(),
        ]

    drawn = draw_exactly(student, 6, 0.3, generator(16))
    reals = NORMAL.draw(6, generator(16))
    with flint.ctx.workprec(400):
        exact = student([arb(reals.floor(i, 300)) / arb(2) ** 300 for i in range(6)])
    steps = drawn / grid_spacing(0.3)
    for step, value in zip(steps.tolist(), exact, strict=True):
        assert step == int(step)
        assert abs(value / grid_spacing(0.3) - step) < 0.5

    with pytest.raises(ArithmeticError, match="Expected balls that shrink"):
        draw_exactly(lambda z: [arb(0, 1)], 1, 1.0, generator(17))


def test_a_tie_of_a_function_takes_more_digits():
    precisions = []

    def compute(z):
        precisions.append(flint.ctx.prec)
        return [arb(2) ** -9 + z[0] * arb(2) ** -150]  # half a step, and hardly any noise

    drawn = draw_exactly(compute, 1, 1.0, generator(18))
    up = NORMAL.draw(1, generator(18)).floors[0] >= 0
    assert drawn[0] == (2.0**-8 if up else 0.0)
    assert precisions == [114, 256]


def test_energy_is_the_sum_of_squares():
    reals = NORMAL.draw(20, generator(2))
    for bits in (57, 200):
        with flint.ctx.workprec(500):
            z = Normals(reals, bits)
            direct = sum((z[i] * z[i] for i in range(3, 20)), arb(0))
            assert z.energy(3, 20).overlaps(direct)
            assert z.energy(3, 20).rad() < arb(2) ** (7 - bits)


@pytest.mark.slow
@SOURCES
def test_limit_law(seed, level):
    rng = generator(seed)
    draws = np.array([draw_limit(MOMENTS, RIDGE, R, GRID, rng) for _ in range(6000)])
    x, cov = least_squares()
    assert accepts_gaussian(draws, x, cov / R, level)
    assert not accepts_gaussian(draws, x, 1.2 * cov / R, NEVER)


@pytest.mark.slow
@SOURCES
def test_solutions_have_a_multivariate_t_law(seed, level):
    rng = generator(seed)
    draws = np.array([draw_solution(MOMENTS, RIDGE, R, GRID, rng) for _ in range(6000)])
    x, cov = least_squares()
    # Mahalanobis distances over d are F(d, r - d + 1), each direction is a t.
    freedom = R - 3 + 1
    white = np.linalg.solve(np.linalg.cholesky(cov / freedom), (draws - x).T)
    assert accepts_law(np.sum(white**2, axis=0) / 3, stats.f(3, freedom).cdf, level / 4)
    for row in white:
        assert accepts_law(row, stats.t(freedom).cdf, level / 4)
        assert not accepts_law(1.6 * row, stats.t(freedom).cdf, NEVER)


@pytest.mark.slow
def test_solutions_are_those_of_sketches():
    # The same law as solving a sketch that was made.
    rng, x = generator(4), least_squares()[0]
    made = []
    for _ in range(4000):
        factor = np.linalg.cholesky(MOMENTS + RIDGE * np.eye(4))
        second = factor @ generator(rng).standard_normal((4, R))
        second = second @ second.T
        made.append(np.linalg.solve(second[:3, :3], second[:3, 3]) - x)
    drawn = np.array([draw_solution(MOMENTS, RIDGE, R, GRID, rng) - x for _ in range(4000)])
    for k in range(3):
        assert stats.ks_2samp(np.array(made)[:, k], drawn[:, k]).pvalue > LEVEL
        assert stats.ks_2samp(np.array(made)[:, k], 1.25 * drawn[:, k]).pvalue < 1e-3


@pytest.mark.parametrize("draw", [draw_limit, draw_solution])
def test_ill_conditioned_tables_take_more_precision(draw):
    # Two columns that differ by a part in 2^30: nothing of this survives in doubles.
    wide = [[2**60, 2**60, 1], [2**60, 2**60 + 2**30, 2], [1, 2, 2**60]]
    coefficients = draw(wide, 1.0, 5, 1e-6, generator(5))
    assert np.all(np.fmod(coefficients, grid_spacing(1e-6)) == 0)
    assert 0.01 < np.abs(coefficients).max() < 1e7


@pytest.mark.slow
@pytest.mark.parametrize("draw", [draw_limit, draw_solution])
def test_no_coefficient_is_possible_under_one_neighbour_only(draw):
    rng, row = generator(6), np.array([1.0, 2.0, 0.0, 1.0])
    moments = [MOMENTS, MOMENTS + np.outer(row, row)]

    def several(neighbour, n):
        return np.array([draw(moments[neighbour], RIDGE, R, 1e-3, rng)[:2] for _ in range(n)])

    assert survives(several, epsilon=1.0, delta=1e-3)
