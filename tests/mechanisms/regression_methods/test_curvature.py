"""A noisy Hessian; `tests/mechanisms/test_regression.py` has more of it, in fits."""

import numpy as np

from ndis.mechanisms.regression_methods.curvature import cleaned


def test_eigenvalues_of_noise_alone_are_cleaned_away_and_large_ones_stay() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 40))
    values = np.linalg.eigvalsh((noise + noise.T) / 2)
    assert cleaned(values, 1.0).sum() < 0.3 * np.maximum(values, 0.0).sum()
    spread = np.array([10.0, 1e4, 1e6])
    np.testing.assert_allclose(cleaned(spread, 1.0), spread, rtol=0.03)
