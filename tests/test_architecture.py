"""The rules that keep it a house: arrows point one way, and the door opens without the furniture.

A room is a module or package directly below ``ndis``; `LAYERS` lists them from the ground up,
and a room imports only from the layers below its own.
"""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ndis

SOURCE = Path(ndis.__file__).parent

LAYERS = (
    {"_validate", "answer"},
    {"loss", "tables"},
    {"gaussian", "randomness"},
    {"calibration", "chi_square"},
    {"risk"},
    {"guarantee"},
    {"ledger", "release"},
    {"plots"},
    {"mechanisms"},
    {"auditing", "interop"},
    {"explore", "pytest_plugin", "report", "testing"},
    {"cli"},
    {"app"},
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
HEAVY = {"dask", "duckdb", "matplotlib", "pandas", "polars", "pyarrow", "pyspark", "sklearn"}
# The package and `python -m ndis` are doors, not rooms: they may open onto anything.
DOORS = {"__init__", "__main__"}


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).with_suffix("").parts[0]


def imported_rooms(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield every room of ours that a file imports, with the line; also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            stem = ".".join((*base, *([node.module] if node.module else [])))
            names = [f"{stem}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            head, *rest = name.split(".")
            if head == "ndis" and rest and rest[0] != "__version__":
                yield rest[0], node.lineno


def violations(text: str, file: Path) -> list[str]:
    """Return one line for every import that points sideways or up."""
    room = room_of(file)
    package = ("ndis", *file.relative_to(SOURCE).parent.parts)
    public_home = {name: f"{home}.{name}".split(".")[1] for name, home in ndis._HOME.items()}
    found = []
    for name, line in imported_rooms(ast.parse(text), package):
        target = public_home.get(name, name)
        if target != room and LEVEL.get(target, len(LAYERS)) >= LEVEL[room]:
            found.append(f"{file.relative_to(SOURCE)}:{line} imports {target}")
    return found


FILES = sorted(file for file in SOURCE.rglob("*.py") if room_of(file) not in DOORS)


def test_every_room_has_its_layer() -> None:
    assert {room_of(file) for file in FILES} <= LEVEL.keys()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_downwards(file: Path) -> None:
    assert violations(file.read_text(), file) == []


@pytest.mark.parametrize(
    "line",
    [
        "from ndis.mechanisms import projection",
        "import ndis.guarantee",
        "from ndis import Guarantee",
        "from ndis import tables",
        "def f():\n    from ..gaussian import Gaussian",
        "from ndis.unheard_of import thing",
    ],
)
def test_an_arrow_out_of_loss_is_seen(line: str) -> None:
    assert violations(line, SOURCE / "loss" / "example.py")


@pytest.mark.parametrize(
    "line", ["from ndis._validate import positive", "from .contour import delta", "import numpy"]
)
def test_an_arrow_within_the_rules_is_left_alone(line: str) -> None:
    assert violations(line, SOURCE / "loss" / "example.py") == []


def test_public_names_are_those_that_type_checkers_see() -> None:
    typed = {
        alias.asname: node.module
        for node in ast.parse((SOURCE / "__init__.pyi").read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == ndis._HOME
    assert ndis.__all__ == sorted(ndis._HOME)


@pytest.mark.parametrize("name", ndis.__all__)
def test_public_name_resolves_and_explains_itself(name: str) -> None:
    assert getattr(ndis, name).__doc__


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ndis.nothing  # noqa: B018


@pytest.mark.parametrize(
    "statement",
    [
        "import ndis",
        "import ndis; ndis.QuadraticLoss, ndis.Guarantee",
        "import ndis.cli.program",
    ],
)
def test_import_stays_light(statement: str) -> None:
    program = f"import sys; {statement}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert HEAVY.isdisjoint(loaded)


def test_a_certificate_is_checked_without_auditors() -> None:
    program = "import sys; import ndis.auditing.certificates; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    auditors = {f"ndis.auditing.{name}" for name in ("blackbox", "one_run", "replay", "whitebox")}
    assert auditors.isdisjoint(loaded)


# -- who stands above mechanisms looks at runs, not inside them -----------------------------------

MECHANISMS = sorted((SOURCE / "mechanisms").rglob("*.py"))
ABOVE = [file for file in FILES if LEVEL[room_of(file)] > LEVEL["mechanisms"]]
# What other tools ask of objects, by names that begin with an underscore.
ASKED = {"_repr_html_"}


def private_names(files: list[Path]) -> set[str]:
    """Functions, constants and attributes that begin with an underscore, wherever defined."""
    found = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    named = {name for name in found if name.startswith("_") and not name.startswith("__")}
    return named - ASKED


def trespasses(text: str, private: set[str]) -> list[str]:
    """Private names of mechanisms that a file uses, and what it replaces of other objects."""
    found, tree = [], ast.parse(text)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ndis.mechanisms"):
            names = [alias.name for alias in node.names if alias.name.startswith("_")]
            found += [f"{node.lineno}: imports {name}" for name in names]
        elif isinstance(node, ast.Attribute):
            at_home = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if node.attr in private - own and not at_home:
                found.append(f"{node.lineno}: uses {node.attr}")
        elif (
            isinstance(node, ast.Call)
            and _name(node.func) in ("setattr", "delattr")
            and _name(node.args[0]) not in own
        ):
            found.append(f"{node.lineno}: patches")
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


@functools.cache
def private() -> set[str]:
    return private_names(MECHANISMS)


@pytest.mark.parametrize("file", ABOVE, ids=lambda file: str(file.relative_to(SOURCE)))
def test_nobody_above_uses_a_private_name_of_mechanisms_or_patches(file: Path) -> None:
    assert trespasses(file.read_text(), private()) == []


def test_auditors_the_command_line_and_the_app_are_above() -> None:
    assert {"auditing", "interop", "testing", "cli", "app"} <= {room_of(file) for file in ABOVE}
    assert len(private()) > 300


@pytest.mark.parametrize(
    "line",
    [
        "from ndis.mechanisms.graph import _truth",
        "def f(estimator):\n    return estimator._study(1)",
        "def f(model):\n    setattr(model, 'plan', None)",
        "class R:\n    def f(self):\n        self.model._release()",
        "from ndis.mechanisms import newton\nnewton._ROUNDS = 2",
    ],
)
def test_a_trespass_is_seen(line: str) -> None:
    assert trespasses(line, {"_study", "_release", "_ROUNDS"})


# -- one word, one thing -------------------------------------------------------------------------


def defined_twice(homes: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Names with more than one home."""
    found: dict[str, list[str]] = {}
    for name, home in homes:
        found.setdefault(name, []).append(home)
    return {name: places for name, places in found.items() if len(places) > 1}


def classes_of(file: Path) -> list[str]:
    nodes = ast.parse(file.read_text()).body
    return [node.name for node in nodes if isinstance(node, ast.ClassDef)]


def test_no_class_is_defined_twice() -> None:
    homes = [(name, str(file)) for file in SOURCE.rglob("*.py") for name in classes_of(file)]
    assert len(homes) > 200
    assert defined_twice(homes) == {}


def test_no_module_name_is_used_twice() -> None:
    """A module of `cli` is named after its command; `release/release.py` is its package's own."""
    files = [file for file in SOURCE.rglob("*.py") if not file.name.startswith("__")]
    own = {file.parent.name for file in files if file.stem == file.parent.name}
    rooms = {file.parent.name for file in SOURCE.rglob("__init__.py")} - own
    homes = [(file.stem, str(file)) for file in files if file.parent.name != "cli"]
    homes += [(room, "a room") for room in rooms]
    assert defined_twice(homes) == {}


def test_a_name_defined_twice_is_seen() -> None:
    assert defined_twice([("a", "x"), ("b", "x"), ("a", "y")]) == {"a": ["x", "y"]}


# -- tests are found by guessing -----------------------------------------------------------------

TESTS = Path(__file__).parent
# Modules without a test of their name, each with the reason.
UNMIRRORED = {
    "__main__.py": "two lines, which tests/cli/test_program.py runs",
    "tables/compiling.py": "torch's compiler, on a graphics card only",
}
MODULES = [
    str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py") if file.name != "__init__.py"
]


def home_of(module: str) -> Path:
    """Where a stranger looks for the test of ``a/b.py``: in ``tests/a/test_b.py``."""
    path = Path(module)
    return TESTS / path.parent / f"test_{path.stem.lstrip('_')}.py"


@pytest.mark.parametrize("module", sorted(set(MODULES) - UNMIRRORED.keys()))
def test_every_module_has_a_test_of_its_name(module: str) -> None:
    assert home_of(module).exists(), f"Put its tests into {home_of(module).relative_to(TESTS)}."


def test_no_exception_is_out_of_date() -> None:
    assert [name for name in UNMIRRORED if name not in MODULES or home_of(name).exists()] == []
