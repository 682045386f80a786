"""All parties in one process: the whole workflow as a scikit-learn regressor."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import shift_profile
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.manners import Scored, require_fitted, validated
from ndis.mechanisms.multiparty.agreement import SPREAD, Agreement
from ndis.mechanisms.multiparty.releasing import (
    PART,
    Mixed,
    mix,
    noisy,
    part_parameters,
    shapes,
    whole_parameters,
)
from ndis.mechanisms.multiparty.training import LinearModel, train
from ndis.mechanisms.run import Contradiction, Forecast, Method, Plan, Run
from ndis.mechanisms.target import Part
from ndis.randomness import generator
from ndis.release import Release, plain
from ndis.tables import require_names

LABEL = "y"


@dataclass(frozen=True)
class Shared:
    """The columns of all parties, and what these have agreed on."""

    agreement: Agreement
    names: list[str]
    table: FloatArray

    def held(self, party: str) -> FloatArray:
        """The columns of one party."""
        columns = self.agreement.party_columns(party)
        return self.table[:, [self.names.index(name) for name in columns]]


class _Mixing(Method):
    """Every party mixes its rows and adds its noise."""

    def _study(self, data: Shared, plan: Plan) -> dict[str, Mixed]:
        agreed = data.agreement
        return {party: mix(agreed, party, data.held(party)) for party in agreed.parties}

    def _draw(
        self, studied: dict[str, Mixed], plan: Plan, data: Shared, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        parts = [noisy(data.agreement, party, mixed, rng) for party, mixed in studied.items()]
        rows = np.concatenate([part["rows"] for part in parts], axis=1)
        return {"rows": rows, "ones": parts[0]["ones"]}


@dataclass(kw_only=True, eq=False, repr=False)
class MultiPartyRegression(Scored, PrivateEstimator):
    """Linear regression on what several parties release about the same people.

    Parties hold different columns; none sees another's. In production each runs
    `ndis party release`; this estimator plays all parts in one process.

    Parameters
    ----------
    epsilon, delta : float
        What is to be promised (see `protects`); always asked for.
    parties : int or mapping of str to sequence of str, default 2
        The columns of each party, the label ``y`` among them; a number deals all columns evenly.
        Columns of arrays are called ``x0, x1, ...``.
    limits : (low, high) or mapping of str to (low, high), default (-1, 1)
        The public limits of all columns, or of each, the label ``y`` included. Values outside
        are clipped.
    protects : {"person", "party"}
        Whether (epsilon, delta) is met for a person's whole record, or for the attributes at one
        party (as published). Both are in `guarantees_`.
    n_components : int, optional
        How many mixed rows are released; chosen from public parameters if not given.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget for the joint guarantee, relation "replace".

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    release_ : Release
        What may be published.
    guarantee_ : Guarantee
        The joint one, for a person's whole record.
    noise_scale_ : dict of str to float
        The noise of each party, in half-widths of its columns' limits.
    guarantees_ : dict of str to Guarantee
        That of each party for a person's attributes there, and the ``joint`` one.
    agreement_ : Agreement
        The public parameters.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import MultiPartyRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200_000, 3))
    >>> y = X @ [0.5, -0.3, 0.1] + 0.1
    >>> model = MultiPartyRegression(epsilon=2.0, delta=1e-6, parties=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.with_label("x0").features
    ('x1', 'x2', 'y')
    """

    parties: int | Mapping[str, Sequence[str]] = 2
    limits: tuple[float, float] | Mapping[str, tuple[float, float]] = (-1.0, 1.0)
    protects: str = "person"
    n_components: int | None = None
    # It follows from the agreement, which states (epsilon, delta).
    noise_scale: None = field(default=None, init=False)

    relation = NeighbourRelation.REPLACE
    _type: ClassVar[str | None] = "regressor"

    # -- before the data ---------------------------------------------------------------------

    def agreement(
        self, n_rows: int, features: Sequence[str] | int, seed: int | None = None
    ) -> Agreement:
        """The public parameters for so many rows of these features; needs no data.

        Parameters
        ----------
        n_rows : int
        features : int or sequence of str
            How many, or their names.
        seed : int, optional
            The public seed of the signs.
        """
        target = self._target()
        names = _named(features) if isinstance(features, int) else list(features)
        columns = self._dealt([*names, LABEL])
        limits = self._limits([*names, LABEL])
        promise = target.promise(shift_profile(1.0 / target.unit), self.relation)
        return Agreement(
            n_rows,
            {party: {name: limits[name] for name in held} for party, held in columns.items()},
            promise.epsilon,
            promise.delta,
            self.protects,
            self.n_components,  # type: ignore[arg-type]
            **({} if seed is None else {"seed": seed}),  # type: ignore[arg-type]
        )

    def plan(self, shape: Any = None) -> Plan:
        """What `fit` will do; needs no data.

        Parameters
        ----------
        shape : (int, int) or (int, sequence of str)
            The number of people, which is public here, and of features, or their names.

        Examples
        --------
        >>> from ndis import MultiPartyRegression
        >>> model = MultiPartyRegression(epsilon=1.0, delta=1e-5, protects="party")
        >>> {party: round(scale, 4) for party, scale in model.calibrate((1000, 2)).items()}
        {'party-1': 10.5518, 'party-2': 7.4613}
        """
        self._target()  # the first thing to be asked for
        if not isinstance(shape, tuple) or len(shape) != 2:
            raise ValueError(
                f"Expected the numbers of people and of features, got shape={shape!r}; "
                "pass (n_rows, n_features)."
            )
        return _plan(self.agreement(*shape))

    def forecast(self, shape: Any = None, *, n_rows: int | None = None) -> Forecast:
        """What the release will be good for, in half-widths of the limits.

        Parameters
        ----------
        shape : (int, int) or (int, sequence of str)
            As for `plan`.
        n_rows : int, optional
            Another number of people.
        """
        agreed = self.agreement(shape[0] if n_rows is None else n_rows, shape[1])
        n, k, noise = agreed.n_rows, agreed.n_components, agreed.noise_scales
        weight = k * float(np.mean(noise**2)) / n

        def coefficient(variance: float) -> float:
            # From the gradient of uncorrelated columns (docs/proofs/multi-party.md).
            return (variance + weight) / (variance * math.sqrt(k))

        mean = math.sqrt(k) * noise / n
        return Forecast(
            {
                "standard error of a mean": (float(mean.min()), float(mean.max())),
                "standard error of a coefficient, before it is shrunk": (
                    coefficient(1.0 / 3.0),
                    coefficient(SPREAD**2),
                ),
            },
            (
                f"{n:,} people",
                "uncorrelated columns with limits at 1.7 to 4 standard deviations",
            ),
        )

    def _dealt(self, names: list[str]) -> dict[str, list[str]]:
        """The columns of each party, every one of them once."""
        if isinstance(self.parties, Mapping):
            held = {party: list(columns) for party, columns in self.parties.items()}
            found = sorted(name for columns in held.values() for name in columns)
            if found != sorted(names):
                raise ValueError(
                    f"Expected every column at one party, {', '.join(sorted(names))}, got "
                    f"{', '.join(found)}; name each once, the label {LABEL!r} too."
                )
            return held
        n_parties = _validate.count("parties", self.parties)
        if n_parties > len(names):
            raise ValueError(
                f"Expected at most {len(names)} parties for as many columns, got "
                f"parties={n_parties}; use fewer."
            )
        shares = np.array_split(np.array(names), n_parties)
        return {f"party-{i}": share.tolist() for i, share in enumerate(shares, 1)}

    def _typed(self) -> list[str]:
        """Names that the caller has typed."""
        held = self.parties.values() if isinstance(self.parties, Mapping) else ()
        bounded = self.limits if isinstance(self.limits, Mapping) else ()
        return [*bounded, *(name for columns in held for name in columns)]

    def _limits(self, names: list[str]) -> dict[str, tuple[float, float]]:
        if not isinstance(self.limits, Mapping):
            low, high = self.limits
            return dict.fromkeys(names, (low, high))
        missing = [name for name in names if name not in self.limits]
        if missing:
            raise ValueError(
                f"Expected limits of every column, got none of {missing[0]!r}; add them."
            )
        return {name: self.limits[name] for name in names}

    # -- with the data -----------------------------------------------------------------------

    def prepare(self, X: Any, y: Any = None, *, plan: Plan | None = None) -> Run:
        """Agree on public parameters for the columns of all parties; spends nothing.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features)
            Features; a data frame brings their names.
        y : array_like of shape (n_rows,)
            The label.
        plan : Plan, optional
            Not used: the number of rows is public here, and part of the agreement.
        """
        labels = y
        X, y = validated(self, X, y, dtype=np.float64, y_numeric=True)
        require_names(self._names(), self._typed(), labels)
        seed = int.from_bytes(generator(self.random_state).bytes(16), "little")
        agreed = self.agreement(len(X), self._names(), seed)
        data = Shared(agreed, [*self._names(), LABEL], np.column_stack([X, y]))
        return Run(self, data, _plan(agreed), _Mixing())

    def _adopt(self, release: Release, data: Any, found: Any = None) -> None:
        super()._adopt(release, data, found)
        self.agreement_ = Agreement.from_dict(release.parameters["agreement"])
        model = self.with_label(LABEL)
        if data is None:
            return
        order = [model.features.index(name) for name in self._names()]
        self.coef_, self.intercept_ = model.coef[order], model.intercept

    def _public(self, data: Shared) -> dict[str, Any]:
        return whole_parameters(data.agreement)

    def predict(self, X: Any) -> FloatArray:
        """Predict the label."""
        require_fitted(self)
        X = validated(self, X, reset=False, dtype=np.float64)
        return np.asarray(X @ self.coef_ + self.intercept_)

    def with_label(self, label: str, features: Sequence[str] | None = None) -> LinearModel:
        """A model of any other column from the same release, at no further cost."""
        require_fitted(self)
        return train(self.release_, label, features)

    @property
    def guarantees_(self) -> dict[str, Guarantee]:
        """That of each party, and the joint one."""
        require_fitted(self)
        each = {party: self.agreement_.guarantee(party) for party in self.agreement_.parties}
        return each | {"joint": self.guarantee_}

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return _named(self.n_features_in_) if names is None else list(names)

    def _repr_html_(self) -> str:
        """Parameters and, after fitting, both guarantees as sentences."""
        from html import escape

        shown = super()._repr_html_()
        if not hasattr(self, "release_"):
            return shown
        each = (f"<li>{escape(f'{k}: {v}')}</li>" for k, v in self.guarantees_.items())
        return f"{shown}<ul>{''.join(each)}</ul>"


def _named(n_features: int) -> list[str]:
    return [f"x{index}" for index in range(_validate.count("features", n_features))]


def recompute(mechanism: str, parameters: Mapping[str, Any]) -> Plan:
    """What the agreement of a part, or of all parts together, implies."""
    agreement = Agreement.from_dict(parameters["agreement"])
    party = parameters["party"] if mechanism == PART else None
    stated, own = dict(parameters), whole_parameters(agreement)
    if party is not None:
        own = part_parameters(agreement, party, stated["key_order"])
        _check_digest("key_order", stated["key_order"], agreement.key is not None)
    elif "parts" in stated:  # which only the parties can compare
        parts = stated.pop("parts")
        if parts.keys() != agreement.parties.keys():
            raise Contradiction("they name other parties than the agreement")
        for digest in parts.values():
            _check_digest("parts", digest)
    else:
        own |= {name: stated[name] for name in ("method", "noise_scale")}
    if stated != plain(own):
        raise Contradiction("they are others than the agreement implies")
    return _plan(agreement, party)


def _check_digest(name: str, value: Any, expected: bool = True) -> None:
    """Refuse what is no SHA-256 where there must be one, and one where there is none."""
    found = isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{64}", value))
    if found != expected or not (found or value is None):
        raise Contradiction(f"{name} is no SHA-256, or there should be none")


def _plan(agreement: Agreement, party: str | None = None) -> Plan:
    """What one party releases, or all of them together."""
    parties = agreement.parties if party is None else [party]
    return Plan(
        method="mixed rows",
        parts=tuple(Part(name, noise=agreement.noise_scale(name)) for name in parties),
        guarantee=agreement.joint_guarantee() if party is None else agreement.guarantee(party),
        shapes=shapes(agreement, [c for name in parties for c in agreement.party_columns(name)]),
        reason="Rows that are mixed by public signs need as little noise as one row.",
    )
