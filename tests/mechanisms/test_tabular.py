"""What estimators of tables are told about columns: limits that are known, or to be found."""

import json
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline

from attacks import people, replay, tables
from attacks.cases import make
from attacks.people import REFUSING, TAKING
from estimators import Case, parameters
from ndis import (
    PrivateCovariance,
    PrivateGaussianProcess,
    PrivateLeastSquares,
    PrivateLogisticRegression,
    PrivatePCA,
)
from ndis.auditing.certificates import verify
from ndis.release import Release
from ndis.tables import Table


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


# -- data frames with labels beside them, as scikit-learn hands them over --------------------------

FRAME = pd.DataFrame(
    {
        "age": np.random.default_rng(0).uniform(20, 60, 3000),
        "sector": np.random.default_rng(1).choice(["Pédiatrie", "north", "south"], 3000),
    }
)
PAY = pd.Series(100.0 * FRAME.age + 900.0 * (FRAME.sector == "north"), name="pay")
RICH = pd.Series(np.where(PAY > 4500.0, "rich", "poor"), name="wealth")
PUBLIC: dict[str, Any] = {
    "epsilon": 5.0,
    "delta": 1e-6,
    "levels": {"sector": ["Pédiatrie", "north"]},
    "random_state": 0,
}
REGRESSION = PrivateLeastSquares(limits={"age": (20, 60), "pay": (0, 8000)}, **PUBLIC)
LOGISTIC = PrivateLogisticRegression(limits={"age": (20, 60)}, classes=["poor", "rich"], **PUBLIC)
PROCESS = PrivateGaussianProcess(
    limits={"age": (20, 60)}, label_limits=(0, 8000), epsilon=5.0, delta=1e-6, random_state=0
)
LABELLED = [(REGRESSION, FRAME, PAY), (LOGISTIC, FRAME, RICH), (PROCESS, FRAME[["age"]], PAY)]
FORMS = [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("model", "X", "y"), LABELLED)
def test_a_frame_with_labels_beside_it_is_the_table_with_its_label(
    model: Any, X: Any, y: Any, form: Any
) -> None:
    whole = X.assign(**{y.name: y})
    beside = clone(model).fit(form(X), y)
    named = clone(model).fit(form(whole), y.name)
    for name, array in named.release_.arrays.items():
        np.testing.assert_array_equal(beside.release_.arrays[name], array)
    assert beside.release_.parameters == named.release_.parameters
    score = beside.score(form(X), y)
    assert score == beside.score(form(whole), y.name) == named.score(form(whole), y.name) > 0.8
    again = type(model).from_release(named.release_)
    assert again.score(form(whole), y.name) == score


