import copy
import hashlib
import math
import os
import pickle
import threading
from multiprocessing import Pipe, get_context

import numpy as np
import pytest
from randomgen import AESCounter
from randomgen.wrapper import UserBitGenerator
from scipy import stats

from ndis import randomness
from ndis.randomness import (
    GRID_BITS,
    add_noise,
    directions,
    generator,
    grid_spacing,
    is_secure,
    round_to_grid,
    sign_product,
    signs,
    subsample_mask,
)
from samplers import (
    LEVEL,
    NEVER,
    accepts_gaussian,
    accepts_law,
    accepts_rate,
    accepts_scale,
    accepts_sphere,
)

CIPHERS = [randomness._SecretAES, randomness._SecretChaCha]

# Every sampler is tested with a seed, and with the secure generator at a level never reached.
SOURCES = pytest.mark.parametrize(("seed", "level"), [(20240607, LEVEL), (None, NEVER)])


# --- The ciphers -----------------------------------------------------------------------------


def stream(bits, n_bytes):
    return bits.random_raw(n_bytes // 8).astype("<u8").tobytes()


def test_aes_is_the_full_cipher():
    # FIPS 197, appendix C.1: the counter is the plaintext.
    key, plain = bytes(range(16)), bytes(17 * i for i in range(16))
    bits = AESCounter(key=int.from_bytes(key, "little"), counter=int.from_bytes(plain, "little"))
    assert stream(bits, 16) == bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a")


def test_chacha_is_the_full_cipher():
    # draft-agl-tls-chacha20poly1305, section 7, second vector: key 0...01, nonce and counter 0.
    bits = randomness._SecretChaCha()
    bits.seed(key=1 << 248)
    assert stream(bits, 64) == bytes.fromhex(
        "4540f05a9f1fb296d7736e7b208e3c96eb4fe1834688d2604f450952ed432d41"
        "bbe2a0b6ea7566d2a5d1e7e20d42af2c53d792b1c43fea817e9ad275ae546963"
    )


@pytest.mark.parametrize("cipher", CIPHERS)
def test_every_bit_of_the_key_is_random(cipher):
    n_keys, width = 1000, 8 * cipher.key_bytes
    keys = np.array([key_of(cipher()) for _ in range(n_keys)])
    bits = np.unpackbits(keys, axis=1)
    assert bits.shape == (n_keys, width)
    assert len(np.unique(keys, axis=0)) == n_keys
    assert all(accepts_rate(k, n_keys, 0.5, NEVER / width) for k in bits.sum(axis=0))


def key_of(bits):
    state = bits.state
    words = state["s"]["seed"][:2] if "s" in state else state["state"]["keysetup"]
    return np.frombuffer(np.ascontiguousarray(words).tobytes(), dtype=np.uint8)


def test_the_secure_generator_runs_on_a_secret_cipher():
    assert isinstance(generator().bit_generator, tuple(CIPHERS))
    assert isinstance(generator(None).bit_generator, randomness._Secret)


# --- Who may share a stream: nobody ------------------------------------------------------------


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.deepcopy])
def test_a_secret_generator_cannot_be_duplicated(cipher, duplicate):
    rng = np.random.Generator(cipher())
    for held in (rng, rng.bit_generator):
        with pytest.raises(TypeError, match="copy or pickle a secret one"):
            duplicate(held)


def test_calls_do_not_share_a_stream():
    draws = np.concatenate([generator().integers(0, 2**63, 4) for _ in range(1000)])
    assert len(np.unique(draws)) == draws.size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("cipher", CIPHERS)
def test_forks_do_not_share_a_stream(cipher):
    held = np.random.Generator(cipher())
    held.standard_normal(3)  # leaves half-used buffers behind
    held.integers(0, 2**32, dtype=np.uint32)

    def report(pipe):
        fresh = generator().integers(0, 2**63, 50)
        pipe.send(np.concatenate([held.integers(0, 2**63, 50), fresh]))

    fork, draws = get_context("fork"), []
    for _ in range(4):
        here, there = Pipe()
        child = fork.Process(target=report, args=(there,))
        child.start()
        draws.append(here.recv())
        child.join()
        assert child.exitcode == 0
    draws.append(held.integers(0, 2**63, 50))
    together = np.concatenate(draws)
    assert len(np.unique(together)) == together.size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_fork_test_would_notice_a_shared_stream():
    held = generator(3)
    here, there = Pipe()

    child = get_context("fork").Process(target=lambda: there.send(held.integers(0, 2**63, 50)))
    child.start()
    theirs = here.recv()
    child.join()
    assert np.array_equal(theirs, held.integers(0, 2**63, 50))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_without_a_new_key_does_not_live():
    class Stuck(randomness._SecretAES):
        def rekey(self):
            raise OSError("no entropy")

    held = Stuck()
    child = get_context("fork").Process(target=held.random_raw)
    child.start()
    child.join()
    assert child.exitcode == 1


