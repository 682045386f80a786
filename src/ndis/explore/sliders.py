"""Everything the page shows, computed beforehand for every position of its sliders.

The sliders have steps, and every step is computed: nothing is interpolated. A step of epsilon is a
noise, calibrated to a round epsilon at the delta that was asked for. At that noise the error
depends on the number of rows alone, and the loss tells epsilon at every other delta, the risk, and
what several such releases add up to.
"""

from __future__ import annotations

import copy
import inspect
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ndis._validate import FloatArray
from ndis.guarantee import Guarantee
from ndis.loss import PrivacyLoss
from ndis.tables import track

# Deltas, false-positive rates and numbers of releases to choose from.
DELTAS = tuple(10.0**-power for power in range(3, 13))
RATES = (0.001, 0.01, 0.1)
TIMES = (1, 2, 3, 4, 5, 6, 8, 10, 12)
# Steps in a factor of ten, of epsilon and of rows: as many as there is time for.
_FINENESS = ((24, 3), (12, 3), (12, 1), (6, 1), (6, 0.5), (3, 0.5))
# Points of a curve, and where it may end: at the first of these where delta is small enough.
_POINTS, _ENDS = 400, np.geomspace(0.01, 1e4, 40)


def grid(
    model: Any, size: Any, n_rows: int, seconds: float, label: Any, expected: Mapping[str, Any]
) -> dict[str, Any]:
    """All numbers of the page, by name; see `write_explorer`."""
    model = copy.copy(model)
    epsilon = 1.0 if model.epsilon is None else float(model.epsilon)
    delta = 1e-6 if model.delta is None else float(model.delta)
    labels = {"label": label} if "label" in inspect.signature(model.plan).parameters else {}
    deltas = sorted({*DELTAS, delta}, reverse=True)

    def at(step: float) -> tuple[Any, dict[str, Any]]:
        plan = model.set_params(epsilon=step, delta=delta).plan(size, **labels)
        return plan, _of_loss(plan.loss, deltas, deltas.index(delta), step)

    def error(step: float, rows: int) -> Any:
        model.set_params(epsilon=step, delta=delta)
        return model.forecast(size, n_rows=rows, **expected, **labels)

    promise = at(epsilon)[0].guarantee
    error(epsilon, n_rows)  # what is loaded and cached is not timed
    costs = _seconds(lambda: at(1.1 * epsilon)), _seconds(lambda: error(1.1 * epsilon, n_rows))
    for fine, coarse in _FINENESS:
        epsilons = _steps(min(0.1, epsilon / 10), max(10.0, 10 * epsilon), fine, 2, epsilon)
        rows = [int(n) for n in _steps(max(n_rows / 100, 1), 100 * n_rows, coarse, 1, n_rows)]
        if len(epsilons) * (costs[0] + len(rows) * costs[1]) <= seconds:
            break
    steps = [(step, at(step)) for step in track(epsilons, "Noise and risk", len(epsilons))]
    every = [(step, n) for step in epsilons for n in rows]
    forecasts = [error(*each) for each in track(every, "Errors", len(every))]
    plans, readings = zip(*(found for _, found in steps), strict=True)
    noises = [_by_name(plan.noise_scale) for plan in plans]
    return {
        "mechanism": type(model).__name__,
        "relation": str(promise.relation),
        "change": promise.relation.change,
        "basis": promise.basis,
        "sentence": re.sub(r"\d+(?= times in 100)", "$right", _plainly(promise)),
        "methods": [plan.method for plan in plans],
        "reasons": [plan.reason for plan in plans],
        "deltas": deltas,
        "rows": rows,
        "times": TIMES,
        "rates": RATES,
        "start": [epsilons.index(epsilon), deltas.index(delta), rows.index(n_rows)],
        "epsilon": [each.pop("epsilon") for each in readings],
        "risk": readings,
        "noise": _table(noises),
        "errors": _table([each.errors for each in forecasts]),
        "assumptions": _assumed(forecasts[0].assumptions, rows[0]),
    }


def _plainly(promise: Guarantee) -> str:
    """The sentence of a guarantee that says how often somebody guesses right, if there is one."""
    return next((each for each in promise.sentences() if "times in 100" in each), "")


