"""``ndis audit``: look for neighbours on which a release breaks its claim."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ndis._validate import read_text, require_folder, without_secrets
from ndis.cli import tables
from ndis.cli.console import ExitCode, Reply, say
from ndis.cli.curve import read_pair
from ndis.cli.kinds import KINDS, Kind
from ndis.cli.mistakes import Commands
from ndis.cli.settings import NOISE, Settings, as_command

if TYPE_CHECKING:
    from ndis._validate import FloatArray
    from ndis.auditing import Verdict
    from ndis.release import Release

# What can be audited in about a minute.
_MOST_BYTES, _MOST_ROWS, _MOST_COLUMNS = 2**25, 2**16, 50
_NOISE = {"noise_scale": NOISE("The noise that was added; by default what ndis would add.")}
_SAID = (
    "Refute a privacy claim with a witness and a proof, or report the largest delta found. "
    "`ndis audit FILE.npz TABLE` takes everything from a release, "
    "`ndis audit FILE.py:NAME --claim 1,1e-6` runs a function. "
    "Exit code 1 if the claim is refuted. A search never proves a claim."
)


# -- what is told ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pages:
    """The pages that are asked for, and what they are about."""

    subject: str
    report: Path | None = None
    owner_report: Path | None = None
    show_rows: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be written before anything is computed."""
        from ndis.report.page import new_page

        if self.show_rows and self.owner_report is None:
            raise ValueError(
                "Expected --owner-report for --show-rows, got none; name a page for the owner."
            )
        for page in (self.report, self.owner_report):
            if page is not None:
                require_folder(page, "page")
        if self.owner_report is not None:
            new_page(self.owner_report)

    def tell(self, verdict: Verdict, table: Any = None) -> Reply:
        """The owner's page, and the verdict, which decides about the exit code."""
        if self.owner_report is not None:
            rows = _records(table) if self.show_rows and table is not None else None
            names = () if table is None else table.columns
            # The command names the table's file: the owner's to know.
            command = without_secrets(shlex.join(["ndis", *sys.argv[1:]]))
            known = {"command": command, "columns": names, "rows": rows, "audience": "owner"}
            self.write(self.owner_report, verdict, **known)
        parts = [f"- searched: {part}" for part in verdict.searched]
        parts += [f"- not searched: {part}" for part in verdict.not_searched]
        code = ExitCode.CHECK_FAILED if verdict.refuted else ExitCode.DONE
        return Reply(verdict.to_dict(), str(verdict), *parts, code=code)

    def write(self, page: Path, verdict: Verdict, **known: Any) -> None:
        """A page; what it needs and does not find costs no verdict."""
        from ndis.report import write_audit

        try:
            write_audit(verdict, page, subject=self.subject, **known)
        except ImportError as error:
            say(f"{error} The verdict is below, {page} is not written.")


def _records(table: Any) -> list[Any]:
    import pyarrow as pa

    return [list(row.values()) for row in pa.Table.from_batches(table.records()).to_pylist()]


# -- a mechanism on a table, or a release and its table ----------------------------------------


def _audit(
    subject: Kind | Path,
    settings: Settings,
    source: str | None = None,
    *,
    report: Path | None = None,
    owner_report: Path | None = None,
    show_rows: bool = False,
) -> Reply:
    """Audit a release with the table it was made from."""
    from ndis.auditing.estimators import audit_estimator
    from ndis.release import Release

    claim: Any
    pages = partial(_Pages, report=report, owner_report=owner_report, show_rows=show_rows)
    if isinstance(subject, Path):
        release = Release.load(subject)
        told = pages(f"The release {release.digest}, by {release.mechanism}.")
        if "agreement" in release.parameters:
            return told.tell(_audit_parties(release, str(source), settings))
        kind, claim = _kind(release), release.guarantee
        known = release.parameters, release.guarantee.delta
        kind.estimator.from_public(*known, release.guarantee.epsilon).require(release.arrays)
        model = kind.estimator.from_certificate(*known)
        settings = Settings({**settings, **_reading(kind, release.parameters)})
        if kind.label:  # which some certificates do not list among the columns
            model.set_params(columns=settings["columns"])
    else:
        kind, said = subject, ", ".join(f"{name}={value}" for name, value in settings.items())
        told = pages(f"{kind.home}: {said}.")
        claim = (settings["epsilon"], settings["delta"]) if "epsilon" in settings else None
        own = Settings(settings)
        if "noise_scale" in own:
            own.pop("epsilon", None)
        model = kind.make(own, noise_scale=own.pop("noise_scale", None))
        settings = tables.name_columns(settings)
    edges, settings = kind.source == "edges", tables.with_header(str(source), settings)
    with tables.opened(str(source), settings, edges=edges) as table:
        data = kind.arguments(table, settings)
        if told.report is not None:
            # Nothing but the names of columns is taken from the table.
            told.write(told.report, audit_estimator(model, data, claim, of_table=False))
        verdict = audit_estimator(model, data, claim)
        return told.tell(verdict, None if edges else table)


