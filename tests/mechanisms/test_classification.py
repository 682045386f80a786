"""Private logistic regression: its sums, its promise, what it is good for."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimators.classification import labelled
from laws import output_law
from ndis import Ledger, PrivateLogisticRegression, audit, privacy_loss
from ndis.calibration import noise_multiplier
from ndis.mechanisms import center, classification
from ndis.mechanisms.classification import _whole
from ndis.mechanisms.classification_newton import Newton
from ndis.mechanisms.recompute import implied
from ndis.tables import GRID_NORM, Block, Columns, Rows, Scores, Table, Weights, contrasts
from ndis.tables.sums import Distances, WeightedMoments, unclassified
from posterior_pairs import logistic_removals, worst_log_delta
from samplers import LEVEL, accepts_gaussian

DELTA = 1e-6


def model(**changes: Any) -> PrivateLogisticRegression:
    parameters = {
        "classes": [0, 1], "epsilon": 1.0, "delta": DELTA, "data_norm": 1.0, "random_state": 7,
    }  # fmt: skip
    return PrivateLogisticRegression(**(parameters | changes))


def posterior(**changes: Any) -> PrivateLogisticRegression:
    return model(**{"method": "posterior", "prior_precision": 1.0, "delta": 1e-4, **changes})


# --- sums and bounds ------------------------------------------------------------------------------


def opened(X: Any, y: Any, n_classes: int) -> Table:
    names = [f"y{i}" for i in range(n_classes)]
    onehot = (np.asarray(y)[:, None] == np.arange(n_classes)).astype(float)
    table = Table.open(X, labels=onehot)
    features = Columns([f"x{i}" for i in range(X.shape[1])], norm=1.0)
    labels = Columns(names, limits=dict.fromkeys(names, (0.0, 1.0)), centered=False)
    return table.with_rows(Rows(features, labels, weighted=False))


def queries(d: int, n_classes: int, rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Points near zero, ordinary ones and absurd ones."""
    sizes = (0.0, 1.0, 30.0, 1e6)
    return [
        (size * rng.standard_normal((d, n_classes)), size * rng.standard_normal(n_classes))
        for size in sizes
    ]


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_neighbour_changes_a_gradient_by_one_bounded_term(n_classes: int, weighted: bool) -> None:
    rng = np.random.default_rng(n_classes)
    X, y = labelled(300, 3, n_classes)
    bound = math.sqrt(1 - 1 / n_classes) if weighted else math.sqrt(2.0)
    for theta, intercept in queries(3, n_classes, rng):
        whole, unit = _whole(theta)
        assert max(math.sqrt(sum(int(v) ** 2 for v in column)) for column in whole.T) <= 2**32
        scores = Scores(whole, unit / GRID_NORM, intercept, bound, weighted)
        everyone = opened(X, y, n_classes).sum(scores)
        for gone in (0, 123, 299):
            others = opened(np.delete(X, gone, 0), np.delete(y, gone), n_classes).sum(scores)
            alone = opened(X[[gone]], y[[gone]], n_classes).sum(scores)
            for name, total in everyone.items():
                assert total - others[name] == alone[name]
            residual = [int(v) for v in alone["residuals"].value]
            assert sum(v * v for v in residual) <= GRID_NORM**2
            square = sum(int(v) ** 2 for v in alone["gradient"].value.ravel())
            assert square <= GRID_NORM**4


@pytest.mark.parametrize("radius", [2.0**-10, 0.3, 1.0])
def test_weights_bound_what_a_row_does_to_every_sum(radius: float) -> None:
    """In whole numbers, for rows of all lengths, seen from centres in their midst and far away."""
    rng, root = np.random.default_rng(5), math.isqrt(int(radius * 2**80))  # below sqrt(L) 2^40
    most = {"gram": 2**80, "sums": (root + 1) ** 2, "count": 2**80, "distances": 2**40}
    for _ in range(60):
        X, y = labelled(1, 3, 3)
        X *= 10 ** rng.uniform(-5, 1)
        center = np.trunc(rng.standard_normal(3) * 2.0 ** rng.uniform(1, 19))
        weights, (theta, intercept) = Weights(center, radius), queries(3, 3, rng)[1]
        table, (whole, unit) = opened(X, y, 3), _whole(theta)
        scores = Scores(whole, unit / GRID_NORM, intercept, 0.5, weights=weights)
        sums = {**table.sum(WeightedMoments(weights)), **table.sum(Distances(center))}
        for name, total in sums.items():
            assert sum(int(v) ** 2 for v in total.value.ravel()) <= most[name]
        sums = table.sum(scores)
        moved = sums["gradient"] - sums["residuals"].times(center.astype(np.int64)).T
        pairs = zip(moved.high.ravel().tolist(), moved.low.ravel().tolist(), strict=True)
        square = sum(((high << 26) + low) ** 2 for high, low in pairs)
        assert square <= radius**2 * 2**80
        assert sum(int(v) ** 2 for v in sums["residuals"].value) <= GRID_NORM**2


