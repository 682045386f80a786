"""Gaussian processes: moments of public features, and draws of the posterior."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from laws import output_law
from ndis import PrivateGaussianProcess, Release, audit, privacy_loss
from ndis.auditing.certificates import FAILED, HELD, verify
from ndis.loss import Profile
from ndis.mechanisms.kernels import described, kernel_moments, made, proven_variance
from ndis.tables import Columns, Rows, Table
from ndis_papers.methods.processes import Drawing
from posterior_pairs import process_removals, worst_log_delta
from samplers import LEVEL, accepts_gaussian

DELTA = 1e-4


def process(**changes):
    known = {
        "epsilon": 1.0, "delta": DELTA, "limits": [(0.0, 1.0)], "label_limits": (-1.0, 1.0),
        "random_state": 7,
    }  # fmt: skip
    return PrivateGaussianProcess(**(known | changes))


def posterior(**changes):
    known = {
        "method": "posterior", "max_rows": 60, "kernel": RBF(0.3), "noise_variance": 0.5,
        "query_points": np.linspace(0, 1, 4)[:, None],
    }  # fmt: skip
    return process(**(known | changes))


def waves(rng, n: int, d: int = 1):
    X = rng.uniform(0, 1, (n, d))
    return X, np.clip(0.6 * np.sin(6 * X[:, 0]) + 0.2 * rng.standard_normal(n), -1, 1)


# --- features: exact sums ------------------------------------------------------------------------


def test_a_neighbour_changes_the_sums_by_one_row_exactly() -> None:
    X, y = waves(np.random.default_rng(2), 5000)
    columns = Columns(["a"], limits={"a": (0, 1)})
    rows = Rows(columns, Columns(["y"], limits={"y": (-1, 1)}), weighted=False)
    moments = kernel_moments(RBF(0.2), columns, None)

    def sums(keep):
        return Table.open(X[keep], labels=y[keep]).with_rows(rows).sum(moments)

    everything, some, one = sums(slice(None)), sums(slice(1, None)), sums(slice(0, 1))
    for name in ("gram", "cross", "count", "squares"):
        assert everything[name] - some[name] == one[name]


def test_sparse_tables_give_the_same() -> None:
    X, y = waves(np.random.default_rng(2), 300, 2)
    X[X < 0.4] = 0.0
    first, second = (
        process(limits=[(0, 1)] * 2).fit(table, y).release_.digest
        for table in (X, sparse.csr_array(X))
    )
    assert first == second


# --- moments: the promise ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_moments_keep_their_promise(seed) -> None:
    """Removals from random tables, by the exact delta of the two laws."""
    rng = np.random.default_rng(seed)
    epsilon, d = float(rng.choice([0.2, 1.0, 5.0])), int(rng.integers(1, 4))
    model = process(epsilon=epsilon, limits=(0.0, 1.0), n_inducing=9)
    X, y = waves(rng, 12, d)
    X[0], y[0] = rng.integers(0, 2, d), 1.0
    full = output_law(model, X, y)
    for i in range(3):
        less = output_law(model, np.delete(X, i, 0), np.delete(y, i))
        assert Profile.both(privacy_loss(full, less)).delta(epsilon) <= DELTA


def test_the_bound_on_a_row_is_met() -> None:
    """A row at a public point, with a label at its limit, needs nearly all of the budget."""
    model = process(n_inducing=5)
    loss = Profile.both(
        privacy_loss(output_law(model, [[0.0]], [1.0]), output_law(model, np.empty((0, 2))))
    )
    assert DELTA * 0.9 < loss.delta(1.0) <= DELTA


def test_audit_refutes_half_of_the_noise() -> None:
    model = process(n_inducing=4)
    noise = {name: 0.5 * scale for name, scale in model.calibrate().items()}
    careless = process(n_inducing=4, epsilon=None, noise_scale=noise)
    table = np.array([[0.0, 1.0], [0.4, -0.5], [0.9, 0.2]])
    assert audit(model, (table[:, :1], table[:, 1])).outcome == "consistent"
    assert audit(partial(output_law, careless), table, claim=(1.0, DELTA)).outcome == "refuted"


def test_a_certificate_can_be_checked_from_its_parameters() -> None:
    X, y = waves(np.random.default_rng(0), 50)
    for model in (process(kernel=Matern(0.2, nu=1.5)), posterior(kernel=2.0 * RBF(0.3))):
        checks = verify(model.set_params(random_state=None).fit(X, y).release_).checks
        assert not [check for check in checks if check.outcome == FAILED]
        followed = [check for check in checks if "from the parameters" in check.what]
        assert followed
        assert all(check.outcome == HELD for check in followed)


# --- moments: predictions ------------------------------------------------------------------------


def test_it_learns_and_says_how_well() -> None:
    rng = np.random.default_rng(0)
    X, y = waves(rng, 4000)
    T, truth = waves(rng, 1000)
    model = process(delta=1e-6).fit(X, y)
    mean, std = model.predict(T, return_std=True)
    assert np.array_equal(mean, model.predict(T))
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.24  # the labels' own noise is 0.2
    assert 0.87 < np.mean(np.abs(mean - truth) < 1.645 * std) <= 1.0
    assert 0.03 < model.noise_variance_ < 0.1


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_intervals_cover_where_there_are_no_rows(epsilon) -> None:
    rng = np.random.default_rng(1)
    X, y = waves(rng, 3000)
    left = X[:, 0] < 0.5
    covered = []
    for seed in range(5):
        model = process(epsilon=epsilon, random_state=seed).fit(X[left], y[left])
        mean, std = model.predict(X, return_std=True)
        covered.append(np.mean(np.abs(mean - y) < 1.645 * std))
        far = std[X[:, 0] > 0.9].mean()
        assert far > std[X[:, 0] < 0.4].mean()
    assert np.mean(covered) > 0.87


def test_units_do_not_matter() -> None:
    X, y = waves(np.random.default_rng(4), 500)
    plain = process().fit(X, y)
    model = process(limits=[(-50.0, 14.0)], label_limits=(0.0, 512.0))
    other = model.fit(64 * X - 50, 256 * (y + 1))
    mean, std = plain.predict(X, return_std=True)
    mean_other, std_other = other.predict(64 * X - 50, return_std=True)
    assert mean_other == pytest.approx(256 * (mean + 1), rel=1e-3, abs=1e-2)
    assert std_other == pytest.approx(256 * std, rel=1e-3)


def test_many_columns_have_points_too() -> None:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (20_000, 5))
    y = np.clip(0.5 * X[:, 0] - 0.3 * X[:, 1], -1, 1)
    model = process(limits=(-1.0, 1.0)).fit(X, y)
    assert model.score(X, y) > 0.5


def test_a_table_is_predicted_by_its_names() -> None:
    polars = pytest.importorskip("polars")
    X, y = waves(np.random.default_rng(0), 300, 2)
    frame = polars.DataFrame({"lat": X[:, 0], "long": X[:, 1], "depth": y})
    limits = {"lat": (0, 1), "long": (0, 1), "depth": (-1, 1)}
    model = process(limits=limits, label_limits=None).fit(frame, "depth")
    turned = frame.select("depth", "long", "lat")
    assert np.array_equal(model.predict(turned), model.predict(frame))
    assert model.release_.parameters["columns"] == ["lat", "long"]


@pytest.mark.parametrize(
    "model",
    [process(kernel=Matern(0.2, nu=1.5)), process(limits="private"), posterior(query_points=None)],
    ids=["moments", "found", "posterior"],
)
def test_the_public_predicts_from_a_file(model, tmp_path) -> None:
    X, y = waves(np.random.default_rng(0), 50)
    path = model.fit(X, y).release_.save(tmp_path / "release.npz")
    public = PrivateGaussianProcess.from_release(Release.load(path))
    assert np.array_equal(public.predict(X), model.predict(X))


def test_limits_that_nobody_knows_are_found() -> None:
    X, y = waves(np.random.default_rng(0), 5000)
    model = process(limits="private", label_limits="private", epsilon=3.0)
    assert model.fit(30 * X, 500 * y).score(30 * X, 500 * y) > 0.6
    with pytest.raises(ValueError, match="public limits"):
        process(limits="private", kernel=RBF(0.1)).plan(1)


# --- kernels -------------------------------------------------------------------------------------

BOX = (np.array([0.0, -1.0]), np.array([1.0, 2.0]))
PROVEN = [
    (RBF(0.3), 1.0),
    (2.5 * Matern([0.1, 0.2], nu=1.5), 2.5),
    (Matern(1.0, nu=math.inf), 1.0),
    (RationalQuadratic(1.0, 0.5) + WhiteKernel(0.1), 1.1),
    (DotProduct(2.0), 9.0),
    (DotProduct(2.0) ** 2 * RBF(), 81.0),
]
UNPROVEN = [
    ExpSineSquared(),
    RBF() + ConstantKernel(-0.5),
    PairwiseKernel(metric="sigmoid"),
    RBF() ** 0.5,
    WhiteKernel(-1.0),
    ConstantKernel(0.0),
    Matern(nu=-1.0),
    RBF(math.nan),
    RBF(0.1) * PairwiseKernel(),
]


@pytest.mark.parametrize(("kernel", "variance"), PROVEN, ids=str)
def test_proven_kernels_and_their_largest_variance(kernel, variance) -> None:
    assert proven_variance(kernel, *BOX) == pytest.approx(variance)
    inside = np.random.default_rng(0).uniform(*BOX, (500, 2))
    assert kernel.diag(inside).max() <= proven_variance(kernel, *BOX)
    assert described(made(described(kernel))) == described(kernel)
    assert np.array_equal(made(described(kernel))(inside[:9]), kernel(inside[:9]))


@pytest.mark.parametrize("kernel", UNPROVEN, ids=lambda kernel: type(kernel).__name__)
def test_other_kernels_must_be_vouched_for(kernel) -> None:
    assert proven_variance(kernel, *BOX) is None
    model = posterior(kernel=kernel, query_points=None, limits=list(zip(*BOX, strict=True)))
    with pytest.raises(ValueError, match="proven to be positive semi-definite"):
        model.plan()


def test_a_periodic_kernel_is_proven_on_one_column() -> None:
    assert proven_variance(ExpSineSquared(), *(end[:1] for end in BOX)) == pytest.approx(1.0)
    assert posterior(kernel=ExpSineSquared()).guarantee().basis == "proven"


def test_a_declared_kernel_shows_in_the_guarantee() -> None:
    kernel = PairwiseKernel(metric="rbf")
    model = posterior(kernel=kernel, kernel_is_psd=True, kernel_bound=1.0)
    assert model.guarantee().basis == "declared"
    assert "kernel_is_psd" in str(model.guarantee())
    fitted = model.fit(np.array([[0.1], [0.7]]), np.array([0.5, -0.5]))
    assert fitted.release_.parameters["kernel"] == {"declared": repr(kernel)}


@pytest.mark.parametrize(
    ("kernel", "declared", "message"),
    [
        (ConstantKernel(-2.0), {}, r"k\(x, x\) > 0"),
        (PairwiseKernel(metric="linear"), {}, "kernel_bound"),
        (PairwiseKernel(metric="linear"), {"kernel_bound": 0.1}, "one beyond it"),
    ],
)
def test_a_declared_kernel_has_a_positive_bound(kernel, declared, message) -> None:
    model = posterior(kernel=kernel, kernel_is_psd=True, **declared)
    with pytest.raises(ValueError, match=message):
        model.fit(np.ones((3, 1)), np.zeros(3))


# --- the posterior: the promise ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_ordinary_data_have_a_posterior(seed) -> None:
    """Kernel and noise by default, on 200 records: the covariance is zero but for rounding."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(size=(200, 2)), rng.uniform(-1, 1, 200)
    model = process(method="posterior", max_rows=200, limits=(0.0, 1.0))
    assert model.fit(X, y).draws_.shape == (1, 49)


