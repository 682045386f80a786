"""The command ``ndis app``."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from typing import Annotated

import typer

from ndis._validate import installed
from ndis.cli.console import echo, open_ledger


def app(
    source: Annotated[
        str, typer.Argument(metavar="[FILE]", help="The table to begin with.", show_default=False)
    ] = "",
    folder: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="Where tables are read and releases are written; this folder by default.",
        ),
    ] = Path(),
    ledger: Annotated[str, typer.Option(metavar="WORD", help="The ledger to spend from.")] = "",
    port: Annotated[
        int, typer.Option(metavar="COUNT", help="The port; a free one by default.")
    ] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT", help="Repeatable noise, hence NOT private.", show_default=False
        ),
    ] = None,
) -> None:
    """Publish a table in the browser: five questions, on this machine only.

    The address holds a secret: who has it, and can reach this machine, can use the page.
    """
    with installed("Starlette, uvicorn and Jinja for ndis app", "'ndis[app]'"):
        import uvicorn

        from ndis.app.server import make
    from ndis.app.desk import Desk

    if not folder.is_dir():
        raise FileNotFoundError(f"Folder {str(folder)!r} is not there; check --folder.")
    if source:
        if not Path(source).is_file():
            raise FileNotFoundError(f"File {source!r} is not there; check its name.")
        folder = Path(source).parent if folder == Path() else folder
        source = os.path.relpath(Path(source).resolve(), folder.resolve())
    if not 0 <= port < 2**16:
        raise ValueError(f"Expected --port between 0 and 65535, got {port}; correct it.")
    if ledger:
        open_ledger(ledger).close()
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(64)
        number = listening.getsockname()[1]
        desk = Desk(folder, source, ledger, seed)
        try:
            if source:
                desk.inside(source)
            address = f"http://127.0.0.1:{number}/{desk.token}/"
            echo(f"Open {address}\nCtrl-C ends it.")
            threading.Thread(target=_warm_up, daemon=True).start()
            if browser:
                import webbrowser

                webbrowser.open(desk.door(address))
            config = uvicorn.Config(
                make(desk, number),
                log_level="critical",
                access_log=False,
                server_header=False,
                ws="none",
            )
            signal.signal(signal.SIGHUP, signal.default_int_handler)
            uvicorn.Server(config).run([listening])
        finally:
            desk.close()


def _warm_up() -> None:
    """Load what every page needs while somebody reads the first one."""
    import pyarrow.compute  # noqa: F401

    import ndis.auditing.certificates
    import ndis.mechanisms.summary  # noqa: F401


if __name__ == "__main__":
    typer.run(app)
