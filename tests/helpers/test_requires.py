from collections.abc import Callable

import pytest

import requires

PROGRAMS = [requires.require_java, requires.require_chromium, requires.require_bindfs]


@pytest.fixture(autouse=True)
def empty_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize("require", PROGRAMS)
def test_a_missing_program_fails_in_ci(
    require: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI must run this test"):
        require()


@pytest.mark.parametrize("require", PROGRAMS)
def test_a_missing_program_skips_elsewhere(
    require: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="is missing"):
        require()


def test_the_summary_counts_what_is_missing_and_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    reasons = ["Skipped: could not import 'torch'"]
    for require in (requires.require_chromium, requires.require_java, requires.require_java):
        with pytest.raises(pytest.skip.Exception) as skipped:
            require()
        reasons.append(f"Skipped: {skipped.value}")
    first, second = requires.what_is_missing(reasons)
    assert first.startswith("2 skipped: Java is missing; install a Java runtime")
    assert second == "1 skipped: Chromium is missing; install the package chromium"
    assert requires.what_is_missing(reasons[:1]) == []