def test_what_doubles_cannot_resolve_is_refused_by_public_numbers() -> None:
    with pytest.raises(ValueError, match="that doubles can resolve"):
        posterior(noise_variance=1e-9).plan()


def same_delta(loss, explicit, epsilon: float) -> None:
    for one, other in ((loss, explicit), (loss.reversed(), explicit.reversed())):
        assert one.delta(epsilon) == pytest.approx(other.delta(epsilon), rel=1e-4, abs=1e-300)


def test_process_removals_are_the_laws_themselves() -> None:
    rng = np.random.default_rng(1)
    X, y, model = rng.uniform(size=(9, 1)), rng.uniform(-1, 1, 9), posterior()
    losses = process_removals(X, y, model.query_points, model.kernel, 0.5, model.calibrate())
    full = output_law(model, X, y)
    for i in range(9):
        smaller = output_law(model, np.delete(X, i, axis=0), np.delete(y, i))
        same_delta(losses[i], privacy_loss(full, smaller), 0.5)


@pytest.mark.parametrize("kernel", [RBF(0.1), 2.0 * Matern(0.5, nu=1.5)], ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_posterior_keeps_its_promise(seed, kernel) -> None:
    rng = np.random.default_rng(seed)
    n, s2 = int(rng.integers(1, 61)), 10 ** rng.uniform(-2, 1.5)
    points = rng.uniform(size=(int(rng.integers(1, 6)), 1))
    model = posterior(kernel=kernel, noise_variance=s2, query_points=points)
    X = rng.uniform(size=(n, 1))
    # The labels that move the mean at the first record the most, against that record's own.
    weights = np.linalg.solve(kernel(X[1:]) + s2 * np.eye(n - 1), kernel(X[1:], X[:1]))[:, 0]
    y = np.append(-1.0, np.where(weights >= 0, 1.0, -1.0))
    losses = process_removals(X, y, points, kernel, s2, model.calibrate())
    assert worst_log_delta(losses, 1.0) <= math.log(DELTA)


@pytest.mark.parametrize("noise_variance", [0.01, 0.5, 10.0])
def test_posterior_bounds_hold_for_exhaustive_neighbours(noise_variance) -> None:
    """Every subset of a small grid with every pattern of labels: bounds hold, the excess is met."""
    kernel, point = RBF(0.4), np.array([[0.5]])
    grid = np.array([[0.1], [0.5], [0.6], [0.9]])
    model = posterior(kernel=kernel, query_points=point, noise_variance=noise_variance, max_rows=4)
    update, noise = Drawing(model).posterior(model._rows_declared(1)).update, model.calibrate()
    largest = 0.0
    for chosen in range(1, 16):
        X = grid[[i for i in range(4) if chosen >> i & 1]]
        for pattern in range(2 ** len(X)):
            y = np.array([1.0 if pattern >> i & 1 else -1.0 for i in range(len(X))])
            losses = process_removals(X, y, point, kernel, noise_variance, noise)
            excess, shift = -losses.excess[:, 0], losses.shift.sum(axis=1)
            assert np.all(excess <= update.excess(noise**2) * (1 + 1e-9))
            assert np.all(shift <= update.residual() ** 2 * excess * (1 + 1e-9))
            assert worst_log_delta(losses, 1.0) <= math.log(DELTA)
            largest = max(largest, excess.max())
    assert largest == pytest.approx(update.excess(noise**2))  # the record at the query point, alone


def test_audit_of_the_posterior_finds_nothing() -> None:
    rng = np.random.default_rng(0)
    data = rng.uniform(0, 1, (8, 1)), rng.integers(0, 2, 8)
    assert audit(posterior(query_points=[[0.5]]), data).outcome == "consistent"


# --- the posterior: what it is -------------------------------------------------------------------


def test_posterior_is_the_one_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X, y, model = rng.uniform(size=(40, 1)), rng.uniform(-1, 1, 40), posterior()
    law = output_law(model, X, y)
    reference = GaussianProcessRegressor(RBF(0.3), alpha=0.5, optimizer=None).fit(X, y)
    mean, cov = reference.predict(model.query_points, return_cov=True)
    assert law.mean == pytest.approx(mean, abs=1e-5)
    assert law.cov - model.calibrate() ** 2 * np.eye(4) == pytest.approx(cov, abs=1e-5)


def test_posterior_draws_follow_the_law() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(40, 1)), rng.uniform(-1, 1, 40)
    model = posterior(n_draws=2000).fit(X, y)
    law = output_law(model, X, y)
    assert accepts_gaussian(model.draws_, law.mean, law.cov, LEVEL)
    assert not accepts_gaussian(model.draws_, law.mean, 1.3 * law.cov, LEVEL)