def test_threads_do_not_share_a_stream():
    shared, draws = generator(), []

    def work():
        own = generator()
        for _ in range(50):
            draws.append(own.integers(0, 2**63, 200))
            draws.append(shared.integers(0, 2**63, 200))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = np.concatenate(draws)
    assert together.size == 8 * 50 * 2 * 200
    assert len(np.unique(together)) == together.size


# --- Reproducible generators -------------------------------------------------------------------


def test_random_state_repeats():
    sequence = np.random.SeedSequence(5)
    for state in (5, np.int64(5), sequence):
        assert np.array_equal(generator(state).random(5), generator(5).random(5))
    given = np.random.Generator(np.random.PCG64(1))
    assert generator(given) is given


def test_only_none_is_secure():
    assert is_secure(None)
    for state in (0, np.random.SeedSequence(5), generator(5), generator()):
        assert not is_secure(state)


@pytest.mark.parametrize("state", ["7", 7.0, True, np.random.RandomState(7)])
def test_other_random_states_are_refused(state):
    with pytest.raises(TypeError, match="Expected random_state to be an integer, got"):
        generator(state)


def test_negative_seed_is_refused():
    with pytest.raises(ValueError, match="Expected random_state >= 0, got random_state=-1"):
        generator(-1)


# --- The size and the power of the tests themselves ---------------------------------------------


def test_helpers_reject_as_often_as_they_say():
    rng, level, n_trials = generator(11), 0.05, 400
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    rejections = dict.fromkeys(["law", "scale", "rate"], 0)
    for _ in range(n_trials):
        sample = rng.standard_normal(200)
        rejections["law"] += not accepts_law(sample, stats.norm.cdf, level)
        rejections["scale"] += not accepts_scale(3 * sample, 3.0, level)
        rejections["rate"] += not accepts_rate(rng.binomial(10_000, 0.3), 10_000, 0.3, level)
    for count in rejections.values():
        assert accepts_rate(count, n_trials, level, LEVEL)

    # Bonferroni: at most the level.
    joint = sum(
        not accepts_gaussian(rng.multivariate_normal([1.0, 2.0], cov, 100), [1.0, 2.0], cov, level)
        for _ in range(n_trials)
    )
    assert joint <= stats.binom.isf(LEVEL, n_trials, level)


