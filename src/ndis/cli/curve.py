"""``ndis curve``: delta against epsilon for a composition of Gaussian pairs."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from ndis._validate import read_text
from ndis.cli.console import Reply, Shown

if TYPE_CHECKING:
    from ndis.gaussian import Gaussian
    from ndis.loss import Profile

# Laws in a file that somebody else may have written: about 10 s of work.
_MOST_DIMENSIONS = 500
_DEFAULT_EPSILONS = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]


def curve(
    *,
    shift: list[float] | None = None,
    leverage: list[float] | None = None,
    n_components: int = 1,
    pair: list[Path] | None = None,
    times: int = 1,
    epsilon: list[float] | None = None,
    plot: Path | None = None,
) -> Reply:
    """Show the privacy curve delta(epsilon), the worse of record present and record absent.

    Parameters
    ----------
    shift : list of float
        Mean shift in units of the noise; repeat to compose several.
    leverage : list of float
        Leverage of a record in a sketch; repeat to compose several.
    n_components : int
        Columns of each sketch.
    pair : list of path
        JSON file with two Gaussian laws, {"P": {"mean": [...], "cov": [[...]]}, "Q": {...}};
        repeat to compose several.
    times : int
        Compose the whole this many times.
    epsilon : list of float
        Where to evaluate; repeat for several.
    plot : path
        Write the curve as a picture (PNG, SVG or PDF).
    """
    worst = _worst_case(shift or [], leverage or [], n_components, pair or [], times)
    epsilons = sorted(epsilon or _DEFAULT_EPSILONS)
    log_deltas = [float(worst.log_delta(value)) for value in epsilons]
    if plot is not None:
        from ndis import plots

        parts = [f"shift {value:g}" for value in shift or ()]
        parts += [f"leverage {value:g}, {n_components} columns" for value in leverage or ()]
        parts += [path.name for path in pair or ()]
        title = " + ".join(parts) if times == 1 else f"{times} times ({' + '.join(parts)})"
        plots.curve(worst, _smooth(epsilons), marked=epsilon or (), title=title).savefig(plot)
    document = {
        "epsilon": epsilons,
        "delta": [float(worst.delta(value)) for value in epsilons],
        # ln 0 is not a JSON number: an exact zero is shown as null.
        "log_delta": [value if math.isfinite(value) else None for value in log_deltas],
    }
    rows = [
        [f"{value:g}", f"{worst.delta(value):.6e}", f"{log_delta / math.log(10):.4f}"]
        for value, log_delta in zip(epsilons, log_deltas, strict=True)
    ]
    title = "Privacy curve, worse of both directions"
    return Reply(document, Shown(title, ["epsilon", "delta", "log10 delta"], rows))


def _smooth(epsilons: list[float]) -> list[float]:
    """So many points that a curve has no corners, around those that were asked for."""
    low, high = min(0.0, epsilons[0]), max(2.0 * epsilons[-1], 1.0)
    return [low + (high - low) * step / 200 for step in range(201)]


def _worst_case(
    shifts: list[float], leverages: list[float], n_components: int, pairs: list[Path], times: int
) -> "Profile":
    """Compose the losses and take the worse of both directions."""
    from ndis.gaussian import profile
    from ndis.loss import Profile, QuadraticLoss

    losses = [QuadraticLoss.from_shift(distance) for distance in shifts]
    losses += [QuadraticLoss.from_leverage(p, n_components) for p in leverages]
    profiles = [Profile.both(loss) for loss in losses]
    profiles += [profile(*read_pair(path)) for path in pairs]
    if not profiles:
        raise ValueError(
            "Expected at least one loss, got none; pass --shift DISTANCE, --leverage P or "
            "--pair FILE."
        )
    total = profiles[0]
    for each in profiles[1:]:
        total = total + each
    composed: Profile = total * times
    return composed


def read_pair(path: Path) -> "list[Gaussian]":
    """The two laws in a JSON file."""
    from ndis.gaussian import Gaussian

    text = read_text(path)
    try:
        content = json.loads(text)
        laws = [(content[name]["mean"], content[name]["cov"]) for name in ("P", "Q")]
        longest = max(len(part) for law in laws for part in law)
        if longest > _MOST_DIMENSIONS:
            raise ValueError(
                f"Expected laws of at most {_MOST_DIMENSIONS} dimensions in {path}, got {longest}; "
                "use ndis.audit_pair in Python."
            )
        return [Gaussian(*law) for law in laws]
    except (KeyError, TypeError, RecursionError, json.JSONDecodeError):
        raise ValueError(
            f'Expected {{"P": {{"mean": [...], "cov": [[...]]}}, "Q": {{...}}}} in {path}, got '
            "something else; give both laws."
        ) from None
