"""What is declared in one file and repeated in another must agree."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
DECLARED = {
    requirement.name: requirement
    for line in PROJECT["dependencies"] + [*chain.from_iterable(EXTRAS.values())]
    if (requirement := Requirement(line)).name != PROJECT["name"]
}
OLDEST = {
    requirement.name: requirement
    for line in (ROOT / "constraints/oldest.txt").read_text().splitlines()
    if not line.startswith("#")
    for requirement in [Requirement(line)]
}
# What a user can ask for and the tests use; docs and dev are for developers.
_USED = ("plots", "sign", "spark", "postgresql", "dask", "interop", "data")
SUPPORTED = {
    Requirement(line).name
    for line in PROJECT["dependencies"] + [*chain.from_iterable(EXTRAS[name] for name in _USED)]
}


@pytest.mark.parametrize("name", OLDEST)
def test_oldest_is_the_declared_lower_bound(name: str) -> None:
    (bound,), (exact,) = DECLARED[name].specifier, OLDEST[name].specifier
    assert (bound.operator, exact.operator) == (">=", "==")
    assert Version(exact.version) == Version(bound.version)


def test_every_supported_dependency_has_an_oldest_version() -> None:
    pinned = {name for name, need in DECLARED.items() if str(need.specifier).startswith("==")}
    assert OLDEST.keys() == SUPPORTED - pinned


@pytest.mark.parametrize("name", ["run", "dev"])
def test_lock_names_no_place(name: str) -> None:
    lock = (ROOT / f"requirements/{name}.txt").read_text()
    assert not re.search(r"://|^-|@ |/home|/root|/work", lock, re.MULTILINE)


def test_lock_has_every_declared_dependency() -> None:
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements/dev.txt").read_text(), re.M))
    assert DECLARED.keys() <= locked


def test_both_locks_pin_the_same_versions() -> None:
    run, dev = (
        set(re.findall(r"^\S+==\S+", (ROOT / f"requirements/{name}.txt").read_text(), re.M))
        for name in ("run", "dev")
    )
    assert run <= dev


def test_citation_has_the_version() -> None:
    assert f"version: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()
