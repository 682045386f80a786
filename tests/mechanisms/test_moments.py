"""Second moments with noise, and sketches of them: worst cases, laws, answers."""

import math

import array_api_strict as xp
import numpy as np
import pyarrow as pa
import pytest
from scipy import optimize, sparse
from sklearn.datasets import load_breast_cancer

from laws import output_law
from ndis import Gaussian, PrivateCovariance, Release, audit, privacy_loss
from ndis.calibration import meets
from ndis.loss import Profile, QuadraticLoss
from ndis.mechanisms.moments import moved, row_shift
from ndis.tables import Columns, Rows, Table
from ndis.tables.sums import NORM_BINS, count_norms
from ndis_papers.methods.covariance import sketch_loss
from samplers import LEVEL, accepts_gaussian, accepts_scale

EPSILON, DELTA = 1.0, 1e-6
EPSILONS = np.array([0.0, 0.2, 1.0, 3.0])


def private(**changes):
    parameters = {"epsilon": EPSILON, "delta": DELTA, "data_norm": 2.0, "random_state": 7}
    return PrivateCovariance(**(parameters | changes))


def pair_profile(laws, copies: int = 1) -> Profile:
    """The explicit pair, without the rounding errors of equal variances."""
    loss = privacy_loss(*laws)
    kept = (np.abs(loss.excess) > 1e-12) | (loss.shift > 0)
    excess = np.where(np.abs(loss.excess) > 1e-12, loss.excess, 0.0)[kept]
    return Profile.both(copies * QuadraticLoss(excess, loss.shift[kept], loss.count[kept]))


def rank_one_pair(u, u_moved, r: int) -> Profile:
    """A row u that moves, after whitening by all else."""
    d = len(u)
    return pair_profile(
        [Gaussian(np.zeros(d), np.eye(d) + np.outer(row, row)) for row in (u, u_moved)], r
    )


