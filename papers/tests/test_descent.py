"""Private descent on losses of one's own; with torch where it is installed."""

import builtins

import numpy as np
import pytest

from ndis.auditing import sampled_curve
from ndis_papers.descent import _clipped_sum, of_torch, private_descent
from ndis_papers.reproduce.black_box import CardNetwork
from ndis_papers.reproduce.private_sgd import softmax_gradients


@pytest.mark.slow
def test_gradients_of_a_torch_model_are_those_of_the_formula() -> None:
    """A softmax regression by torch against the one written down, row by row."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(50, 4)), rng.integers(0, 10, 50)
    model = torch.nn.Linear(4, 10).double()
    loss = torch.nn.CrossEntropyLoss(reduction="sum")
    gradients, start = of_torch(model, loss, torch.as_tensor(x), torch.as_tensor(y))
    assert start.size == 50
    weights, bias = rng.standard_normal((4, 10)), rng.standard_normal(10)
    rows = np.array([3, 7, 8, 41])
    found = np.asarray(gradients(np.concatenate([weights.T.reshape(-1), bias]), rows))
    known = softmax_gradients(np.vstack([weights, bias]).reshape(-1), x[rows], y[rows])
    known = known.reshape(len(rows), 5, 10)
    assert np.allclose(found[:, :40], known[:, :4].transpose(0, 2, 1).reshape(len(rows), -1))
    assert np.allclose(found[:, 40:], known[:, 4])
    assert gradients(start, np.array([], dtype=int)).shape == (0, 50)
    trained = private_descent(
        gradients, start, 50, rate=0.5, steps=20, noise=0.1, learning_rate=1.0, rng=rng
    )
    assert np.isfinite(trained).all()
    assert not np.allclose(trained, start)


def test_clipping_is_the_same_wherever_gradients_are() -> None:
    torch = pytest.importorskip("torch")
    each = np.random.default_rng(1).standard_normal((6, 4)) * np.geomspace(0.01, 100, 6)[:, None]
    assert np.allclose(_clipped_sum(each, 0.5), _clipped_sum(torch.as_tensor(each), 0.5))
    assert np.linalg.norm(_clipped_sum(each[-1:], 0.5)) == pytest.approx(0.5)


def test_a_layer_that_mixes_rows_is_refused() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    loss = torch.nn.CrossEntropyLoss(reduction="sum")
    gradients, start = of_torch(model, loss, torch.zeros(2, 4), torch.zeros(2, dtype=torch.long))
    with pytest.raises((RuntimeError, ValueError)):
        gradients(start, np.array([0, 1]))


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *words, **others):
        if name.startswith("torch"):
            raise ImportError(name)
        return real(name, *words, **others)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match="pip install torch"):
        of_torch(None, None, None, None)


@pytest.mark.slow
def test_the_perceptron_of_torch_learns_what_scikit_learns_does() -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((4000, 2)), np.repeat([0, 1], 2000)
    X[y == 1] += 1.0
    network = CardNetwork("cpu", epochs=20, batch=256).fit(X[::2], y[::2])
    chances = network.predict_proba(X[1::2])
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.mean((chances[:, 1] > 0.5) == y[1::2]) > 0.74  # the best possible is 0.76
    curve = sampled_curve(X[y == 1], X[y == 0], [0.0], classifier=CardNetwork("cpu", 20, 256))
    assert 0.4 < curve.estimate[0] < 0.6  # 2 Phi(1/sqrt 2) - 1 = 0.52
