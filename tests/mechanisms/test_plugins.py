"""Estimators and methods of other packages; the how-to pages, followed literally."""

import os
import re
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import numpy as np
import pytest

from commands import PAGE, block, write_tables
from ndis import PrivateLeastSquares, PrivateProjection, Release
from ndis.auditing.certificates import verify
from ndis.mechanisms import plugins

ROOT = Path(__file__).parents[2]
LOSS_PAGE = ROOT / "docs/how-to-add-a-loss.md"


# -- found by entry points ----------------------------------------------------------------------


def test_a_method_of_another_package_is_chosen_by_its_name() -> None:
    known = plugins.methods_of(PrivateLeastSquares)
    assert set(known) == {"als", "gaussian-limit", "sketch"}
    assert known["als"].load().__module__.startswith("ndis_papers")

    class Own(PrivateLeastSquares):
        """What an estimator can be answered by, its heirs can."""

    assert set(plugins.methods_of(Own)) == set(known)


def test_a_release_names_the_package_that_made_it() -> None:
    model = PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=2.0, n_components=20)
    table = np.eye(2)
    assert "package" not in model.fit(table).release_.parameters
    made = model.set_params(method="ptr").fit(table).release_
    assert made.parameters["package"] == "ndis-papers"
    assert verify(made).outcome == "checked"


def test_what_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = PrivateLeastSquares(epsilon=1.0, delta=1e-6, data_norm=1.0, label_bound=1.0)
    with pytest.raises(ValueError, match=r"'auto', 'newton', 'noisy-gram', 'als', .* got 'ols'"):
        model.set_params(method="ols").plan(2)
    monkeypatch.setattr(plugins, "_methods", dict)
    with pytest.raises(plugins.NotInstalled, match="Expected the package ndis-papers for method"):
        model.set_params(method="als").plan(2)


def test_nobody_calls_a_release_checked_whose_package_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=2.0, n_components=20)
    made = model.set_params(method="ptr").fit(np.eye(2)).release_
    stranger = Release(made.arrays, made.guarantee, "PrivateNovelty", made.parameters)
    assert "install" in verify(stranger).checks[-1].why
    monkeypatch.setattr(plugins, "_methods", dict)
    found = verify(made)
    assert found.outcome == "not checkable"
    assert any("ndis-papers" in check.why for check in found.checks)


# -- the pages ----------------------------------------------------------------------------------


def indented(page: Path, first: str) -> str:
    """The indented block of a page that begins with this line."""
    lines = page.read_text().split("\n")
    start = next(place for place, line in enumerate(lines) if line.strip() == first)
    indent = len(lines[start]) - len(first)
    found = []
    for line in lines[start:]:
        if line.strip() and not line.startswith(" " * indent):
            break
        found.append(line[indent:])
    return "\n".join(found).rstrip() + "\n"


def written_tests(page: Path) -> str:
    """The tests that a page tells to write: the indented block that imports pytest."""
    blocks = re.findall(r"(?:^ {4,}\S.*\n|^\s*\n(?= {4,}\S))+", page.read_text(), re.MULTILINE)
    (found,) = [each for each in blocks if "import pytest" in each]
    return textwrap.dedent(found)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that sees the packages of this one, but for what is installed into it."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    (site,) = (place / "lib").glob("python*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages")]
    (site / "parent.pth").write_text("\n".join([str(ROOT / "src"), *here]) + "\n")
    return place


def run(environment: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = str(environment / "bin/python")
    return subprocess.run(
        [python, *words], cwd=folder, env=clean, capture_output=True, text=True, check=False
    )


def ndis(environment: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(environment, folder, "-m", "ndis", *words)


def install(environment: Path, project: Path) -> None:
    done = run(
        environment,
        project,
        *("-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "."),
    )
    assert done.returncode == 0, done.stderr


def commands() -> list[list[str]]:
    text = indented(PAGE, "$ ndis calibrate mean --epsilon 1 --delta 1e-6 --limits a=-1:1 "
                    "--limits b=-1:1")  # fmt: skip
    return [line.split()[2:] for line in text.split("\n") if line.startswith("$ ndis ")]


@pytest.mark.slow
def test_a_mechanism_in_a_package_of_its_own(environment: Path, tmp_path: Path) -> None:
    """Command line, verify, audit and the protocol, with no line of ours touched."""
    project, folder = tmp_path / "project", tmp_path / "work"
    project.mkdir()
    folder.mkdir()
    write_tables(folder)
    (project / "pyproject.toml").write_text(block("toml"))
    (project / "private_mean.py").write_text(block("python"))
    (folder / "test_private_mean.py").write_text(written_tests(PAGE))
    before = ndis(environment, folder, "release", "mean", "--help")
    assert before.returncode == 2
    install(environment, project)
    done = {words[0]: ndis(environment, folder, *words) for words in commands()}
    assert {name: each.stderr for name, each in done.items() if each.returncode} == {}
    assert "noise on sums" in done["calibrate"].stdout
    assert "standard error of sums" in done["forecast"].stdout
    assert (folder / "explore.html").stat().st_size > 10_000
    assert "checked" in done["verify"].stdout.lower()
    assert "consistent" in done["audit"].stdout.lower()
    checks = run(environment, folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert checks.returncode == 0, checks.stdout
    assert re.search(r"\d\d passed", checks.stdout)
    # Where the package is not installed, nobody calls the release checked.
    (site,) = (environment / "lib").glob("python*/site-packages")
    for path in [*site.glob("private_mean*")]:
        path.rename(tmp_path / path.name)
    without = ndis(environment, folder, "verify", "mean.npz")
    assert without.returncode == 5
    assert "private-mean" in without.stdout + without.stderr


@pytest.mark.slow
def test_a_loss_in_a_package_of_its_own(environment: Path, tmp_path: Path) -> None:
    """The example of the page passes every check that the page tells to run."""
    (tmp_path / "laplace.py").write_text(block("python", LOSS_PAGE))
    (tmp_path / "test_laplace.py").write_text(written_tests(LOSS_PAGE))
    done = run(environment, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d\d passed", done.stdout)


@pytest.mark.slow
def test_a_papers_method_where_the_package_is_not_installed(
    environment: Path, tmp_path: Path
) -> None:
    """`verify` says what to install, never "checked"; so does `--method`."""
    made = PrivateProjection(
        epsilon=1.0, delta=1e-6, data_norm=2.0, n_components=20, method="ptr"
    ).fit(np.eye(2))
    assert verify(made.release_).outcome == "checked"
    made.release_.save(tmp_path / "r.npz")
    hidden = "import sys; sys.modules['ndis_papers'] = None; from ndis.mechanisms import plugins; "
    program = hidden + (
        "plugins._methods = dict; from ndis.cli import main; main(['verify', 'r.npz'])"
    )
    done = run(environment, tmp_path, "-c", program)
    assert done.returncode == 5
    assert "ndis-papers" in done.stdout + done.stderr
