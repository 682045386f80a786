"""What an audit found: a refutation that is a proof, or the worst that was seen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ndis import _validate

OUTCOMES = ("refuted", "consistent")


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
                f"Expected claim=(epsilon, delta), got {claim!r}; pass the two numbers claimed."
            ) from None
        _validate.floats_within("delta", delta, 0.0, 1.0)
        return cls(_validate.non_negative("epsilon", epsilon), float(delta))


@dataclass(frozen=True)
class Verdict:
    """The outcome of an audit.

    Attributes
    ----------
    outcome : {"refuted", "consistent"}
        "refuted" rests on a witness and a proven (or, from samples, a confident) lower bound.
        "consistent" says only that nothing worse was found: a search proves nothing.
    claim : Claim
    log_delta : float
        ln of the largest delta found at the claimed epsilon.
    log_lower_bound : float
        ln of the lower bound on it that decides.
    witness : str
        Which neighbour it was.
    searched : tuple of str
        What was searched, and what was not.
    confidence : float or None
        None for a proof; the confidence level of a bound from samples.
    pair : object
        The two laws of the witness, the owner's to look at; never part of a report.
    """

    outcome: str
    claim: Claim
    log_delta: float
    log_lower_bound: float
    witness: str
    searched: tuple[str, ...] = ()
    confidence: float | None = None
    pair: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        _validate.one_of("outcome", self.outcome, OUTCOMES)

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
        """Whether the claim is refuted."""
        return self.outcome == "refuted"

    def __bool__(self) -> bool:
        raise TypeError(
            "A verdict is neither true nor false; look at `verdict.refuted` or `verdict.outcome`."
        )

    def __str__(self) -> str:
        claim = f"({self.claim.epsilon:g}, {self.claim.delta:g})-differential privacy"
        found = _show(self.log_delta)
        if self.refuted:
            bound = _show(self.log_lower_bound)
            how = "proven" if self.confidence is None else f"with confidence {self.confidence:g}"
            return (
                f"REFUTED: the claim of {claim} is false. At that epsilon delta is at least "
                f"{bound}, {how}; the witness is {self.witness}."
            )
        return (
            f"Consistent: nothing found contradicts {claim}. The largest delta found at that "
            f"epsilon is {found} ({self.witness}); a search proves nothing beyond what it searched."
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description, without data."""
        return {
            "outcome": self.outcome,
            "epsilon": self.claim.epsilon,
            "delta": self.claim.delta,
            "found_log_delta": self.log_delta,
            "lower_bound_log_delta": self.log_lower_bound,
            "witness": self.witness,
            "searched": list(self.searched),
            "confidence": self.confidence,
            "sentence": str(self),
        }


def _show(log_delta: float) -> str:
    """A delta, in digits or as a power of ten."""
    if log_delta == -math.inf:
        return "0"
    return (
        f"{math.exp(log_delta):.4g}" if log_delta > -600 else f"10^{log_delta / math.log(10):.1f}"
    )


def decide(
    claim: Claim,
    log_delta: float,
    log_bound: float,
    witness: str,
    searched: tuple[str, ...],
    *,
    confidence: float | None = None,
    pair: Any = None,
) -> Verdict:
    """Refuted if the lower bound is above the claim, consistent otherwise."""
    log_claim = math.log(claim.delta) if claim.delta > 0 else -math.inf
    # The logarithm of the claim is rounded; the bound must clear it by more than that.
    clear = (
        log_bound > log_claim + 1e-14 * max(1.0, abs(log_claim))
        if claim.delta > 0
        else (log_bound > -math.inf)
    )
    outcome = "refuted" if clear else "consistent"
    return Verdict(outcome, claim, log_delta, log_bound, witness, searched, confidence, pair)
