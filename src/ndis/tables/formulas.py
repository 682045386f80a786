"""Formulas: columns of a design matrix from the columns of a table, with public bounds.

The package formulaic reads a formula and decides, on a made-up table of public limits and levels,
which levels are left out. Everything else is done here: limits travel through arithmetic by
interval, levels become indicators, splines have their knots between public limits. What becomes of
a record depends on that record and on public parameters alone, so what needs the data (`scale`,
`center`, `poly`, knots at quantiles) is refused. Each step is an operation of single numbers that
does not depend on their place in a block.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ndis._validate import FloatArray, installed, wrong
from ndis.tables.sources import Request, Source
from ndis.tables.values import NUMBER, Kind, Records, level_positions, numbers, present

Bounds = tuple[float, float]
# Least and largest power of a column.
_POWERS = range(1, 9)


def _each(function: Callable[[float], float]) -> Callable[[FloatArray], FloatArray]:
    """A function of the mathematics library: one number at a time, wherever it stands."""
    return lambda values: np.array([function(value) for value in values.tolist()])


# Functions that rise with their argument, and from where on.
_RISING: dict[str, tuple[Callable[[Any], Any], float]] = {
    "log": (_each(math.log), math.ulp(0.0)),
    "exp": (_each(math.exp), -math.inf),
    "sqrt": (np.sqrt, 0.0),
}
_INSTEAD = {
    "scale": "write public numbers, as in I((age - 40) / 10)",
    "standardize": "write public numbers, as in I((age - 40) / 10)",
    "center": "write a public number, as in I(age - 40)",
    "poly": "write powers, as in age + I(age ** 2)",
    "cr": "write bs(age, df=4), whose knots lie between the limits",
    "cs": "write bs(age, df=4), whose knots lie between the limits",
    "cc": "write bs(age, df=4), whose knots lie between the limits",
}


@dataclass(frozen=True)
class Factor:
    """A part of a term: one number of a record, or several of which at most one counts fully.

    Attributes
    ----------
    text : str
        As it is written.
    bounds : (float, float)
        Of its numbers.
    names : tuple of str
        What is put in brackets behind `text`; none for a single number.
    evaluate : callable
        Maps columns of records by name to an array of shape (n_numbers, n_records).
    """

    text: str
    bounds: Bounds
    names: tuple[str, ...]
    evaluate: Any


@dataclass(frozen=True)
class Numeric:
    """The value of an arithmetic expression."""

    tree: Any

    def __call__(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """One row."""
        return np.asarray(_value(self.tree, columns), dtype=np.float64)[None]


@dataclass(frozen=True)
class Levels:
    """Indicators of some levels of a column, by their positions."""

    name: str
    places: tuple[int, ...]

    def __call__(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """A row for each level."""
        return np.array([columns[self.name] == place for place in self.places], dtype=np.float64)


@dataclass(frozen=True)
class Spline:
    """B-splines by the recursion of Cox and de Boor."""

    name: str
    knots: tuple[float, ...]
    degree: int
    first: int

    def __call__(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """A row for each spline."""
        x, t = columns[self.name], self.knots
        last = max(i for i in range(len(t) - 1) if t[i] < t[i + 1])
        basis = [
            ((t[i] <= x) & ((x < t[i + 1]) | (i == last))).astype(np.float64)
            for i in range(len(t) - 1)
        ]
        for k in range(1, self.degree + 1):
            basis = [
                _share(x - t[i], t[i + k] - t[i]) * basis[i]
                + _share(t[i + k + 1] - x, t[i + k + 1] - t[i + 1]) * basis[i + 1]
                for i in range(len(basis) - 1)
            ]
        return np.where(np.isnan(x), np.nan, np.array(basis[self.first :]))


def _share(part: FloatArray, whole: float) -> FloatArray:
    return part / whole if whole > 0 else np.zeros_like(part)


@dataclass(frozen=True)
class Design:
    """The design matrix of a formula, from public limits and levels alone; `Design.of` makes one.

    Attributes
    ----------
    columns : tuple of str
        Columns of the table that are read.
    label : str or None
        The column on the left of ``~``.
    intercept : bool
        Whether the formula has one.
    names : tuple of str
        Of the columns of the design matrix, without the intercept.
    limits : dict of str to (float, float)
        Of these columns.
    n_terms : int
        Scaled by these limits, a row is no longer than the root of this.

    Examples
    --------
    >>> from ndis.tables.formulas import Design
    >>> design = Design.of("pay ~ age + C(sector)", {"age": (20, 60)}, {"sector": ["a", "b"]})
    >>> design.label, design.names, design.limits["age"]
    ('pay', ('age', 'C(sector)[T.b]'), (20.0, 60.0))
    """

    columns: tuple[str, ...]
    label: str | None
    intercept: bool
    names: tuple[str, ...]
    limits: dict[str, Bounds]
    n_terms: int
    terms: tuple[tuple[Factor, ...], ...] = field(repr=False)
    raw: Mapping[str, Bounds] = field(repr=False)
    levels: Mapping[str, tuple[Any, ...]] = field(repr=False)

    @classmethod
    def of(
        cls, formula: str, limits: Mapping[str, Bounds], levels: Mapping[str, Sequence[Any]]
    ) -> Design:
        """Read a formula.

        Parameters
        ----------
        formula : str
            As formulaic reads it: ``"pay ~ age + C(sector) + age:C(sector) + bs(hired, df=4)"``.
        limits : mapping of str to (low, high)
            Public limits of the numeric columns.
        levels : mapping of str to sequence
            Public levels of the others; the first is the baseline, as is any other value.
        """
        with installed("formulaic for a formula", "'ndis[formula]'"):
            import formulaic
        try:
            read = formulaic.Formula(formula)
        except Exception as error:  # of several classes
            first = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"Expected a formula, got {formula!r} ({first}); write it as pay ~ age + C(sector)."
            ) from None
        left, right = getattr(read, "lhs", None), getattr(read, "rhs", read)
        label = None
        if left is not None:
            (label,) = (str(term) for term in left) if len(list(left)) == 1 else ("",)
            if not label.isidentifier():
                raise ValueError(
                    f"Expected one column on the left of ~, got {formula.partition('~')[0]!r}; "
                    "compute others before."
                )
        reader = _Reader(limits, {name: tuple(known) for name, known in levels.items()})
        terms: list[tuple[Factor, ...]] = []
        intercept = False
        for coded in _coded(formulaic, right, reader):
            if not coded:
                intercept = True
            else:
                terms.append(coded)
        bounds: dict[str, Bounds] = {}
        for term in terms:
            bounds.update(_bounds(term))
        if not terms:
            raise ValueError(f"Expected a formula with columns, got {formula!r}; name some.")
        names = tuple(reader.used)
        return cls(
            names,
            label,
            intercept,
            tuple(bounds),
            bounds,
            len(terms),
            tuple(terms),
            {name: limits[name] for name in names if name not in reader.levels},
            {name: reader.levels[name] for name in names if name in reader.levels},
        )

    def __call__(self, batch: Any, others: Sequence[str]) -> Records:
        """Records of the design matrix, and other columns as they are; NaN where one is missing."""
        import pyarrow as pa

        kept = np.ones(batch.num_rows, dtype=bool)
        for name in self.columns:
            kept &= present(batch.column(name))
        where = np.flatnonzero(kept)
        whole = len(where) == batch.num_rows
        values = {}
        for name in self.columns:
            column = batch.column(name) if whole else batch.column(name).take(where)
            if name in self.levels:
                values[name] = level_positions(name, column, self.levels[name])
            else:
                number = np.asarray(numbers(name, column), dtype=np.float64)
                number = np.where(np.isfinite(number), number, np.nan)
                values[name] = np.clip(number, *self.raw[name])
        made = np.full((len(self.names), batch.num_rows), np.nan)
        if len(where):
            made[:, where] = np.vstack([_product(term, values) for term in self.terms])
        columns = {name: pa.array(row) for name, row in zip(self.names, made, strict=True)}
        return Records({**columns, **{name: batch.column(name) for name in others}})

    @property
    def kinds(self) -> dict[str, Kind]:
        """What the columns that are read hold."""
        return {name: self.levels.get(name, NUMBER) for name in self.columns}

    def source(self, source: Source) -> Source:
        """A source of the design matrix, beside the other columns of another source."""
        others = tuple(name for name in source.names if name not in self.columns)

        def asked(request: Request) -> tuple[Request, tuple[str, ...]]:
            beside = tuple(name for name in request.columns if name in others)
            kinds = {name: kind for name, kind in request.kinds.items() if name in beside}
            wanted = (*self.columns, *beside)
            return replace(request, columns=wanted, kinds={**kinds, **self.kinds}), beside

        def read(request: Request) -> Iterator[Records]:
            inner, beside = asked(request)
            for batch in source.read(inner):
                yield self(batch, beside)

        def reduce(request: Request, work: Any, what: str) -> Any:
            inner, beside = asked(request)
            mapped: Any = _Mapped(self, beside, work)
            return source.reduce(inner, mapped, what)  # type: ignore[misc]

        def keep(request: Request, work: Any) -> Any:
            inner, beside = asked(request)
            mapped: Any = _Mapped(self, beside, work)
            return source.keep(inner, mapped)  # type: ignore[misc]

        def count(request: Request, work: Any) -> Any:
            if not set(self.names) & set(request.columns):  # whatever the formula's are
                return source.count(request, work)  # type: ignore[misc]
            inner, beside = asked(request)
            return source.count(inner, _Mapped(self, beside, work))  # type: ignore[misc]

        return replace(
            source,
            names=(*self.names, *others),
            read=read,
            header=False,
            widths={},
            reduce=None if source.reduce is None else reduce,
            count=None if source.count is None else count,
            keep=None if source.keep is None else keep,
        )


@dataclass(frozen=True)
class _Mapped:
    """What is done with batches elsewhere: the design matrix first."""

    design: Design
    beside: tuple[str, ...]
    work: Any

    def __call__(self, batch: Any) -> Any:
        return self.work(self.design(batch, self.beside))

    def blocks(self, batch: Any, total: Any) -> Any:
        """The blocks of a batch, as those of a `Pass`."""
        return self.work.blocks(self.design(batch, self.beside), total)

    @property
    def rows(self) -> Any:
        """The recipe for rows."""
        return self.work.rows

    @property
    def raw(self) -> bool:
        """Whether rows are the numbers as they are in the table."""
        return bool(self.work.raw)

    @property
    def function(self) -> Any:
        """What is added up."""
        return self.work.function

    def n_numbers(self) -> int:
        """How many numbers the sums are."""
        return int(self.work.n_numbers())


def _product(term: tuple[Factor, ...], values: Mapping[str, FloatArray]) -> FloatArray:
    """The numbers of a term: products of its factors', the first's varying fastest."""
    made = term[0].evaluate(values)
    for factor in term[1:]:
        more = factor.evaluate(values)
        made = (more[:, None] * made[None]).reshape(-1, made.shape[1])
    return np.asarray(made)


def _bounds(term: tuple[Factor, ...]) -> dict[str, Bounds]:
    """Names and limits of a term's columns.

    Where at most one number counts fully, limits are symmetric: zero stays zero.
    """
    names, low, high = [""], 1.0, 1.0
    for factor in term:
        own = [f"{factor.text}[{name}]" for name in factor.names] or [factor.text]
        names = [f"{before}:{name}" if before else name for name in own for before in names]
        ends = [one * other for one in (low, high) for other in factor.bounds]
        low, high = min(ends), max(ends)
    if any(factor.names for factor in term):
        low, high = -max(abs(low), abs(high)), max(abs(low), abs(high))
    return dict.fromkeys(names, (low, high))


def _coded(formulaic: Any, right: Any, reader: _Reader) -> Iterator[tuple[Factor, ...]]:
    """The terms with their factors, coded so that columns are not redundant; () is the intercept.

    Which levels are left out is decided by formulaic, on a table made of limits and levels.
    """
    import pandas as pd

    factors = {factor.expr: factor for term in right for factor in term.factors}
    known = {text: reader.factor(text, False) for text in factors if text not in ("0", "1")}
    length = max([2, *map(len, reader.levels.values())])
    # What is a number stands here as one, splines too: only levels matter.
    stand_in = {text: f"ndis_{index}" for index, text in enumerate(known)}
    table: dict[str, Any] = {}
    for text, factor in known.items():
        values: Any = np.linspace(1.0, 2.0, length)
        if isinstance(factor.evaluate, Levels):
            levels = reader.levels[factor.evaluate.name]
            codes = [index % len(levels) for index in range(length)]
            values = pd.Categorical.from_codes(codes, [*levels])
        table[stand_in[text]] = values
    plain = [":".join(stand_in.get(f.expr, f.expr) for f in term.factors) for term in right]
    text = " + ".join(["0", *plain]) if plain else "0"
    matrix = formulaic.model_matrix(text, pd.DataFrame(table), na_action="ignore")
    back = {name: text for text, name in stand_in.items()}
    for structure in matrix.model_spec.structure:
        for scoped in structure.scoped_terms:
            yield tuple(reader.factor(back[f.factor.expr], f.reduced) for f in scoped.factors)


@dataclass
class _Reader:
    """What factors mean, and which columns they use."""

    limits: Mapping[str, Any]
    levels: Mapping[str, tuple[Any, ...]]
    used: dict[str, None] = field(default_factory=dict)

    def factor(self, text: str, reduced: bool) -> Factor:
        """A factor, without its first level where it is reduced."""
        tree = ast.parse(text.strip("`"), mode="eval").body
        if isinstance(tree, ast.Name) and tree.id in self.levels:
            return self._levels(text, tree.id, reduced)
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            if tree.func.id == "C":
                return self._levels(text, self._column(tree, alone=True), reduced)
            if tree.func.id == "bs":
                return self._spline(text, tree)
        return Factor(text, self._bounds(tree), (), Numeric(tree))

    def _column(self, call: ast.Call, alone: bool = False) -> str:
        """The name of the column that a call is of."""
        first = call.args[0] if call.args else None
        if not isinstance(first, ast.Name) or (alone and (call.args[1:] or call.keywords)):
            raise wrong("levels")(
                f"Expected the name of one column, got {ast.unparse(call)}; write C(sector) and "
                "pass its levels."
            )
        return first.id

    def _levels(self, text: str, name: str, reduced: bool) -> Factor:
        if name not in self.levels:
            raise wrong("levels")(
                f"Expected levels of column {name!r}, got none; list them in levels: those found "
                "in the data are not public."
            )
        self.used[name] = None
        known = self.levels[name]
        places = tuple(range(int(reduced), len(known)))
        mark = "T." if reduced else ""
        names = tuple(f"{mark}{known[place]}" for place in places)
        return Factor(text, (0.0, 1.0), names, Levels(name, places))

    def _spline(self, text: str, call: ast.Call) -> Factor:
        name = self._column(call)
        low, high = self._limits(name)
        names = ("df", "knots", "degree", "include_intercept")
        given = dict(zip(names, call.args[1:], strict=False))
        given.update({str(each.arg): each.value for each in call.keywords})
        try:
            how = {key: ast.literal_eval(value) for key, value in given.items()}
        except ValueError:
            how = {"?": None}
        degree, first = how.get("degree", 3), int(not how.get("include_intercept", False))
        inner = how.get("knots")
        if inner is None and isinstance(how.get("df"), int):
            n = how["df"] - degree - 1 + first
            inner = [low + (high - low) * (i + 1) / (n + 1) for i in range(n)] if n >= 0 else None
        if (
            set(how) - set(names)
            or inner is None
            or degree not in range(1, 6)
            or not all(low < knot < high for knot in inner)
        ):
            raise ValueError(
                f"Expected a spline such as bs({name}, df=4) or bs({name}, knots=[1, 2]) with "
                f"knots between the limits, got {text}; correct it."
            )
        knots = (*[low] * (degree + 1), *sorted(map(float, inner)), *[high] * (degree + 1))
        count = len(knots) - degree - 1
        numbered = tuple(str(index) for index in range(first, count))
        return Factor(text, (0.0, 1.0), numbered, Spline(name, knots, degree, first))

    def _limits(self, name: str) -> Bounds:
        if name not in self.limits:
            raise ValueError(
                f"Expected limits of column {name!r}, which the formula names, got none; add its "
                "least and largest value, or its levels."
            )
        self.used[name] = None
        low, high = self.limits[name]
        return float(low), float(high)

    def _bounds(self, tree: Any) -> Bounds:
        """The interval of an expression over all records within the limits."""
        if isinstance(tree, ast.Name):
            return self._limits(tree.id)
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float):
            return float(tree.value), float(tree.value)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            low, high = self._bounds(tree.operand)
            return -high, -low
        if isinstance(tree, ast.BinOp):
            one, other = self._bounds(tree.left), self._bounds(tree.right)
            found = _combined(tree.op, one, other)
            if found is not None and all(map(math.isfinite, found)):
                return found
        if isinstance(tree, ast.Call) and len(tree.args) == 1 and not tree.keywords:
            called = ast.unparse(tree.func).removeprefix("np.")
            if called == "I":
                return self._bounds(tree.args[0])
            low, high = self._bounds(tree.args[0]) if called in _RISING else (0.0, 0.0)
            if called in _RISING and low >= _RISING[called][1]:
                ends = [_value(tree, {}, end) for end in (low, high)]
                if all(map(math.isfinite, ends)):
                    return float(ends[0]), float(ends[1])
        written = ast.unparse(tree)
        called = ast.unparse(tree.func) if isinstance(tree, ast.Call) else ""
        instead = _INSTEAD.get(
            called,
            "write columns, numbers, + - * /, powers, log, exp or sqrt with finite values between "
            "the limits, C(...) or bs(...)",
        )
        raise ValueError(
            f"Expected what follows from one record and public limits, got {written}; {instead}."
        )


def _combined(op: ast.operator, one: Bounds, other: Bounds) -> Bounds | None:
    """The interval of a sum, a difference, a product, a quotient or a power; None of others."""
    if isinstance(op, ast.Add):
        return one[0] + other[0], one[1] + other[1]
    if isinstance(op, ast.Sub):
        return one[0] - other[1], one[1] - other[0]
    if isinstance(op, ast.Mult):
        ends = [a * b for a in one for b in other]
        return min(ends), max(ends)
    if isinstance(op, ast.Div) and (other[0] > 0 or other[1] < 0):
        ends = [a / b for a in one for b in other]
        return min(ends), max(ends)
    if isinstance(op, ast.Pow) and other[0] == other[1] in _POWERS:
        ends = [end ** other[0] for end in one]
        least = 0.0 if other[0] % 2 == 0 and one[0] < 0 < one[1] else min(ends)
        return least, max(ends)
    return None


def _value(tree: Any, columns: Mapping[str, FloatArray], argument: float | None = None) -> Any:
    """The value of an expression that has bounds; with an argument, of a function there."""
    if isinstance(tree, ast.Name):
        return columns[tree.id]
    if isinstance(tree, ast.Constant):
        return float(tree.value)  # type: ignore[arg-type]
    if isinstance(tree, ast.UnaryOp):
        return -_value(tree.operand, columns)
    if isinstance(tree, ast.Call):
        called = ast.unparse(tree.func).removeprefix("np.")
        if called == "I":
            return _value(tree.args[0], columns)
        given = np.array([argument]) if argument is not None else _value(tree.args[0], columns)
        made = _RISING[called][0](given)
        return float(made[0]) if argument is not None else made
    one, other = _value(tree.left, columns), _value(tree.right, columns)
    if isinstance(tree.op, ast.Pow):
        made = one
        for _ in range(int(other) - 1):
            made = made * one
        return made
    return _OPERATIONS[type(tree.op)](one, other)


_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.Div: lambda one, other: one / other,
}
