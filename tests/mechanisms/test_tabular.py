"""What estimators of tables are told about columns: limits that are known, or to be found."""

import numpy as np
import pytest

from ndis import (
    PrivateCovariance,
    PrivateLogisticRegression,
)


def test_one_pair_of_limits_stands_for_all_columns() -> None:
    table = np.random.default_rng(0).random((50, 3))
    asked = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    one = PrivateCovariance(limits=(0, 1), **asked)
    each = PrivateCovariance(limits=[(0, 1)] * 3, **asked)
    assert one.plan(3).loss == each.plan().loss
    np.testing.assert_array_equal(one.fit(table).covariance_, each.fit(table).covariance_)
    with pytest.raises(ValueError, match="number of features"):
        one.plan()


def test_a_plan_knows_that_the_label_is_among_the_columns() -> None:
    model = PrivateLogisticRegression(
        classes=[0, 1],
        epsilon=1.0,
        delta=1e-6,
        columns=["a", "sick", "b"],
        limits={"a": (0, 1), "b": (0, 1)},
    )
    assert model.plan().shapes["coef"] == (1, 2)
