"""The most memory a process has held, as Linux keeps it.

`ru_maxrss` will not do: a child starts with its parent's peak, so a large pytest would be blamed on
a small program.
"""

import re
from pathlib import Path


def forget_peak() -> None:
    """Measure anew from here."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> float:
    """In MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024
