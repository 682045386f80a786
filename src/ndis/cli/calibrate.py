"""``ndis calibrate``: how much noise a guarantee costs, before there are data."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ndis.cli.console import AsJson, echo, picture, print_json, print_table
from ndis.cli.kinds import KINDS, Kind
from ndis.cli.mistakes import Commands
from ndis.cli.settings import Config, Settings, read_settings, with_options

# Multiples of the epsilon that was asked for.
_AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)

Picture = Annotated[Path | None, picture("Write noise against epsilon")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        cls=Commands, no_args_is_help=True, help="Find the least noise that keeps a guarantee."
    )
    for name, kind in KINDS.items():
        options = [*kind.parameters, *kind.sizes]
        group.command(name)(with_options(_command(kind, options), options, name, kind.summary))
    app.add_typer(group, name="calibrate")


def _command(kind: Kind, options: list[str]) -> Any:
    def calibrate(
        flags: Mapping[str, Any],
        config: Config = None,
        plot: Picture = None,
        as_json: AsJson = False,
    ) -> None:
        from ndis.calibration import meets

        settings = read_settings(flags, options, config)
        epsilon = float(settings.need("epsilon"))
        noise = kind.noise(settings)
        around = [(factor * epsilon, _noise_at(kind, settings, factor)) for factor in _AROUND]
        loss = kind.loss(settings)
        kept = None if loss is None else meets(loss, epsilon, settings["delta"])
        if plot is not None:
            _draw(kind, settings, plot)
        if as_json:
            document = {"epsilon": epsilon, "delta": settings["delta"], "noise_scale": noise}
            promise = kind.promise(settings)
            planned = None if promise is None else promise.to_dict()
            print_json(document | {"kept": kept, "guarantee": planned})
            return
        rows = [[f"{e:g}", "-" if value is None else f"{value:.6g}"] for e, value in around]
        print_table(
            f"Noise at delta {settings['delta']:g}",
            ["epsilon", "noise scale"],
            rows if epsilon else [["0", f"{noise:.6g}"]],
        )
        if kept is not None:
            verb = "is proven to keep" if kept else "does NOT keep"
            echo(f"The privacy loss at this noise {verb} delta <= {settings['delta']:g}.")

    return calibrate


def _noise_at(kind: Kind, settings: Settings, factor: float) -> float | None:
    noise = kind.noise(Settings(settings | {"epsilon": factor * settings["epsilon"]}))
    return noise if math.isfinite(noise) else None


def _draw(kind: Kind, settings: Settings, plot: Path) -> None:
    import numpy as np

    from ndis import plots

    centre = settings["epsilon"] or 1.0

    def noise(epsilon: float) -> float:
        return kind.noise(Settings(settings | {"epsilon": epsilon}))

    plots.compare({"": noise}, centre * np.geomspace(0.1, 10.0, 21)).savefig(plot)
