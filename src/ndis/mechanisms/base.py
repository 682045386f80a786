"""The protocol of an estimator: the same verbs with the same meaning everywhere.

Parameters are the fields of a dataclass: they are stored, and nothing is done with them. `plan`
needs no data and says what will happen: which method and why, its noise, its worst-case loss and
what it promises. `calibrate` and `guarantee` read the plan; `forecast` says what the release will
be good for. `fit` opens the table, checks all that can fail, pays, draws and certifies. What may be
published is in `release_`, nothing else; other fitted attributes follow from it or belong to the
owner of the data.

A new estimator of tables writes four things: `_plan`, `_study` (what is read before anything is
paid), `_draw` (what is released, from what was studied and a generator) and `_finish` (what follows
from the release). docs/how-to-add-a-mechanism.md has an example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from ndis import _validate
from ndis.calibration import ROUND_UP, least_noise, noise_multiplier, shift_profile
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import PrivacyLoss
from ndis.mechanisms import octaves
from ndis.mechanisms.publish import ask, publish
from ndis.randomness import RandomState
from ndis.release import Release, Shapes
from ndis.risk import Risk
from ndis.tables import PRIVATE, Block, Columns, ExactSum, Rows, Table

if TYPE_CHECKING:
    from ndis.ledger import Ledger

Arrays = dict[str, Any]
Noise = Any  # a number, or a number for each part by name


@dataclass(frozen=True)
class Plan:
    """What a mechanism will do, decided before it sees any data.

    Attributes
    ----------
    method : str
        Which method was chosen.
    noise_scale : float or dict of str to float
        Standard deviation of the noise, in units of what is released; by name where several
        statistics are. For a method in rounds, that of the first.
    guarantee : Guarantee
        What will be promised, with the worst-case loss.
    shapes : dict of str to tuple of int
        Shapes of the released arrays.
    reason : str
        Why this method, in one sentence.
    """

    method: str
    noise_scale: Noise
    guarantee: Guarantee
    shapes: Shapes
    reason: str

    @property
    def loss(self) -> PrivacyLoss:
        """The worst-case privacy loss."""
        loss = self.guarantee.loss
        assert loss is not None
        return loss


@dataclass(frozen=True)
class Forecast:
    """What a release can be expected to be good for, from public numbers and stated assumptions.

    Attributes
    ----------
    errors : dict of str to (float, float)
        For each kind of error the range in which it is expected, over the assumptions.
    assumptions : tuple of str
        What was assumed about the data, one short sentence each.

    Examples
    --------
    >>> from ndis.mechanisms.base import Forecast
    >>> print(Forecast({"standard error of a mean": (0.1, 0.2)}, ("1,000 rows",)))
    standard error of a mean: 0.1 to 0.2, assuming 1,000 rows
    """

    errors: Mapping[str, tuple[float, float]]
    assumptions: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line for each error."""
        assumed = f", assuming {'; '.join(self.assumptions)}" if self.assumptions else ""
        return "\n".join(
            f"{name}: {low:.3g}{'' if low == high else f' to {high:.3g}'}{assumed}"
            for name, (low, high) in self.errors.items()
        )


# A risk that is reached up to this share needs no better (epsilon, delta); and how often one is
# looked for.
_REACHED, _LOOKS = 1e-4, 4


@dataclass(frozen=True)
class Target:
    """What noise has to achieve: (epsilon, delta), or a delta at a noise that is given.

    A risk is achieved with any (epsilon, delta) that keeps to it: first the one that is best for a
    mean that moves, then, where a loss is another, the one that is best for it.

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
    """

    epsilon: float | None
    delta: float
    limits: float = 0.0
    risk: Risk | None = None
    promised: float | None = None

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
        return self.unit * self.limits / math.sqrt(octaves.SHARE) * ROUND_UP

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
        epsilon = self.epsilon
        if epsilon is None or self.risk is not None:
            epsilon = float(loss.epsilon(delta))
        return Guarantee(epsilon, delta, NeighbourRelation(relation), basis, loss, note=note)


