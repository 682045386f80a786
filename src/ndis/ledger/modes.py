"""The two honest ways to add up releases: as they come, or as they were planned.

A mode knows how a release changes the state that the chain protects, whether there is room for
it, and what is left. It is handed states and entries; it never opens the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import least_noise, meets
from ndis.guarantee import Guarantee
from ndis.ledger.composition import compose, directions, meets_alone
from ndis.ledger.filter import Filter
from ndis.loss import Profile, QuadraticLoss

State = dict[str, Any]
Result = TypeVar("Result")

# A table of a plan has this many grid points in an epsilon of the budget.
_CELLS = 2048


class Refused(ValueError):
    """The ledger is in order, and what was asked of it is not."""


class BudgetExceeded(Refused):
    """A release was refused; nothing was spent and no noise was drawn.

    Attributes
    ----------
    asked : float
        Epsilon of the release at the ledger's delta.
    left : float
        Epsilon left, at the ledger's delta (see `Ledger.remaining`).
    """

    def __init__(self, message: str, asked: float, left: float) -> None:
        super().__init__(message)
        self.asked, self.left = asked, left

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep both figures when the error crosses processes."""
        return type(self), (*self.args, self.asked, self.left)


@dataclass(frozen=True)
class Remaining:
    """What may still be spent, in terms of one Gaussian (mean-shift) release.

    Attributes
    ----------
    epsilon, delta : float
        That release alone would be (epsilon, delta)-private, delta being the ledger's.
    shift : float
        Its sensitivity in standard deviations of its noise.
    reason : str
        Why an untouched budget leaves less than all of it.
    """

    epsilon: float
    delta: float
    shift: float
    reason: str = ""

    def __str__(self) -> str:
        """Both numbers, and the reason."""
        told = f"epsilon {self.epsilon:.4g} at delta {self.delta:g}"
        return f"{told} ({self.reason})" if self.reason else told

    def shared(self, times: int, delta: float | None = None) -> Remaining:
        """The share of each of so many equal releases, at a delta of its own if one is named.

        Squared shifts add up, in a plan and in the filter alike.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from ndis import Ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Ledger.create(pathlib.Path(folder) / "budget", 2.0, 1e-5, "replace") as ledger:
        ...         f"{ledger.remaining().shared(12, 1e-6).epsilon:.3f}"
        '0.564'
        """
        shift = self.shift / math.sqrt(_validate.count("times", times)) * (1.0 - 1e-9)
        at = self.delta if delta is None else _validate.probability("delta", delta)
        return Remaining(float(QuadraticLoss.from_shift(shift).epsilon(at)), at, shift)


@dataclass(frozen=True)
class _Rules(ABC):
    """A budget (epsilon, delta) and a rule for adding releases up: what both modes share.

    Each has a `start` of its state, the `cost` of a release, which is found without holding up
    other processes, and the state `after` it. It adds releases up afresh (`added_up`, which can be
    summed), tells whether a state is `off` that sum, and finds any further `fault`.
    """

    epsilon: float
    delta: float

    @abstractmethod
    def left(self, state: State) -> Remaining:
        """What may still be spent."""

    def total(self, guarantees: Sequence[Guarantee]) -> Profile:
        """The loss of these releases, added up as if they had been planned."""
        if not guarantees:
            return Profile.both(QuadraticLoss(0.0, 0.0, 0.0))
        return compose(list(_counted(guarantees).values()), self.epsilon / _CELLS)

    def promised(self) -> Profile | None:
        """The loss of all releases, past and future, where more is known than the budget."""
        return None

    def refusal(self, state: State, guarantee: Guarantee) -> BudgetExceeded:
        """The error for a release without room."""
        asked, left = self._epsilon_of(guarantee), self.left(state).epsilon
        return BudgetExceeded(self._without_room(state, asked, left), asked, left)

    def _without_room(self, state: State, asked: float, left: float) -> str:
        return (
            f"Expected a release within the budget, got epsilon={asked:.6g} where {left:.6g} "
            f"is left, both at delta={self.delta:g}; ask for less."
        )

    def _epsilon_of(self, guarantee: Guarantee) -> float:
        if guarantee.loss is None:
            return guarantee.epsilon if guarantee.delta <= self.delta else math.inf
        first, second = directions(guarantee)
        return float(Profile([*first, *second]).epsilon(self.delta))