def test_posterior_predicts_from_its_release() -> None:
    x = np.linspace(0, 1, 2000)[:, None]
    y = np.sin(6 * x[:, 0]) + 3.0
    points = np.linspace(0, 1, 8)[:, None]
    model = posterior(max_rows=2000, query_points=points, noise_variance=40.0, epsilon=3.0)
    model.set_params(label_limits=(2.0, 4.0))
    error = model.fit(x, y).predict(x) - y
    assert np.sqrt(np.mean(error**2)) < 0.8 * y.std()
    with pytest.raises(ValueError, match="return_std"):
        model.predict(x, return_std=True)


def test_more_query_points_at_one_place_cost_what_their_covariance_says() -> None:
    models = [posterior(query_points=np.full((m, 1), 0.5)) for m in (1, 10)]
    one, ten = (Drawing(model).posterior(model._rows_declared(1)).norm for model in models)
    assert ten == pytest.approx(10 * one)


@pytest.mark.parametrize("make", [process, posterior])
def test_labels_and_inputs_are_clipped(make) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(20, 1)), rng.uniform(-1, 1, 20)
    laws = [
        output_law(make(), np.where(X > 0.5, far, X), np.where(y > 0, top, y))
        for top, far in ((1.0, 1.0), (50.0, 1e9))
    ]
    assert np.array_equal(laws[0].mean, laws[1].mean)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (process, {"label_limits": None}, "label_limits"),
        (process, {"limits": None}, "limits"),
        (process, {"method": "exact"}, "method"),
        (process, {"kernel": DotProduct()}, "RBF or Matern"),
        (process, {"kernel": Matern(nu=0.7)}, "RBF or Matern"),
        (process, {"kernel": RBF(-1.0)}, "length_scale > 0"),
        (process, {"n_inducing": 5000}, "n_inducing"),
        (process, {"n_rows": 7}, "7 rows"),
        (posterior, {"max_rows": None}, "cannot be bounded without it"),
        (posterior, {"max_rows": 5}, "at most max_rows=5 rows"),
        (posterior, {"query_points": np.zeros((2, 3))}, r"1 columns, got shape \(2, 3\)"),
        (posterior, {"noise_variance": 0.0}, "noise_variance > 0"),
    ],
)
def test_process_names_what_is_wrong(make, changes, message) -> None:
    X = np.linspace(0, 1, 6)[:, None]
    with pytest.raises(ValueError, match=message):
        make(**changes).fit(X, X[:, 0])


@parametrize_with_checks(
    [
        PrivateGaussianProcess(
            epsilon=10.0, delta=1e-3, limits=(-3.0, 3.0), label_limits=(-3.0, 3.0), random_state=0
        ),
        PrivateGaussianProcess(
            epsilon=10.0, delta=1e-3, limits=(-3.0, 3.0), label_limits=(-3.0, 3.0),
            method="posterior", max_rows=1000, random_state=0,
        ),
    ],
    expected_failed_checks=lambda _: {
        "check_estimators_empty_data_messages": "a table without rows is answered"
    },
)  # fmt: skip
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)
