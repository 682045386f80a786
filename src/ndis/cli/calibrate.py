"""``ndis calibrate``: how much noise a guarantee costs, before there are data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from ndis.cli.console import Shown, answer
from ndis.cli.kinds import Kind, add_kinds
from ndis.cli.settings import Settings, as_command

# Multiples of the epsilon that was asked for.
_AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_kinds(app, "calibrate", _command, "Find the least noise that keeps a guarantee.")


def _command(kind: Kind) -> Any:
    options, needed = kind.parameters | kind.sizes, kind.needed()

    def calibrate(
        settings: Settings,
        *,
        plot: Path | None = None,
        as_json: bool = False,
    ) -> None:
        """Calibrate.

        Parameters
        ----------
        plot : path
            Write noise against epsilon as a picture (PNG, SVG or PDF).
        """
        plan = kind.plan(settings)
        if plot is not None:
            _draw(kind, settings, plot)
        epsilon = plan.guarantee.epsilon
        document = {
            "epsilon": epsilon,
            "delta": settings["delta"],
            "method": plan.method,
            "reason": plan.reason,
            "noise_scale": plan.noise_scale,
            "guarantee": plan.guarantee.to_dict(),
        }
        rows = (  # planned when they are printed
            [f"{each:g}", *(f"{noise:.6g}" for noise in _noises(kind, settings, each).values())]
            for each in [factor * epsilon for factor in _AROUND if epsilon] or [0.0]
        )
        title = f"Noise at delta {settings['delta']:g}, method {plan.method}"
        shown = Shown(title, ["epsilon", *_by_name(plan.noise_scale)], rows)
        answer(as_json, document, shown, f"{plan.reason}\n{plan.guarantee}")

    return as_command(calibrate, f"calibrate {kind.name}", options, kind.summary, needed)


def _noises(kind: Kind, settings: Settings, epsilon: float) -> Mapping[str, float]:
    """The noise at another epsilon, in place of the target if there is one."""
    return _by_name(kind.plan(settings, epsilon=epsilon, target=None).noise_scale)


def _by_name(noise: Any) -> Mapping[str, float]:
    return noise if isinstance(noise, Mapping) else {"noise scale": noise}


def _draw(kind: Kind, settings: Settings, plot: Path) -> None:
    import numpy as np

    from ndis import plots

    def noise(epsilon: float) -> float:
        return next(iter(_noises(kind, settings, epsilon).values()))

    centre = kind.plan(settings).guarantee.epsilon or 1.0
    plots.compare({"": noise}, centre * np.geomspace(0.1, 10.0, 21)).savefig(plot)
