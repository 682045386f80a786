"""What a certificate answers of the questions that NIST SP 800-226 asks about a privacy claim.

NIST Special Publication 800-226, Guidelines for Evaluating Differential Privacy Guarantees (2025),
asks about each part that a claim rests on. The questions are in our words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ndis.auditing.certificates import Verification
    from ndis.release import Release

_OWNER = "Not in the file: the owner of the data answers this."
_BASES = {
    "proven": "It is proven for every possible table.",
    "declared": "It holds if what the owner declared is true.",
    "relative": "It holds for neighbours in a declared set of tables only.",
    "refuted": "The publisher knows the claim to be false.",
}


class Response(NamedTuple):
    """A question, what is answered, and by whom: the certificate, or only the owner."""

    part: str
    question: str
    response: str
    by: str


def responses(release: Release, checked: Verification) -> list[Response]:
    """Answers from a release and what was found when it was verified."""
    return [Response(*each) for each in _responses(release, checked)]


def _responses(release: Release, checked: Verification) -> Iterator[tuple[str, str, str, str]]:
    promise, known, ours = release.guarantee, release.parameters, "the certificate"
    failed = [f"{each.what}: {each.why}" for each in checked.checks if each.outcome == "failed"]
    part = "The promise"
    yield part, "Which epsilon and delta?", f"{promise.epsilon:g} and {promise.delta:g}.", ours
    said = "Nothing: the promise does not hold for a known seed, or is known to be false."
    if promise.private and promise.basis != "refuted":
        risk = math.ceil(100 * (1 + promise.risk()) / 2)
        said = (
            f"A membership attack by somebody who knows everybody else is right at most {risk} "
            "times in 100; by tossing a coin, 50."
        )
    yield part, "What does that mean for one person?", said, ours
    unit = f"{promise.relation.unit}: neighbours differ by {promise.relation.change}."
    yield part, "What is the unit of privacy?", unit, ours
    if promise.relation.person is None:
        yield part, "Is that unit a person?", _OWNER, "the owner"
    note = promise.note if promise.basis == "relative" else ""
    basis = " ".join(filter(None, (_BASES[promise.basis], note)))
    yield part, "What does the promise rest on?", basis, ours
    part = "The mechanism"
    method = known.get("method")
    how = f"{release.mechanism}{f', method {method}' if method else ''}, by {release.library}."
    yield part, "Which mechanism?", how, ours
    outcome = f"The verdict of `ndis verify` is: {checked.outcome}."
    yield part, "Is its noise enough?", " ".join([outcome, *failed]), "recomputed"
    yield part, "How are values bounded?", _bounds(known), ours
    asked = "Were declared bounds and levels chosen without looking at the data?"
    yield part, asked, _OWNER, "the owner"
    part = "The implementation"
    secret = "No fixed seed was used." if promise.private else "A fixed seed: it is NOT private."
    yield part, "Is the randomness secret?", secret, ours
    sound = (
        "Sums are exact and noise is drawn from its law, rounded once (docs/proofs/rounding.md)."
    )
    yield part, "Does floating point weaken it?", sound, "the library"
    sides = "Listed in the threat model (docs/threat-model.md); errors are for the owner alone."
    yield part, "Which side channels remain?", sides, "the library"
    part = "The deployment"
    model = "Several parties" if "agreement" in known else "Central: one curator sees the data"
    yield part, "Which trust model?", f"{model}.", ours
    together = "Not in the file: `ndis ledger show` answers it for all releases that paid there."
    yield part, "What do all releases together promise?", together, "the ledger"
    yield part, "Who has access to the data, and how are they kept?", _OWNER, "the owner"
    use = "Estimates carry standard errors and intervals where their law is known (`ndis show`)."
    yield part, "Is the answer useful?", use, "the release"


def _bounds(known: Any) -> str:
    """Which bounds and levels were declared, and which a part of the budget found."""
    given = {name: known.get(name) for name in ("limits", "label_limits", "levels", "data_norm")}
    parts = {
        name: [*each.values()] if isinstance(each, dict) else [each]
        for name, each in given.items()
        if each
    }
    bought = [name for name, each in parts.items() if "private" in each]
    public = [name for name, each in parts.items() if any(one != "private" for one in each)]
    said = [f"Declared as public: {', '.join(public) or 'none'}."] if public or not bought else []
    said += [f"Private, a part of the budget found them: {', '.join(bought)}."] if bought else []
    return " ".join(said)
