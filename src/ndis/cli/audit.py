"""``ndis audit``: look for neighbours on which a release breaks its claim."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli import tables
from ndis.cli.console import AsJson, ExitCode, echo, print_json, say
from ndis.cli.curve import read_pair
from ndis.cli.kinds import KINDS, Kind, KindCommands
from ndis.cli.settings import NOISE, Config, Option, Settings, read_settings, with_options

if TYPE_CHECKING:
    from ndis._validate import FloatArray
    from ndis.auditing import Verdict

Page = Annotated[
    Path | None,
    typer.Option(help="Write an HTML page to share: the mechanism, nothing about the table."),
]
OwnersPage = Annotated[
    Path | None,
    typer.Option(help="Write an HTML page for the owner only: what was found on the table."),
]
ShowRows = Annotated[
    bool, typer.Option(help="Show the data of the worst rows in the owner's page.")
]
Epsilon = Annotated[float, typer.Option(help="The epsilon that is claimed.")]
Delta = Annotated[float, typer.Option(help="The delta that is claimed.")]
_NOISE = {"noise_scale": Option(NOISE, "The noise that was added; by default what ndis would add.")}


class Audits(KindCommands):
    """A command for each kind of mechanism, and those for releases, samples and laws."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The kinds, then the others."""
        return [*super().list_commands(ctx), *_OTHERS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A release file is a command of its own: what was done stands in it."""
        single = typer.Typer(add_completion=False)
        if cmd_name.endswith(".npz"):
            _of_file(Path(cmd_name))(single)
        elif cmd_name in _OTHERS:
            single.command(cmd_name)(_OTHERS[cmd_name])
        else:
            return super().get_command(ctx, cmd_name)
        return typer.main.get_command(single)


Audits.make = staticmethod(lambda kind: _of_kind(kind))


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    said = (
        "Refute a privacy claim with a witness and a proof, or report the largest delta found. "
        "`ndis audit FILE.npz TABLE` takes everything from a release. "
        "Exit code 1 if the claim is refuted. A search never proves a claim."
    )
    app.add_typer(typer.Typer(cls=Audits, no_args_is_help=True, help=said), name="audit")


# -- a mechanism on a table --------------------------------------------------------------------


def _of_kind(kind: Kind) -> Any:
    """Audit a mechanism of this kind: the options are those of `ndis release`."""
    options = kind.parameters | _NOISE | ({} if kind.source == "edges" else tables.OPTIONS)
    if kind.source == "answers":
        options |= kind.sizes | ({} if "columns" in options else tables.COLUMNS)
    needed = (*kind.needed("INPUT"), *kind.asks, *(("label",) if kind.label else ()))

    def audit(
        flags: Mapping[str, Any],
        source: tables.Source = None,
        config: Config = None,
        report: Page = None,
        owner_report: OwnersPage = None,
        show_rows: ShowRows = False,
        as_json: AsJson = False,
    ) -> None:
        settings = read_settings(flags, options, config)
        given = Settings(settings if source is None else {**settings, "INPUT": source})
        given.need(f"ndis audit {kind.name}", *needed)
        assert source is not None
        _check_pages(report, owner_report, show_rows)
        claim = settings["epsilon"], settings["delta"]
        own = Settings(settings)
        more = {}
        if "noise_scale" in own:
            more["noise_scale"] = own.pop("noise_scale")
            del own["epsilon"]
        model = kind.make(own, **more)
        said = ", ".join(f"{name}={value}" for name, value in settings.items())
        with _opened(kind, source, tables.name_columns(settings)) as (data, frame):
            _judge(model, data, claim, f"{kind.home}: {said}.", frame, report, owner_report,
                   show_rows, as_json)  # fmt: skip

    return with_options(audit, options, kind.name, kind.summary, needed)


@contextmanager
def _opened(kind: Kind, source: str, settings: Settings) -> Iterator[tuple[Any, Any]]:
    """Arguments of `fit`, and the table where there is one."""
    if (
        "://" not in source
        and not any(sign in source for sign in "*?[")
        and not Path(source).exists()
    ):
        raise FileNotFoundError(f"Expected a table at {source}, got no such file; check the path.")
    if kind.source == "edges":
        with tables.opened_edges(source, settings) as edges:
            yield (edges,), None
        return
    if tables.is_text(source) and "names" not in settings:
        settings = Settings({"header": True, **settings})  # what is shown is for the owner
    with tables.opened(source, settings) as table:
        yield kind.arguments(table, settings), table


def _judge(
    model: Any,
    data: Any,
    claim: Any,
    subject: str,
    table: Any,
    report: Path | None,
    owner_report: Path | None,
    show_rows: bool,
    as_json: bool,
) -> None:
    """Search, write the pages, tell."""
    from ndis.auditing.estimators import audit_estimator

    verdict = audit_estimator(model, data, claim)
    if report is not None:
        # Nothing but the names of columns is taken from the table.
        shared = audit_estimator(model, data, claim, of_table=False)
        _write(report, shared, subject, ())
    if owner_report is not None:
        rows = _records(table) if show_rows and table is not None else None
        names = () if table is None else table.columns
        _write(owner_report, verdict, subject, names, rows, "owner")
    _tell(verdict, as_json)


def _records(table: Any) -> list[Any]:
    import pyarrow as pa

    return [list(row.values()) for row in pa.Table.from_batches(table.records()).to_pylist()]


# -- a release and its table -------------------------------------------------------------------


def _of_file(path: Path) -> Any:
    """Audit a release: mechanism, parameters, noise and claim are those of its certificate."""

    def audit(
        flags: Mapping[str, Any],
        source: tables.Source = None,
        report: Page = None,
        owner_report: OwnersPage = None,
        show_rows: ShowRows = False,
        as_json: AsJson = False,
    ) -> None:
        from ndis.release import Release

        settings = read_settings(flags, tables.OPTIONS, None)
        given = Settings(settings if source is None else {**settings, "INPUT": source})
        given.need(f"ndis audit {path.name}", "INPUT")
        assert source is not None
        _check_pages(report, owner_report, show_rows)
        release = Release.load(path)
        known, promise = dict(release.parameters), release.guarantee
        claim = (promise.epsilon, promise.delta)
        subject = f"The release {release.digest}, by {release.mechanism}."
        if "agreement" in known:
            verdict = _audit_parties(known, source, settings, claim)
            if owner_report is not None:
                _write(owner_report, verdict, subject, (), None, "owner")
            _tell(verdict, as_json)
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
        with _opened(kind, source, own) as (data, table):
            _judge(model, data, claim, subject, table, report, owner_report, show_rows, as_json)

    said = "Audit a release with the table it was made from."
    return with_options(audit, tables.OPTIONS, path.name, said, ("INPUT",))


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
    if tables.is_text(source) and "names" not in settings:
        settings = Settings({"header": True, **settings})
    with tables.opened(source, Settings({**settings, "columns": columns})) as table:
        return audit_parties(agreement, parties, tables.numbers(table), claim)


# -- samples and laws --------------------------------------------------------------------------


def _samples(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="Outputs, one in each row.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Outputs on a neighbour.")],
    epsilon: Epsilon,
    delta: Delta,
    confidence: Annotated[
        float, typer.Option(help="With which a claim is refuted, at least.")
    ] = 0.99,
    owner_report: OwnersPage = None,
    as_json: AsJson = False,
) -> None:
    """Audit a claim by independent outputs of a mechanism on two neighbours: two text files."""
    from ndis.auditing import audit_outputs

    _check_pages(None, owner_report, show_rows=False)
    outputs = _numbers(first), _numbers(second)
    verdict = audit_outputs(*outputs, epsilon, claimed_delta=delta, confidence=confidence)
    if owner_report is not None:
        _write(owner_report, verdict, "Outputs on two data sets.", (), None, "owner")
    _tell(verdict, as_json)


def _numbers(path: Path) -> FloatArray:
    """The numbers of a text file with or without a line of names."""
    import numpy as np

    if not path.is_file():
        raise FileNotFoundError(f"Expected outputs at {path}, got no such file; check the path.")
    lines = path.read_text().split("\n")
    for skip in (0, 1):
        rows = [line for line in lines[skip:] if line.strip()]
        with suppress(ValueError):
            return np.array([[float(word) for word in row.split(",")] for row in rows], ndmin=2)
    raise ValueError(
        f"Expected numbers separated by commas in {path}, got something else; correct it."
    )


def _pair(
    laws: Annotated[
        Path,
        typer.Argument(
            metavar="LAWS", help='{"P": {"mean": [...], "cov": [[...]]}, "Q": {...}} in JSON.'
        ),
    ],
    epsilon: Epsilon,
    delta: Delta,
    report: Page = None,
    as_json: AsJson = False,
) -> None:
    """Audit a claim about two Gaussian laws, given by their means and covariances."""
    from ndis.auditing import audit_pair

    _check_pages(report, None, show_rows=False)
    P, Q = read_pair(laws)
    verdict = audit_pair(P, Q, (epsilon, delta))
    if report is not None:
        _write(report, verdict, "Two laws, given by their means and covariances.", ())
    _tell(verdict, as_json)


_OTHERS: dict[str, Any] = {"samples": _samples, "pair": _pair}


# -- what is told ------------------------------------------------------------------------------


def _tell(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        print_json(verdict.to_dict())
    else:
        echo(str(verdict))
        for part in verdict.searched:
            echo(f"- {part if part.startswith('not ') else f'searched: {part}'}")
    if verdict.refuted:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _write(
    report: Path,
    verdict: Verdict,
    subject: str,
    names: Any,
    rows: Any = None,
    audience: str = "anybody",
) -> None:
    """The page; what it needs and does not find costs no verdict."""
    from ndis.report import write_audit

    # The command names the table's file: the owner's to know.
    command = shlex.join(["ndis", *sys.argv[1:]]) if audience == "owner" else ""
    try:
        write_audit(
            verdict,
            report,
            subject=subject,
            command=command,
            columns=names,
            rows=rows,
            audience=audience,
        )
    except ImportError as error:
        say(f"{error} The verdict is below, {report} is not written.")


def _check_pages(report: Path | None, owner_report: Path | None, show_rows: bool) -> None:
    """Before anything is computed."""
    if show_rows and owner_report is None:
        raise ValueError(
            "Expected --owner-report for --show-rows, got none; name a page for the owner."
        )
    for page in (report, owner_report):
        if page is not None and not page.parent.is_dir():
            raise FileNotFoundError(
                f"Expected a folder for the page, got {page.parent}, which is not there; make it."
            )
