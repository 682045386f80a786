"""The app stays a thin front: its own code has a limit."""

import ast
import runpy
from pathlib import Path

import ndis.app

HOME = Path(ndis.app.__file__).parent
lines_of_code = runpy.run_path(str(Path(__file__).parents[2] / "tools/loc.py"))["lines_of_code"]


def test_its_own_code_is_short() -> None:
    python = sum(lines_of_code(file.read_text()) for file in HOME.rglob("*.py"))
    others = [*HOME.glob("templates/*"), *HOME.glob("static/*")]
    rest = sum(len(file.read_text().splitlines()) for file in others)
    assert 0 < python <= 1500
    assert 0 < rest <= 1000


def test_it_draws_no_noise_and_pays_nothing_itself() -> None:
    """Only the process that runs the shown command releases."""
    calls = [
        node.func.attr
        for file in HOME.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    assert {"fit", "release", "spend", "draw", "prepare"}.isdisjoint(calls)
