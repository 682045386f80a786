"""Formulas: the design matrix of formulaic, with bounds that follow from public numbers alone."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ndis.tables.formulas import Design

formulaic = pytest.importorskip("formulaic")

LIMITS = {"age": (20.0, 60.0), "hired": (0.0, 10.0), "change": (-1.0, 2.0)}
LEVELS = {"sector": ["a", "b", "c"], "sex": ["m", "w"]}
# Ours and, where knots lie between limits or a name differs, formulaic's.
FORMULAS = {
    "age + C(sector)": "",
    "age * C(sector)": "",
    "C(sector):C(sex)": "",
    "C(sector) * C(sex) * age": "",
    "age:C(sector)": "",
    "0 + C(sector) + age:hired": "",
    "sector + age:sex": "",
    "change + I(change ** 2) + I(change ** 3) + I(-age / 2 + 3)": "",
    "log(age) + exp(change) + I(1 / age) + np.sqrt(hired)": "",
    "age + bs(hired, df=5)": "age + bs(hired, knots=[10/3, 20/3], lower_bound=0, upper_bound=10)",
    "C(sector) * bs(hired, df=4)": (
        "C(sector) * bs(hired, knots=[5], lower_bound=0, upper_bound=10)"
    ),
    "bs(hired, knots=[2, 7], degree=2, include_intercept=True) - 1": (
        "bs(hired, knots=[2, 7], degree=2, include_intercept=True, lower_bound=0, upper_bound=10)"
        " - 1"
    ),
}


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 60, n),
            "hired": rng.uniform(0, 10, n),
            "change": rng.uniform(-1, 2, n),
            "sector": rng.choice(["a", "b", "c"], n),
            "sex": rng.choice(["m", "w"], n),
        }
    )
    frame.loc[:1, "hired"] = [0.0, 10.0]  # the ends
    return frame


def matrix(design: Design, frame: pd.DataFrame) -> Any:
    (batch,) = pa.Table.from_pandas(frame, preserve_index=False).combine_chunks().to_batches()
    made = design(batch, ())
    return np.column_stack([made.column(name).to_numpy() for name in design.names])


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_design_is_that_of_formulaic_and_within_its_bounds(formula: str) -> None:
    frame, design = people(), Design.of(formula, LIMITS, LEVELS)
    typed = frame.assign(**{k: pd.Categorical(frame[k], v) for k, v in LEVELS.items()})
    theirs = formulaic.model_matrix(FORMULAS[formula] or formula, typed)
    columns = [name for name in theirs.columns if name != "Intercept"]
    ours = matrix(design, frame)
    np.testing.assert_allclose(ours, theirs[columns].to_numpy(), rtol=1e-13, atol=1e-14)
    assert design.intercept == ("Intercept" in theirs.columns)
    if not FORMULAS[formula]:
        assert list(design.names) == columns
    low, high = np.array([design.limits[name] for name in design.names]).T
    assert np.all((ours >= low - 1e-9) & (ours <= high + 1e-9))
    scaled = (ours - (low + high) / 2) / ((high - low) / 2)
    assert np.max(np.sum(scaled**2, axis=1)) <= design.n_terms * (1 + 1e-9)


@pytest.mark.parametrize("formula", FORMULAS)
def test_what_becomes_of_a_record_depends_on_that_record_alone(formula: str) -> None:
    design = pickle.loads(pickle.dumps(Design.of(formula, LIMITS, LEVELS)))
    frame = people(37)
    whole = matrix(design, frame)
    hostile = pd.DataFrame(
        {
            "age": [1e308, -1e308, np.nan, 5e-324, 60.0],
            "hired": [np.inf, -1.0, 1e300, np.nan, 10.0],
            "change": [-np.inf, 1e20, -1e20, 0.0, np.nan],
            "sector": ["z", "", "a", "b", None],
            "sex": ["m", "x", None, "w", "w"],
        }
    )
    among = matrix(design, pd.concat([hostile, frame, hostile], ignore_index=True))
    np.testing.assert_array_equal(among[5:-5], whole)
    for index in (0, 17, 36):
        np.testing.assert_array_equal(matrix(design, frame.iloc[[index]])[0], whole[index])
    for each, row in zip([*range(5)], among[:5], strict=True):
        np.testing.assert_array_equal(matrix(design, hostile.iloc[[each]])[0], row)
    low, high = np.array([design.limits[name] for name in design.names]).T
    finite = among[np.isfinite(among).all(axis=1)]
    assert np.all((finite >= low - 1e-9) & (finite <= high + 1e-9))


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("scale(age)", r"I\(\(age - 40\) / 10\)"),
        ("center(age)", r"I\(age - 40\)"),
        ("poly(age, 2)", r"age \+ I\(age \*\* 2\)"),
        ("cr(age, df=3)", r"bs\(age, df=4\)"),
        ("C(town)", "levels of column 'town'"),
        ("town", "limits of column 'town'"),
        ("C(sector, contr.sum)", "name of one column"),
        ("bs(age)", "a spline such as"),
        ("bs(age, df=2)", "a spline such as"),
        ("bs(age, knots=[70])", "a spline such as"),
        ("log(change)", "public limits, got log"),
        ("I(1 / change)", "public limits, got 1 / change"),
        ("I(age ** 0.5)", "public limits"),
        ("I(age ** age)", "public limits"),
        ("age.mean()", "public limits"),
        ("I(__import__('os').getpid() + age)", "public limits"),
        ("log(pay) ~ age", "one column on the left"),
        ("pay ~ age +* 2", "Expected a formula"),
        ("1", "a formula with columns"),
    ],
)
def test_what_depends_on_the_data_is_refused_with_what_to_write(formula: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Design.of(formula, LIMITS, LEVELS)


def test_functions_of_the_mathematics_library_do_not_depend_on_the_place() -> None:
    design = Design.of("log(age)", LIMITS, LEVELS)
    values = people(1001)
    np.testing.assert_array_equal(
        matrix(design, values)[:, 0], [math.log(each) for each in values.age]
    )
