"""Estimators have scikit-learn's manners, and import it only where it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from ndis import PrivateCovariance, PrivateLeastSquares, PrivateLogisticRegression, PrivatePCA
from ndis.mechanisms.manners import Estimator, require_fitted

ASKED = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
TABLE = np.random.default_rng(0).uniform(-1, 1, (500, 3))


def pca() -> PrivatePCA:
    return PrivatePCA(2, limits=(-1, 1), **ASKED)


class Nested(Estimator):
    def __init__(self, inner: object = None) -> None:
        self.inner = inner


def test_parameters_are_read_set_and_copied() -> None:
    model = PrivateLeastSquares(limits=[(-1, 1)], label_limits=(0, 2), **ASKED)
    assert model.get_params()["limits"] == [(-1, 1)]
    assert model.set_params(epsilon=2.0) is model
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert copied.limits is not model.limits
    nested = Nested(model).set_params(inner__delta=1e-9)
    assert nested.get_params()["inner__delta"] == model.delta == 1e-9
    with pytest.raises(ValueError, match="got 'epsilom'"):
        model.set_params(epsilom=1.0)


def test_what_differs_from_the_defaults_is_shown() -> None:
    shown = repr(PrivateCovariance(epsilon=1.0, delta=1e-6, limits=[(-1.0, 1.0)] * 50))
    assert shown.startswith("PrivateCovariance(delta=1e-06, epsilon=1.0, limits=[(-1.0, 1.0),")
    assert "..." in shown
    assert max(map(len, shown.split("\n"))) < 80


def test_tags_say_what_an_estimator_is() -> None:
    assert is_regressor(PrivateLeastSquares())
    assert is_classifier(PrivateLogisticRegression())
    assert not is_regressor(PrivateCovariance())
    assert not get_tags(PrivateCovariance()).target_tags.required
    assert get_tags(PrivatePCA()).transformer_tags is not None


def test_components_come_in_the_frame_that_was_asked_for() -> None:
    model = pca().set_output(transform="pandas")
    frame = clone(model).fit_transform(TABLE)
    assert list(frame.columns) == ["privatepca0", "privatepca1"]
    plain = pca().fit(TABLE)
    np.testing.assert_array_equal(plain.transform(TABLE), frame.to_numpy())
    with config_context(transform_output="pandas"):
        assert list(plain.transform(TABLE).columns) == list(frame.columns)
    line = make_pipeline(pca()).set_output(transform="pandas")
    assert list(line.fit_transform(TABLE).columns) == list(frame.columns)


def test_nobody_answers_before_a_fit() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        require_fitted(pca())


COMMANDS = {
    "a name": "from ndis import PrivateCovariance, PrivateLeastSquares, PrivateGaussianProcess",
    "help": "from ndis.cli.program import command; command()(['release', '--help'], 'ndis')",
    "release": "from ndis.cli.program import command; command()(['release', 'covariance', "
    "'people.csv', '--epsilon', '1', '--delta', '1e-6', '--limits', 'a=-1:1', '--limits', "
    "'b=-1:1', '--out', 'out.npz'], 'ndis')",
    "summary": "from ndis.cli.program import command; command()(['release', 'summary', "
    "'people.csv', '--epsilon', '1', '--delta', '1e-6', '--limits', 'a=-1:1', '--limits', "
    "'b=-1:1', '--out', 'summary.npz'], 'ndis')",
    "verify": "from ndis.cli.program import command; command()(['verify', 'out.npz'], 'ndis')",
}


def test_what_fits_no_arrays_does_not_import_scikit_learn(tmp_path: Path) -> None:
    rows = "\n".join(f"{a:.3f},{b:.3f}" for a, b in TABLE[:, :2])
    (tmp_path / "people.csv").write_text(f"a,b\n{rows}\n")
    for name, program in COMMANDS.items():
        ended = (
            "import sys\ntry:\n    " + program + "\nexcept SystemExit:\n    pass\n"
            "print(*{'.'.join(n.split('.')[:2]) for n in sys.modules}, file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", ended], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        loaded = set(done.stderr.split("\n")[-2].split())
        assert "ndis.mechanisms" in loaded, name
        heavy = {"sklearn", "matplotlib", "scipy.signal", "scipy.stats"}
        heavy |= {"pandas", "polars", "duckdb"}
        assert heavy.isdisjoint(loaded), (name, heavy & loaded)
    assert (tmp_path / "out.npz").exists()
