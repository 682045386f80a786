"""What the reproductions share: where results go and how a mechanism's truth is written."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write_rows(folder: str | Path, name: str, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Write rows as JSON into the folder, which is made if need be, and return them."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    copies = [dict(row) for row in rows]
    (target / f"{name}.json").write_text(json.dumps(copies, indent=1, allow_nan=False) + "\n")
    return copies


def save(figure: Any, folder: str | Path, name: str, about: str) -> Path:
    """Save a figure as a picture into the folder, with a line above it that names its data."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{name}.png"
    figure.suptitle(about, fontsize=10)
    figure.savefig(path)
    return path


def truth(epsilon: float, log_delta: float) -> str:
    """The true (epsilon, delta) of a mechanism, for a legend."""
    if log_delta > math.log(1e-3):
        return f"true ({epsilon:.3g}, {math.exp(log_delta):.3g})"
    if log_delta < -1000:
        return f"true ({epsilon:.3g}, below 10^-400)"
    return f"true ({epsilon:.3g}, 10^{log_delta / math.log(10):.3g})"


def has_card() -> bool:
    """Whether torch is here and finds a graphics card."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())
