"""The estimates of `Spectrum` against the matrix that the noise hides."""

import subprocess
import sys

import numpy as np
import pytest

from ndis.mechanisms.spectrum import Spectrum, debiased, eigenvectors


def noisy(matrix, scale: float, seed: int):
    """As `add_symmetric_noise` does it, only faster: 1 on the diagonal, sqrt(1/2) off it."""
    z = np.random.default_rng(seed).standard_normal(np.shape(matrix))
    return matrix + 0.5 * scale * (z + z.T)


def along(matrix, vectors):
    """u_i^T A u_i."""
    return np.einsum("ji,jk,ki->i", vectors, matrix, vectors)


@pytest.mark.parametrize(
    "truth", [[0.0, 6.0, 14.0, 30.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 20.0], [5.0, 5.0, 5.0, 40.0]]
)
def test_estimates_are_without_bias_where_eigenvalues_are_apart(truth) -> None:
    matrix, scale = np.diag(truth), 1.0
    errors = []
    for seed in range(3000):
        spectrum = Spectrum(noisy(matrix, scale, seed), scale)
        estimate = debiased(spectrum.noisy_values, spectrum.variance)
        raw = spectrum.noisy_values - along(matrix, spectrum.vectors)
        errors.append([(estimate - along(matrix, spectrum.vectors))[-1], raw[-1]])
    bias, raw_bias = np.mean(errors, axis=0)
    error = np.std(errors, axis=0)[0] / np.sqrt(3000)
    assert abs(bias) < 4 * error
    assert raw_bias > 4 * error  # the eigenvalue itself is too large


def test_the_bias_of_an_eigenvalue_is_steins_sum() -> None:
    """Route two: the noise along a noisy eigenvector, and the gaps' reciprocals, both measured."""
    matrix, scale = np.diag([0.0, 8.0, 20.0]), 1.0
    noise_along, sums = [], []
    for seed in range(4000):
        noise = noisy(np.zeros((3, 3)), scale, seed)
        values, vectors = np.linalg.eigh(matrix + noise)
        noise_along.append(along(noise, vectors))
        gaps = values[:, None] - values + np.diag(np.full(3, np.inf))
        sums.append(scale**2 * np.sum(1.0 / gaps, axis=1))
    difference = np.subtract(noise_along, sums)
    error = np.std(difference, axis=0) / np.sqrt(len(sums))
    assert np.all(np.abs(np.mean(difference, axis=0)) < 4 * error)
    assert np.mean(noise_along, axis=0)[-1] > 4 * error[-1]


def test_noise_alone_leaves_little() -> None:
    d, scale = 40, 3.0
    left = [Spectrum(noisy(np.zeros((d, d)), scale, seed), scale) for seed in range(20)]
    assert np.mean([s.noisy_values[-1] for s in left]) > 7 * scale
    assert np.mean([s.values[-1] for s in left]) < scale
    assert all(np.all(s.values >= 0) for s in left)


def test_a_matrix_far_above_the_noise_is_kept() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1000, 6)) * [1, 2, 3, 4, 5, 6]
    matrix = rows.T @ rows
    spectrum = Spectrum(noisy(matrix, 0.01, 1), 0.01)
    np.testing.assert_allclose(spectrum.matrix, matrix, atol=0.05)
    np.testing.assert_allclose(spectrum.values, spectrum.noisy_values, rtol=1e-5)


def test_better_than_projecting_onto_positive_matrices() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((200, 30)) * np.where(np.arange(30) < 4, 1.0, 0.1)
    matrix, scale = rows.T @ rows, 15.0
    errors = []
    for seed in range(10):
        released = noisy(matrix, scale, seed)
        values, vectors = np.linalg.eigh(released)
        projected = (vectors * np.maximum(values, 0)) @ vectors.T
        ours = Spectrum(released, scale).matrix
        errors.append([np.linalg.norm(x - matrix) for x in (released, projected, ours)])
    raw, projected, ours = np.mean(errors, axis=0)
    assert ours < 0.8 * projected < 0.8 * raw


@pytest.mark.parametrize("scale", [2.0, 10.0])
def test_what_is_left_off_the_diagonal(scale) -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((500, 25)) * np.geomspace(0.05, 2.0, 25)
    matrix = rows.T @ rows
    found, said = [], []
    for seed in range(10):
        spectrum = Spectrum(noisy(matrix, scale, seed), scale)
        seen = spectrum.vectors.T @ matrix @ spectrum.vectors
        found.append(np.sum(seen**2) - np.sum(np.diag(seen) ** 2))
        said.append(np.sum(spectrum.mixing))
    assert 0.6 < np.mean(said) / np.mean(found) < 3.0


def test_units_do_not_matter() -> None:
    released = noisy(np.diag([1.0, 5.0, 9.0]), 1.0, 3)
    one, other = Spectrum(released, 1.0), Spectrum(released * 2.0**40, 2.0**40)
    np.testing.assert_allclose(other.values, one.values * 2.0**40, rtol=1e-12)
    np.testing.assert_allclose(other.mixing, one.mixing * 2.0**80, rtol=1e-12)


def test_a_known_mean_keeps_noise_from_making_large_values() -> None:
    """Six directions that are alike and drown in noise: the largest value was 6 times too large."""
    matrix, scale = 40.0 * np.eye(6), 190.0
    blind, told = [], []
    for seed in range(200):
        seen = noisy(matrix, scale, seed)
        blind.append(Spectrum(seen, scale).values[-1])
        told.append(Spectrum(seen, scale, known=(40.0, 15.0)).values)
    assert np.quantile(blind, 0.9) > 250.0
    assert np.quantile(np.array(told)[:, -1], 0.9) < 130.0
    assert 30.0 < np.mean(told) < 50.0


def test_a_known_mean_leaves_alone_what_is_seen_clearly() -> None:
    seen = noisy(np.diag([0.0, 10.0, 500.0]), 1.0, 3)
    told = Spectrum(seen, 1.0, known=(170.0, 50.0))
    assert told.values == pytest.approx(Spectrum(seen, 1.0).values, rel=0.01, abs=1.0)


def test_eigenvectors_are_numpys_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    for d in (1, 2, 7, 60):
        rows = rng.standard_normal((d, d))
        matrix = rows @ rows.T
        matrix[0] += 1e-9  # of both triangles numpy reads the lower one
        values, vectors = np.linalg.eigh(matrix)
        own = matrix.copy()
        found = eigenvectors(own)
        assert np.array_equal(found[0], values)
        assert np.array_equal(found[1], vectors)
        assert np.shares_memory(found[1], own)


def test_eigenvalues_that_noise_hardly_moves_need_no_optimisers() -> None:
    """To import these takes a seventh of a command that releases a small covariance."""
    code = (
        "import sys, numpy as np\n"
        "from ndis.mechanisms.spectrum import Spectrum\n"
        "one = Spectrum(np.diag([1.0, 9.0, 100.0]), noise_scale=0.1).values.tolist()\n"
        "assert 'scipy.optimize' not in sys.modules and one == sorted(one)\n"
        "many = Spectrum(np.diag([0, 1, 5, 5.1, 20, 21.0]), noise_scale=2.0).values.tolist()\n"
        "assert 'scipy.optimize' in sys.modules and many == sorted(many)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
