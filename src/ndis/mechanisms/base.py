"""The protocol of an estimator: the same verbs with the same meaning everywhere.

Parameters are the fields of a dataclass: they are stored, and nothing is done with them. `plan`
needs no data and says what will happen: which method and why, what is bought, its noise, its
worst-case loss and what it promises. `calibrate` and `guarantee` read the plan; `forecast` says
what the release will be good for. `prepare` opens the data and returns a `Run`, which can be
studied, drawn and released; `fit` is a run that is prepared, released and finished. What may be
published is in `release_`, nothing else; other fitted attributes follow from it or belong to the
owner of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ndis import _validate
from ndis._validate import wrong
from ndis.answer import Answer
from ndis.guarantee import Guarantee
from ndis.mechanisms.manners import Estimator, signature_of
from ndis.mechanisms.plugins import methods_of
from ndis.mechanisms.run import Forecast, Method, Plan, Run, noise_forecast
from ndis.mechanisms.target import Noise, Target
from ndis.randomness import RandomState
from ndis.release import Release
from ndis.risk import Risk

if TYPE_CHECKING:
    from ndis.ledger import Ledger

# Parameters that the certificate does not repeat: promise and noise stand there anyway.
_UNPUBLISHED = ("epsilon", "target", "delta", "noise_scale", "random_state", "ledger", "state")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(Method, Estimator):
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

    # What has to be said beyond epsilon and delta (``a|b``: one of them), and before a release too;
    # whether rows have labels; what is read: a "table" of people, "answers" to be perturbed, or
    # "edges"; the names of its own methods.
    needs: ClassVar[tuple[str, ...]] = ()
    asks: ClassVar[tuple[str, ...]] = ()
    labelled: ClassVar[bool] = False
    reads: ClassVar[str] = "table"
    methods: ClassVar[tuple[str, ...]] = ()

    epsilon: float | None = None
    delta: float | None = None
    target: Risk | None = None
    noise_scale: Noise | None = None
    random_state: RandomState = None
    ledger: Ledger | None = None
    # What a certificate says beside parameters: no size where columns have names.
    _certified: ClassVar[frozenset[str]] = frozenset()
    # What only a method of another package says in its certificate.
    _said: Mapping[str, Any] | None = field(default=None, init=False)
    # The epsilon of a certificate: who compares losses need not work out which one follows.
    _stated: float | None = field(default=None, init=False)

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Refuse values without names and unknown names, before anything is made."""
        _require_names(cls, values, named)
        made: Self = super().__new__(cls)
        return made

    # -- before the data -----------------------------------------------------------------------

    def plan(self, size: Any = None) -> Plan:
        """What `fit` will do for data of this size; needs no data."""
        return self._plan(size)

    def calibrate(self, *size: Any, **named: Any) -> Noise:
        """The noise that `fit` will use, as `noise_scale_`; takes what `plan` takes."""
        return self.plan(*size, **named).noise_scale

    def guarantee(self, *size: Any, **named: Any) -> Guarantee:
        """The guarantee that a release will carry; takes what `plan` takes."""
        return self.plan(*size, **named).guarantee

    def forecast(self, size: Any = None, *, n_rows: int | None = None) -> Forecast:
        """What a release will be good for; needs no data.

        Parameters
        ----------
        size : object
            As in `plan`.
        n_rows : int, optional
            About how many rows there are.
        """
        return noise_forecast(self.plan(size))

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
            return Target(None, delta, stated=self._stated)
        if self.target is not None:
            if self.epsilon is not None:
                raise ValueError(
                    f"Expected epsilon or target, got both (epsilon={self.epsilon}); the guarantee "
                    "says which epsilon follows from a target."
                )
            return Target.of(self.target, delta)
        return Target(_validate.non_negative("epsilon", _asked("epsilon", self.epsilon)), delta)

    # -- with the data -------------------------------------------------------------------------

    def prepare(self, X: Any, y: Any = None, *, plan: Plan | None = None) -> Run:
        """Open the data, and say what will happen to them; reads no row and spends nothing.

        Parameters
        ----------
        X, y : object
            As in `fit`.
        plan : Plan, optional
            One that was made before for such data, as auditors do.
        """
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Read the data, spend the budget, release the answer."""
        run = self.prepare(X, y)
        release = run.release()
        run.forget()
        return self.finish(run, release)

    def finish(self, run: Run, release: Release) -> Self:
        """Set the fitted attributes from what a run has released: post-processing, and free."""
        self._adopt(release, run.data, run.found)
        return self

    def _adopt(self, release: Release, data: Any, found: Any = None) -> None:
        """Set the fitted attributes; `found` is what need not be computed again."""
        self.release_, self.noise_scale_ = release, release.parameters["noise_scale"]

    def _public(self, data: Any) -> dict[str, Any]:
        """What the certificate says about the mechanism: from this its plan can be made again."""
        own = {k: v for k, v in self.get_params(deep=False).items() if k not in _UNPUBLISHED}
        return {name: value for name, value in own.items() if value is not None}

    @classmethod
    def from_public(
        cls, parameters: Mapping[str, Any], delta: float, epsilon: float | None = None
    ) -> Plan:
        """The plan that the parameters of a certificate imply, at the noise that they state.

        With an `epsilon` it promises that one, whether or not its loss keeps it.
        """
        model = cls.from_certificate(parameters, delta)
        model._stated = epsilon
        return model._plan_certified(parameters)

    def _plan_certified(self, parameters: Mapping[str, Any]) -> Plan:
        return self.plan(parameters.get("shape"))

    @classmethod
    def from_certificate(cls, parameters: Mapping[str, Any], delta: float) -> Self:
        """The estimator that a certificate describes, with the noise that it states."""
        known = set(signature_of(cls))
        others = methods_of(cls).get(str(parameters.get("method")))
        says = () if others is None else others.load().says
        unknown = parameters.keys() - known - {"method", "package", *cls._certified, *says}
        if unknown:
            raise ValueError(
                f"Expected parameters of {cls.__name__}, got {', '.join(map(repr, unknown))}; "
                "correct the certificate."
            )
        own = {name: value for name, value in parameters.items() if name in known}
        model = cls(**{**own, "delta": delta})
        model._said = {name: parameters[name] for name in says if name in parameters}
        return model

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
                "`ndis show` shows what it says, and `release.arrays` holds it."
            )
        known, promise = release.parameters, release.guarantee
        cls.from_public(known, promise.delta, promise.epsilon).require(release.arrays)
        model = cls.from_certificate(known, promise.delta)
        model._restore(release)
        return model

    def _restore(self, release: Release) -> None:
        """Set the fitted attributes of `from_release`: there are no data."""
        self._adopt(release, None)

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of what was released."""
        return self.release_.guarantee

    # -- shown ---------------------------------------------------------------------------------

    def answers(self) -> list[Answer]:
        """What the release says, as tables by name; where there are none its arrays are shown."""
        return []

    def _repr_html_(self) -> str:
        """Parameters and, after fitting, the guarantee as a sentence."""
        promise = f"<p>{escape(str(self.guarantee_))}</p>" if hasattr(self, "release_") else ""
        return f"<pre>{escape(repr(self))}</pre>{promise}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _require_names(
    cls: type[PrivateEstimator], values: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    """Raise a sentence for a call that Python would refuse with its own words."""
    known = signature_of(cls)
    free = sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in known.values())
    if len(values) > free:
        usual = ("epsilon", "delta", *(need for need in cls.needs if "|" not in need))
        meant = ", ".join(f"{n}={v!r}" for n, v in zip(usual, values[free:], strict=False))
        raise TypeError(
            f"Expected parameters of {cls.__name__} by name, got {len(values)} values without; "
            f"write {meant}."
        )
    for name in named.keys() - known.keys():
        if name == "person":
            raise wrong("person", kind=TypeError)(
                f"Expected no person for {cls.__name__}, {_validate.NOT_OF_PEOPLE}"
            )
        close = get_close_matches(name, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}."
        raise TypeError(f"Expected parameters of {cls.__name__}, got {name!r}; {hint}")


def _asked(name: str, value: Any) -> Any:
    if value is None:
        raise wrong(name)(f"Expected {name}, got none; say what is to be promised.")
    return value
