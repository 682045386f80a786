"""Pages that one file holds, without script or request, and answers for evaluators."""

from ndis.report.audit import write_audit
from ndis.report.nist import responses

__all__ = ["responses", "write_audit"]
