"""Any algorithm whose output is Gaussian, made private by the least isotropic noise.

An algorithm maps data to N(mean, cov). Published is a draw from N(mean, cov + noise^2 I). What one
record can do to that law is described in one of two ways, and each ends in one pair of
Gaussians, record present first, that dominates all pairs of neighbours:

* an `Envelope`: the mean moves by at most so much in the noised norm, and so many directions
  change their variance by at most such a factor;
* a `RankOneUpdate`: one record moves mean and covariance along one and the same direction, as in
  every conjugate Gaussian regression.

docs/proofs/posteriors.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import least_noise, meets
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.loss.cumulant_bound import CumulantBound
from ndis.mechanisms.base import PrivateEstimator
from ndis.randomness import RandomState, draw_gaussian
from ndis.tables import scale_rows

if TYPE_CHECKING:
    from ndis.ledger import Ledger

SIDES = ("absent", "present")

# More than the few roundings of a formula can take away.
ROUND_UP = 1.0 + 2.0**-48
# Noise is at least this share of the prior's standard deviation, where a posterior is private as
# it is. Laws of up to MOST dimensions can then be drawn exactly: SMALLEST^2 spread^2 >=
# least_ridge(MOST spread^2, MOST).
SMALLEST, MOST = 2.0**-10, 20_000
# Rounds of choosing the split for the noise and the noise for the split.
_ROUNDS = 3
# The logit of the split is searched for between plus and minus this.
_LOGIT = 14.0
# Cells on which the largest residual is bounded.
_CELLS = 4000

# A bound: a number, or a function of the added noise variance.
Bound = float | Callable[[float], float]


@dataclass(frozen=True)
class Calibrated:
    """Noise and the loss that belongs to it.

    Attributes
    ----------
    noise_scale : float
        The standard deviation of the noise added to each coordinate.
    loss : PrivacyLoss
        The worst case of the whole release, both directions.
    """

    noise_scale: float
    loss: PrivacyLoss


# -- worst cases -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Envelope:
    """What one record can do to a noised Gaussian law, covariances in the Loewner order.

    Parameters
    ----------
    mean_shift : float
        The largest distance of the means, in the norm of the narrower covariance.
    kappa : float
        The largest ln ratio of variances, over all directions.
    eta : float
        The largest sum of these over the directions that diagonalise both covariances.
    rank : int, optional
        How many of them can differ from zero, where that is known.

    Examples
    --------
    >>> from ndis.mechanisms.posterior import Envelope
    >>> pair = Envelope(mean_shift=0.25, kappa=0.01, eta=0.01, rank=1).dominating(0.1)
    >>> f"{pair.delta(1.0):.2e}"
    '1.01e-05'
    """

    mean_shift: float
    kappa: float
    eta: float = math.inf
    rank: int | None = None

    def dominating(self, split: float) -> QuadraticLoss:
        """One pair that dominates them all, narrower law first.

        The narrower law's variance is divided between the two jobs: a share `split` of it
        widens, the rest carries the mean. Every share in (0, 1) gives a valid pair.
        """
        if self.rank is None:
            raise ValueError(
                "Expected rank, the number of variances that can change, got None; "
                "without it only `bound` is known."
            )
        k = self._split(split)
        return QuadraticLoss(
            [-_expm1(self.kappa) / k, 0.0],
            [0.0, self._shift(k)],
            [float(self.rank), 0.0],
        )

    def bound(self, split: float) -> CumulantBound:
        """A bound by the sum of ln ratios: the cumulants' maximum is at an extreme point."""
        if math.isinf(_expm1(self.kappa)):
            return CumulantBound(QuadraticLoss(-math.inf, 0.0, 1.0))
        k = self._split(split)
        kappa, eta = math.log1p(_expm1(self.kappa) / k), self.eta / k
        whole = math.floor(eta / kappa) if kappa > 0 else 0
        rest = min(max(eta - whole * kappa, 0.0), kappa)
        return CumulantBound(
            QuadraticLoss(
                [-_expm1(kappa), -_expm1(rest), 0.0],
                [0.0, 0.0, self._shift(k)],
                [float(whole), 1.0, 0.0],
            )
        )

    def _split(self, split: float) -> float:
        """Without a mean shift all of the variance may widen."""
        return 1.0 if self.mean_shift == 0 else split

    def _shift(self, split: float) -> float:
        if self.mean_shift == 0 or self.kappa == 0:
            return self.mean_shift**2
        return self.mean_shift**2 / (1.0 - split)


