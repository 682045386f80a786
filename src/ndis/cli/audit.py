"""``ndis audit``: look for neighbours on which a release breaks its claim."""

import json
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, ExitCode, echo, print_json

if TYPE_CHECKING:
    from ndis._validate import FloatArray
    from ndis.auditing import Verdict

# What the command knows, and what a report calls it.
_MECHANISMS = {"projection": "projection", "regression": "regression (gaussian-limit)"}


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
        str, typer.Option(help="projection, or regression (by the method gaussian-limit).")
    ] = "projection",
    data_norm: Annotated[
        float | None, typer.Option(help="Public bound on the norm of a row.")
    ] = None,
    components: Annotated[int | None, typer.Option(help="Columns of the sketch.")] = None,
    noise_scale: Annotated[
        float | None,
        typer.Option(help="The noise that was added; by default what ndis would add."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns to read, comma-separated; all by default.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column that a regression explains; the last by default.")
    ] = None,
    intercept: Annotated[
        bool | None,
        typer.Option(
            "--intercept/--no-intercept",
            help="A column of ones; by default a regression has one and a projection has not.",
            show_default=False,
        ),
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
    _check_page(report, show_rows)
    if source.endswith(".json"):
        table_only = {"--data-norm": data_norm, "--noise-scale": noise_scale, "--label": label}
        table_only |= {"--columns": columns, "--intercept": intercept, "--components": components}
        _refuse(table_only)
        verdict = _pair(Path(source), (epsilon, delta))
        subject = "Two laws, given by their means and covariances."
    else:
        ones = mechanism == "regression" if intercept is None else intercept
        made = _make(mechanism, (epsilon, delta), data_norm, components, noise_scale, ones)
        rows, names = _read(source, columns, label, mechanism == "regression")
        noise = "the noise of ndis" if noise_scale is None else f"noise scale {noise_scale:g}"
        subject = (
            f"A {_MECHANISMS[mechanism]} of a table with {len(names)} columns"
            f"{' and an intercept' * ones}, rows of norm at most {data_norm:g}, "
            f"{components} components, {noise}."
        )
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
        echo(str(verdict))
        for part in verdict.searched:
            echo(f"- {part if part.startswith('not ') else f'searched: {part}'}")
    if verdict.refuted:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _check_page(report: Path | None, show_rows: bool) -> None:
    """Before anything is computed."""
    if report is None:
        if show_rows:
            raise ValueError("Expected --report for --show-rows, got none; name a page to write.")
    elif not report.parent.is_dir():
        raise FileNotFoundError(
            f"Expected a folder for the page, got {report.parent}, which is not there; make it."
        )


def _refuse(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(
                f"Expected only the claim beside two laws, got {name}; leave it out, or name a "
                "table."
            )


def _pair(path: Path, claim: tuple[float, float]) -> "Verdict":
    from ndis.auditing import audit_pair
    from ndis.gaussian import Gaussian

    try:
        content = json.loads(path.read_text())
        laws = [Gaussian(content[name]["mean"], content[name]["cov"]) for name in ("P", "Q")]
    except FileNotFoundError:
        raise FileNotFoundError(
            f"Expected two laws at {path}, got no such file; check the path."
        ) from None
    except (KeyError, TypeError, json.JSONDecodeError):
        raise ValueError(
            f'Expected {{"P": {{"mean": [...], "cov": [[...]]}}, "Q": {{...}}}} in {path}, got '
            "something else; give both laws."
        ) from None
    return audit_pair(laws[0], laws[1], claim)


def _read(
    source: str, columns: str | None, label: str | None, explains: bool
) -> "tuple[FloatArray, tuple[str, ...]]":
    """The table as numbers with the label last, and the names of its columns."""
    import numpy as np

    from ndis._validate import one_of
    from ndis.tables import Rows, batches

    if not Path(source).exists():
        raise FileNotFoundError(f"Expected a table at {source}, got no such file; check the path.")
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    table = batches(source, wanted)
    rows = Rows(table.columns)
    blocks = [block.copy() for batch in table for block in rows.blocks(batch)]
    if not blocks:
        raise ValueError(f"Expected a table with rows at {source}, got none; hand over another.")
    names = list(rows.names)
    if explains and len(names) < 2:
        raise ValueError(
            f"Expected a feature beside the label, got the column {names[0]!r} alone; read more."
        )
    order = list(range(len(names)))
    if explains and label is not None:
        order.append(order.pop(names.index(one_of("label", label, names))))
    return np.vstack(blocks)[:, order], tuple(names[i] for i in order)


def _make(
    mechanism: str,
    claim: tuple[float, float],
    data_norm: float | None,
    components: int | None,
    noise_scale: float | None,
    intercept: bool,
) -> Any:
    """A mechanism of ours that makes the claim, with the noise that was really added."""
    from ndis._validate import count, one_of
    from ndis.mechanisms.projection import PrivateProjection
    from ndis.mechanisms.regression import PrivateLeastSquares

    one_of("mechanism", mechanism, [*_MECHANISMS])
    if data_norm is None:
        raise ValueError(
            "Expected --data-norm, a public bound on the norm of a row, got none; pass it."
        )
    if components is None:
        raise ValueError("Expected --components, the columns of the sketch, got none; pass it.")
    shared: dict[str, Any] = {
        "epsilon": claim[0],
        "delta": claim[1],
        "data_norm": data_norm,
        "n_components": count("components", components),
    }
    if mechanism == "projection":
        ours: Any = PrivateProjection(intercept=intercept, **shared)
    else:
        ours = PrivateLeastSquares(method="gaussian-limit", fit_intercept=intercept, **shared)
    return ours if noise_scale is None else _with_noise(ours, noise_scale, intercept)


def _with_noise(ours: Any, noise_scale: float, intercept: bool) -> Any:
    """The same mechanism with another noise: only the ridge is different."""
    import numpy as np

    from ndis._validate import positive
    from ndis.gaussian import Gaussian
    from ndis.loss import QuadraticLoss
    from ndis.loss.least_squares import removal_loss
    from ndis.mechanisms.projection import PrivateProjection
    from ndis.mechanisms.regression_methods import Table
    from ndis.mechanisms.regression_methods.sketches import ridged_law
    from ndis.tables import leverages_and_residuals, read_gram, row_leverages

    ridge = positive("noise_scale", noise_scale) ** 2
    norm, r = positive("data_norm", ours.data_norm), ours.n_components
    sketch = isinstance(ours, PrivateProjection)

    def read(rows: "FloatArray") -> Table:
        gram = read_gram(rows, norm, intercept=intercept)
        return Table(rows, gram, gram.rows.names[-1])

    def law(rows: "FloatArray") -> Gaussian:
        moments = read(rows).moments
        if sketch:
            return Gaussian(np.zeros(len(moments)), moments + ridge * np.eye(len(moments)))
        return ridged_law(moments, ridge, r)

    def removal_losses(rows: "FloatArray") -> QuadraticLoss:
        table = read(rows)
        if sketch:
            leverages = row_leverages(rows, table.gram, ridge)
            return QuadraticLoss.from_leverage(np.minimum(leverages, 1.0))
        p, q = leverages_and_residuals(rows, table.gram, table.label, ridge)
        q = np.minimum(q, 1.0)
        return removal_loss(q, np.minimum(p, q), len(table.gram.columns) - 1, r)

    return SimpleNamespace(
        output_law=law,
        removal_losses=removal_losses,
        output_copies=r if sketch else 1,
        data_norm=norm,
        epsilon=ours.epsilon,
        delta=ours.delta,
    )
