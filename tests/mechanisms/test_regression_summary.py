"""What a regression table has: fit and tests that count the noise, from a release alone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

from ndis import PrivateLeastSquares
from ndis.mechanisms.intervals import UNKNOWN
from ndis.mechanisms.regression_summary import Figure, WaldTest

PUBLIC: dict[str, Any] = {
    "delta": 1e-6,
    "limits": {"age": (20, 60), "x": (-5, 5), "pay": (0, 9000)},
    "levels": {"sector": ["b", "c"]},
    "random_state": 0,
}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng, n = np.random.default_rng(0), 5000
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 60, n),
            "x": rng.normal(0, 1, n),
            "sector": rng.choice(["a", "b", "c"], n),
        }
    )
    frame["pay"] = 100 * frame.age + 500 * (frame.sector == "b") + rng.normal(0, 700, n)
    return frame


def of_statsmodels(frame: pd.DataFrame, columns: list[str]) -> Any:
    X = frame[[name for name in columns if name != "sector"]].astype(float)
    if "sector" in columns:
        X = X.assign(b=(frame.sector == "b") * 1.0, c=(frame.sector == "c") * 1.0)
    return sm.OLS(frame.pay, sm.add_constant(X)).fit()


@pytest.mark.parametrize("method", ["newton", "noisy-gram"])
def test_without_noise_it_is_that_of_statsmodels(people: pd.DataFrame, method: str) -> None:
    model = PrivateLeastSquares(epsilon=1e4, method=method, **PUBLIC).fit(people, "pay")
    told, theirs = model.summary(), of_statsmodels(people, ["age", "x", "sector"])
    rough = 0.02 if method == "newton" else 1e-3  # a histogram tells a mean square to 2%
    assert told.r_squared.value == pytest.approx(theirs.rsquared, abs=rough)
    assert told.adjusted_r_squared.value == pytest.approx(theirs.rsquared_adj, abs=rough)
    assert told.residual_sd.value == pytest.approx(theirs.mse_resid**0.5, rel=rough)
    assert told.n_rows.value == pytest.approx(5000, abs=1)
    assert told.r_squared.lower < theirs.rsquared < told.r_squared.upper
    wider = 0.15 if method == "newton" else 0.01  # of a sandwich
    # Noise of a tenth of the sampling variance is left even so, by "newton".
    np.testing.assert_allclose(
        told.z, theirs.tvalues, rtol=wider, atol=0.5 if method == "newton" else 0.05
    )
    np.testing.assert_allclose(told.p_values, 2.0 * stats.norm.cdf(-np.abs(told.z)))
    assert told.f_test.statistic == pytest.approx(theirs.fvalue, rel=wider)
    ours, other = model.wald_test(["sector"]), theirs.f_test("b = 0, c = 0")
    assert ours.names == ("sector=b", "sector=c")
    assert ours.statistic == pytest.approx(float(other.fvalue), rel=wider)
    single = model.wald_test(["x"])
    assert single.statistic == pytest.approx(told.z[2] ** 2)


def test_submodels_are_regressions_of_their_own(people: pd.DataFrame) -> None:
    model = PrivateLeastSquares(epsilon=1e4, method="noisy-gram", **PUBLIC).fit(people, "pay")
    whole = str(model.summary())
    for columns in (["age"], ["sector"], ["age", "sector"], ["age", "x", "sector"]):
        part, theirs = model.submodel(columns), of_statsmodels(people, columns)
        found, errors = part.intervals(), theirs.bse.to_numpy()
        np.testing.assert_allclose((found.estimate - theirs.params) / errors, 0.0, atol=0.05)
        np.testing.assert_allclose(found.standard_error, errors, rtol=0.02)
        own = np.array([part.intercept_, *part.coef_])
        np.testing.assert_allclose((own - theirs.params) / errors, 0.0, atol=0.3)
        assert part.summary().r_squared.value == pytest.approx(theirs.rsquared, abs=1e-3)
        np.testing.assert_allclose(part.predict(people), theirs.fittedvalues, rtol=1e-2)
        again = PrivateLeastSquares.from_release(model.release_).submodel(columns)
        np.testing.assert_array_equal(again.coef_, part.coef_)
    assert str(model.summary()) == whole  # the model itself stays as it is
    with pytest.raises(ValueError, match="some of the columns"):
        model.submodel(["wealth"])
    with pytest.raises(ValueError, match="noisy-gram"):
        PrivateLeastSquares(epsilon=1.0, **PUBLIC).fit(people, "pay").submodel(["age"])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["newton", "noisy-gram"])
def test_p_values_have_size_and_power(method: str) -> None:
    """Under the null hypothesis they are uniform or larger, far from it they are tiny."""
    null, jointly, power, covered = [], [], [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (4000, 3))
        y = 0.3 * X[:, 0] + 0.3 * rng.standard_normal(4000)
        model = PrivateLeastSquares(
            epsilon=1.0,
            delta=1e-6,
            limits=(-1, 1),
            label_limits=(-2, 2),
            method=method,
            random_state=seed,
        ).fit(X, y)
        told = model.summary()
        null += list(told.p_values[2:])
        jointly.append(model.wald_test(["x1", "x2"]).p_value)
        power.append(max(told.p_values[1], told.f_test.p_value))
        covered.append(told.r_squared.lower < 0.03 / 0.12 < told.r_squared.upper)
    for values in (null, jointly):
        assert stats.kstest(values, "uniform", alternative="greater").pvalue > 0.005
    assert np.mean(np.array(null) < 0.5) > 0.2  # and not all of them one
    assert max(power) < 1e-3
    assert np.mean(covered) >= 0.9


def test_what_is_shown(people: pd.DataFrame) -> None:
    model = PrivateLeastSquares(epsilon=1.0, **PUBLIC).fit(people.assign(x=1e-3), "pay")
    told = model.summary(0.9)
    text, marked, page = str(told), told.to_markdown(), told.to_html()
    for form in (text, marked, page):
        for word in ("pay", "R-squared", "sector=b", "count sampling and privacy noise", "0.05"):
            assert word in form
        assert not re.search(r"\b(nan|inf)\b", form)
    assert UNKNOWN in text  # a constant column cannot be told from the intercept
    assert told._repr_html_() == page
    frame = told.to_frame()
    assert [*frame.columns] == [
        *("estimate", "standard_error", "z"),
        *("p_value", "lower", "upper"),
    ]
    assert frame.loc["x"].isna().all()
    assert "no information" in str(model.wald_test(["x"]))
    again = PrivateLeastSquares.from_release(model.release_)
    assert str(again.summary(0.9)) == text
    assert "count privacy noise" in str(model.summary(of="table"))
    pytest.importorskip("matplotlib")
    assert [each.get_text() for each in told.plot().axes[0].get_yticklabels()] == list(frame.index)


def test_sentences(people: pd.DataFrame) -> None:
    model = PrivateLeastSquares(epsilon=1.0, **PUBLIC).fit(people, "pay")
    with pytest.raises(ValueError, match="names of columns or coefficients"):
        model.wald_test(["wealth"])
    with pytest.raises(ValueError, match="names of columns or coefficients"):
        model.wald_test([])
    two = PrivateLeastSquares(
        epsilon=1.0, delta=1e-6, limits=(20, 60), label_limits=(0, 9000), random_state=0
    ).fit(people[["age"]].to_numpy(), people[["pay", "pay"]].to_numpy())
    with pytest.raises(ValueError, match="one label for a summary"):
        two.summary()


def test_figures_and_tests_of_nothing() -> None:
    assert f"{Figure.of_normal(0.5, 0.1, 0.95, (0.0, 1.0)):.3f}" == "0.500 (0.304 to 0.696)"
    assert f"{Figure.of_normal(0.5, 9.0, 0.95, (0.0, 1.0)):.3f}" == "unknown"
    assert np.isnan(WaldTest.of(("a",), np.array([np.nan]), np.eye(1), 100.0).p_value)
    assert np.isnan(WaldTest.of(("a",), np.array([1.0]), np.eye(1), -2.0).p_value)


def test_a_share_that_noise_makes_negative_is_unknown() -> None:
    """It once ended in a "math domain error"; the labels here have nothing to do with the rows."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, 60)
    how = {"epsilon": 1.0, "delta": 1e-6, "limits": (-1, 1), "label_limits": (-1, 1)}
    told = [
        PrivateLeastSquares(method="noisy-gram", random_state=seed, **how).fit(X, y).summary()
        for seed in range(12)
    ]
    assert any(np.isnan(each.r_squared.value) for each in told)
