"""Run the notebooks of docs/ and store what they show: ``python tools/run_notebooks.py``.

A notebook is run cell by cell in one namespace, in a folder of its own, as Jupyter would; nothing
of Jupyter is needed. The tests run them in the same way and keep nothing.
"""

import ast
import base64
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
NOTEBOOKS = tuple(sorted(DOCS.glob("*.ipynb")))


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook with new outputs.

    Parameters
    ----------
    notebook : dict
        As in a file of format 4.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                outputs = _run_cell("".join(cell["source"]), names)
                cell = {**cell, "outputs": outputs, "execution_count": count}
            cells.append(cell)
    return {**notebook, "cells": cells}


def _run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """What a cell prints, and what its last expression is."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, shown = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            shown = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    if shown is not None:
        outputs.append({"output_type": "display_data", "metadata": {}, "data": _show(shown)})
    return outputs


def _show(value: Any) -> dict[str, str]:
    data = {"text/plain": repr(value)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_()
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    return data


def main() -> None:
    """Run those that are named, or all."""
    for path in map(Path, sys.argv[1:] or NOTEBOOKS):
        done = run(json.loads(path.read_text()))
        path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
