import math
import tracemalloc
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from randomgen.wrapper import UserBitGenerator
from scipy import stats

from attacks import reached, seen_delta, survives
from ndis.randomness import (
    GRID_BITS,
    add_laplace_noise,
    add_noise,
    add_symmetric_noise,
    generator,
    grid_spacing,
    noise,
)
from ndis.randomness.reals import LAPLACE, NORMAL
from samplers import LEVEL, NEVER, accepts_law, accepts_scale

SOURCES = pytest.mark.parametrize(("seed", "level"), [(20240607, LEVEL), (None, NEVER)])
KINDS = pytest.mark.parametrize(
    ("add", "law"), [(add_noise, NORMAL), (add_laplace_noise, LAPLACE)], ids=["normal", "laplace"]
)


@dataclass
class Pairs:
    high: np.ndarray
    low: np.ndarray
    part: None = None


def pairs(integers):
    return Pairs(
        *(
            np.array([part(v) for v in integers])
            for part in (lambda v: v >> 26, lambda v: v % 2**26)
        )
    )


def expected(values, scale, reals):
    """Round value + scale Z to the grid in rational arithmetic, and then to a double."""
    spacing = Fraction(grid_spacing(scale))
    result = []
    for i, value in enumerate(values):
        z = Fraction(reals.floor(i, 400) * 2 + 1, 2**401)
        steps = (Fraction(value) + Fraction(scale) * z) / spacing
        result.append(float(math.floor(steps + Fraction(1, 2)) * spacing))
    return np.array(result)


# --- The grid ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-300, 0.3, 1.0, math.nextafter(2.0, 0), 2.0, 5e300])
def test_grid_spacing_is_a_power_of_two_just_below_the_scale(scale):
    spacing = grid_spacing(scale)
    assert math.frexp(spacing)[0] == 0.5
    assert spacing * 2**GRID_BITS <= scale < 2 * spacing * 2**GRID_BITS


def test_grid_depends_on_the_scale_and_not_on_the_data():
    rng = generator(3)
    for center in (0.0, 1e6):
        noisy = add_noise(np.full(1000, center + 0.1234567), 1.0, rng)
        assert np.all(np.fmod(noisy, grid_spacing(1.0)) == 0)
        assert np.any(np.fmod(noisy, 2 * grid_spacing(1.0)) != 0)


def test_zero_carries_no_sign():
    noisy = add_noise(np.zeros(100_000), 1.0, generator(1))
    assert np.any(noisy == 0)
    assert not np.any(np.signbit(noisy[noisy == 0]))


def test_the_edges_of_the_doubles():
    values = np.array([1.7e308, -1.7e308, 3e-310])
    noisy = add_noise(values, 1e-300, generator(1))
    assert np.array_equal(noisy[:2], values[:2])
    with pytest.raises(ValueError, match="Expected values that stay finite on the release grid"):
        add_noise(np.full(100, 1.7e308), 1e307, generator(1))
    with pytest.raises(ValueError, match=r"Expected scale large enough .* got scale=1e-306"):
        add_noise(1.0, 1e-306, generator(1))
    with pytest.raises(ValueError, match="Expected values to be finite"):
        add_noise([1.0, math.nan], 1.0, generator(1))
    for scale in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="Expected scale"):
            add_noise(1.0, scale, generator(1))


# --- Correct rounding --------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("scale", [3e-150, 0.7, 1.0, 5e150])
def test_noise_is_correctly_rounded(add, law, scale):
    rng = generator(2)
    values = scale * rng.standard_normal(1500) * 10.0 ** rng.uniform(-20, 20, 1500)
    noisy = add(values, scale, generator(3))
    assert np.array_equal(noisy, expected(values, scale, law.draw(1500, generator(3))))


@KINDS
def test_the_exact_way_agrees_with_the_fast_one(add, law, monkeypatch):
    values = generator(4).uniform(-100, 100, 3000)
    fast = add(values, 0.3, generator(5))
    monkeypatch.setattr(noise, "_MARGIN", 1.0)
    assert np.array_equal(add(values, 0.3, generator(5)), fast)


