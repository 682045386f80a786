"""``ndis audit``: look for neighbours on which a release breaks its claim."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ndis.cli import tables
from ndis.cli.console import ExitCode, answer, say
from ndis.cli.curve import read_pair
from ndis.cli.kinds import KINDS, Kind, KindCommands
from ndis.cli.settings import NOISE, Option, Settings, alone, as_command

if TYPE_CHECKING:
    from ndis._validate import FloatArray
    from ndis.auditing import Verdict

_NOISE = {"noise_scale": Option(NOISE, "The noise that was added; by default what ndis would add.")}


class Audits(KindCommands):
    """A command for each kind of mechanism, and those for releases, samples and laws."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The kinds, then the others."""
        return [*super().list_commands(ctx), *_OTHERS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A release file is a command of its own: what was done stands in it."""
        if cmd_name.endswith(".npz"):
            return alone(_of_file(Path(cmd_name)))
        if cmd_name in _OTHERS:
            return alone(as_command(_OTHERS[cmd_name], f"audit {cmd_name}"))
        return super().get_command(ctx, cmd_name)


Audits.make = staticmethod(lambda kind: _of_kind(kind))


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    said = (
        "Refute a privacy claim with a witness and a proof, or report the largest delta found. "
        "`ndis audit FILE.npz TABLE` takes everything from a release. "
        "Exit code 1 if the claim is refuted. A search never proves a claim."
    )
    app.add_typer(typer.Typer(cls=Audits, no_args_is_help=True, help=said), name="audit")


# -- what is told ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    """How a verdict is told: the pages and what they are about, on the screen or as JSON."""

    subject: str
    as_json: bool = False
    report: Path | None = None
    owner_report: Path | None = None
    show_rows: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be written before anything is computed."""
        if self.show_rows and self.owner_report is None:
            raise ValueError(
                "Expected --owner-report for --show-rows, got none; name a page for the owner."
            )
        for page in (self.report, self.owner_report):
            if page is not None and not page.parent.is_dir():
                raise FileNotFoundError(
                    f"Expected a folder for the page, got {page.parent}, which is not there; "
                    "make it."
                )

    def judge(self, model: Any, data: Any, claim: Any, table: Any) -> None:
        """Search, and tell what was found."""
        from ndis.auditing.estimators import audit_estimator

        if self.report is not None:
            # Nothing but the names of columns is taken from the table.
            self.write(self.report, audit_estimator(model, data, claim, of_table=False))
        self.tell(audit_estimator(model, data, claim), table)

    def tell(self, verdict: Verdict, table: Any = None) -> None:
        """The owner's page, then the verdict, which decides about the exit code."""
        if self.owner_report is not None:
            rows = _records(table) if self.show_rows and table is not None else None
            names = () if table is None else table.columns
            # The command names the table's file: the owner's to know.
            command = shlex.join(["ndis", *sys.argv[1:]])
            known = {"command": command, "columns": names, "rows": rows, "audience": "owner"}
            self.write(self.owner_report, verdict, **known)
        parts = (
            part if part.startswith("not ") else f"searched: {part}" for part in verdict.searched
        )
        answer(self.as_json, verdict.to_dict(), str(verdict), *(f"- {part}" for part in parts))
        if verdict.refuted:
            raise typer.Exit(ExitCode.CHECK_FAILED)

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


# -- a mechanism on a table --------------------------------------------------------------------


def _of_kind(kind: Kind) -> Any:
    """Audit a mechanism of this kind: the options are those of `ndis release`."""
    options, needed = kind.reading | _NOISE, kind.needed("INPUT", data=True)

    def audit(
        settings: Settings,
        source: str | None = None,
        *,
        report: Path | None = None,
        owner_report: Path | None = None,
        show_rows: bool = False,
        as_json: bool = False,
    ) -> None:
        said = ", ".join(f"{name}={value}" for name, value in settings.items())
        told = _Told(f"{kind.home}: {said}.", as_json, report, owner_report, show_rows)
        own = Settings(settings)
        if "noise_scale" in own:
            own.pop("epsilon", None)
        model = kind.make(own, noise_scale=own.pop("noise_scale", None))
        with _opened(kind, str(source), tables.name_columns(settings)) as (data, table):
            claim = (settings["epsilon"], settings["delta"]) if "epsilon" in settings else None
            told.judge(model, data, claim, table)

    return as_command(audit, f"audit {kind.name}", options, kind.summary, needed)


@contextmanager
def _opened(kind: Kind, source: str, settings: Settings) -> Iterator[tuple[Any, Any]]:
    """Arguments of `fit`, and the table where there is one."""
    if kind.source == "edges":
        with tables.opened_edges(source, settings) as edges:
            yield (edges,), None
        return
    with tables.opened(source, tables.with_header(source, settings)) as table:
        yield kind.arguments(table, settings), table


# -- a release and its table -------------------------------------------------------------------


def _of_file(path: Path) -> Any:
    """Audit a release: mechanism, parameters, noise and claim are those of its certificate."""

    def audit(
        settings: Settings,
        source: str | None = None,
        *,
        report: Path | None = None,
        owner_report: Path | None = None,
        show_rows: bool = False,
        as_json: bool = False,
    ) -> None:
        from ndis.release import Release

        release = Release.load(path)
        known, promise = dict(release.parameters), release.guarantee
        claim = (promise.epsilon, promise.delta)
        subject = f"The release {release.digest}, by {release.mechanism}."
        told = _Told(subject, as_json, report, owner_report, show_rows)
        if "agreement" in known:
            told.tell(_audit_parties(known, str(source), settings, claim))
            return
        kinds = [kind for kind in KINDS.values() if kind.home == release.mechanism]
        if not kinds:
            raise ValueError(
                f"Expected a release of a mechanism that reads a table, got one of "
                f"{release.mechanism}; audit it in Python."
            )
        (kind,) = kinds
        model = kind.estimator.from_certificate(known, promise.delta)
        own = Settings({**settings, **_reading(kind, known)})
        with _opened(kind, str(source), own) as (data, table):
            told.judge(model, data, claim, table)

    said = "Audit a release with the table it was made from."
    return as_command(audit, f"audit {path.name}", tables.OPTIONS, said, ("INPUT",))


def _reading(kind: Kind, known: Mapping[str, Any]) -> dict[str, Any]:
    """What a certificate says about reading a table."""
    found = {name: known[name] for name in ("columns", "size", "weight", "levels") if name in known}
    if kind.source == "answers":
        found.pop("columns", None)
    if kind.label:
        label = known.get("label", known["columns"][-1:])
        found["label"] = label if isinstance(label, str) else label[0]
    return found


def _audit_parties(known: Mapping[str, Any], source: str, settings: Settings, claim: Any) -> Any:
    from ndis.auditing.estimators import audit_parties
    from ndis.mechanisms.multiparty import Agreement

    agreement = Agreement.from_dict(known["agreement"])
    parties = [known["party"]] if "party" in known else list(agreement.parties)
    columns = [name for party in parties for name in agreement.party_columns(party)]
    own = tables.with_header(source, Settings({**settings, "columns": columns}))
    with tables.opened(source, own) as table:
        return audit_parties(agreement, parties, tables.numbers(table), claim)


# -- samples and laws --------------------------------------------------------------------------


def _samples(
    first: Path,
    second: Path,
    *,
    epsilon: float,
    delta: float,
    confidence: float = 0.99,
    owner_report: Path | None = None,
    as_json: bool = False,
) -> None:
    """Audit a claim by independent outputs of a mechanism on two neighbours: two text files.

    Parameters
    ----------
    first : FIRST
        Outputs, one in each row.
    second : SECOND
        Outputs on a neighbour.
    epsilon : float
        The epsilon that is claimed.
    delta : float
        The delta that is claimed.
    confidence : float
        With which a claim is refuted, at least.
    """
    from ndis.auditing import audit_outputs

    told = _Told("Outputs on two data sets.", as_json, owner_report=owner_report)
    outputs = _numbers(first), _numbers(second)
    told.tell(audit_outputs(*outputs, epsilon, claimed_delta=delta, confidence=confidence))


def _numbers(path: Path) -> FloatArray:
    """The numbers of a text file with or without a line of names."""
    import numpy as np

    lines = path.read_text().split("\n")
    for skip in (0, 1):
        rows = [line for line in lines[skip:] if line.strip()]
        with suppress(ValueError):
            return np.array([[float(word) for word in row.split(",")] for row in rows], ndmin=2)
    raise ValueError(
        f"Expected numbers separated by commas in {path}, got something else; correct it."
    )


def _pair(
    laws: Path,
    *,
    epsilon: float,
    delta: float,
    report: Path | None = None,
    as_json: bool = False,
) -> None:
    """Audit a claim about two Gaussian laws, given by their means and covariances.

    Parameters
    ----------
    laws : LAWS
        {"P": {"mean": [...], "cov": [[...]]}, "Q": {...}} in JSON.
    epsilon : float
        The epsilon that is claimed.
    delta : float
        The delta that is claimed.
    """
    from ndis.auditing import audit_pair

    told = _Told("Two laws, given by their means and covariances.", as_json, report)
    P, Q = read_pair(laws)
    verdict = audit_pair(P, Q, (epsilon, delta))
    if report is not None:
        told.write(report, verdict)
    told.tell(verdict)


_OTHERS: dict[str, Any] = {"samples": _samples, "pair": _pair}
