import hashlib
import math

import numpy as np
import pytest
from scipy import stats

from ndis.randomness import generator, sign_product, signs
from samplers import LEVEL, NEVER, accepts_rate

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
    with pytest.raises(ValueError, match=r"Expected data of shape \(any, any\), got shape \(4,\)"):
        sign_product(1, 3, np.ones(4))
