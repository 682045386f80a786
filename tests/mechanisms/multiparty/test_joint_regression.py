"""Several parties: exact worst cases, sums that are the same everywhere, files that fit or not."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from laws import output_law, party_law
from ndis import (
    Gaussian,
    MultiPartyRegression,
    audit,
)
from ndis.calibration import noise_multiplier
from ndis.mechanisms.multiparty import train
from parties import CORNERS, PARTIES, people
from samplers import LEVEL, accepts_scale

# -- guarantees -------------------------------------------------------------------------------


def test_audit_finds_nothing_and_finds_half_the_noise() -> None:
    X, y = people(12)[:, :2], people(12)[:, 2]
    model = MultiPartyRegression(
        epsilon=1.0,
        delta=1e-5,
        parties={"a": ["x0", "x1"], "b": ["y"]},
        limits=PARTIES["a"] | PARTIES["b"],
        protects="party",
        random_state=0,
    ).fit(X, y)
    table = np.column_stack([X, y])
    table[0] = CORNERS[0]
    known = {"relation": "replace", "universe": CORNERS}
    verdict = audit(partial(output_law, model), table, model.guarantees_["joint"], **known)
    assert verdict.outcome == "consistent"
    assert audit(partial(output_law, model), table, (1.0, 1e-5), **known).outcome == "refuted"

    def half(rows: np.ndarray) -> Gaussian:
        law = party_law(model.agreement_, "a", rows)
        return Gaussian.from_diagonal(law.mean, law.variances / 4)

    promised = model.guarantees_["a"]
    for law, outcome in (
        (lambda rows: party_law(model.agreement_, "a", rows), "consistent"),
        (half, "refuted"),
    ):
        found = audit(
            law, table[:, :2], claim=promised, relation="replace", universe=CORNERS[:, :2]
        )
        assert found.outcome == outcome


# -- the estimator ----------------------------------------------------------------------------


def frame(n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    table = people(n_rows)
    return pd.DataFrame({"height": table[:, 0], "weight": table[:, 1]}), table[:, 2]


def test_the_estimator_is_the_workflow_in_one_process() -> None:
    X, y = frame(50_000)
    limits = {"height": (-1, 1), "weight": (0, 10), "y": (-5, 3)}
    model = MultiPartyRegression(
        epsilon=4.0,
        delta=1e-6,
        parties={"b": ["y", "weight"], "a": ["height"]},
        limits=limits,
        protects="party",
        random_state=0,
    )
    model.fit(X, y)
    assert model.score(X, y) > 0.5
    assert list(model.feature_names_in_) == ["height", "weight"]
    other = train(model.release_, "y")
    assert dict(zip(other.features, other.coef, strict=True)) == dict(
        zip(["height", "weight"], model.coef_, strict=True)
    )
    assert model.with_label("height").features == ("y", "weight")
    assert list(model.guarantees_) == ["b", "a", "joint"]
    assert model.guarantees_["a"].epsilon == 4.0
    assert model.guarantee_.epsilon > 4.0
    html = model._repr_html_()
    assert "at one party" in html
    assert "hanging any one row" in html


def test_the_estimator_obeys_scikit_learn() -> None:
    X, y = people(4000)[:, :2], people(4000)[:, 2]
    model = MultiPartyRegression(epsilon=50.0, delta=1e-6, limits=(-10, 10), random_state=0)
    assert cross_val_score(model, X, y, cv=3).shape == (3,)
    with pytest.raises(ValueError, match="features"):
        model.fit(X, y).predict(X[:, :1])
    with pytest.raises(ValueError, match="at most 3 parties"):
        clone(model).set_params(parties=4).fit(X, y)
    with pytest.raises(ValueError, match="every column at one party"):
        clone(model).set_params(parties={"a": ["x0"], "b": ["y"]}).fit(X, y)
    with pytest.raises(ValueError, match="limits of every column, got none of 'y'"):
        clone(model).set_params(limits={"x0": (0, 1), "x1": (0, 1)}).fit(X, y)


def test_by_default_the_whole_record_is_protected() -> None:
    X, y = people(500)[:, :2], people(500)[:, 2]
    model = MultiPartyRegression(epsilon=1.0, delta=1e-5, random_state=0).fit(X, y)
    assert (model.guarantee_.epsilon, model.guarantee_.relation) == (1.0, "replace")
    assert model.guarantees_["party-1"].epsilon < 1.0


def test_calibration_needs_no_data() -> None:
    model = MultiPartyRegression(epsilon=1.0, delta=1e-5, parties=3, protects="party")
    noise = model.calibrate((10_000, 4))
    assert list(noise) == ["party-1", "party-2", "party-3"]
    assert noise["party-3"] == pytest.approx(2 * noise_multiplier(1.0, 1e-5))
    with pytest.raises(ValueError, match="pass \\(n_rows, n_features\\)"):
        model.plan()


def test_a_forecast_of_means_is_their_error() -> None:
    X, y = people(2000)[:, :2], people(2000)[:, 2]
    model = MultiPartyRegression(epsilon=1.0, delta=1e-5, limits=(-10, 10), n_components=40)
    low, high = model.forecast((2000, 2)).errors["standard error of a mean"]
    assert low == high  # one noise for all
    entries = np.column_stack([X, y]) / 10.0
    errors = [
        model.set_params(random_state=i).fit(X, y).release_.arrays["rows"][0] / 2000
        - entries.mean(axis=0)
        for i in range(50)
    ]
    assert accepts_scale(np.concatenate(errors), low, LEVEL)
