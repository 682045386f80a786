from pathlib import Path

import pytest

import ndis
from commands import example_estimator, write_tables
from ndis.cli.kinds import BOUNDS, KINDS, Kind


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tables, in which the program runs."""
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/how-to-add-a-mechanism.md, which is one line of the registry."""
    monkeypatch.setattr(ndis, "PrivateMean", example_estimator(), raising=False)
    monkeypatch.setitem(KINDS, "mean", Kind("mean", "PrivateMean", (BOUNDS,)))
