"""Whether a release keeps what its certificate says: what was checked, and what was not.

Only the file is needed. The loss is recomputed from the mechanism's parameters where somebody has
said how; a certificate that nobody can recompute is not checkable, and never passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis.calibration import meets
from ndis.loss import PrivacyLoss
from ndis.mechanisms.base import Plan
from ndis.mechanisms.recompute import implied

if TYPE_CHECKING:
    from ndis.ledger import Ledger
    from ndis.release import Release

HELD, FAILED, UNKNOWN = "held", "failed", "not checkable"
# Searches for a worst case differ in the last digits: an ln delta that is smaller, or larger, by no
# more than this is no forgery.
_SMALLER, _LARGER = 1e-5, 1e-2


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
    >>> from ndis import GaussianMechanism
    >>> from ndis.auditing.certificates import verify
    >>> verify(GaussianMechanism(1.0, 1e-6, sensitivity=1.0).release([1.0, 2.0])).outcome
    'checked'
    """
    promise = release.guarantee
    checks = [
        Check("the file is as it was written", HELD),
        _decide("the claim is not a refuted one", promise.basis != "refuted"),
        _decide(
            "the certificate calls the noise secret", promise.private, "it came from a known seed"
        ),
        _guarded("the privacy loss keeps (epsilon, delta)", lambda what: _kept(what, release)),
        *_against_parameters(release),
    ]
    not_checked = ["that the mechanism was run as described, on the data that are meant"]
    if key is None:
        not_checked.append("who published it: no key was given")
    else:
        checks.append(_decide("it is signed with the key", release.signed_by(key)))
    if ledger is None:
        not_checked.append("whether a budget was spent on it: no ledger was given")
    else:
        known = release.digest in {entry.digest for entry in ledger.history()}
        checks.append(_decide("the ledger knows the release", known))
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


def _against_parameters(release: Release) -> list[Check]:
    whats = [f"the {thing} from the parameters" for thing in ("loss follows", "arrays follow")]
    why = f"nobody has said how to recompute {release.mechanism} from such parameters"
    try:
        found = implied(release.mechanism, release.parameters, release.guarantee.delta)
    except Exception:  # parameters of a stranger
        found = None
    if found is None:
        return [Check(what, UNKNOWN, why) for what in whats]
    arrays = {name: array.shape for name, array in release.arrays.items()}
    return [
        _guarded(whats[0], lambda what: _implied_loss(what, release, found)),
        _decide(whats[1], found.shapes == arrays, "they are others than these imply"),
        _decide(
            "the relation follows from the parameters",
            found.guarantee.relation == release.guarantee.relation,
            f"they imply {found.guarantee.relation}",
        ),
    ]


def _implied_loss(what: str, release: Release, found: Plan) -> Check:
    promise = release.guarantee
    if promise.loss is None:
        return Check(what, UNKNOWN, "the certificate has no loss")
    if promise.loss == found.loss:
        return Check(what, HELD)
    grid = np.append(np.linspace(0.0, 4.0 * promise.epsilon + 1.0, 40), promise.epsilon)
    stated, true = _log_delta(promise.loss, grid), _log_delta(found.loss, grid)
    if not np.all(stated >= true - _SMALLER):
        return Check(what, FAILED, "it is smaller than they imply")
    return _decide(what, bool(np.all(stated <= true + _LARGER)), "it is larger than they imply")


def _log_delta(loss: PrivacyLoss, grid: Any) -> Any:
    found = np.asarray(loss.log_delta(grid), dtype=np.float64)
    if np.any(np.isnan(found)):
        raise ValueError("not a number")
    return found