def directions(n: int, d: int, seed: int = 0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


# --- how far one row moves what is released ------------------------------------------------------


@pytest.mark.parametrize("length", [0.2, 0.7, 0.71, 0.9, 1.0, 1.3, 1.5, 2.0, 10.0])
def test_no_row_that_moves_by_one_moves_its_square_further(length) -> None:
    def distance(free):
        x, step = free[:3], free[3:]
        x = x * min(1.0, length / max(np.linalg.norm(x), 1e-9))
        other = x + step * min(1.0, 1.0 / max(np.linalg.norm(step), 1e-9))
        other = other * min(1.0, length / max(np.linalg.norm(other), 1e-9))
        return float(np.linalg.norm(np.outer(x, x) - np.outer(other, other)))

    rng = np.random.default_rng(0)
    bound = moved(length, 1.0)
    starts = rng.standard_normal((400, 6)) * length * [1, 1, 1, 1, 1, 1]
    best = sorted(starts, key=distance)[-3:]
    found = max(
        -optimize.minimize(
            lambda free: -distance(free), start, method="Nelder-Mead", options={"maxfev": 800}
        ).fun
        for start in best
    )
    assert found <= bound * (1 + 1e-12)
    assert found > 0.97 * bound  # attained


def test_rows_on_the_grid_move_no_further_than_stated() -> None:
    rng = np.random.default_rng(1)
    for limits, norm in ((None, 0.5), (None, 300.0), ([(-3.0, 5.0), (0.0, 9.0)], None)):
        recipe = Columns(
            ["a", "b"], limits=limits and dict(zip("ab", limits, strict=True)), norm=norm
        )
        rows = rng.standard_normal((2000, 2)) * 10 ** rng.uniform(-1, 3, (2000, 1))
        steps = directions(2000, 2, seed=2)
        grids = []
        for table in (rows, rows + steps):
            (block,) = (
                Table.open(table)
                .with_rows(
                    Rows(
                        Columns(
                            ("x0", "x1"),
                            limits=None
                            if limits is None
                            else dict(zip(("x0", "x1"), limits, strict=True)),
                            norm=norm,
                        )
                    )
                )
                .blocks()
            )
            grids.append(block.features * recipe.norm / 2**20)
        assert np.linalg.norm(grids[0] - grids[1], axis=0).max() <= row_shift(recipe)


@pytest.mark.parametrize(
    "how", [{}, {"center": False}, {"n_rows": 3}, {"limits": [(-1, 3)] * 2, "data_norm": None}]
)
def test_the_longest_row_attains_the_worst_case(how) -> None:
    """Two routes: the laws themselves, and the formula for removals; and the audit agrees."""
    model = private(**how)
    far = np.array([[-1.0, -1.0]] * 2 + [[3.0, 3.0] if "limits" in how else [2.0, 0.0]])
    laws = [output_law(model, far)]
    model = model.set_params(n_rows=None if how.get("n_rows") is None else 2)
    laws.append(output_law(model, far[:-1]))
    pair, worst = pair_profile(laws), model.plan(2).loss
    assert np.all(pair.log_delta(EPSILONS) <= worst.log_delta(EPSILONS) + 1e-9)
    assert pair.log_delta(EPSILON) == pytest.approx(math.log(DELTA), abs=1e-3)
    model = model.set_params(n_rows=how.get("n_rows"))
    formula = model.removal_losses(far)
    assert float(np.max(formula.log_delta(EPSILON))) == pytest.approx(
        float(pair.log_delta(EPSILON)), abs=1e-6
    )


@pytest.mark.slow
def test_audits_of_both_relations() -> None:
    rng = np.random.default_rng(3)
    table = rng.uniform(-1, 1, (6, 2))
    for how in (
        {},
        {"relation": "row-shift"},
        {"relation": "row-shift", "method": "sketch", "center": False, "n_components": 5},
    ):
        sound = private(**how)
        assert audit(sound, table).outcome == "consistent", how
        noise = sound.calibrate(2)
        careless = private(
            **how | {"epsilon": None, "noise_scale": {name: 0.5 * s for name, s in noise.items()}}
        )
        assert audit(careless, table, claim=(EPSILON, DELTA)).outcome == "refuted", how


# --- sketches ------------------------------------------------------------------------------------


def test_no_shift_of_any_row_is_worse() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        w, d, r = 10 ** rng.uniform(-0.5, 2), int(rng.integers(1, 8)), int(rng.integers(1, 6))
        length = 10 ** rng.uniform(-1, 2)
        u = rng.standard_normal(d)
        u *= length / w * rng.random() ** 0.1 / np.linalg.norm(u)
        v = rng.standard_normal(d)
        other = u + v * rng.random() ** 0.2 / (w * np.linalg.norm(v))
        other *= min(1.0, length / w / np.linalg.norm(other))  # a contraction
        pair, worst = rank_one_pair(u, other, r), Profile.both(sketch_loss(w, length, 1.0, r))
        assert np.all(pair.log_delta(EPSILONS) <= worst.log_delta(EPSILONS) + 1e-9)


def test_the_supremum_is_a_long_row_that_turns() -> None:
    w, r = 3.0, 4
    u = np.array([1e4, 0.0])
    pair = rank_one_pair(u, u + np.array([0.0, 1 / w]), r)
    worst = Profile.both(sketch_loss(w, 1e9, 1.0, r))
    assert pair.log_delta(EPSILONS) == pytest.approx(worst.log_delta(EPSILONS), abs=1e-4)


@pytest.mark.parametrize("relation", ["add-remove", "row-shift"])
@pytest.mark.parametrize("center", [False, True])
def test_noise_of_a_sketch_is_private_and_the_least(relation, center) -> None:
    how = {"relation": relation, "center": center, "method": "sketch", "n_components": 50}
    plan = private(**how).plan(3)
    assert meets(plan.loss, EPSILON, DELTA)
    less = {**plan.noise_scale, "sketch": 0.999 * plan.noise_scale["sketch"]}
    assert (
        private(**how, noise_scale=less).set_params(epsilon=None).plan(3).guarantee.epsilon
        > EPSILON
    )


@pytest.mark.slow
def test_removals_from_a_sketch_by_leverages_are_those_by_laws() -> None:
    table = np.random.default_rng(4).uniform(-1, 1, (5, 3))
    model = private(method="sketch", center=False, n_rows=5, n_components=6)
    quick = model.removal_losses(table)
    for i in range(5):
        laws = [output_law(model, part) for part in (table, np.delete(table, i, axis=0))]
        slow = pair_profile(laws).losses[0]
        assert quick[i].log_delta(0.01) == pytest.approx(slow.log_delta(0.01), rel=1e-6)
    assert audit(model, table).outcome == "consistent"


def test_a_table_that_can_be_read_once_is_refused_before_it_is_paid() -> None:
    reader = pa.table({"a": [0.5, 0.1], "b": [0.2, 0.3]}).to_reader()
    with pytest.raises(ValueError, match="read twice for radius='private'"):
        private(radius="private").fit(reader)


def test_noise_cannot_drown_in_the_matrix() -> None:
    """Long rows: public numbers alone raise the noise, or refuse it; see issue 16, A3."""
    how = {"relation": "row-shift", "method": "sketch", "center": False, "data_norm": 1e9}
    raised = private(**how).calibrate(2)["sketch"]
    assert raised > 1e7
    with pytest.raises(ValueError, match="raise it, or declare n_rows"):
        private(**how, noise_scale={"sketch": 100.0}).set_params(epsilon=None).plan(2)
    # Two equal columns up to 1e9: a release of D and of its neighbour used to differ surely.
    rows = np.random.default_rng(0).uniform(0, 1e9, (1000, 1)) @ np.ones((1, 2))
    model = private(**how, n_components=5).fit(rows)
    assert np.all(np.abs(np.diff(model.release_.arrays["sketch"], axis=0)) > 0.01 * raised)
    with pytest.raises(ValueError, match="public bound"):
        private(relation="row-shift", data_norm=None).plan(2)


def test_auto_is_the_matrix_which_errs_less_where_rows_fill_a_tenth_of_their_bound() -> None:
    how = {"relation": "row-shift", "data_norm": 500.0, "n_rows": 10_000}
    matrix, sketch = private(**how), private(**how, method="sketch")
    assert matrix.plan(3).method == private().plan(3).method == "matrix"
    assert sketch.plan(3).method == "sketch"
    rows = np.random.default_rng(0).normal(scale=30.0, size=(10_000, 3))
    one = np.array([1.0, 0.0, 0.0])
    errors = [each.fit(rows).scatter(one).standard_error for each in (matrix, sketch)]
    assert errors[0] < errors[1]


# --- laws of what is drawn -----------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_drawn_follows_the_stated_law() -> None:
    table = np.random.default_rng(5).uniform(-1, 1, (40, 2))
    model = private(data_norm=1.0)
    law, rng = output_law(model, table), np.random.default_rng(0)
    run = model.prepare(table)
    drawn = [run.draw(rng) for _ in range(1500)]
    upper = np.triu_indices(2)
    sample = np.array([np.r_[a["matrix"][upper], a["sums"], a["count"]] for a in drawn])
    for place in range(sample.shape[1]):
        z = (sample[:, place] - law.mean[place]) / math.sqrt(law.variances[place])
        assert accepts_scale(z, 1.0, LEVEL)
        assert not accepts_scale(1.15 * z, 1.0, LEVEL)


def test_columns_of_a_sketch_follow_the_stated_law() -> None:
    table = np.random.default_rng(5).standard_normal((40, 3)) @ np.diag([1.0, 5.0, 20.0])
    model = private(method="sketch", center=False, n_rows=40, n_components=4000, data_norm=60.0)
    sample = model.fit(table).release_.arrays["sketch"].T
    law = output_law(model, table)
    np.testing.assert_allclose(
        law.cov,
        table.T @ table + model.noise_scale_["sketch"] ** 2 * np.eye(3),
        rtol=1e-4,
        atol=1.0,
    )
    assert accepts_gaussian(sample, law.mean, law.cov, LEVEL)
    assert not accepts_gaussian(sample, law.mean, 1.1 * law.cov, LEVEL)


def test_norms_are_counted_exactly_wherever_rows_are() -> None:
    rng = np.random.default_rng(6)
    table = rng.standard_normal((500, 3)) * 10 ** rng.uniform(-4, 1, (500, 1))
    table[rng.random((500, 3)) < 0.5] = 0.0
    rows = Rows(Columns(("x0", "x1", "x2"), norm=2.0))
    counts = Table.open(table).with_rows(rows).sum(count_norms)["norms"].value
    (block,) = Table.open(table).with_rows(rows).blocks()
    squares = np.sum(block.features**2, axis=0)
    expected = np.clip(np.floor(-np.log2(np.maximum(squares, 1e-9) / 2.0**40)), 0, NORM_BINS - 1)
    np.testing.assert_array_equal(counts, np.bincount(expected.astype(int), minlength=NORM_BINS))
    for other in (sparse.csr_array(table), xp.asarray(table)):
        same = Table.open(other).with_rows(rows).sum(count_norms)["norms"]
        np.testing.assert_array_equal(same.value, counts)


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"center": False},
        {"method": "sketch"},
        {"relation": "row-shift"},
        {"relation": "row-shift", "method": "sketch"},
    ],
)
def test_errors_on_a_real_table(how) -> None:
    table = load_breast_cancer().data[:, :8]
    low, high = table.min(axis=0), table.max(axis=0)
    table = np.repeat((table - low) / (high - low) * [1, 1, 2, 2, 3, 3, 4, 4], 20, axis=0)
    limits = [(0, 1), (0, 1), (0, 2), (0, 2), (0, 3), (0, 3), (0, 4), (0, 4)]
    x = directions(300, 8)
    middle = np.mean(limits, axis=1)
    about = table.mean(axis=0) if how.get("center", True) else middle
    truth = np.sum(((table - about) @ x.T) ** 2, axis=0)
    z, w, m = [], [], []
    for seed in range(5):
        model = private(limits=limits, data_norm=None, random_state=seed, **how).fit(table)
        value, error = model.scatter(x)
        z.append((value - truth) / error)
        value, error = model.variance(x)
        w.append((value - truth / len(table)) / error)
        if how.get("center", True):
            m.append(
                (model.mean_ - table.mean(axis=0)) / model.intervals(of="table").standard_error
            )
    for scores in (z, w, *([m] if m else [])):
        assert np.sqrt(np.mean(np.square(scores))) < 1.8
    assert np.sqrt(np.mean(np.square(z))) > 0.4
    assert np.linalg.eigvalsh(model.covariance_)[0] >= -1e-12


