"""The fixture for other people's tests."""

import importlib
import tomllib
from pathlib import Path

import pytest

CODE = """
    import numpy as np

    def noisy_sum(data, rng):
        return np.sum(data) + rng.normal(scale=5.0)

    def test_sound(replay):
        declared = {"noise_scale": 5.0, "sensitivity": 1.0}
        assert 0 < replay(noisy_sum, [1.0, 0.5], [1.0], (1.0, 1e-6), **declared).delta < 1e-6

    def test_too_large(replay):
        replay(noisy_sum, [1.0, 30.0], [1.0], (1.0, 1e-6), noise_scale=5.0)

    def test_more_than_declared(replay):
        replay(noisy_sum, [1.0, 0.5], [1.0], (1.0, 1e-6), noise_scale=5.0, sensitivity=0.4)

    def test_other_noise(replay):
        peeking = lambda data, rng: sum(rng.normal() for _ in data)
        replay(peeking, [1.0, 0.5], [1.0], (1.0, 1e-6), noise_scale=1.0)
"""


def test_a_fixture_for_other_peoples_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Named here, not found by its entry point: a checkout that is not installed has none.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(CODE)
    done = pytester.runpytest("-p", "ndis.pytest_plugin", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, failed=3)
    done.stdout.fnmatch_lines(
        [
            "*REFUTED: the claim of (1, 1e-06)*delta is at least 0.9*proven*",
            "*the sensitivity 0.4: broken by this pair*",
            "*its noise depends on the data; audit it by samples*",
        ]
    )


def test_pytest_finds_the_fixture_where_ndis_is_installed() -> None:
    root = Path(__file__).parents[1]
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]
    assert hasattr(importlib.import_module(declared["pytest11"]["ndis"]), "replay")
