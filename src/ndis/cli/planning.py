"""``ndis calibrate``, ``forecast`` and ``explore``: what a release costs, before there are data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ndis.cli import tables
from ndis.cli.console import Reply, Shown, echo
from ndis.cli.kinds import Kind
from ndis.cli.settings import Settings

# Multiples of the epsilon that was asked for.
_AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)


def calibrate(kind: Kind, settings: Settings, *, plot: Path | None = None) -> Reply:
    """Find the least noise that keeps a guarantee.

    Parameters
    ----------
    plot : path
        Write noise against epsilon as a picture (PNG, SVG or PDF).
    """
    plan = kind.plan(settings)
    epsilon = plan.guarantee.epsilon

    def noises(each: float) -> Mapping[str, float]:
        """The noise at another epsilon, in place of the target if there is one."""
        return _by_name(kind.plan(settings, epsilon=each, target=None).noise_scale)

    if plot is not None:
        _draw(lambda each: next(iter(noises(each).values())), epsilon, plot)
    document = {
        "epsilon": epsilon,
        "delta": settings["delta"],
        "method": plan.method,
        "reason": plan.reason,
        "noise_scale": plan.noise_scale,
        "guarantee": plan.guarantee.to_dict(),
    }
    around = [factor * epsilon for factor in _AROUND if epsilon] or [0.0]

    def rows() -> Iterator[list[str]]:
        found = [noises(each) for each in around]  # planned when they are printed
        for name in _by_name(plan.noise_scale):
            yield [name, *(f"{each[name]:.6g}" if name in each else "" for each in found)]

    title = f"Noise at delta {settings['delta']:g}, method {plan.method}"
    shown = Shown(title, ["epsilon", *(f"{each:g}" for each in around)], rows())
    return Reply(document, shown, f"{plan.reason}\n{plan.guarantee}")


def forecast(kind: Kind, settings: Settings, *, plot: Path | None = None) -> Reply:
    """Predict the error of a release; needs no data.

    Parameters
    ----------
    plot : path
        Write error against epsilon as a picture (PNG, SVG or PDF).
    """
    expected = kind.forecast(settings)
    errors = {name: list(error) for name, error in expected.errors.items()}
    if plot is not None:
        first = next(iter(errors))

        def error(epsilon: float) -> float:
            found = kind.forecast(settings, epsilon=epsilon, target=None)
            return float(found.errors[first][1])

        _draw(error, settings.get("epsilon"), plot, first)
    asked = f"epsilon {settings['epsilon']:g}" if "epsilon" in settings else settings["target"]
    title = f"To be expected at {asked}, delta {settings['delta']:g}"
    rows = [[name, *(f"{end:.4g}" for end in error)] for name, error in errors.items()]
    return Reply(
        {"errors": errors, "assumptions": list(expected.assumptions)},
        Shown(title, ["quantity", "from", "to"], rows),
        *(f"- assuming {assumption}" for assumption in expected.assumptions),
    )


def explore(
    kind: Kind, settings: Settings, *, out: Path = Path("explore.html"), seconds: float = 12.0
) -> None:
    """Write a page to choose epsilon with.

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
        kind.size(settings),
        label=settings.get("label"),
        question=kind.name,
        released=kind.make(asked),
        seconds=seconds,
        **expected,
    )
    echo(f"Written to {out}: open it in a browser. It was made from public numbers only.")


def _by_name(noise: Any) -> Mapping[str, float]:
    return noise if isinstance(noise, Mapping) else {"noise scale": noise}


def _draw(
    height: Callable[[float], float], center: float | None, plot: Path, *quantity: str
) -> None:
    import numpy as np

    from ndis import plots

    grid = (center or 1.0) * np.geomspace(0.1, 10.0, 21)
    plots.compare({"": height}, grid, *quantity).savefig(plot)
