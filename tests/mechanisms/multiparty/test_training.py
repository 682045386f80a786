"""Models from what the parties released."""

import numpy as np
import pytest

from ndis.mechanisms.multiparty import combine, train
from ndis.mechanisms.multiparty.training import shrink
from parties import agreement, parts, people


def test_with_little_noise_the_model_is_least_squares() -> None:
    table = people(20_000)
    agreed = agreement(20_000, epsilon=3000.0, n_components=2000)
    whole = combine(agreed, parts(agreed, table, random_state=0))
    for label in (2, 0):
        features = [i for i in range(3) if i != label]
        design = np.column_stack([table[:, features], np.ones(len(table))])
        truth = np.linalg.lstsq(design, table[:, label], rcond=None)[0]
        model = train(whole, agreed.columns[label])
        assert model.features == tuple(agreed.columns[i] for i in features)
        np.testing.assert_allclose(model.coef, truth[:2], atol=0.08)
        assert model.intercept == pytest.approx(truth[2], abs=0.15)


def test_shrinking_divides_by_no_small_eigenvalue() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = rng.standard_normal((30, 7))
        noisy = rows.T @ rows / 30
        clean = noisy - np.eye(7)  # eigenvalues on both sides of zero
        assert np.linalg.eigvalsh(clean[:6, :6]).min() < 0
        assert np.linalg.norm(shrink(noisy, clean, 30)) < 2.0
    exact = np.eye(3) / 3
    exact[2, :2] = exact[:2, 2] = [0.1, -0.2]
    np.testing.assert_allclose(shrink(exact, exact, 10**9), [0.3, -0.6], atol=1e-3)
    pure = np.eye(4) + 1e-3 * np.ones((4, 4))
    assert np.linalg.norm(shrink(pure, pure - 0.9 * np.eye(4), 50)) < 0.05


def test_unknown_labels_and_features_are_refused() -> None:
    agreed = agreement(100)
    whole = combine(agreed, parts(agreed, people(100)))
    with pytest.raises(ValueError, match="label"):
        train(whole, "z")
    with pytest.raises(ValueError, match="features"):
        train(whole, "y", ["y"])
    with pytest.raises(ValueError, match="distinct features"):
        train(whole, "y", ["x0", "x0"])
