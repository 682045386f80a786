"""Private random projection: a sketch of a table that may be published.

The sketch of D (n x d) is D^T times an n x r matrix of normals, plus noise. Its columns are
independent N(0, D^T D + ridge I), so it is drawn as a factor of that d x d matrix times d x r
normals: one pass over the table, and the n x r matrix never exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss import QuadraticLoss
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.projection_methods import METHODS, Method, Task
from ndis.mechanisms.sketch import Sketch
from ndis.randomness import RandomState, draw_sketch, subsample_mask
from ndis.tables import Gram, GramAccumulator, Rows, batches, read_gram, row_leverages, track

if TYPE_CHECKING:
    from ndis.ledger import Ledger


@dataclass(frozen=True)
class Forecast:
    """What a release can be expected to be good for, before it is made.

    Attributes
    ----------
    noise_scale : float
        The expected noise: a standard deviation, per entry of the sketch.
    standard_error : ndarray of shape (d, d)
        Of the entries of `Sketch.gram`.
    relative_error : float
        Root mean square of the error of the whole Gram matrix (Frobenius norm), relative to it.
    """

    noise_scale: float
    standard_error: FloatArray
    relative_error: float


class PrivateProjection(PrivateEstimator):
    """A sketch of a table, private for every person with one row in it.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee: epsilon >= 0, 0 < delta < 1, for the presence of one row.
    data_norm : float
        A public bound on the Euclidean norm of a row; longer rows are scaled down to it. It must
        not be taken from the data (see `PrivateNorm` and `ndis.tables.norm_from_limits`).
    n_components : int
        Number of columns of the sketch; 1 releases one random linear combination of the rows.
    method : {"ridge", "subsample", "ptr"}
        "ridge" adds the least noise that protects every table. "subsample" sketches a secret
        Poisson sample of the rows. "ptr" (propose, test, release) pays for a noisy lower bound on
        the least eigenvalue and adds less where that is large.
    rate : float, default 0.1
        Sampling rate of "subsample".
    columns, levels, clip, intercept
        Which columns to read and how to make numbers of them, as in `ndis.tables.Rows`.
    n_rows : int, optional
        The number of rows, only where it is public: then it becomes part of the release.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    release_ : Release
        What may be published.
    sketch_ : Sketch
        The same, ready to estimate from.
    guarantee_ : Guarantee
    noise_scale_ : float
        The noise that was added.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateProjection
    >>> table = np.random.default_rng(0).uniform(-1, 1, (10_000, 4))
    >>> projection = PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=2.0, n_components=500)
    >>> f"{projection.calibrate():.4f}"
    '17.0120'
    >>> projection.fit(table).sketch_.matrix.shape
    (4, 500)
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        n_components: int,
        data_norm: float | None = None,
        method: str = "ridge",
        rate: float = 0.1,
        columns: Sequence[str] | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        clip: Mapping[str, float] | None = None,
        intercept: bool = False,
        n_rows: int | None = None,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_components = n_components
        self.data_norm = data_norm
        self.method = method
        self.rate = rate
        self.columns = columns
        self.levels = levels
        self.clip = clip
        self.intercept = intercept
        self.n_rows = n_rows
        self.random_state = random_state
        self.ledger = ledger

    # -- before the data ---------------------------------------------------------------------

    def calibrate(self) -> float:
        """The most noise that `fit` will add to an entry of the sketch; needs no data.

        Returns
        -------
        noise_scale : float
            A standard deviation. "ptr" adds less where the table allows it.
        """
        return self._method().noise_scale

    def guarantee(self) -> Guarantee:
        """The guarantee that a release will carry; needs no data."""
        return self._guarantee(self._method())

    def forecast(
        self,
        gram: Gram | ArrayLike | None = None,
        *,
        n_rows: int | None = None,
        n_columns: int | None = None,
    ) -> Forecast:
        """The error to be expected, before any budget is spent.

        Parameters
        ----------
        gram : Gram or array_like of shape (d, d), optional
            A Gram matrix. That of the data themselves makes the forecast the owner's alone.
        n_rows, n_columns : int, optional
            Without a Gram matrix: so many rows of norm `data_norm` that point everywhere alike.

        Examples
        --------
        >>> from ndis import PrivateProjection
        >>> projection = PrivateProjection(
        ...     epsilon=1.0, delta=1e-6, data_norm=1.0, n_components=1000
        ... )
        >>> f"{projection.forecast(n_rows=100_000, n_columns=10).relative_error:.3f}"
        '0.106'
        """
        method, task = self._method(), self._task()
        if gram is not None:
            matrix = gram.matrix if isinstance(gram, Gram) else _validate.floats("gram", gram, 2)
        else:
            d = _validate.count("n_columns", n_columns)
            matrix = _validate.count("n_rows", n_rows) * task.data_norm**2 / d * np.eye(d)
        ridge = method.expected_ridge(matrix)
        ideal = method.rate * matrix + ridge * np.eye(len(matrix))
        size = np.sqrt(np.diag(ideal))
        error = np.hypot(ideal, np.outer(size, size)) / (math.sqrt(task.n_components) * method.rate)
        sampling = math.sqrt((1.0 - method.rate) / method.rate) * task.data_norm
        least = np.sqrt(np.minimum.outer(np.diag(matrix), np.diag(matrix)))
        error = np.hypot(error, sampling * least)
        return Forecast(
            math.sqrt(ridge), error, float(np.linalg.norm(error) / np.linalg.norm(matrix))
        )

    # -- with the data -----------------------------------------------------------------------

    def fit(self, X: Any, y: None = None) -> PrivateProjection:
        """Read the table, spend the budget, release the sketch.

        Parameters
        ----------
        X : table
            Anything that `ndis.tables.batches` reads: arrays, data frames, Arrow, Parquet or CSV
            files, DuckDB, Spark or Dask tables.
        y : None
            Ignored, for scikit-learn's sake.
        """
        method, task = self._method(), self._task()
        self._ask(self._guarantee(method))
        rows = self._rows(X)
        # Whatever is wrong with the table shows before the budget is spent; a sample, which is
        # secret and new, is taken afterwards, and takes another pass.
        gram = self._read(X)
        sampled = method.rate < 1
        if sampled and next(iter(batches(X, self.columns, levels=self.levels)), None) is None:
            raise ValueError(
                "Expected a table that can be read twice, got one that cannot; hand over the table "
                "itself, or take a method without a sample."
            )
        draw_ridge = None if sampled else method.study(gram)
        used: list[float] = []

        def draw(rng: np.random.Generator) -> dict[str, FloatArray]:
            matrix = self._sample(X, rows, method.rate, rng) if sampled else gram.matrix
            ridge = method.noise_scale**2 if draw_ridge is None else draw_ridge(rng)
            used.append(ridge)
            # A ridge below the noise scale's square is what a test has left of it: then the table
            # itself has the difference, but for a failure that delta counts.
            least = max(method.noise_scale**2 - ridge, 0.0)
            sketch = draw_sketch(matrix, ridge, task.n_components, rng, least=least)
            arrays = {"sketch": sketch}
            return arrays | ({"ridge": np.array(ridge)} if method.announces_ridge else {})

        parameters = {
            "method": self.method,
            "data_norm": task.data_norm,
            "n_components": task.n_components,
            "columns": list(rows.names),
            "rate": method.rate,
            "ridge": method.ridge,
            "n_rows": self.n_rows,
        }
        shapes: dict[str, tuple[int, ...]] = {"sketch": (len(rows.names), task.n_components)}
        if method.announces_ridge:
            shapes["ridge"] = ()
        self._release(draw, self._guarantee(method), parameters, shapes)
        self.sketch_ = Sketch.from_release(self.release_)
        self.noise_scale_ = math.sqrt(used[0])
        self.n_features_in_ = len(rows.names)
        return self

    @property
    def output_copies(self) -> int:
        """The columns of the sketch: independent draws of `output_law`."""
        return self.n_components

    def removal_losses(self, X: Any) -> QuadraticLoss:
        """The loss of one column for every row of X, row present first (see `output_copies`).

        For auditors: all removals at the price of one pass, by leverages.
        """
        gram = self._read(X)
        ridge = self._one_law().noise_scale ** 2
        return QuadraticLoss.from_leverage(np.minimum(row_leverages(X, gram, ridge), 1.0))

    def output_law(self, X: Any) -> Gaussian:
        """The law of one column of the sketch of X; a release has n_components independent ones.

        For auditors. With "subsample" and "ptr" the release has no single Gaussian law.
        """
        ridge = self._one_law().noise_scale ** 2
        gram = self._read(X).matrix
        return Gaussian(np.zeros(len(gram)), gram + ridge * np.eye(len(gram)))

    def _one_law(self) -> Method:
        """The method, if its output is one Gaussian."""
        method = self._method()
        if method.rate < 1 or method.announces_ridge:
            raise ValueError(
                f"Expected a method whose output is one Gaussian, got method={self.method!r}; "
                "audit it by samples."
            )
        return method

    # -- parts -------------------------------------------------------------------------------

    def _task(self) -> Task:
        if self.data_norm is None:
            raise ValueError(
                "Expected data_norm, a public bound on the norm of a row, got None; "
                "derive it from limits of the columns, or pay for it with PrivateNorm."
            )
        return Task(
            _validate.non_negative("epsilon", self.epsilon),
            _validate.probability("delta", self.delta),
            _validate.positive("data_norm", self.data_norm),
            _validate.count("n_components", self.n_components),
            self.rate,
        )

    def _method(self) -> Method:
        task = self._task()
        return METHODS[_validate.one_of("method", self.method, METHODS)](task)

    def _guarantee(self, method: Method) -> Guarantee:
        return Guarantee(
            self.epsilon,
            self.delta,
            NeighbourRelation.ADD_REMOVE,
            "proven",
            method.loss,
        )

    def _rows(self, X: Any) -> Rows:
        names = batches(X, self.columns, levels=self.levels).columns
        return Rows(names, self.levels or {}, self.clip or {}, self.intercept, self.data_norm)

    def _read(self, X: Any) -> Gram:
        gram = read_gram(
            X,
            self.data_norm,
            columns=self.columns,
            levels=self.levels,
            clip=self.clip,
            intercept=self.intercept,
        )
        self._check_rows(gram.n_rows)
        return gram

    def _sample(self, X: Any, rows: Rows, rate: float, rng: np.random.Generator) -> FloatArray:
        """The Gram matrix of a Poisson sample, which may be empty."""
        table = batches(X, self.columns, levels=self.levels)
        accumulator, seen = GramAccumulator(rows), 0
        for batch in track(table, "Sampling", table.n_rows, size=len):
            kept = subsample_mask(len(batch), rate, rng)
            seen += len(batch)
            accumulator.update(batch[kept] if isinstance(batch, np.ndarray) else batch.filter(kept))
        self._check_rows(seen)
        d = len(rows.names)
        return accumulator.finalize().matrix if accumulator.n_rows else np.zeros((d, d))

    def _check_rows(self, n_rows: int) -> None:
        if n_rows == 0:
            raise ValueError("The table has no rows; hand over at least one.")
        if self.n_rows is not None and n_rows != _validate.count("n_rows", self.n_rows):
            raise ValueError(
                f"Expected a table of {self.n_rows} rows, as declared public, got another number; "
                "correct n_rows, or leave it out to keep it private."
            )
