"""The same sums period after period, from one budget.

x_t are the sums of period t. What is published of it is (C x)_t + noise, with fresh noise in every
period and a public lower triangular matrix C whose entries are the coefficients of (1 - z)^(-a): a
row of one period moves later periods too, by the norm of C's first column in all. Sums of single
periods and totals to date follow from what was published, C^-1 and A C^-1 times it (A adds up):
with a = 0 periods are independent, with a = 1/2 it is the square-root factorisation of A, and the
best a depends on what is asked. docs/proofs/continual.md has the proofs.

The owner keeps the exact sums of the past in a file (`continual_state`), since later periods need
them. What is drawn of a period is written there before it is published, so that a period is never
drawn twice.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP
from ndis.guarantee import Guarantee
from ndis.mechanisms.continual_state import KeptPeriod, SeriesFile, digest_of
from ndis.mechanisms.publish import ask, publish
from ndis.mechanisms.run import Plan, Run
from ndis.randomness import is_secure
from ndis.randomness.generators import keyed_generator
from ndis.release import NewFile, Release

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ndis.ledger import Ledger

# Coefficients are whole numbers of 1/UNIT, so that sums stay exact.
UNIT = 2**12
# Exponents that are tried, in steps of one over this.
_STEPS = 64
# A stranger's certificate may ask for any number.
_MOST_PERIODS = 1_000
WORKLOADS = ("totals", "periods", "both")


@dataclass(frozen=True)
class Series:
    """How sums of several periods are put together.

    Attributes
    ----------
    n_periods : int
    exponent : float
        0 for independent periods, 1/2 for the square root of adding up.

    Examples
    --------
    >>> from ndis.mechanisms.continual import Series
    >>> f"{Series(24, 0.5).distance:.4f}"
    '1.4403'
    """

    n_periods: int
    exponent: float

    @cached_property
    def coefficients(self) -> FloatArray:
        """How much a sum counts in its own period and in those after it, in whole numbers."""
        found = [1.0]
        for k in range(1, self.n_periods):
            found.append(found[-1] * (k - 1 + self.exponent) / k)
        return np.asarray(np.rint(UNIT * np.array(found)))

    @property
    def distance(self) -> float:
        """How far a row of one period moves all periods, rounded up."""
        return _norm(self.coefficients)

    @property
    def distance_everywhere(self) -> float:
        """How far somebody moves them who is in all periods, and counts once in each."""
        return _norm(np.cumsum(self.coefficients))

    @cached_property
    def _back(self) -> FloatArray:
        """The first column of the inverse."""
        c = self.coefficients / UNIT
        found = np.zeros(self.n_periods)
        found[0] = 1.0
        for k in range(1, self.n_periods):
            found[k] = -(c[1 : k + 1] @ found[k - 1 :: -1])
        return found

    def weights(self, period: int, *, to_date: bool) -> FloatArray:
        """What to multiply everything published up to a period with, to have its sums."""
        row = self._back[:period]
        return np.asarray((np.cumsum(row) if to_date else row)[::-1])

    def spread(self, workload: str) -> float:
        """Root mean square of the noise in what is asked, over that of what is published."""
        own = np.cumsum(self._back**2)
        totals = np.cumsum(np.cumsum(self._back) ** 2)
        asked = {"periods": own, "totals": totals, "both": np.concatenate([own, totals])}
        return math.sqrt(float(asked[workload].mean()))


def _norm(coefficients: FloatArray) -> float:
    """The Euclidean norm of whole numbers of 1/UNIT, rounded up."""
    return math.sqrt(math.fsum(float(each) ** 2 for each in coefficients)) / UNIT * ROUND_UP


@lru_cache(maxsize=64)
def best_series(n_periods: int, workload: str, everywhere: bool) -> Series:
    """The exponent with the least noise in what is asked.

    Parameters
    ----------
    n_periods : int
    workload : {"totals", "periods", "both"}
    everywhere : bool
        Whether somebody may be in all periods, not in one only.
    """

    def noise(series: Series) -> float:
        moved = series.distance_everywhere if everywhere else series.distance
        return moved * series.spread(workload)

    return min((Series(n_periods, step / _STEPS) for step in range(_STEPS + 1)), key=noise)


def reason(series: Series, workload: str) -> str:
    """Why periods are put together as they are, in a sentence."""
    n, asked = series.n_periods, {"both": "totals and periods"}.get(workload, workload)
    if series.exponent == 0.0:
        return f"All {n} periods have noise of their own: for {asked} that is best."
    alone = Series(n, 0.0)
    ratio = series.distance * series.spread(workload) / (alone.distance * alone.spread(workload))
    single = series.distance * series.spread("periods")
    return (
        f"Over {n} periods {asked} have {ratio:.2f} times the noise that they would have with "
        f"independent periods; single periods have {single:.2f} times."
    )


def n_periods(given: Any) -> int:
    """The declared number of periods, checked."""
    number = _validate.count("continual", given, 2)
    if number > _MOST_PERIODS:
        raise ValueError(
            f"Expected at most {_MOST_PERIODS} periods, got continual={number}; plan for fewer."
        )
    return number


@dataclass(eq=False)
class SeriesRun(Run):
    """One period of a series: its sums with those before it, its noise, and the owner's file."""

    series: Series = Series(1, 0.0)
    past: tuple[KeptPeriod, ...] = ()

    @property
    def period(self) -> int:
        """Which one, from 1."""
        return int(self.model.get_params(deep=False)["period"])

    @cached_property
    def _own(self) -> Mapping[str, Any]:
        """The exact sums of this period alone."""
        found: Mapping[str, Any] = self.method._study(self.data, self.plan)
        return found

    @cached_property
    def _studied(self) -> Any:
        """The sums of this period, and of those before it as far as they count, in 1/UNIT."""
        if len(self.past) != self.period - 1:
            raise ValueError(
                f"Expected the periods before period {self.period}, which are in the file of the "
                "series; pass state."
            )
        total = {name: _times(sums, UNIT) for name, sums in self._own.items()}
        for ago, kept in enumerate(reversed(self.past), start=1):
            weight = int(self.series.coefficients[ago])
            for name, sums in kept.sums.items():
                total[name] = total[name] + _times(sums, weight)
        return total

    def draw(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """What was published before, and what will be of this period."""
        return self._after(super().draw(rng))

    def _after(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        return _together([*self.past, KeptPeriod({}, drawn)])

    def release(self, *, file: NewFile | None = None, ledger: Ledger | None = None) -> Release:
        """Draw the next period, or publish one again that was drawn before; the first one pays.

        Parameters
        ----------
        file : NewFile, optional
            Where the release goes.
        ledger : Ledger, optional
            The budget to spend from, the same for all periods.
        """
        model: Any = self.model
        ledger = model.ledger if ledger is None else ledger
        if model.state is None:
            raise ValueError(
                "Expected state, a file for the exact sums that later periods need, got none; name "
                "one that only you can read."
            )
        private = is_secure(model.random_state)
        with SeriesFile(Path(model.state), first=self.period == 1) as book:
            self.past, again = book.before(self.period)
            told = self._told(private, ledger is not None)
            if book.told is None:
                ask(self.plan.guarantee, ledger, model.random_state, model._is_one_of_many())
            else:
                _compare(book.told, told)
                self._promise_as(book.told)
                _check_ledger(ledger, book)
            if again is None:
                self.study()
            else:
                warnings.warn(
                    f"Period {self.period} of this series was drawn before; the same is published "
                    "again, and costs nothing.",
                    UserWarning,
                    stacklevel=2,
                )
            payment = None if ledger is None else _Payment(ledger, book, self.period)

            def draw(rng: np.random.Generator) -> Mapping[str, Any]:
                if again is not None:
                    arrays: Mapping[str, Any] = again.drawn
                else:
                    if private:  # the same noise if an older copy of the file draws it again
                        rng = keyed_generator(book.key_of(self.period, told, self._studied))
                    arrays = Run.draw(self, rng)
                    number = None if payment is None else payment.number
                    book.keep(self.period, told, number, KeptPeriod(self._own, arrays))
                if payment is not None:
                    payment.record([*self.past, KeptPeriod({}, arrays)])
                return self._after(arrays)

            return publish(
                draw,
                self.plan.guarantee,
                type(model).__name__,
                self.parameters(),
                self.plan.shapes,
                random_state=_of_period(model.random_state, self.period),
                ledger=payment,  # type: ignore[arg-type]  # of a ledger, what publishing needs
                file=file,
            )

    def _told(self, private: bool, paid: bool) -> dict[str, Any]:
        """What must be the same in all periods."""
        known = {k: v for k, v in self.parameters().items() if k not in ("period", "noise_scale")}
        told = {
            "parameters": known,
            "guarantee": replace(self.plan.guarantee, private=private).to_dict(),
            "noise": self.plan.noise_scale,
            "private": private,
            "ledger": paid,
        }
        as_written: dict[str, Any] = json.loads(json.dumps(told))  # as the file has it
        return as_written

    def _promise_as(self, told: Mapping[str, Any]) -> None:
        """Take noise and promise from the first period, whatever the library would plan today."""
        parts = tuple(replace(p, noise=told["noise"][p.name]) for p in self.plan.parts)
        guarantee = Guarantee.from_dict(told["guarantee"])
        self.plan = replace(self.plan, parts=parts, guarantee=guarantee)


def _together(periods: Sequence[KeptPeriod]) -> dict[str, Any]:
    """What was drawn of all periods so far, as it is published."""
    return {name: np.stack([each.drawn[name] for each in periods]) for name in periods[-1].drawn}


def _times(sums: Any, number: int) -> Any:
    return sums.times(np.array([number]))[..., 0]


def _of_period(random_state: Any, period: int) -> Any:
    """Noise of its own for every period, where it is to be repeatable."""
    if isinstance(random_state, int | np.integer):
        return np.random.SeedSequence([int(random_state), period])
    return random_state


def _compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a period of which something else is asked than of the first."""
    for name, value in {**before["parameters"], **now["parameters"]}.items():
        if before["parameters"].get(name) != now["parameters"].get(name):
            raise ValueError(
                f"Expected {name} as in the first period of this series, got another; a series "
                f"keeps its parameters. It was {before['parameters'].get(name)!r}, now it is "
                f"{value if name in now['parameters'] else None!r}."
            )
    for name in ("epsilon", "delta", "relation"):
        if before["guarantee"][name] != now["guarantee"][name]:
            raise ValueError(
                f"Expected {name} {before['guarantee'][name]} as in the first period of this "
                f"series, got {now['guarantee'][name]}; all periods share one promise."
            )
    if before["private"] != now["private"]:
        raise ValueError(
            "Expected random_state as in the first period of this series, got another kind of "
            "noise; secret and repeatable noise do not mix."
        )


def _check_ledger(ledger: Ledger | None, book: SeriesFile) -> None:
    """Refuse a file that is older than what the ledger knows, and another ledger."""
    if book.told is None or book.told["ledger"] != (ledger is not None):
        began = "with" if ledger is None else "without"
        raise ValueError(
            f"Expected the series to go on as it began, {began} a ledger; pass the same as in its "
            "first period."
        )
    if ledger is None:
        return
    if (known := ledger.periods(book.number, book.name)) == 0:
        raise ValueError("Expected the ledger that paid for this series, got another; pass that.")
    if known > book.n_out:
        raise ValueError(
            f"Expected a file of the series with all {known} periods that the ledger knows, got "
            f"one with {book.n_out}: an older copy. To draw a period twice would cost what nobody "
            "paid; bring back the latest file, or begin a new series."
        )


class _Payment:
    """A ledger in which the first period pays and the others are noted."""

    def __init__(self, ledger: Ledger, book: SeriesFile, period: int) -> None:
        self.ledger, self.book, self.period = ledger, book, period
        self.number = book.number if book.told is not None else 0
        self._begins = book.told is None

    def spend(self, guarantee: Guarantee, mechanism: str) -> Any:
        """Pay for all periods, in the first."""
        if self._begins:
            self.number = self.ledger.spend(guarantee, mechanism).number
            self.record()  # so that no other ledger can be taken for this one
        return self

    def record(self, out: Sequence[KeptPeriod] = ()) -> None:
        """Note that a period is out, before it is, and what was drawn of all that come with it."""
        for period in range(max(self.period - 1, 1), self.period + 1):
            drawn = digest_of(_together(out[:period])) if out else ""
            self.ledger.note_period(self.number, self.book.name, period, drawn)

    def complete(self, entry: Any, digest: str) -> None:
        """The digest of the release."""
        self.ledger.complete(self.number, digest, period=self.period)


def planned(plan: Plan, period: int) -> Plan:
    """A plan for one period, whose release holds those before it, too."""
    shapes = {name: (period, *shape) for name, shape in plan.shapes.items()}
    return replace(plan, shapes=shapes)
