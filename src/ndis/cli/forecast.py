"""``ndis forecast``: the error to be expected, before any budget is spent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ndis.cli.console import AsJson, echo, picture, print_json, print_table
from ndis.cli.kinds import Kind, add_group
from ndis.cli.settings import Config, Settings, read_settings, with_options

Picture = Annotated[Path | None, picture("Write error against epsilon")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_group(app, "forecast", _command, "Predict the error of a release; needs no data.")


def _command(kind: Kind) -> Any:
    options = kind.parameters | kind.sizes | kind.expectations
    needed = kind.needed(*(("n_rows",) if kind.source == "table" else ()))

    def forecast(
        flags: Mapping[str, Any],
        config: Config = None,
        plot: Picture = None,
        as_json: AsJson = False,
    ) -> None:
        settings = read_settings(flags, options, config)
        settings.need(f"ndis forecast {kind.name}", *needed)
        expected = kind.forecast(settings)
        if plot is not None:
            _draw(kind, settings, next(iter(expected.errors)), plot)
        if as_json:
            ranges = {name: list(error) for name, error in expected.errors.items()}
            print_json({"errors": ranges, "assumptions": list(expected.assumptions)})
            return
        asked = f"epsilon {settings['epsilon']:g}" if "epsilon" in settings else settings["target"]
        print_table(
            f"To be expected at {asked}, delta {settings['delta']:g}",
            ["quantity", "from", "to"],
            [[name, *(f"{end:.4g}" for end in error)] for name, error in expected.errors.items()],
        )
        for assumption in expected.assumptions:
            echo(f"- assuming {assumption}")

    return with_options(forecast, options, kind.name, kind.summary, needed)


def _draw(kind: Kind, settings: Settings, quantity: str, plot: Path) -> None:
    import numpy as np

    from ndis import plots

    def error(epsilon: float) -> float:
        return float(kind.forecast(settings, epsilon=epsilon, target=None).errors[quantity][1])

    grid = (settings.get("epsilon") or 1.0) * np.geomspace(0.1, 10.0, 21)
    plots.compare({"": error}, grid, quantity).savefig(plot)
