"""What a published claim is, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ndis_papers import _validate

CONFIRMED = "confirmed"
CORRECTED = "confirmed with correction"
LOOSE = "loose by a factor"
VACUOUS = "vacuous"
REFUTED = "refuted"
ANSWERED = "open, answered since"
UNCHECKABLE = "not checkable here"

VERDICTS = (CONFIRMED, CORRECTED, LOOSE, VACUOUS, REFUTED, ANSWERED, UNCHECKABLE)


class Evidence(NamedTuple):
    """What a recomputation found: in words and numbers, and whether the verdict follows from it."""

    text: str
    supports: bool


@dataclass(frozen=True)
class PublishedClaim:
    """One checkable claim of a paper.

    Attributes
    ----------
    paper, place : str
        Where it stands.
    claim : str
        What it says, in our words.
    verdict : str
        One of `VERDICTS`.
    recompute : callable
        Computes the evidence anew, with the library's own functions.
    """

    paper: str
    place: str
    claim: str
    verdict: str
    recompute: Callable[[], Evidence]

    def __post_init__(self) -> None:
        _validate.one_of("verdict", self.verdict, VERDICTS)

    @property
    def computed_by(self) -> str:
        """The function that computes the evidence."""
        return f"{self.recompute.__module__}.{self.recompute.__name__}"

    def check(self) -> Evidence:
        """Recompute the evidence."""
        text, supports = self.recompute()
        return Evidence(text, bool(supports))

    def to_dict(self, evidence: Evidence) -> dict[str, Any]:
        """A JSON-able description."""
        return {
            "paper": self.paper,
            "place": self.place,
            "claim": self.claim,
            "verdict": self.verdict,
            "evidence": evidence.text,
            "supported": evidence.supports,
            "computed_by": self.computed_by,
        }


@dataclass(frozen=True)
class Paper:
    """A paper and the claims of it that were looked at.

    Attributes
    ----------
    name, title, authors, published : str
    claims : list of PublishedClaim
    """

    name: str
    title: str
    authors: str
    published: str
    claims: list[PublishedClaim] = field(default_factory=list)

    def claim(
        self, place: str, claim: str, verdict: str
    ) -> Callable[[Callable[[], Evidence]], Callable[[], Evidence]]:
        """Register the function below as the one that recomputes this claim."""

        def register(recompute: Callable[[], Evidence]) -> Callable[[], Evidence]:
            self.claims.append(PublishedClaim(self.name, place, claim, verdict, recompute))
            return recompute

        return register