def test_accepts_gaussian_has_power_in_mean_scale_and_correlation():
    rng = generator(12)
    mean, cov = np.array([1.0, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    sample = rng.multivariate_normal(mean, cov, 20_000)
    assert accepts_gaussian(sample, mean, cov, LEVEL)
    assert not accepts_gaussian(sample, mean + np.array([0.0, 0.1]), cov, NEVER)
    assert not accepts_gaussian(sample, mean, 1.21 * cov, NEVER)
    assert not accepts_gaussian(sample, mean, np.array([[2.0, 0.3], [0.3, 1.0]]), NEVER)


# --- Normals -----------------------------------------------------------------------------------


@SOURCES
def test_normals(seed, level):
    sample = generator(seed).standard_normal(200_000)
    assert accepts_law(sample, stats.norm.cdf, level)
    assert accepts_scale(sample, 1.0, level)
    for wrong in (0.9, 1.1):
        assert not accepts_law(sample, stats.norm(scale=wrong).cdf, NEVER)
        assert not accepts_scale(sample, wrong, NEVER)


@SOURCES
def test_tail_of_normals(seed, level):
    sample = generator(seed).standard_normal(4_000_000)
    beyond = np.count_nonzero(np.abs(sample) > 4)
    assert accepts_rate(beyond, sample.size, 2 * stats.norm.sf(4), level)
    for wrong in (0.9, 1.1):
        assert not accepts_rate(beyond, sample.size, 2 * stats.norm.sf(4 / wrong), NEVER)


@SOURCES
def test_neighbouring_normals_are_independent(seed, level):
    pairs = generator(seed).standard_normal((100_000, 2))
    assert accepts_gaussian(pairs, np.zeros(2), np.eye(2), level)
    assert not accepts_gaussian(pairs, np.zeros(2), np.array([[1.0, 0.1], [0.1, 1.0]]), NEVER)


def normal_from(words):
    """Return numpy's normal for these raw 64-bit words, and how many it used."""
    remaining, used = iter(words), []

    def next_word(_):
        used.append(next(remaining, 1 << 40))  # the ordinary word ends any retry
        return used[-1]

    draw = np.random.Generator(UserBitGenerator(next_word, 64)).standard_normal()
    return draw, len(used)


def test_what_numpy_normals_can_be():
    # docs/threat-model.md quotes these figures. The first word is: 8 bits of layer, a sign bit,
    # 52 bits of place within the layer, and three unused bits.
    spacings = [normal_from([1 << 9 | layer])[0] * 2**52 for layer in range(256)]
    assert round(min(spacings), 3) == 0.215
    assert round(max(spacings), 3) == 3.911

    # The tail: 1 - U = k 2^-53 in the first uniform, the least possible in the second.
    def tail(k):
        return normal_from([(2**52 - 1) << 9, (2**53 - k) << 11, 2**64 - 1])

    k = next(k for k in range(1, 1000) if tail(k)[1] == 3)
    largest, next_largest = abs(tail(k)[0]), abs(tail(k + 1)[0])
    assert round(largest, 4) == 12.2254
    assert round(largest - next_largest, 4) == 0.0012
    assert 2 * stats.norm.sf(largest) < 2.3e-34
    assert stats.norm.sf(largest - 1) < 1.6e-29


# --- The grid ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-300, 0.3, 1.0, math.nextafter(2.0, 0), 2.0, 5e300])
def test_grid_spacing_is_a_power_of_two_just_below_the_scale(scale):
    spacing = grid_spacing(scale)
    assert math.frexp(spacing)[0] == 0.5
    assert spacing * 2**GRID_BITS <= scale < 2 * spacing * 2**GRID_BITS


def test_rounding_lands_on_the_nearest_point():
    values = generator(1).standard_normal(10_000) * 10.0 ** generator(2).uniform(-9, 9, 10_000)
    spacing = grid_spacing(0.7)
    rounded = round_to_grid(values, 0.7)
    assert np.all(np.fmod(rounded, spacing) == 0)
    assert np.max(np.abs(rounded - values)) <= spacing / 2
    assert np.array_equal(round_to_grid(rounded, 0.7), rounded)


def test_grid_depends_on_the_scale_and_not_on_the_data():
    rng = generator(3)
    small, large = rng.normal(0, 1, 1000), rng.normal(1e6, 1, 1000)
    for values in (small, large):
        assert np.all(np.fmod(round_to_grid(values, 1.0), grid_spacing(1.0)) == 0)
    assert np.any(np.fmod(round_to_grid(small, 0.5), grid_spacing(1.0)) != 0)


def test_rounding_blunts_the_low_order_bits():
    # A release close to 0 that has bits below 2^-53 cannot be 1 + noise: doubles near -1 do not
    # have such bits. So without rounding one small release tells 0 from 1 for certain.
    def has_fine_bits(values):
        small = values[np.abs(values) < 0.1]
        return np.mean(np.fmod(small * 2.0**53, 1) != 0)

    noise = generator(4).standard_normal(100_000)
    assert has_fine_bits(0 + noise) > 0.8
    assert has_fine_bits(1 + noise) == 0
    assert has_fine_bits(round_to_grid(0 + noise, 1.0)) == 0
    assert has_fine_bits(round_to_grid(1 + noise, 1.0)) == 0


def test_zero_carries_no_sign():
    assert not np.any(np.signbit(round_to_grid([-0.0, -1e-9, 1e-9], 1.0)))


def test_rounding_at_the_edges_of_the_doubles():
    values = np.array([1.7e308, -1.7e308, 3e-310])
    assert np.array_equal(round_to_grid(values, 1e-300), [1.7e308, -1.7e308, 0.0])
    with pytest.raises(ValueError, match="Expected values that stay finite on the release grid"):
        round_to_grid(np.finfo(float).max, 1e308)
    with pytest.raises(ValueError, match=r"Expected scale large enough .* got scale=1e-305"):
        round_to_grid(1.0, 1e-305)
    with pytest.raises(ValueError, match="Expected values to be finite"):
        round_to_grid([1.0, math.nan], 1.0)
    for scale in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="Expected scale"):
            round_to_grid(1.0, scale)


@SOURCES
def test_added_noise(seed, level):
    centre, scale = 1e3, 0.7
    noise = add_noise(np.full((400, 500), centre), scale, generator(seed)) - centre
    assert noise.shape == (400, 500)
    # Rounding moves nothing that a test of this size can see: shift a draw within its cell.
    within = generator(5).uniform(-0.5, 0.5, noise.shape) * grid_spacing(scale)
    assert accepts_scale(noise + within, scale, level)
    assert accepts_law(noise + within, stats.norm(scale=scale).cdf, level)
    for wrong in (0.9, 1.1):
        assert not accepts_scale(noise, wrong * scale, NEVER)


# --- Directions --------------------------------------------------------------------------------


@SOURCES
@pytest.mark.parametrize("dimension", [2, 3, 10])
def test_directions(seed, level, dimension):
    points = directions(100_000, dimension, generator(seed))
    assert np.allclose(np.linalg.norm(points, axis=1), 1, atol=1e-14)
    axes = np.vstack([np.eye(dimension), generator(6).standard_normal((5, dimension))])
    assert accepts_sphere(points, axes, level)

    stretched = generator(7).standard_normal(points.shape) * np.r_[1.1, np.ones(dimension - 1)]
    stretched /= np.linalg.norm(stretched, axis=1, keepdims=True)
    assert not accepts_sphere(stretched, axes, NEVER)


@SOURCES
def test_directions_on_a_line_are_signs(seed, level):
    points = directions(100_000, 1, generator(seed))
    assert set(np.unique(points)) == {-1.0, 1.0}
    ups = np.count_nonzero(points > 0)
    assert accepts_rate(ups, points.size, 0.5, level)
    assert not accepts_rate(ups, points.size, 0.55, NEVER)


def test_directions_redraw_the_zero_vector():
    words = iter([0, 0, 0, 1 << 40, 1 << 40])  # a zero normal is the word 0
    rng = np.random.Generator(UserBitGenerator(lambda _: next(words, 1 << 40), 64))
    assert np.array_equal(directions(2, 1, rng), [[1.0], [1.0]])


# --- Subsamples --------------------------------------------------------------------------------


@SOURCES
@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
def test_subsample_mask(seed, level, rate):
    n_rows = 4_000_000
    mask = subsample_mask(n_rows, rate, generator(seed))
    assert accepts_rate(np.count_nonzero(mask), n_rows, rate, level)
    assert not accepts_rate(np.count_nonzero(mask), n_rows, 1.1 * rate, NEVER)
    both = np.count_nonzero(mask[::2] & mask[1::2])
    assert accepts_rate(both, n_rows // 2, rate**2, level)


@pytest.mark.parametrize("rate", [0.3, 2.0**-64, 2.0**-70, 1e-18])
def test_subsample_rate_is_exact(rate):
    # The row is in if and only if the 128 random bits, read as a binary fraction, are < rate.
    threshold = math.ldexp(rate, 128)
    assert threshold == int(threshold)
    for offset in (-1, 0, 1):
        fraction = int(threshold) + offset
        words = iter([fraction >> 64, fraction & (2**64 - 1)])
        rng = np.random.Generator(UserBitGenerator(lambda _, w=words: next(w, 0), 64))
        assert subsample_mask(1, rate, rng)[0] == (fraction < threshold)


def test_subsample_extremes():
    assert not subsample_mask(1000, 0.0, generator(1)).any()
    assert subsample_mask(1000, 1.0, generator(1)).all()
    assert subsample_mask(0, 0.5, generator(1)).shape == (0,)
    with pytest.raises(ValueError, match=r"got rate=1\.5"):
        subsample_mask(10, 1.5, generator(1))


# --- The public sign matrix ----------------------------------------------------------------------


def philox(key, counter):
    """Philox4x64-10, written from the paper, in integers."""
    mask = 2**64 - 1
    x = [counter >> 64 * i & mask for i in range(4)]
    k = [key & mask, key >> 64 & mask]
    for _ in range(10):
        a, b = x[0] * 0xD2E7470EE14C6C93, x[2] * 0xCA5A826395121157
        x = [b >> 64 ^ x[1] ^ k[0], b & mask, a >> 64 ^ x[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
    return x


def sign(seed, row, column, n_columns):
    """One entry, by the layout that the docstring of `signs` describes."""
    word = row * math.ceil(n_columns / 64) + column // 64
    block, place = divmod(word, 4)
    return -1 if philox(seed, block + 1)[place] >> column % 64 & 1 else 1


def test_philox_known_answer():
    # Random123's kat_vectors, philox4x64, 10 rounds, zero counter and key.
    assert philox(0, 0) == [
        0x16554D9ECA36314C,
        0xDB20FE9D672D0FDC,
        0xD7E772CEE186176B,
        0x7E68B68AEC7BA23B,
    ]


@pytest.mark.parametrize("n_columns", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("row_start", [0, 7, 2**70 + 3])
def test_signs_follow_the_documented_layout(n_columns, row_start):
    seed = 0x0123456789ABCDEF_FEDCBA9876543210
    block = signs(seed, row_start, row_start + 5, n_columns)
    assert block.shape == (5, n_columns)
    assert block.dtype == np.int8
    expected = [
        [sign(seed, row_start + i, j, n_columns) for j in range(n_columns)] for i in range(5)
    ]
    assert np.array_equal(block, expected)


def test_the_bits_of_the_sign_matrix_are_pinned():
    digest = hashlib.sha256(signs(2024, 0, 1000, 1000).tobytes()).hexdigest()
    assert digest == "65fc8915f927db653498f9417d7704292d1fdb5220c92447b64713f1f1d60420"


def test_signs_come_in_any_blocks():
    whole = signs(5, 0, 100, 70)
    parts = [signs(5, a, b, 70) for a, b in [(0, 1), (1, 2), (2, 50), (50, 50), (50, 100)]]
    assert np.array_equal(np.vstack(parts), whole)


@pytest.mark.parametrize("seed", [0, 1, 2**127 + 9])
def test_signs_are_fair_and_independent(seed):
    matrix = signs(seed, 0, 20_000, 50)
    minus = np.count_nonzero(matrix < 0)
    assert accepts_rate(minus, matrix.size, 0.5, LEVEL)
    assert not accepts_rate(minus, matrix.size, 0.55, NEVER)
    for product in (matrix[1:] * matrix[:-1], matrix[:, 1:] * matrix[:, :-1]):
        agreements = np.count_nonzero(product > 0)
        assert accepts_rate(agreements, product.size, 0.5, LEVEL)
        assert not accepts_rate(agreements, product.size, 0.55, NEVER)
    balance = matrix.sum(axis=0) / np.sqrt(len(matrix))
    assert np.max(np.abs(balance)) < stats.norm.isf(LEVEL / 100)


@pytest.mark.parametrize(("n_rows", "n_components"), [(1, 1), (500, 3000), (5000, 100)])
def test_sign_product(n_rows, n_components):
    data = generator(8).standard_normal((n_rows, 4))
    product = sign_product(9, n_components, data)
    direct = signs(9, 0, n_rows, n_components).T.astype(float) @ data
    assert product.shape == (n_components, 4)
    assert np.allclose(product, direct, rtol=0, atol=1e-11)
    half = n_rows // 2
    first = sign_product(9, n_components, data[:half])
    second = sign_product(9, n_components, data[half:], row_start=half)
    assert np.allclose(first + second, direct, rtol=0, atol=1e-11)


def test_bad_sign_arguments():
    with pytest.raises(ValueError, match=r"Expected seed < 2\*\*128"):
        signs(2**128, 0, 1, 1)
    with pytest.raises(ValueError, match="Expected row_stop >= 3, got row_stop=2"):
        signs(1, 3, 2, 1)
    with pytest.raises(ValueError, match="Expected n_columns >= 1"):
        signs(1, 0, 1, 0)
    with pytest.raises(ValueError, match="Expected data to have 2 dimension"):
        sign_product(1, 3, np.ones(4))