@pytest.mark.parametrize("up", [True, False])
def test_a_tie_is_decided_by_further_digits(up):
    # The first draw lies in [floor, floor + 1] 2^-57; put a tie of the rounding in the middle.
    words = [int(w) for w in generator(6).integers(0, 2**64, 34, dtype=np.uint64)]
    floor = NORMAL.draw(1, scripted(words, 0)).floors[0]
    z = Fraction(int(floor) * 2 + 1, 2**58)
    tie = Fraction(math.floor(z * 256) * 2 + 1, 512)
    value = float(tie - z)
    assert Fraction(value) == tie - z
    noisy = add_noise(value, 1.0, scripted(words, 2**64 - 1 if up else 0))
    assert Fraction(float(noisy)) == tie + Fraction(1 if up else -1, 512)


def scripted(words, ordinary):
    remaining = iter(words)
    return np.random.Generator(UserBitGenerator(lambda _: next(remaining, ordinary), 64))


@pytest.mark.parametrize("scale", [0.01, 1.0, 77.0, 3e9, 2.0**60])
@pytest.mark.parametrize("size", [2**30, 2**60, 2**88])
def test_integers_of_any_size_are_exact(scale, size):
    rng = generator(8)
    values = [
        int(f * size) + int(k)
        for f, k in zip(rng.uniform(-1, 1, 300), rng.integers(0, 2**30, 300), strict=True)
    ]
    reals = NORMAL.draw(300, generator(9))
    for given in (pairs(values), np.array(values, dtype=object), values):
        assert np.array_equal(add_noise(given, scale, generator(9)), expected(values, scale, reals))
    if size <= 2**60:
        noisy = add_noise(np.array(values), scale, generator(9))
        assert np.array_equal(noisy, expected(values, scale, reals))


def test_pairs_need_not_be_normal():
    uneven = Pairs(np.array([5, -5]), np.array([2**40 + 3, -(2**40)]))
    exact = [5 * 2**26 + 2**40 + 3, -5 * 2**26 - 2**40]
    assert np.array_equal(add_noise(uneven, 1.0, generator(1)), add_noise(exact, 1.0, generator(1)))


def test_larger_integers_are_refused():
    with pytest.raises(ValueError, match=r"Expected integers below 2\^89"):
        add_noise([2**90], 1.0, generator(1))


def test_an_offset_is_added_exactly():
    rng = generator(13)
    values, offset = rng.standard_normal((2, 1000)) * [[1e12], [1e3]]
    exact = [Fraction(v) + Fraction(o) for v, o in zip(values, offset, strict=True)]
    noisy = add_noise(values, 0.01, generator(14), offset=offset)
    assert np.array_equal(noisy, expected(exact, 0.01, NORMAL.draw(1000, generator(14))))


def test_shapes_are_kept():
    assert add_noise(3.0, 1.0, generator(1)).shape == ()
    assert add_noise([], 1.0, generator(1)).shape == (0,)
    assert add_noise(np.ones((2, 3, 4)), 1.0, generator(1)).shape == (2, 3, 4)
    # Over several blocks, entries keep their places.
    values = np.arange(3 * 2**16 + 5) * 1000.0
    assert np.max(np.abs(add_noise(values, 1.0, generator(1)) - values)) < 10


def test_noise_repeats_on_every_platform():
    noisy = add_noise(np.arange(10_000) / 7.0, 0.3, generator(10))
    assert (noisy[:2] * 2**10).tolist() == [-293.0, 117.0]
    assert float(np.sum(noisy * 2**10)) == 7313535755.0


# --- The laws ------------------------------------------------------------------------------------


def spread(noisy, scale, seed):
    """Shift releases within their cells, so that they have a density again."""
    return noisy + generator(seed).uniform(-0.5, 0.5, noisy.shape) * grid_spacing(scale)


@SOURCES
@KINDS
def test_added_noise(add, law, seed, level):
    center, scale = 1e3, 0.7
    reference = stats.norm if law is NORMAL else stats.laplace
    noisy = add(np.full((400, 1000), center), scale, generator(seed))
    sample = spread(noisy, scale, 5) - center
    assert accepts_law(sample, reference(scale=scale).cdf, level)
    for wrong in (0.9, 1.1):
        assert not accepts_law(sample, reference(scale=wrong * scale).cdf, NEVER)
        if law is NORMAL:
            assert not accepts_scale(sample, wrong * scale, NEVER)


