"""Sketches with signs, sparse and uniform matrices, against listings, convolutions and draws."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ndis import QuadraticLoss
from ndis_papers.other_matrices import (
    discrete_delta,
    enumerated_delta,
    sparse_loss,
    uniform_cells,
    uniform_loss,
)

SIGNS = {-1: Fraction(1, 2), 1: Fraction(1, 2)}
SPARSE = {-1: Fraction(1, 6), 0: Fraction(2, 3), 1: Fraction(1, 6)}


@pytest.mark.parametrize("row", [Fraction(1), Fraction(1, 3), Fraction(7, 100)])
def test_signs_tell_whether_a_row_is_there(row: Fraction) -> None:
    assert enumerated_delta([Fraction(2)] * 6, row, 50.0, SIGNS) == discrete_delta(1) == 1.0


def test_sparse_entries_hide_a_row_only_where_they_are_zero() -> None:
    # 1/1000 is no difference of outputs over an entry; 2 is, and hides behind the others.
    rest = [Fraction(2)] * 6
    found = enumerated_delta(rest, Fraction(1, 1000), 50.0, SPARSE)
    assert found == pytest.approx(discrete_delta(1, 2 / 3)) == pytest.approx(1 / 3)
    assert enumerated_delta(rest, Fraction(2), 1.0, SPARSE) < 0.1
    assert discrete_delta(20, 2 / 3) > 0.999


def convolved(weight: float, n_ridge: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points and both densities by a Fourier transform."""
    n, length = 2**18, 80.0
    x = (np.arange(n) - n // 2) * (length / n)
    t = 2 * math.pi * np.fft.fftfreq(n, length / n)
    q = np.sinc(math.sqrt(weight / n_ridge) * t / math.pi) ** n_ridge
    both = (q * np.sinc(t / math.pi), q)
    p_of_x, q_of_x = (np.real(np.fft.fftshift(np.fft.ifft(f))) * n / length for f in both)
    return x, p_of_x, q_of_x


@pytest.mark.parametrize(("weight", "n_ridge"), [(30.0, 20), (5.0, 8)])
def test_cells_bound_the_loss_and_delta_of_uniform_entries(weight: float, n_ridge: int) -> None:
    cells = uniform_cells(weight, n_ridge)
    x, p, q = convolved(weight, n_ridge)
    near = np.abs(x) < 3 * math.sqrt(weight / 3)
    cell = (np.abs(x[near]) * 64).astype(int)
    loss = np.log(p[near] / q[near])
    assert np.all(loss <= cells.most[cell] + 1e-9)
    assert np.all(loss >= cells.least[cell] - 1e-9)
    step = x[1] - x[0]
    for epsilon in (0.0, 0.05, 0.2):
        here = np.array([epsilon])
        for bound, first, second in ((cells.present, p, q), (cells.absent, q, p)):
            true = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * step)
            found = float(bound(here)[0])
            assert true - 1e-9 <= found <= 1.02 * true + 1e-5


def test_masses_add_up() -> None:
    cells = uniform_cells(12.0, 6)
    assert cells.p.sum() + cells.beyond == pytest.approx(1, abs=1e-12)
    assert cells.q.sum() + cells.last == pytest.approx(1, abs=1e-12)
    # Where the public rows end, the row is seen: half its entries point outwards.
    assert 0 < cells.beyond < 1e-3


@pytest.mark.slow
def test_uniform_entries_track_normal_ones_and_draws_agree() -> None:
    weight, n_ridge, r, epsilon = 20.0, 20, 20, 0.5
    total = r * uniform_loss(weight, n_ridge, step=2.0**-8)
    bound = float(total.delta(epsilon))
    normal = float(QuadraticLoss.from_leverage(1 / (1 + weight), r).delta(epsilon))
    assert 1 < bound / normal < 10
    rng, cells = np.random.default_rng(0), uniform_cells(weight, n_ridge)
    h, runs = math.sqrt(weight / n_ridge), 40_000
    losses = np.zeros(runs)
    for _ in range(r):
        x = h * rng.uniform(-1, 1, (runs, n_ridge)).sum(axis=1) + rng.uniform(-1, 1, runs)
        losses += cells.least[np.minimum((np.abs(x) * 64).astype(int), cells.least.size - 1)]
    hinges = -np.expm1(np.minimum(epsilon - losses, 0.0))
    error = 4.5 * hinges.std() / math.sqrt(runs)
    assert hinges.mean() - error <= bound <= 1.1 * (hinges.mean() + error)


def test_sparse_normal_entries_beside_dense_noise_are_a_sample_of_components() -> None:
    rate, leverage, epsilon = 0.3, 0.2, 0.2
    found = float(sparse_loss(leverage, rate).delta(epsilon))
    # (1-q) Q + q P against Q, for variances 1 and 1 - p, by a sum over points.
    x = np.linspace(-12, 12, 200_001)
    wide, narrow = (
        np.exp(-(x**2) / (2 * v)) / math.sqrt(2 * math.pi * v) for v in (1.0, 1.0 - leverage)
    )
    mixed = rate * wide + (1 - rate) * narrow
    step = x[1] - x[0]
    true = max(
        float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * step)
        for a, b in ((mixed, narrow), (narrow, mixed))
    )
    assert true - 1e-9 <= found <= 1.001 * true
