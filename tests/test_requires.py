from collections.abc import Callable

import pytest

import requires


@pytest.fixture(autouse=True)
def empty_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize("require", [requires.require_java, requires.require_chromium])
def test_a_missing_program_fails_in_ci(
    require: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI must run this test"):
        require()


@pytest.mark.parametrize("require", [requires.require_java, requires.require_chromium])
def test_a_missing_program_skips_elsewhere(
    require: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="is missing"):
        require()