def mean_shift(
    target: Target, parts: Mapping[str, tuple[float, float]], given: Noise | None = None
) -> tuple[dict[str, float], PrivacyLoss]:
    """Noise on several sums that is one mean shift, D^2 = sum (sensitivity / noise)^2.

    Limits that are to be found are one more part of it, named "limits", with a tenth of D^2, or all
    of it where there is no other part.

    Parameters
    ----------
    target : Target
    parts : mapping of str to (sensitivity, share)
        How far one row moves each sum, and its share of D^2; shares add up to one.
    given : dict of str to float, optional
        The noise of each part, where the caller has chosen it.

    Returns
    -------
    noise : dict of str to float
    loss : PrivacyLoss

    Examples
    --------
    >>> from ndis.mechanisms.base import Target, mean_shift
    >>> noise, loss = mean_shift(Target(1.0, 1e-6), {"sum": (2.0, 0.8), "count": (1.0, 0.2)})
    >>> f"{noise['sum']:.4f}", f"{noise['count']:.4f}", f"{loss.delta(1.0):.3e}"
    ('9.4467', '9.4467', '1.000e-06')
    """
    if target.limits:
        left = 1.0 - octaves.SHARE
        others = {name: (moved, left * share) for name, (moved, share) in parts.items()}
        parts = {**others, "limits": (target.limits, octaves.SHARE if parts else 1.0)}
    if given is not None:
        noise = chosen_noise(given, parts)
        distance = math.sqrt(math.fsum((parts[name][0] / noise[name]) ** 2 for name in parts))
        return noise, shift_profile(distance)
    noise = {
        name: target.unit * sensitivity / math.sqrt(share) * ROUND_UP
        for name, (sensitivity, share) in parts.items()
    }
    return noise, shift_profile(1.0 / target.unit)


def chosen_noise(given: Noise, parts: Collection[str]) -> dict[str, float]:
    """The noise of each part, as the caller has chosen it."""
    if not isinstance(given, Mapping) or set(given) != set(parts):
        raise ValueError(
            f"Expected noise_scale to name {', '.join(parts)}, got {given!r}; "
            "pass a dict with the noise of each."
        )
    return {name: _validate.positive(f"noise_scale[{name!r}]", given[name]) for name in parts}


def require_rows(n_rows: int, max_rows: int) -> None:
    """Refuse a table that is longer than was declared."""
    if n_rows > max_rows:
        raise ValueError(
            f"Expected at most max_rows={max_rows} rows, as declared public, got more; "
            "raise max_rows, or hand over fewer rows."
        )


