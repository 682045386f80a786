"""Checks of privacy claims: from the law of a mechanism, and from its samples."""

from ndis.auditing.blackbox import SampledCurve, audit_samples, sampled_curve
from ndis.auditing.verdict import Claim, Neighbour, Verdict
from ndis.auditing.whitebox import audit, audit_loss, audit_pair

__all__ = [
    "Claim",
    "Neighbour",
    "SampledCurve",
    "Verdict",
    "audit",
    "audit_loss",
    "audit_pair",
    "audit_samples",
    "sampled_curve",
]