def least_envelope_noise(
    envelope: Callable[[float], Envelope],
    epsilon: float,
    delta: float,
    *,
    n_draws: int = 1,
    start: float = 1.0,
    floor: float = 1e-9,
) -> Calibrated:
    """The least noise that an envelope needs, by its dominating pair or by its bound.

    Parameters
    ----------
    envelope : callable
        Maps the added noise variance to an `Envelope`; more noise, smaller envelope.
    epsilon, delta : float
    n_draws : int
        Independent draws that are released.
    start : float
        A noise scale to begin with.
    floor : float
        The noise is no less than this.

    Returns
    -------
    Calibrated
        Its loss has the narrower law first.

    Examples
    --------
    >>> from ndis.mechanisms.posterior import Envelope, least_envelope_noise
    >>> found = least_envelope_noise(lambda v: Envelope(v**-0.5, 0.1 / v, rank=1), 1.0, 1e-5)
    >>> f"{found.noise_scale:.3f}"
    '4.038'
    """
    first = envelope(start**2)
    losses: list[Callable[[Envelope, float], PrivacyLoss]] = []
    if first.rank is not None:
        losses.append(Envelope.dominating)
    if math.isfinite(first.eta) and (first.rank is None or first.eta < first.rank * first.kappa):
        losses.append(Envelope.bound)
    if not losses:
        raise ValueError(
            "Expected eta or rank, got neither; say how far, or in how many directions, "
            "the covariance can change."
        )
    found = [_least_noise(envelope, loss, epsilon, delta, n_draws, start, floor) for loss in losses]
    return min(found, key=lambda calibrated: calibrated.noise_scale)


def _least_noise(
    envelope: Callable[[float], Envelope],
    loss: Callable[[Envelope, float], PrivacyLoss],
    epsilon: float,
    delta: float,
    n_draws: int,
    start: float,
    floor: float,
) -> Calibrated:
    def family(noise: float, split: float) -> Profile:
        return Profile.both(n_draws * loss(envelope(noise**2), split))

    def best_split(noise: float) -> float:
        found = minimize_scalar(
            lambda t: float(family(noise, _share(t)).log_delta(epsilon)),
            bounds=(-_LOGIT, _LOGIT),
            method="bounded",
            options={"xatol": 1e-3},
        )
        return _share(float(found.x))

    noise, split = start, 0.5
    first = envelope(start**2)
    for _ in range(_ROUNDS if first.mean_shift > 0 and first.kappa > 0 else 0):
        noise = _above(floor, partial(family, split=split), epsilon, delta, noise)
        split = best_split(noise)
    noise = _above(floor, partial(family, split=split), epsilon, delta, noise)
    return Calibrated(noise * ROUND_UP, family(noise, split))


def _above(
    floor: float, family: Callable[[float], Profile], epsilon: float, delta: float, start: float
) -> float:
    """The least noise, but no less than `floor`: some laws are private as they are."""
    if meets(family(floor), epsilon, delta):
        return floor
    return max(floor, least_noise(family, epsilon, delta, start=start))


def _expm1(log_ratio: float) -> float:
    """The excess of a ln ratio; infinite beyond the doubles, where laws are as good as disjoint."""
    return math.expm1(log_ratio) if log_ratio < 600.0 else math.inf