# Parameters that the certificate does not repeat: promise and noise stand there anyway.
_UNPUBLISHED = ("epsilon", "target", "delta", "noise_scale", "random_state", "ledger")
# An estimator cannot see earlier steps of a pipeline.
_EARLIER = "Whatever was done to the array before is not covered."


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the estimators: what they all take, and the way from a plan to a release.

    Parameters
    ----------
    epsilon, delta : float
        What is to be promised; always asked for.
    target : Risk, optional
        A risk that is not to be exceeded, in place of `epsilon`; the guarantee says which epsilon
        follows at this `delta`.
    noise_scale : float or dict of str to float, optional
        Noise to use instead of the least that (epsilon, delta) needs; then `epsilon` is left out,
        and the guarantee says which epsilon follows.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.
    """

    epsilon: float | None = None
    delta: float | None = None
    target: Risk | None = None
    noise_scale: Noise | None = None
    random_state: RandomState = None
    ledger: Ledger | None = None

    # -- before the data -----------------------------------------------------------------------

    def plan(self, size: Any = None) -> Plan:
        """What `fit` will do for data of this size; needs no data."""
        raise NotImplementedError  # every estimator has its own, as of the four below

    def calibrate(self, size: Any = None) -> Noise:
        """The noise that `fit` will use, as `noise_scale_`; needs no data."""
        return self.plan(size).noise_scale

    def guarantee(self, size: Any = None) -> Guarantee:
        """The guarantee that a release will carry; needs no data."""
        return self.plan(size).guarantee

    def _target(self) -> Target:
        """What is asked for, checked."""
        delta = _validate.probability("delta", _asked("delta", self.delta))
        if self.noise_scale is not None:
            if self.epsilon is not None or self.target is not None:
                raise ValueError(
                    "Expected epsilon or noise_scale, or a target, got two of them (epsilon="
                    f"{self.epsilon}, target={self.target}); with a noise_scale the guarantee says "
                    "which epsilon follows."
                )
            return Target(None, delta)
        if self.target is not None:
            if self.epsilon is not None:
                raise ValueError(
                    f"Expected epsilon or target, got both (epsilon={self.epsilon}); the guarantee "
                    "says which epsilon follows from a target."
                )
            return Target.of(self.target, delta)
        return Target(_validate.non_negative("epsilon", _asked("epsilon", self.epsilon)), delta)

    # -- with the data -------------------------------------------------------------------------

    def _study(self, data: Any, plan: Plan) -> Any:
        """What has to be read before anything is paid: all that can fail, fails here."""
        raise NotImplementedError

    def _draw(self, studied: Any, plan: Plan, data: Any, rng: np.random.Generator) -> Arrays:
        """The released arrays; changes nothing."""
        raise NotImplementedError

    def _read(self, data: Any, plan: Plan) -> Any:
        """What is read before anything is paid."""
        return self._study(data, plan)

    def _answer(self, studied: Any, plan: Plan, data: Any, rng: np.random.Generator) -> Arrays:
        """All released arrays."""
        return self._draw(studied, plan, data, rng)

    def _release(self, data: Any, plan: Plan) -> Release:
        """Ask, read, pay, draw, certify."""
        ask(plan.guarantee, self.ledger, self.random_state)  # before the data are read
        studied = self._read(data, plan)
        self.release_ = publish(
            lambda rng: self._answer(studied, plan, data, rng),
            plan.guarantee,
            type(self).__name__,
            {**self._public(data), "method": plan.method, "noise_scale": plan.noise_scale},
            plan.shapes,
            random_state=self.random_state,
            ledger=self.ledger,
        )
        self.noise_scale_ = plan.noise_scale
        return self.release_

    def _public(self, data: Any) -> dict[str, Any]:
        """What the certificate says about the mechanism: from this its plan can be made again."""
        own = {k: v for k, v in self.get_params(deep=False).items() if k not in _UNPUBLISHED}
        return {name: value for name, value in own.items() if value is not None}

    @classmethod
    def from_public(cls, parameters: Mapping[str, Any], delta: float) -> Plan:
        """The plan that the parameters of a certificate imply, at the noise that they state."""
        return cls.from_certificate(parameters, delta).plan(parameters.get("size"))

    @classmethod
    def from_certificate(cls, parameters: Mapping[str, Any], delta: float) -> Self:
        """The estimator that a certificate describes, with the noise that it states."""
        known = set(cls._get_param_names())
        unknown = parameters.keys() - known - {"size", "method", "label"}
        if unknown:
            raise ValueError(
                f"Expected parameters of {cls.__name__}, got {', '.join(map(repr, unknown))}; "
                "correct the certificate."
            )
        own = {name: value for name, value in parameters.items() if name in known}
        return cls(**{**own, "delta": delta})

    @classmethod
    def from_release(cls, release: Release) -> Any:
        """The estimator that made a release, ready to be asked: what the public does with a file.

        Parameters
        ----------
        release : Release
            As `Release.load` reads it.
        """
        if release.mechanism != cls.__name__:
            raise ValueError(
                f"Expected a release of {cls.__name__}, got one of {release.mechanism}; "
                "read its arrays instead."
            )
        model = cls.from_certificate(release.parameters, release.guarantee.delta)
        model.release_, model.noise_scale_ = release, release.parameters["noise_scale"]
        model._restore()
        return model

    def _restore(self) -> None:
        """Set the fitted attributes of `from_release`, where there are more than the release."""

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of what was released."""
        return self.release_.guarantee

    # -- shown ---------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """Parameters and, after fitting, the guarantee as a sentence."""
        promise = f"<p>{escape(str(self.guarantee_))}</p>" if hasattr(self, "release_") else ""
        return f"<pre>{escape(repr(self))}</pre>{promise}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _is_private(limits: Any) -> bool:
    return isinstance(limits, str) and limits == PRIVATE


