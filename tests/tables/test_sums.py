"""Every sum function of the library, on every engine and in every shape: the same bits.

Square shapes are among them, in which an engine could take one sum for another kind of sum. A new
sum function is found in the source, and fails here until it has a case.
"""

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import ndis
from ndis import PrivateLeastSquares, PrivateLogisticRegression
from ndis.mechanisms.octaves import EDGES
from ndis.tables import GRID_NORM, Columns, ExactSum, Rows, Table, sums
from ndis.tables.arrays import namespace
from ndis.tables.groups import Cells, GroupCounts, GroupMoments, Named
from ndis.tables.sums import Pull, Weights
from spark_sessions import QUIET, spark_session

DIMENSIONS = [1, 2, 3, 15, 16, 23, 24, 31, 32, 64]
MOST = max(DIMENSIONS)
N_ROWS = 150
SumFunction = Callable[[Any], Mapping[str, Any]]


def table_of(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, some of them too long, and labels: more than any function of them asks for."""
    rng = np.random.default_rng(n_features)
    X = rng.standard_t(3, (N_ROWS, n_features)) * 2.0 ** rng.uniform(-6, 0, (N_ROWS, 1))
    return X, rng.uniform(-1, 1, (N_ROWS, MOST + 2))


def recipe(n_features: int, centered: bool = False) -> Rows:
    names = [f"x{index}" for index in range(n_features)]
    features = Columns(names, norm=1.5)
    if centered:
        features = Columns(names, limits=dict.fromkeys(names, (-1.0, 2.0)))
    return Rows(features, Columns([f"y{index}" for index in range(MOST + 2)], norm=6.0))


def a_pull(d: int, n_labels: int) -> Pull:
    rng = np.random.default_rng(8)
    vectors = np.rint(rng.normal(size=(d, 2 + n_labels)) / d * 2.0**30)
    factors, shifts = np.append(2.0, np.ones(n_labels)), np.full(1 + n_labels, 0.1)
    unit = 1.0 / (2.0**30 * GRID_NORM)
    return Pull(vectors, unit, factors * unit, shifts, 4.0, 0.01, 1e-6)


LINKS = (sums.LogLink(), sums.LogLink(exposure=2.0**-18), sums.LogLink(0.01, 64.0))


def pull_grams(d: int, n_labels: int) -> sums.PullGrams:
    return sums.PullGrams(a_pull(d, n_labels), 0.5, 0.2, 0.7)


def scores(d: int, n_classes: int, **more: Any) -> sums.Scores:
    rng = np.random.default_rng(9)
    theta = np.round(rng.normal(size=(d, n_classes * (1 + more.get("fine", False)))) * 2.0**22)
    return sums.Scores(theta, 2.0**-42, rng.normal(size=n_classes), 1.0, **more)


def kernel(d: int, n_points: int) -> sums.KernelMoments:
    rng = np.random.default_rng(10)
    points = np.round(rng.normal(size=(n_points, d)) * 2.0**18)
    weights = np.round(rng.normal(size=(n_points, n_points)) / n_points * 2.0**30)
    return sums.KernelMoments(points, weights, 30, np.full(d, 2.0**-19), 1.5)


def classes_of(d: int) -> set[int]:
    """Numbers of classes, one of which makes a gradient square."""
    return {2, 3, d + 1}


# For each sum function: what it is made with for rows of d features, and how many labels it takes.
# One of each kind is square, where the function has matrices.
CASES: dict[str, Callable[[int], list[tuple[SumFunction, int]]]] = {
    "moments": lambda d: [(sums.moments, n) for n in {1, d}],
    "totals": lambda d: [(sums.totals, 1)],
    "Named": lambda d: [(Named(sums.totals, ":1"), 1)],
    "count_norms": lambda d: [(sums.count_norms, 1)],
    "unclassified": lambda d: [(sums.unclassified, d)],
    "Together": lambda d: [(sums.Together((sums.totals, sums.unclassified, sums.count_norms)), d)],
    "Below": lambda d: [
        (sums.Below(edges, tuple((0, place) for place in range(d))), 1)
        for edges in (EDGES, np.linspace(-1, 1, d))
    ],
    "CutMoments": lambda d: [
        (sums.CutMoments(n, center), 1)
        for n in {4, min(d, 24)}
        for center in (None, np.full(d, 2.0**12))
    ],
    "CutNorms": lambda d: [(sums.CutNorms(center), 1) for center in (None, np.arange(float(d)))],
    "CutGram": lambda d: [
        (sums.CutGram(rung, center), 1) for rung in (0, 5) for center in (None, np.full(d, 2.0**12))
    ],
    "PullCounts": lambda d: [
        (sums.PullCounts(a_pull(d, 1), 8.0), 1),
        *((sums.PullCounts(replace(a_pull(d, 1), link=link), 8.0), 2) for link in LINKS),
    ],
    "PullSum": lambda d: (
        [
            (sums.PullSum(a_pull(d, n), (0.5, 0.25, 0.1)[: 3 // n], GRID_NORM / 2.0, 8.0), n)
            for n in (1, 3)
        ]
        + [
            (sums.PullSum(a_pull(d, 1), tuple(np.linspace(0.1, 1.0, d + 1)), GRID_NORM / 2.0), 1),
            (sums.PullSum(a_pull(d, d + 1), (0.2,), GRID_NORM / 2.0), d + 1),
        ]
        + [
            (sums.PullSum(replace(a_pull(d, 1), link=link), (0.5, 0.1), GRID_NORM / 1.0, 8.0), 2)
            for link in LINKS
        ]
    ),
    "PullGrams": lambda d: [
        *((pull_grams(d, n), n) for n in {1, 3}),
        *((replace(pull_grams(d, 1), pull=replace(a_pull(d, 1), link=link)), 2) for link in LINKS),
    ],
    "HessianNorms": lambda d: [
        (sums.HessianNorms(np.full(d, 2.0**12), 2.0**18, weighted), 1) for weighted in (True, False)
    ],
    "CutHessian": lambda d: [
        (sums.CutHessian(np.full(d, 2.0**12), 2.0**18, weighted, rung), 1)
        for rung in (0, 5)
        for weighted in (True, False)
    ],
    "CutHessians": lambda d: [
        (sums.CutHessians(np.full(d, 2.0**12), 2.0**18, weighted, n), 1)
        for n in {4, min(d + 1, 24)}
        for weighted in (True, False)
    ],
    "tally_labels": lambda d: [(sums.tally_labels, 1)],
    "total_exposure": lambda d: [(sums.total_exposure, 2)],
    "JointGram": lambda d: [(sums.JointGram(1000.0), n) for n in {1, d}],
    "Distances": lambda d: [(sums.Distances(np.arange(float(d))), 1)],
    "WeightedMoments": lambda d: [(sums.WeightedMoments(Weights(np.arange(float(d)), 0.3)), 1)],
    "Scores": lambda d: [
        (scores(d, n, **more), n)
        for n in classes_of(d)
        for more in ({}, {"weighted": True}, {"fine": True}, {"weights": Weights(np.ones(d), 0.2)})
    ],
    "KernelMoments": lambda d: [(kernel(d, n), d) for n in {5, d}],
    # Without groups, whose positions these labels are not: see test_groups.
    "GroupCounts": lambda d: [
        (GroupCounts(Cells(()), tuple(range(d)), float(GRID_NORM), n_bins), 1) for n_bins in {16, d}
    ],
    "GroupMoments": lambda d: [
        (
            GroupMoments(
                Cells(()),
                tuple(range(d)),
                *np.outer([-(2.0**18), 2.0**19], np.ones(d)).reshape(2, 1, d),
            ),
            1,
        )
    ],
}


def test_every_sum_function_of_the_source_has_a_case() -> None:
    """Functions and classes that make terms of a block, wherever they are."""
    found = set()
    for path in Path(ndis.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            called = node
            if isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
                called = next((part for part in methods if part.name == "__call__"), None)
            if isinstance(called, ast.FunctionDef) and called.returns is not None:
                taken = [
                    ast.unparse(each.annotation) for each in called.args.args if each.annotation
                ]
                made = ast.unparse(called.returns).lower()
                if taken[:1] == ["Block"] and made in ("mapping[str, any]", "dict[str, any]"):
                    found.add(node.name)
    assert found - {"_no_terms"} == set(CASES)


def everything(n_features: int, raw: bool) -> SumFunction:
    """All cases of a dimension in one pass, each with as many labels as it takes."""
    wanted = [
        (f"{name} {index}", function, n_labels)
        for name, make in CASES.items()
        for index, (function, n_labels) in enumerate(make(n_features))
        if raw == (name in ("Below", "unclassified"))
    ]

    def terms(block: Any) -> Mapping[str, Any]:
        found = {}
        for name, function, n_labels in wanted:
            narrow = copy.copy(block)
            narrow.labels = block.labels[:n_labels, :]
            for term, value in function(narrow).items():
                found[f"{name}: {term}"] = value
        return found

    return terms


Sums = dict[str, ExactSum]
Source = tuple[Any, Any]  # features, or all columns by name; labels


def summed(source: Source, n_features: int, centered: bool) -> Sums:
    rows = recipe(n_features, centered)
    table = Table.open(source[0], rows.columns, labels=source[1]).with_rows(rows)
    return table.sum(everything(n_features, False)) | table.sum(
        everything(n_features, True), raw=True
    )


def frame_of(n_features: int) -> pa.Table:
    X, Y = table_of(n_features)
    return pa.table(dict(zip(recipe(n_features).columns, np.hstack([X, Y]).T, strict=True)))


def assert_the_same(ours: Sums, expected: Sums) -> None:
    assert ours.keys() == expected.keys()
    assert [name for name in expected if ours[name] != expected[name]] == []


def test_squares_are_among_the_shapes_and_are_no_mirrors_of_themselves() -> None:
    """What the bug was about: else nothing here would have found it."""
    for d in DIMENSIONS[1:]:
        found = summed(table_of(d), d, False)
        square = {
            name for name, total in found.items() if total.high.shape in ((d, d), (d + 1,) * 2)
        }
        lopsided = {name for name in square if found[name] != found[name].T}
        for kind in ("moments", "Scores", "PullSum", "KernelMoments", "Below"):
            assert any(name.startswith(kind) for name in lopsided), (d, kind)


def by_arrow(d: int) -> Source:
    return frame_of(d), None


def by_many_blocks(d: int) -> Source:
    return frame_of(d).to_batches(max_chunksize=7), None


def by_dask(d: int) -> Source:
    frames = pytest.importorskip("dask.dataframe")
    return frames.from_pandas(frame_of(d).to_pandas(), npartitions=11), None


def by_array_api(d: int) -> Source:
    strict = pytest.importorskip("array_api_strict")
    X, Y = table_of(d)
    return strict.asarray(X), strict.asarray(Y)


def by_torch(d: int) -> Source:
    torch = pytest.importorskip("torch")
    X, Y = table_of(d)
    return torch.asarray(X), torch.asarray(Y)


ENGINES = [by_arrow, by_many_blocks, by_dask, by_array_api, by_torch]


# torch compiles each sum for each number of columns, which takes seconds: two numbers here, the
# others by `make evidence`.
BITS = [
    pytest.param(
        d,
        engine,
        marks=[
            *[pytest.mark.slow] * (engine is by_torch),
            *[pytest.mark.evidence] * (engine is by_torch and d not in (3, 24)),
        ],
    )
    for d in DIMENSIONS
    for engine in ENGINES
]


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(("d", "engine"), BITS)
def test_every_engine_gives_the_same_bits(
    engine: Callable[[int], Source], centered: bool, d: int
) -> None:
    assert_the_same(summed(engine(d), d, centered), summed(table_of(d), d, centered))


@pytest.mark.parametrize("d", DIMENSIONS)
def test_sparse_rows_give_the_same_bits(d: int) -> None:
    """Gram matrices of sparse rows are told apart until they are centred: see `read_moments`."""
    X, Y = table_of(d)
    ours = summed((sparse.csr_array(X), Y), d, False)
    expected = summed((X, Y), d, False)
    assert_the_same({name.replace("raw_gram", "gram"): ours[name] for name in ours}, expected)


class TestSpark:
    """One process, two threads; what travels between its tasks is what would on a cluster."""

    pytestmark: ClassVar = [pytest.mark.spark, pytest.mark.slow, *QUIET]

    @pytest.fixture(scope="class")
    def session(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
        pytest.importorskip("pyspark")
        with spark_session("local[2]", tmp_path_factory.mktemp("executors")) as started:
            yield started

    @pytest.mark.parametrize("d", DIMENSIONS)
    def test_the_same_bits(self, session: Any, d: int) -> None:
        frame = session.createDataFrame(frame_of(d)).repartition(3)
        assert_the_same(summed((frame, None), d, False), summed(table_of(d), d, False))

    def test_a_logistic_regression_with_square_gradients(self, session: Any) -> None:
        """With two features and three classes they are 2 by 2."""
        rng = np.random.default_rng(3)
        columns = dict(zip("ab", rng.uniform(-1, 1, (2, 3000)), strict=True))
        table = pa.table({**columns, "class": rng.integers(0, 3, 3000)})
        model = PrivateLogisticRegression(
            classes=range(3),
            epsilon=1.0,
            delta=1e-6,
            limits=dict.fromkeys(columns, (-1, 1)),
            random_state=1,
        )
        assert_the_same_release(model, session.createDataFrame(table), table, "class")

    def test_a_linear_regression_with_square_gradients(self, session: Any) -> None:
        """With 31 features and a constant a ladder of gradients is 32 by 32."""
        rng = np.random.default_rng(4)
        names = [f"x{index}" for index in range(31)]
        table = pa.table(dict(zip([*names, "y"], rng.uniform(-1, 1, (32, 3000)), strict=True)))
        model = PrivateLeastSquares(
            epsilon=1.0,
            delta=1e-6,
            limits=dict.fromkeys([*names, "y"], (-1, 1)),
            method="newton",
            n_rounds=2,
            random_state=1,
        )
        assert_the_same_release(model, session.createDataFrame(table), table, "y")


def assert_the_same_release(model: Any, there: Any, here: Any, label: str) -> None:
    expected = dict(model.fit(here, label).release_.arrays)
    for name, array in model.fit(there, label).release_.arrays.items():
        np.testing.assert_array_equal(array, expected[name])


def test_counts_in_bins_are_those_of_comparisons() -> None:
    """Values at the edges, beside them, above the top and at zero."""
    for n_bins in (24, 64):
        edges = 2.0 ** -np.arange(1.0, n_bins)
        values = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 9), [0, 1, 9]])
        counts = sums.tally(np, values, n_bins)
        expected = [np.sum(values > edges[0])]
        expected += [np.sum((values <= a) & (values > b)) for a, b in pairwise(edges)]
        assert counts.tolist() == [*expected, np.sum(values <= edges[-1])]
        torch = pytest.importorskip("torch")
        there = torch.asarray(values)
        assert sums.tally(namespace(there), there, n_bins).tolist() == counts.tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_two_classes_are_those_of_many(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    logits = np.hstack([rng.normal(0, 4, (2, 1000)), [[0.0, 90.0, -90.0], [0.0, -9.0, 90.0]]])
    first = np.where(rng.random(1003) > 0.5, 1.0, -1.0)
    labels = np.stack([first, -first])
    two = sums._of_two(np, logits[:1] - logits[1:], labels, weighted)
    many = sums._of_many(np, logits, labels, weighted)
    np.testing.assert_allclose(two, many, atol=1e-8)


def test_half_octaves_are_those_of_the_numbers() -> None:
    values = np.random.default_rng(0).uniform(0, 9, 1000) ** 8
    inside = np.log2(7.0 / values) * 2
    expected = np.bincount(np.clip(np.floor(inside), 0, 63).astype(int), minlength=64)
    assert sums.tally_roots(np, values, 7.0).tolist() == expected.tolist()
