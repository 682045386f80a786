"""What is promised, to whom, on what basis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ndis import _validate
from ndis.loss import PrivacyLoss, from_dict


class NeighbourRelation(StrEnum):
    """Which two data sets must be hard to tell apart."""

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"
    ROW_SHIFT = "row-shift"
    EDGE = "edge"
    PARTY = "party"

    @property
    def sentence(self) -> str:
        """The relation in words."""
        return _RELATIONS[self]


_RELATIONS = {
    NeighbourRelation.ADD_REMOVE: "data sets that differ by the presence of one row",
    NeighbourRelation.REPLACE: "data sets that differ in the content of one row",
    NeighbourRelation.ROW_SHIFT: "data sets in which one row moves by a vector of norm at most 1",
    NeighbourRelation.EDGE: "graphs in which the weight of one edge differs",
    NeighbourRelation.PARTY: "data sets that differ in one person's attributes at one party",
}

_BASES = {
    "proven": "for every pair of neighbours, by proof and exact numerics",
    "relative": "for this database and its neighbours only",
    "asymptotic": "in the limit of a large sketch only",
    "refuted": "which is a published claim that our own computation contradicts",
}


@dataclass(frozen=True)
class Guarantee:
    """A differential privacy guarantee and the basis on which it stands.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee; `str(guarantee)` is the sentence.
    relation : NeighbourRelation or str
        Which data sets count as neighbours.
    basis : {"proven", "relative", "asymptotic", "refuted"}
        What stands behind it.
    loss : PrivacyLoss, optional
        The worst-case privacy loss, from which every other (epsilon, delta) follows. None where
        it depends on the data and is not published.
    private : bool
        False if the noise came from a seed that somebody knows.
    note : str
        One more sentence, such as the true delta of a refuted claim.

    Examples
    --------
    >>> from ndis import Guarantee
    >>> print(Guarantee(1.0, 1e-6, "add-remove", "proven"))
    (1, 1e-06)-differentially private for data sets that differ by the presence of one row, for every pair of neighbours, by proof and exact numerics.
    """  # noqa: E501 - the sentence is one line

    epsilon: float
    delta: float
    relation: NeighbourRelation
    basis: str
    loss: PrivacyLoss | None = field(default=None, repr=False)
    private: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "epsilon", _validate.non_negative("epsilon", self.epsilon))
        delta = _validate.floats_within("delta", self.delta, 0.0, 1.0)
        set_(self, "delta", float(delta))
        _validate.one_of("relation", str(self.relation), [str(r) for r in NeighbourRelation])
        set_(self, "relation", NeighbourRelation(self.relation))
        _validate.one_of("basis", self.basis, _BASES)

    def __str__(self) -> str:
        claim = f"({self.epsilon:.6g}, {self.delta:.6g})-differentially private"
        sentence = f"{claim} for {self.relation.sentence}, {_BASES[self.basis]}."
        if self.note:
            sentence += f" {self.note}"
        if not self.private:
            sentence += " NOT PRIVATE: the noise came from a known seed."
        return sentence

    # -- in other words ----------------------------------------------------------------------

    def zcdp(self) -> float:
        """The rho of zero-concentrated DP, sup over orders of renyi(alpha)/alpha; often infinite.

        A sketch's Renyi divergences end at a finite order, so it has no finite rho.

        Examples
        --------
        >>> from ndis import Guarantee, Profile, QuadraticLoss
        >>> loss = Profile.both(QuadraticLoss.from_shift(1.0))
        >>> round(Guarantee(1.0, 0.2, "replace", "proven", loss).zcdp(), 12)
        0.5
        """
        if self.loss is None:
            raise ValueError(
                "Expected a guarantee that carries its loss, got one without; "
                "only (epsilon, delta) is known of it."
            )
        orders = 1.0 + np.geomspace(1e-6, 1e8, 400)
        return float(np.max(np.asarray(self.loss.renyi(orders)) / orders))

    def gdp(self) -> float:
        """The mu of the Gaussian mechanism with the same epsilon at this delta."""
        if self.loss is None:
            raise ValueError(
                "Expected a guarantee that carries its loss, got one without; "
                "only (epsilon, delta) is known of it."
            )
        return self.loss.gdp_mu(self.delta)

    def for_group(self, size: int) -> Guarantee:
        """The guarantee for groups of `size` neighbours (the triangle inequality of delta).

        Examples
        --------
        >>> from ndis import Guarantee
        >>> group = Guarantee(1.0, 1e-6, "add-remove", "proven").for_group(2)
        >>> group.epsilon, round(group.delta * 1e6, 6)
        (2.0, 3.718282)
        """
        k = _validate.count("size", size)
        total = self.delta * math.fsum(math.exp(i * self.epsilon) for i in range(k))
        total = math.nextafter(total * (1.0 + 1e-15), math.inf) if k > 1 else total
        if total >= 1.0:
            raise ValueError(
                f"Expected a group for which something can be promised, got size={k}: "
                f"delta would be {total:.3g}; use a smaller group or a smaller epsilon."
            )
        note = f"For groups of {k}: {self.note}".rstrip(": ") + "." if k > 1 else self.note
        return replace(self, epsilon=k * self.epsilon, delta=total, loss=None, note=note)

    def to_replace(self) -> Guarantee:
        """From add/remove to replacing a row, which is one removal and one addition."""
        if self.relation is not NeighbourRelation.ADD_REMOVE:
            raise ValueError(
                f"Expected an add-remove guarantee, got {self.relation}; "
                "no other relation converts to replacing a row."
            )
        note = "Converted from add-remove as a removal followed by an addition."
        return replace(self.for_group(2), relation=NeighbourRelation.REPLACE, note=note)

    # -- as JSON -----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": str(self.relation),
            "basis": self.basis,
            "loss": None if self.loss is None else self.loss.to_dict(),
            "private": self.private,
            "note": self.note,
            "sentence": str(self),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Guarantee:
        """Read what `to_dict` wrote."""
        return cls(
            stored["epsilon"],
            stored["delta"],
            NeighbourRelation(stored["relation"]),
            stored["basis"],
            None if stored["loss"] is None else from_dict(stored["loss"]),
            stored["private"],
            stored["note"],
        )
