"""Worst cases of Gaussian posteriors: what one record can do to a Gaussian law.

A draw from N(mean, cov + noise^2 I) is published. What one record does to that law is described in
one of two ways, and each ends in one pair of Gaussians, record present first, that dominates all
pairs of neighbours:

* an `Envelope`: the mean moves by at most so much in the noised norm, and so many directions
  change their variance by at most such a factor;
* a `RankOneUpdate`: one record moves mean and covariance along one and the same direction, as in
  every conjugate Gaussian regression.

docs/proofs/posteriors.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ndis.loss.cumulant_bound import CumulantBound
from ndis.loss.quadratic import QuadraticLoss

__all__ = ["Envelope", "RankOneUpdate"]

# More than the few roundings of a formula can take away.
_ROUND_UP = 1.0 + 2.0**-48
# Cells on which the largest residual is bounded.
_CELLS = 4000


@dataclass(frozen=True)
class Envelope:
    """The effect of one record on a noised Gaussian law, covariances in the Loewner order.

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
    >>> from ndis.loss.posteriors import Envelope
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


def _expm1(log_ratio: float) -> float:
    """The excess of a ln ratio; infinite beyond the doubles, where laws are as good as disjoint."""
    return math.expm1(log_ratio) if log_ratio < 600.0 else math.inf


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
    >>> from ndis.loss.posteriors import RankOneUpdate
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
        return self.label_bound * bound * _ROUND_UP

    def loss(self, added_variance: float) -> QuadraticLoss:
        """The dominating pair, record present first."""
        excess = self.excess(added_variance)
        return QuadraticLoss(-excess, self.residual() ** 2 * excess, 1.0)
