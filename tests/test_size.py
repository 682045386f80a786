"""Less code is a feature: `tools/loc.py` counts it in a way that can be trusted."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def loc():
    spec = importlib.util.spec_from_file_location("loc", ROOT / "tools/loc.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("# only a comment\n\n", 0),
        ('"""A docstring\n\nof three lines."""\n', 0),
        ("x = 1  # with a comment\n", 1),
        ('x = """not a docstring,\nbut two lines"""\n', 2),
        ('def f():\n    """What it does."""\n\n    # why\n    return 1\n', 2),
        ('class A:\n    """What it is."""\n\n    async def f(self):\n        """Do."""\n', 2),
        ("f(\n    1,\n\n    2,\n)\n", 4),
    ],
)
def test_lines_of_code_are_neither_blank_nor_comment_nor_docstring(loc, text, lines) -> None:
    assert loc.lines_of_code(text) == lines
