"""How many rows of a person count alike, where nobody knows: bought from a noisy histogram.

Everybody is in one bin, by how many rows they have: 1, 2, 3 to 4, 5 to 8, and so on. A person moves
one count by one. A larger number cuts off fewer rows, and leaves less signal: the sum over people
of min(m/K, 1) against the same noise. Taken is the least that keeps most rows, as far as noise
stays below what chance does by the choice of people. All that is released afterwards is about rows
with weights by that number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import FloatArray
from ndis.mechanisms.run import Arrays, Method, Plan
from ndis.mechanisms.target import PEOPLE, PEOPLE_SHARE
from ndis.randomness import add_noise
from ndis.tables import Rows, Table

if TYPE_CHECKING:
    from ndis.mechanisms.tabular import TableEstimator

# Bins up to a million rows; the share of rows to be kept, with m cut to K of a person; and by how
# many deviations a count must stand out to be taken for people.
N_BINS, _MOST, _SEEN = 21, 0.8, 4.0
# Coefficients of columns whose standard deviation is a fifth of their limits have less noise than
# sampling error where the signal is so many times the noise and the root of the number of people;
# where rows are clipped, about so many times (20 to 40 in benchmarks/bench_people.py).
CLEAR, CLEAR_OF_CLIPS = 10.0, 30.0
# A number that takes less than a twentieth of the signal costs nothing.
_SAME = 0.95


@dataclass(frozen=True)
class FindingRowsPerPerson(Method):
    """The number of rows first, then what a method does to rows with weights by it.

    The method reads the table once before the payment, by everybody's mean: what can fail, fails
    then.

    Attributes
    ----------
    model : TableEstimator
    then : Method
    """

    model: TableEstimator
    then: Method

    def _plan(self, rows: Rows) -> Plan:
        plan = self.then._plan(rows)
        if PEOPLE not in {part.name for part in plan.parts}:  # or it would cost nothing
            raise RuntimeError(
                f"Expected {type(self.then).__name__} to buy the rows of a person that it asks "
                "for, got a plan without them; please report this fault of the mechanism."
            )
        return replace(plan, shapes={**plan.shapes, PEOPLE: (N_BINS,)})

    def _study(self, data: Table, plan: Plan) -> FloatArray:
        self.then._study(data, plan)
        return data.count_people().octaves(N_BINS).astype(np.float64)

    def _draw(self, studied: Any, plan: Plan, data: Table, rng: np.random.Generator) -> Arrays:
        noisy = add_noise(studied, plan.noise_scale[PEOPLE], rng)
        assert data.weighting is not None
        number = rows_per_person({PEOPLE: noisy}, plan.noise_scale, self.model._clear)
        view = data.reweighed(number)
        then = self.then._draw(self.then._study(view, plan), plan, view, rng)
        return Arrays({PEOPLE: noisy, **then}, getattr(then, "found", None))


def rows_per_person(
    arrays: Mapping[str, Any], noise: Mapping[str, float], clear: float = CLEAR
) -> int:
    """The number that a released histogram tells: most rows are kept, as far as noise allows.

    That is, as far as the signal is `clear` times the noise and the root of the number of people.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.people import rows_per_person
    >>> counts = np.array([4000, 3000, 2500, 400.0])
    >>> rows_per_person({"rows_per_person": counts}, {"rows_per_person": 5.0})
    4
    """
    counts = np.where(arrays[PEOPLE] > _SEEN * noise[PEOPLE], arrays[PEOPLE], 0.0)
    # Who does not stand out in a bin is taken to have one row, who loses most with larger numbers.
    counts[0] += max(float(np.sum(arrays[PEOPLE]) - np.sum(counts)), 0.0)
    numbers = 2.0 ** np.arange(len(counts))  # those to choose from: the ends of bins
    m = np.where(numbers > 2, 0.75 * numbers, numbers)  # about the middle of each
    rows = np.minimum(m, numbers[:, None]) @ counts
    enough = int(np.argmax(rows >= _MOST * (m @ counts)))
    unit = math.sqrt(PEOPLE_SHARE) * noise[PEOPLE]
    n_people = float(counts.sum())
    wanted = min(clear * unit * math.sqrt(n_people), _SAME * n_people)
    allowed = np.flatnonzero(rows / numbers >= wanted)
    return int(numbers[min(enough, allowed.max(initial=0))])