def test_weighted_sums_are_what_they_are_called() -> None:
    X, y = labelled(500, 3, 3)
    center, radius = np.array([1e5, -2e5, 3e4]), 0.3
    away = X - center / GRID_NORM
    far = np.linalg.norm(away, axis=1)
    w = radius / np.maximum(np.maximum(far, far**2), radius)
    sums = opened(X, y, 3).sum(WeightedMoments(Weights(center, radius)))
    found = {name: total.value / GRID_NORM**2 for name, total in sums.items()}
    assert found["count"] == pytest.approx(w.sum(), rel=1e-4)
    np.testing.assert_allclose(found["sums"] * math.sqrt(radius), w @ away, atol=1e-3)
    np.testing.assert_allclose(found["gram"] * radius, (away.T * w) @ away, atol=1e-3)
    total = opened(X, y, 3).sum(Distances(center))["distances"].value / GRID_NORM
    assert total == pytest.approx(np.minimum(far, 1.0).sum(), rel=1e-4)
    theta = np.random.default_rng(0).standard_normal((3, 3))
    whole, unit = _whole(theta)
    scores = Scores(whole, unit / GRID_NORM, np.ones(3), 2.0, weights=Weights(center, radius))
    left = contrasts(np, (np.eye(3)[y] - softmax(X @ theta, axis=1)).T) * w
    gradient = opened(X, y, 3).sum(scores)["gradient"].value * 2.0 / GRID_NORM**2
    np.testing.assert_allclose(gradient, X.T @ left.T, atol=2e-3)


def test_rows_off_the_middle_and_of_many_lengths() -> None:
    """Limits far from the rows, and a few rows far longer than most, cost little."""
    rng = np.random.default_rng(6)
    X = 0.4 + 0.05 * rng.standard_normal((4000, 4))
    X[:20] -= rng.uniform(0.2, 0.8, (20, 1))
    p = expit((X - 0.4) @ [40.0, -30.0, 0.0, 10.0])
    y = (rng.uniform(size=4000) < p).astype(int)
    best = -np.mean(p * np.log(p) + (1 - p) * np.log(1 - p))
    for method in ("newton", "descent"):
        fitted = model(method=method, data_norm=None, limits=[(-1, 1)] * 4).fit(X, y)
        q = fitted.predict_proba(X)[:, 1]
        assert -np.mean(p * np.log(q) + (1 - p) * np.log(1 - q)) < best + 0.02


def test_gradients_are_those_of_the_likelihood() -> None:
    rng = np.random.default_rng(0)
    X, y = labelled(500, 4, 3)
    theta, intercept = rng.standard_normal((4, 3)), rng.standard_normal(3)
    whole, unit = _whole(theta)
    sums = opened(X, y, 3).sum(Scores(whole, unit / GRID_NORM, intercept, math.sqrt(2.0)))
    left = np.eye(3)[y] - softmax(X @ theta + intercept, axis=1)
    expected = X.T @ contrasts(np, left.T).T
    found = sums["gradient"].value * math.sqrt(2.0) / GRID_NORM**2
    np.testing.assert_allclose(found, expected, atol=500 * 3e-6)


def test_weights_bound_every_residual_and_are_used_up() -> None:
    """Any label at any probabilities; equal ones reach the bound."""
    rng = np.random.default_rng(1)
    for n_classes in (2, 3, 10):
        theta = np.zeros((2, n_classes))
        longest = 0.0
        for intercept in (np.zeros(n_classes), 5 * rng.standard_normal(n_classes)):
            for label in range(n_classes):
                table = opened(np.zeros((1, 2)), [label], n_classes)
                scores = Scores(theta, 1.0, intercept, math.sqrt(1 - 1 / n_classes), weighted=True)
                longest = max(longest, np.linalg.norm(table.sum(scores)["residuals"].value))
        assert (1 - 1e-5) * GRID_NORM < longest <= GRID_NORM


