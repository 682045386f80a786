"""What the tests of both distributions share."""

import os
import sys
import tempfile
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from hypothesis import settings

# Two workers on two cores: a linear algebra pool inside each would only get in the way.
for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

# Tests of the pytest fixture run pytest.
pytest_plugins = ["pytester"]

settings.register_profile("ndis", derandomize=True, deadline=None)
settings.load_profile("ndis")


def declare_entry_points(project: Path) -> None:
    """Let a distribution that lies beside us be found by its entry points, as it is now.

    They are read from metadata, which only an installation writes: here they are made from the
    declaration, for this process and for those that it starts.
    """
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    entries = {
        (group, name, value)
        for group, named in declared["entry-points"].items()
        for name, value in named.items()
    }
    try:
        known = distribution(declared["name"]).entry_points
    except PackageNotFoundError:
        known = ()
    if entries == {(each.group, each.name, each.value) for each in known}:
        return
    place = Path(tempfile.mkdtemp(prefix="ndis-metadata-"))
    name, version = declared["name"].replace("-", "_"), declared["version"]
    metadata = place / f"{name}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {declared['name']}\nVersion: {version}\n")
    lines = [
        line
        for group, entries in declared["entry-points"].items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    found = [str(place), str(project / "src")]
    sys.path[:0] = found  # before what may be installed, whose entry points are others
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*found, *([before] if before else [])])


declare_entry_points(Path(__file__).parent / "papers")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Call slow what starts a server, and give one worker all tests that start the same one.

    Of several workers none should start something long when the others have nothing left to do.
    """
    for item in items:
        for server in ("spark", "browser", "postgresql"):
            if item.get_closest_marker(server) or server in item.keywords:
                item.add_marker(pytest.mark.xdist_group(server))
                item.add_marker(pytest.mark.slow)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what this machine lacks, and how to get it."""
    from requires import what_is_missing

    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [each.longrepr[2] for each in skipped if isinstance(each.longrepr, tuple)]
    if lines := what_is_missing(reasons):
        terminalreporter.section("this machine lacks something; .ci/run installs it")
        for line in lines:
            terminalreporter.write_line(line)
