"""Recipes: what is public about a row."""

import numpy as np
import pyarrow as pa
import pytest

from ndis.tables import (
    GRID_NORM,
    Columns,
    ExactSum,
    Rows,
    Table,
)
from reading import opened


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
    recipe = Columns(["x"], limits={"x": (-2, 8)}, centered=False)
    (block,) = Rows(recipe).blocks(np.array([[0.0], [4.0], [-5.0]]))
    np.testing.assert_allclose(
        block.features[0] / (8 * recipe.scale[0]), [0, 0.5, -0.25], atol=2e-6
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": [], "norm": 1.0}, "at least one column"),
        ({"columns": ["x", "x"], "norm": 1.0}, "'x' more than once"),
        ({"columns": ["intercept"], "intercept": True, "norm": 1.0}, "'intercept' more than once"),
        ({"columns": ["x"], "levels": {"y": ["a"]}}, "levels of 'y'"),
        ({"columns": ["x"], "levels": {"x": []}}, "distinct levels"),
        ({"columns": ["x"], "levels": {"x": "private"}}, "to be a list, got 'private'; only"),
        ({"columns": ["x"], "levels": {"x": 3}}, "to be a list, got 3; list"),
        ({"columns": ["x"], "levels": {"x": b"ab"}}, "to be a list, got b'ab'; list"),
        ({"columns": ["x"], "levels": {"x": {"a": 1}}}, "to be a list, got {'a': 1}; list"),
        ({"columns": ["x"], "levels": {"x": {"a"}}}, "to be a list, got {'a'}; list"),
        ({"columns": ["x"], "levels": ["x"]}, "to be a dict of columns .*, got .'x'.; pass"),
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
    with pytest.raises((ValueError, TypeError), match=message):
        Columns(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [(1e16, 1e16 + 2), (-1e10, -1e10 + 1), (0.1, 0.1 + 1e-12)])
def test_limits_that_doubles_cannot_resolve_are_refused(limits: tuple[float, float]) -> None:
    with pytest.raises(
        ValueError, match=r"^Expected limits of 'x'[^\n]*subtract a public[^\n]*\.$"
    ):
        Columns(["x"], limits={"x": limits})
    Columns(["x"], limits={"x": limits}, centered=False)  # zero stays zero there


def test_limits_of_dates_and_of_large_numbers_are_fine_enough() -> None:
    second = 1.7e18  # in nanoseconds
    for limits in [(second, second + 1e9), ("2024-12-31T23:59:59", "2025-01-01"), (1e9, 1e9 + 1)]:
        Columns(["x"], limits={"x": limits})


def test_limits_fill_the_box_and_not_more() -> None:
    names = list("abc")
    limits = {"a": (0, 1), "b": (-5, 5), "c": (1e6, 1e6 + 1)}
    corners = np.array(np.meshgrid(*limits.values())).reshape(3, -1).T
    beyond = np.vstack([corners, corners * 3 - 7])
    one = opened(beyond, names, norm=None, limits=limits, intercept=True)
    assert one.rows.features.boxed
    squares = [sum(int(v) ** 2 for v in row) for b in one.blocks() for row in b.features.T]
    assert max(squares) <= GRID_NORM**2
    assert min(squares) > GRID_NORM**2 * (1 - 1e-5)


def test_units_of_a_label_do_not_matter() -> None:
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1, 1, (3000, 2)), rng.uniform(0, 70, 3000)
    features = Columns(["x0", "x1"], limits={"x0": (-1, 1), "x1": (-1, 1)})

    def cross(factor: float) -> ExactSum:
        labels = Columns(["y"], limits={"y": (0.0, 70.0 * factor)})
        return Table.open(X, labels=y * factor).with_rows(Rows(features, labels)).moments["cross"]

    assert cross(1.0) == cross(2.0**-40)
    np.testing.assert_allclose(cross(100.0).value, cross(1.0).value, atol=3000 * GRID_NORM)


@pytest.mark.parametrize("n", [3, 40])
def test_columns_are_the_same_beside_others_with_other_limits(n: int) -> None:
    """Limits that all columns share take other steps than limits of their own."""
    names, other = [f"x{j}" for j in range(n)], {"x0": (-3.0, 40.0)}
    limits = dict.fromkeys(names, (-0.7, 0.3))
    values = np.random.default_rng(8).uniform(-1, 1, (500, n))
    alike, mixed = (
        next(Rows(Columns(names, limits=each, centered=False)).blocks(values)).features
        for each in (limits, limits | other)
    )
    assert np.array_equal(alike[1:], mixed[1:])
    assert len(np.unique(alike)) > n
