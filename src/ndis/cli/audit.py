"""``ndis audit``: look for neighbours on which a release breaks its claim."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, ExitCode, echo, print_json, say
from ndis.cli.curve import read_pair
from ndis.cli.kinds import KINDS
from ndis.cli.mistakes import missing
from ndis.cli.settings import WORDS, Settings, flag_name
from ndis.cli.tables import is_text, numbers, opened

if TYPE_CHECKING:
    from ndis._validate import FloatArray


_MECHANISMS = ("projection", "covariance")
_NEEDED = ("data_norm", "n_components")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("audit")(audit)


def audit(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A table (CSV, Parquet), or a JSON file with two laws: "
            '{"P": {"mean": [...], "cov": [[...]]}, "Q": {...}}.',
            show_default=False,
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="The epsilon that is claimed.")],
    delta: Annotated[float, typer.Option(help="The delta that is claimed.")],
    mechanism: Annotated[
        str, typer.Option(help="Whose law is known: projection or covariance.")
    ] = "projection",
    data_norm: Annotated[
        float | None, typer.Option(help="Public bound on the norm of a row.")
    ] = None,
    n_components: Annotated[int | None, typer.Option(help="Columns of the sketch.")] = None,
    method: Annotated[
        str | None, typer.Option(help="How it is done; by default as the mechanism would.")
    ] = None,
    noise_scale: Annotated[
        float | None,
        typer.Option(help="The noise that was added; by default what ndis would add."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns to read, comma-separated; all by default.")
    ] = None,
    fit_intercept: Annotated[
        bool, typer.Option("--fit-intercept/--no-fit-intercept", help="A column of ones.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write an HTML page to share: the mechanism's worst case, nothing about the table."
        ),
    ] = None,
    owner_report: Annotated[
        Path | None,
        typer.Option(help="Write an HTML page for the owner only: what was found on the table."),
    ] = None,
    show_rows: Annotated[
        bool, typer.Option(help="Show the data of the worst rows in the owner's page.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Refute a privacy claim with a witness and a proof, or report the largest delta found.

    Exit code 1 if the claim is refuted. A search never proves a claim.
    """
    from ndis.auditing import audit as search
    from ndis.auditing import audit_pair

    rows: FloatArray | None = None
    made: Any = None
    names: tuple[str, ...] = ()
    _check_pages(report, owner_report, show_rows)
    if source.endswith(".npz"):
        raise ValueError(
            f"Expected a table or two laws, got the release {source}; check it with "
            f"`ndis verify {source}`."
        )
    if source.endswith(".json"):
        _refuse(
            {
                "--data-norm": data_norm,
                "--noise-scale": noise_scale,
                "--columns": columns,
                "--n-components": n_components,
                "--method": method,
                "--fit-intercept": fit_intercept or None,
            }
        )
        laws = read_pair(Path(source))
        verdict = audit_pair(laws[0], laws[1], (epsilon, delta))
        subject = "Two laws, given by their means and covariances."
    else:
        given = {
            "data_norm": data_norm,
            "n_components": n_components,
            "method": method,
            "fit_intercept": fit_intercept or None,
        }
        made = _make(mechanism, (epsilon, delta), noise_scale, given)
        rows, names = _read(source, columns)
        noise = "the noise of ndis" if noise_scale is None else f"noise scale {noise_scale:g}"
        subject = (
            f"A {mechanism} of a table with {len(names)} columns"
            f"{' and an intercept' * fit_intercept}, rows of norm at most {data_norm:g}, {noise}."
        )
        verdict = search(made, rows, (epsilon, delta))
    worst = verdict if made is None else _worst_case(made, len(names), (epsilon, delta), report)
    if report is not None and worst is not None:
        _write(report, worst, subject, ())
    if owner_report is not None:
        _write(owner_report, verdict, subject, names, rows if show_rows else None, "owner")
    if as_json:
        print_json(verdict.to_dict())
    else:
        echo(str(verdict))
        for part in verdict.searched:
            echo(f"- {part if part.startswith('not ') else f'searched: {part}'}")
    if verdict.refuted:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _worst_case(made: Any, n_features: int, claim: Any, report: Path | None) -> Any:
    """The claim against the worst case over all tables, which no table has made."""
    from ndis.auditing import audit_loss

    if report is None:
        return None
    try:
        return audit_loss(made.plan(n_features).loss, claim)
    except ValueError as error:
        say(f"{error} The worst case over all tables is not known, {report} is not written.")
        return None


def _write(
    report: Path,
    verdict: Any,
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


def _refuse(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(
                f"Expected only the claim beside two laws, got {name}; leave it out, or name a "
                "table."
            )


def _read(source: str, columns: str | None) -> "tuple[FloatArray, tuple[str, ...]]":
    """The table as numbers, and the names of its columns."""
    if not Path(source).exists():
        raise FileNotFoundError(f"Expected a table at {source}, got no such file; check the path.")
    settings = Settings({} if columns is None else {"columns": WORDS.read(columns)})
    if is_text(source):
        settings["header"] = True  # what an audit shows is for the owner of the data
    with opened(source, settings) as table:
        return numbers(table), table.columns


def _make(
    mechanism: str,
    claim: tuple[float, float],
    noise_scale: float | None,
    given: Mapping[str, Any],
) -> Any:
    """A mechanism of ours that makes the claim, or has the noise that was really added."""
    from ndis._validate import one_of

    kind = KINDS[one_of("mechanism", mechanism, _MECHANISMS)]
    wanted = [name for name in _NEEDED if name in kind.parameters and given[name] is None]
    if wanted:
        raise ValueError(missing([flag_name(name) for name in wanted], "ndis audit"))
    told = {name: value for name, value in given.items() if value is not None}
    for name in told:
        if name not in kind.parameters:
            raise ValueError(
                f"Expected options of {mechanism}, got {flag_name(name)}; leave it out."
            )
    promise = {"epsilon": claim[0]} if noise_scale is None else {"noise_scale": noise_scale}
    return kind.estimator(delta=claim[1], **promise, **told)
