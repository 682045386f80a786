"""``ndis verify``: whether a release file keeps what its certificate says."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, ExitCode, echo, open_ledger, picture, print_json, print_table
from ndis.cli.settings import read_file

if TYPE_CHECKING:
    from ndis.auditing.certificates import Verification
    from ndis.release import Release

Picture = Annotated[Path | None, picture("Write its privacy curve")]

_CODES = {
    "checked": ExitCode.DONE,
    "refuted": ExitCode.CHECK_FAILED,
    "unreadable": ExitCode.WRONG_CALL,
    "not checkable": ExitCode.NOT_CHECKABLE,
}


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("verify")(verify)


def verify(
    path: Annotated[Path, typer.Argument(metavar="RELEASE", help="The file.", show_default=False)],
    ledger: Annotated[
        str | None, typer.Option(help="A ledger in which the release should be.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Public key (Ed25519, PEM) of the expected signer.")
    ] = None,
    registry: Annotated[
        Path | None,
        typer.Option(
            help="File (YAML, TOML, JSON) with what only the curator knows; print a record for "
            "OpenDP's registry of deployments if the release holds."
        ),
    ] = None,
    plot: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Check a release file: its arrays, its loss, its parameters, its signature.

    Exit codes: 0 everything holds, 1 refuted, 2 unreadable, 5 not checkable (the certificate has
    no loss, or nobody can recompute its mechanism).
    """
    from ndis.auditing import certificates
    from ndis.release import ChangedRelease, Release

    try:
        release = Release.load(path)
    except ValueError as error:
        outcome = "refuted" if isinstance(error, ChangedRelease) else "unreadable"
        if as_json:
            print_json({"outcome": outcome, "why": str(error)})
        else:
            echo(f"ndis: {error}", err=True)
        raise typer.Exit(_CODES[outcome]) from None
    with nullcontext() if ledger is None else open_ledger(ledger) as book:
        found = certificates.verify(release, ledger=book, key=key)
    if plot is not None:
        _draw(release, plot)
    if registry is not None and found.outcome == "checked":
        print_json(release.to_registry(**read_file(registry)))
    elif as_json:
        print_json(found.to_dict())
    else:
        _tell(found)
    raise typer.Exit(_CODES[found.outcome])


def _tell(found: "Verification") -> None:
    echo(f"{found.release!r}\nSHA-256 {found.release.digest}")
    marks = {"held": "yes", "failed": "NO"}
    rows = [
        [check.what, marks.get(check.outcome, check.outcome), check.why] for check in found.checks
    ]
    print_table(f"Verdict: {found.outcome}", ["check", "passed", "why not"], rows, wrap=True)
    for each in found.not_checked:
        echo(f"not checked: {each}")


def _draw(release: "Release", plot: Path) -> None:
    import numpy as np

    from ndis import plots

    loss: Any = release.guarantee.loss
    if loss is None:
        raise ValueError(
            "Expected a release that carries its privacy loss, got one without; leave out --plot."
        )
    grid = np.linspace(0.0, 2.0 * max(release.guarantee.epsilon, 0.5), 81)
    plots.curve(loss, grid, title=release.mechanism).savefig(plot)
