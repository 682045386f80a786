"""Where a check leaves what it found: benchmarks/records/NAME.json, with date and commit."""

import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parent / "records"


def keep(name: str, found: dict[str, Any]) -> None:
    """Write the record of a check."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=RECORDS.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    packages = {package: version(package) for package in ("numpy", "scipy", "python-flint")}
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit,
        "python": platform.python_version(),
    } | packages
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps({"made": about} | found, indent=2) + "\n")
    print(f"wrote {path.relative_to(RECORDS.parent.parent)}")
