"""The result of an audit: a refutation that is a proof, or the worst that was seen.

A verdict never says that a mechanism is private: "consistent" means that nothing worse than the
claim was found in what was searched, and `searched` says what that was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ndis import _validate

# The grounds of a refutation.
PROVEN = "proven"
FLOATING = "proven for eigenvalues that were computed in floating point"


@dataclass(frozen=True)
class Neighbour:
    """One pair of neighbours that was looked at.

    Attributes
    ----------
    log_delta : float
        ln of its delta at the claimed epsilon.
    kind : str
        What the neighbour is, without naming anybody.
    row : int or None
        Which row of the data was removed or changed: the owner's to know, never in a report
        unless asked for.
    """

    log_delta: float
    kind: str
    row: int | None = None


@dataclass(frozen=True)
class Claim:
    """The guarantee that somebody claims."""

    epsilon: float
    delta: float

    @classmethod
    def of(cls, claim: Any) -> Claim:
        """Read a claim from a pair (epsilon, delta) or from anything that has both."""
        if hasattr(claim, "epsilon") and hasattr(claim, "delta"):
            claim = (claim.epsilon, claim.delta)
        try:
            epsilon, delta = claim
        except (TypeError, ValueError):
            raise TypeError(
                f"Expected claim=(epsilon, delta), got {type(claim).__name__}; pass the two "
                "numbers claimed, and a table and its label as one tuple."
            ) from None
        _validate.floats_within("delta", delta, 0.0, 1.0)
        return cls(_validate.non_negative("epsilon", epsilon), float(delta))


@dataclass(frozen=True)
class Verdict:
    """The outcome of an audit.

    Attributes
    ----------
    claim : Claim
    log_delta : float
        ln of the largest delta found at the claimed epsilon.
    log_lower_bound : float
        ln of the lower bound on it that decides.
    witness : str
        Which neighbour it was.
    searched, not_searched : tuple of str
        What was searched, and what was not, in words.
    basis : str
        What the lower bound rests on: a proof, a proof but for a floating-point step, or
        samples and their confidence level.
    worst : tuple of Neighbour
        The worst neighbours found, the worst first.
    of_table : bool
        Whether a table was searched: then all of this belongs to its owner.
    loss : PrivacyLoss or None
        The loss of the witness, whose curve a report draws.
    """

    claim: Claim
    log_delta: float
    log_lower_bound: float
    witness: str
    searched: tuple[str, ...] = ()
    not_searched: tuple[str, ...] = ()
    basis: str = PROVEN
    worst: tuple[Neighbour, ...] = field(default=(), repr=False)
    of_table: bool = False
    loss: Any = field(default=None, repr=False, compare=False)

    @property
    def delta(self) -> float:
        """The largest delta found at the claimed epsilon."""
        return math.exp(self.log_delta)

    @property
    def lower_bound(self) -> float:
        """The lower bound on it that decides."""
        return math.exp(self.log_lower_bound)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted: whether the lower bound is above it."""
        return clears(self.log_lower_bound, self.claim)

    @property
    def outcome(self) -> str:
        """What was found: "refuted" or "consistent".

        "refuted" rests on a witness and a proven (or, from samples, a confident) lower bound.
        "consistent" says only that nothing worse was found: a search proves nothing.
        """
        return "refuted" if self.refuted else "consistent"

    def __bool__(self) -> bool:
        raise TypeError(
            "A verdict is neither true nor false; look at `verdict.refuted` or `verdict.outcome`."
        )

    def __str__(self) -> str:
        claim = f"({self.claim.epsilon:g}, {self.claim.delta:g})-differential privacy"
        found = show_delta(self.log_delta)
        if self.refuted:
            bound = show_delta(self.log_lower_bound)
            return (
                f"REFUTED: the claim of {claim} is false. At that epsilon delta is at least "
                f"{bound}, {self.basis}; the witness is {self.witness}."
            )
        if clears(self.log_delta, self.claim):
            excuse = "rounding" if self.basis in (PROVEN, FLOATING) else "chance"
            return (
                f"Inconclusive: the largest delta found at that epsilon is {found} "
                f"({self.witness}), above {claim} but by no more than {excuse} can explain."
            )
        return (
            f"Consistent: nothing found contradicts {claim}. The largest delta found at that "
            f"epsilon is {found} ({self.witness}); a search proves nothing beyond what it searched."
        )

    def _repr_html_(self) -> str:
        """The sentence, what was searched and what was not."""
        colour = "#c0392b" if self.refuted else "#2e7d55"
        parts = (("searched", self.searched), ("not searched", self.not_searched))
        lists = "".join(
            f"<p>{title}:</p><ul>{''.join(f'<li>{escape(each)}</li>' for each in found)}</ul>"
            for title, found in parts
            if found
        )
        style = f"border-left: .4em solid {colour}; padding-left: .8em"
        return f'<div style="{style}"><p>{escape(str(self))}</p>{lists}</div>'

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description, without data; ln 0 is null."""
        return {
            "outcome": self.outcome,
            "epsilon": self.claim.epsilon,
            "delta": self.claim.delta,
            "found_log_delta": _finite(self.log_delta),
            "lower_bound_log_delta": _finite(self.log_lower_bound),
            "witness": self.witness,
            "searched": list(self.searched),
            "not_searched": list(self.not_searched),
            "basis": self.basis,
            "worst_log_deltas": [_finite(neighbour.log_delta) for neighbour in self.worst],
            "sentence": str(self),
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def show_delta(log_delta: float) -> str:
    """A delta, in digits or as a power of ten."""
    if log_delta == -math.inf:
        return "0"
    if log_delta > -600:
        return f"{math.exp(log_delta):.4g}"
    return f"10^{log_delta / math.log(10):.1f}"


def clears(log_bound: float, claim: Claim) -> bool:
    """Whether a lower bound on ln delta is above the claim, by more than rounding can do."""
    if claim.delta == 0:
        return log_bound > -math.inf
    log_claim = math.log(claim.delta)
    return log_bound > log_claim + 1e-14 * max(1.0, abs(log_claim))
