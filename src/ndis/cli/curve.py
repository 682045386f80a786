"""``ndis curve``: delta against epsilon for a composition of Gaussian pairs."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ndis.cli.console import AsJson, picture, print_json, print_table

if TYPE_CHECKING:
    from ndis.loss import Profile

Picture = Annotated[Path | None, picture("Write the curve")]
_DEFAULT_EPSILONS = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("curve")(curve)


def curve(
    shift: Annotated[
        list[float] | None,
        typer.Option(help="Mean shift in units of the noise; repeat to compose several."),
    ] = None,
    leverage: Annotated[
        list[float] | None,
        typer.Option(help="Leverage of a record in a sketch; repeat to compose several."),
    ] = None,
    components: Annotated[int, typer.Option(help="Columns of each sketch.")] = 1,
    times: Annotated[int, typer.Option(help="Compose the whole this many times.")] = 1,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Where to evaluate; repeat for several.")
    ] = None,
    plot: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Show the privacy curve delta(epsilon), the worse of record present and record absent."""
    worst = _worst_case(shift or [], leverage or [], components, times)
    epsilons = sorted(epsilon or _DEFAULT_EPSILONS)
    log_deltas = [float(worst.log_delta(value)) for value in epsilons]
    if plot is not None:
        from ndis import plots

        plots.curve(worst, epsilons).savefig(plot)
    if as_json:
        print_json(
            {
                "epsilon": epsilons,
                "delta": [float(worst.delta(value)) for value in epsilons],
                # ln 0 is not a JSON number: an exact zero is shown as null.
                "log_delta": [value if math.isfinite(value) else None for value in log_deltas],
            }
        )
        return
    print_table(
        "Privacy curve, worse of both directions",
        ["epsilon", "delta", "log10 delta"],
        [
            [f"{value:g}", f"{worst.delta(value):.6e}", f"{log_delta / math.log(10):.4f}"]
            for value, log_delta in zip(epsilons, log_deltas, strict=True)
        ],
    )


def _worst_case(
    shifts: list[float], leverages: list[float], components: int, times: int
) -> "Profile":
    """Compose the losses and take the worse of both directions."""
    from ndis.loss import Profile, QuadraticLoss

    losses = [QuadraticLoss.from_shift(distance) for distance in shifts]
    losses += [QuadraticLoss.from_leverage(p, components) for p in leverages]
    if not losses:
        raise ValueError(
            "Expected at least one loss, got none; pass --shift DISTANCE or --leverage P."
        )
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    return Profile.both(times * total)