@pytest.mark.parametrize("method", ["newton", "descent"])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_all_sums_together_are_one_mean_shift(method: str, n_classes: int) -> None:
    """The most that a row can do to all sums, in units of their noise, is what was paid for."""
    plan = model(method=method, classes=range(n_classes)).plan(3)
    assert sum(part.share for part in plan.parts) == pytest.approx(1.0)
    spent = sum((part.sensitivity / part.noise) ** 2 for part in plan.parts)
    assert math.sqrt(spent) == pytest.approx(1 / noise_multiplier(1.0, DELTA), rel=1e-12)


def test_the_layout_does_not_matter() -> None:
    X, y = labelled(5000, 3, 3)
    strict = pytest.importorskip("array_api_strict")
    theta, weights = np.round(1e6 * np.ones((3, 3))), Weights(np.array([1e5, -2e5, 0.0]), 0.3)
    back = np.arange(5000)[::-1]
    onehot = (y[:, None] == np.arange(3)).astype(float)
    there = Table.open(strict.asarray(X), labels=strict.asarray(onehot))
    others = (
        opened(X[back], y[back], 3),
        opened(sparse.csr_array(X), y, 3),
        there.with_rows(opened(X, y, 3).rows),
    )
    for function in (
        Scores(theta, 1e-12, np.arange(3.0), 1.0, weighted=True),
        Scores(theta, 1e-12, np.arange(3.0), 1.0, weighted=True, weights=weights),
        WeightedMoments(weights),
        Distances(weights.center),
    ):
        expected = opened(X, y, 3).sum(function)
        for other in others:
            sums = other.sum(function)
            assert all(sums[name] == expected[name] for name in expected)


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_classes_that_are_one_number_to_the_labels_are_refused(kind: type, tmp_path: Path) -> None:
    """Beyond 2^53 whole numbers are no longer doubles; with them a row had two classes."""
    classes = [2 ** np.finfo(kind).nmant * 2 + more for more in (0, 1, 4)]
    X, y = np.zeros((4, 1)), np.array([classes[0], classes[2]] * 2)
    with Ledger.create(tmp_path / "b", 5.0, 1e-3, "add-remove", accept=["seeded"]) as ledger:
        ours = model(classes=classes, ledger=ledger)
        for library in (np, pytest.importorskip("array_api_strict")):
            rows, labels = library.asarray(X), library.asarray(y.astype(kind))
            with pytest.raises(ValueError, match=f"labels of type {kind.__name__} can tell apart"):
                ours.fit(rows, labels)
        assert not ledger.history()
    assert ours.set_params(ledger=None).fit(X, y).classes_.tolist() == classes  # whole numbers


def test_every_row_has_one_class() -> None:
    """One with two and one with none are two faults, whatever their sum."""
    labels = np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    found = unclassified(Block(np.zeros((1, 3)), labels))
    assert float(found["unclassified"]) == 2.0


def test_no_warning_tells_how_many_classes_there_are() -> None:
    """Scikit-learn's own check of labels warned of many, and refused classes with fractions."""
    X, many = np.linspace(-1, 1, 40)[:, None], np.arange(40) % 30
    ours = model(classes=[0.5 * k for k in range(30)], method="descent")
    for y in (many, np.zeros(40, int)):
        ours.fit(X, 0.5 * y)


# --- what it is good for --------------------------------------------------------------------------


def test_near_the_regression_without_noise() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (30_000, 4)) / 2
    y = (rng.uniform(size=30_000) < expit(X @ [6, -4, 2, 0] - 1)).astype(int)
    plain = LogisticRegression(C=np.inf).fit(X, y)
    ours = model(random_state=0).fit(X, y)
    best = log_loss(y, plain.predict_proba(X))
    assert log_loss(y, ours.predict_proba(X)) < best + 0.002
    assert np.abs(ours.coef_ - plain.coef_).max() < 0.5
    found = ours.intervals(0.99)
    lower, upper = found.lower, found.upper
    assert np.all((lower < plain.coef_) & (plain.coef_ < upper))
    assert ours.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)


