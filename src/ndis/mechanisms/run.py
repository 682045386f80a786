"""A run: one mechanism on one data set, as a value.

A `Plan` says what will happen, without data. A `Run` is a plan with the data that it is for: it
reads what has to be read (`study`, once), draws (`draw`, as often as an auditor likes, for nobody
to see) and publishes (`release`, which pays). `fit` is a run that is prepared, released and
finished; audits, forecasts, replays and the command line use the same value.

Who says how a run goes is a `Method`: three functions of public parameters, the data and a
generator. An estimator that knows one way only is its own method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import PrivacyLoss
from ndis.mechanisms.plugins import package_of
from ndis.mechanisms.publish import ask, publish
from ndis.mechanisms.target import Noise, Part, Target, mean_shift, noise_of
from ndis.release import NewFile, Release, Shapes

if TYPE_CHECKING:
    from ndis.ledger import Ledger
    from ndis.mechanisms.base import PrivateEstimator


class Arrays(dict[str, Any]):
    """What is drawn, by name.

    Parameters
    ----------
    arrays : mapping of str to array
    found : object, optional
        What was computed from these arrays on the way: it follows from them alone, so that who has
        it need not compute it again. It is not released.
    """

    def __init__(self, arrays: Mapping[str, Any], found: Any = None) -> None:
        super().__init__(arrays)
        self.found = found


@dataclass(frozen=True)
class Plan:
    """What a mechanism will do, decided before it sees any data.

    Attributes
    ----------
    method : str
        Which method was chosen.
    parts : tuple of Part
        What is bought, each with how far a row moves it, its share of the budget and its noise.
    guarantee : Guarantee
        What will be promised, with the worst-case loss.
    shapes : dict of str to tuple of int
        Shapes of the released arrays.
    reason : str
        Why this method, in one sentence.
    """

    method: str
    parts: tuple[Part, ...]
    guarantee: Guarantee
    shapes: Shapes
    reason: str

    @classmethod
    def buying(
        cls,
        parts: Iterable[Part],
        target: Target,
        given: Noise | None = None,
        *,
        method: str,
        shapes: Shapes,
        reason: str,
        relation: NeighbourRelation | str = "add-remove",
    ) -> Plan:
        """A plan to add normal noise to some sums, which is one mean shift.

        Parameters
        ----------
        parts : iterable of Part
            The sums; shares add up to one.
        target : Target
        given : float or dict of str to float, optional
            Noise to use instead of the least.
        method, shapes, reason
            As in the plan.
        relation : NeighbourRelation or str
            Who is protected.
        """
        bought, loss = mean_shift(target, parts, given)
        return cls(method, bought, target.promise(loss, relation), shapes, reason)

    def require(self, arrays: Mapping[str, Any]) -> None:
        """Refuse the arrays of a stranger's file if its parameters, planned here, imply others.

        Parameters may ask for any amount of work, arrays for as much as their file is long.
        """
        if dict(self.shapes) != {name: array.shape for name, array in arrays.items()}:
            raise ValueError(
                "Expected the arrays that the parameters of the release imply, got others; get "
                "the file anew from its publisher."
            )

    @property
    def noise_scale(self) -> Noise:
        """The noise of each part by name, or a number where there is but one without a name."""
        return noise_of(self.parts)

    @property
    def loss(self) -> PrivacyLoss:
        """The worst-case privacy loss."""
        loss = self.guarantee.loss
        assert loss is not None
        return loss

    def with_noise(self, factor: float) -> Plan:
        """The same with so many times the noise, of which nothing is promised: for forecasts."""
        return replace(self, parts=tuple(replace(p, noise=factor * p.noise) for p in self.parts))


class Contradiction(ValueError):
    """Parameters of a certificate that contradict each other; says why in half a sentence."""


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
    >>> from ndis.mechanisms import Forecast
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


class Method:
    """How a run goes: what is planned, read and drawn. It holds no data and changes nothing."""

    def _plan(self, rows: Any) -> Plan:
        """What will happen to data of which this is public: a recipe for rows, or a size."""
        raise NotImplementedError

    def _study(self, data: Any, plan: Plan) -> Any:
        """What has to be read before anything is paid: all that can fail, fails here."""
        raise NotImplementedError

    def _draw(
        self, studied: Any, plan: Plan, data: Any, rng: np.random.Generator
    ) -> Mapping[str, Any]:
        """The released arrays, from what was studied and a generator; see `Arrays`."""
        raise NotImplementedError


class EstimatorMethod(Method):
    """Another way to answer the question of an estimator, in a class of its own.

    Its package names it in an entry point (`ndis.mechanisms.plugins`), and people choose it by
    ``method=``. It writes `_plan`, `_study` and `_draw`. The arrays it draws are those from which
    the estimator sets its fitted attributes; `finish` may set more.

    Parameters
    ----------
    model : PrivateEstimator
        The estimator, whose public parameters are the method's.
    """

    # Names of what a certificate says for this method beside the parameters (see `_public`).
    says: ClassVar[tuple[str, ...]] = ()
    # Whether it releases sums with noise whose law does not depend on the table, so that rows may
    # have weights (docs/people.md).
    weighs: ClassVar[bool] = False

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def said(self) -> Mapping[str, Any]:
        """What a certificate has said of these, where the estimator was made from one."""
        said: Mapping[str, Any] = getattr(self.model, "_said", None) or {}
        return said

    def target(self, rows: Any = None, relation: str = "add-remove") -> Target:
        """What noise has to achieve; rows whose limits are to be found must be shown."""
        target: Target = self.model._target(rows, relation)
        return target

    def check_rows(self, n_rows: int) -> None:
        """Refuse a table that has not as many rows as were declared public."""
        self.model._check_rows(n_rows)

    def _forecast(self, rows: Any, plan: Plan, n_rows: int | None) -> Forecast:
        """What a release will be good for; by default how large the noise of each part is."""
        return noise_forecast(plan)

    def finish(self, rows: Any) -> None:
        """Set further fitted attributes of the estimator, from its release."""

    def _public(self, rows: Any) -> dict[str, Any]:
        """What a certificate says beside the estimator's parameters."""
        return {}