def _is_pair(limits: Any) -> bool:
    """Whether these are the limits of one column, or of all."""
    return len(limits) == 2 and all(np.ndim(end) == 0 and not _is_private(end) for end in limits)


def _by_name(names: Sequence[str], limits: Any, what: str) -> dict[str, Any]:
    """The limits of columns in order; one pair stands for all."""
    pairs = [tuple(limits)] * len(names) if _is_pair(limits) else list(limits)
    if len(pairs) != len(names):
        raise ValueError(
            f"Expected one pair of limits for each of {len(names)} {what}, got {len(pairs)}; "
            "list (low, high) for every column in order."
        )
    return dict(zip(names, pairs, strict=True))


def _asked(name: str, value: Any) -> Any:
    if value is None:
        raise ValueError(f"Expected {name}, got none; say what is to be promised.")
    return value


@dataclass(kw_only=True, eq=False, repr=False)
class TableEstimator(PrivateEstimator):
    """An estimator that reads a table: which columns, within which public bounds.

    Parameters
    ----------
    limits : mapping of str to (low, high), sequence of pairs, one pair, or "private", optional
        The public limits of every numeric column, in the order of the columns for arrays; one pair
        stands for all. Values are clipped to them, and everything is computed on columns scaled by
        them. "private", also instead of a pair: nobody knows them, and a tenth of the squared
        budget finds them.
    data_norm : float, optional
        A public bound on the Euclidean norm of a row; longer rows are scaled down to it. With
        `limits` it bounds the scaled row, intercept included. One of the two is needed.
    levels : mapping of str to sequence, optional
        Public levels of categorical columns; each becomes an indicator column.
    columns : sequence of str, optional
        The columns to read, the label among them; all if not given.
    n_rows : int, optional
        The number of rows, only where it is public: then it becomes part of the release.
    """

    limits: Any = None
    data_norm: float | None = None
    levels: Mapping[str, Sequence[Any]] | None = None
    columns: Sequence[str] | None = None
    n_rows: int | None = None
    fit_intercept = False
    # Whether rows have labels; whether the table is read again once its limits are known; what else
    # is added up of its raw rows in the pass that finds them (see `_check_raw`).
    _labelled, _reads_again = False, True
    _checked: ClassVar[tuple[Callable[[Block], Mapping[str, Any]], ...]] = ()

    def plan(self, size: Any = None) -> Plan:
        """What `fit` will do; needs no data.

        Parameters
        ----------
        size : int, optional
            How many features there are, where `limits` or `columns` do not name them.
        """
        return self._planned(self._rows_declared(size))

    def _planned(self, rows: Rows) -> Plan:
        """The plan, and what finding limits adds to it."""
        plan = self._plan(rows)
        if not rows.bought:
            return plan
        assert isinstance(plan.noise_scale, Mapping) and "limits" in plan.noise_scale  # noqa: PT018
        return replace(plan, shapes={**plan.shapes, **octaves.shapes(len(rows.bought))})

    def _target(self, rows: Rows | None = None, relation: str = "add-remove") -> Target:
        """What is asked for, checked; rows whose limits are to be found must be shown."""
        target = super()._target()
        if rows is None and _is_private(self.limits):
            raise ValueError(
                f'Expected limits of {type(self).__name__} to be public, got "private"; pass the '
                "least and largest value of every column."
            )
        bought = 0 if rows is None else len(rows.bought)
        return replace(target, limits=octaves.sensitivity(bought, relation))

    def _plan(self, rows: Rows) -> Plan:
        """What will happen to a table with this recipe for its rows."""
        raise NotImplementedError

    def _finish(self, rows: Rows) -> None:
        """Set the fitted attributes, from the release and the public recipe."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Read the table, spend the budget, release the answer.

        Parameters
        ----------
        X : table
            Anything that `ndis.tables.Table.open` opens: arrays, data frames, Arrow, Parquet or CSV
            files, DuckDB, Spark or Dask tables, tensors on a graphics card.
        y : array_like or str, optional
            Labels, or the name of the label's column.
        """
        table = self._view(X, y)
        rows = table.rows
        plan = self._planned(rows)
        if hasattr(X, "shape") and not hasattr(X, "columns"):  # no file, no data frame
            note = f"{plan.guarantee.note} {_EARLIER}".strip()
            plan = replace(plan, guarantee=replace(plan.guarantee, note=note))
        self._release(table, plan)
        self._complete(rows)
        return self

    def _complete(self, rows: Rows) -> None:
        """Set the fitted attributes."""
        self.n_features_in_ = len(rows.features.columns)
        self._finish(self._bounded(rows, self.release_.arrays, self.noise_scale_))

    # One pass more where limits are to be found: it is all that is read before the payment. What
    # could fail there fails in that pass, which sees every value that later ones see.

    def _read(self, data: Table, plan: Plan) -> Any:
        """The counts that limits are found from, or what is studied without them."""
        if not data.rows.bought:
            return super()._read(data, plan)
        if data.once and self._reads_again:
            raise ValueError(
                'Expected a table that can be read twice for limits="private", got one that can '
                "be read only once; write it to a file first, or pass limits."
            )
        sums = octaves.read(data, *self._checked)
        self._check_rows(data.n_rows)
        self._check_raw(sums)
        return sums["below"]

    def _check_raw(self, sums: Mapping[str, ExactSum]) -> None:
        """Refuse a table by what `_checked` adds up, before anything is paid."""

    def _answer(self, studied: Any, plan: Plan, data: Table, rng: np.random.Generator) -> Arrays:
        """The released arrays; limits first, if they are to be found."""
        if not data.rows.bought:
            return super()._answer(studied, plan, data, rng)
        arrays = octaves.draw(studied, plan.noise_scale["limits"], rng)
        view = data.with_rows(self._bounded(data.rows, arrays, plan.noise_scale))
        return {**arrays, **self._draw(self._study(view, plan), plan, view, rng)}

    def _bounded(self, rows: Rows, arrays: Arrays, noise: Noise) -> Rows:
        """The recipe with limits for every column: what was released tells those found."""
        if not rows.bought:
            return rows
        return octaves.found(rows, arrays, noise["limits"])

    def _restore(self) -> None:
        self._complete(self._rows_declared(None))

    def _view(self, X: Any, y: Any = None) -> Table:
        """The table, with the recipe for its rows."""
        table, labels = self._open(X, y)
        return table.with_rows(self._rows(table, labels))

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        """The recipe for a table's rows; estimators with labels say more."""
        return Rows(self._features(table, labels))

    def _rows_declared(self, size: int | None) -> Rows:
        """The same, as far as parameters declare it."""
        return Rows(self._declared(size))

    def _open(self, X: Any, y: Any = None) -> tuple[Table, tuple[str, ...]]:
        """The table, its schema looked at once; and the names of the labels."""
        typed = [*(self.levels or {}), *(self.limits if isinstance(self.limits, Mapping) else {})]
        if y is None or isinstance(y, str):
            names: tuple[str, ...] = () if y is None else (y,)
            table = Table.open(X, self.columns, typed=[*typed, *names])
            for name in names:
                if name not in table.columns:
                    where = "columns" if self.columns is not None else "the table"
                    raise ValueError(
                        f"Expected the label among {where}, got {name!r}, which is not there; "
                        f"add it, or name one of {', '.join(map(repr, table.columns))}."
                    )
            return table, names
        rows, labels = self._arrays(X, y)
        features = getattr(self, "feature_names_in_", None)
        label = "y"
        n_features = rows.shape[1]
        if features is None:
            features = [f"x{index}" for index in range(n_features)]
        while label in features:
            label += "_"
        n_labels = 1 if labels.ndim == 1 else labels.shape[1]
        names = (label,) if n_labels == 1 else tuple(f"{label}{i}" for i in range(n_labels))
        table = Table.open(rows, [*map(str, features), *names], labels=labels, label=label)
        return table, names

    def _arrays(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Rows and labels as arrays, checked as scikit-learn checks them."""
        if hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray):
            self.n_features_in_ = X.shape[1]
            return X, y
        from sklearn.utils.validation import validate_data

        rows, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype="numeric", y_numeric=True, multi_output=True
        )
        return rows, labels

    def _limits_of(self, names: Sequence[str], labels: Sequence[str] = ()) -> Any:
        """The limits of some columns by name; None if only norms are declared."""
        if self.limits is None:
            return None
        if _is_private(self.limits):
            return {name: PRIVATE for name in names if name not in (self.levels or {})}
        if isinstance(self.limits, Mapping):
            wanted = [name for name in names if name not in (self.levels or {})]
            for name in self.limits:
                if name not in (*wanted, *labels):
                    raise ValueError(
                        f"Expected limits of columns that are read, got {name!r}; correct the "
                        "name, or add it to columns."
                    )
            return {name: self.limits[name] for name in wanted if name in self.limits}
        return _by_name(names, self.limits, "features")

    def _label_limits(self, labels: Sequence[str]) -> dict[str, Any] | None:
        """The limits of the labels by name: `label_limits`, those in `limits`, or to be found."""
        given = getattr(self, "label_limits", None)
        if given is None and isinstance(self.limits, Mapping):
            return {name: self.limits[name] for name in labels if name in self.limits} or None
        if given is None and not _is_private(self.limits):
            return None
        if given is None or _is_private(given):
            return dict.fromkeys(labels, PRIVATE)
        return _by_name(labels, given, "labels")

    def _features(self, table: Table, labels: Sequence[str] = ()) -> Columns:
        """How the features of a table become rows on the grid."""
        if self._labelled and not labels:
            raise ValueError(
                "Expected labels, got none; pass them as y, or name their column in y. "
                "This estimator requires y to be passed, but the target y is None."
            )
        names = [name for name in table.columns if name not in labels]
        return self._recipe(names, self._limits_of(names, labels), table.widths)

    def _recipe(
        self, names: Sequence[str], limits: Any, widths: Mapping[str, int] | None = None
    ) -> Columns:
        return Columns(
            names,
            {name: known for name, known in (self.levels or {}).items() if name in names},
            limits,
            self.data_norm,
            *self._placed(),
            {name: width for name, width in (widths or {}).items() if name in names},
        )

    def _placed(self) -> tuple[bool, bool]:
        """Whether a row begins with a one, and whether limits are moved to be symmetric."""
        return bool(self.fit_intercept), bool(self.fit_intercept)

    def _declared(self, size: int | None = None) -> Columns:
        """The recipe of the features as far as parameters declare them, or for so many numbers."""
        names = self.columns
        if isinstance(self.limits, Mapping):
            known = [*self.limits, *(self.levels or {})]
            if names is None:
                names = known
            elif self._labelled:  # the label is among them
                names = [name for name in names if name in known]
        if names is None:
            each = isinstance(self.limits, Sequence) and not _is_private(self.limits)
            if size is None and each and not _is_pair(self.limits):
                size = len(self.limits)
            if size is None:
                raise ValueError(
                    "Expected the number of features, got none; pass it, or name the columns in "
                    "limits or columns."
                )
            names = [f"x{index}" for index in range(_validate.count("size", size))]
        return self._recipe(names, self._limits_of(names))

    def _public(self, data: Table) -> dict[str, Any]:
        """Names are those that were typed or confirmed (see `Table.open`)."""
        named = {"columns": list(data.rows.columns)}
        return {**super()._public(data), **named}

    def _check_rows(self, n_rows: int) -> None:
        if self.n_rows is not None and n_rows != _validate.count("n_rows", self.n_rows):
            raise ValueError(
                f"Expected a table of {self.n_rows} rows, as declared public, got another number; "
                "correct n_rows, or leave it out to keep it private."
            )
