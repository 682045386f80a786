"""What estimators with labels share, on the plainest of them."""

import numpy as np
import pyarrow as pa
import pytest

from ndis import PrivateLeastSquares


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
