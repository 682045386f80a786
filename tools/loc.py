"""Count lines of code: no blanks, comments or docstrings. ``python tools/loc.py [FOLDER ...]``.

Without a folder both distributions are counted, and the library by room.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
# What no line of code consists of alone.
_NOTHING = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the lines of all docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def lines_of_code(text: str) -> int:
    """Return how many lines of a program hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOTHING:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(text)))


def count(folder: Path) -> Counter[str]:
    """Return the lines of code of a package, by what lies directly below it."""
    total: Counter[str] = Counter()
    for file in sorted([*folder.rglob("*.py"), *folder.rglob("*.pyi")]):
        total[file.relative_to(folder).parts[0]] += lines_of_code(file.read_text())
    return total


def main() -> None:
    """Print a table for every folder."""
    given = [Path(word) for word in sys.argv[1:]]
    for folder in given or [ROOT / "src/ndis", ROOT / "papers/src/ndis_papers"]:
        total = count(folder)
        for name, lines in total.most_common():
            print(f"{lines:7,} {name}")
        print(f"{total.total():7,} {folder.name}, lines of code\n")


if __name__ == "__main__":
    main()
