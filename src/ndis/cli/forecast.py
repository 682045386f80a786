"""``ndis forecast``: the error to be expected, before any budget is spent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ndis.cli.console import AsJson, picture, print_json, print_table
from ndis.cli.kinds import KINDS, Kind
from ndis.cli.mistakes import Commands
from ndis.cli.settings import Config, Settings, read_settings, with_options

Picture = Annotated[Path | None, picture("Write error against epsilon")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        cls=Commands, no_args_is_help=True, help="Tell the error of a release beforehand."
    )
    for name, kind in KINDS.items():
        options = list(dict.fromkeys([*kind.parameters, *kind.expectations]))
        group.command(name)(with_options(_command(kind, options), options, name, kind.summary))
    app.add_typer(group, name="forecast")


def _command(kind: Kind, options: list[str]) -> Any:
    def forecast(
        flags: Mapping[str, Any],
        config: Config = None,
        plot: Picture = None,
        as_json: AsJson = False,
    ) -> None:
        settings = read_settings(flags, options, config)
        errors = kind.forecast(settings)
        if plot is not None:
            _draw(kind, settings, list(errors)[-1], plot)
        if as_json:
            print_json({name.replace(" ", "_"): value for name, value in errors.items()})
            return
        promise = f"epsilon {settings['epsilon']:g}, delta {settings['delta']:g}"
        print_table(
            f"To be expected at {promise}",
            ["quantity", "expected"],
            [[name, f"{value:.6g}"] for name, value in errors.items()],
        )

    return forecast


def _draw(kind: Kind, settings: Settings, quantity: str, plot: Path) -> None:
    import numpy as np

    from ndis import plots

    def error(epsilon: float) -> float:
        return kind.forecast(Settings(settings | {"epsilon": epsilon}))[quantity]

    grid = (settings["epsilon"] or 1.0) * np.geomspace(0.1, 10.0, 21)
    plots.compare({"": error}, grid, quantity).savefig(plot)