def _kind(release: Release) -> Kind:
    found = [kind for kind in KINDS.values() if kind.home == release.mechanism]
    if not found:
        raise ValueError(
            f"Expected a release of a mechanism that reads a table, got one of "
            f"{release.mechanism}; audit it in Python."
        )
    return found[0]


def _reading(kind: Kind, known: Mapping[str, Any]) -> dict[str, Any]:
    """What a certificate says about reading a table."""
    found = {
        name: known[name] for name in ("columns", "shape", "weight", "levels") if name in known
    }
    if kind.source == "answers":
        found.pop("columns", None)
    if kind.label:
        label = known.get("label", known["columns"][-1:])
        found["label"] = label if isinstance(label, str) else label[0]
        found["columns"] = [*dict.fromkeys([*known["columns"], found["label"]])]
    return found


def _audit_parties(release: Release, source: str, settings: Settings) -> Verdict:
    from ndis.auditing.estimators import audit_parties
    from ndis.mechanisms.multiparty import Agreement

    known = release.parameters
    agreement = Agreement.from_dict(known["agreement"])
    parties = [known["party"]] if "party" in known else list(agreement.parties)
    columns = [name for party in parties for name in agreement.party_columns(party)]
    own = tables.with_header(source, Settings({**settings, "columns": columns}))
    with tables.opened(source, own) as table:
        return audit_parties(agreement, parties, tables.numbers(table), release.guarantee)


# -- samples and laws --------------------------------------------------------------------------


def samples(
    first: Path,
    second: Path,
    *,
    claim: str,
    confidence: float = 0.99,
    low_bits: bool = True,
    owner_report: Path | None = None,
) -> Reply:
    """Audit a claim by independent outputs of a mechanism on two neighbours: two text files.

    Parameters
    ----------
    first : FIRST
        Outputs, one in each row.
    second : SECOND
        Outputs on a neighbour.
    claim : EPSILON,DELTA
        What is claimed.
    confidence : float
        Refute a claim only if it is false with this confidence.
    low_bits : bool
        Look at the low bits of outputs, too, where noise that is added in floating point leaks.
    """
    from ndis.auditing import audit_outputs

    told, asked = _Pages("Outputs on two data sets.", owner_report=owner_report), _claim(claim)
    outputs = _numbers(first), _numbers(second)
    return told.tell(audit_outputs(*outputs, asked, confidence=confidence, low_bits=low_bits))


def _claim(words: str) -> tuple[float, float]:
    """Epsilon and delta with a comma between them."""
    try:
        epsilon, delta = map(float, words.split(","))
    except ValueError:
        raise ValueError(
            f"Expected --claim EPSILON,DELTA, got {words!r}; write two numbers such as 1,1e-6."
        ) from None
    return epsilon, delta


def _code(
    place: str,
    table: str | None = None,
    *,
    claim: str,
    n_samples: int = 20_000,
    confidence: float = 0.99,
    low_bits: bool = True,
    owner_report: Path | None = None,
) -> Reply:
    """Audit a function in a Python file by running it on two neighbours.

    It is called as NAME(data) or NAME(data, rng) and returns numbers. The neighbours are D and
    D_prime in the same file; or TABLE, and TABLE without the row that is furthest from the others.
    The file is run: audit nobody's code that you would not run.

    Parameters
    ----------
    table : TABLE
        A table of numbers; without it the file defines D and D_prime.
    claim : EPSILON,DELTA
        What is claimed.
    n_samples : int
        How often the function is run on either data set, at most.
    confidence : float
        Refute a claim only if it is false with this confidence.
    low_bits : bool
        Look at the low bits of outputs, too, where noise that is added in floating point leaks.
    """
    from ndis.auditing import audit_samples

    told, asked = _Pages(f"The function {place}.", owner_report=owner_report), _claim(claim)
    path, _, name = place.rpartition(":")
    if not Path(path).is_file():
        raise FileNotFoundError(f"File {path!r} is not there; check the path.")
    known = runpy.run_path(path)
    if not callable(known.get(name)):
        near = get_close_matches(name, [n for n, v in known.items() if callable(v)], 1)
        advice = f"did you mean {near[0]}?" if near else "write FILE.py:NAME."
        raise ValueError(f"Expected a function in {path}, got {name!r}; {advice}")
    if table is None and not {"D", "D_prime"} <= known.keys():
        raise ValueError(
            f"Expected two neighbouring data sets, D and D_prime, in {path}, got none; define them "
            "there, or name a table of numbers after the function."
        )
    D, D_prime = (known["D"], known["D_prime"]) if table is None else _neighbours(table)
    how: dict[str, Any] = {"confidence": confidence, "low_bits": low_bits, "n_samples": n_samples}
    return told.tell(audit_samples(known[name], D, D_prime, asked, **how))