def test_several_classes() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (30_000, 3)) / math.sqrt(3)
    logits = X @ (5 * rng.standard_normal((3, 4)))
    y = np.array(list("abcd"))[(logits + rng.gumbel(size=logits.shape)).argmax(axis=1)]
    ours = model(classes=["d", "b", "a", "c"]).fit(X, y)
    assert ours.classes_.tolist() == list("abcd")
    assert ours.coef_.shape == (4, 3)
    plain = LogisticRegression(C=np.inf).fit(X, y)
    best = log_loss(y, plain.predict_proba(X))
    assert log_loss(y, ours.predict_proba(X)) < best + 0.01


@pytest.mark.slow
def test_many_features_descend() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((8000, 150))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = (X[:, :5].sum(axis=1) > 0).astype(int)
    ours = model(epsilon=4.0)
    assert ours.plan(150).method == "descent"
    assert ours.fit(X, y).score(X, y) > 0.8


def test_weights_fade_where_noise_is_small() -> None:
    """Where the model is wrong weights move the optimum; noise must be worth that."""

    def radius(n_rows: float, distance: float, noise: float) -> float:
        arrays = {"center": np.append(np.zeros(4), n_rows), "distance": np.array(distance * n_rows)}
        return classification._weights(arrays, {"center": noise, "distance": noise}).radius

    assert radius(1e6, 0.2, 1e3) == pytest.approx(0.85 * 0.2, rel=1e-2)
    assert radius(1e4, 0.2, 5.0) == 1.0
    assert radius(1e4, 0.01, 5.0) < 0.1  # rows much shorter than their bound stay so
    # What drowns in noise is taken to be what is usual, and no bad draw of it goes far.
    assert radius(1e3, 0.2, 1e4) == pytest.approx(0.85 * 0.65, rel=0.05)
    assert 0.85 * 0.2 < radius(1e3, 0.2, 50.0) < 0.85 * 0.65
    assert 0.3 < radius(1e3, -0.5, 400.0) < radius(1e3, 1.5, 400.0) < 0.8


def test_rare_classes_are_not_overrated() -> None:
    """Whatever noise does to the coefficients, probabilities add up to the classes' shares."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((4000, 30))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = (np.arange(4000) % 20 == 0).astype(int)
    found = [
        model(epsilon=0.3, random_state=seed).fit(X, y).predict_proba(X)[:, 1].mean()
        for seed in range(6)
    ]
    assert np.mean(found) == pytest.approx(0.05, abs=0.008)


@pytest.mark.slow
def test_nothing_is_learned_from_nothing() -> None:
    """Pure noise is not taken for a signal: probabilities stay near the classes' shares."""
    X, _ = labelled(200, 5, 2)
    y = (np.arange(200) % 4 == 0).astype(int)
    losses = [
        log_loss(y, model(epsilon=0.1, random_state=seed).fit(X, y).predict_proba(X))
        for seed in range(5)
    ]
    assert np.mean(losses) < 0.9


def test_forecasts_come_true() -> None:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((20_000, 5))
    X /= np.linalg.norm(X, axis=1).max()
    theta = rng.standard_normal(5)
    theta /= (X @ theta).std()
    p = expit(X @ theta)
    y = (rng.uniform(size=len(p)) < p).astype(int)
    forecast = model(random_state=None).forecast(5, n_rows=20_000)
    low, high = forecast.errors["log loss above the best"]
    ours = model(random_state=1).fit(X, y).predict_proba(X)
    lost = np.mean(p * np.log(p / ours[:, 1]) + (1 - p) * np.log((1 - p) / ours[:, 0]))
    assert low / 10 < lost < 10 * high


# --- tables and labels ----------------------------------------------------------------------------


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    age, group = rng.uniform(20, 80, 4000), rng.choice(["x", "y"], 4000)
    ill = rng.uniform(size=4000) < expit((age - 50) / 5 + 2 * (group == "x") - 1)
    return pd.DataFrame({"age": age, "group": group, "state": np.where(ill, "ill", "well")})


