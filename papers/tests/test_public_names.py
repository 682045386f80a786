"""The papers' package uses the library through its public names only."""

import ast
import functools
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import ndis
import ndis_papers

SOURCE = Path(ndis_papers.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


@functools.cache
def private() -> set[str]:
    """Functions of the library that begin with an underscore."""
    return {
        node.name
        for file in Path(ndis.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_")
        if not node.name.startswith("__")
    }


def is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is no package
        return False


def public(module: str, name: str) -> bool:
    """Whether a name may be taken from a module of the library: it is in its `__all__`.

    A module is public if it has one, and if no part of its own name is private.
    """
    if any(part.startswith("_") for part in module.split(".")):
        return False
    if name in getattr(import_module(module), "__all__", ()):
        return True
    inner = f"{module}.{name}"
    return is_module(inner) and hasattr(import_module(inner), "__all__")


def private_uses(text: str) -> Iterator[str]:
    """Yield what a file takes from the library that is not public."""
    tree = ast.parse(text)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ndis":
            for alias in node.names:
                if not public(str(node.module), alias.name):
                    yield f"{node.lineno}: {node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if node.attr in private() - defined and not own:
                yield f"{node.lineno}: .{node.attr}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                head, _, rest = alias.name.partition(".")
                if head == "ndis" and rest and not hasattr(import_module(alias.name), "__all__"):
                    yield f"{node.lineno}: {alias.name}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_only_public_names_are_used(file: Path) -> None:
    assert list(private_uses(file.read_text())) == []


@pytest.mark.parametrize(
    "line",
    [
        "from ndis import _validate",
        "from ndis._validate import FloatArray",
        "from ndis.mechanisms.projection import PrivateProjection",
        "def f():\n    from ndis.loss.quadratic import QuadraticLoss",
        "from ndis.calibration import _REACH",
        "def f(model):\n    return model._target()",
        "import ndis.mechanisms.projection",
    ],
)
def test_a_private_name_is_seen(line: str) -> None:
    assert list(private_uses(line))


def test_public_names_are_left_alone() -> None:
    lines = "from ndis import plots, Gaussian\nfrom ndis.loss import Profile\nimport ndis.tables"
    assert list(private_uses(lines)) == []


def test_its_own_names_resolve() -> None:
    assert all(hasattr(ndis_papers, name) for name in ndis_papers.__all__)
    assert callable(ndis_papers.claims)
    assert callable(ndis_papers.reproduce.reproduce)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ndis_papers.nothing  # noqa: B018
    assert not set(ndis_papers.__all__) & set(ndis.__all__)
