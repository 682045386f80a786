"""Whether a release keeps what its certificate says: what was checked, and what was not.

Only the file is needed. The whole promise is recomputed from the mechanism's parameters where
somebody has said how; a certificate that nobody can recompute is not checkable, and never passes.
What no file can show is the publisher's word, and is listed as such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis._validate import printable
from ndis.calibration import meets
from ndis.mechanisms.plugins import NotInstalled
from ndis.mechanisms.recompute import implied
from ndis.mechanisms.run import Contradiction, Plan
from ndis.mechanisms.tabular import EARLIER

if TYPE_CHECKING:
    from ndis.ledger import Ledger
    from ndis.release import Release

HELD, FAILED, UNKNOWN = "held", "failed", "not checkable"
# Machines differ in the last digits of a logarithm: numbers that agree to this share are the same.
_SAME = 2.0**-30
# What the publisher says and no file can show.
_WORD = (
    "that no fixed seed was used: the publisher says so",
    "that the mechanism was run as described, on the data that are meant",
)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: "held", "failed" or "not checkable", and why."""

    what: str
    outcome: str
    why: str = ""


@dataclass(frozen=True)
class Verification:
    """What is known of a release.

    Attributes
    ----------
    release : Release
    checks : tuple of Check
    not_checked : tuple of str
        What nobody asked for, or no file can tell.
    """

    release: Release
    checks: tuple[Check, ...]
    not_checked: tuple[str, ...]

    @property
    def outcome(self) -> str:
        """The verdict: "refuted" if anything failed, "checked" only if all of it held."""
        found = {check.outcome for check in self.checks}
        return "refuted" if FAILED in found else UNKNOWN if UNKNOWN in found else "checked"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description, for scripts and reports."""
        return {
            "outcome": self.outcome,
            "mechanism": self.release.mechanism,
            "digest": self.release.digest,
            "guarantee": self.release.guarantee.to_dict() | {"loss": None},
            "checks": [vars(check) for check in self.checks],
            "not_checked": list(self.not_checked),
        }


def verify(release: Release, *, ledger: Ledger | None = None, key: Any = None) -> Verification:
    """Check a release that was loaded from a file, and so is as it was written.

    Parameters
    ----------
    release : Release
    ledger : Ledger, optional
        A ledger that should know the release.
    key : path or Ed25519PublicKey, optional
        The key of the expected signer.

    Examples
    --------
    >>> from ndis import GaussianMechanism, verify
    >>> count = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    >>> verify(count.release([1.0, 2.0])).outcome
    'checked'
    """
    promise = release.guarantee
    checks = [
        Check("the file is as it was written", HELD),
        _decide(
            "the publisher does not offer a claim known to be false", promise.basis != "refuted"
        ),
        *([] if promise.private else [Check("the noise is secret", FAILED, "its seed is known")]),
        _guarded("the privacy loss keeps (epsilon, delta)", lambda what: _kept(what, release)),
        *_against_parameters(release),
    ]
    not_checked = [*_WORD] if promise.private else [*_WORD[1:]]
    if "parts" in release.parameters:
        not_checked.append("the digests of the parties' parts: compare them with their files")
    if key is None:
        not_checked.append("who published it: no key was given")
    else:
        checks.append(_decide("it is signed with the key", release.signed_by(key)))
    if ledger is None:
        not_checked.append("whether a budget was spent on it: no ledger was given")
    else:
        checks.append(_paid("the ledger knows the release", release, ledger))
    return Verification(release, tuple(checks), tuple(not_checked))


def _decide(what: str, held: bool, why: str = "") -> Check:
    return Check(what, HELD) if held else Check(what, FAILED, why)


def _guarded(what: str, check: Callable[[str], Check]) -> Check:
    """A check that a stranger's numbers may bring to fall, which proves nothing either way."""
    try:
        return check(what)
    except Exception as error:  # whatever it raises, the check has not held
        return Check(what, UNKNOWN, f"it could not be computed ({type(error).__name__})")


