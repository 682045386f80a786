"""``ndis verify``: whether a release file keeps what its certificate says."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, ExitCode, echo, open_ledger, picture, print_json, print_table

if TYPE_CHECKING:
    from ndis.release import Release

Picture = Annotated[Path | None, picture("Write its privacy curve")]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("verify")(verify)


def verify(
    path: Annotated[Path, typer.Argument(metavar="RELEASE", help="The file.", show_default=False)],
    ledger: Annotated[
        str | None, typer.Option(help="A ledger in which the release should be.")
    ] = None,
    plot: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Check arrays against the certificate and the guarantee against its own privacy loss.

    Exit code 1 if the file was changed, the loss does not support the promise, the claim is a
    refuted one, the noise came from a known seed, or the ledger does not know the release.
    """
    from ndis.release import ChangedRelease, Release

    try:
        release = Release.load(path)
    except ValueError as error:
        if as_json:
            print_json({"verified": False, "damage": str(error)})
        else:
            echo(f"ndis: {error}", err=True)
        changed = isinstance(error, ChangedRelease)
        raise typer.Exit(ExitCode.CHECK_FAILED if changed else ExitCode.WRONG_CALL) from None
    checks = _checks(release, ledger)
    if plot is not None:
        _draw(release, plot)
    if as_json:
        print_json(
            {
                "mechanism": release.mechanism,
                "digest": release.digest,
                "guarantee": release.guarantee.to_dict() | {"loss": None},
                "checks": checks,
                "verified": all(checks.values()),
            }
        )
    else:
        echo(f"{release!r}\nSHA-256 {release.digest}")
        rows = [[what, "yes" if held else "NO"] for what, held in checks.items()]
        print_table("Checks", ["check", "passed"], rows)
    if not all(checks.values()):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _checks(release: "Release", ledger: str | None) -> dict[str, bool]:
    from ndis.calibration import meets

    promise = release.guarantee
    checks = {
        "arrays match the certificate": True,  # `Release.load` refuses others
        "the claim is not a refuted one": promise.basis != "refuted",
        "the noise is secret": promise.private,
    }
    if promise.loss is not None:
        supported = bool(meets(promise.loss, promise.epsilon, promise.delta))
        checks["the privacy loss keeps (epsilon, delta)"] = supported
    if ledger is not None:
        checks["the ledger knows the release"] = release.digest in _digests(ledger)
    return checks


def _digests(path: str) -> set[str | None]:
    with open_ledger(path) as book:
        return {entry.digest for entry in book.history()}


def _draw(release: "Release", plot: Path) -> None:
    import numpy as np

    from ndis import plots

    loss: Any = release.guarantee.loss
    if loss is None:
        raise ValueError(
            "Expected a release that carries its privacy loss, got one without; leave out --plot."
        )
    grid = np.linspace(0.0, 2.0 * max(release.guarantee.epsilon, 0.5), 81)
    plots.curve(loss, grid).savefig(plot)
