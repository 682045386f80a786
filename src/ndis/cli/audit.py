"""``ndis audit``: look for neighbours on which a release breaks its claim."""

import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, ExitCode, print_json

if TYPE_CHECKING:
    from ndis._validate import FloatArray
    from ndis.auditing import Verdict

_MECHANISMS = ("projection", "regression")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("audit")(audit)


def audit(
    source: Annotated[
        str,
        typer.Argument(
            help="A table (CSV, Parquet), or a JSON file with two laws: "
            '{"P": {"mean": [...], "cov": [[...]]}, "Q": {...}}.'
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="The epsilon that is claimed.")],
    delta: Annotated[float, typer.Option(help="The delta that is claimed.")],
    mechanism: Annotated[str, typer.Option(help="projection or regression.")] = "projection",
    data_norm: Annotated[
        float | None, typer.Option(help="Public bound on the norm of a row.")
    ] = None,
    components: Annotated[int, typer.Option(help="Columns of the sketch.")] = 1,
    noise_scale: Annotated[
        float | None,
        typer.Option(help="The noise that was added; by default what ndis would add."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="Columns to read; the label last for a regression.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    show_rows: Annotated[
        bool, typer.Option(help="Show the data of the worst rows in the report: the owner's alone.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Refute a privacy claim with a witness and a proof, or say how bad the worst found is.

    Exit code 1 if the claim is refuted. A search never proves a claim.
    """
    from ndis.auditing import audit as search

    rows: FloatArray | None = None
    names: tuple[str, ...] = ()
    if source.endswith(".json"):
        verdict = _pair(Path(source), (epsilon, delta))
        subject = "Two laws, given by their means and covariances."
    else:
        rows, names = _read(source, columns)
        if data_norm is None:
            raise ValueError("Expected --data-norm, a public bound on a row's norm, got none.")
        subject = f"A {mechanism} of a table with {len(names)} columns."
        made = _make(mechanism, (epsilon, delta), data_norm, components, noise_scale)
        verdict = search(made, rows)
    if report is not None:
        from ndis.report import write_audit

        write_audit(
            verdict,
            report,
            subject=subject,
            command=shlex.join(["ndis", *sys.argv[1:]]),
            columns=names,
            rows=rows if show_rows else None,
        )
    if as_json:
        print_json(verdict.to_dict())
    else:
        typer.echo(str(verdict))
        for part in verdict.searched:
            typer.echo(f"- {part if part.startswith('not ') else f'searched: {part}'}")
    if verdict.refuted:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _pair(path: Path, claim: tuple[float, float]) -> "Verdict":
    from ndis.auditing import audit_pair
    from ndis.gaussian import Gaussian

    content = json.loads(path.read_text())
    try:
        laws = [Gaussian(content[name]["mean"], content[name]["cov"]) for name in ("P", "Q")]
    except (KeyError, TypeError):
        raise ValueError(
            'Expected {"P": {"mean": [...], "cov": [[...]]}, "Q": {...}}, got something else; '
            "give both laws."
        ) from None
    return audit_pair(laws[0], laws[1], claim)


def _read(source: str, columns: list[str] | None) -> "tuple[FloatArray, tuple[str, ...]]":
    """The table as numbers, and the names of its columns."""
    import numpy as np

    from ndis.tables import Rows, batches

    if not Path(source).exists():
        raise FileNotFoundError(f"Expected a table at {source}, got no such file; check the path.")
    table = batches(source, columns)
    rows = Rows(table.columns)
    blocks = [block for batch in table for block in rows.blocks(batch)]
    return np.vstack(blocks), tuple(rows.names)


def _make(
    mechanism: str,
    claim: tuple[float, float],
    data_norm: float,
    components: int,
    noise_scale: float | None,
) -> Any:
    """A mechanism of ours that makes the claim, with the noise that was really added."""
    from ndis._validate import one_of
    from ndis.mechanisms.projection import PrivateProjection
    from ndis.mechanisms.regression import PrivateLeastSquares

    shared: dict[str, Any] = {
        "epsilon": claim[0],
        "delta": claim[1],
        "data_norm": data_norm,
        "n_components": components,
    }
    if one_of("mechanism", mechanism, _MECHANISMS) == "projection":
        ours: Any = PrivateProjection(**shared)
    else:
        ours = PrivateLeastSquares(method="gaussian-limit", fit_intercept=False, **shared)
    return ours if noise_scale is None else _with_noise(ours, mechanism, noise_scale)


def _with_noise(ours: Any, mechanism: str, noise_scale: float) -> Any:
    """The same mechanism with another noise: only the ridge is different."""
    import numpy as np

    from ndis._validate import positive
    from ndis.gaussian import Gaussian
    from ndis.loss import QuadraticLoss
    from ndis.loss.least_squares import removal_loss
    from ndis.mechanisms.regression_methods import ridged_law
    from ndis.tables import leverages_and_residuals, read_gram, row_leverages

    ridge = positive("noise_scale", noise_scale) ** 2
    norm, r = ours.data_norm, ours.n_components

    def law(table: "FloatArray") -> Gaussian:
        gram = read_gram(table, norm).matrix
        if mechanism == "regression":
            return ridged_law(gram, ridge, r)
        return Gaussian(np.zeros(len(gram)), gram + ridge * np.eye(len(gram)))

    def removal_losses(table: "FloatArray") -> QuadraticLoss:
        gram = read_gram(table, norm)
        if mechanism == "projection":
            leverages = row_leverages(table, gram, ridge)
            return QuadraticLoss.from_leverage(np.minimum(leverages, 1.0))
        p, q = leverages_and_residuals(table, gram, gram.columns[-1], ridge)
        q = np.minimum(q, 1.0)
        return removal_loss(q, np.minimum(p, q), table.shape[1] - 1, r)

    return SimpleNamespace(
        output_law=law,
        removal_losses=removal_losses,
        output_copies=r if mechanism == "projection" else 1,
        data_norm=norm,
        epsilon=ours.epsilon,
        delta=ours.delta,
    )
