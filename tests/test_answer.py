"""What fitted estimators say by name, and that the command line knows nothing else about them."""

import ast
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import ndis.cli
from estimators import all_cases, fitted, parameters
from ndis import PrivateCovariance, PrivateLeastSquares, PrivateSummary
from ndis.answer import ESTIMATE, Answer, headings

# Methods that do not know the errors of their estimates: their arrays are shown.
SILENT = {
    *("least squares, als", "least squares, gaussian-limit", "least squares, sketch"),
    *("logistic-descent", "logistic-posterior", "process, posterior"),
}


def test_headings_tell_the_level() -> None:
    assert headings() == (*ESTIMATE, "95% interval from", "to")
    assert headings(0.9)[2] == "90% interval from"


def test_places_in_time_are_told_as_dates_where_public_limits_are_dates() -> None:
    rng = np.random.default_rng(0)
    day = np.datetime64("2021-01-01") + rng.integers(0, 300, 2000)
    table = pa.table({"day": day, "age": rng.uniform(20.0, 90.0, 2000)})
    limits = {"day": ("2021-01-01", "2021-12-31"), "age": (0, 100)}
    asked = {"epsilon": 5.0, "delta": 1e-6, "random_state": 0}
    means = PrivateCovariance(limits=limits, center=True, **asked).fit(table).answers()[0].cells()
    told = dict(means)
    assert told["day"][0][:7] in ("2021-05", "2021-06")
    assert told["day"][1].endswith(" days")
    assert 50.0 < float(told["age"][0]) < 60.0
    summary = PrivateSummary(limits=limits, **asked).fit(table)
    restored = PrivateSummary.from_release(summary.release_)
    assert restored.dates_ == ["day"]
    assert restored.answers()[1].cells()[0][1][0] in summary.summary()
    # Nobody but the owner knows what a column with private limits holds.
    found = PrivateSummary(limits={**limits, "day": "private"}, **asked).fit(table)
    assert found.dates_ == []


def test_a_matrix_comes_with_its_errors() -> None:
    found = Answer.of_matrix("gram", ["a", "b"], ["a", "b"], (np.eye(2), 2 * np.eye(2)))
    assert [each.title for each in found] == ["gram", "gram, standard errors"]
    assert found[1].rows == [("a", [2.0, 0.0]), ("b", [0.0, 2.0])]


@pytest.mark.parametrize("case", parameters(all_cases()))
def test_answers_are_tables_of_numbers_by_name(case) -> None:
    if case.name in SILENT:
        with pytest.raises(ValueError, match="Expected"):
            fitted(case).answers()
        return
    found = fitted(case).answers()
    for each in found:
        assert each.title
        assert each.rows
        for name, row in each.rows:
            assert isinstance(name, str)
            assert min(1, len(each.headings)) <= len(row) <= len(each.headings)
            assert all(isinstance(value, float) for value in row)


def test_several_labels_have_a_table_each() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 2))
    model = PrivateLeastSquares(
        epsilon=5.0, delta=1e-6, limits=(-1, 1), label_limits=(-1, 1), random_state=0
    ).fit(X, np.column_stack([X @ [0.5, 0.0], X @ [0.0, 0.5]]))
    first, second = model.answers()
    assert first.title.startswith("Linear regression of ")
    assert first.title != second.title
    assert "cover sampling and privacy noise" in first.note
    for told, slope in ((first, [0.5, 0.0]), (second, [0.0, 0.5])):
        estimates = [row[0] for name, row in told.rows[1:]]
        np.testing.assert_allclose(estimates, slope, atol=0.05)
        assert not any(math.isnan(value) for _, row in told.rows for value in row)


def test_the_command_line_asks_no_estimator_for_what_only_some_have() -> None:
    """Fitted attributes end with an underscore: no module that prints a release reads one."""
    for name in ("answers", "show", "release"):
        tree = ast.parse(Path(ndis.cli.__file__).with_name(f"{name}.py").read_text())
        read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert [attr for attr in read if attr.endswith("_") and not attr.endswith("__")] == []
