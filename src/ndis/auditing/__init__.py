"""Checks of privacy claims: from the law of a mechanism, and from its samples.

Public names are imported on first use: what checks a certificate needs no auditor.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndis.auditing.blackbox import SampledCurve, audit_outputs, audit_samples, sampled_curve
    from ndis.auditing.one_run import audit_one_run
    from ndis.auditing.replay import audit_replay
    from ndis.auditing.verdict import Claim, Neighbour, Verdict
    from ndis.auditing.whitebox import audit, audit_loss, audit_pair

__all__ = [
    "Claim",
    "Neighbour",
    "SampledCurve",
    "Verdict",
    "audit",
    "audit_loss",
    "audit_one_run",
    "audit_outputs",
    "audit_pair",
    "audit_replay",
    "audit_samples",
    "sampled_curve",
]

_HOME = {
    **dict.fromkeys(("Claim", "Neighbour", "Verdict"), "verdict"),
    **dict.fromkeys(("audit", "audit_loss", "audit_pair"), "whitebox"),
    "audit_one_run": "one_run",
    "audit_replay": "replay",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ndis.auditing' has no attribute {name!r}")
    home = import_module(f"ndis.auditing.{_HOME.get(name, 'blackbox')}")
    value = globals()[name] = getattr(home, name)
    return value