def noise_forecast(plan: Plan) -> Forecast:
    """How large the noise of each part is: what is known of every release."""
    ends = {part.name or "value": (part.noise, part.noise) for part in plan.parts}
    said = "nothing but what is released counts, in the units in which noise is added"
    return Forecast({f"standard error of {n}": pair for n, pair in ends.items()}, (said,))


@dataclass(eq=False)
class Run:
    """A mechanism on a data set, prepared: nothing is read, drawn or paid yet.

    Attributes
    ----------
    model : PrivateEstimator
        Whose parameters are used.
    data : object
        What is read: for an estimator of tables a `Table` with the recipe for its rows.
    plan : Plan
        What will happen.
    method : Method
        How.
    found : object
        What the last draw has led to, where a method tells (see `Arrays`).

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateCovariance
    >>> table = np.random.default_rng(0).uniform(0, 1, (10_000, 3))
    >>> run = PrivateCovariance(epsilon=1.0, delta=1e-6, limits=[(0, 1)] * 3).prepare(table)
    >>> [part.name for part in run.plan.parts]
    ['matrix', 'sums', 'count']
    >>> release = run.release()
    >>> release.guarantee.epsilon
    1.0
    """

    model: PrivateEstimator
    data: Any
    plan: Plan
    method: Method
    found: Any = None

    def study(self) -> Any:
        """What has to be read before anything is paid, read once; only the owner may see it."""
        return self._studied

    @cached_property
    def _studied(self) -> Any:
        return self.method._study(self.data, self.plan)

    def forget(self) -> None:
        """Free what was read: nobody draws again."""
        self.__dict__.pop("_studied", None)

    def draw(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """The arrays that a release would hold: for audits and forecasts; publishes nothing."""
        return self._drawn(self.study, rng)

    def _drawn(self, studied: Callable[[], Any], rng: np.random.Generator) -> Mapping[str, Any]:
        arrays = self.method._draw(studied(), self.plan, self.data, rng)
        self.found = getattr(arrays, "found", None)
        return arrays

    def parameters(self) -> dict[str, Any]:
        """What a certificate says of the mechanism."""
        method = self.method
        while hasattr(method, "then"):  # what is bought first is the library's own
            method = method.then
        package = package_of(self.model, method)
        return {
            **self.model._public(self.data),
            "method": self.plan.method,
            "noise_scale": self.plan.noise_scale,
            **({} if package is None else {"package": package}),
        }

    def release(self, *, file: NewFile | None = None, ledger: Ledger | None = None) -> Release:
        """Ask the ledger, read all that can fail, make room in the file, pay, draw, certify.

        Parameters
        ----------
        file : NewFile, optional
            Where the release goes; it is made before anything is paid.
        ledger : Ledger, optional
            The budget to spend from; that of the estimator if not given.
        """
        model, plan = self.model, self.plan
        ledger = model.ledger if ledger is None else ledger
        # Before the data are read.
        ask(plan.guarantee, ledger, model.random_state, model._is_one_of_many())
        try:
            self.study()
            return publish(
                # Nobody draws again: sums are free as soon as a method needs them no more.
                partial(self._drawn, partial(self.__dict__.pop, "_studied")),
                plan.guarantee,
                type(model).__name__,
                self.parameters(),
                plan.shapes,
                random_state=model.random_state,
                ledger=ledger,
                file=file,
            )
        finally:  # rows that were kept between passes
            if hasattr(self.data, "forget"):
                self.data.forget()
