"""The committed table of reference deltas: its format and its reader.

``tests/data/reference_deltas.json`` holds ``losses`` (exact inputs, every double in hexadecimal)
and ``cases`` (a loss, an epsilon, ``ln delta`` and, where delta > 1/2, ``1 - delta``, with the
number of digits they are good for). ``make_reference.py`` writes it.

The form of a loss says which numbers are the exact ones:

========== ======================================================================================
shift      ``distance``: equal covariances, means that far apart
leverage   ``leverage``, ``count`` components; the row is present under P
excess     ``excess``, ``shift``, ``count``: the numbers that ``QuadraticLoss(...)`` stores
log_ratio  ``log_ratio`` = ln(v1/v2), ``shift`` in deviations of the narrower law, ``count``
ratio      ``ratio`` = v1/v2, ``shift`` in units of sqrt(v1), ``count``
========== ======================================================================================

``fold`` composes the loss with itself, ``reversed`` exchanges P and Q.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpmath import mp, mpf

from .delta import Term

TABLE = Path(__file__).parents[2] / "data" / "reference_deltas.json"


@dataclass(frozen=True)
class ReferenceLoss:
    """The exact inputs of one loss; lists have one entry per term."""

    name: str
    form: str
    values: tuple[float, ...]
    shifts: tuple[float, ...]
    counts: tuple[int, ...]
    fold: int = 1
    reversed: bool = False

    def terms(self) -> list[Term]:
        """The loss as the oracle's terms, composed and reversed as the loss says."""
        make = {
            "shift": lambda value, shift, count: Term.from_ratio(1.0, value, count),
            "leverage": lambda value, shift, count: Term.from_leverage(value, count),
            "excess": Term.from_excess,
            "log_ratio": Term.from_log_ratio,
            "ratio": Term.from_ratio,
        }[self.form]
        rows = zip(self.values, self.shifts, self.counts, strict=True)
        terms = [make(*row).repeated(self.fold) for row in rows]
        return [term.reversed() for term in terms] if self.reversed else terms

    def to_json(self) -> dict[str, Any]:
        return {
            "form": self.form,
            "values": [value.hex() for value in self.values],
            "shifts": [shift.hex() for shift in self.shifts] if any(self.shifts) else [],
            "counts": list(self.counts) if set(self.counts) != {1} else [],
            "fold": self.fold,
            "reversed": self.reversed,
        }

    @classmethod
    def from_json(cls, name: str, entry: dict[str, Any]) -> "ReferenceLoss":
        values = tuple(map(float.fromhex, entry["values"]))
        return cls(
            name,
            entry["form"],
            values,
            tuple(map(float.fromhex, entry["shifts"])) or (0.0,) * len(values),
            tuple(entry["counts"]) or (1,) * len(values),
            entry["fold"],
            entry["reversed"],
        )


@dataclass(frozen=True)
class ReferenceCase:
    """One reference value; ``condition`` is about |d ln delta / d ln inputs|."""

    loss: ReferenceLoss = field(repr=False)
    eps: float
    log_delta_text: str
    complement_text: str | None
    digits: int
    condition: float

    @property
    def name(self) -> str:
        return f"{self.loss.name}@{self.eps:.6g}"

    @property
    def log_delta(self) -> mpf:
        with mp.workdps(self.digits + 10):
            return mpf(self.log_delta_text)

    @property
    def delta(self) -> mpf:
        """``delta`` to the digits of the case: an mpf, so it neither underflows nor rounds."""
        with mp.workdps(self.digits + 10):
            if self.complement_text is not None:
                return 1 - mpf(self.complement_text)
            return mp.exp(self.log_delta)

    @property
    def complement(self) -> mpf:
        with mp.workdps(self.digits + 10):
            if self.complement_text is not None:
                return mpf(self.complement_text)
            return -mp.expm1(self.log_delta)

    def to_json(self) -> dict[str, Any]:
        entry = {
            "loss": self.loss.name,
            "eps": self.eps.hex(),
            "log_delta": self.log_delta_text,
            "digits": self.digits,
            "condition": float(f"{self.condition:.3g}"),
        }
        return (
            entry if self.complement_text is None else entry | {"complement": self.complement_text}
        )


def load_cases(path: Path = TABLE) -> list[ReferenceCase]:
    """Every case of the table, in the order of the file."""
    return list(_parse(json.loads(path.read_text()))) if path.exists() else []


def _parse(table: dict[str, Any]) -> Iterator[ReferenceCase]:
    losses = {name: ReferenceLoss.from_json(name, entry) for name, entry in table["losses"].items()}
    for entry in table["cases"]:
        yield ReferenceCase(
            losses[entry["loss"]],
            float.fromhex(entry["eps"]),
            entry["log_delta"],
            entry.get("complement"),
            entry["digits"],
            entry["condition"],
        )


def save_cases(cases: list[ReferenceCase], path: Path = TABLE) -> None:
    """Write the table, one loss and one case a line."""
    losses = {case.loss.name: case.loss.to_json() for case in cases}

    def dump(entry: Any) -> str:
        return json.dumps(entry, separators=(",", ":"))

    loss_lines = ",\n".join(f"{json.dumps(name)}:{dump(entry)}" for name, entry in losses.items())
    case_lines = ",\n".join(dump(case.to_json()) for case in cases)
    path.write_text(f'{{"losses":{{\n{loss_lines}\n}},\n"cases":[\n{case_lines}\n]}}\n')
