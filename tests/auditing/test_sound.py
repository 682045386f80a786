"""Sound mechanisms are never refuted: 1,000 random configurations of each family.

A configuration is a claim, the mechanism's own parameters and a data set with all its neighbours;
where a calibration takes long, ten data sets share one. Beside each family stands the same
mechanism sold for more than it is, calibrated for a weaker claim than the one it is audited
against: it must be refuted, so that no search here is blind.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from laws import output_law, party_law
from ndis import (
    Gaussian,
    PrivateLeastSquares,
    Profile,
    QuadraticLoss,
    audit,
)
from ndis.auditing import audit_loss
from ndis.calibration import noise_multiplier
from ndis.mechanisms.multiparty import Agreement
from ndis.mechanisms.projection_methods import least_ratio
from ndis.mechanisms.regression_methods import noisy_moments
from ndis.mechanisms.regression_methods.descent import Descent, Scales, Setting
from ndis.tables import GRID_NORM, Table
from newton_paths import statistics

FloatArray = NDArray[np.float64]
N = 1000
# Data sets that share a calibration, where that is quick and where it takes long.
FEW, MANY = 2, 10


@dataclass(frozen=True)
class Claimed:
    epsilon: float
    delta: float
    n_components: int

    def weaker(self) -> Claimed:
        """What an unsound seller calibrates for: twice the epsilon, a hundred times the delta."""
        return Claimed(2.0 * self.epsilon, min(100.0 * self.delta, 0.5), self.n_components)


@dataclass(frozen=True)
class Configuration:
    law: Callable[[FloatArray], Gaussian]
    table: FloatArray
    copies: int = 1
    relation: str = "add-remove"
    universe: FloatArray | None = None


Family = Callable[[np.random.Generator, Claimed], Iterator[Configuration]]
FAMILIES: dict[str, tuple[Family, int]] = {}


def family(tables: int) -> Callable[[Family], Family]:
    """A generator of so many configurations for one claim."""

    def keep(made: Family) -> Family:
        FAMILIES[made.__name__.replace("_", "-")] = (made, tables)
        return made

    return keep


def random_claims(seed: int, n: int = N) -> list[Claimed]:
    rng = np.random.default_rng(seed)
    eps, log_delta = rng.uniform(0.01, 5, n), rng.uniform(-14, -1, n)
    r = np.rint(10 ** rng.uniform(0, 3, n)).astype(int)
    return [
        Claimed(float(e), float(10**d), int(k)) for e, d, k in zip(eps, log_delta, r, strict=True)
    ]


def in_ball(rng: np.random.Generator, n: int, d: int, norm: float) -> FloatArray:
    """Rows of the norm or shorter, from one long row among zeros to a crowd."""
    rows = rng.standard_normal((n, d)) * 10 ** rng.uniform(-2, 1, (n, 1))
    return norm * rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)


# -- regression ------------------------------------------------------------------------------------


def limit_row(model: PrivateLeastSquares, epsilon: float, d: int, norm: float) -> FloatArray:
    """The row that is easiest to see beside nothing, among some with the largest label."""
    rows = np.zeros((40, d + 1))
    rows[:, d - 1], rows[:, d] = norm * np.geomspace(1e-3, 1.0, 40), norm
    seen = [
        float(Profile.both(model.removal_losses(row[None, :-1], row[-1:])[0]).delta(epsilon))
        for row in rows
    ]
    return rows[int(np.argmax(seen))]


@family(MANY)
def gaussian_limit(rng: np.random.Generator, asked: Claimed) -> Iterator[Configuration]:
    d, norm, r = int(rng.integers(1, 5)), float(10 ** rng.uniform(-1, 1)), asked.n_components
    model = PrivateLeastSquares(
        epsilon=asked.epsilon, delta=asked.delta, data_norm=norm, label_bound=norm,
        method="gaussian-limit", n_components=r, fit_intercept=False,
    )  # fmt: skip
    model.set_params(noise_scale=model.calibrate(d), epsilon=None)  # planned once
    worst = limit_row(model, asked.epsilon, d, norm)
    for i in range(MANY):
        table = in_ball(rng, int(rng.integers(2, 5)), d + 1, norm)
        if i % 2 == 0:
            table = np.vstack([worst, 0.0 * worst])
        yield Configuration(lambda t: output_law(model, t[:, :-1], t[:, -1]), table)


def moments_law(
    noisy: list[tuple[FloatArray, FloatArray | float]],
) -> Gaussian:
    """The law of statistics with independent noise, each a value and its standard deviation."""
    means = [np.ravel(value) for value, _ in noisy]
    scales = [np.ravel(np.broadcast_to(scale, np.shape(value))) for value, scale in noisy]
    return Gaussian.from_diagonal(np.concatenate(means), np.concatenate(scales) ** 2)


@family(FEW)
def regression_moments(rng: np.random.Generator, asked: Claimed) -> Iterator[Configuration]:
    """Noisy moments and Newton's rounds: all that they release, not only the coefficients.

    A configuration of Newton is a path: cuts, clips and coefficients are those of one release.
    """
    kind = ("noisy-gram", "newton")[int(rng.integers(2))]
    d, norm, bound = int(rng.integers(1, 4)), *map(float, 10 ** rng.uniform(-1, 1, 2))
    model = PrivateLeastSquares(
        epsilon=asked.epsilon, delta=asked.delta, data_norm=norm, label_bound=bound, method=kind,
        n_rounds=int(rng.integers(1, 5)), fit_intercept=bool(rng.integers(2)), random_state=0,
    )  # fmt: skip
    noise = model.calibrate(d)

    def opened(rows: FloatArray) -> Table:
        return model.prepare(rows[:, :-1], rows[:, -1]).data

    for _ in range(FEW):
        features = in_ball(rng, 3, d, norm)
        features[0] = norm * np.eye(d)[0]
        rows = np.column_stack([features, bound * rng.choice([-1.0, 1.0], 3)])
        path = model.fit(rows[:, :-1], rows[:, -1]).release_.arrays

        def law(rows: FloatArray, path: dict[str, FloatArray] = path) -> Gaussian:
            table = opened(rows)
            if kind == "noisy-gram":
                parts = [noisy_moments.study(table).value.ravel() / GRID_NORM**2 / noise["moments"]]
            else:
                setting = Setting(d, 1, model.fit_intercept, model.n_rounds)
                parts = statistics(table, path, setting, Scales(**noise))
            # A symmetric matrix counts twice off the diagonal, where the variance is half.
            return moments_law([(part, 1.0) for part in parts])

        yield Configuration(law, rows)


# -- several parties -------------------------------------------------------------------------------


@family(FEW)
def multi_party(rng: np.random.Generator, asked: Claimed) -> Iterator[Configuration]:
    """One party's release for its own attributes, or all of them for the whole record."""
    sizes = rng.integers(1, 3, int(rng.integers(2, 4)))
    parties = {f"party {j}": {f"x{j}{i}": (-1, 1) for i in range(k)} for j, k in enumerate(sizes)}
    n = 3
    protects = str(rng.choice(["party", "person"]))
    agreement = Agreement(
        n, parties, asked.epsilon, asked.delta,
        protects=protects, n_components=4, seed=int(rng.integers(2**32)),
    )  # fmt: skip
    split = np.cumsum(sizes)[:-1]

    def whole(rows: FloatArray) -> Gaussian:
        laws = [
            party_law(agreement, party, held)
            for party, held in zip(parties, np.split(rows, split, axis=1), strict=True)
        ]
        return Gaussian.from_diagonal(
            np.concatenate([law.mean for law in laws]),
            np.concatenate([law.variances for law in laws]),
        )

    # Parties with fewer columns than others may be protected better: the one with most is not.
    party = max(parties, key=lambda name: len(parties[name]))
    for _ in range(FEW):
        d = int(sizes.sum()) if protects == "person" else len(parties[party])
        table = rng.uniform(-1, 1, (n, d))
        table[0] = -1.0
        law = whole if protects == "person" else functools.partial(party_law, agreement, party)
        relation = "replace" if protects == "person" else "party"
        yield Configuration(law, table, relation=relation, universe=np.ones((1, d)))