def test_a_frame_with_words() -> None:
    table = frame()
    ours = model(
        data_norm=None,
        classes=["well", "ill"],
        limits={"age": (20, 80)},
        levels={"group": ["x", "y"]},
    ).fit(table, "state")
    assert ours.feature_names_ == ("age", "group=x", "group=y")
    assert ours.classes_.tolist() == ["ill", "well"]
    assert ours.score(table, table["state"]) > 0.8
    assert ours.coef_[0, 0] < -0.05  # per year, of being well
    beyond = pd.DataFrame({"age": [80.0, 800.0], "group": ["x", "x"]})
    assert np.ptp(ours.moderated_logits(beyond)) == 0.0


def test_arrays_and_frames_agree() -> None:
    table = frame()[["age", "state"]]
    common = {"data_norm": None, "classes": ["well", "ill"]}
    one = model(limits={"age": (20, 80)}, **common).fit(table, "state")
    other = model(limits=[(20, 80)], **common).fit(table[["age"]].to_numpy(), table["state"])
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_limits_that_nobody_knows() -> None:
    table = frame()
    ours = model(
        data_norm=None,
        classes=["well", "ill"],
        limits={"age": "private"},
        levels={"group": ["x", "y"]},
    ).fit(table, "state")
    assert "limits" in ours.noise_scale_
    assert ours.score(table, table["state"]) > 0.75


def test_classes_are_declared(tmp_path: Any) -> None:
    X, y = labelled(50, 2, 2)
    with pytest.raises(ValueError, match="Expected classes"):
        model(classes=None).fit(X, y)
    ledger = Ledger.create(tmp_path / "l.ndis", 9.0, 1e-3, "add-remove", accept=["seeded"])
    with ledger:
        for labels in (np.where(y == 1, 2, 0), np.array(["0", "1"])[y]):
            with pytest.raises(ValueError, match="declared classes"):
                model(ledger=ledger).fit(X, labels)
            with pytest.raises(ValueError, match="declared classes"):
                model(ledger=ledger, limits="private", data_norm=None).fit(X, labels)
        assert not ledger.history()
    assert model().fit(X, np.zeros(50, int)).release_.parameters["classes"] == [0, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": [0]}, "two distinct classes"),
        ({"classes": [0, 0, 1]}, "two distinct classes"),
        ({"data_norm": None}, "data_norm"),
        ({"method": "lbfgs"}, "method"),
        ({"method": "posterior", "classes": [0, 1, 2]}, "two classes"),
        ({"method": "posterior", "prior_precision": 0.0}, "prior_precision"),
        ({"method": "posterior", "max_rows": 5}, "at most max_rows=5 rows"),
        ({"method": "posterior", "limits": "private", "data_norm": None}, "public"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    X, y = labelled(6, 2, 2)
    with pytest.raises(ValueError, match=message):
        model(**changes).fit(X, y)


def test_one_shot_readers_are_refused_before_payment() -> None:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame()[["age", "state"]])
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    with pytest.raises(ValueError, match="more than once"):
        model(data_norm=None, classes=["ill", "well"], limits={"age": (0, 99)}).fit(reader, "state")


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"method": "descent"}, {"method": "posterior", "prior_precision": 3.0}, {"epsilon": 4.0}],
)
def test_a_certificate_implies_its_promise(changes: dict[str, Any]) -> None:
    X, y = labelled(100, 3, 2)
    release = model(**changes).fit(X, y).release_
    again = implied(release.mechanism, release.parameters, DELTA)
    assert again is not None
    assert again.shapes == {name: array.shape for name, array in release.arrays.items()}
    assert again.loss.delta(1.0) <= release.guarantee.loss.delta(1.0) * (1 + 1e-9)


# --- draws from the posterior ---------------------------------------------------------------------


def with_constant(X: Any) -> Any:
    return np.column_stack([np.ones(len(X)), X])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_removals_keep_the_promise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d, lam = int(rng.integers(1, 60)), int(rng.integers(1, 4)), 10 ** rng.uniform(-2, 1)
    ours = posterior(prior_precision=lam, epsilon=rng.choice([0.1, 1.0, 5.0]))
    X, y = labelled(n, d, 2)
    losses = logistic_removals(with_constant(X), 2.0 * y - 1, lam, ours.calibrate(d))
    assert worst_log_delta(losses, ours.epsilon) <= math.log(1e-4)


