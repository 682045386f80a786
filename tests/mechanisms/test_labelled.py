"""What estimators with labels share, on the plainest of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.base import clone

from ndis import PrivateLeastSquares, PrivatePoissonRegression, Release, verify


def table(n: int = 300) -> pa.Table:
    rng = np.random.default_rng(2)
    age, sick = rng.uniform(20, 60, n), rng.integers(0, 2, n)
    return pa.table({"age": age, "sick": sick, "pay": 100 * age - 50 * sick})


def model(**more: object) -> PrivateLeastSquares:
    limits = {"age": (20, 60), "sick": (0, 1), "pay": (0, 7000)}
    known = {"epsilon": 5.0, "delta": 1e-6, "limits": limits, "columns": list(limits)}
    return PrivateLeastSquares(**{**known, "random_state": 0, **more})


def test_the_last_column_is_the_label_unless_another_is_named() -> None:
    assert model().plan().shapes == model().plan(label="pay").shapes
    assert model(levels={"sick": ["0", "1"]}, limits={"age": (20, 60), "pay": (0, 7000)}).plan(
        label="pay"
    ).shapes["coef"] == (3,)


def test_a_release_predicts_what_its_estimator_predicts() -> None:
    fitted = model().fit(table(), "pay")
    again = PrivateLeastSquares.from_release(fitted.release_)
    new = table(5).drop_columns(["pay"])
    np.testing.assert_array_equal(fitted.predict(new), again.predict(new))
    assert again.feature_names_ == ("age", "sick")


def test_arrays_are_predicted_in_the_order_of_columns() -> None:
    fitted = model(limits=[(20, 60), (0, 1)], columns=None, label_limits=(0, 7000))
    X = np.column_stack([table()["age"], table()["sick"]])
    fitted.fit(X, np.asarray(table()["pay"]))
    with pytest.raises(ValueError, match="features"):
        fitted.predict(X[:, :1])
    assert fitted.predict(X).shape == (300,)


# -- formulas --------------------------------------------------------------------------------------

FORMULA = "pay ~ age + C(sector) + age:C(sector) + bs(hired, df=4)"
PUBLIC: dict[str, Any] = {
    "delta": 1e-6,
    "limits": {"age": (20, 60), "hired": (0, 10), "pay": (0, 9000)},
    "levels": {"sector": ["a", "b", "c"]},
    "random_state": 0,
}


def employees(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 60, n),
            "hired": rng.uniform(0, 10, n),
            "sector": rng.choice(["a", "b", "c"], n),
        }
    )
    by_sector = frame.age * (50.0 + 20.0 * (frame.sector == "b") + 10.0 * (frame.sector == "c"))
    frame["pay"] = 1000.0 + by_sector - 300.0 * (frame.sector == "c") + 5.0 * frame.hired**2
    return frame


def test_a_formula_has_the_coefficients_of_formulaic_and_statsmodels() -> None:
    formulaic, sm = pytest.importorskip("formulaic"), pytest.importorskip("statsmodels.api")
    frame = employees()
    model = PrivateLeastSquares(epsilon=1e4, formula=FORMULA, **PUBLIC).fit(frame)
    theirs = sm.OLS(
        frame.pay,
        formulaic.model_matrix(
            "age + C(sector) + age:C(sector) + bs(hired, knots=[5], lower_bound=0, upper_bound=10)",
            frame.assign(sector=pd.Categorical(frame.sector, ["a", "b", "c"])),
        ),
    ).fit()
    ours = np.array([model.intercept_, *model.coef_])
    np.testing.assert_allclose(ours, theirs.params, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(model.predict(frame), theirs.fittedvalues, rtol=1e-5)
    assert model.feature_names_[:3] == ("age", "C(sector)[T.b]", "C(sector)[T.c]")


def test_without_noise_a_formula_has_the_coefficients_of_statsmodels() -> None:
    formulaic, sm = pytest.importorskip("formulaic"), pytest.importorskip("statsmodels.api")
    frame, rng = employees(), np.random.default_rng(1)
    frame["pay"] += 400.0 * np.sin(frame.hired) + 400.0 * (frame.sector == "b")
    frame["pay"] += rng.normal(0, 100, len(frame)) - 5.0 * frame.hired**2
    model = PrivateLeastSquares(epsilon=1e6, formula=FORMULA, **PUBLIC).fit(frame)
    spline = "bs(hired, knots=[5], lower_bound=0, upper_bound=10)"
    design = f"age + C(sector) + age:C(sector) + {spline}"
    theirs = sm.OLS(
        frame.pay,
        formulaic.model_matrix(
            design, frame.assign(sector=pd.Categorical(frame.sector, ["a", "b", "c"]))
        ),
    ).fit()
    assert np.abs(theirs.tvalues).min() > 5.0
    ours = np.array([model.intercept_, *model.coef_])
    np.testing.assert_allclose(ours, theirs.params, rtol=1e-4)


def test_a_formula_is_part_of_the_release(tmp_path: Path) -> None:
    pytest.importorskip("formulaic")
    frame = employees()
    model = PrivateLeastSquares(epsilon=1.0, formula=FORMULA, **PUBLIC)
    assert model.plan().shapes["coef"] == (9,)
    model.fit(frame, "pay")
    beside = clone(model).fit(frame.drop(columns="pay"), frame.pay)
    np.testing.assert_array_equal(model.coef_, beside.coef_)
    frame.to_parquet(tmp_path / "people.parquet")
    from_file = clone(model).fit(tmp_path / "people.parquet", "pay")
    np.testing.assert_array_equal(model.coef_, from_file.coef_)
    model.release_.save(tmp_path / "pay.npz")
    again = PrivateLeastSquares.from_release(Release.load(tmp_path / "pay.npz"))
    assert again.score(frame, "pay") == model.score(frame, "pay") > 0.95
    assert again.wald_test(["age"]) == model.wald_test(["age"])
    checks = verify(Release.load(tmp_path / "pay.npz")).checks
    assert [check.what for check in checks if check.outcome == "failed"] == ["the noise is secret"]
    assert model.release_.parameters["columns"] == ["age", "sector", "hired", "pay"]


def test_a_formula_with_gaps() -> None:
    pytest.importorskip("formulaic")
    frame = employees()
    gaps = frame.astype({"sector": object})
    gaps.loc[3, "age"], gaps.loc[5, "sector"], gaps.loc[7, "pay"] = np.nan, None, np.nan
    model = PrivateLeastSquares(epsilon=1.0, formula=FORMULA, **PUBLIC)
    with pytest.raises(ValueError, match="missing or infinite values"):
        clone(model).fit(gaps)
    kept = clone(model).set_params(drop_missing=True).fit(gaps)
    np.testing.assert_array_equal(kept.coef_, clone(model).fit(frame.drop([3, 5, 7])).coef_)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"limits": "private"}, "public limits by name"),
        ({"fit_intercept": False}, "fit_intercept=True"),
        ({"formula": "wealth ~ age"}, "label 'wealth'"),
        ({"formula": "pay ~ scale(age)"}, r"I\(\(age - 40\) / 10\)"),
        ({"formula": "pay ~ C(town)"}, "levels of column 'town'"),
    ],
)
def test_formulas_that_are_refused(changed: dict[str, Any], told: str) -> None:
    pytest.importorskip("formulaic")
    model = PrivateLeastSquares(**{"epsilon": 1.0, "formula": FORMULA, **PUBLIC, **changed})
    with pytest.raises(ValueError, match=told):
        model.fit(employees(100), "pay")
    assert not hasattr(model, "release_")


def test_formulas_need_names() -> None:
    pytest.importorskip("formulaic")
    model = PrivateLeastSquares(epsilon=1.0, formula="age", **PUBLIC)
    with pytest.raises(ValueError, match="named columns for a formula"):
        model.fit(np.ones((10, 1)), np.ones(10))
    with pytest.raises(ValueError, match="none named 'age'"):
        model.fit(employees(100).drop(columns="age"), "pay")


def people() -> pd.DataFrame:
    """Four rows each of 500 people, with an amount and a count."""
    rng = np.random.default_rng(7)
    table = pd.DataFrame({"who": np.arange(2_000) // 4, "age": rng.uniform(20, 60, 2_000)})
    table["sector"] = rng.choice(["a", "b"], 2_000)
    b = table["sector"] == "b"
    table["pay"] = 10 + 0.2 * table["age"] + 3.0 * b + rng.normal(0, 1, 2_000)
    table["visits"] = rng.poisson(np.exp(0.02 * table["age"] + 0.5 * b - 0.5)).astype(float)
    return table


AGE_IN_SECTORS: dict[str, Any] = {
    "epsilon": 1e4, "delta": 1e-6, "random_state": 0, "levels": {"sector": ["a", "b"]},
    "formula": "pay ~ age + C(sector) + age:C(sector)", "limits": {"age": (20, 60), "pay": (0, 40)},
}  # fmt: skip


def test_a_formula_on_dask_has_the_same_bits() -> None:
    pytest.importorskip("formulaic")
    table = people()[["age", "sector", "pay"]]
    far = pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=3)
    here, there = (PrivateLeastSquares(**AGE_IN_SECTORS).fit(each) for each in (table, far))
    np.testing.assert_array_equal(here.coef_, there.coef_)


def test_a_formula_for_people_weighs_their_rows() -> None:
    pytest.importorskip("formulaic")
    table = people()
    one = PrivateLeastSquares(**AGE_IN_SECTORS, person="who").fit(table)
    assert one.guarantee_.relation == "person:who"
    every = PrivateLeastSquares(**AGE_IN_SECTORS).fit(table)
    # Everybody has four rows, so that weights are equal and the ordinary fit is the same.
    np.testing.assert_allclose(one.coef_, every.coef_, atol=0.02, rtol=0.02)


def test_a_formula_for_counts_has_the_coefficients_of_statsmodels() -> None:
    pytest.importorskip("formulaic")
    table, formula = people(), "visits ~ age + C(sector)"
    limits = {"age": (20, 60), "visits": (0, 30)}
    changed = {**AGE_IN_SECTORS, "formula": formula, "limits": limits}
    model = PrivatePoissonRegression(**changed).fit(table)
    usual = smf.glm(formula, table, family=sm.families.Poisson()).fit()
    params = usual.params[["Intercept", "age", "C(sector)[T.b]"]]
    np.testing.assert_allclose(model.intervals().estimate, params, atol=0.01)
    again = PrivatePoissonRegression.from_release(model.release_).predict(table)
    np.testing.assert_allclose(again, usual.predict(table), rtol=0.02)
    with pytest.raises(ValueError, match="a constant is always fitted"):
        PrivatePoissonRegression(**{**changed, "formula": "visits ~ 0 + age"}).plan()
    limits["who"] = (1, 500)
    with pytest.raises(ValueError, match="a formula or an exposure"):
        PrivatePoissonRegression(**changed, exposure="who").plan()