@pytest.mark.slow
@SOURCES
def test_symmetric_noise(seed, level):
    rng = generator(seed)
    values = np.array([[1.0, 2.0, 3.0], [2.0, 5.0, 6.0], [3.0, 6.0, 9.0]])
    noisy = np.array([add_symmetric_noise(values, 3.0, rng) for _ in range(5000)])
    assert np.array_equal(noisy, np.swapaxes(noisy, 1, 2))
    for i in range(3):
        for j in range(i + 1):
            scale = 3.0 if i == j else 3.0 / math.sqrt(2)
            sample = spread(noisy[:, i, j], scale, 6) - values[i, j]
            assert accepts_law(sample, stats.norm(scale=scale).cdf, level / 6)
            assert accepts_scale(sample, scale, level / 6)
            assert not accepts_scale(sample, 1.2 * scale, NEVER)


def test_symmetric_noise_takes_pairs_and_rounds_its_scale_up():
    matrix = np.array([[2**60 + 1, 7], [7, 2**61]])
    both = [add_symmetric_noise(given, 2.0, generator(1)) for given in (pairs_of(matrix), matrix)]
    assert np.array_equal(*both)
    off_diagonal = 2.0 * math.sqrt(0.5) * (1.0 + 2.0**-50)
    assert 2 * Fraction(off_diagonal) ** 2 >= 4


def test_symmetric_noise_takes_one_matrix():
    matrix = np.arange(600**2).reshape(600, 600)
    pairs = pairs_of(matrix + matrix.T)
    tracemalloc.start()
    add_symmetric_noise(pairs, 2.0, generator(1))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Beside it there are some arrays of a block of 2^16 draws.
    assert most < 8 * (600**2 + 30 * 2**16)


def test_symmetric_noise_is_of_the_upper_triangle_row_by_row():
    above = np.triu_indices(400, 1)
    values = generator(2).integers(-9, 9, (400, 400))
    noisy, rng = add_symmetric_noise(values, 2.0, generator(1)), generator(1)
    off_diagonal = 2.0 * math.sqrt(0.5) * (1.0 + 2.0**-50)
    assert np.array_equal(noisy[above], add_noise(values[above], off_diagonal, rng))
    assert np.array_equal(np.diag(noisy), add_noise(np.diag(values), 2.0, rng))
    assert np.array_equal(noisy, noisy.T)


def pairs_of(matrix):
    return Pairs(matrix >> 26, matrix & (2**26 - 1))


# --- The attack ----------------------------------------------------------------------------------


def test_the_attack_finds_what_doubles_give_away():
    # 0 + noise close to 0 has bits that 1 + noise cannot have.
    rng = generator(11)
    naive = [center + rng.standard_normal(20_000) for center in (0.0, 1.0)]
    assert seen_delta(*naive, epsilon=1.0, level=1e-6) > 0.02
    # Noise that is multiplied reaches a part of the doubles, a different one for each factor. A
    # grid does not help that is far finer than the law is wide.
    scales = (15_500.0, 15_501.0)
    wide = [np.rint(scale * rng.standard_normal(20_000) * 2.0**48) / 2.0**48 for scale in scales]
    looks = [reached(0.0, scale) for scale in scales]
    seen = [seen_delta(*p, epsilon=1.0, level=1e-6, looks=looks) for p in (wide, wide[::-1])]
    assert max(seen) > 0.02


@KINDS
@pytest.mark.parametrize(
    ("values", "scale"), [((0.0, 1.0), 1.0), ((0.1, 0.6), 0.5), ((1e9, 1e9 + 6), 6.0)]
)
def test_no_value_is_possible_under_one_neighbour_only(add, law, values, scale):
    rng = generator(12)
    shift = abs(values[1] - values[0]) / scale

    def draw(neighbour, n):
        return add(np.full(n, values[neighbour]), scale, rng)

    delta = 0.0
    if law is NORMAL:
        delta = stats.norm.cdf(shift / 2 - 1 / shift) - math.e * stats.norm.cdf(
            -shift / 2 - 1 / shift
        )
    looks = [reached(value, scale) for value in values]
    assert survives(draw, epsilon=1.0, delta=delta, looks=looks)