def _seconds(work: Callable[[], object]) -> float:
    """How long something takes, whatever else the machine is busy with."""
    clocks = time.perf_counter(), time.process_time()
    work()
    return min(time.perf_counter() - clocks[0], time.process_time() - clocks[1])


def _steps(low: float, high: float, fineness: float, digits: int, asked: float) -> list[float]:
    """Round numbers from low to high, and the one that was asked for."""
    ends = [round(fineness * math.log10(end)) for end in (low, high)]
    powers = range(ends[0], ends[1] + 1)
    return sorted({*(float(f"{10 ** (p / fineness):.{digits}g}") for p in powers), asked})


def _of_loss(
    loss: PrivacyLoss, deltas: Sequence[float], asked: int, epsilon: float
) -> dict[str, Any]:
    """What the loss at one noise says: epsilon at every delta, risks of several releases."""
    # Rounded down, since noise is rounded up: who asks for this epsilon gets no less noise. Where
    # delta alone would do, less noise would: such a delta is no way to ask for this noise.
    reached = np.asarray(loss.epsilon(np.array(deltas)))
    own = [float(f"{e * (1 - 1e-9):.9g}") if 0 < e < math.inf else None for e in reached]
    own[asked] = epsilon
    found = [_read(times * loss, deltas) for times in TIMES]
    found[0]["total"] = own
    return {"epsilon": own, **{name: [each[name] for each in found] for name in found[0]}}


def _read(loss: PrivacyLoss, deltas: Sequence[float]) -> dict[str, Any]:
    """Upper bounds on the advantage, true-positive rates and epsilons, from one curve."""
    loss = loss if loss.quick else loss.dominating()
    small = np.flatnonzero(loss.upper_log_delta(_ENDS) <= math.log(min(deltas)))
    epsilon = np.linspace(0.0, _ENDS[small[0] if small.size else -1], _POINTS)
    delta, factor = np.exp(loss.upper_log_delta(epsilon)), np.exp(np.minimum(epsilon, 700.0))
    return {
        "advantage": _share(delta[0]),
        # Every epsilon gives two bounds (see `ndis.risk`).
        "found": [
            _share(min(np.min(delta + factor * rate), np.min(1 - (1 - rate - delta) / factor)))
            for rate in RATES
        ],
        "total": [rounded_up(_first_below(epsilon, delta, wanted)) for wanted in deltas],
    }


def _first_below(epsilon: FloatArray, delta: FloatArray, wanted: float) -> float:
    """An epsilon at which delta is at most `wanted`.

    Delta is convex in e^epsilon, so it is at most what a chord between two points says.
    """
    if not delta[-1] <= wanted:
        return math.inf
    right = int(np.argmax(delta <= wanted))
    if right == 0:
        return 0.0
    share = (delta[right - 1] - wanted) / (delta[right - 1] - delta[right])
    rise = math.expm1(epsilon[right] - epsilon[right - 1])
    return float(epsilon[right - 1] + math.log1p(share * rise))


def rounded_up(value: float) -> float | None:
    """Six digits, above the value by a hundred-thousandth; None where there is no number."""
    return float(f"{value * (1 + 1e-5):.6g}") if math.isfinite(value) else None


def _share(value: float) -> float:
    """A probability, rounded up; it is at most 1."""
    return min(rounded_up(value) or 0.0, 1.0)


def _by_name(noise: Any) -> dict[str, float]:
    return dict(noise) if isinstance(noise, Mapping) else {"noise": noise}


def _table(found: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """What is known by name at each position, as one list for each name."""
    names = dict.fromkeys(name for each in found for name in each)
    return {name: [_numbers(each.get(name, math.nan)) for each in found] for name in names}


def _numbers(value: Any) -> Any:
    ends = [rounded_up(end) for end in np.atleast_1d(value)]
    return ends[0] if len(ends) == 1 else ends


def _assumed(said: Iterable[str], n_rows: int) -> list[str]:
    """What a forecast assumes, whatever the number of rows."""
    number = rf"\b({n_rows}|{n_rows:,})(?= rows| anywhere)"
    return [re.sub(number, "that many", each) for each in said]
