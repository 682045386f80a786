"""Checks of privacy claims: from the law of a mechanism, and from its samples."""

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