@dataclass(frozen=True)
class Adaptive(_Rules):
    """Later releases may depend on earlier outputs; the state holds the filter's totals."""

    filter: Filter

    def start(self) -> State:
        """Nothing spent."""
        return {"totals": written(np.zeros((2, self.filter.width)))}

    def cost(self, guarantee: Guarantee) -> FloatArray:
        """The cost of the release, to be added to the totals."""
        return _cost(self.filter, guarantee)

    def after(self, state: State, guarantee: Guarantee, cost: Any, *, first: bool) -> State | None:
        """Totals with the release, if the filter admits them."""
        totals = read(state["totals"]) + cost
        if self.filter.admits(totals) or (
            # The first release depends on no output, so that its own exact delta may decide. If
            # only that admits it, nothing is admitted after it: totals never fall.
            first and meets_alone(guarantee, self.epsilon, self.delta)
        ):
            return {"totals": written(totals)}
        return None

    def left(self, state: State) -> Remaining:
        """The largest Gaussian release that the filter would admit."""
        totals = read(state["totals"])
        shift = math.sqrt(float(self.filter.largest_shift(totals[None])[0]))
        epsilon = float(QuadraticLoss.from_shift(shift).epsilon(self.delta))
        if totals.any():
            return Remaining(epsilon, self.delta, shift)
        price = 1.0 - epsilon / self.epsilon
        reason = (
            f"nothing is spent; deciding release by release costs {price:.1%} of "
            f"{self.epsilon:g}, a single release may use it all"
        )
        return Remaining(epsilon, self.delta, shift, reason)

    def burn_down(self, guarantees: Sequence[Guarantee], moments: Sequence[int]) -> list[float]:
        """Epsilon of the largest Gaussian release at each moment."""
        totals = np.cumsum([np.zeros((2, self.filter.width)), *self._costs(guarantees)], axis=0)
        shifts = np.sqrt(self.filter.largest_shift(totals[list(moments)]))
        epsilons: list[float] = QuadraticLoss.from_shift(shifts).epsilon(self.delta).tolist()
        return epsilons

    def fault(self, state: State, guarantees: Sequence[Guarantee]) -> str | None:
        """A fault of totals that should be the sum of these releases; None if there is none."""
        if not self.filter.keeps(self.epsilon, self.delta):
            return "its filter does not keep its budget"
        stored = read(state["totals"])
        alone = len(guarantees) == 1 and meets_alone(guarantees[0], self.epsilon, self.delta)
        return None if alone or self.filter.admits(stored) else "more was spent than the budget"

    def added_up(self, guarantees: Sequence[Guarantee]) -> FloatArray:
        """The sum of the releases' costs."""
        times, each = Counter(map(id, guarantees)), {id(given): given for given in guarantees}
        costs = (times[key] * self.cost(given) for key, given in each.items())
        return sum(costs, np.zeros((2, self.filter.width)))

    def off(self, state: State, fresh: FloatArray) -> str | None:
        """Whether the totals are another sum; another processor may round another way."""
        if np.allclose(fresh, read(state["totals"]), rtol=1e-9, atol=0.0):
            return None
        return "its totals are not the sum of its releases"

    def _costs(self, guarantees: Sequence[Guarantee]) -> list[FloatArray]:
        return _each(self.cost, guarantees)


