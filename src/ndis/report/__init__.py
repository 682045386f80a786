"""Pages that one file holds: no script, no request to anywhere."""

from ndis.report.audit import write_audit

__all__ = ["write_audit"]
