"""Any algorithm whose output is Gaussian, made private by the least isotropic noise.

An algorithm maps data to N(mean, cov). Published is a draw from N(mean, cov + noise^2 I). What one
record can do to that law is declared by the caller, as an envelope or as a pair that dominates all
neighbours (`ndis.loss.posteriors`); docs/proofs/posteriors.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP, meets
from ndis.gaussian import Gaussian
from ndis.loss import PrivacyLoss, Profile, QuadraticLoss
from ndis.loss.posteriors import Envelope
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.run import Forecast, Plan, Run
from ndis.mechanisms.target import Part, Target
from ndis.randomness import draw_gaussian
from ndis.release import Release

__all__ = ["MOST", "SMALLEST", "Draws", "GaussianOutput", "drawn"]

SIDES = ("absent", "present")

# Noise is at least this share of the law's standard deviation, where a posterior is private as it
# is. Laws of up to MOST dimensions can then be drawn exactly: SMALLEST^2 spread^2 >=
# least_ridge(MOST spread^2, MOST).
SMALLEST, MOST = 2.0**-10, 20_000
# A covariance may fail to be positive semi-definite by this share of the noise variance: rounding.
_NEGATIVE = 2.0**-20
# Rounds of choosing the split for the noise and the noise for the split.
_ROUNDS = 3
# The logit of the split is searched for between plus and minus this.
_LOGIT = 14.0

# A bound: a number, or a function of the added noise variance.
Bound = float | Callable[[float], float]


# -- the least noise -------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """Independent draws that are to be released, and what their noise has to achieve.

    Parameters
    ----------
    target : Target
    n_draws : int
        Independent draws that are released.
    start : float
        A noise scale to begin with.
    floor : float
        The noise is no less than this: some laws are private as they are.
    given : float, optional
        The noise, where the caller has chosen it.
    share : float, optional
        The share of `least_divided`, where it is known already.
    """

    target: Target
    n_draws: int = 1
    start: float = 1.0
    floor: float = 1e-9
    given: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        given = self.given
        if given is not None and _validate.positive("noise_scale", given) < self.floor:
            raise ValueError(
                f"Expected a noise_scale of at least {self.floor:g}, a thousandth of the law's "
                f"spread, got {given:g}; with less the noise cannot be told beside the law."
            )

    def loss(self, worst_case: Callable[[float], PrivacyLoss], noise: float) -> Profile:
        """The loss of the whole release, both directions."""
        return Profile.both(self.n_draws * worst_case(min(noise, 1e150) ** 2))

    def least(
        self, worst_case: Callable[[float], PrivacyLoss], start: float | None = None
    ) -> tuple[float, PrivacyLoss]:
        """The least noise if the worst case is known as a function of the noise variance.

        Parameters
        ----------
        worst_case : callable
            Maps the added noise variance to a loss, record present first; more noise, less loss.
        start : float, optional
            Another noise scale to begin with.

        Returns
        -------
        noise_scale : float
        loss : PrivacyLoss
            The worst case of the whole release, both directions.

        Examples
        --------
        >>> from ndis import QuadraticLoss
        >>> from ndis.mechanisms.target import Target
        >>> from ndis.mechanisms.posterior import Draws
        >>> draws = Draws(Target(1.0, 1e-5), floor=0.1)
        >>> noise, _ = draws.least(lambda v: QuadraticLoss.from_shift(v**-0.5))
        >>> f"{noise:.3f}"
        '3.731'
        """
        family = partial(self.loss, worst_case)
        if self.given is not None:
            return self.given, family(self.given)
        assert self.target.epsilon is not None
        if meets(family(self.floor), self.target.epsilon, self.target.delta):
            return self.floor * ROUND_UP, family(self.floor)
        noise, loss = self.target.least_noise(family, max(start or self.start, self.floor))
        return max(self.floor, noise) * ROUND_UP, loss

    def least_divided(
        self,
        worst_case: Callable[[float, float], PrivacyLoss],
        rough: Callable[[float, float], PrivacyLoss] | None = None,
    ) -> tuple[float, PrivacyLoss, float]:
        """The same where the worst case divides itself into shares; and the share that was best.

        Parameters
        ----------
        worst_case : callable
            Maps the added noise variance and a share in (0, 1), any of which will do, to a loss.
        rough : callable, optional
            About the same, to search the best share by.
        """
        rough = rough or worst_case

        from scipy.optimize import minimize_scalar

        def badness(logit: float) -> float:
            loss = self.loss(lambda variance: rough(variance, _share(logit)), noise)
            if self.target.epsilon is None:
                return float(loss.epsilon(self.target.delta))
            return float(loss.log_delta(self.target.epsilon))

        def least() -> tuple[float, PrivacyLoss]:
            return self.least(lambda variance: worst_case(variance, share), noise)

        noise, share = self.start, 0.5 if self.share is None else self.share
        rounds = 0 if self.share is not None else _ROUNDS if self.given is None else 1
        for _ in range(rounds):
            noise, _ = least()
            bounds, options = (-_LOGIT, _LOGIT), {"xatol": 1e-4}
            found = minimize_scalar(badness, bounds=bounds, method="bounded", options=options)
            share = _share(float(found.x))
        return *least(), share

    def least_of(self, envelope: Callable[[float], Envelope]) -> tuple[float, PrivacyLoss]:
        """The least noise that an envelope needs, by its dominating pair or by its bound.

        Parameters
        ----------
        envelope : callable
            Maps the added noise variance to an `Envelope`; more noise, smaller envelope.

        Returns
        -------
        noise_scale : float
        loss : PrivacyLoss
            Both directions; the narrower law comes first.

        Examples
        --------
        >>> from ndis.mechanisms.target import Target
        >>> from ndis.mechanisms.posterior import Draws, Envelope
        >>> draws = Draws(Target(1.0, 1e-5))
        >>> noise, _ = draws.least_of(lambda v: Envelope(v**-0.5, 0.1 / v, rank=1))
        >>> f"{noise:.3f}"
        '4.038'
        """
        first = envelope((self.start if self.given is None else self.given) ** 2)
        kinds: list[Callable[[Envelope, float], PrivacyLoss]] = []
        if first.rank is not None:
            kinds.append(Envelope.dominating)
        narrow = first.rank is None or first.eta < first.rank * first.kappa
        if math.isfinite(first.eta) and narrow:
            kinds.append(Envelope.bound)
        if not kinds:
            raise ValueError(
                "Expected eta or rank, got neither; say how far, or in how many directions, "
                "the covariance can change."
            )

        def least(kind: Callable[[Envelope, float], PrivacyLoss]) -> tuple[float, PrivacyLoss]:
            if first.mean_shift > 0 and first.kappa > 0:
                return self.least_divided(lambda v, share: kind(envelope(v), share))[:2]
            return self.least(lambda v: kind(envelope(v), 0.5))

        found = [least(kind) for kind in kinds]
        if self.given is not None:
            return min(found, key=lambda pair: float(pair[1].epsilon(self.target.delta)))
        return min(found, key=lambda pair: pair[0])


def _share(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


# -- the wrapper -----------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianOutput(PrivateEstimator):
    """A draw from any Gaussian-output algorithm, with the least noise for its sensitivity.

    Parameters
    ----------
    algorithm : callable
        Maps data to a `Gaussian` (or to a pair of mean and covariance).
    epsilon, delta : float
        The guarantee.
    dimension : int
        How many numbers a draw has, for every data set.
    max_spread : float
        A public bound on the standard deviation of the law, root mean square over its coordinates,
        before noise is added. A law beyond it is refused. At least 2^-10 of it is added as noise,
        even if the law is private as it is, so that the noise can be told beside the law.
    mean_shift, kappa, eta : float or callable
        Bounds on what one record does, each a number or a function of the added noise variance:
        the distance of the two means in the norm of the narrower noised covariance, the largest
        ln ratio of variances, and the sum of the ln ratios over all directions. They are the
        caller's to prove, for the means and covariances as they are computed.
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
    noise_scale : float, optional
        Noise to use instead of the least that (epsilon, delta) needs.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from. Since the bounds are declared, it must accept "declared".

    Attributes
    ----------
    release_ : Release
        What may be published.
    draws_ : ndarray of shape (n_draws, dimension)
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
    ...     dimension=1,
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

    algorithm: Callable[[Any], Any] = field(kw_only=False)
    dimension: int | None = None
    max_spread: float | None = None
    mean_shift: Bound = 0.0
    kappa: Bound = 0.0
    eta: Bound | None = None
    rank: int | None = None
    worst_case: Callable[[float], QuadraticLoss] | None = None
    wider: str = "absent"
    relation: str = "add-remove"
    n_draws: int = 1

    # -- before the data ---------------------------------------------------------------------

    def _plan(self, rows: Any = None) -> Plan:
        target, n_draws = self._target(), _validate.count("n_draws", self.n_draws)
        reverse = _validate.one_of("wider", self.wider, SIDES) == "present"
        draws = Draws(target, n_draws, floor=SMALLEST * self._spread(), given=self.noise_scale)
        if self.worst_case is not None:
            noise, loss = draws.least(self.worst_case)
            how = "One pair that dominates all neighbours was declared."
        else:
            noise, loss = draws.least_of(self.envelope)
            how = "Bounds on what one record does to the law were declared."
            loss = loss.reversed() if reverse else loss
        note = "It rests on what the algorithm's owner declared that one record can do."
        promise = target.promise(loss, self.relation, "declared", note)
        shapes = {"draws": (n_draws, self._dimension())}
        return Plan("draw", (Part(None, noise=noise),), promise, shapes, how)

    def envelope(self, added_variance: float) -> Envelope:
        """The declared bounds at this much added noise variance."""
        rank = None if self.rank is None else _validate.count("rank", self.rank)
        kappa = _at("kappa", self.kappa, added_variance)
        widest = math.inf if rank is None else rank * kappa
        eta = widest if self.eta is None else _at("eta", self.eta, added_variance)
        shift = _at("mean_shift", self.mean_shift, added_variance)
        return Envelope(shift, kappa, min(eta, widest), rank)

    def forecast(self, size: Any = None, *, n_rows: int | None = None) -> Forecast:
        """How far a draw will be from the algorithm's mean, root mean square in a coordinate."""
        noise = self.calibrate()
        wide = math.hypot(noise, self._spread())
        said = "the law's standard deviation lies between 0 and max_spread"
        return Forecast({"distance of a draw from the law's mean": (noise, wide)}, (said,))

    # -- with the data -----------------------------------------------------------------------

    def prepare(self, X: Any, y: Any = None, *, plan: Plan | None = None) -> Run:
        """Plan what will happen to data of any kind: they are the algorithm's to read."""
        return Run(self, X, self.plan() if plan is None else plan, self)

    def _adopt(self, release: Release, data: Any, found: Any = None) -> None:
        super()._adopt(release, data, found)
        self.draws_ = release.arrays["draws"]

    def _study(self, data: Any, plan: Plan) -> tuple[FloatArray, FloatArray]:
        law = self.algorithm(data)
        mean, cov = (law.mean, law.cov) if isinstance(law, Gaussian) else law
        mean, cov = _validate.floats("mean", mean), _validate.floats("cov", cov)
        d, spread = self._dimension(), self._spread()
        if mean.shape != (d,) or cov.shape != (d, d):  # which shape they have is the data's secret
            raise ValueError(
                f"Expected the algorithm to return a law of dimension={d}, got another; declare "
                "the dimension that it has for every data set."
            )
        if np.trace(cov) > d * spread**2 * (1.0 + 2.0**-20):
            raise ValueError(
                f"Expected a law of standard deviation at most max_spread={spread}, got a wider "
                "one; declare a larger max_spread, or release fewer dimensions."
            )
        lowest = -_NEGATIVE * plan.noise_scale**2
        if not np.allclose(cov, cov.T, rtol=1e-10, atol=-lowest) or (
            float(np.linalg.eigvalsh(cov)[0]) < lowest
        ):
            raise ValueError(
                "Expected the algorithm to return a covariance that is symmetric and positive "
                "semi-definite, got another; check how it was computed."
            )
        return mean, 0.5 * (cov + cov.T)

    def _draw(
        self, studied: tuple[FloatArray, FloatArray], plan: Plan, data: Any, rng: Any
    ) -> dict[str, FloatArray]:
        return drawn(*studied, plan, rng)

    def _public(self, data: Any) -> dict[str, Any]:
        """Bounds that are functions cannot be written down; numbers can."""
        public = super()._public(data)
        return {name: value for name, value in public.items() if not callable(value)}

    def _dimension(self) -> int:
        dimension = _validate.count("dimension", self.dimension)
        if dimension > MOST:
            raise ValueError(
                f"Expected a dimension of at most {MOST}, got {dimension}; release fewer numbers."
            )
        return dimension

    def _spread(self) -> float:
        return _validate.positive("max_spread", self.max_spread)


def drawn(
    mean: FloatArray, cov: FloatArray, plan: Plan, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Independent draws of the law plus noise, exact but for the grid of the noise."""
    n_draws = plan.shapes["draws"][0]
    return {"draws": draw_gaussian(mean, cov, plan.noise_scale, n_draws, rng)}


def _at(name: str, bound: Bound, added_variance: float) -> float:
    value = bound(added_variance) if callable(bound) else bound
    return _validate.non_negative(name, value)