@pytest.mark.parametrize("pull", [0, 2, 10])
def test_adversarial_rows_keep_the_promise_and_come_near(pull: int) -> None:
    """A crowd that drives the margin of one row far down, each of its rows hardly along it."""
    n = 1500
    side = math.sqrt(1 - (1 - 2 * pull / n) ** 2) * (-1.0) ** np.arange(n)
    first = np.column_stack([np.full(n, 2 * pull / n - 1), side])
    second = np.tile([-1.0, 0.0], (n - pull, 1))
    X = np.vstack([[1.0, 0.0], first, second])
    y = np.concatenate([[0], np.ones(n, int), np.zeros(n - pull, int)])
    ours = posterior()
    loss = privacy_loss(output_law(ours, X, y), output_law(ours, X[1:], y[1:]))
    worst = max(loss.log_delta(1.0), loss.reversed().log_delta(1.0))
    assert worst <= math.log(1e-4)
    if pull == 10:
        assert worst > math.log(1e-4) - 5.0


def test_removals_are_the_laws_themselves() -> None:
    X, y = labelled(10, 2, 2)
    ours = posterior()
    losses = logistic_removals(with_constant(X), 2.0 * y - 1, 1.0, ours.calibrate(2))
    full = output_law(ours, X, y)
    for i in range(10):
        part = output_law(ours, np.delete(X, i, axis=0), np.delete(y, i))
        assert privacy_loss(full, part).delta(0.2) == pytest.approx(losses[i].delta(0.2), rel=1e-3)


@pytest.mark.parametrize("lam", [0.01, 1.0, 100.0])
def test_the_mean_is_the_penalised_optimum(lam: float) -> None:
    X, y = labelled(400, 3, 2)
    plain = LogisticRegression(C=1 / lam, fit_intercept=False, tol=1e-10, max_iter=10_000)
    best = plain.fit(with_constant(X), y).coef_[0]
    law = output_law(posterior(prior_precision=lam), X, y)
    assert law.mean == pytest.approx(best, rel=1e-3, abs=1e-5)
    rows = with_constant(X)
    cov = np.linalg.inv(lam * np.eye(4) + rows.T @ rows / 4)
    noise = posterior(prior_precision=lam).calibrate(3)
    assert law.cov == pytest.approx(cov + noise**2 * np.eye(4), rel=1e-4, abs=1e-6)


def test_the_mean_of_a_large_steep_table_is_found() -> None:
    """Rounding of the coefficients must not keep the gradient above the tolerance."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (50_000, 2)) / math.sqrt(2)
    y = (rng.uniform(size=50_000) < expit(X @ [9.0, -7.0] + 1)).astype(int)
    law = output_law(posterior(prior_precision=0.1), X, y)
    assert law.mean == pytest.approx([1.0, 9.0, -7.0], abs=0.5)


def test_an_unfinished_search_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ndis_papers.methods.classification._STEPS", 1)
    X, y = labelled(50, 2, 2)
    ours = posterior()
    with pytest.raises(ArithmeticError, match="nothing was released"):
        ours.fit(X, y)
    assert not hasattr(ours, "release_")


@pytest.mark.slow
def test_draws_follow_the_law() -> None:
    X, y = labelled(100, 2, 2)
    ours = posterior(n_draws=2000).fit(X, y)
    law = output_law(ours, X, y)
    assert accepts_gaussian(ours.draws_, law.mean, law.cov, LEVEL)
    assert not accepts_gaussian(ours.draws_, law.mean, 1.3 * law.cov, LEVEL)


def test_a_public_cap_on_rows_saves_noise() -> None:
    assert posterior(max_rows=10).calibrate(2) < posterior().calibrate(2)


@pytest.mark.slow
def test_the_default_prior_works() -> None:
    X, y = labelled(5000, 2, 2)
    assert posterior(prior_precision=None).fit(X, y).score(X, y) > 0.7


@pytest.mark.slow
def test_audit_finds_nothing() -> None:
    rng = np.random.default_rng(0)
    data = rng.uniform(-0.5, 0.5, (8, 1)), rng.integers(0, 2, 8)
    assert audit(posterior(), data).outcome == "consistent"


@pytest.mark.slow
def test_audit_refutes_a_careless_draw() -> None:
    ours = posterior()
    three_quarters = 0.75 * ours.calibrate(2) ** 2

    def careless(table: Any) -> Any:
        law = output_law(ours, table)
        return law.mean, law.cov - three_quarters * np.eye(law.dimension)

    crowd = np.column_stack([np.full(200, 0.05), (-1.0) ** np.arange(200), np.ones(200)])
    table = np.vstack([[1.0, 0.0, 0.0], crowd])
    assert audit(careless, table, claim=(1.0, 1e-4)).outcome == "refuted"


# --- scikit-learn's own checks --------------------------------------------------------------------

# These checks bring labels of their own, and so they need other classes than were declared.
OTHER_LABELS = {
    "check_dtype_object": "labels 0 to 3",
    "check_estimator_sparse_array": "labels 0 to 3",
    "check_estimator_sparse_matrix": "labels 0 to 3",
    "check_classifiers_classes": "words as labels",
    "check_classifiers_train": "two labels, then three",
}
# Who is the only one in a table must not be missed there (tests/mechanisms/test_no_rows.py).
NO_ROWS = {"check_estimators_empty_data_messages": "a table without rows is answered"}


class Declaring(PrivateLogisticRegression):
    """Declares as classes what it finds, as nobody should: for checks that bring their labels."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self._found = None if y is None else np.unique(np.asarray(y))
        return super().fit(X, y)

    def declared_classes(self) -> Any:
        return self._found