def _share(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


@dataclass(frozen=True)
class RankOneUpdate:
    """The worst case of conjugate Gaussian regression, for n - 1 other records or fewer.

    A record (x, y) moves the mean by c (y - m)/(v + s2) and the covariance by -c c^T/(v + s2): both
    along c. With the excess a of the variance along it, the pair is N(r sqrt(a), 1) against
    N(0, 1 + a), where r = |y - m|/sqrt(v + s2) is the standardised residual, and the pair with the
    largest a and the largest r dominates all others.

    Parameters
    ----------
    prior_variance : float
        K: bound on the prior variance of the regression function at a record.
    prior_norm : float
        The largest eigenvalue of the prior covariance of what is released.
    noise_variance : float
        s2: variance of a label about the regression function.
    label_bound : float
        Y: bound on the absolute value of a label.
    max_rows : int
        Bound on the number of records.

    Examples
    --------
    >>> from ndis.mechanisms.posterior import RankOneUpdate
    >>> update = RankOneUpdate(1.0, 1.0, 1.0, 1.0, max_rows=100)
    >>> f"{update.residual():.2f}", f"{update.excess(1.0):.4f}"
    ('4.97', '0.3333')
    """

    prior_variance: float
    prior_norm: float
    noise_variance: float
    label_bound: float
    max_rows: int

    def excess(self, added_variance: float) -> float:
        """The largest relative increase of a variance when the record is removed."""
        K, norm, s2 = self.prior_variance, self.prior_norm, self.noise_variance
        return K * norm / (norm * s2 + added_variance * (K + s2))

    def residual(self) -> float:
        """A bound on |y - m|/sqrt(v + s2).

        With phi the posterior variance at the record, |m| is at most
        Y sqrt((n-1) (1 - phi/K) phi / s2). The quotient is bounded on cells of phi, in each by its
        largest numerator and its least denominator.
        """
        K, s2, others = self.prior_variance, self.noise_variance, self.max_rows - 1
        # The least posterior variance that so many records leave.
        least = K / (1.0 + others * K / s2)
        edges = np.geomspace(least, K, _CELLS + 1)
        edges[0], edges[-1] = least, K
        low, high = edges[:-1], edges[1:]
        peak = np.clip(0.5 * K, low, high)
        mean = np.sqrt(others * (1.0 - peak / K) * peak / s2)
        bound = float(np.max((1.0 + mean) / np.sqrt(low + s2)))
        return self.label_bound * bound * ROUND_UP

    def loss(self, added_variance: float) -> QuadraticLoss:
        """The dominating pair, record present first."""
        excess = self.excess(added_variance)
        return QuadraticLoss(-excess, self.residual() ** 2 * excess, 1.0)

    def calibrate(self, epsilon: float, delta: float, n_draws: int = 1) -> Calibrated:
        """The least noise."""
        return _update_noise(self, epsilon, delta, n_draws)


@lru_cache(maxsize=256)
def _update_noise(update: RankOneUpdate, epsilon: float, delta: float, n_draws: int) -> Calibrated:
    squared, size = update.residual() ** 2, math.sqrt(update.prior_norm)

    def family(noise: float) -> Profile:
        excess = update.excess(noise**2)
        return Profile.both(n_draws * QuadraticLoss(-excess, squared * excess, 1.0))

    noise = _above(SMALLEST * size, family, epsilon, delta, size)
    return Calibrated(noise * ROUND_UP, family(noise))


# -- the wrapper -----------------------------------------------------------------------------


class GaussianOutput(PrivateEstimator):
    """A draw from any Gaussian-output algorithm, with the least noise for its sensitivity.

    Parameters
    ----------
    algorithm : callable
        Maps data to a `Gaussian` (or to a pair of mean and covariance).
    epsilon, delta : float
        The guarantee.
    mean_shift, kappa, eta : float or callable
        Bounds on what one record does, each a number or a function of the added noise variance:
        the distance of the two means in the norm of the narrower noised covariance, the largest
        ln ratio of variances, and the sum of the ln ratios over all directions. They are the
        caller's to prove.
    rank : int, optional
        How many directions can change their variance at all: 1 for a rank-one update. Needed if
        eta is not given.
    worst_case : callable, optional
        Instead of these bounds: a function of the added noise variance that returns a
        `QuadraticLoss` which dominates all pairs of neighbours, record present first.
    wider : {"absent", "present"}
        Whether the covariance is the larger one without the record, as in a posterior, or with it.
    relation : str, default "add-remove"
        Who is protected.
    n_draws : int, default 1
        Independent draws to release, all under one guarantee.
    max_spread : float
        A public bound on the standard deviation of the law in any direction, before noise is
        added. A law beyond it is refused. At least 2^-10 of it is added as noise, even if the law
        is private as it is, so that the noise can be told beside the law.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    release_ : Release
        What may be published.
    draws_ : ndarray of shape (n_draws, d)
        The same, as an array.
    guarantee_ : Guarantee
    noise_scale_ : float
        Standard deviation of the noise that was added to each coordinate.

    Examples
    --------
    The mean of numbers between 0 and 1, with a made-up posterior variance that depends on them:

    >>> import numpy as np
    >>> from ndis import Gaussian, GaussianOutput
    >>> def posterior(data):
    ...     precision = 100.0 + data.size
    ...     return Gaussian([data.sum() / precision], [[1.0 / precision]])
    >>> private = GaussianOutput(
    ...     posterior,
    ...     epsilon=1.0,
    ...     delta=1e-6,
    ...     max_spread=0.1,
    ...     mean_shift=lambda variance: 0.01 / variance**0.5,
    ...     kappa=np.log(101 / 100),
    ...     rank=1,
    ... )
    >>> f"{private.calibrate():.4f}"
    '0.0484'
    >>> private.fit(np.linspace(0, 1, 1000)).draws_.shape
    (1, 1)
    """

    def __init__(
        self,
        algorithm: Callable[[Any], Any],
        *,
        epsilon: float,
        delta: float,
        max_spread: float,
        mean_shift: Bound = 0.0,
        kappa: Bound = 0.0,
        eta: Bound | None = None,
        rank: int | None = None,
        worst_case: Callable[[float], QuadraticLoss] | None = None,
        wider: str = "absent",
        relation: str = "add-remove",
        n_draws: int = 1,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.epsilon = epsilon
        self.delta = delta
        self.max_spread = max_spread
        self.mean_shift = mean_shift
        self.kappa = kappa
        self.eta = eta
        self.rank = rank
        self.worst_case = worst_case
        self.wider = wider
        self.relation = relation
        self.n_draws = n_draws
        self.random_state = random_state
        self.ledger = ledger

    @property
    def output_copies(self) -> int:
        """How many independent draws of `output_law` are released."""
        return _validate.count("n_draws", self.n_draws)

    def calibrate(self) -> float:
        """The standard deviation of the noise added to each coordinate; needs no data."""
        return self._calibrated().noise_scale

    def guarantee(self) -> Guarantee:
        """The guarantee that a release will carry; needs no data."""
        return self._guarantee(self._calibrated())

    def envelope(self, added_variance: float) -> Envelope:
        """The declared bounds at this noise variance."""
        rank = None if self.rank is None else _validate.count("rank", self.rank)
        kappa = _at("kappa", self.kappa, added_variance)
        widest = math.inf if rank is None else rank * kappa
        eta = widest if self.eta is None else _at("eta", self.eta, added_variance)
        shift = _at("mean_shift", self.mean_shift, added_variance)
        return Envelope(shift, kappa, min(eta, widest), rank)

    def fit(self, data: Any, y: None = None) -> GaussianOutput:
        """Run the algorithm, spend the budget, release the draws."""
        calibrated = self._calibrated()
        self._ask(self._guarantee(calibrated))
        law = self._law(data)
        if law.dimension > MOST or np.trace(law.cov) > law.dimension * self.max_spread**2 * (
            1.0 + 2.0**-20
        ):
            raise ValueError(
                f"Expected a law of at most {MOST} dimensions and of standard deviation at most "
                f"max_spread={self.max_spread} in each direction, got another; declare a larger "
                "max_spread, or release fewer dimensions."
            )

        def draw(rng: np.random.Generator) -> dict[str, FloatArray]:
            return {"draws": draw_on_grid(law, self.output_copies, calibrated.noise_scale, rng)}

        parameters = {
            "noise_scale": calibrated.noise_scale,
            "max_spread": self.max_spread,
            "n_draws": self.output_copies,
        }
        shapes = {"draws": (self.output_copies, law.dimension)}
        self._release(draw, self._guarantee(calibrated), parameters, shapes)
        self.noise_scale_ = calibrated.noise_scale
        self.draws_ = self.release_.arrays["draws"]
        return self

    def output_law(self, data: Any) -> Gaussian:
        """The law of one draw; a release has n_draws independent ones."""
        return with_noise(self._law(data), self.calibrate())

    def _law(self, data: Any) -> Gaussian:
        law = self.algorithm(data)
        return law if isinstance(law, Gaussian) else Gaussian(*law)

    def _guarantee(self, calibrated: Calibrated) -> Guarantee:
        relation = NeighbourRelation(self.relation)
        return Guarantee(self.epsilon, self.delta, relation, "proven", calibrated.loss)

    def _calibrated(self) -> Calibrated:
        reverse = _validate.one_of("wider", self.wider, SIDES) == "present"
        epsilon = _validate.non_negative("epsilon", self.epsilon)
        delta = _validate.probability("delta", self.delta)
        floor = SMALLEST * _validate.positive("max_spread", self.max_spread)
        n = self.output_copies
        if self.worst_case is not None:
            worst = self.worst_case

            def family(noise: float) -> Profile:
                return Profile.both(n * worst(noise**2))

            noise = _above(floor, family, epsilon, delta, 1.0)
            return Calibrated(noise * ROUND_UP, family(noise))
        found = least_envelope_noise(self.envelope, epsilon, delta, n_draws=n, floor=floor)
        loss = found.loss.reversed() if reverse else found.loss
        return Calibrated(found.noise_scale, loss)


def with_noise(law: Gaussian, noise_scale: float) -> Gaussian:
    """The law of a draw plus independent noise on each coordinate.

    Examples
    --------
    >>> from ndis import Gaussian
    >>> from ndis.mechanisms.posterior import with_noise
    >>> float(with_noise(Gaussian([0.0], [[1.0]]), 2.0).cov[0, 0])
    5.0
    """
    if law.variances is not None:
        return Gaussian.from_diagonal(law.mean, law.variances + noise_scale**2)
    return Gaussian(law.mean, law.cov + noise_scale**2 * np.eye(law.dimension))


def draw_on_grid(
    law: Gaussian, n_draws: int, noise_scale: float, rng: np.random.Generator
) -> FloatArray:
    """Independent draws of the law plus noise, exact but for the grid of the noise."""
    return draw_gaussian(law.mean, law.cov, noise_scale, n_draws, rng)


def _at(name: str, bound: Bound, added_variance: float) -> float:
    value = bound(added_variance) if callable(bound) else bound
    return _validate.non_negative(name, value)


# -- an example: Bayesian linear regression --------------------------------------------------


def linear_regression(
    *,
    epsilon: float,
    delta: float,
    data_norm: float,
    label_bound: float,
    max_rows: int,
    lam: float = 1.0,
    noise_variance: float = 1.0,
    n_draws: int = 1,
    random_state: RandomState = None,
    ledger: Ledger | None = None,
) -> GaussianOutput:
    """Draws from the posterior of Bayesian linear regression with known noise variance.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for the presence of one record.
    data_norm, label_bound : float
        Public bounds on the norm of a row and on its label; both are enforced.
    max_rows : int
        Public bound on the number of rows.
    lam : float
        Precision of the prior N(0, I/lam) of the coefficients.
    noise_variance : float
        Variance of a label about the regression line.
    n_draws, random_state, ledger
        As in `GaussianOutput`.

    Returns
    -------
    GaussianOutput
        Its data are tables with the label in the last column.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.mechanisms.posterior import linear_regression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, (2000, 2)) / np.sqrt(2)
    >>> table = np.column_stack([x, x @ [0.5, -0.5]])
    >>> private = linear_regression(
    ...     epsilon=1.0, delta=1e-6, data_norm=1.0, label_bound=1.0, max_rows=2000, lam=100.0
    ... )
    >>> f"{private.calibrate():.3f}"
    '0.101'
    >>> private.fit(table).draws_.shape
    (1, 2)
    """
    norm = _validate.positive("data_norm", data_norm)
    label = _validate.positive("label_bound", label_bound)
    precision = _validate.positive("lam", lam)
    s2 = _validate.positive("noise_variance", noise_variance)
    most = _validate.count("max_rows", max_rows)
    update = RankOneUpdate(norm**2 / precision * ROUND_UP, 1.0 / precision, s2, label, most)

    def posterior(data: ArrayLike) -> Gaussian:
        table = _validate.floats("data", data, ndim=2)
        require_rows(len(table), most)
        x, y = table[:, :-1].copy(), np.clip(table[:, -1], -label, label)
        scale_rows(x, norm)
        inverse = np.linalg.inv(precision * np.eye(x.shape[1]) + x.T @ x / s2)
        return Gaussian(inverse @ (x.T @ y) / s2, 0.5 * (inverse + inverse.T))

    return GaussianOutput(
        posterior,
        epsilon=epsilon,
        delta=delta,
        worst_case=update.loss,
        n_draws=n_draws,
        max_spread=1.0 / math.sqrt(precision),
        random_state=random_state,
        ledger=ledger,
    )


def require_rows(n_rows: int, max_rows: int) -> None:
    """Refuse a table that is longer than was declared."""
    if n_rows > max_rows:
        raise ValueError(
            f"Expected at most {max_rows} rows, as declared public by max_rows, got more; "
            "raise max_rows, or hand over fewer rows."
        )
