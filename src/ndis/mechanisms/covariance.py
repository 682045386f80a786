"""Directional variances that may be asked by anyone (Blocki et al. 2012).

The scatter matrix S of a table is the Gram matrix of its centred rows. Published is its sketch,
d x r numbers with independent columns N(0, S + w^2 I). Who is protected decides about w:

* row-shift: one row moves by a vector of norm at most 1, wherever it was. The laws' relative
  variances in the worst case are lam and 1/lam, lam + 1/lam = 2 + 1/w^2.
* add-remove: one row of norm at most l comes or goes. Centring makes that a rank-one change of S
  by a vector shorter than 2l: relative variance 1 + 4 l^2/w^2.

docs/proofs/graph-and-covariance.md has the proofs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray
from ndis.calibration import ROUND_UP, least_noise, noise_multiplier
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import Profile, QuadraticLoss
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.covariance_sketch import CovarianceSketch
from ndis.mechanisms.johnson_lindenstrauss import asks_sketch
from ndis.randomness import RandomState, add_noise, draw_sketch
from ndis.tables import GramAccumulator, Rows, batches, track

if TYPE_CHECKING:
    from ndis.ledger import Ledger

RELATIONS = (str(NeighbourRelation.ROW_SHIFT), str(NeighbourRelation.ADD_REMOVE))


@dataclass(frozen=True)
class Moments:
    """First and second moments of a table; they belong to the owner of the data."""

    scatter: FloatArray
    sums: FloatArray
    n_rows: int


@dataclass(frozen=True)
class Noise:
    """What is added to what: w to the sketch, a standard deviation to the sums, if released.

    Attributes
    ----------
    weight : float
    sum_noise : float or None
        Noise of each column's sum.
    count_noise : float or None
        Noise of the row count, where that is private and needed.
    loss : Profile
        The worst case of all that is released together.
    """

    weight: float
    sum_noise: float | None
    count_noise: float | None
    loss: Profile


class PrivateCovariance(PrivateEstimator):
    """A covariance matrix of which directional variances can be asked.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee of all that is released, the mean included.
    data_norm : float, optional
        A public bound on the norm of a row; longer rows are scaled down to it. Needed for
        "add-remove". For "row-shift" it saves noise where it is much less than the noise; without
        it rows of any length are protected.
    n_components : int
        The number r of columns of the sketch: relative errors are about sqrt(2/r).
    relation : {"row-shift", "add-remove"}
        Who is protected: a row that moves by a vector of norm at most 1 (in the units of the
        table), or the presence of a row.
    mean : bool, default False
        Release the mean as well, under the same guarantee.
    mean_share : float, default 0.1
        What the mean may take of the squared budget, between 0 and 1.
    columns, levels, clip
        Which columns to read and how to make numbers of them, as in `ndis.tables.Rows`.
    n_rows : int, optional
        The number of rows, where it is public. Under row-shift it always is: neighbours have
        equally many rows.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    release_ : Release
        What may be published.
    sketch_ : CovarianceSketch
        The same, ready to be asked; the estimator itself answers the same questions.
    guarantee_ : Guarantee
    noise_scale_ : float
        w, the noise of each entry of the sketch.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateCovariance
    >>> private = PrivateCovariance(epsilon=1.0, delta=1e-6, n_components=738)
    >>> f"{private.calibrate():.1f}"
    '115.4'
    >>> table = np.random.default_rng(0).normal(size=(1000, 3))
    >>> private.fit(table).scatter([1.0, 0.0, 0.0]).value.shape
    ()
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        n_components: int,
        data_norm: float | None = None,
        relation: str = "row-shift",
        mean: bool = False,
        mean_share: float = 0.1,
        columns: Sequence[str] | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        clip: Mapping[str, float] | None = None,
        n_rows: int | None = None,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_components = n_components
        self.data_norm = data_norm
        self.relation = relation
        self.mean = mean
        self.mean_share = mean_share
        self.columns = columns
        self.levels = levels
        self.clip = clip
        self.n_rows = n_rows
        self.random_state = random_state
        self.ledger = ledger

    # -- before the data ---------------------------------------------------------------------

    def calibrate(self) -> float:
        """The noise w of the sketch; needs no data."""
        return self._noise().weight

    def worst_case(self) -> Profile:
        """The worst-case privacy loss of the whole release.

        Examples
        --------
        >>> from ndis import PrivateCovariance
        >>> private = PrivateCovariance(epsilon=1.0, delta=1e-6, n_components=738)
        >>> f"{private.worst_case().epsilon(1e-9):.2f}"
        '1.43'
        """
        return self._noise().loss

    def forecast(self, scatter: float = 0.0) -> float:
        """The standard error to be expected of `scatter(x)` for a unit vector x.

        Parameters
        ----------
        scatter : float, default 0
            The scatter that one expects; of a large one the sketch has a relative error besides.
        """
        expected = self.calibrate() ** 2 + _validate.non_negative("scatter", scatter)
        return math.sqrt(2.0 / self._components()) * expected

    # -- with the data -----------------------------------------------------------------------

    def fit(self, X: Any, y: None = None) -> PrivateCovariance:
        """Read the table, spend the budget, release the sketch (and the sums).

        Parameters
        ----------
        X : table
            Anything that `ndis.tables.batches` reads.
        y : None
            Ignored, for scikit-learn's sake.
        """
        noise, r, rows = self._noise(), self._components(), self._rows(X)
        guarantee = Guarantee(
            self.epsilon, self.delta, NeighbourRelation(self.relation), "proven", noise.loss
        )
        self._ask(guarantee)
        moments = self._read(X, rows)

        def draw(rng: np.random.Generator) -> dict[str, FloatArray]:
            arrays = {"sketch": draw_sketch(moments.scatter, noise.weight**2, r, rng)}
            if noise.sum_noise is not None:
                arrays["sums"] = add_noise(moments.sums, noise.sum_noise, rng)
            if noise.count_noise is not None:
                arrays["count"] = add_noise(float(moments.n_rows), noise.count_noise, rng)
            return arrays

        known = moments.n_rows if self._shifts() else self.n_rows
        parameters = {
            "relation": self.relation,
            "data_norm": self.data_norm,
            "n_components": r,
            "columns": list(rows.names),
            "weight": noise.weight,
            "sum_noise": noise.sum_noise,
            "count_noise": noise.count_noise,
            "n_rows": known,
        }
        shapes: dict[str, tuple[int, ...]] = {"sketch": (len(rows.names), r)}
        if noise.sum_noise is not None:
            shapes["sums"] = (len(rows.names),)
        if noise.count_noise is not None:
            shapes["count"] = ()
        self._release(draw, guarantee, parameters, shapes)
        self.sketch_ = CovarianceSketch.from_release(self.release_)
        self.noise_scale_ = noise.weight
        self.n_features_in_ = len(rows.names)
        return self

    @property
    def output_copies(self) -> int:
        """The columns of the factor: independent draws of `output_law`."""
        return self._components()

    def output_law(self, X: Any) -> Gaussian:
        """The law of one column of the sketch; a release has n_components independent ones.

        With mean=True the sums are released besides, independently: see `mean_law`.
        """
        scatter = self._read(X, self._rows(X)).scatter
        d = len(scatter)
        return Gaussian(np.zeros(d), scatter + self._noise().weight ** 2 * np.eye(d))

    def mean_law(self, X: Any) -> Gaussian:
        """The law of the released sums, followed by the count where that is released, too."""
        noise, moments = self._noise(), self._read(X, self._rows(X))
        if noise.sum_noise is None:
            raise ValueError("Expected a release with a mean, got mean=False; pass mean=True.")
        centre, spread = moments.sums, np.full(moments.sums.size, noise.sum_noise)
        if noise.count_noise is not None:
            centre, spread = np.append(centre, moments.n_rows), np.append(spread, noise.count_noise)
        return Gaussian.from_diagonal(centre, spread**2)

    scatter = asks_sketch(CovarianceSketch.scatter)
    variance = asks_sketch(CovarianceSketch.variance)
    scatter_matrix = asks_sketch(CovarianceSketch.scatter_matrix)
    principal_components = asks_sketch(CovarianceSketch.principal_components)

    @property
    def mean_(self) -> FloatArray:
        """The private mean; its standard error is in ``sketch_.mean()``."""
        return self.sketch_.mean().value

    # -- parts -------------------------------------------------------------------------------

    def _components(self) -> int:
        return _validate.count("n_components", self.n_components)

    def _shifts(self) -> bool:
        relation = _validate.one_of("relation", str(self.relation), RELATIONS)
        return relation == NeighbourRelation.ROW_SHIFT

    def _norm(self) -> float:
        if self.data_norm is None:
            raise ValueError(
                "Expected data_norm, a public bound on the norm of a row, got None; "
                "derive it from limits of the columns, or pay for it with PrivateNorm."
            )
        return _validate.positive("data_norm", self.data_norm)

    def _noise(self) -> Noise:
        """Worst-case losses of the parts, and the least noise for all of them together."""
        epsilon = _validate.non_negative("epsilon", self.epsilon)
        delta = _validate.probability("delta", self.delta)
        r, family = self._components(), self._family()
        sums, sum_noise, count_noise = None, None, None
        if self.mean:
            ratio = self._sum_ratio(epsilon, delta)
            sums = QuadraticLoss.from_shift(1.0 / ratio)
            sum_noise, count_noise = self._sum_noise(ratio * ROUND_UP)
        weight = least_weight(family, epsilon, delta, r, sums)
        loss = together(family.loss(weight, r), sums)
        return Noise(weight * ROUND_UP, sum_noise, count_noise, loss)

    def _family(self) -> RowShift | AddRemove:
        """The worst-case loss of the sketch, as a function of w and r."""
        if not self._shifts():
            return AddRemove(self._norm())
        # Scaling a row down to a ball brings no two rows farther apart: a shift stays one of 1.
        return RowShift() if self.data_norm is None else RowShift(self._norm())

    def _sum_ratio(self, epsilon: float, delta: float) -> float:
        """Noise of the sums over their sensitivity."""
        share = _validate.probability("mean_share", self.mean_share)
        return noise_multiplier(epsilon, delta) / math.sqrt(share)

    def _sum_noise(self, ratio: float) -> tuple[float, float | None]:
        """Noise of the sums and of the count, if that is released.

        A private count is measured in units of the longest row: together with the sums, one row
        then moves a vector by at most sqrt(2) times that.
        """
        if self._shifts():
            return ratio, None
        norm = self._norm()
        if self.n_rows is not None:
            return norm * ratio, None
        return math.sqrt(2.0) * norm * ratio, math.sqrt(2.0) * ratio

    def _rows(self, X: Any) -> Rows:
        names = batches(X, self.columns, levels=self.levels).columns
        return Rows(names, self.levels or {}, self.clip or {}, row_norm=self.data_norm)

    def _read(self, X: Any, rows: Rows) -> Moments:
        moments = read_moments(X, rows)
        if self.n_rows is not None and moments.n_rows != _validate.count("n_rows", self.n_rows):
            raise ValueError(
                f"Expected a table of {self.n_rows} rows, as declared public, got another number; "
                "correct n_rows, or leave it out."
            )
        return moments