def lenient(kind: type = PrivateLogisticRegression, **changes: Any) -> PrivateLogisticRegression:
    return kind(epsilon=50.0, delta=0.1, data_norm=10.0, random_state=0, **changes)


@parametrize_with_checks(
    [lenient(classes=[0, 1, 2])], expected_failed_checks=lambda _: OTHER_LABELS | NO_ROWS
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks([lenient(Declaring)])
def test_scikit_learn_with_its_own_labels(estimator: Any, check: Any) -> None:
    if check.func.__name__ not in OTHER_LABELS:
        pytest.skip("run above, with declared classes")
    check(estimator)


def test_no_row_moves_what_is_drawn_before_the_rounds_further_than_is_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the noise that is drawn: a row of norm one, seen from zero, where all answers are zero."""
    moved: list[float] = []

    def drawn(sums: Any, scale: float, _: Any) -> np.ndarray:
        moved.append(float(np.sum((sums.value / scale) ** 2)))
        return np.zeros(sums.value.shape)

    for module in (center, classification):
        monkeypatch.setattr(module, "add_noise", drawn)
    monkeypatch.setattr(classification, "add_symmetric_noise", drawn)
    shares = []
    for row in ([0.6, 0.8], [0.0, 0.0]):  # the second counts in full
        moved.clear()
        noise = model(method="newton").fit([row], [1]).noise_scale_
        found = [sum(moved[:2]), *moved[2:6]]
        paid = [noise[name] ** -2 for name in ("center", "distance", "gram", "sums", "count")]
        shares.append(np.array(found) / paid)
    most = np.max(shares, axis=0)
    assert np.all(most <= 1.0)
    assert np.all(most > 1.0 - 1e-4)


def test_a_round_is_estimated_once(monkeypatch) -> None:
    estimate, times = Newton._estimate, []
    monkeypatch.setattr(Newton, "_estimate", lambda self: times.append(1) or estimate(self))
    X, y = labelled(500, 3, 3)
    fitted = model(classes=range(3), method="newton").fit(X, y)
    n_rounds = len(times)
    assert n_rounds == np.count_nonzero(fitted.release_.arrays["parts"])
    fitted.predict_proba(X)
    fitted.intervals()
    assert len(times) == n_rounds
    restored = PrivateLogisticRegression.from_release(fitted.release_)
    for _ in range(2):
        restored.predict_proba(X)
        assert len(times) == 2 * n_rounds
    assert np.array_equal(fitted._logits.coefficients()[0], fitted.coef_)


def test_coefficients_of_two_classes_are_opposite() -> None:
    """To the last unit, however far off the classes' basis is; integers all the same."""
    theta = np.random.default_rng(0).standard_normal((50, 1)) * [1.0, -1.0 - 2.0**-30]
    found, _ = _whole(theta)
    assert np.array_equal(found[:, 1], -found[:, 0])
    assert np.array_equal(found, np.round(found))
    assert np.linalg.norm(found, axis=0).max() <= 2.0**32
