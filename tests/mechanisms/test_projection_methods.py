"""Ways to choose the noise of a projection."""

import numpy as np
import pytest

from ndis.mechanisms import projection_methods as methods


@pytest.mark.parametrize(("d", "r"), [(1, 10), (3, 100), (10, 30)])
def test_spectral_error_by_simulation(d, r):
    """Singular values of 2,000 normal matrices."""
    draws = np.random.default_rng(d).standard_normal((2000, d, r))
    values = np.linalg.svd(draws, compute_uv=False) ** 2 / r
    errors, bound = np.abs(values - 1.0).max(axis=1), methods.spectral_error(d, r, 0.05)
    assert np.mean(errors > bound) <= 0.05
    assert np.quantile(errors, 0.95) > 0.2 * bound
