"""Counts, means, deviations, quantiles and shares by group, from one budget.

Whatever is asked is a **block** of numbers to which a record adds coordinates that are never
negative and add up to one: the bin it is in, its level, or, of a number -1 <= t <= 1, Bernstein's
(1-t)^2/4, (1-t^2)/2, (1+t)^2/4. So a record moves each block by one, in the sum of absolute values
and in the Euclidean norm, and groups cost nothing: a record is in one. Laplace noise with
sum over blocks 1/scale = epsilon, or normal noise with sum over blocks 1/scale^2 = D^2, whichever
is smaller; normal noise takes Lagrange's coordinates t(t-1)/2, 1-t^2, t(t+1)/2, whose squares add
up to at most one. The sums of (1, t, t^2) follow from either, and each block counts the rows.

Wide limits cost noise. With `refine` a part of the budget first finds where each group's values
lie, and its values are clipped to a neighbourhood of that before they are summed.
docs/proofs/summary.md has the proofs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray, wrong
from ndis.answer import Answer, as_words
from ndis.calibration import ROUND_UP
from ndis.guarantee import NeighbourRelation
from ndis.mechanisms import crossings, laws, levels, tree
from ndis.mechanisms.continual import UNIT, WORKLOADS, Series, SeriesRun, best_series, n_periods
from ndis.mechanisms.continual import planned as planned_for
from ndis.mechanisms.continual import reason as reason_of
from ndis.mechanisms.crossings import Crossing
from ndis.mechanisms.intervals import COVERED, UNKNOWN, Intervals
from ndis.mechanisms.levels import LevelCounts, draw_levels
from ndis.mechanisms.run import Forecast, Plan, Run
from ndis.mechanisms.summary_answers import (
    FIELDS,
    FIXED,
    MOST_OF_WHOLE,
    OTHER,
    PERIOD,
    CellSums,
    Grouping,
    as_answers,
    checked,
    group_headings,
    group_name,
    groupings,
    lines,
    not_negative,
    shown_level,
    unit_of,
    unlisted_name,
    whole_numbers,
    whole_with_sum,
)
from ndis.mechanisms.summary_blocks import (
    UNITS,
    WHOLE,
    Asked,
    coordinates,
    deviation_of,
    family,
    planned_laplace,
    reason_for,
)
from ndis.mechanisms.summary_estimates import Spread, counted_in, own_arrays, put_together, seen_in
from ndis.mechanisms.tabular import TableEstimator
from ndis.mechanisms.target import Part, Target, mean_shift
from ndis.randomness import (
    add_counted_laplace_noise,
    add_discrete_laplace_noise,
    add_laplace_noise,
    add_noise,
)
from ndis.tables import (
    PRIVATE,
    Cells,
    Columns,
    ExactSum,
    GroupCounts,
    GroupMoments,
    Named,
    Positions,
    Rows,
    Table,
    Together,
)
from ndis.tables.groups import STEPS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# What finding out where values lie gets, beside one for each question about a column.
_PLACES_SHARE = 0.1
# Quantiles need more than means to be as good.
_QUANTILES_SHARE = 2.0
_QUARTILES = (0.25, 0.5, 0.75)
# In a file that somebody else may have written: of four groups so many take .4 s to show.
_MOST_QUANTILES = 1_000
_MOST_GROUPINGS = 12
_N_PLACES = 64
# No value is clipped that is closer to the centre than so many spreads of a group.
_REACH = 5.0
# What a forecast assumes: the spread of a column, in half-widths of its limits.
_NARROW = 0.04
# Values further out are kept as long as the noise of a mean stays below this share of its sampling
# error.
_BESIDE_SAMPLING = 0.4
# What finding the levels of a column gets.
_LEVELS_SHARE = 0.25
_REPLACE = str(NeighbourRelation.REPLACE)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSummary(TableEstimator):
    """Counts, means, standard deviations, quantiles and shares of levels, by group and in all.

    Parameters
    ----------
    epsilon, delta : float
        What is to be promised, for everything that is released together.
    by : sequence of str, or of sequences of str
        The columns whose levels are the groups. Every margin and the total are told too. A list of
        lists, ``[["ward"], ["ward", "sex"]]``, is several groupings that share the budget, so that
        the mean of their variances is least; all of them are made consistent.
    limits : mapping of str to (low, high), sequence of pairs, one pair, or "private", optional
        The public limits of every numeric column to be summarised; values are clipped to them.
        "private", also instead of a pair: a part of the budget finds them.
    levels : mapping of str to sequence, optional
        Public levels of the columns in `by`, and of columns whose levels are to be counted.
        ``"private"`` instead of a list: nobody knows them, and a part of the budget and a tenth of
        delta find those that many rows have.
    max_levels : int, default 100
        The most levels of a column that are found where nobody knows them.
    levels_per_person : int, default 10
        With `person`: how many levels of a person count where levels are found, those that most of
        their rows have.
    quantiles : sequence of float
        Shares such as 0.5 for the median. All quantiles together cost what one costs, up to
        1,000 of them.
    columns : sequence of str, optional
        The columns to read; those in `by`, `limits` and `levels` if not given.
    unlisted : {"total", "other"}
        Rows whose level of a column in `by` is not listed: in no group and counted in the total, or
        in a group named "other".
    refine : bool, default False
        Whether a part of the budget finds where the values of each group lie, and values far from
        there are clipped, so that noise follows their spread and not the limits. It pays if limits
        are much wider than that and values have one hump; rows beyond it would be lost.
    method : {"auto", "discrete laplace", "laplace", "gaussian"}
        The law of the noise; "auto" takes the one with the smallest variance. The first keeps
        counts whole: for rows that count once, one grouping, and no series.
    relation : {"add-remove", "replace"}
        Who is protected: the presence of a row, or what it says.
    continual : int, optional
        For how many periods, such as months, the same summary is to be released, each with the rows
        of that period. All of them share one promise, which the first one pays.
    period : int, default 1
        With `continual`: which period this is.
    workload : {"totals", "periods", "both"}
        With `continual`: whether totals to date are to be good, single periods, or both.
    state : str or path, optional
        With `continual`: the owner's file for the exact sums that later periods need. It is as
        secret as the table.
    noise_scale, random_state, ledger
        As in `PrivateEstimator`.

    Attributes
    ----------
    release_ : Release
        What may be published.
    limits_ : dict of str to (float, float)
        The limits of every numeric column, those that were found, too.
    dates_ : list of str
        The columns whose public limits are dates: their numbers are days since 1970.
    guarantee_, noise_scale_

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from ndis import PrivateSummary
    >>> rng = np.random.default_rng(0)
    >>> ward = rng.choice(["A", "B"], 10_000)
    >>> cost = np.where(ward == "A", 800.0, 1200.0) + rng.normal(0, 200, 10_000)
    >>> stays = pa.table({"ward": ward, "cost": cost})
    >>> model = PrivateSummary(
    ...     by=["ward"], levels={"ward": ["A", "B"]}, limits={"cost": (0, 50_000)},
    ...     epsilon=1.0, delta=1e-6, random_state=0,
    ... ).fit(stays)
    >>> print(model.summary())  # doctest: +SKIP
    """

    needs = ("limits|levels|private_levels|all",)
    weighs = True
    methods = (WHOLE, "laplace", "gaussian")

    by: Sequence[str | Sequence[str]] = ()
    quantiles: Sequence[float] = ()
    max_levels: int = 100
    levels_per_person: int = 10
    unlisted: str = "total"
    refine: bool = False
    method: str = "auto"
    relation: str = "add-remove"
    continual: int | None = None
    period: int = 1
    workload: str = "totals"
    state: str | os.PathLike[str] | None = None
    data_norm: None = field(default=None, init=False)
    n_rows: None = field(default=None, init=False)

    # -- which columns -------------------------------------------------------------------------

    @classmethod
    def of_all(cls, X: Any, **parameters: Any) -> Self:
        """A summary of all columns of a table, of which nothing is known but its schema.

        Columns of text have levels that are to be found, all others limits that are to be found,
        and quartiles are told; what is passed is kept. Which columns hold text is what a schema
        says that no row can change: of Parquet, Arrow, polars. Text files and data frames of pandas
        have none, since one value may make text of a column of numbers: name its columns of text in
        `levels`, and all others are numbers.

        Parameters
        ----------
        X : table
            Whose names and types are looked at; no row is.
        **parameters
            Those of a summary: epsilon and delta, and whatever is known.
        """
        table = X if isinstance(X, Table) else Table.open(X, parameters.get("columns"))
        levels, by = dict(parameters.get("levels") or {}), list[str]()
        for each in parameters.get("by") or ():
            by += [each] if isinstance(each, str) else each
        texts, limits = table.texts or (), parameters.get("limits")
        others = (parameters.get("person"), parameters.get("sample_weight"))
        names = [name for name in table.columns if name not in others]
        for name in (*by, *texts):
            if name in names:
                levels.setdefault(name, PRIVATE)
        numbers = [name for name in names if name not in levels]
        if limits is None or isinstance(limits, Mapping):
            limits = {name: (limits or {}).get(name, PRIVATE) for name in numbers}
        parameters = {"quantiles": _QUARTILES, **parameters}
        return cls(**{**parameters, "levels": levels, "limits": limits or None})

    def prepare(self, X: Any, y: Any = None, *, plan: Plan | None = None) -> Run:
        """Open the table, and say what will happen to it; reads no row and spends nothing.

        Parameters
        ----------
        X : table
            As in `TableEstimator.prepare`.
        y : object
            Ignored, for scikit-learn's pipelines.
        plan : Plan, optional
            One that was made before for such a table.
        """
        run = super().prepare(X, plan=plan)
        if self.continual is None:
            return run
        series = self._series(run.plan.method)
        return SeriesRun(run.model, run.data, run.plan, run.method, series=series)

    def _series(self, law: str) -> Series:
        """How the periods are put together; one where there is but one."""
        if self.continual is None:
            return Series(1, 0.0)
        n = n_periods(self.continual)
        workload = _validate.one_of("workload", self.workload, WORKLOADS)
        if _validate.count("period", self.period) > n:
            raise ValueError(
                f"Expected a period up to {n}, for which this series was planned, got period="
                f"{self.period}; begin a new series."
            )
        found = self._private or self._refines or self._buys_rows()
        if found or str(self.relation) == _REPLACE:
            raise ValueError(
                "Expected public levels and rows_per_person, rows that come or go and refine=False "
                "together with continual, whose parameters stay the same for all periods, got "
                "another; find limits and levels by a release of its own."
            )
        if law != "gaussian":
            return Series(n, 0.0)
        return best_series(n, workload, self.person is not None)

    def _moved(self, law: str) -> float:
        """How many times as far as in one period somebody moves all of them."""
        series = self._series(law)
        if self.person is None:
            return series.distance
        return series.distance_everywhere if law == "gaussian" else float(series.n_periods)

    def _open(self, X: Any, y: Any = None) -> tuple[Table, tuple[str, ...]]:
        named = self._named()
        if self.columns is not None or named is None:
            return super()._open(X)
        more = (self.person, self.sample_weight)
        listed = list(dict.fromkeys([*named, *(name for name in more if name is not None)]))
        return Table.open(X, listed, typed=listed, drop_missing=bool(self.drop_missing)), ()

    def _named(self) -> list[str] | None:
        """The columns that parameters name; None if others are to be read, too."""
        if self.limits is not None and not isinstance(self.limits, Mapping):
            return None
        return list(dict.fromkeys([*self._by, *(self.levels or {}), *(self.limits or {})]))

    @property
    def _by(self) -> list[str]:
        if isinstance(self.by, str):
            raise wrong("by", kind=TypeError)(
                f"Expected by to be a list of columns, got the string {self.by!r}; pass "
                f"[{self.by!r}]."
            )
        return list(dict.fromkeys(name for each in self._tables for name in each))

    @property
    def _tables(self) -> tuple[tuple[str, ...], ...]:
        """The groupings that are bought: by all columns, or by those of each list."""
        by = list(self.by)
        found = tuple((each,) if isinstance(each, str) else tuple(each) for each in by)
        if all(isinstance(each, str) for each in by):
            found = (tuple(name for (name,) in found),)
        if any(len({*each}) < len(each) for each in found):
            raise ValueError(f"Expected distinct columns in by, got {by!r}; name each once.")
        if len(found) > _MOST_GROUPINGS:
            raise ValueError(
                f"Expected at most {_MOST_GROUPINGS} groupings in by, got {len(found)}; ask for "
                "fewer."
            )
        if len({frozenset(each) for each in found}) < len(found) or (
            len(found) > 1 and () in found
        ):
            raise ValueError(
                f"Expected distinct groupings in by, got {by!r}; list the columns of each once."
            )
        return found

    @property
    def _suffixes(self) -> list[str]:
        """What stands behind the names of the parts and arrays of each grouping."""
        n = len(self._tables)
        # All of one length, so that none ends in another.
        return [""] if n == 1 else [f"{k + 1:0{len(str(n))}}" for k in range(n)]

    def _crossing(self, shape: Sequence[int]) -> Crossing:
        """The groupings as tables by some of so many places."""
        by = self._by
        bought = (tuple(sorted(map(by.index, each))) for each in self._tables)
        return Crossing(tuple(shape), tuple(bought))

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        others = (self.person, self.sample_weight)
        return self._recipe_of([name for name in table.columns if name not in others])

    def _rows_declared(self, n_features: int | None) -> Rows:
        known = self._listed() if self.columns is not None else self._named()
        names = self._declared(n_features).columns if known is None else known
        return self._recipe_of(list(dict.fromkeys([*self._by, *names])))

    def _recipe_of(self, names: Sequence[str]) -> Rows:
        """Numeric columns are features; groups and other columns with levels are positions."""
        by, known = self._by, dict(self.levels or {})
        for name in by:
            if name not in names:
                raise ValueError(
                    f"Expected the columns in by among those that are read, got {name!r}; add it "
                    "to columns."
                )
            if name not in known:
                raise ValueError(
                    f"Expected levels of {name!r}, since groups must not depend on the data; list "
                    "the levels that are public."
                )
        known |= (sought := levels.sought(self._private))
        others = [name for name in names if name in known and name not in by]
        numbers = [name for name in names if name not in known]
        limits = self._limits_of(numbers) if numbers or isinstance(self.limits, Mapping) else None
        if numbers and limits is None:
            raise wrong("limits")(
                f"Expected limits of {', '.join(map(repr, numbers))}, got none; pass the least and "
                'largest value of each, or limits="private".'
            )
        features = Columns(numbers, {}, limits or None, None, not numbers, True)
        placed = [*by, *others]
        listed = {name: known[name] for name in placed}
        labels = Positions(placed, listed) if placed else None
        return Rows(features, labels, weighted=False, sought=sought)

    @property
    def _private(self) -> list[str]:
        """Columns whose levels nobody knows, by name."""
        known = self.levels or {}
        return sorted(k for k, each in known.items() if isinstance(each, str) and each == PRIVATE)

    def _size(self, rows: Rows, name: str) -> int:
        """How many levels a column can have."""
        if name in self._private:
            return _validate.count("max_levels", self.max_levels)
        return len(rows.levels[name])

    # -- before the data -----------------------------------------------------------------------

    def _questions(self, rows: Rows) -> list[Asked]:
        """What is bought: one share for each question about a column."""
        numbers, others = len(_numbers(rows)), len(self._others(rows))
        found = []
        if numbers:
            found.append(Asked("means", numbers, numbers))
            if len(self._shares()):
                blocks = len(tree.LEVELS) * numbers
                found.append(Asked("quantiles", blocks, _QUANTILES_SHARE * numbers))
            elif self._refines:
                found.append(Asked("places", numbers, _PLACES_SHARE * numbers))
        if others:
            found.append(Asked("shares", others, others))
        found = found or [Asked("count", 1, 1.0)]
        if many := len(self._private):
            found.append(Asked("levels", many, _LEVELS_SHARE * many))
        return found

    def _asked(self, questions: Sequence[Asked], law: str, rows: Rows) -> list[Asked]:
        """The same of each grouping, which share the budget of a question."""
        if len(self._tables) == 1:
            return list(questions)
        parts = crossings.shares(self._crossing(self._shape(rows)), law)
        found = []
        for each in questions:
            if each.name == "levels":  # of the columns, whatever they are grouped by
                found.append(each)
                continue
            found += [
                Asked(f"{each.name}{suffix}", each.blocks, each.weight * part)
                for suffix, part in zip(self._suffixes, parts, strict=True)
            ]
        return found

    def _noise_of(
        self, noise: Mapping[str, float], crossing: Crossing
    ) -> dict[tuple[int, ...], dict[str, float]]:
        """The noise on the numbers of each grouping that is told, by question."""
        suffixes = self._suffixes
        if len(suffixes) == 1:
            return {crossing.bought[0]: dict(noise)}
        found: dict[tuple[int, ...], dict[str, float]] = {t: {} for t in crossing.told}
        for name in own_arrays(noise, suffixes[0]):
            variances = [noise[f"{name}{suffix}"] ** 2 for suffix in suffixes]
            for told, variance in crossing.variances(variances).items():
                found[told][name] = math.sqrt(variance)
        return found

    @property
    def _counts_whole(self) -> bool:
        """Whether noise may keep whole what is counted: every row counts once, in one table."""
        once = self.person is None and self.sample_weight is None
        return once and len(self._tables) == 1 and self.continual is None

    @property
    def _refines(self) -> bool:
        if not isinstance(self.refine, bool | np.bool_):
            raise TypeError(f"Expected refine to be True or False, got {self.refine!r}.")
        return bool(self.refine)

    def _shares(self) -> list[float]:
        """The quantiles that are asked for, checked."""
        given = self.quantiles if isinstance(self.quantiles, Sequence) else [self.quantiles]
        if len(given) > _MOST_QUANTILES:
            raise ValueError(
                f"Expected at most {_MOST_QUANTILES} quantiles, got {len(given)}; ask for fewer."
            )
        return [_validate.probability("quantiles", share) for share in given]

    def _others(self, rows: Rows) -> dict[str, tuple[Any, ...]]:
        """Columns whose levels are counted, and these."""
        return {k: v for k, v in rows.levels.items() if k not in self._by}

    def _plan(self, rows: Rows) -> Plan:
        _validate.one_of("unlisted", self.unlisted, ("total", OTHER))
        _validate.count("levels_per_person", self.levels_per_person)
        relation = _validate.one_of("relation", str(self.relation), _TWICE)
        law = _validate.one_of("method", self.method, ("auto", *self.methods))
        target, questions = self._target(rows, relation), self._questions(rows)
        if self._private and (target.risk or relation == _REPLACE):
            raise ValueError(
                "Expected epsilon and rows that come or go where levels are private, got a target "
                "or rows that are replaced; list the levels that are public."
            )
        crossing = self._crossing(self._shape(rows))
        asked_for = crossing.bought
        if self._refines and len(asked_for) > 1:
            raise ValueError(
                "Expected refine=False with several groupings, whose sums are of the same values, "
                "got True; leave it out."
            )
        if law == WHOLE and not self._counts_whole:
            raise ValueError(
                "Expected rows that count once, one grouping and no series with "
                f"method={WHOLE!r}, got others; leave method out."
            )
        # Discrete Laplace noise is Laplace noise on whole numbers, and less of it.
        other = "laplace" if self._counts_whole else WHOLE
        compared = [each for each in self.methods if each != other] if law == "auto" else [law]
        plans = {each: self._plan_with(each, target, questions, rows) for each in compared}

        def size(plan: Plan) -> float:
            if target.epsilon is None:  # the noise is given
                return plan.guarantee.epsilon
            parts = {part.name: part.noise for part in plan.parts}
            spread = self._series(plan.method).spread(self.workload)
            told = self._noise_of(plan.noise_scale, crossing)
            mean = {
                q.name: math.sqrt(
                    math.fsum(told[t].get(q.name, parts.get(q.name, 0.0)) ** 2 for t in asked_for)
                    / len(asked_for)
                )
                for q in questions
            }
            own = {name: deviation_of(name, plan.method, each) for name, each in mean.items()}
            return sum(q.weight * math.log(spread * own[q.name]) for q in questions)

        best, *rest = sorted(plans.values(), key=size)
        reason = reason_for(best, rest, self._asked(questions, best.method, rows), target)
        if len(asked_for) > 1:
            reason = f"{reason} {self._costs(best, crossing)}"
        if self.continual is None:
            return replace(best, reason=reason)
        if rows.bought:
            raise ValueError(
                'Expected public limits together with continual, got "private"; find them by a '
                "release of its own (PrivateLimits)."
            )
        told = reason_of(self._series(best.method), self.workload)
        return planned_for(replace(best, reason=f"{reason} {told}"), self.period)

    def _plan_with(self, law: str, target: Target, questions: list[Asked], rows: Rows) -> Plan:
        whole = sum(question.weight for question in questions)
        questions = self._asked(questions, law, rows)
        shares = {question.name: question.weight / whole for question in questions}
        twice = _TWICE[str(self.relation)]
        shapes = self._shapes(rows)
        if law == "gaussian":
            apart = self._moved(law) if twice == 1 else laws.apart(3)
            parts = [
                Part(q.name, math.sqrt(q.blocks) * apart * ROUND_UP, shares[q.name])
                for q in questions
            ]
            bought, loss = mean_shift(self._rest(target), parts, self.noise_scale)
        else:
            moved = {q.name: q.blocks * twice * self._moved(law) for q in questions}
            rest = self._rest(target)
            bought, loss = planned_laplace(law, rest, moved, shares, self.noise_scale, questions)
        if self._private:
            loss = levels.failing(loss, target)
        return Plan(law, bought, target.promise(loss, self.relation), shapes, "")

    def _costs(self, plan: Plan, crossing: Crossing) -> str:
        """What groupings get, and what they cost each other, in a sentence."""
        told = []
        for name, part, (among, alone) in zip(
            self._tables,
            crossings.shares(crossing, plan.method),
            self._noise_beside(plan, crossing),
            strict=True,
        ):
            told.append(f"by {' and '.join(name)} {part:.2f}, {among / alone:.2f} times")
        return (
            f"Groupings share the budget ({'; '.join(told)} the noise that each would have alone), "
            "for the least mean variance of them all."
        )

    def _noise_beside(self, plan: Plan, crossing: Crossing) -> list[tuple[float, float]]:
        """The noise of a part of each grouping, beside the others and alone."""
        noise = plan.noise_scale
        name = next(iter(own_arrays(noise, self._suffixes[0])))
        beside = self._noise_of(noise, crossing)
        parts = crossings.shares(crossing, plan.method)
        return [
            (
                beside[columns][name],
                noise[f"{name}{suffix}"] / math.sqrt(crossings.variance(plan.method, part)),
            )
            for columns, suffix, part in zip(crossing.bought, self._suffixes, parts, strict=True)
        ]

    def _rest(self, target: Target) -> Target:
        """What is left of delta where levels that nobody knows may fail to stay hidden."""
        return levels.rest(target) if self._private else target

    def _shapes(self, rows: Rows) -> dict[str, tuple[int, ...]]:
        c, shapes = len(_numbers(rows)), dict[str, tuple[int, ...]]()
        names = {question.name for question in self._questions(rows)}
        for each, cells in zip(self._suffixes, self._cells(rows), strict=True):
            n = len(cells)
            if "quantiles" in names:
                shapes |= {f"quantiles{each}_{level}": (n, c, level) for level in tree.LEVELS}
            if "places" in names:
                shapes["places"] = (n, c, _N_PLACES)
            if "shares" in names:
                width = sum(self._size(rows, name) + 1 for name in self._others(rows))
                shapes[f"shares{each}"] = (n, width)
            if "means" in names:
                shapes[f"means{each}"] = (n, c, 3)
            if "count" in names:
                shapes[f"count{each}"] = (n,)
        if self._private:
            most = _validate.count("max_levels", self.max_levels)
            shapes["levels"] = (len(self._private), most, levels.MOST_BYTES)
        return shapes

    def _shape(self, rows: Rows) -> tuple[int, ...]:
        """Places of each column of `by`: its levels, and what is not listed."""
        return tuple(self._size(rows, name) + 1 for name in self._by)

    def _cells(self, rows: Rows) -> list[Cells]:
        """The cells of each grouping."""
        shape = self._shape(rows)
        return [
            Cells(tuple(shape[i] - 1 for i in columns), columns)
            for columns in self._crossing(shape).bought
        ]

    def forecast(self, n_features: int | None = None, *, n_rows: int | None = None) -> Forecast:
        """Standard errors to be expected in a group of average size; needs no data.

        Parameters
        ----------
        n_features : int, optional
            How many columns there are, where parameters do not name them.
        n_rows : int
            About how many rows the table has.
        """
        rows, n = self._rows_declared(n_features), self._expected_rows(n_rows)
        plan, errors = self.plan(n_features), dict[str, tuple[float, float]]()
        crossing, limits = self._crossing(self._shape(rows)), rows.features.limits or {}
        told, several = self._noise_of(plan.noise_scale, crossing), len(self._tables) > 1
        beside = self._noise_beside(plan, crossing) if several else [(1.0, 1.0)]
        sizes = []
        for columns, names, (among, alone) in zip(
            crossing.bought, self._tables, beside, strict=True
        ):
            sizes.append(math.prod(max(crossing.shape[i] - 1, 1) for i in columns))
            group, noise = max(n / sizes[-1], 1.0), told[columns]
            where = f" by {' and '.join(names)}" if several else ""
            spread = Spread(noise, plan, self._suffixes[0])
            count = f"standard error of a count{where}"
            errors[count] = (spread.count, spread.count)
            if several:
                own = spread.count * alone / among
                errors[f"{count}, were nothing else grouped"] = (own, own)
            for name, pair in limits.items():
                half = 1.0 if isinstance(pair, str) else 0.5 * (pair[1] - pair[0])
                unit = " (in half-widths of its limits)" if isinstance(pair, str) else ""
                whole = math.hypot(spread.sum, spread.count) * half / group
                near = whole * _REACH * _NARROW if self._refines else spread.sum * half / group
                mean = f"standard error of a mean of {name}{where} by noise{unit}"
                errors[mean] = (min(near, whole), whole)
                if self._shares():
                    rank = min(math.sqrt(float(spread.prefixes.max())) / group, 1.0)
                    errors[f"ranks of quantiles of {name}{where} off by"] = (0.5 * rank, rank)
            if self._others(rows):
                share = deviation_of("shares", plan.method, noise["shares"])
                wide = math.hypot(share, spread.count) / group
                errors[f"standard error of a share{where} by noise"] = (
                    min(share / group, 1.0),
                    min(wide, 1.0),
                )
        shown = " and in ".join(f"{size:,} groups" for size in sizes)
        said = [f"{self._assumed_rows(n)} in {shown} of one size"]
        if limits:
            said.append(
                f"a column's standard deviation is {100 * _NARROW:g}% of half its range or more"
            )
        return Forecast(errors, tuple(said))

    # -- with the data -------------------------------------------------------------------------

    def _study(self, table: Table, plan: Plan) -> Any:
        """All sums; where levels are to be found, their counts, and a pass that sees the rest."""
        if not self._private:
            return self._sums_of(table, plan)
        if table.once:
            raise ValueError(
                "Expected a table that can be read twice to find levels, got one that can be read "
                "only once; write it to a file first, or list the levels."
            )
        return levels.read(table, self._levels_per_person)

    @property
    def _levels_per_person(self) -> int:
        return 1 if self.person is None else self.levels_per_person

    def _find(
        self, counts: Mapping[str, LevelCounts], plan: Plan, table: Table, rng: np.random.Generator
    ) -> tuple[FloatArray, Table]:
        """The names of levels that many rows have, and the table with these."""
        law, noise = family(plan.method), plan.noise_scale["levels"]
        above = self._threshold(law, noise)
        most = plan.shapes["levels"][1]
        found = [draw_levels(counts[name], law, noise, above, most, rng) for name in self._private]
        rows, known = table.rows, {}
        for name, matrix in zip(self._private, found, strict=True):
            words: tuple[Any, ...] = levels.decoded(matrix)
            known[name] = tuple(map(int, words) if counts[name].whole else words)
            known[name] = known[name] or rows.sought[name]
        labels = Positions(rows.labels.columns, {**rows.levels, **known})
        return np.stack(found), table.with_rows(replace(rows, labels=labels))

    def _threshold(self, law: str, noise: float) -> float:
        """What the count of a level must exceed: all columns together fail with their share."""
        assert self.delta is not None
        failure = levels.failure_of(self.delta, len(self._private))
        return levels.threshold(law, noise, failure, self._levels_per_person)

    def _sums_of(self, table: Table, plan: Plan) -> dict[str, ExactSum]:
        rows = table.rows
        if table.once and self._refines and _numbers(rows):
            raise ValueError(
                "Expected a table that can be read twice to refine, got one that can be read only "
                "once; write it to a file first, or pass refine=False."
            )
        numbers, units, tables = _numbers(rows), rows.features.units, self._cells(rows)
        bins = _N_PLACES if "places" in plan.shapes else 0
        if self._shares() and numbers:
            bins = self._n_bins(rows)
        others = tuple(self._size(rows, name) for name in self._others(rows))
        asked = list[Any]()
        for suffix, cells in zip(self._suffixes, tables, strict=True):
            own: list[Any] = [GroupCounts(cells, numbers, units, bins, others)]
            if numbers and not self._refines:
                ends = np.full((len(cells), len(numbers)), units)
                moments = GroupMoments(cells, numbers, -ends, ends)
                own = [*own, moments] if bins or others else [moments]
            asked += [Named(each, suffix) for each in own]
        one = asked[0].function if len(asked) == 1 and not asked[0].suffix else None
        return table.sum(one or Together(tuple(asked)), alone=not self._refines)

    def _draw(
        self, studied: Any, plan: Plan, table: Table, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        law, arrays = plan.method, dict[str, FloatArray]()
        if self._private:
            counts = studied
            arrays["levels"], table = self._find(counts, plan, table, rng)
            studied = self._sums_of(table, plan)
        noise = plan.noise_scale
        scale = {k: laws.scale_of(family(law), each, 1) for k, each in noise.items()}
        steps = 1 if self.continual is None else UNIT

        def noisy(sums: ExactSum, scale: float, unit: int = 1) -> FloatArray:
            whole = unit * steps
            if law == WHOLE and unit == 1:
                return add_discrete_laplace_noise(sums, scale, rng)
            if law == WHOLE:
                return add_counted_laplace_noise(sums, scale * whole, unit, rng) / whole
            add = {"laplace": add_laplace_noise, "gaussian": add_noise}[law]
            return add(sums, scale * whole, rng) / whole

        c, bins = len(_numbers(table.rows)), self._n_bins(table.rows)
        for suffix, cells in zip(self._suffixes, self._cells(table.rows), strict=True):
            n, own, made = len(cells), own_arrays(scale, suffix), dict[str, FloatArray]()
            sums = own_arrays(studied, suffix)
            if "quantiles" in own:
                told, parts = list[FloatArray](), [tree.Parts.coarse(bins)] * c
                for level in tree.LEVELS:
                    counted = _each(sums["bins"], lambda limb, by=parts: counted_in(limb, by))
                    told.append(noisy(counted, own["quantiles"]))
                    made[f"quantiles{suffix}_{level}"] = told[-1]
                    spread = deviation_of("quantiles", law, noise[f"quantiles{suffix}"])
                    parts = tree.partitions(told, spread, bins)
            if "places" in own:
                placed = _each(sums["bins"], lambda limb, n=n: limb.reshape(n, c, _N_PLACES))
                made["places"] = noisy(placed, own["places"])
            if "shares" in own:
                made[f"shares{suffix}"] = noisy(sums["shares"], own["shares"])
            if "count" in own:
                made[f"count{suffix}"] = noisy(sums["count"], own["count"])
            if "means" in own:
                if self._refines:
                    ends = self._ends(table.rows, {**arrays, **made}, noise, law)
                    sums = table.sum(GroupMoments(cells, _numbers(table.rows), *ends))
                unit = UNITS[law] * STEPS**2
                made[f"means{suffix}"] = noisy(coordinates(sums, law), own["means"], unit)
            arrays |= made
        return arrays

    def _n_bins(self, rows: Rows) -> int:
        """Bins at whose edges the range of a column may be cut for quantiles.

        The sums of periods and of groupings are added up, so that all have the same parts.
        """
        if self.continual is not None or len(self._tables) > 1:
            return tree.LEAVES
        return tree.n_bins(len(self._cells(rows)[0]) * len(_numbers(rows)))

    def _ends(
        self, rows: Rows, arrays: Mapping[str, Any], noise: Mapping[str, float], law: str
    ) -> tuple[FloatArray, FloatArray]:
        """Where the values of each cell are clipped: whole numbers, from what was released."""
        units, seen = rows.features.units, seen_in(arrays, noise, law, self._n_bins(rows))
        assert seen is not None
        # So far out noise is small beside sampling; no row is clipped closer than five spreads.
        far = _BESIDE_SAMPLING * np.sqrt(seen.count) / (math.sqrt(2.0) * noise["means"])
        reach = np.maximum(_REACH, far) * np.sqrt(seen.variance) + 2.0 / seen.n_bins
        low, high = np.clip(seen.mean - reach, -1.0, 1.0), np.clip(seen.mean + reach, -1.0, 1.0)
        # A group of which nothing is seen is taken to lie where the others do.
        hidden = seen.count <= 0
        least = np.where(hidden, np.inf, low).min(axis=0)
        most = np.where(hidden, -np.inf, high).max(axis=0)
        low = np.where(hidden, np.where(least < most, least, -1.0), low)
        high = np.where(hidden, np.where(least < most, most, 1.0), high)
        return np.floor(low * units), np.ceil(high * units)

    # -- what follows from the release ---------------------------------------------------------

    def _finish(self, rows: Rows) -> None:
        arrays, noise, law = self.release_.arrays, self.noise_scale_, self._law
        by, known = self._by, dict(rows.levels)
        for name, matrix in zip(self._private, arrays.get("levels", ()), strict=True):
            known[name] = levels.decoded(matrix)
        others = {name: known[name] for name in known if name not in by}
        self.limits_ = dict(rows.features.limits or {})
        self.dates_ = self._dated([*self.limits_])
        self._levels = others
        c = len(_numbers(rows))
        sizes = {name: self._size(rows, name) for name in others}
        places = self._places(rows, known)
        self._views: dict[str, list[tuple[Grouping, CellSums, FloatArray]]] = {}
        for name, (told, spread) in self._told(arrays, noise).items():
            self._views[name] = []
            for own, of_cells, found in self._together(told, spread, places):
                sums = put_together(own, of_cells, law, others, sizes, self._n_bins(rows))
                # Rows are counted in whole numbers where each counts once.
                once = self.person is None and self.sample_weight is None
                near = once and sums.count_variance < MOST_OF_WHOLE**2
                n, alive = len(sums.count), found[-1].member < len(found[-1].labels)
                if len(self._tables) > 1:
                    alive = np.ones(n, dtype=bool)
                positive, tell = np.zeros(n), whole_numbers if near else not_negative
                positive[alive] = tell(sums.count[alive])
                if sums.whole:
                    positive[alive] = whole_with_sum(positive[alive])
                centre = half = np.zeros((n, c))
                if c:
                    units = np.full((n, c), rows.features.units)
                    low, high = -units, units
                    if self._refines:
                        low, high = self._ends(rows, arrays, noise, law)
                    scale, middle = rows.features.scale, rows.features.middle
                    centre, half = middle + 0.5 * (low + high) / scale, 0.5 * (high - low) / scale
                sums = replace(sums, centre=centre, half=half, whole=near or sums.whole)
                self._views[name] += [(each, sums, positive) for each in found]

    def _together(
        self, arrays: Mapping[str, Any], noise: Mapping[str, float], places: list[list[Any]]
    ) -> Iterator[tuple[Mapping[str, Any], Mapping[str, float], list[Grouping]]]:
        """What is known of cells, with its noise, and the groupings whose groups are sums of them.

        Of several groupings that are bought each is told from its own cells, after least squares.
        """
        others = self.unlisted == OTHER
        if len(suffixes := self._suffixes) == 1:
            yield arrays, noise, list(groupings(places, others))
            return
        alive = [[place for place, name in enumerate(each) if name is not None] for each in places]
        crossing = self._crossing([len(each) for each in alive])
        told = self._noise_of(noise, crossing)
        fitted: dict[tuple[int, ...], dict[str, Any]] = {t: {} for t in crossing.told}
        for name in own_arrays(arrays, suffixes[0]):
            base, mark, level = name.partition("_")
            names = [f"{base}{suffix}{mark}{level}" for suffix in suffixes]
            tables = [
                _of_places(arrays[each], columns, places, alive)
                for each, columns in zip(names, crossing.bought, strict=True)
            ]
            squares = [noise[each.partition("_")[0]] ** 2 for each in names]
            for columns, table in crossing.fitted(tables, squares).items():
                fitted[columns][name] = table
        for columns in crossing.told:
            found = next(groupings([[places[i][k] for k in alive[i]] for i in columns], others))
            labels = [
                tuple(label[columns.index(i)] if i in columns else None for i in range(len(places)))
                for label in found.labels
            ]
            yield fitted[columns], told[columns], [replace(found, labels=labels)]

    def _told(self, arrays: Mapping[str, Any], noise: Mapping[str, float]) -> dict[str, Any]:
        """What was released and its noise; of a series for each period, and for totals to date."""
        if self.continual is None:
            return {"": (arrays, noise)}
        series, views = self._series(self._law), {}
        for to_date in (False, True):
            for period in range(1, self.period + 1):
                if to_date and period == 1:
                    continue
                weights = series.weights(period, to_date=to_date)
                told = {k: np.tensordot(weights, v[:period], 1) for k, v in arrays.items()}
                spread = float(np.linalg.norm(weights))
                name = f"1 to {period}" if to_date else f"{period}"
                views[name] = told, {k: spread * v for k, v in noise.items()}
        return views

    @property
    def _law(self) -> str:
        return str(self.release_.parameters["method"])

    def _places(self, rows: Rows, known: Mapping[str, Sequence[Any]]) -> list[list[Any]]:
        """The places of each column of `by`: its levels, empty ones, and what is not listed."""
        found = []
        for name in self._by:
            own = known[name]
            shown = [shown_level(each, own) for each in own]
            empty = [None] * (self._size(rows, name) - len(own))
            found.append([*shown, *empty, unlisted_name(shown)])
        return found

    def _lines(self, view: str) -> Iterator[tuple[Any, Any]]:
        for grouping, sums, positive in self._views[view]:
            for each in lines(grouping, sums, positive, self.limits_, self._levels, self._shares()):
                yield grouping, each

    def to_frame(self, level: float = 0.95, of: str = "population") -> pd.DataFrame:
        """Everything as a data frame of pandas, a line for each number.

        Parameters
        ----------
        level : float
            How often an interval is to hold what it is for.
        of : {"population", "table"}
            Whether intervals are for what the rows were drawn from, or for the table at hand. Those
            of a count are for the table.

        Returns
        -------
        DataFrame
            Of a series the period, such as "3" or "1 to 3"; the columns of `by`, empty where
            groups are added up; column, statistic, level, estimate, standard_error, lower, upper. A
            column of `by` that is called like one of these, such as level, is told as by_level.
        """
        import pandas as pd

        return pd.DataFrame(self.to_columns(level, of))

    def to_columns(self, level: float = 0.95, of: str = "population") -> dict[str, list[Any]]:
        """The columns of `to_frame`, as lists."""
        return self._columns_of(list(self._views), level, of)

    @property
    def _headings(self) -> dict[str, str]:
        """The columns that say which group, and what is written before their levels."""
        return group_headings(self._by, self.continual is not None)

    def _columns_of(self, views: Sequence[str], level: float, of: str) -> dict[str, list[Any]]:
        level, of = checked(level, of)
        heads = list(self._headings)
        columns: dict[str, list[Any]] = {name: [] for name in (*heads, *FIXED)}
        series = [] if self.continual is None else [PERIOD]
        for view in views:
            for grouping, each in self._lines(view):
                found = each.intervals(level, of)
                n = len(grouping.labels)
                for index, name in enumerate(heads[len(series) :]):
                    known = (label[index] for label in grouping.labels)
                    columns[name] += ["" if value is None else value for value in known]
                for name in series:
                    columns[name] += [view] * n
                columns["column"] += [each.column] * n
                columns["statistic"] += [each.statistic] * n
                columns["level"] += [each.level] * n
                for name in FIELDS:
                    columns[name] += found[name].tolist()
        return columns

    def intervals(self, level: float = 0.95, of: str = "population") -> Intervals:
        """Every number with its interval, by its name; `to_frame` has the same as a long table.

        Parameters
        ----------
        level, of
            As in `to_frame`.
        """
        found = as_answers(self.to_columns(level, of), self._headings, self.dates_)
        rows = [(f"{each.title}: {name}", row) for each in found for name, row in each.rows]
        value, error, low, high = np.array([row for _, row in rows]).reshape(-1, len(FIELDS)).T
        names = tuple(name for name, _ in rows)
        return Intervals(names, value, error, low, high, level, of)

    def answers(self) -> list[Answer]:
        """A table for each column and statistic, with a row for each group."""
        answers, note = (
            as_answers(self.to_columns(), self._headings, self.dates_),
            self._counts_said(),
        )
        return [each._replace(note=note if each.title == "count" else "") for each in answers]

    def histogram(self, column: str, n_bins: int = 20) -> tuple[FloatArray, FloatArray] | None:
        """Rows of all groups together in bins of one width; None where no quantiles were asked.

        Parameters
        ----------
        column : str
        n_bins : int

        Returns
        -------
        (edges, counts) or None
            Of a series in the total to date. Counts are not negative.
        """
        total, sums, _ = self._views[self._latest[-1]][-1]
        n_bins = _validate.count("n_bins", n_bins)
        if column not in self.limits_:
            raise ValueError(
                f"Expected a numeric column of this summary, got {column!r}; choose from "
                f"{', '.join(self.limits_)}."
            )
        if sums.leaves is None:
            return None
        index, (low, high) = list(self.limits_).index(column), self.limits_[column]
        curve = np.cumsum(total.sum(sums.leaves[:, index]), axis=-1)
        curve = tree.increasing(curve, curve[:, -1])[0]
        ends = np.linspace(0.0, 1.0, n_bins + 1)
        places = sums.places[index]
        shown = np.interp(ends, places, np.concatenate([[0.0], curve]))
        return low + (high - low) * ends, np.diff(shown)

    @property
    def _latest(self) -> list[str]:
        """Of a series the last period and the total to date; else all there is."""
        if self.continual is None:
            return [""]
        last = f"{self.period}"
        return [last] if self.period == 1 else [last, f"1 to {last}"]

    def summary(self, level: float = 0.95, of: str = "population") -> str:
        """Everything as text: a table for each column, and what the intervals cover.

        Of a series the last period and the total to date.
        """
        told, heads = self._columns_of(self._latest, level, of), self._headings
        share = f"{100 * level:.4g}% interval"
        parts = []
        keys = zip(told["column"], told["statistic"], told["level"], strict=True)
        for key in dict.fromkeys(keys):
            column, statistic, name = key
            title = " ".join(filter(None, [statistic, f"of {column}" if column else "", name]))
            rows = [
                index
                for index, each in enumerate(
                    zip(told["column"], told["statistic"], told["level"], strict=True)
                )
                if each == key
            ]
            groups = [group_name(told, heads, index) for index in rows]
            wide = max(12, *(len(group) + 2 for group in groups))
            parts.append(f"{title:{wide}}  estimate  standard error  {share}")
            for group, index in zip(groups, rows, strict=True):
                estimate, error, low, high = (told[name][index] for name in FIELDS)
                if math.isnan(estimate):
                    parts.append(f"{group:{wide}}{UNKNOWN:>10}")
                else:
                    unit = unit_of(statistic) if column in self.dates_ else ""
                    value, *ends = (as_words(each, "", unit) for each in (estimate, low, high))
                    spread = f"{error:.3g} days" if unit else f"{error:.3g}"
                    parts.append(f"{group:{wide}}{value:>10}{spread:>16}  {' to '.join(ends)}")
            parts.append("")
        parts.append(f"The intervals cover {COVERED[of]}; those of counts, privacy noise.")
        parts += filter(None, [self._counts_said()])
        parts.append("Counts are not negative and add up; means lie within the limits.")
        return "\n".join(parts)

    def plot(self, column: str | None = None, statistic: str = "mean") -> Figure:
        """Bars with error bars: one statistic for every group of the finest grouping.

        Parameters
        ----------
        column : str, optional
            Which column; the first numeric one if not given, or counts if there is none.
        statistic : str
            "count", "mean", "sd", or a quantile such as "q0.5".

        Returns
        -------
        matplotlib.figure.Figure
        """
        with _validate.installed("matplotlib to draw", "'ndis[plots]'"):
            from matplotlib.figure import Figure
        chosen = next(iter(self.limits_), "") if column is None else column
        wanted = ("", "count") if statistic == "count" or not chosen else (chosen, statistic)
        grouping, *_ = self._views[self._latest[-1]][0]
        found = next(
            (
                each.intervals(0.95, "population")
                for of, each in self._lines(self._latest[-1])
                if of is grouping and (each.column, each.statistic) == wanted
            ),
            None,
        )
        if found is None:
            raise ValueError(
                f"Expected a statistic that was released, got {statistic!r} of {column!r}; see "
                "to_frame for all of them."
            )
        figure = Figure(figsize=(7.0, 1.0 + 0.35 * len(grouping.labels)), layout="constrained")
        axes = figure.subplots()
        names = [", ".join(map(str, label)) or "total" for label in grouping.labels]
        errors = np.abs(np.stack([found["lower"], found["upper"]]) - found["estimate"])
        axes.barh(names, found["estimate"], xerr=np.nan_to_num(errors), color="#9ab8d8", capsize=3)
        axes.invert_yaxis()
        axes.set_xlabel(" of ".join(filter(None, [wanted[1], wanted[0]])) + ", with 95% intervals")
        return figure


_TWICE = {str(NeighbourRelation.ADD_REMOVE): 1, _REPLACE: 2}


def _numbers(rows: Rows) -> tuple[int, ...]:
    """Which numbers of a row are columns of the table; an intercept stands for none."""
    return tuple(range(len(rows.features.columns)))


def _each(sums: ExactSum, function: Any) -> ExactSum:
    """The same done to all limbs of exact sums: adding them up, or another shape."""
    part = None if sums.part is None else function(sums.part)
    return ExactSum(function(sums.high), function(sums.low), part)


def _of_places(
    table: Any, columns: Sequence[int], places: Sequence[Sequence[Any]], kept: Sequence[list[int]]
) -> FloatArray:
    """The cells of a grouping at some places of each column alone."""
    shape, rest = [len(places[i]) for i in columns], table.shape[1:]
    chosen = np.asarray(table).reshape(*shape, *rest)[np.ix_(*(kept[i] for i in columns))]
    return np.asarray(chosen.reshape(-1, *rest))