@dataclass(frozen=True)
class RowShift:
    """The worst case of a row that moves by a vector of norm at most 1, wherever it was.

    lam - 1 = b (b/2 + sqrt(1 + b^2/4)) with b = 1/w, and 1/lam, each for every component. It is
    attained by a row of length b/2 + sqrt(1 + b^2/4) after whitening, or by a very long one that
    turns. Where rows are known to be short the first cannot occur, and the second is bounded:
    centred, a row is no longer than 2 data_norm.

    Examples
    --------
    >>> from ndis.mechanisms.covariance import RowShift
    >>> lam = 1.0 + RowShift().loss(weight=2.0, n_components=10).excess.max()
    >>> f"{lam + 1 / lam:.6f}"
    '2.250000'
    >>> [f"{rows.loss(20.0, 10).excess.max():.4f}" for rows in (RowShift(1.0), RowShift())]
    ['0.0075', '0.0513']
    """

    data_norm: float = math.inf

    def loss(self, weight: float, n_components: int) -> QuadraticLoss:
        """The loss at this noise."""
        b = 1.0 / weight
        worst = 0.5 * b + math.sqrt(1.0 + 0.25 * b * b)
        longest = 2.0 * self.data_norm * b
        if longest >= worst:
            excess = b * worst
        else:
            shortest = max(longest - b, 0.0)
            excess = (longest - shortest) * (longest + shortest) / (1.0 + shortest**2)
        return QuadraticLoss([excess, -excess], 0.0, n_components)


