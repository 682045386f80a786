"""Recipes: what is public about a row, and how values become numbers."""

import numpy as np
import pyarrow as pa
import pytest

from ndis.tables import Columns, Rows
from reading import opened


def raw(column: pa.Array, **recipe: object) -> np.ndarray:
    rows = Rows(Columns(["x"], norm=100.0, **recipe))  # type: ignore[arg-type]
    (block,) = rows.raw_blocks(pa.record_batch({"x": column}))
    return np.asarray(block.features)


def test_every_gate_in_order() -> None:
    table = pa.table({"kind": ["a", "b", "c"], "x": [-7.0, 1.0, 30.0], "y": [0.0, 2.0, 4.0]})
    one = opened(
        table,
        norm=None,
        levels={"kind": ["b", "a"]},
        limits={"x": (-10, 10), "y": (0, 8)},
        intercept=True,
    )
    features = one.rows.features
    assert features.names == ("intercept", "kind=b", "kind=a", "x", "y")
    (block,) = one.blocks()
    scaled = block.features / (features.scale * [1, 1, 1, 10, 4])[:, None]
    expected = [[1, 1, 1], [0, 1, 0], [1, 0, 0], [-0.7, 0.1, 1.0], [-1.0, -0.5, 0.0]]
    np.testing.assert_allclose(scaled, expected, atol=2e-6)
    assert features.norm == 2.0  # of intercept, one level, x and y


def test_without_an_intercept_zero_stays_zero() -> None:
    recipe = Columns(["x"], limits={"x": (-2, 8)}, centred=False)
    (block,) = Rows(recipe).blocks(np.array([[0.0], [4.0], [-5.0]]))
    np.testing.assert_allclose(
        block.features[0] / (8 * recipe.scale[0]), [0, 0.5, -0.25], atol=2e-6
    )


def test_the_source_is_not_written_to() -> None:
    table = np.full((3, 2), 7.0)
    list(opened(table, norm=1.0).blocks())
    list(opened(np.asfortranarray(table), norm=1.0).blocks())
    assert (table == 7.0).all()


def test_long_rows_take_their_label_along() -> None:
    """A linear relation between features and label survives the bound on the row."""
    X = np.array([[0.25], [4.0]])
    rows = Rows(Columns(["x0"], norm=0.5), Columns(["y"], norm=1.0))
    from ndis.tables import Table

    (block,) = Table.open(X, labels=X[:, 0] / 8).with_rows(rows).blocks()
    assert block.features[0] == pytest.approx([2.0**19, 2.0**20], abs=2)
    assert block.labels[0] == pytest.approx([2.0**15, 2.0**16], abs=2)


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
    assert raw(pa.array(values, arrow_type)).ravel().tolist() == [float(v) for v in values]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_kinds_of_text(kind: pa.DataType) -> None:
    if kind == pa.string_view() and int(pa.__version__.partition(".")[0]) < 20:
        pytest.skip("this pyarrow cannot yet compare text in string views")
    positions = raw(pa.array(["a", "b", "c"], kind), levels={"x": ["c", "a"]})
    assert positions.tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 1], pa.time32("s")),
        pa.array(["1", "2"]),
        pa.array(["a", "b"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_that_are_not_numbers(column: pa.Array) -> None:
    with pytest.raises(ValueError, match=r"Column 'x' holds .*, not numbers"):
        raw(column)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": [], "norm": 1.0}, "at least one column"),
        ({"columns": ["x", "x"], "norm": 1.0}, "'x' more than once"),
        ({"columns": ["intercept"], "intercept": True, "norm": 1.0}, "'intercept' more than once"),
        ({"columns": ["x"], "levels": {"y": ["a"]}}, "levels for 'y'"),
        ({"columns": ["x"], "levels": {"x": []}}, "distinct levels"),
        ({"columns": ["x"], "levels": {"x": ["a", "a"]}}, "distinct levels"),
        ({"columns": ["x=a", "x"], "levels": {"x": ["a"]}, "norm": 1.0}, "'x=a' more than once"),
        ({"columns": ["x"]}, "pass limits, .* or data_norm"),
        ({"columns": ["x", "y", "z"], "limits": {"y": (0, 1)}}, "none for 'x', 'z'"),
        ({"columns": ["x"], "limits": {"x": (0, 1), "y": (0, 1)}}, "got 'y'"),
        ({"columns": ["x"], "limits": {"x": (1, 1)}}, "low < high, got"),
        ({"columns": ["x"], "limits": {"x": (0, np.inf)}}, "to be finite"),
        ({"columns": ["x"], "limits": {"x": 3}}, r"pair \(low, high\), got 3"),
        ({"columns": ["x"], "limits": {"x": [3]}}, r"pair \(low, high\)"),
        ({"columns": ["x"], "limits": {"x": (0, 1e-90)}}, "other units"),
        ({"columns": ["x"], "norm": 0.0}, "Expected data_norm > 0"),
        ({"columns": ["x"], "norm": np.inf}, "data_norm to be finite"),
        ({"columns": ["x"], "norm": 1e-200}, "other units"),
        ({"columns": ["x"], "norm": 1e200}, "other units"),
    ],
)
def test_bad_recipes(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Columns(**arguments)  # type: ignore[arg-type]