def _kept(what: str, release: Release) -> Check:
    promise = release.guarantee
    if promise.loss is None:
        return Check(what, UNKNOWN, "the certificate has no loss")
    if promise.delta in (0.0, 1.0):  # nothing to prove about the one, no proof of the other
        return _decide(what, promise.delta == 1.0 or promise.loss.supremum() <= promise.epsilon)
    return _decide(what, meets(promise.loss, promise.epsilon, promise.delta))


def _paid(what: str, release: Release, ledger: Ledger) -> Check:
    """Whether a ledger was charged for this promise, and not only told of the file."""
    entries = [e for e in ledger.history() if release.digest in (e.digest, *e.periods)]
    if not entries:
        return Check(what, FAILED, "no entry has its digest")
    charged = (release.mechanism, release.guarantee)
    held = all((entry.mechanism, entry.guarantee) == charged for entry in entries)
    return _decide(what, held, "another promise was paid for")


def _against_parameters(release: Release) -> list[Check]:
    """Whether the certificate says of each thing what its parameters imply."""
    promise, things = release.guarantee, ("loss", "promise", "noise", "arrays")
    whats = dict(zip(things, map("the {} follows from the parameters".format, things), strict=True))
    whats["arrays"] = "the arrays follow from the parameters"
    try:
        found = implied(release.mechanism, release.parameters, promise.delta, promise.epsilon)
    except Contradiction as error:
        return [Check(what, FAILED, str(error)) for what in whats.values()]
    except NotInstalled as error:
        why = printable(str(error))[:300]
        return [Check(what, UNKNOWN, why) for what in whats.values()]
    except Exception:  # parameters of a stranger
        found = None
    if found is None:
        why = f"nobody has said how to recompute {release.mechanism} from such parameters"
        return [Check(what, UNKNOWN, why) for what in whats.values()]
    own = found.guarantee
    notes = (own.note, f"{own.note} {EARLIER}".strip())
    wrong = [
        f"{name} {true!r}"
        for name, stated, true in (
            ("relation", str(promise.relation), str(own.relation)),
            ("basis", promise.basis, own.basis),
            ("note", promise.note if promise.note not in notes else own.note, own.note),
        )
        if stated != true
    ]
    noise = {"method": found.method, "noise_scale": found.noise_scale}
    stated = {name: release.parameters.get(name, value) for name, value in noise.items()}
    return [
        _guarded(whats["loss"], lambda what: _implied_loss(what, release, found)),
        _decide(whats["promise"], not wrong, f"they imply the {', '.join(wrong)}"),
        _decide(whats["noise"], same(stated, noise), "they imply another method or noise"),
        _decide(whats["arrays"], _has_arrays(release, found), "they are others than these imply"),
    ]


def _has_arrays(release: Release, found: Plan) -> bool:
    """Whether these are the arrays of a plan: doubles, each a number, of its shapes."""
    shapes = {name: array.shape for name, array in release.arrays.items()}
    whole = (
        a.dtype == np.float64 and bool(np.all(np.isfinite(a))) for a in release.arrays.values()
    )
    return found.shapes == shapes and all(whole)


def _implied_loss(what: str, release: Release, found: Plan) -> Check:
    stated = release.guarantee.loss
    if stated is None:
        return Check(what, UNKNOWN, "the certificate has no loss")
    held = stated == found.loss or same(stated.to_dict(), found.loss.to_dict())
    return _decide(what, held, "it is another than they imply")


def same(one: Any, other: Any) -> bool:
    """Whether two documents are the same, numbers to nine digits; doubles may be hexadecimal.

    Examples
    --------
    >>> from ndis.auditing.certificates import same
    >>> same({"shift": ["0x1.0p-1"]}, {"shift": ["0x1.0000000000001p-1"]}), same([1.0], [1.1])
    (True, False)
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if _is_list(one) and _is_list(other):
        return len(one) == len(other) and all(map(same, one, other))
    if one == other:
        return type(one) is type(other) or not isinstance(one, bool | str)
    try:
        numbers = [float.fromhex(x) if isinstance(x, str) else float(x) for x in (one, other)]
    except (TypeError, ValueError):
        return False
    return abs(numbers[0] - numbers[1]) <= _SAME * max(map(abs, numbers))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