@dataclass(frozen=True)
class AddRemove:
    """The worst case of a row of norm at most `data_norm` that comes or goes, present first.

    Examples
    --------
    >>> from ndis.mechanisms.covariance import AddRemove
    >>> AddRemove(1.0).loss(weight=4.0, n_components=10).excess
    array([0.25])
    """

    data_norm: float

    def loss(self, weight: float, n_components: int) -> QuadraticLoss:
        """The loss at this noise."""
        return QuadraticLoss((2.0 * self.data_norm / weight) ** 2, 0.0, n_components)


def together(sketch: QuadraticLoss, sums: QuadraticLoss | None) -> Profile:
    """The sketch and, if they are released, the sums."""
    return Profile.both(sketch if sums is None else sketch + sums)


@functools.lru_cache(maxsize=256)
def least_weight(
    family: RowShift | AddRemove,
    epsilon: float,
    delta: float,
    n_components: int,
    sums: QuadraticLoss | None,
) -> float:
    """The least w at which all that is released is (epsilon, delta)-private, rounded up.

    Examples
    --------
    >>> from ndis.mechanisms.covariance import RowShift, least_weight
    >>> f"{least_weight(RowShift(), 1.0, 1e-6, 738, None):.1f}"
    '115.4'
    """
    # Of the order of the weight that Blocki et al. (2012) publish, which is 300 times too large.
    guess = math.sqrt(n_components) * math.log(16.0 * n_components / delta) / max(epsilon, 1e-2)
    return least_noise(
        lambda weight: together(family.loss(weight, n_components), sums),
        epsilon,
        delta,
        start=0.1 * guess,
    )


def read_moments(source: Any, rows: Rows) -> Moments:
    """Sums and scatter matrix of a table in one pass.

    Rows are measured from the mean of the first block, so that nothing is lost where the mean is
    large and the scatter is small.
    """
    table = batches(source, rows.columns, levels=rows.levels)
    accumulator = GramAccumulator(Rows(rows.names, intercept=True))
    pivot = None
    for batch in track(table, "Reading", table.n_rows, size=len):
        for block in rows.blocks(batch):
            pivot = block.mean(axis=0) if pivot is None else pivot
            accumulator.update(block - pivot)
    gram = accumulator.finalize()
    n, sums = gram.n_rows, gram.matrix[0, 1:]
    return Moments(gram.matrix[1:, 1:] - np.outer(sums, sums) / n, sums + n * np.asarray(pivot), n)
