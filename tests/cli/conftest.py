from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import install_example, write_tables
from ndis.mechanisms import plugins


@pytest.fixture(autouse=True)
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences are as in a pipe, though workers of the tests have a width."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tables, in which the program runs."""
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mean(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The example of docs/how-to-add-a-mechanism.md, installed as a package of its own."""
    place = tmp_path_factory.mktemp("installed")
    install_example(place)
    monkeypatch.syspath_prepend(place)
    plugins.forget()
    yield
    plugins.forget()
