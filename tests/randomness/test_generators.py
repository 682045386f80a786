import copy
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

from ndis.randomness import (
    generator,
    generators,
    is_secure,
    subsample_mask,
)
from ndis.randomness.generators import keyed_generator
from samplers import (
    LEVEL,
    NEVER,
    accepts_gaussian,
    accepts_law,
    accepts_rate,
    accepts_scale,
)

CIPHERS = [generators._SecretAES, generators._SecretChaCha]

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
    bits = generators._SecretChaCha()
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
    assert isinstance(generator(None).bit_generator, generators._Secret)


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
    class Stuck(generators._SecretAES):
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


@pytest.mark.slow
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


# --- Directions --------------------------------------------------------------------------------


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


def test_a_key_decides_a_secret_stream() -> None:
    key, other = bytes(range(32)), bytes(31) + b"\1"
    streams = [keyed_generator(each).bytes(16) for each in (key, key, other)]
    assert streams[0] == streams[1] != streams[2]
    with pytest.raises(TypeError, match="copy or pickle"):
        pickle.dumps(keyed_generator(key))
    with pytest.raises(ValueError, match="32 bytes"):
        keyed_generator(b"short")