def _neighbours(source: str) -> tuple[FloatArray, FloatArray]:
    """A table of numbers, and the same without the row that is furthest from the others."""
    import numpy as np

    with tables.opened(source, tables.with_header(source, Settings())) as table:
        rows = tables.numbers(table)
    if len(rows) < 2:
        raise ValueError(f"Expected at least two rows in {source}, got {len(rows)}; add some.")
    spread = rows.std(axis=0)
    far = np.linalg.norm((rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0), axis=1)
    return rows, np.delete(rows, int(np.argmax(far)), axis=0)


def _numbers(path: Path) -> FloatArray:
    """The numbers of a text file with or without a line of names; nothing is unpacked."""
    import numpy as np

    lines = [line for line in read_text(path, _MOST_BYTES).split("\n") if line.strip()]
    widest = 1 + max((line.count(",") for line in lines), default=0)
    for most, found, what in (
        (_MOST_ROWS, len(lines), "lines"),
        (_MOST_COLUMNS, widest, "numbers in a row"),
    ):
        if found > most:
            raise ValueError(
                f"Expected at most {most} {what} in {path}, got {found}; audit a part of the "
                "outputs, or a statistic of them."
            )
    names = int(bool(lines) and not _are_numbers(lines[0]))
    odd = next((k for k, line in enumerate(lines[names:], names) if not _are_numbers(line)), None)
    if odd is not None or len(lines) == names:
        where = "no line of numbers" if odd is None else f"something else in line {odd + 1}"
        raise ValueError(
            f"Expected outputs in {path}, a line of numbers with commas for each, got {where}; "
            "write the outputs of the mechanism, not its data."
        )
    if len({line.count(",") for line in lines[names:]}) > 1:
        raise ValueError(
            f"Expected as many numbers in each line of {path}, got more in some; pad the others."
        )
    return np.loadtxt(lines[names:], delimiter=",", ndmin=2, comments=None)


def _are_numbers(line: str) -> bool:
    try:
        return all(float(word) is not None for word in line.split(","))
    except ValueError:
        return False


def pair(
    laws: Path,
    *,
    claim: str,
    report: Path | None = None,
) -> Reply:
    """Audit a claim about two Gaussian laws, given by their means and covariances.

    Parameters
    ----------
    laws : LAWS
        {"P": {"mean": [...], "cov": [[...]]}, "Q": {...}} in JSON.
    claim : EPSILON,DELTA
        What is claimed.
    """
    from ndis.auditing import audit_pair

    told, asked = _Pages("Two laws, given by their means and covariances.", report), _claim(claim)
    P, Q = read_pair(laws)
    verdict = audit_pair(P, Q, asked)
    if report is not None:
        told.write(report, verdict)
    return told.tell(verdict)


# In which the kinds come first.
_CHILDREN: Mapping[str, Any] = ChainMap({"samples": samples, "pair": pair}, cast(Any, KINDS))


def _command(child: Any) -> Any:
    own = partial(_audit, child)
    if isinstance(child, Kind):
        options, needed = child.reading | _NOISE, child.needed("INPUT", data=True)
        return as_command(own, f"audit {child.name}", options, child.summary, needed)
    if isinstance(child, str):
        return as_command(partial(_code, child), f"audit {child}")
    if isinstance(child, Path):
        return as_command(own, f"audit {child.name}", tables.OPTIONS, needed=["INPUT"])
    return as_command(child, f"audit {child.__name__}")


class Audits(Commands):
    """A command for each kind of mechanism, and those for releases, samples and laws."""

    children = _CHILDREN
    make = staticmethod(_command)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A release file is a command of its own: what was done stands in it."""
        if cmd_name.endswith(".npz"):
            return _command(Path(cmd_name))
        is_code = re.fullmatch(r".+\.py:\w+", cmd_name) is not None
        return _command(cmd_name) if is_code else super().get_command(ctx, cmd_name)


AUDITS = Audits(name="audit", help=_SAID, no_args_is_help=True)
