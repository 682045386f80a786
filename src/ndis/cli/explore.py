"""``ndis explore``: a page to choose epsilon with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ndis.cli import tables
from ndis.cli.console import echo
from ndis.cli.kinds import Kind, add_kinds
from ndis.cli.settings import Settings, as_command


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_kinds(app, "explore", _command, "Write a page to choose epsilon with.")


def _command(kind: Kind) -> Any:
    options = kind.parameters | kind.sizes | kind.expectations
    needed = (*kind.needs, *(("label",) if kind.label else ()))

    def explore(
        settings: Settings,
        *,
        out: Path = Path("explore.html"),
        seconds: float = 12.0,
    ) -> None:
        """Explore.

        Parameters
        ----------
        out : FILE
            The page to write (.html); replaced.
        seconds : float
            About how long it may take; more seconds, finer sliders.
        """
        from ndis.explore import write_explorer

        settings = tables.name_columns(settings)
        expected = {name: settings[name] for name in kind.expectations if name in settings}
        # Rows are assumed here, and no part of what is released.
        asked = Settings({k: v for k, v in settings.items() if k not in expected})
        write_explorer(
            kind.planner(asked)[0],
            out,
            expected.pop("size", settings.get("size")),
            label=settings.get("label"),
            question=kind.name,
            released=kind.make(asked),
            seconds=seconds,
            **expected,
        )
        echo(f"Written to {out}: open it in a browser. It was made from public numbers only.")

    return as_command(explore, f"explore {kind.name}", options, kind.summary, needed)
