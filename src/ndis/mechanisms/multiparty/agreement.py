"""What all parties agree on before anybody touches data, and what it promises to whom.

Everything here is public. A column is measured in half-widths of its limits, from their middle,
so that an entry lies in [-1, 1] and moves by at most 2: narrow limits mean little noise. The
parties mix their rows by the same public matrix of signs, whose columns have length one, so a
mixed row moves by as much as the row itself (docs/proofs/multi-party.md).
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray, wrong
from ndis.calibration import ROUND_UP, noise_multiplier, shift_profile
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.tables import Columns
from ndis.tables.values import EITHER

SCHEMA = "ndis-party/1"
PROTECTS = ("party", "person")
# An entry is an integer of at most 2^20: doubles add up so many of them exactly.
MOST_ROWS = 2**32
# What is supposed of columns nobody has seen: limits at four standard deviations.
SPREAD = 0.25

Limits = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Agreement:
    """The public parameters of a release by several parties.

    Parameters
    ----------
    n_rows : int
        The number of people, which is public here.
    parties : mapping of str to mapping of str to (low, high)
        For each party its columns, and for each column its public limits; values outside are
        clipped. Names of columns are distinct over all parties.
    epsilon, delta : float
        The guarantee.
    protects : {"party", "person"}
        Whether (epsilon, delta) is met for a person's attributes at one party, as published, or
        for the whole record of a person over all parties. The other one is printed too.
    n_components : int, optional
        How many mixed rows to release; if not given, what is best for columns whose limits are
        four standard deviations from their means. The first one adds rows without signs, which
        buys the means.
    key : str, optional
        The column by which all parties have put the rows in order.
    seed : int, optional
        The public seed of the signs; a fresh one if not given.

    Examples
    --------
    >>> from ndis.mechanisms.multiparty import Agreement
    >>> clinics = {"a": {"age": (0, 120)}, "b": {"dose": (0, 50), "effect": (-1, 1)}}
    >>> agreement = Agreement(100_000, clinics, epsilon=1.0, delta=1e-6, seed=1)
    >>> agreement.n_components
    53
    >>> print(agreement.joint_guarantee())
    Suppose someone knows ...: (1.45468, 1e-06)-differentially private. ...
    """

    n_rows: int
    parties: Mapping[str, Limits]
    epsilon: float
    delta: float
    protects: str = "party"
    n_components: int = None  # type: ignore[assignment]  # filled in below
    key: str | None = None
    seed: int = field(default_factory=lambda: secrets.randbits(128))

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "n_rows", _validate.count("n_rows", self.n_rows))
        if self.n_rows > MOST_ROWS:
            raise wrong("n_rows")(
                f"Expected n_rows <= {MOST_ROWS}, got n_rows={self.n_rows}; release it in parts."
            )
        put(self, "parties", _checked_parties(self.parties, self.key))
        put(self, "epsilon", _validate.positive("epsilon", self.epsilon))
        put(self, "delta", _validate.probability("delta", self.delta))
        _validate.one_of("protects", self.protects, PROTECTS)
        put(self, "seed", _validate.count("seed", self.seed, 0))
        if self.seed >= 2**128:
            raise ValueError(f"Expected seed < 2**128, got seed={self.seed}; pass a smaller one.")
        put(self, "n_components", self._components())

    # -- sizes -------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, party by party."""
        return tuple(name for limits in self.parties.values() for name in limits)

    @property
    def middles(self) -> FloatArray:
        """The middle of every column's limits."""
        return np.concatenate([self.recipe(party).middle for party in self.parties])

    @property
    def half_widths(self) -> FloatArray:
        """Half the width of every column's limits, the unit in which it is released."""
        recipes = [self.recipe(party) for party in self.parties]
        return np.concatenate([0.5 * (recipe.high - recipe.low) for recipe in recipes])

    @property
    def noise_scales(self) -> FloatArray:
        """The noise of every column, in half-widths."""
        sizes = [len(limits) for limits in self.parties.values()]
        return np.repeat([self.noise_scale(party) for party in self.parties], sizes)

    def party_columns(self, party: str) -> tuple[str, ...]:
        """The columns of one party."""
        _validate.one_of("party", party, self.parties)
        return tuple(self.parties[party])

    def recipe(self, party: str) -> Columns:
        """How a party's records become rows of integers."""
        # Agreements count dates in days, as limits and as values.
        columns = self.party_columns(party)
        either = dict.fromkeys(columns, EITHER)
        return Columns(columns, limits=self.parties[party], kinds=either)

    def _components(self) -> int:
        if self.n_components is not None:
            # The first row holds the sums and none of the products.
            return _validate.count("n_components", self.n_components, 2)
        noise = float(np.mean(self.noise_scales**2))
        balanced = round(self.n_rows * SPREAD**2 / noise)
        return max(min(balanced, self.n_rows), 2 * len(self.columns) + 2)

    # -- noise and promises ------------------------------------------------------------------

    def sensitivity(self, party: str) -> float:
        """How far a person's attributes at one party can move, in half-widths."""
        return 2.0 * math.sqrt(len(self.party_columns(party)))

    def noise_scale(self, party: str) -> float:
        """The noise on each entry of a party's (mixed) rows, in half-widths of its column.

        Examples
        --------
        >>> from ndis.mechanisms.multiparty import Agreement
        >>> parties = {"a": {"x": (-1, 1), "z": (0, 1)}, "b": {"y": (-1, 1)}}
        >>> agreement = Agreement(1000, parties, epsilon=1.0, delta=1e-5)
        >>> [round(agreement.noise_scale(party), 4) for party in parties]
        [10.5518, 7.4613]
        """
        if self.protects == "person":
            moved = 2.0 * math.sqrt(len(self.columns))
        else:
            moved = self.sensitivity(party)
        return ROUND_UP * moved * noise_multiplier(self.epsilon, self.delta)

    def party_shift(self, party: str) -> float:
        """How far one party's release moves with a person's attributes there, in noise scales."""
        return self.sensitivity(party) / self.noise_scale(party)

    def joint_shift(self) -> float:
        """How far all releases together move with a person's whole record, in noise scales."""
        return math.hypot(*(self.party_shift(party) for party in self.parties))

    def guarantee(self, party: str) -> Guarantee:
        """What one party's release promises for a person's attributes there."""
        asked = self.epsilon if self.protects == "party" else None
        return _promise(self.party_shift(party), asked, self.delta, NeighbourRelation.PARTY)

    def joint_guarantee(self) -> Guarantee:
        """What all releases together promise for a person's whole record."""
        asked = self.epsilon if self.protects == "person" else None
        return _promise(self.joint_shift(), asked, self.delta, NeighbourRelation.REPLACE)

    # -- as a file ---------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description; columns are lists, because their order matters."""
        stored = {each.name: getattr(self, each.name) for each in fields(self)}
        stored["parties"] = [
            {"name": party, "columns": [[name, *pair] for name, pair in limits.items()]}
            for party, limits in self.parties.items()
        ]
        # Other readers of JSON would round an integer of 128 bits.
        return {"schema": SCHEMA} | stored | {"seed": f"{self.seed:x}"}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Agreement:
        """Read what `to_dict` wrote."""
        given = dict(stored)
        if given.pop("schema", None) != SCHEMA:
            raise ValueError(
                f"Expected an agreement of schema {SCHEMA}, got {stored.get('schema')!r}; "
                "make one with `ndis party init`."
            )
        try:
            given["parties"] = {
                each["name"]: {name: (low, high) for name, low, high in each["columns"]}
                for each in given["parties"]
            }
            given["seed"] = int(given["seed"], 16)
            return cls(**given)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"Expected an agreement written by ndis, got one with a fault ({error}); "
                "get it anew from the party that made it."
            ) from None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all public parameters; every party compares it before it releases."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write the agreement and its fingerprint as JSON."""
        target = Path(path)
        document = self.to_dict() | {"fingerprint": self.fingerprint}
        target.write_text(json.dumps(document, indent=1) + "\n")
        return target

    @classmethod
    def load(cls, path: str | Path) -> Agreement:
        """Read an agreement; refuses one that does not match its fingerprint."""
        text = _validate.read_text(path)
        try:
            stored = json.loads(text)
            claimed = stored.pop("fingerprint")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise ValueError(
                f"Expected an agreement written by `ndis party init`, got {path}; check the file."
            ) from None
        agreement = cls.from_dict(stored)
        if agreement.fingerprint != claimed:
            raise ValueError(
                f"Expected an agreement that matches its fingerprint, got another in {path}; "
                "the file was changed after it was agreed on, ask for it again."
            )
        return agreement