@dataclass(frozen=True)
class Planned(_Rules):
    """Releases fixed beforehand; the state counts those left, by fingerprint.

    `parts` are the distinct guarantees of the plan and how often each may be used; none before
    there is a plan.
    """

    parts: dict[str, tuple[Guarantee, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, epsilon: float, delta: float, guarantees: Sequence[Guarantee]) -> Planned:
        """A plan; refused if its exact total is not proven to be within the budget."""
        plan = cls(epsilon, delta, _counted(guarantees))
        if not guarantees:
            raise ValueError("Expected at least one release in the plan, got none; list them.")
        if not plan.fits():
            asked = plan._total(plan.whole()).epsilon
            raise BudgetExceeded(
                f"Expected a plan within epsilon={epsilon:g} at delta={delta:g}, got {asked:.6g}; "
                "plan less or with more noise.",
                asked,
                epsilon,
            )
        return plan

    def to_list(self) -> list[dict[str, Any]]:
        """The plan as JSON."""
        return [
            {"guarantee": guarantee.to_dict(), "times": times}
            for guarantee, times in self.parts.values()
        ]

    @classmethod
    def from_list(cls, epsilon: float, delta: float, stored: list[dict[str, Any]]) -> Planned:
        """Read what `to_list` wrote, without composing it again."""
        read = [
            (Guarantee.from_dict(part["guarantee"]), _validate.count("times", part["times"]))
            for part in stored
        ]
        return cls(epsilon, delta, {fingerprint(given): (given, times) for given, times in read})

    def fits(self) -> bool:
        """Whether the whole plan is proven to be within the budget."""
        parts = list(self.parts.values())
        if len(parts) == 1 and parts[0][1] == 1:
            return meets_alone(parts[0][0], self.epsilon, self.delta)
        return meets(compose(parts, self.epsilon / _CELLS), self.epsilon, self.delta)

    def promised(self) -> Profile | None:
        """The exact total of the plan."""
        return compose(list(self.parts.values()), self.epsilon / _CELLS) if self.parts else None

    def whole(self) -> Counter[str]:
        """How often each guarantee was planned."""
        return Counter({key: times for key, (_, times) in self.parts.items()})

    def start(self) -> State:
        """No plan yet, or nothing of it used."""
        return {"left": dict(self.whole())} if self.parts else {}

    def cost(self, guarantee: Guarantee) -> str:
        """The fingerprint under which the release was planned."""
        return fingerprint(guarantee)

    def after(self, state: State, guarantee: Guarantee, cost: Any, *, first: bool) -> State | None:
        """The rest of the plan, if the release is in it."""
        if "left" not in state:
            raise Refused(
                "Expected a ledger with a plan, got one without; fill it with `ndis ledger plan` "
                "or `Ledger.plan`."
            )
        left: Counter[str] = Counter(state["left"])
        return {"left": dict(left - Counter([cost]))} if left[cost] else None

    def left(self, state: State) -> Remaining:
        """The total of the rest of the plan; without a plan, the whole budget."""
        if "left" in state:
            return self._total(Counter(state["left"]))
        return _as_gaussian(self.epsilon, self.delta)

    def burn_down(self, guarantees: Sequence[Guarantee], moments: Sequence[int]) -> list[float]:
        """Epsilon of the rest of the plan at each moment."""
        if not self.parts:
            return [self.epsilon] * len(moments)
        keys = _each(fingerprint, guarantees)
        return [self._total(self.whole() - Counter(keys[:moment])).epsilon for moment in moments]

    def fault(self, state: State, guarantees: Sequence[Guarantee]) -> str | None:
        """Compose the plan again."""
        return self.excess()

    def added_up(self, guarantees: Sequence[Guarantee]) -> Counter[str]:
        """How often each guarantee was used."""
        return Counter(_each(fingerprint, guarantees))

    def off(self, state: State, fresh: Counter[str]) -> str | None:
        """Whether what was used and what is left are another plan."""
        if fresh + Counter(state.get("left", {})) == self.whole():
            return None
        return "its releases are not those of its plan"

    def excess(self) -> str | None:
        """Whether the plan exceeds the budget."""
        return None if not self.parts or self.fits() else "its plan is more than its budget"

    def _without_room(self, state: State, asked: float, left: float) -> str:
        return (
            f"Expected one of the {sum(state['left'].values())} releases left in the plan, got "
            f"another with epsilon={asked:.6g} at delta={self.delta:g}; keep to the plan."
        )

    def _total(self, times: Counter[str]) -> Remaining:
        parts = [(guarantee, times[key]) for key, (guarantee, _) in self.parts.items()]
        used = [(guarantee, count) for guarantee, count in parts if count]
        if not used:
            return Remaining(0.0, self.delta, 0.0)
        total = compose(used, self.epsilon / _CELLS)
        return _as_gaussian(float(total.epsilon(self.delta)), self.delta)


Mode = Adaptive | Planned


@lru_cache(maxsize=1024)
def _cost(limits: Filter, guarantee: Guarantee) -> FloatArray:
    """A release is asked for before its data are read and paid after: its cost is found once."""
    return limits.cost(guarantee)


def _as_gaussian(epsilon: float, delta: float) -> Remaining:
    """The Gaussian release that is (epsilon, delta)-private and no better."""
    noise = least_noise(lambda scale: QuadraticLoss.from_shift(1.0 / scale), epsilon, delta)
    return Remaining(epsilon, delta, 1.0 / noise)


def _counted(guarantees: Sequence[Guarantee]) -> dict[str, tuple[Guarantee, int]]:
    """The different guarantees by fingerprint, and how often each comes."""
    keys = _each(fingerprint, guarantees)
    times = Counter(keys)
    return {key: (each, times[key]) for key, each in zip(keys, guarantees, strict=True)}


def _each(function: Callable[[Guarantee], Result], given: Sequence[Guarantee]) -> list[Result]:
    """A function of each guarantee, computed once for an object that comes again."""
    found = {key: function(each) for key, each in {id(each): each for each in given}.items()}
    return [found[id(each)] for each in given]


def fingerprint(guarantee: Guarantee) -> str:
    """Equal for equal guarantees: relation and loss, or (epsilon, delta) where there is none."""
    loss = guarantee.loss
    content = [guarantee.epsilon, guarantee.delta] if loss is None else loss.to_dict()
    text = json.dumps([str(guarantee.relation), content], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def written(totals: FloatArray) -> list[list[str]]:
    """Totals as JSON, exactly."""
    return [[float(value).hex() for value in row] for row in totals]


def read(totals: list[list[str]]) -> FloatArray:
    """Read what `written` wrote."""
    return np.array([[float.fromhex(value) for value in row] for row in totals])
