"""The papers' tables, figures and case studies, run again: `EXPERIMENTS` lists them.

Each has a module here with ``run(folder, quick)``, which writes JSON and pictures; `reproduce` adds
CSV, remembers what is done and goes on where it was stopped.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["EXPERIMENTS", "Experiment", "Outcome", "reproduce"]

DONE = "done.json"


@dataclass(frozen=True)
class Experiment:
    """One module of this package.

    Attributes
    ----------
    summary : str
        What it repeats.
    module : str
        Where its ``run`` is.
    minutes, quick_minutes : float
        About how long it takes, in processor time (``papers/tests/times.json`` has measurements).
    files : tuple of str
        Official files that it can use in addition to the data at hand.
    full_minutes : float or None
        The same at the paper's own number of repetitions; None where that is the usual one.
    """

    summary: str
    module: str
    minutes: float
    quick_minutes: float
    files: tuple[str, ...] = ()
    full_minutes: float | None = None

    def run(
        self, folder: Path, quick: bool, files: Mapping[str, str | Path], full: bool = False
    ) -> None:
        """Write results into the folder."""
        function: Callable[..., Any] = import_module(f"ndis_papers.reproduce.{self.module}").run
        known = {name: path for name, path in files.items() if name in self.files}
        how: dict[str, Any] = {"quick": quick}
        if full and self.full_minutes is not None:
            how["full"] = True
        if known:
            how |= known if self.module in _ONE_FILE else {"files": known}
        function(folder, **how)

    def time(self, quick: bool, full: bool) -> float:
        """About how many minutes it takes."""
        if full and self.full_minutes is not None:
            return self.full_minutes
        return self.quick_minutes if quick else self.minutes


# Modules that take their one file under its own name.
_ONE_FILE = ("location_counts", "private_pca")

EXPERIMENTS = {
    "ndis-2024": Experiment(
        "Tables 1 to 4, figures 6 and 10: projection and least squares",
        "ndis_2024",
        1.0,
        0.5,
        ("songs", "cancer"),
    ),
    "ndis-2024-black-box": Experiment(
        "Figures 5 and 9: curves estimated from runs, beside the exact ones",
        "black_box",
        1.5,
        0.2,
        ("cancer",),
        15.0,
    ),
    "ndis-2024-additive": Experiment(
        "Figure 7 and the noise of the published additive mechanisms", "additive_tables", 1.0, 0.2
    ),
    "ndis-2024-monotone": Experiment(
        "Figure 15: delta of least squares over residual and leverage",
        "ndis_2024_monotone",
        0.2,
        0.1,
    ),
    "ndis-2026": Experiment("Figure 2: allowed leverage, exact over LSV", "ndis_2026", 0.2, 0.05),
    "rank-one-constants": Experiment(
        "Table 1 and figure 9: constants of the expected loss", "rank_one_constants", 0.8, 0.1
    ),
    "rank-one-counts": Experiment(
        "Figures 4 and 5: counts of locations", "location_counts", 0.2, 0.15, ("uber",)
    ),
    "rank-one-pca": Experiment(
        "Figure 6: principal components", "private_pca", 1.0, 0.1, ("swarm",)
    ),
    "rank-one-sgd": Experiment(
        "Figures 7 and 8: private gradient descent; with --full the paper's networks (on a card)",
        "private_sgd",
        1.0,
        0.15,
        ("mnist", "cifar"),
        900.0,
    ),
    "jl-transform": Experiment(
        "Tables I and II: cuts and directional variances, with rivals", "jl_transform", 0.4, 0.05
    ),
    "multi-party": Experiment(
        "Figures 2 and 3 and table 1 of the multi-party paper",
        "multi_party",
        2.5,
        0.3,
        ("insurance", "bike", "superconductor", "gpu", "songs"),
        15.0,
    ),
}


@dataclass(frozen=True)
class Outcome:
    """What became of an experiment.

    Attributes
    ----------
    name : str
    seconds : float
        How long it took.
    before : bool
        Whether it had been done before.
    files : tuple of str
        What it wrote.
    inputs : dict of str to str
        The official files that it read, by name, and their SHA-256.
    """

    name: str
    seconds: float
    before: bool
    files: tuple[str, ...]
    inputs: Mapping[str, str]


def reproduce(
    names: Iterable[str],
    folder: str | Path,
    *,
    quick: bool = False,
    full: bool = False,
    again: bool = False,
    files: Mapping[str, str | Path] | None = None,
    hashes: Mapping[str, str] | None = None,
) -> Iterator[Outcome]:
    """Run experiments one after the other, each into its own folder.

    Parameters
    ----------
    names : iterable of str
        Of `EXPERIMENTS`.
    folder : path
        Where to write.
    quick, full : bool
        Fewer points and repetitions, or as many as the paper has.
    again : bool
        Also what has been done before with the same settings.
    files : mapping of str to path, optional
        Official files, such as ``{"songs": "YearPredictionMSD.txt"}``. Their shapes are checked
        when they are read; the SHA-256 of each is part of the results.
    hashes : mapping of str to str, optional
        The SHA-256 that a file must have, by the name of the file in `files`.

    Returns
    -------
    iterator of Outcome
        The experiments are run as it is read. Wrong names and wrong hashes are told at once.
    """
    from ndis_papers.reproduce.data import check_hash, file_hash

    chosen = list(names)
    unknown = [name for name in chosen if name not in EXPERIMENTS]
    given = {name: str(path) for name, path in (files or {}).items()}
    readable = {name for experiment in EXPERIMENTS.values() for name in experiment.files}
    if unknown or not chosen:
        raise ValueError(
            f"Expected experiments among {', '.join(EXPERIMENTS)}, got "
            f"{', '.join(unknown) or 'none'}; choose from the list."
        )
    if given.keys() - readable:
        raise ValueError(
            f"Expected files for {', '.join(sorted(readable))}, got "
            f"{', '.join(sorted(given.keys() - readable))}; choose from the list."
        )
    if quick and full:
        raise ValueError("Expected quick or full, got both; choose one.")
    pinned = hashes or {}
    if pinned.keys() - given.keys():
        raise ValueError(
            f"Expected hashes of the files that are given, got one for "
            f"{', '.join(sorted(pinned.keys() - given.keys()))}; give that file, too."
        )
    found = {
        name: check_hash(path, pinned[name]) if name in pinned else file_hash(path)
        for name, path in given.items()
    }
    return (_run(name, Path(folder) / name, quick, full, again, given, found) for name in chosen)


def _run(
    name: str,
    folder: Path,
    quick: bool,
    full: bool,
    again: bool,
    files: Mapping[str, str],
    hashes: Mapping[str, str],
) -> Outcome:
    experiment = EXPERIMENTS[name]
    used = {key: path for key, path in files.items() if key in experiment.files}
    inputs = {key: hashes[key] for key in used}
    full = full and experiment.full_minutes is not None
    settings = {
        "quick": quick,
        "full": full,
        "files": inputs,
    }  # the same content is the same experiment
    marker = folder / DONE
    if marker.exists() and not again:
        stored = json.loads(marker.read_text())
        if stored["settings"] == settings:
            return Outcome(name, stored["seconds"], True, tuple(stored["written"]), inputs)
    folder.mkdir(parents=True, exist_ok=True)
    marker.unlink(missing_ok=True)
    started = time.monotonic()
    experiment.run(folder, quick, used, full)
    seconds = time.monotonic() - started
    for table in folder.glob("*.json"):
        write_csv(table)
    written = sorted(path.name for path in folder.iterdir())
    content = {"settings": settings, "seconds": round(seconds, 1), "written": written}
    marker.write_text(json.dumps(content, indent=1) + "\n")
    return Outcome(name, seconds, False, tuple(written), inputs)


def write_csv(path: Path) -> Path:
    """Write the rows of a JSON file as CSV beside it; lists and mappings stay JSON."""
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    columns = list(dict.fromkeys(name for row in rows for name in row))
    target = path.with_suffix(".csv")
    with target.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in rows:
            writer.writerow([_cell(row.get(name)) for name in columns])
    return target


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
