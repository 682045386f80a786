"""What noise has to achieve, and what is bought with it: a list of named parts.

Whatever a mechanism reads of its data is a part: how far one row moves it, and its share of the
budget. Gaussian noise on sums is one mean shift, however many parts it has, so that the squared
shifts of all parts add up to D^2; shares are shares of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ndis import _validate
from ndis._validate import wrong
from ndis.calibration import ROUND_UP, least_noise, noise_multiplier, shift_profile
from ndis.guarantee import BASES, Guarantee, NeighbourRelation
from ndis.loss import PrivacyLoss
from ndis.risk import Risk

Noise = Any  # a number, or a number for each part by name

# What limits that are to be found take of D^2, where something else is released from the table.
LIMITS, LIMITS_SHARE = "limits", 0.1
# What the number of rows takes that count alike of one person, where it is to be found.
PEOPLE, PEOPLE_SHARE = "rows_per_person", 0.005
# Stop within 1e-4 of the risk; at most four tries.
_REACHED, _LOOKS = 1e-4, 4


@dataclass(frozen=True)
class Target:
    """What noise has to achieve: (epsilon, delta), or a delta at a noise that is given.

    A risk is achieved with any (epsilon, delta) that keeps to it. Start from the pair that is
    optimal for a Gaussian shift; refine it for other losses.

    Attributes
    ----------
    epsilon : float or None
    delta : float
    limits : float
        How far a row moves the histograms that limits are found from; 0 if none are.
    risk : Risk, optional
        What is asked for instead of epsilon.
    promised : float, optional
        The delta to promise, where a risk is asked for.
    stated : float, optional
        The epsilon to promise at a noise that is given, in place of the one that follows.
    person : str, optional
        The column that names people, where all rows of one person count at most as one row: what
        is promised for adding or removing a row is then promised for a person.
    counts : bool
        Whether it is bought how many rows of a person count alike.
    alone : bool
        Whether a row that does not say whose it is counts as that of a person who has no other, as
        the caller has declared.
    """

    epsilon: float | None
    delta: float
    limits: float = 0.0
    risk: Risk | None = None
    promised: float | None = None
    stated: float | None = None
    person: str | None = None
    counts: bool = False
    alone: bool = False

    @classmethod
    def of(cls, risk: Risk, delta: float) -> Target:
        """A risk, and the delta of the promise that follows."""
        if not isinstance(risk, Risk):
            raise TypeError(
                f"Expected target to be a Risk, got target={risk!r}; pass ndis.Risk(...)."
            )
        return cls(*risk.pair(), risk=risk, promised=delta)

    @property
    def limits_noise(self) -> float:
        """The noise of those histograms where they have their share of the squared budget."""
        return self.unit * self.limits / math.sqrt(LIMITS_SHARE) * ROUND_UP

    @property
    def people_noise(self) -> float:
        """The noise of the histogram of rows of a person where it has its share."""
        return self.unit / math.sqrt(PEOPLE_SHARE) * ROUND_UP

    @property
    def unit(self) -> float:
        """The noise on a number that one row moves by one."""
        assert self.epsilon is not None
        return noise_multiplier(self.epsilon, self.delta)

    def least(
        self, calibrated: Callable[[float, float], float], family: Callable[[float], PrivacyLoss]
    ) -> float:
        """The least noise, by a function that finds it for (epsilon, delta)."""
        assert self.epsilon is not None
        noise = calibrated(self.epsilon, self.delta)
        risk = self.risk
        if risk is None or risk.advantage is not None:
            return noise
        for _ in range(_LOOKS):
            loss, before = family(noise), noise
            if risk.of(loss) - risk.without >= (1.0 - _REACHED) * (risk.limit - risk.without):
                return noise
            noise = min(noise, calibrated(*risk.pair(loss)))
            if noise > (1.0 - _REACHED) * before and not loss.quick:
                return noise
        # Of a loss with few values the best epsilon moves with the noise: close in on the noise.
        low = 0.5 * noise
        while risk.of(family(low)) <= risk.aim:
            low, noise = 0.5 * low, low
        while low < (1.0 - _REACHED) * noise:
            middle = math.sqrt(low * noise)
            keeps = risk.of(family(middle)) <= risk.aim
            low, noise = (low, middle) if keeps else (middle, noise)
        return noise

    def least_noise(
        self, family: Callable[[float], PrivacyLoss], start: float = 1.0, given: float | None = None
    ) -> tuple[float, PrivacyLoss]:
        """The least noise of a family of losses, or the given one; and its loss.

        What is spent on limits is no part of it: a family that has some adds
        ``shift_profile(target.limits / target.limits_noise)`` to each of its losses.
        """
        if given is None:
            given = self.least(lambda eps, d: least_noise(family, eps, d, start=start), family)
        return given, family(given)

    def promise(
        self,
        loss: PrivacyLoss,
        relation: NeighbourRelation | str,
        basis: str = "proven",
        note: str = "",
    ) -> Guarantee:
        """The guarantee of a loss that achieves it."""
        delta = self.delta if self.promised is None else self.promised
        epsilon = self.stated if self.epsilon is None else self.epsilon
        if epsilon is None or self.risk is not None:
            epsilon = float(loss.epsilon(delta))
        kind = NeighbourRelation(relation)
        if self.person is not None:
            if kind is not NeighbourRelation.ADD_REMOVE:
                raise wrong("relation", "person")(
                    f"Expected the relation add-remove together with person, got {kind}; leave "
                    "one of them out."
                )
            kind = NeighbourRelation.of_person(self.person)
        if self.alone:
            basis = max(basis, "declared", key=BASES.index)
            each = f"A row without a {self.person} counts as a {self.person} of its own."
            note = f"{each} {note}".strip()
        return Guarantee(epsilon, delta, kind, basis, loss, note=note)


@dataclass(frozen=True)
class Part:
    """One thing that is bought.

    Attributes
    ----------
    name : str or None
        None for the only part of a mechanism: its noise is then told as a number.
    sensitivity : float or None
        How far one row moves it, in Euclidean norm; None where noise hides more than a mean that
        moves, as in a sketch.
    share : float
        Its share of the squared shift D^2 of all parts that have a sensitivity.
    noise : float
        The standard deviation of its noise, in its own units; set by `mean_shift`.
    """

    name: str | None
    sensitivity: float | None = None
    share: float = 1.0
    noise: float = math.nan


def noise_of(parts: Collection[Part]) -> Noise:
    """The noise of each part by name; a number where the only part has none."""
    if any(part.name is None for part in parts):
        (only,) = parts
        return only.noise
    return {str(part.name): part.noise for part in parts}


def mean_shift(
    target: Target, parts: Iterable[Part], given: Noise | None = None
) -> tuple[tuple[Part, ...], PrivacyLoss]:
    """Noise on several sums that is one mean shift, D^2 = sum (sensitivity / noise)^2.

    Limits that are to be found are one more part of it, named "limits", with a tenth of D^2, or all
    of it where there is no other part; so is the number of rows of a person, with a 200th.

    Parameters
    ----------
    target : Target
    parts : iterable of Part
        Shares add up to one.
    given : float, or dict of str to float, optional
        The noise of each part, where the caller has chosen it.

    Returns
    -------
    parts : tuple of Part
        With their noise.
    loss : PrivacyLoss

    Examples
    --------
    >>> from ndis.mechanisms.target import Part, Target, mean_shift, noise_of
    >>> asked = [Part("sum", 2.0, 0.8), Part("count", 1.0, 0.2)]
    >>> parts, loss = mean_shift(Target(1.0, 1e-6), asked)
    >>> noise = noise_of(parts)
    >>> f"{noise['sum']:.4f}", f"{noise['count']:.4f}", f"{loss.delta(1.0):.3e}"
    ('9.4467', '9.4467', '1.000e-06')
    """
    parts = list(parts)
    if target.limits:
        own = LIMITS_SHARE if parts else 1.0
        parts = [replace(part, share=(1.0 - LIMITS_SHARE) * part.share) for part in parts]
        parts.append(Part(LIMITS, target.limits, own))
    if target.counts:  # a person is in one bin
        parts = [replace(part, share=(1.0 - PEOPLE_SHARE) * part.share) for part in parts]
        parts.append(Part(PEOPLE, 1.0, PEOPLE_SHARE))
    if given is not None:
        parts = chosen_noise(given, parts)
    else:
        parts = [
            replace(part, noise=target.unit * _moved(part) / math.sqrt(part.share) * ROUND_UP)
            for part in parts
        ]
    # From the noise, even where the target says it: a stranger who knows the noise alone finds the
    # same loss, to the last bit.
    distance = math.sqrt(math.fsum((_moved(part) / part.noise) ** 2 for part in parts))
    return tuple(parts), shift_profile(distance)


def _moved(part: Part) -> float:
    assert part.sensitivity is not None
    return part.sensitivity


def chosen_noise(given: Noise, parts: Collection[Part]) -> list[Part]:
    """The parts with their noise, as the caller has chosen it."""
    names = [part.name for part in parts]
    if names == [None]:
        return [replace(part, noise=_validate.positive("noise_scale", given)) for part in parts]
    if not isinstance(given, Mapping) or set(given) != set(names):
        raise ValueError(
            f"Expected noise_scale to name {', '.join(map(str, names))}, got {given!r}; "
            "pass a dict with the noise of each."
        )
    return [
        replace(part, noise=_validate.positive(f"noise_scale[{part.name!r}]", given[part.name]))
        for part in parts
    ]


def require_rows(n_rows: int, max_rows: int) -> None:
    """Refuse a table that is longer than was declared."""
    if n_rows > max_rows:
        raise wrong("max_rows")(
            f"Expected at most max_rows={max_rows} rows, as declared public, got more; "
            "raise max_rows, or hand over fewer rows."
        )
