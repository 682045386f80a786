"""A bound on the norm of a row, bought from the data where no public limits are known.

Rows are counted by norm between public thresholds. One row is in one of the counts, so together
they move by at most one, and Gaussian noise on each protects them. Whatever is read off the noisy
counts is post-processing; here it is the first threshold below which lies the wanted share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import least_noise
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import Profile, QuadraticLoss
from ndis.mechanisms.base import PrivateEstimator
from ndis.randomness import RandomState, add_noise
from ndis.tables import Rows, batches, track

if TYPE_CHECKING:
    from ndis.ledger import Ledger


class PrivateNorm(PrivateEstimator):
    """A private quantile of the norms of a table's rows, to be used as `data_norm`.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for the presence of one row.
    thresholds : array_like of shape (k,)
        Public candidates, increasing and positive, such as ``np.geomspace(0.1, 1000, 41)``.
    quantile : float, default 0.99
        The share of rows that shall not be longer than the norm.
    columns, levels, clip, intercept
        How rows are made, as in `ndis.tables.Rows`; say the same to what uses the norm.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    norm_ : float
        One of the thresholds; the largest, if no threshold seems to be enough.
    release_ : Release
        The noisy counts between thresholds; the last one is of rows beyond all of them.
    guarantee_ : Guarantee
    noise_scale_ : float
        Standard deviation of the noise on each count.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateNorm
    >>> table = np.random.default_rng(0).standard_normal((50_000, 4))
    >>> norm = PrivateNorm(
    ...     epsilon=0.2, delta=1e-7, thresholds=np.arange(0.5, 10.5, 0.5), random_state=0
    ... )
    >>> norm.fit(table).norm_
    4.0
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        thresholds: ArrayLike,
        quantile: float = 0.99,
        columns: Sequence[str] | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        clip: Mapping[str, float] | None = None,
        intercept: bool = False,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.thresholds = thresholds
        self.quantile = quantile
        self.columns = columns
        self.levels = levels
        self.clip = clip
        self.intercept = intercept
        self.random_state = random_state
        self.ledger = ledger

    def calibrate(self) -> float:
        """The noise on each count; needs no data."""
        return least_noise(_loss, self.epsilon, self.delta)

    def guarantee(self) -> Guarantee:
        """The guarantee that a release will carry; needs no data."""
        return self._guarantee(self.calibrate())

    def fit(self, X: Any, y: None = None) -> PrivateNorm:
        """Count the rows of a table by norm, and release the noisy counts."""
        scale, thresholds = self.calibrate(), self._thresholds()
        quantile = _validate.probability("quantile", self.quantile)
        self._ask(self._guarantee(scale))
        counts = self._counts(X, thresholds)
        parameters = {"thresholds": thresholds.tolist(), "noise_scale": scale}
        self._release(
            lambda rng: add_noise(counts, scale, rng),
            self._guarantee(scale),
            parameters,
            {"value": counts.shape},
        )
        below = np.cumsum(self.release_.value)
        enough = np.flatnonzero(below[:-1] >= quantile * below[-1])
        self.norm_ = float(thresholds[enough[0] if enough.size else -1])
        self.noise_scale_ = scale
        return self

    def output_law(self, X: Any) -> Gaussian:
        """The law of the noisy counts of X, for auditors."""
        return Gaussian.isotropic(self._counts(X, self._thresholds()), self.calibrate() ** 2)

    def _guarantee(self, scale: float) -> Guarantee:
        return Guarantee(
            self.epsilon, self.delta, NeighbourRelation.ADD_REMOVE, "proven", _loss(scale)
        )

    def _thresholds(self) -> FloatArray:
        thresholds = _validate.floats("thresholds", self.thresholds, ndim=1)
        if not thresholds.size or thresholds[0] <= 0 or np.any(np.diff(thresholds) <= 0):
            raise ValueError(
                "Expected thresholds to be positive and increasing, got "
                f"thresholds={thresholds.tolist()}; sort them and leave out repetitions."
            )
        return thresholds

    def _counts(self, X: Any, thresholds: FloatArray) -> FloatArray:
        table = batches(X, self.columns, levels=self.levels)
        rows = Rows(table.columns, self.levels or {}, self.clip or {}, self.intercept)
        counts = np.zeros(thresholds.size + 1)
        for batch in track(table, "Measuring rows", table.n_rows, size=len):
            for block in rows.blocks(batch):
                with np.errstate(over="ignore"):
                    norms = np.linalg.norm(block, axis=1)
                place = np.searchsorted(thresholds, norms)  # equal to a threshold is below it
                counts += np.bincount(place, minlength=counts.size)
        return counts


def _loss(scale: float) -> Profile:
    """One row moves one count by one."""
    return Profile.both(QuadraticLoss.from_shift(1.0 / scale))