@functools.lru_cache(maxsize=1024)
def _promise(
    shift: float, asked: float | None, delta: float, relation: NeighbourRelation
) -> Guarantee:
    """The epsilon that was asked for, which is met; else the one that is true at this delta."""
    loss = shift_profile(shift)
    epsilon = float(loss.epsilon(delta)) if asked is None else asked
    return Guarantee(epsilon, delta, relation, "proven", loss)


def _checked_parties(parties: Mapping[str, Limits], key: str | None) -> dict[str, Limits]:
    checked: dict[str, Limits] = {}
    seen: set[str] = set() if key is None else {key}
    for party, limits in parties.items():
        if not limits:
            raise ValueError(f"Expected columns of party {party!r}, got none; name at least one.")
        for name in limits:
            if name in seen:
                raise ValueError(
                    f"Expected distinct columns, got {name!r} more than once; rename one of them."
                )
            seen.add(name)
        checked[str(party)] = _checked_limits({str(name): limits[name] for name in limits})
    if not checked:
        raise ValueError("Expected at least one party, got none; name the parties.")
    return checked


def _checked_limits(limits: Limits) -> Limits:
    checked = Columns(tuple(limits), limits=limits).limits
    assert checked is not None
    for name, (low, high) in checked.items():
        if 0.5 * (high - low) <= 1e-9 * max(abs(low), abs(high)):
            raise ValueError(
                f"Expected limits of {name!r} that doubles can tell apart, got {low} and {high}; "
                "correct them or measure from another origin."
            )
    return checked
