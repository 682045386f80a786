"""An audit of code that adds Gaussian noise: two runs on neighbours, with the same noise.

With its noise frozen a program is a function of its data. Whatever its outputs on two neighbours
differ by is then the shift of a mean, and the noise it asked for is on record: no samples are
needed, and a sensitivity that is too small shows in one run as a proven delta. A program that asks
for other noise on the neighbour, or takes noise from elsewhere, is no such function: it is refused,
since nothing would be proven.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.auditing.verdict import Claim, Verdict
from ndis.loss import QuadraticLoss

# Outputs that differ by no more than this, in units of the noise, differ by rounding.
_ROUNDING = 1e-9
BROKEN = "broken by this pair"
# Methods of a generator that draw: which and of what shape is the control flow of a program.
_DRAWS = {name for name in dir(np.random.Generator) if name[0] != "_"} - {"bit_generator", "spawn"}


@dataclass(frozen=True)
class Call:
    """One request for randomness: by which method, and the shape of what came."""

    method: str
    shape: tuple[int, ...]


class Tape(np.random.Generator):
    """A generator that writes down what is asked of it; the same seed gives the same noise.

    Examples
    --------
    >>> from ndis.auditing.replay import Tape
    >>> tape = Tape(0)
    >>> _ = 3.0 + tape.normal(size=2), tape.uniform()
    >>> [call.method for call in tape.calls]
    ['normal', 'uniform']
    """

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self.calls: list[Call] = []


def _recorded(method: str) -> Any:
    draw = getattr(np.random.Generator, method)

    def record(self: Tape, *args: Any, **kwargs: Any) -> Any:
        result = draw(self, *args, **kwargs)
        self.calls.append(Call(method, np.shape(result)))
        return result

    return record


for _method in _DRAWS:
    setattr(Tape, _method, _recorded(_method))


def audit_replay(
    mechanism: Callable[[Any, np.random.Generator], ArrayLike],
    D: Any,
    D_prime: Any,
    claim: Any,
    *,
    noise_scale: float,
    sensitivity: float | None = None,
    seed: int = 0,
) -> Verdict:
    """Run code on two neighbours with the same noise, and prove what the difference gives away.

    Parameters
    ----------
    mechanism : callable
        `mechanism(data, rng)` returns a value plus Gaussian noise of `noise_scale` in each entry,
        drawn from `rng`.
    D, D_prime : data sets
        Two neighbours.
    claim : (epsilon, delta) or Guarantee
    noise_scale : float
        The standard deviation that the code says it adds to each entry.
    sensitivity : float, optional
        The bound on the change of the value that the code relies on; a larger change is told.
    seed : int
        Of the noise.

    Returns
    -------
    Verdict
        Refuted with a proof if the values are too far apart for the noise. A replay of one pair
        proves nothing about others.

    Raises
    ------
    ValueError
        If the code asks for other noise on the neighbour, or if it does not repeat itself: then its
        noise depends on the data, or does not come from `rng` alone. Audit it by samples.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.auditing import audit_replay
    >>> def noisy_sum(data, rng):  # believes that entries are at most 1
    ...     return np.sum(data) + rng.normal(scale=5.0)
    >>> audit_replay(noisy_sum, [1.0, 30.0], [1.0], (1.0, 1e-6), noise_scale=5.0).outcome
    'refuted'
    """
    asked = Claim.of(claim)
    scale = _validate.positive("noise_scale", noise_scale)
    runs = [_run(mechanism, data, seed) for data in (D, D, D_prime)]
    _check_flow(*runs)
    outputs = [runs[0][0], runs[2][0]]
    looked = [f"one pair of data sets, {len(runs[0][1])} draws of noise replayed"]
    change = float(np.linalg.norm(outputs[0] - outputs[1]))
    witness = f"a change of {change:.6g} between the two data sets given"
    if sensitivity is not None:
        bound = _validate.positive("sensitivity", sensitivity)
        excess = change > bound * (1.0 + _ROUNDING)
        looked.append(f"the sensitivity {bound:g}: " + (BROKEN if excess else "kept by this pair"))
    # Rounding of the outputs may have made the change look larger by this.
    size = max(float(np.linalg.norm(part)) for part in outputs)
    least = change - 8.0 * np.finfo(np.float64).eps * size * outputs[0].size
    if least <= _ROUNDING * scale:
        return Verdict(asked, -np.inf, -np.inf, witness, tuple(looked), _LEFT)
    loss = QuadraticLoss.from_shift(least / scale * (1.0 - 1e-15))
    low, _ = loss.log_delta_bounds(asked.epsilon)
    log_delta = float(QuadraticLoss.from_shift(change / scale).log_delta(asked.epsilon))
    return Verdict(asked, log_delta, float(low), witness, tuple(looked), _LEFT, loss=loss)


_LEFT = ("other neighbours, and noise of other seeds",)


def _run(
    mechanism: Callable[[Any, np.random.Generator], ArrayLike], data: Any, seed: int
) -> tuple[FloatArray, list[Call]]:
    tape = Tape(seed)
    output = np.asarray(mechanism(data, tape), dtype=np.float64).reshape(-1)
    return _validate.floats("output", output), tape.calls


def _check_flow(*runs: tuple[FloatArray, list[Call]]) -> None:
    """Two runs on one data set and one on its neighbour: a function of the data, noise fixed."""
    (output, calls), (again, same), (other, elsewhere) = runs
    if not calls:
        raise ValueError(
            "Expected code that draws its noise from the generator it is given, got none drawn; "
            "pass rng on to whatever adds the noise."
        )
    if calls != same or not np.array_equal(output, again):
        raise ValueError(
            "Expected code that repeats itself with the same noise, got two outputs on one data "
            "set; draw everything that is random from rng."
        )
    if calls != elsewhere or output.shape != other.shape:
        raise ValueError(
            "Expected code that asks for the same noise on both data sets, got other draws or "
            "another size of output: its noise depends on the data; audit it by samples."
        )
