from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from ndis.tables import Rows, norm_from_limits, scale_rows


def exact_squared_norms(block: np.ndarray) -> list[Fraction]:
    return [sum((Fraction(float(x)) ** 2 for x in row), Fraction(0)) for row in block]


def hard_rows(width: int, seed: int) -> np.ndarray:
    """Rows near the bound 1 from both sides, and rows of every size."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((300, width))
    rows[100:200] *= 10.0 ** rng.uniform(-8, 8, size=(100, width))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[:100] *= 1 + rng.integers(-6, 7, size=(100, 1)) * 2.0**-52
    rows[200:] *= 10.0 ** rng.uniform(-150, 150, size=(100, 1))
    return rows


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("row_norm", [1.0, 0.1, 1 / 3, 12345.6789, 1e-140, 1e140])
@pytest.mark.parametrize("width", [1, 2, 3, 17, 200])
def test_no_row_is_longer_than_the_bound_in_exact_arithmetic(
    width: int, row_norm: float, order: str
) -> None:
    block = np.array(hard_rows(width, seed=width) * row_norm, order=order)
    scale_rows(block, row_norm)
    bound = Fraction(row_norm) ** 2
    assert all(square <= bound for square in exact_squared_norms(block))


def test_scaling_without_a_margin_would_be_caught() -> None:
    """The test above has power: dividing by the computed norm leaves some rows too long."""
    block = hard_rows(17, seed=17)
    block /= np.maximum(np.linalg.norm(block, axis=1, keepdims=True), 1.0)
    assert any(square > 1 for square in exact_squared_norms(block))


def test_long_rows_keep_their_direction_and_nearly_the_bound() -> None:
    block = np.random.default_rng(0).standard_normal((50, 30)) * 1e3
    scaled = block.copy()
    scale_rows(scaled, 2.5)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 2.5, rtol=1e-14)
    expected = 2.5 * block / np.linalg.norm(block, axis=1, keepdims=True)
    np.testing.assert_allclose(scaled, expected, rtol=1e-13)


def test_short_rows_are_left_as_they_are() -> None:
    block = np.random.default_rng(1).standard_normal((100, 5))
    block /= 1.01 * np.linalg.norm(block, axis=1, keepdims=True)
    scaled = block.copy()
    scale_rows(scaled, 1.0)
    np.testing.assert_array_equal(scaled, block)


def test_a_row_whose_square_overflows_counts_as_zero() -> None:
    rows = Rows(["x", "y"], row_norm=1.0)
    (block,) = rows.blocks(np.array([[1e200, -1e300], [0.5, 0.5]]))
    assert block.tolist() == [[0.0, 0.0], [0.5, 0.5]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("clip", [{}, {"y": 1.0}])
@pytest.mark.parametrize("row_norm", [None, 1.0])
def test_values_that_are_not_finite_raise(
    bad: float, clip: dict[str, float], row_norm: float | None
) -> None:
    rows = Rows(["x", "y"], clip=clip, row_norm=row_norm, intercept=True)
    with pytest.raises(ValueError, match="Column 'y' has missing or infinite values"):
        list(rows.blocks(np.array([[1.0, 2.0], [1.0, bad]])))


def test_every_gate_in_order() -> None:
    """Levels, then clip, then intercept, then the norm of the whole row."""
    rows = Rows(
        ["carrier", "delay"],
        levels={"carrier": ["AA", "UA"]},
        clip={"delay": 2.0},
        intercept=True,
        row_norm=1.5,
    )
    assert rows.names == ("intercept", "carrier=AA", "carrier=UA", "delay")
    batch = pa.record_batch({"delay": [-7.0, 0.5, 1.0], "carrier": ["UA", "B6", "AA"]})
    (block,) = rows.blocks(batch)
    expected = np.array([[1, 0, 1, -2], [1, 0, 0, 0.5], [1, 1, 0, 1]])
    expected *= np.minimum(1, 1.5 / np.linalg.norm(expected, axis=1, keepdims=True))
    np.testing.assert_allclose(block, expected, rtol=1e-14)


def test_the_source_is_not_written_to() -> None:
    table = np.full((3, 2), 9.0)
    list(Rows(["x", "y"], clip={"x": 1.0}, row_norm=1.0).blocks(table))
    assert (table == 9.0).all()


@pytest.mark.parametrize("width", [1, 90, 5000])
def test_blocks_are_small_and_complete(width: int) -> None:
    table = np.arange(9000.0 * width).reshape(9000, width) if width < 100 else np.ones((700, width))
    blocks = list(Rows([f"x{i}" for i in range(width)]).blocks(table))
    assert max(map(len, blocks)) <= 4096
    np.testing.assert_array_equal(np.concatenate(blocks), table)


def test_blocks_that_share_memory_hold_the_same_rows() -> None:
    table = np.random.default_rng(0).standard_normal((10_000, 3))
    rows = Rows(["x", "y", "z"], row_norm=1.0)
    for layout in (table, np.asfortranarray(table)):
        fresh = np.concatenate(list(rows.blocks(layout)))
        shared = np.concatenate([block.copy() for block in rows.blocks(layout, reuse=True)])
        np.testing.assert_array_equal(fresh, shared)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int8", [1, -2]),
        ("uint64", [1, 2]),
        ("float16", [0.5, 2.0]),
        ("bool", [True, False]),
        ("decimal128(9, 2)", ["1.25", "2.50"]),
        ("decimal256(50, 2)", ["1.25", "2.50"]),
    ],
)
def test_kinds_of_numbers(kind: str, values: list[object]) -> None:
    from decimal import Decimal

    if kind.startswith("decimal"):
        arrow_type = pa.decimal128(9, 2) if "128" in kind else pa.decimal256(50, 2)
        values = [Decimal(str(value)) for value in values]
    else:
        arrow_type = pa.type_for_alias(kind)
        values = [np.float16(value) if kind == "float16" else value for value in values]
    batch = pa.record_batch({"x": pa.array(values, arrow_type)})
    (block,) = Rows(["x"]).blocks(batch)
    assert block.ravel().tolist() == [float(value) for value in values]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_kinds_of_text(kind: pa.DataType) -> None:
    if kind == pa.string_view() and int(pa.__version__.partition(".")[0]) < 20:
        pytest.skip("this pyarrow cannot yet compare text in string views")
    batch = pa.record_batch({"x": pa.array(["a", "b", "c"], kind)})
    (block,) = Rows(["x"], levels={"x": ["c", "a"]}).blocks(batch)
    assert block.tolist() == [[0, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 1], pa.timestamp("s")),
        pa.array([0, 1], pa.date32()),
        pa.array(["1", "2"]),
        pa.array([[1.0], [2.0]]),
        pa.array(["a", "b"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_that_are_not_numbers(column: pa.Array) -> None:
    with pytest.raises(ValueError, match=r"Column 'x' holds .*, not numbers"):
        list(Rows(["x"]).blocks(pa.record_batch({"x": column})))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": []}, "at least one column"),
        ({"columns": ["x", "x"]}, "'x' more than once"),
        ({"columns": ["intercept"], "intercept": True}, "'intercept' more than once"),
        ({"columns": ["x"], "levels": {"y": ["a"]}}, "levels for 'y'"),
        ({"columns": ["x"], "levels": {"x": []}}, "distinct levels"),
        ({"columns": ["x"], "levels": {"x": ["a", "a"]}}, "distinct levels"),
        ({"columns": ["x=a", "x"], "levels": {"x": ["a"]}}, "'x=a' more than once"),
        ({"columns": ["x"], "clip": {"y": 1.0}}, "got 'y'"),
        ({"columns": ["x"], "clip": {"x": 0.0}}, r"Expected clip\['x'\] > 0"),
        ({"columns": ["x"], "levels": {"x": ["a"]}, "clip": {"x": 1.0}}, "numeric columns"),
        ({"columns": ["x"], "row_norm": 0.0}, "Expected row_norm > 0"),
        ({"columns": ["x"], "row_norm": -1.0}, "Expected row_norm > 0"),
        ({"columns": ["x"], "row_norm": np.inf}, "row_norm to be finite"),
        ({"columns": ["x"], "row_norm": 1e-200}, "other units"),
        ({"columns": ["x"], "row_norm": 1e200}, "other units"),
    ],
)
def test_bad_recipes(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rows(**arguments)  # type: ignore[arg-type]


def test_missing_row_norm_is_a_number() -> None:
    with pytest.raises(TypeError, match="row_norm"):
        Rows(["x"], row_norm="1")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 3), (2, 2, 2)])
def test_array_of_the_wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"shape \(n_rows, 2\)"):
        list(Rows(["x", "y"]).blocks(np.ones(shape)))


def test_norm_from_limits_is_an_upper_bound() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        limits = {f"x{i}": (-float(rng.random()), float(10 * rng.random())) for i in range(4)}
        bound = norm_from_limits(limits, n_categorical=2, intercept=True)
        squares = sum(max(Fraction(low) ** 2, Fraction(high) ** 2) for low, high in limits.values())
        assert Fraction(bound) ** 2 >= squares + 3
        assert Fraction(bound) ** 2 <= (squares + 3) * (1 + Fraction(2) ** -49)
