"""``ndis forecast``: the error to be expected, before any budget is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ndis.cli.console import Shown, answer
from ndis.cli.kinds import Kind, add_kinds
from ndis.cli.settings import Settings, as_command


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_kinds(app, "forecast", _command, "Predict the error of a release; needs no data.")


def _command(kind: Kind) -> Any:
    options = kind.parameters | kind.sizes | kind.expectations
    needed = kind.needed(*(("n_rows",) if kind.source == "table" else ()))

    def forecast(
        settings: Settings,
        *,
        plot: Path | None = None,
        as_json: bool = False,
    ) -> None:
        """Forecast.

        Parameters
        ----------
        plot : path
            Write error against epsilon as a picture (PNG, SVG or PDF).
        """
        expected = kind.forecast(settings)
        if plot is not None:
            _draw(kind, settings, next(iter(expected.errors)), plot)
        asked = f"epsilon {settings['epsilon']:g}" if "epsilon" in settings else settings["target"]
        errors = {name: list(error) for name, error in expected.errors.items()}
        answer(
            as_json,
            {"errors": errors, "assumptions": list(expected.assumptions)},
            Shown(
                f"To be expected at {asked}, delta {settings['delta']:g}",
                ["quantity", "from", "to"],
                [[name, *(f"{end:.4g}" for end in error)] for name, error in errors.items()],
            ),
            *(f"- assuming {assumption}" for assumption in expected.assumptions),
        )

    return as_command(forecast, f"forecast {kind.name}", options, kind.summary, needed)


def _draw(kind: Kind, settings: Settings, quantity: str, plot: Path) -> None:
    import numpy as np

    from ndis import plots

    def error(epsilon: float) -> float:
        return float(kind.forecast(settings, epsilon=epsilon, target=None).errors[quantity][1])

    grid = (settings.get("epsilon") or 1.0) * np.geomspace(0.1, 10.0, 21)
    plots.compare({"": error}, grid, quantity).savefig(plot)
