"""Figures in one style. Needs the extra ``plots`` (matplotlib), imported when a figure is drawn."""

import io
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ndis.ledger import Ledger
    from ndis.loss import PrivacyLoss

__all__ = ["burn_down", "compare", "curve", "figure", "intervals", "style", "tradeoff"]


# Nobody cares about a smaller delta: its logarithm to base ten.
_LEAST = -12.0


@contextmanager
def style() -> "Iterator[None]":
    """Use the style of the library inside a ``with`` block, and nowhere else."""
    sheet = resources.files("ndis").joinpath("plots.mplstyle")
    with resources.as_file(sheet) as path, _matplotlib().rc_context(fname=path):
        yield


def figure(title: str = "") -> "tuple[Figure, Axes]":
    """Return an empty figure that belongs to no global state, and its axes; notebooks show it."""
    _matplotlib()
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=100)
            return content.getvalue()

    new = Shown()
    axes = new.add_subplot()
    axes.set_title(title)
    return new, axes


def curve(
    losses: "PrivacyLoss | Mapping[str, PrivacyLoss]",
    epsilons: ArrayLike,
    *,
    marked: ArrayLike | Mapping[str, ArrayLike] = (),
    title: str = "",
) -> "Figure":
    """Draw delta against epsilon, delta on a logarithmic scale.

    Parameters
    ----------
    losses : loss or profile, or mapping of label to loss or profile
        What to draw. An exact zero of delta has no place on the scale and is left out.
    epsilons : array_like of shape (n,)
        Where to evaluate.
    marked : array_like of shape (k,), or mapping of label to array_like
        Where to put a mark, on each curve or on that of a label.
    title : str
        Above the figure.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``savefig``; notebooks show it.

    Examples
    --------
    >>> from ndis import QuadraticLoss, plots
    >>> figure = plots.curve(QuadraticLoss.from_shift(1.0), [0.0, 1.0, 2.0])
    >>> figure.axes[0].get_xlabel()
    'epsilon'
    """
    grid = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    named = losses if isinstance(losses, Mapping) else {"": losses}
    with _drawing(title, named, "epsilon", "delta") as (new, axes):
        for label, loss in named.items():
            (line,) = axes.plot(grid, _heights(loss, grid), label=label)
            here = marked.get(label, ()) if isinstance(marked, Mapping) else marked
            points = np.asarray(here, dtype=np.float64)
            if points.size:
                axes.plot(points, _heights(loss, points), "o", color=line.get_color())
        axes.yaxis.set_major_formatter(lambda height, _: f"$10^{{{height:g}}}$")
        _end_where_it_matters(axes)
    return new


def _end_where_it_matters(axes: "Axes") -> None:
    """End the axis of delta at 1e-12, or a little below the least mark where that is lower."""
    low, high = axes.get_ylim()
    marks = [line.get_ydata() for line in axes.lines if line.get_linestyle() == "None"]
    least = np.nanmin(np.concatenate([[_LEAST], *marks]))
    if low < least < high:
        axes.set_ylim(least if least == _LEAST else least - 1.0, high)


def _heights(loss: "PrivacyLoss", epsilons: Any) -> Any:
    """log10 delta, from ln delta, so that a curve goes on below the smallest double."""
    heights = np.asarray(loss.log_delta(epsilons)) / math.log(10)
    return np.where(np.isfinite(heights), heights, np.nan)


def tradeoff(
    losses: "PrivacyLoss | Mapping[str, PrivacyLoss]",
    alphas: ArrayLike | None = None,
    *,
    log: bool = False,
    title: str = "",
) -> "Figure":
    """Draw the trade-off curve: what an attacker misses at least, against false alarms.

    Parameters
    ----------
    losses : loss or profile, or mapping of label to loss or profile
        What to draw. The dashed line is an attacker who guesses; the closer to it, the more
        private.
    alphas : array_like of shape (n,), optional
        Shares of false alarms at which to evaluate; from 0 to 1 if not given.
    log : bool
        Draw one less the misses, which is what an attacker catches at most, on logarithmic scales:
        few false alarms are easier to see. Then `alphas` are above 0, from 1e-5 if not given.
    title : str
        Above the figure.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``savefig``; notebooks show it.

    Examples
    --------
    >>> from ndis import QuadraticLoss, plots
    >>> figure = plots.tradeoff(QuadraticLoss.from_shift(1.0), [0.0, 0.5, 1.0])
    >>> figure.axes[0].lines[0].get_ydata().round(3).tolist()
    [1.0, 0.159, 0.0]
    """
    if alphas is None:
        alphas = np.geomspace(1e-5, 1.0, 101) if log else np.linspace(0.0, 1.0, 101)
    levels = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    named = losses if isinstance(losses, Mapping) else {"": losses}
    height = "caught (1 - beta)" if log else "beta: missed (type II error)"
    with _drawing(title, named, "alpha: false alarms (type I error)", height) as (new, axes):
        for label, loss in named.items():
            missed = np.asarray(loss.tradeoff(levels))
            axes.plot(levels, 1.0 - missed if log else missed, label=label)
        guess = levels if log else 1.0 - levels
        axes.plot(levels, guess, color="#888888", linestyle="--", linewidth=1.0, label="guessing")
        if log:
            axes.set_xscale("log")
            axes.set_yscale("log")
        else:
            axes.set_aspect("equal")
    return new


