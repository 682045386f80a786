"""``ndis check``: what its owner sees of a table, and nobody else."""

from pathlib import Path

from commands import call
from ndis.cli.console import ExitCode


def test_the_owner_sees_more_on_standard_error_only(capsys, folder: Path) -> None:
    code, out, err = call(capsys, "check", "people.csv", "--columns", "a,b")
    assert (code, out) == (ExitCode.DONE, "")
    assert "4000 rows" in err