@pytest.mark.slow
@pytest.mark.parametrize(("model", "X", "y"), LABELLED)
def test_scikit_learns_utilities_take_text(model: Any, X: Any, y: Any) -> None:
    train, test, of_train, of_test = train_test_split(X, y, random_state=0)
    assert clone(model).fit(train, of_train).score(test, of_test) > 0.8
    assert cross_val_score(model, X, y, cv=3, error_score="raise").min() > 0.8
    search = GridSearchCV(model, {"epsilon": [1e-3, 5.0]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_ == {"epsilon": 5.0}
    assert make_pipeline(clone(model)).fit(X, y).score(X, y) > 0.8


def test_a_column_transformer_hands_on_frames() -> None:
    kept = ColumnTransformer([("all", "passthrough", ["age", "sector"])])
    kept.set_output(transform="pandas").set_params(verbose_feature_names_out=False)
    pipeline = make_pipeline(kept, clone(REGRESSION)).fit(FRAME.assign(other=1.0), PAY)
    assert pipeline.score(FRAME.assign(other=1.0), PAY) > 0.9
    components = PrivatePCA(1, limits={"age": (20, 60)}, **PUBLIC)
    assert make_pipeline(components).fit(FRAME).transform(FRAME).shape == (3000, 1)


@pytest.mark.parametrize(("model", "X", "y"), LABELLED)
@pytest.mark.parametrize("form", FORMS)
def test_missing_values_get_our_sentence_or_are_left_out(
    model: Any, X: Any, y: Any, form: Any
) -> None:
    gaps = X.astype({name: object for name in X.columns if name != "age"})
    gaps.loc[gaps.index[3], "age"] = np.nan
    gaps.iloc[5, -1] = None
    missing = y.astype(object)
    missing[7] = None
    if y.name == "pay":
        missing = missing.astype(float)
    rows = form(gaps)
    for fit in (lambda: clone(model).fit(rows, y), lambda: clone(model).fit(form(X), missing)):
        with pytest.raises(ValueError, match=r"has missing or infinite values.*drop_missing=True"):
            fit()
    kept = clone(model).set_params(drop_missing=True).fit(rows, missing)
    left = np.ones(len(X), dtype=bool)
    left[[3, 5, 7]] = False
    same = clone(model).fit(form(X[left]), y[left])
    for name, array in same.release_.arrays.items():
        np.testing.assert_array_equal(kept.release_.arrays[name], array)
    assert kept.release_.parameters["drop_missing"] is True
    with pytest.raises(ValueError, match="has missing or infinite values"):
        kept.predict(rows)  # every row gets an answer, or none


@pytest.mark.parametrize("labels", [PAY, RICH])
def test_arrays_with_gaps(labels: pd.Series) -> None:
    X, y = FRAME[["age"]].to_numpy(copy=True), labels.astype(object).to_numpy(copy=True)
    X[3], y[7] = np.nan, None
    limits: dict[str, Any] = {"limits": (20, 60), **PUBLIC, "levels": None}
    make = partial(PrivateLeastSquares, label_limits=(0, 8000), **limits)
    if labels is RICH:
        make = partial(PrivateLogisticRegression, classes=["poor", "rich"], **limits)
    else:
        y = y.astype(float)
    kept = make(drop_missing=True).fit(X, y)
    left = ~np.isin(np.arange(len(X)), [3, 7])
    same = make().fit(X[left], labels.to_numpy()[left])
    np.testing.assert_array_equal(kept.coef_, same.coef_)
    with pytest.raises(ValueError, match=r"missing or infinite.*drop_missing=True"):
        make().fit(X, labels.to_numpy())


@pytest.mark.parametrize(("model", "X", "y"), LABELLED)
def test_no_message_quotes_the_data(model: Any, X: Any, y: Any) -> None:
    secret = "Pédiatrie-4711"
    text = X.assign(age=secret)
    attempts = [
        (text, y),
        (text.to_numpy(), y),
        (text.to_numpy().tolist(), y),
        (X, pd.Series([secret] * len(X), name=y.name)),
        (X.to_numpy(), np.array([secret] * len(X))),
        (np.array([4711.0]), y[:1]),
        (np.full((len(X), 1), 4711j), y),
        (X[:-1], y),
    ]
    for rows, labels in attempts:
        with pytest.raises((ValueError, TypeError)) as told:
            clone(model).fit(rows, labels)
        shown = "".join(traceback.format_exception(told.value))
        assert "4711" not in str(told.value)
        assert "4711" not in shown.replace('secret = "Pédiatrie-4711"', "")


def test_what_an_array_may_hold_after_a_frame() -> None:
    model = PrivateCovariance(epsilon=1.0, delta=1e-6, limits=[(20, 60)], random_state=0)
    assert model.fit(FRAME[["age"]]).n_features_in_ == 1
    model = clone(REGRESSION).set_params(levels=None, columns=["age", "pay"]).fit(FRAME, PAY)
    assert model.n_features_in_ == 2  # as scikit-learn counts them
    with pytest.warns(UserWarning, match="feature names"), pytest.raises(ValueError, match="text"):
        model.predict(FRAME.to_numpy())
    numbers = FRAME.assign(sector=0.0).to_numpy()
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(model.predict(numbers), model.predict(FRAME))


def test_labels_beside_what_is_not_in_memory_are_refused() -> None:
    with pytest.raises(TypeError, match="name of the label's column"):
        clone(REGRESSION).fit(pl.from_pandas(FRAME).lazy(), PAY)


# -- people --------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 1000])
@pytest.mark.parametrize("case", parameters(TAKING))
def test_a_person_is_not_seen_however_many_rows_they_have(case: Case, m: int) -> None:
    """The recorded shift of all their rows is within the promise, in tables made to break it."""
    pair = hostile(case, m)
    more = {"person": "who", "rows_per_person": 1 if m < 2 else 3}
    done = replay.compare(partial(make, case, **more), *pair)
    assert not done.error
    assert done.promise.relation == "person:who"
    assert "any one who, with all their rows, makes" in str(done.promise)
    assert done.certificate["parameters"]["person"] == "who"


@pytest.mark.slow
@pytest.mark.parametrize("source", people.SOURCES)
def test_people_in_hostile_tables_of_every_source(source: str, tmp_path: Path) -> None:
    """Four of the tables of benchmarks/check_people.py in each; the same bits as in memory."""
    first = 300 + 4 * [*people.SOURCES].index(source)
    for seed in range(first, first + 4):
        assert not people.check(seed, source, tmp_path).error


def hostile(case: Case, m: int) -> tuple[Any, Any]:
    table, *more = case.data()
    if isinstance(table, Table):
        table = pa.Table.from_batches(list(table.records()))
    names = case.make().columns if isinstance(table, np.ndarray) else None
    return tables.hostile_people((table, *more), np.random.default_rng(m), m, names)


def test_a_mechanism_that_counts_rows_is_caught() -> None:
    """Without `person=` the rows of one person are as many rows, and the promise is not theirs."""
    (case,) = [case for case in TAKING if case.name == "covariance, matrix"]
    pair = hostile(case, 50)
    with pytest.raises(replay.Leak, match="delta"):
        replay.compare(partial(make, case, columns=["x0", "x1", "x2"]), *pair)


@pytest.mark.parametrize("asked", [{"person": "who"}, {"sample_weight": "w", "max_weight": 2.0}])
@pytest.mark.parametrize("case", parameters(REFUSING))
def test_methods_whose_noise_depends_on_the_table_refuse_weights(
    case: Case, asked: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="make one row of each person first") as refused:
        make(case, **asked).plan(case.size)
    assert next(iter(asked)) in str(refused.value)


@pytest.mark.parametrize("case", parameters(TAKING))
def test_a_certificate_for_people_is_implied_by_its_parameters(case: Case) -> None:
    (table, *label), _ = hostile(case, 5)
    table = table.append_column("w", [np.linspace(0.0, 3.0, len(table))])
    asked = {"person": "who", "rows_per_person": 2, "sample_weight": "w", "max_weight": 2.0}
    asked = {name: value for name, value in asked.items() if name in case.make().get_params()}
    release = make(case, **asked, random_state=None).fit(table, *label).release_
    assert verify(release).outcome == "checked"
    assert {name: release.parameters[name] for name in asked} == asked
    rows = replace(release.guarantee, relation="add-remove")
    doctors = {**release.parameters, "person": "doctor"}
    for forged in ((rows, release.parameters), (release.guarantee, doctors)):
        of = Release(release.arrays, forged[0], release.mechanism, forged[1])
        assert verify(of).outcome == "refuted"


def frame() -> pa.Table:
    return pa.table({"a": [0.1, 0.2, 0.3], "who": ["x", "x", "y"], "w": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"person": "who", "n_rows": 3}, "no public number of rows"),
        ({"rows_per_person": 2}, "only together with person"),
        ({"sample_weight": "w"}, "together with max_weight"),
        ({"person": "whom"}, "one column 'whom'"),
        ({"person": "w"}, "write ids as text"),
    ],
)
def test_what_is_said_of_people_must_make_sense(asked: dict[str, Any], message: str) -> None:
    model = PrivateCovariance(epsilon=1.0, delta=1e-6, limits={"a": (0, 1)}, columns=["a"], **asked)
    with pytest.raises(ValueError, match=message):
        model.fit(frame())