def compare(
    ways: Mapping[str, Callable[[float], float]],
    epsilons: ArrayLike,
    quantity: str = "noise scale",
    *,
    title: str = "",
) -> "Figure":
    """Draw what each way of making a release costs at each epsilon, on logarithmic scales.

    Parameters
    ----------
    ways : mapping of label to callable
        Each maps an epsilon to a positive number. A ValueError is a gap in the curve: the way
        is not available at that epsilon.
    epsilons : array_like of shape (n,)
        Where to evaluate, above 0.
    quantity : str
        What the numbers are.
    title : str
        Above the figure.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``savefig``; notebooks show it.

    Examples
    --------
    >>> from ndis import GaussianMechanism, plots
    >>> ways = {
    ...     f"delta = {delta:g}": lambda epsilon, delta=delta: GaussianMechanism(
    ...         epsilon=epsilon, delta=delta, sensitivity=1.0
    ...     ).calibrate()
    ...     for delta in (1e-6, 1e-9)
    ... }
    >>> figure = plots.compare(ways, [0.1, 0.5, 2.0])
    >>> figure.axes[0].lines[0].get_ydata().round(1).tolist()
    [36.3, 8.1, 2.2]
    """
    grid = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    with _drawing(title, ways, "epsilon", quantity) as (new, axes):
        for label, way in ways.items():
            axes.loglog(grid, [_or_gap(way, float(value)) for value in grid], label=label)
    return new


def _or_gap(way: Callable[[float], float], epsilon: float) -> float:
    try:
        return float(way(epsilon))
    except ValueError:
        return math.nan


@contextmanager
def _drawing(
    title: str, named: Iterable[str], width: str, height: str
) -> "Iterator[tuple[Figure, Axes]]":
    """A figure whose axes and curves get their names."""
    with style():
        new, axes = figure(title)
        yield new, axes
        axes.set_xlabel(width)
        axes.set_ylabel(height)
        if any(named):  # above the axes, where no curve can run through it
            new.legend(loc="outside upper left", ncols=2)


def burn_down(ledger: "Ledger") -> "Figure":
    """Draw the epsilon that remained in a ledger after each release.

    Parameters
    ----------
    ledger : Ledger
        In adaptive mode the height is that of the largest Gaussian release that would have
        been admitted; in plan mode, of the rest of the plan. Both at the ledger's delta.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``savefig``; notebooks show it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ndis import Ledger, plots
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Ledger.create(pathlib.Path(folder) / "budget", 1.0, 1e-6, "replace") as ledger:
    ...         figure = plots.burn_down(ledger)
    >>> figure.axes[0].get_xlabel()
    'releases'
    """
    releases, left = ledger.burn_down()
    height = f"epsilon left at delta {ledger.delta:g}"
    with _drawing("", ["left"], "releases", height) as (new, axes):
        axes.step(
            releases, left, where="post", marker="o" if len(left) < 40 else None, label="left"
        )
        axes.axhline(
            ledger.epsilon, color="#888888", linestyle="--", linewidth=1.0, label="the budget"
        )
        axes.locator_params(axis="x", integer=True)
        axes.set_ylim(0.0, 1.05 * ledger.epsilon)
    return new


def intervals(found: Any, *, title: str = "") -> "Figure":
    """Draw estimates with their intervals, from top to bottom.

    Parameters
    ----------
    found : Intervals
        As an estimator's `intervals` returns them. What is not known is named, without a mark.
    title : str
        Above the figure.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``savefig``; notebooks show it.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import plots
    >>> from ndis.mechanisms import Intervals
    >>> found = Intervals.of_normal(("age", "hired"), np.ones((1, 2)), np.full((1, 2), 0.5))
    >>> [text.get_text() for text in plots.intervals(found).axes[0].get_yticklabels()]
    ['age', 'hired']
    """
    several = found.estimate.ndim == 2
    labels = found.labels if several else ("",)
    names = [f"{label}: {name}" if several else name for label in labels for name in found.names]
    estimate, low, high = (
        np.reshape(part, -1) for part in (found.estimate, found.lower, found.upper)
    )
    places = np.arange(len(names))
    covers = f"estimate and {100 * found.level:.4g}% interval"
    with _drawing(title, [], covers, "") as (new, axes):
        axes.errorbar(estimate, places, xerr=[estimate - low, high - estimate], fmt="o", capsize=3)
        axes.axvline(0.0, color="#888888", linestyle="--", linewidth=1.0)
        axes.set_yticks(places, labels=names)
        axes.set_ylim(len(names) - 0.5, -0.5)
    return new


def _matplotlib() -> Any:
    with _validate.installed("matplotlib for a figure", "'ndis[plots]'"):
        import matplotlib
    return matplotlib
