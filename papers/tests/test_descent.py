"""Private descent on losses of one's own; with Opacus where it is installed."""

import builtins

import numpy as np
import pytest

from ndis_papers.descent import of_torch, private_descent
from ndis_papers.reproduce.private_sgd import softmax_gradients


def test_gradients_of_a_torch_model_are_those_of_the_formula() -> None:
    """A softmax regression by torch and Opacus against the one written down, row by row."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("opacus")
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(50, 4)), rng.integers(0, 10, 50)
    model = torch.nn.Linear(4, 10).double()
    loss = torch.nn.CrossEntropyLoss(reduction="sum")
    gradients, start = of_torch(model, loss, torch.as_tensor(x), torch.as_tensor(y))
    assert start.size == 50
    weights, bias = rng.standard_normal((4, 10)), rng.standard_normal(10)
    rows = np.array([3, 7, 8, 41])
    found = gradients(np.concatenate([weights.T.reshape(-1), bias]), rows)
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


def test_what_opacus_cannot_take_apart_is_refused() -> None:
    torch = pytest.importorskip("torch")
    validators = pytest.importorskip("opacus.validators")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    with pytest.raises(validators.errors.UnsupportedModuleError):
        of_torch(model, None, torch.zeros(2, 4), torch.zeros(2))


def test_without_opacus_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *words, **others):
        if name.startswith("opacus"):
            raise ImportError(name)
        return real(name, *words, **others)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match="pip install opacus"):
        of_torch(None, None, None, None)
