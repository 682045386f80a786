"""Sums of a table that is in a graphics card's memory, beside bare products of the same run.

Needs torch with a CUDA device. Prints, for each size, the time of the Gram matrix as every
estimator asks for it (rows put on the grid, bounded, multiplied and added up exactly), that of
torch's own product of the same doubles, and whether the processor gets the same bits; then whole
fits beside the products that they need, the passes of a logistic regression, limits found on the
card, leverages, and a regression from a Parquet file (2 GB in a temporary folder) with and without
the card.

    python benchmarks/bench_device.py
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ndis import PrivateLeastSquares, PrivateLogisticRegression
from ndis.tables import Columns, Rows, Scores, Table, leverages, moments

SIZES = ((2_000_000, 1024), (1_000_000, 4096))
GROWTH = tuple((n, 256) for n in (100_000, 1_000_000, 10_000_000)) + tuple(
    (500_000, d) for d in (16, 64, 512, 2048, 4096)
)
CHECKED = 20_000
ROUNDS = 6


def timed(torch, work, repeats: int = 3) -> float:
    """The least of some repetitions, in seconds."""
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def opened(source, d: int, boxed: bool) -> Table:
    table = Table.open(source)
    limits = dict.fromkeys(table.columns, (-4.0, 4.0)) if boxed else None
    norm = None if boxed else 2.0 * d**0.5
    return table.with_rows(Rows(Columns(table.columns, limits=limits, norm=norm)))


def gram(block):
    return {"gram": block.gram()}


def grams(torch, sizes) -> None:
    """Gram matrices of several sizes."""
    for n, d in sizes:
        x = torch.randn(n, d, dtype=torch.float64, device="cuda")
        bare = timed(torch, lambda x=x: x.T @ x)
        print(f"{n:,} x {d}, float64: bare product {bare:.4f} s", flush=True)
        for boxed in (True, False):
            table = opened(x, d, boxed)
            table.sum(gram)  # compiles
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            ours = timed(torch, lambda table=table: table.sum(gram))
            more = (torch.cuda.max_memory_allocated() - before) / 2**30
            here, there = (
                opened(part, d, boxed).sum(gram)["gram"]
                for part in (x[:CHECKED], x[:CHECKED].cpu().numpy())
            )
            print(
                f"  {'limits' if boxed else 'norm'}: exact Gram {ours:.4f} s, "
                f"{ours / bare:.2f} times the bare product, {more:.1f} GiB of working memory; "
                f"same bits as the processor: {here == there}",
                flush=True,
            )
        del x
        torch.cuda.empty_cache()


def problem(torch, n: int, d: int, n_classes: int):
    """Rows, coefficients, and a label, or an indicator for each of some classes."""
    x = torch.randn(n, d, dtype=torch.float64, device="cuda")
    truth = torch.randn(d, n_classes or 1, dtype=torch.float64, device="cuda") / d**0.5
    scores = x @ truth
    if not n_classes:
        return x, truth, (scores + 0.1 * torch.randn_like(scores))[:, 0]
    classes = torch.argmax(scores + 0.5 * torch.randn_like(scores), dim=1)
    return x, truth, torch.nn.functional.one_hot(classes, n_classes).double()


def fit(torch, x, truth, y, n_rounds: int) -> None:
    """A fit on the card, beside the products of its rounds; a small one beside the processor's.

    Without rounds it is that of noisy moments: a Gram matrix and one product.
    """
    (n, d), n_labels = x.shape, truth.shape[1]
    way = {"n_rounds": n_rounds} if n_rounds else {"method": "noisy-gram"}
    facts = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 1.5 * d**0.5, "random_state": 0}
    model = PrivateLeastSquares(label_bound=1.0 if n_labels > 1 else 4.0, **way, **facts)

    def products() -> None:
        x.T @ x
        for _ in range(n_rounds):
            left = x @ truth
            x.T @ left
        if not n_rounds:
            x.T @ y

    model.fit(x, y)  # compiles
    ours, bare = timed(torch, lambda: model.fit(x, y)), timed(torch, products)
    passes = [0]
    whole = Table.sum

    def counting(self, *arguments, **options):
        start = time.perf_counter()
        try:
            return whole(self, *arguments, **options)
        finally:
            passes.append(time.perf_counter() - start)

    Table.sum = counting
    model.fit(x, y)
    Table.sum = whole
    coefficients = [model.fit(a, b).coef_ for a, b in _both(x[:CHECKED], y[:CHECKED])]
    print(
        f"{n:,} x {d}, {n_labels} labels, {model.release_.parameters['method']}, {n_rounds} "
        f"rounds: fit {ours:.3f} s, of which {len(passes) - 1} passes {sum(passes):.3f} s, "
        f"{ours / bare:.2f} and {sum(passes) / bare:.2f} times the bare products "
        f"({bare:.3f} s); same coefficients as the processor: {np.array_equal(*coefficients)}",
        flush=True,
    )


def scores(torch, x, truth, y, n_rounds: int = 12) -> None:
    """The passes of a logistic regression: moments, and gradients with weighted residuals."""
    names = [f"y{index}" for index in range(y.shape[1])]
    labels = Columns(names, limits=dict.fromkeys(names, (0.0, 1.0)), centered=False)
    d, K = truth.shape
    view = Table.open(x, labels=y)
    theta = np.round(truth.cpu().numpy() * 2.0**30)
    gradient = Scores(theta, 2.0**-50, np.zeros(K), (1.0 - 1.0 / K) ** 0.5, weighted=True)

    def passes() -> None:
        features = Columns([f"x{index}" for index in range(d)], norm=1.5 * d**0.5)
        table = view.with_rows(Rows(features, labels, weighted=False))
        table.sum(moments)
        for _ in range(n_rounds):
            table.sum(gradient)

    def products() -> None:
        x.T @ x
        for _ in range(n_rounds):
            left = x @ truth
            x.T @ left

    passes()  # compiles
    ours, bare = timed(torch, passes), timed(torch, products)
    print(
        f"{x.shape[0]:,} x {d}, {K} classes, passes of a logistic regression with {n_rounds} "
        f"rounds: {ours:.3f} s, {ours / bare:.2f} times the bare products ({bare:.3f} s)",
        flush=True,
    )


def logistic(torch, x, truth, y, n_rounds: int = 100) -> None:
    """The default logistic regression of many features, whole, beside its bare products."""
    labels = torch.argmax(y, dim=1)
    model = PrivateLogisticRegression(
        classes=range(y.shape[1]), epsilon=1.0, delta=1e-6, data_norm=1.5 * x.shape[1] ** 0.5,
        random_state=0,
    )  # fmt: skip

    def products() -> None:
        for _ in range(n_rounds):
            left = x @ truth
            x.T @ left

    model.fit(x[:CHECKED], labels[:CHECKED])  # compiles
    ours, bare = timed(torch, lambda: model.fit(x, labels), 2), timed(torch, products, 2)
    few = x[:CHECKED], labels[:CHECKED]
    coefficients = [model.fit(a, b).coef_ for a, b in _both(*few)]
    print(
        f"{x.shape[0]:,} x {x.shape[1]}, {y.shape[1]} classes, logistic regression, "
        f"{model.release_.parameters['method']}: {ours:.3f} s, {ours / bare:.2f} times the bare "
        f"products ({bare:.3f} s); same coefficients as the processor: "
        f"{np.array_equal(*coefficients)}",
        flush=True,
    )


def _both(*arrays):
    return arrays, tuple(array.cpu().numpy() for array in arrays)


def limits(torch, n: int, d: int) -> None:
    """Limits that are found on the card, and by the processor on some of the rows."""
    x = torch.randn(n, d, dtype=torch.float64, device="cuda")
    y = x[:, 0] + 0.1 * torch.randn(n, dtype=torch.float64, device="cuda")
    facts = {"limits": "private", "n_rounds": ROUNDS, "random_state": 0}
    model = PrivateLeastSquares(epsilon=1.0, delta=1e-6, **facts)
    model.fit(x, y)
    seconds = timed(torch, lambda: model.fit(x, y), 2)
    coefficients = [model.fit(a, b).coef_ for a, b in _both(x[:CHECKED], y[:CHECKED])]
    print(
        f"{n:,} x {d}, least squares with private limits: {seconds:.3f} s; same coefficients as "
        f"the processor: {np.array_equal(*coefficients)}",
        flush=True,
    )


def weights(torch, n: int, d: int) -> None:
    """The leverages of all rows, on the card and by the processor."""
    x = torch.randn(n, d, dtype=torch.float64, device="cuda")
    here, there = (opened(source, d, True) for source in (x, x.cpu().numpy()))
    found = [leverages(table)[1] for table in (here, there)]
    seconds = [timed(torch, lambda table=table: leverages(table), 2) for table in (here, there)]
    print(
        f"{n:,} x {d}, leverages of all rows: {seconds[0]:.3f} s on the card, {seconds[1]:.3f} s "
        f"by the processor; they differ by {np.max(np.abs(found[0] / found[1] - 1)):.1e} at most",
        flush=True,
    )


def parquet(torch, n: int, d: int) -> None:
    """From a Parquet file to a regression, with and without the card."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, names = np.random.default_rng(0), [f"c{j}" for j in range(d)]
    truth, size = rng.standard_normal(d) / np.sqrt(d), 1 << 17
    model = PrivateLeastSquares(
        epsilon=1.0, delta=1e-6, data_norm=1.5 * d**0.5, label_bound=4.0, n_rounds=ROUNDS
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.parquet"
        schema = pa.schema([(name, pa.float32()) for name in [*names, "y"]])
        with pq.ParquetWriter(file, schema, use_dictionary=False, compression=None) as writer:
            for start in range(0, n, size):
                x = rng.standard_normal((min(size, n - start), d), dtype=np.float32)
                y = (x @ truth + 0.1 * rng.standard_normal(len(x))).astype(np.float32)
                writer.write_table(pa.table([*x.T, y], schema=schema), row_group_size=size)

        def read() -> None:
            for _ in pq.ParquetFile(file, pre_buffer=False).iter_batches(1 << 16):
                pass

        def regress(device: str | None) -> None:
            model.fit(Table.open(file, device=device), "y")

        regress("cuda")  # compiles
        jobs = {
            "reading alone": read,
            "with the card": lambda: regress("cuda"),
            "without": lambda: regress(None),
        }
        print(f"{n:,} x {d} of float32 in Parquet, least squares, {ROUNDS} rounds", flush=True)
        for name, job in jobs.items():
            seconds = timed(torch, job, 2)
            print(f"  {name}: {seconds:.2f} s", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    small = parser.parse_args().small
    try:
        import torch
    except ImportError:
        sys.exit("Expected torch with a CUDA device, got none; install it first.")
    if not torch.cuda.is_available():
        sys.exit("Expected a CUDA device, got none.")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, numpy {np.__version__}")
    share = 20 if small else 1
    grams(torch, [(n // share, d) for n, d in SIZES])
    fit(torch, *problem(torch, 10_000_000 // share, 512, 0), ROUNDS)
    torch.cuda.empty_cache()
    limits(torch, 1_000_000 // share, 64)
    weights(torch, 1_000_000 // share, 128)
    torch.cuda.empty_cache()
    parquet(torch, 4_000_000 // share, 128)
    torch.cuda.empty_cache()
    probe = problem(torch, 1_000_000 // share, 1024, 100)
    for n_rounds in (0, ROUNDS):
        fit(torch, *probe, n_rounds)
    scores(torch, *probe)
    logistic(torch, *probe)
    del probe
    torch.cuda.empty_cache()
    grams(torch, [(n // share, d) for n, d in GROWTH])


if __name__ == "__main__":
    main()