# -- the audits ------------------------------------------------------------------------------------


def audited(name: str, n: int, seed: int, weaker: bool = False) -> Iterator[tuple[bool, float]]:
    """Whether each of n configurations is refuted, and ln of the largest delta over the claim."""
    made, tables = FAMILIES[name]
    rng = np.random.default_rng(seed)
    for asked in random_claims(seed, n // tables):
        sold = asked.weaker() if weaker else asked
        for case in made(rng, sold):
            verdict = audit(
                case.law, case.table, (asked.epsilon, asked.delta),
                relation=case.relation, universe=case.universe, copies=case.copies,
            )  # fmt: skip
            yield verdict.refuted, verdict.log_delta - math.log(asked.delta)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, pytest.param(N, marks=pytest.mark.evidence)])
@pytest.mark.parametrize("name", FAMILIES)
def test_no_sound_configuration_is_refuted(name: str, n: int) -> None:
    found = list(audited(name, n, seed=1))
    assert len(found) == n
    assert not any(refuted for refuted, _ in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_sold_for_more_than_it_is_refuted(name: str) -> None:
    found = [refuted for refuted, _ in audited(name, 20, seed=2, weaker=True)]
    assert np.mean(found) >= 0.5


# -- the statistics that the tests above give a law are those that are drawn -----------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["noisy-gram", "newton"])
def test_drawn_moments_have_the_noise_that_is_audited(kind: str) -> None:
    model = PrivateLeastSquares(
        epsilon=1.0, delta=1e-5, data_norm=1.0, label_bound=1.0, method=kind, n_rounds=2,
        fit_intercept=False,
    )  # fmt: skip
    noise, draws = model.calibrate(2), []
    model.set_params(random_state=np.random.default_rng(5))
    for _ in range(300):
        draws.append(model.fit(np.eye(2), np.zeros(2)).release_.arrays)
    if kind == "noisy-gram":
        spread = np.array([draw["moments"] for draw in draws]).std(axis=0) / noise["moments"]
    else:
        counts = np.array([draw["norms"] for draw in draws]).std(axis=0)
        np.testing.assert_allclose(counts, noise["norms"], rtol=0.25)
        own = Scales(**noise)
        seen, spreads, slopes = [], [], []
        for draw in draws:
            path = Descent.again(Setting(2, 1, False, 2), own, draw)
            spreads.append(draw["hessian"] / (path.cut**2 + path.constant**2) / own.hessian)
            slopes.append(draw["gradients"][-1, :, 0] / np.sqrt(path.variances[-1]))
            seen.append(draw["products"][:2] / own.look())
        np.testing.assert_allclose(np.std(seen, axis=0)[:, 20:60], 1.0, rtol=0.25)
        np.testing.assert_allclose(np.std(slopes, axis=0), 1.0, rtol=0.25)
        spread = np.std(spreads, axis=0)
    np.testing.assert_allclose(np.diag(spread), 1.0, rtol=0.15)
    np.testing.assert_allclose(spread[0, 1], math.sqrt(0.5), rtol=0.15)


# -- families whose worst case is one loss ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, pytest.param(N, marks=pytest.mark.evidence)])
@pytest.mark.parametrize("name", ["gaussian", "projection"])
def test_sound_losses_are_never_refuted(name: str, n: int) -> None:
    for asked in random_claims(1, n):
        epsilon, delta, r = asked.epsilon, asked.delta, asked.n_components
        if name == "gaussian":
            loss = QuadraticLoss.from_shift(1 / noise_multiplier(epsilon, delta))
        else:
            loss = QuadraticLoss(least_ratio(epsilon, delta, r) ** -2, 0.0, r)
        verdict = audit_loss(loss, (epsilon, delta))
        assert verdict.outcome == "consistent"
        assert verdict.delta > 0.9 * delta  # and they are not merely over-noised