def test_labels_may_stand_beside_a_frame_of_people_but_not_beside_an_array() -> None:
    model = PrivateLeastSquares(
        epsilon=1.0,
        delta=1e-6,
        limits={"a": (0, 1)},
        label_limits=(0, 1),
        person="who",
        columns=["a"],
        random_state=0,
    )
    table, y = frame(), [0.0, 1.0, 0.0]
    beside = clone(model).fit(table.to_pandas(), y)
    named = clone(model).set_params(columns=["a", "y"]).fit(table.append_column("y", [y]), "y")
    assert beside.coef_ == named.coef_
    with pytest.raises(ValueError, match="hand over a data frame"):
        model.set_params(limits=[(0, 1)], columns=None).fit(np.zeros((3, 1)), y)


def test_columns_of_people_and_weights_are_no_features() -> None:
    """Whether or not they are named among the columns to read."""
    asked = {"epsilon": 1.0, "delta": 1e-6, "limits": {"a": (0, 1)}, "person": "who"}
    asked |= {"sample_weight": "w", "max_weight": 3.0, "random_state": 0}
    for columns in (None, ["a"], ["who", "a", "w"]):
        model = PrivateCovariance(**asked, columns=columns)
        assert model.plan().shapes["matrix"] == (1, 1)
        fitted = model.fit(frame())
        assert fitted.release_.parameters["columns"] == ["a"]
        assert float(fitted.release_.arrays["count"]) == pytest.approx(1.5, abs=300)


def test_nobody_is_named_in_what_may_be_published() -> None:
    asked = {"epsilon": 1.0, "delta": 1e-6, "limits": {"a": (0, 1)}, "columns": ["a"]}
    table = pa.table({"a": [0.1, 0.2], "who": ["zorro", "zorro"]})
    model = PrivateCovariance(**asked, person="who").fit(table)
    assert "zorro" not in json.dumps(model.release_.certificate(), default=str)
    assert "zorro" not in repr(model)
