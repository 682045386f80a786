"""Run every example of README.md and docs/: ``make doctest`` collects this file.

Three kinds of fenced block are run, in order, one namespace and one directory a page:

* ``python`` with ``>>>``: a doctest, the output is compared;
* ``python`` without: executed, it must not raise;
* ``console`` with ``$ ndis ...``: the command is run and its output compared, in this process
  (tests/cli/test_program.py starts some of its own).
"""

import doctest
import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from ndis.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(python|console)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def run_session(text: str, names: dict, page: str, line: int) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, page, page, line)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not report, "".join(report)


def run_console(text: str, page: str, line: int) -> None:
    for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = block.partition("\n")
        words = shlex.split(command)
        if words[0] != "ndis":
            continue
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit):
            main(words[1:])
        printed = out.getvalue() + err.getvalue()
        check = doctest.OutputChecker()
        assert check.check_output(expected, printed, OPTIONS), (
            f"{page}:{line}: $ {command}\nexpected\n{expected}\ngot\n{printed}"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    name, text = str(page.relative_to(ROOT)), page.read_text()
    names: dict = {"__name__": "__main__"}
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        kind, body = fence.groups()
        if kind == "console":
            run_console(body, name, line)
        elif ">>>" in body:
            run_session(body, names, name, line)
        else:
            exec(compile("\n" * line + body, name, "exec"), names)