def test_the_repaired_matrix_has_less_error() -> None:
    table = np.random.default_rng(7).normal(size=(2000, 20)) / 10
    truth, errors = table.T @ table / 2000, []
    for seed in range(10):
        model = private(data_norm=1.0, center=False, n_rows=2000, random_state=seed).fit(table)
        raw = model.release_.arrays["matrix"] / 2000
        errors.append([np.linalg.norm(part - truth) for part in (raw, model.covariance_)])
    raw, repaired = np.mean(errors, axis=0)
    assert repaired < 0.5 * raw


def test_row_count_stays_private_unless_declared() -> None:
    table = np.random.default_rng(10).uniform(-1, 1, (1000, 2))
    assert "1000" not in str(private().fit(table).release_.certificate())
    declared = private(n_rows=1000).fit(table)
    assert "count" not in declared.release_.arrays
    assert declared.variance([1.0, 0.0]).value == declared.scatter([1.0, 0.0]).value / 1000
    with pytest.raises(ValueError, match="Expected a table of 999 rows"):
        private(n_rows=999).fit(table)
    with pytest.raises(ValueError, match="stands out from its noise"):
        private().fit(table[:2]).variance([1.0, 0.0])


def test_the_public_reads_the_same_from_the_file(tmp_path) -> None:
    table = np.random.default_rng(13).uniform(-1, 1, (1000, 3))
    for how in ({"limits": [(-1, 2)] * 3}, {"radius": "private"}, {"method": "sketch"}):
        model = private(**how).fit(table)
        path = model.release_.save(tmp_path / "covariance.npz")
        public = PrivateCovariance.from_release(Release.load(path))
        assert np.array_equal(public.mean_, model.mean_)
        assert public.variance([1, 0, 0]) == model.variance([1, 0, 0])
        assert PrivateCovariance.from_public(public.release_.parameters, DELTA).loss is not None
        path.unlink()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relation": "replace"}, "relation to be one of"),
        ({"method": "newton"}, "method to be one of"),
        ({"radius": "bought"}, "radius to be one of"),
        ({"radius": "private", "method": "sketch"}, "radius='declared' for a sketch"),
        ({"radius": "private", "relation": "row-shift"}, "radius='declared' for rows that move"),
        ({"n_components": 0, "method": "sketch"}, "n_components"),
        ({"data_norm": None}, "public bound on the rows"),
    ],
)
def test_wrong_parameters(changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        private(**changes).plan(3)


def test_wrong_directions() -> None:
    model = private().fit(np.eye(3))
    with pytest.raises(ValueError, match="one for each column"):
        model.scatter([1.0, 2.0])
