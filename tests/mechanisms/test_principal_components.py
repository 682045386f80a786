"""Principal components: what they capture, their errors, and the radius that is bought."""

import math

import array_api_strict as xp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from laws import output_law
from ndis import Gaussian, PrivatePCA, Release, audit_pair, privacy_loss
from ndis.mechanisms.moments import best_radius
from ndis.tables.sums import NORM_BINS

EPSILON, DELTA = 1.0, 1e-6
SPREAD = np.array([0.5, 0.3, 0.1, 0.1, 0.1])
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
TABLE = np.random.default_rng(1).standard_normal((20_000, 5)) * SPREAD @ TURN.T + 0.2


def private(n_components=2, **changes):
    parameters = {"epsilon": EPSILON, "delta": DELTA, "data_norm": 20.0, "random_state": 3}
    return PrivatePCA(n_components, **(parameters | changes))


def captured(model, table) -> float:
    """The share of the best second moments that the components hold."""
    moments = table.T @ table
    basis = model.components_
    best = np.sort(np.linalg.eigvalsh(moments))[-len(basis) :].sum()
    return float(np.trace(basis @ moments @ basis.T) / best)


def errors_of(model) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors of explained variances, and of the entries of components."""
    errors = np.atleast_2d(model.intervals().standard_error)
    return errors[:, 0], errors[:, 1:]


def test_a_bought_norm_is_worth_its_price() -> None:
    assert captured(private().fit(TABLE), TABLE) > 0.99
    bought, declared = private().fit(TABLE), private(radius="declared").fit(TABLE)
    assert bought.radius_ < 5.0 < declared.radius_ == 20.0
    assert np.all(errors_of(bought)[0] < 0.1 * errors_of(declared)[0])


def test_centred_components_are_those_of_scikit_learn() -> None:
    truth = PCA(2).fit(TABLE)
    model = private(center=True).fit(TABLE)
    assert np.all(np.abs(np.sum(model.components_ * truth.components_, axis=1)) > 0.999)
    np.testing.assert_allclose(model.mean_, truth.mean_, atol=0.02)
    np.testing.assert_allclose(model.explained_variance_, truth.explained_variance_, rtol=0.1)
    assert model.above_noise_.all()
    coordinates = model.transform(TABLE)
    assert coordinates.shape == (20_000, 2)
    np.testing.assert_allclose(
        model.inverse_transform(coordinates),
        truth.inverse_transform(truth.transform(TABLE)),
        atol=0.1,
    )
    assert list(model.get_feature_names_out()) == ["privatepca0", "privatepca1"]
    again = private(center=True).fit_transform(TABLE)
    np.testing.assert_array_equal(again, coordinates)


def test_standard_errors_are_those_that_are_seen() -> None:
    table = TABLE[:2000]
    moments = table.T @ table / len(table)
    best = np.linalg.eigh(moments)[1][:, ::-1].T[:2]
    variances, entries = [], []
    for seed in range(40):
        model = private(radius="declared", data_norm=2.5, random_state=seed).fit(table)
        along = np.einsum("ki,ij,kj->k", model.components_, moments, model.components_)
        of_variance, of_entry = errors_of(model)
        variances.append((model.explained_variance_ - along) / of_variance)
        signs = np.sign(np.sum(best * model.components_, axis=1))[:, None]
        entries.append((model.components_ - signs * best) / of_entry)
    assert np.all(np.abs(np.mean(variances, axis=0)) < 0.7)
    assert 0.5 < np.sqrt(np.mean(np.square(variances))) < 1.4
    assert 0.5 < np.sqrt(np.mean(np.square(entries))) < 1.4


def test_noise_alone_is_said_to_be_noise() -> None:
    model = private(None, radius="declared").fit(0.001 * TABLE[:100])
    assert not model.above_noise_.any()
    assert model.components_.shape == (5, 5)
    of_variance, of_entry = errors_of(model)
    assert of_entry.max() <= 1.0
    assert np.all(model.explained_variance_ < 4 * of_variance)


def test_limits_set_the_units_and_components_follow() -> None:
    limits = [(-4.0, 4.0)] * 4 + [(-40.0, 40.0)]
    stretched = TABLE * [1, 1, 1, 1, 10]
    model = private(limits=limits, data_norm=None).fit(stretched)
    assert captured(model, stretched / [4, 4, 4, 4, 40]) > 0.99
    np.testing.assert_allclose(model.scale_, [4, 4, 4, 4, 40], rtol=1e-4)
    center = model.inverse_transform(np.zeros((1, 2)))
    np.testing.assert_allclose(center, np.zeros((1, 5)), atol=1e-9)


def test_the_radius_balances_noise_and_cut() -> None:
    counts = np.zeros(NORM_BINS)
    counts[8] = 10_000.0
    noise = {"norms": 20.0, "matrix": 5.0}
    assert best_radius(counts, noise, 1.0, 10) == 2.0**-4
    counts[0] = 39.0  # below two standard errors: an empty bin
    assert best_radius(counts, noise, 1.0, 10) == 2.0**-4
    counts[0] = 3000.0
    assert best_radius(counts, noise, 1.0, 10) == 1.0
    # Second route: the cost, bin by bin.
    rng = np.random.default_rng(2)
    for _ in range(50):
        counts = rng.integers(0, 2000, NORM_BINS) * (rng.random(NORM_BINS) < 0.3)
        costs = []
        for k in range(NORM_BINS):
            square = 2.0**-k
            cut = sum(c * max(0.75 * 2.0**-j - square, 0) for j, c in enumerate(counts) if c > 40)
            costs.append(square * 5.0 * math.sqrt(20) + 0.3 * cut)
        assert best_radius(counts, noise, 1.0, 10) == 2.0 ** (-np.argmin(costs) / 2)


@pytest.mark.parametrize("radius", [2.0, 0.5])
@pytest.mark.parametrize("center", [False, True])
def test_at_every_radius_the_longest_row_attains_the_worst_case(radius, center) -> None:
    """Counts, then moments at the radius they led to: each a mean shift."""
    model = private(1, data_norm=2.0, center=center)
    table = np.array([[0.1, 0.1], [1.0, -1.0], [0.0, 2.0]])
    laws = [output_law(model, part, radius=radius) for part in (table, table[:-1])]
    pair, worst = privacy_loss(*laws), model.plan(2).loss
    assert pair.log_delta(EPSILON) <= worst.log_delta(EPSILON) + 1e-9
    assert pair.log_delta(EPSILON) == pytest.approx(math.log(DELTA), abs=1e-3)
    assert audit_pair(*laws, claim=(EPSILON, DELTA)).outcome == "consistent"
    quiet = [Gaussian.from_diagonal(law.mean, 0.25 * law.variances) for law in laws]
    assert audit_pair(*quiet, claim=(EPSILON, DELTA)).outcome == "refuted"
    with pytest.raises(ValueError, match="Expected the radius"):
        output_law(model, table)


def test_the_public_reads_the_same_from_the_file(tmp_path) -> None:
    model = private().fit(TABLE)
    public = PrivatePCA.from_release(Release.load(model.release_.save(tmp_path / "pca.npz")))
    np.testing.assert_array_equal(public.components_, model.components_)
    np.testing.assert_array_equal(public.transform(TABLE[:5]), model.transform(TABLE[:5]))
    assert public.radius_ == model.radius_


def test_in_a_pipeline_and_as_a_data_frame() -> None:
    line = make_pipeline(private(center=True), LinearRegression()).fit(TABLE, TABLE @ TURN[:, 0])
    assert line.score(TABLE, TABLE @ TURN[:, 0]) > 0.99
    frame = pd.DataFrame(TABLE, columns=list("abcde"))
    out = private().set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["privatepca0", "privatepca1"]


@pytest.mark.parametrize("how", [{"limits": [(-3, 3)] * 5, "data_norm": None}, {}])
def test_every_kind_of_table_gives_the_same(how) -> None:
    rows = np.where(np.random.default_rng(4).random((500, 5)) < 0.5, TABLE[:500], 0.0)
    dense = private(**how).fit(rows)
    for other in (
        sparse.csr_array(rows),
        xp.asarray(rows),
        pa.table(dict(zip("abcde", rows.T, strict=True))),
    ):
        model = private(**how).fit(other)
        np.testing.assert_array_equal(model.components_, dense.components_)
        np.testing.assert_allclose(model.transform(other), dense.transform(rows), atol=1e-12)


def test_too_many_components() -> None:
    with pytest.raises(ValueError, match="n_components <= 5 columns"):
        private(6).plan(5)
