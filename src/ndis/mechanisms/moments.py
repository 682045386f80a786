"""Second moments of a table: its covariance, and its principal components.

Rows z are measured from a public point, the middle of the limits, in units of the limits, and no
row is longer than l. Released are the second moments sum z z^T and, where they are asked for, the
sums and the number of rows. One row moves them by |z|^2 <= l^2, |z| <= l and 1: noise on all of
them is one mean shift, D^2 = l^4/s^2 + l^2/s_m^2 + 1/s_n^2. Everything else follows from what was
released. docs/proofs/graph-and-covariance.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray, wrong
from ndis.answer import DATE, ESTIMATE, Answer
from ndis.calibration import ROUND_UP
from ndis.guarantee import NeighbourRelation
from ndis.loss import QuadraticLoss
from ndis.mechanisms.intervals import COVERED, Intervals
from ndis.mechanisms.manners import Transformer
from ndis.mechanisms.run import Forecast, Plan, Run
from ndis.mechanisms.sketch import Estimate
from ndis.mechanisms.spectrum import Spectrum
from ndis.mechanisms.tabular import TableEstimator
from ndis.mechanisms.target import Part, Target
from ndis.randomness import (
    add_noise,
    add_symmetric_noise,
)
from ndis.tables import GRID_NORM, Columns, Rows, Table
from ndis.tables.arrays import on_host
from ndis.tables.sums import NORM_BINS, count_norms

__all__ = ["PrivateCovariance", "PrivatePCA", "SecondMoments", "moved", "row_shift"]

# Shares of the squared budget: the number of rows, the sums if the mean is wanted, and the counts
# of norms if a radius is bought; the second moments have the rest.
_COUNT, _SUMS, _NORMS = 0.04, 0.16, 0.05
# What a unit of variance cut off counts against a unit of noise: the cut is spread over directions.
_CUT = 0.3
# Two roundings to the grid and a scaled row move a row by less than this many roots of d.
_GRID_STEPS = 4.0


@dataclass(kw_only=True, eq=False, repr=False)
class SecondMoments(TableEstimator):
    """What covariance and principal components share: the plan, the draw and the laws."""

    n_components: Any
    center: bool
    radius: str
    relation = str(NeighbourRelation.ADD_REMOVE)
    weighs = True

    # -- before the data ---------------------------------------------------------------------

    def _placed(self) -> tuple[bool, bool]:
        return False, True

    def _takes_weights(self) -> bool:
        return super()._takes_weights() and not self.shifts

    @property
    def shifts(self) -> bool:
        """Whether neighbours are tables in which a row moves."""
        known = (str(NeighbourRelation.ADD_REMOVE), str(NeighbourRelation.ROW_SHIFT))
        relation = _validate.one_of("relation", str(self.relation), known)
        return relation == NeighbourRelation.ROW_SHIFT

    @property
    def buys_norm(self) -> bool:
        """Whether a radius is bought."""
        buys = _validate.one_of("radius", self.radius, ("declared", "private")) == "private"
        if buys and self.shifts:
            raise ValueError(
                "Expected radius='declared' for rows that move, got 'private'; a radius is bought "
                "for rows that come or go."
            )
        return buys

    def parts(self, recipe: Columns) -> list[Part]:
        """How far one row moves each sum, and its share of the squared budget."""
        length = recipe.norm
        matrix, sums = length**2, length
        if self.shifts:
            sums = row_shift(recipe)
            matrix = moved(length, sums)
        shares = {"count": 0.0 if self.shifts or self.n_rows is not None else _COUNT}
        shares["sums"] = (_SUMS + _COUNT - shares["count"]) if self.center else 0.0
        shares["matrix"] = 1.0 - shares["count"] - shares["sums"]
        bought = _NORMS if self.buys_norm else 0.0
        parts = [
            Part("matrix", matrix * ROUND_UP, shares["matrix"] * (1.0 - bought)),
            Part("sums", sums * ROUND_UP, shares["sums"] * (1.0 - bought)),
            Part("count", 1.0, shares["count"] * (1.0 - bought)),
            Part("norms", 1.0, bought),
        ]
        return [part for part in parts if part.share > 0]

    def _goal(self, rows: Rows) -> Target:
        """What is asked for; how far a row moves in scaled units must be known beforehand."""
        return self._target(None if self.shifts else rows)

    def _on_matrix(self, rows: Rows, reason: str) -> Plan:
        d, parts = len(rows.features.names), self.parts(rows.features)
        known: dict[str, tuple[int, ...]] = {"matrix": (d, d), "sums": (d,), "count": ()}
        known |= {"norms": (NORM_BINS,)}
        shapes = {str(part.name): known[str(part.name)] for part in parts}
        return Plan.buying(
            parts,
            self._goal(rows),
            self.noise_scale,
            method="matrix",
            shapes=shapes | ({"radius": ()} if self.buys_norm else {}),
            reason=reason,
            relation=self.relation,
        )

    # -- with the data -----------------------------------------------------------------------

    def prepare(self, X: Any, y: Any = None, *, plan: Plan | None = None) -> Run:
        """Open the table, and say what will happen to it; reads no row and spends nothing.

        Parameters
        ----------
        X : table
            As in `TableEstimator.prepare`.
        y : object
            Ignored, for scikit-learn's pipelines.
        plan : Plan, optional
            One that was made before for such a table.
        """
        return super().prepare(X, plan=plan)

    def _study(self, table: Table, plan: Plan) -> Any:
        bought = "norms" in plan.noise_scale
        if bought and table.once:
            raise ValueError(
                "Expected a table that can be read twice for radius='private', got one that can be "
                "read only once; write it to a file first, or pass radius='declared'."
            )
        studied = table.sum(count_norms)["norms"] if bought else table.moments
        self._check_rows(table.n_rows)
        return studied

    def _draw(
        self, studied: Any, plan: Plan, table: Table, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        noise, arrays = plan.noise_scale, {}
        recipe = table.rows.features
        grid = GRID_NORM / recipe.norm  # grid units of the longest row
        if "norms" in noise:
            arrays["norms"] = add_noise(studied, noise["norms"], rng)
            radius = best_radius(arrays["norms"], noise, recipe.norm, len(recipe.names))
            arrays["radius"] = np.array(radius)
            table = table.with_rows(Rows(replace(recipe, norm=radius)))
            studied, recipe = table.moments, replace(recipe, norm=radius)
        unit = recipe.norm / GRID_NORM
        noisy = add_symmetric_noise(studied["gram"], grid**2 * noise["matrix"], rng)
        noisy *= unit**2
        arrays["matrix"] = noisy
        if "sums" in noise:
            arrays["sums"] = unit * add_noise(studied["sums"], grid * noise["sums"], rng)
        if "count" in noise:
            arrays["count"] = add_noise(studied["count"], noise["count"], rng)
        return arrays

    def _check_rows(self, n_rows: int) -> None:
        super()._check_rows(n_rows)
        if self.shifts and not n_rows:  # which is public, as below
            raise ValueError("The table has no rows; hand over at least one.")

    def _public(self, data: Table) -> dict[str, Any]:
        """Neighbours whose rows move have equally many: their number is public."""
        known = {"n_rows": data.n_rows} if self.shifts else {}
        return {**super()._public(data), **known}

    # -- what follows from the release ---------------------------------------------------------

    def _finish(self, rows: Rows) -> None:
        arrays, noise = self.release_.arrays, self.noise_scale_
        recipe = rows.features
        cut = 1.0
        if "radius" in arrays:
            radius = float(arrays["radius"])
            cut = radius / recipe.norm
            recipe = replace(recipe, norm=radius)
        self.radius_ = recipe.norm
        # A row in the table's own units is middle + width z.
        self._middle, self._width = recipe.middle, GRID_NORM / (self.radius_ * recipe.scale)
        public = self.release_.parameters.get("n_rows")
        count = float(arrays["count"]) if public is None else float(public)
        self._count_noise = noise.get("count", 0.0)
        self._n_rows = max(count, 1.0)
        self._sum_noise = cut * noise.get("sums", 0.0)
        self._mean = (
            arrays["sums"] / self._n_rows if "sums" in arrays else np.zeros(len(recipe.names))
        )
        self._factor = arrays.get("sketch")
        if self._factor is None:
            self._matrix_noise = cut**2 * noise["matrix"]
        else:
            self._matrix_noise = noise["sketch"] ** 2

    def _scatter(self) -> FloatArray:
        """The matrix of `scatter` in scaled units, made of the release anew: it is large."""
        if self._factor is None:
            raw = self.release_.arrays["matrix"].copy()
        else:
            raw = self._factor @ self._factor.T / self._factor.shape[1]
            np.einsum("ii->i", raw)[:] -= self._matrix_noise
        known = np.outer(self._mean, self._mean)
        known *= self._n_rows
        raw -= known
        # The noise of the sums adds its variance to their square: on average this is zero.
        np.einsum("ii->i", raw)[:] += self._sum_noise**2 / self._n_rows
        return raw

    def _error(self, directions: FloatArray) -> FloatArray:
        """Standard errors of the scatter along directions, one a row, in scaled units."""
        squared = np.sum(directions**2, axis=1)
        if self._factor is None:
            first = squared * self._matrix_noise
        else:
            r = self._factor.shape[1]
            first = math.sqrt(2.0 / r) * np.mean((directions @ self._factor) ** 2, axis=1)
        along = directions @ self._mean
        second = 2.0 * along * np.sqrt(squared) * self._sum_noise
        return np.asarray(np.sqrt(first**2 + second**2 + (along**2 * self._count_noise) ** 2))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCovariance(SecondMoments):
    """The covariance of a table, which answers the variance in any direction.

    Parameters
    ----------
    epsilon, delta : float
        What is to be promised, for all that is released together.
    limits, data_norm, columns, levels, n_rows
        As in `TableEstimator`. With limits, columns are measured from their middle and in units of
        their half-widths while they are summed; answers are in the table's own units.
    method : {"auto", "matrix", "sketch"}
        Noise on the matrix of second moments, which is "auto", or, with the package ndis-papers,
        its random projection.
    relation : {"add-remove", "row-shift"}
        Who is protected: the presence of a row, or a row that moves by a vector of norm at most 1
        in the table's own units.
    center : bool, default True
        Whether variances are those about the mean, which is then released under the same promise;
        otherwise they are about the public point: the middle of the limits, or zero.
    radius : {"declared", "private"}
        "private" buys a smaller radius than the declared bound from noisy counts of norms, and
        scales longer rows down to it: less noise, and variances of long rows come out too small.
    n_components : int, default 738
        The number r of columns of a sketch: its relative errors are about sqrt(2/r).
    noise_scale, random_state, ledger
        As in `PrivateEstimator`.

    Attributes
    ----------
    release_ : Release
        What may be published.
    covariance_ : ndarray of shape (d, d)
        Positive semi-definite, with a small error in the Frobenius norm.
    mean_ : ndarray of shape (d,)
        The mean, whose errors `intervals` tells; the public point if ``center=False``.
    radius_ : float
        The norm to which rows were scaled down, in units of the limits.
    feature_names_ : tuple of str
        The columns' names, levels included.
    guarantee_, noise_scale_

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateCovariance
    >>> table = np.random.default_rng(0).uniform(0, 1, (10_000, 3))
    >>> private = PrivateCovariance(
    ...     epsilon=1.0, delta=1e-6, limits=[(0, 1)] * 3, random_state=0
    ... ).fit(table)
    >>> value, error = private.variance([1.0, 0.0, 0.0])
    >>> bool(abs(value - 1 / 12) < 3 * error < 0.01)
    True
    """

    methods = ("matrix",)

    n_components: int = 738
    center: bool = True
    radius: str = "declared"
    method: str = "auto"
    relation: str = "add-remove"

    # -- before the data ---------------------------------------------------------------------

    def _plan(self, rows: Rows) -> Plan:
        reason = "Noise on the matrix has less error than a sketch wherever rows come or go."
        if self.method != "auto":
            reason = "Noise on the matrix was asked for."
        elif self.shifts:
            reason = "Noise on the matrix is known, whatever the table; a sketch errs by a share."
        return self._on_matrix(rows, reason)

    def forecast(self, n_features: int | None = None, *, n_rows: int | None = None) -> Forecast:
        """The standard error to be expected of the variance along a column.

        Parameters
        ----------
        n_features : int, optional
            How many columns there are, where `limits` or `columns` do not name them.
        n_rows : int, optional
            About how many rows the table has; the declared `n_rows` if not given.
        """
        rows, n = self._rows_declared(n_features), self._expected_rows(n_rows)
        other, length = self._other, rows.features.norm
        plan = (other or self)._plan(rows)
        if other is not None:
            return other._forecast(rows, plan, n)
        noise, widths = plan.noise_scale, (GRID_NORM / (length * rows.features.scale)) ** 2
        low = high = float(noise["matrix"])
        more = 2.0 * length * noise.get("sums", 0.0), length**2 * noise.get("count", 0.0)
        high = math.hypot(high, *more)
        return Forecast(
            {
                "standard error of a variance": (
                    low * float(widths.min()) / n,
                    high * float(widths.max()) / n,
                )
            },
            (self._assumed_rows(n), "a mean and a variance between zero and the bound on the rows"),
        )

    # -- what follows from the release ---------------------------------------------------------

    def _finish(self, rows: Rows) -> None:
        super()._finish(rows)
        if self._factor is None:
            whole = Spectrum(self._scatter(), self._matrix_noise, overwrite=True).matrix
        else:
            values, vectors = np.linalg.eigh(self._scatter())
            whole = (vectors * np.maximum(values, 0.0)) @ vectors.T
        whole *= np.outer(self._width, self._width)
        whole /= self._n_rows
        self.covariance_ = whole
        self.feature_names_ = rows.features.names
        self._dates = self._dated(rows.features.columns)
        self.mean_ = self._middle + self._width * self._mean
        spread = np.hypot(self._sum_noise, self._mean * self._count_noise)
        self._mean_error = self._width * spread / self._n_rows

    def intervals(self, level: float = 0.95, of: str = "population") -> Intervals:
        """Intervals for the mean of each column, from the release alone.

        Parameters
        ----------
        level : float, default 0.95
        of : {"population", "table"}
            "population": the mean of the law from which rows were drawn; sampling and the noise of
            privacy are covered. "table": the mean of this table, values clipped to their limits.
        """
        if not self.center:
            raise ValueError(
                "Expected center=True for intervals of the mean, got center=False, which releases "
                "none; ask for variances instead."
            )
        _validate.one_of("of", of, list(COVERED))
        sampling = np.diag(self.covariance_) / self._n_rows * (of == "population")
        return Intervals.of_normal(
            self.feature_names_,
            self.mean_[None],
            np.hypot(self._mean_error, np.sqrt(sampling))[None],
            self._n_rows > 2.0 * self._count_noise,
            level=level,
            of=of,
            labels=("mean",),
        )

    def answers(self) -> list[Answer]:
        """Means with intervals, the covariance, and the variance of each column."""
        names = self.feature_names_
        means = self.intervals().answers(["mean"]) if self.center else []
        means = [each._replace(units=dict.fromkeys(self._dates, DATE)) for each in means]
        return [
            *means,
            Answer.of("covariance", names, names, self.covariance_),
            Answer.of_estimate("variance", names, self.variance(np.eye(len(names)))),
        ]

    def scatter(self, x: ArrayLike) -> Estimate:
        """The sum of squared deviations along x, without bias: `variance` times the rows.

        Parameters
        ----------
        x : array_like of shape (d,) or (k, d)
            Directions in the table's own units; they need not have length 1.

        Returns
        -------
        value, standard_error : ndarray of shape () or (k,)
            The estimate may be negative where the noise is larger than the scatter.
        """
        given = _validate.floats("x", x)
        rows = np.atleast_2d(given)
        if given.ndim > 2 or rows.shape[1] != len(self._width):
            raise ValueError(
                f"Expected directions with {len(self._width)} entries, one for each column, got "
                f"shape {given.shape}; give every column its weight."
            )
        rows = rows * self._width
        value = np.einsum("ki,ij,kj->k", rows, self._scatter(), rows)
        return Estimate(
            value.reshape(given.shape[:-1]), self._error(rows).reshape(given.shape[:-1])
        )

    def variance(self, x: ArrayLike) -> Estimate:
        """The variance along x, without bias but for the noise of the number of rows.

        Parameters
        ----------
        x : array_like of shape (d,) or (k, d)
            As in `scatter`.

        Returns
        -------
        value, standard_error : ndarray of shape () or (k,)
        """
        if self._n_rows <= 2.0 * self._count_noise:
            raise ValueError(
                "Expected a number of rows that stands out from its noise, got one that does not; "
                "use scatter."
            )
        value, error = (part / self._n_rows for part in self.scatter(x))
        return Estimate(value, np.hypot(error, value * self._count_noise / self._n_rows))

    def removal_losses(self, X: Any) -> QuadraticLoss:
        """The loss of every removal of a row, present first; of a sketch, by a column of it."""
        run = self.prepare(X)
        table, plan = run.data, run.plan
        noise, unit = plan.noise_scale, table.rows.features.norm / GRID_NORM
        if "norms" in noise:
            raise ValueError(
                "Expected radius='declared', got 'private', which is no Gaussian as a whole; audit "
                "it by running it."
            )
        if (other := self._other) is not None:
            losses: QuadraticLoss = other.removal_losses(run)  # type: ignore[attr-defined]
            return losses
        squares = unit**2 * table.measure(lambda block: block.squares()[None], 1)[0]
        away = (squares / noise["matrix"]) ** 2
        if "sums" in noise:
            away += squares / noise["sums"] ** 2
        if "count" in noise:
            away += noise["count"] ** -2.0
        return QuadraticLoss.from_shift(np.sqrt(away))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePCA(Transformer, SecondMoments):
    """Principal components of a table, private for every row.

    Parameters
    ----------
    n_components : int, optional
        How many components; all if not given.
    epsilon, delta : float
        What is to be promised, for all that is released together.
    limits, data_norm, columns, levels, n_rows
        As in `TableEstimator`. With limits, columns are measured from their middle and in units of
        their half-widths, and components and variances are those of such columns.
    center : bool, default False
        Whether moments are those about the mean, which is then paid for; otherwise they are about
        the public point: the middle of the limits, or zero.
    radius : {"private", "declared"}
        "private" spends a twentieth of the squared budget on noisy counts of norms, and scales rows
        down to the radius that they suggest. Long rows then count for less in the variances.
    noise_scale, random_state, ledger
        As in `PrivateEstimator`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, d)
        Unit vectors, the largest entry positive; `intervals` tells the errors of their entries.
    explained_variance_ : ndarray of shape (n_components,)
        Variances along the components as released; `intervals` tells their errors.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Their shares of the estimated total.
    above_noise_ : ndarray of bool, of shape (n_components,)
        Whether a component's variance is larger than that of noise alone can be.
    mean_, scale_ : ndarray of shape (d,)
        What `transform` subtracts from a row, and what it divides by.
    radius_ : float
        The norm to which rows were scaled down.
    release_, guarantee_, noise_scale_

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivatePCA
    >>> table = np.random.default_rng(0).normal(size=(10_000, 3)) @ np.diag([1.0, 2.0, 9.0])
    >>> pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, data_norm=50.0, random_state=0).fit(table)
    >>> np.abs(pca.components_).round(1), pca.transform(table).shape
    (array([[0., 0., 1.]]), (10000, 1))
    """

    n_components: int | None = field(default=None, kw_only=False)
    center: bool = False
    radius: str = "private"

    def _plan(self, rows: Rows) -> Plan:
        d = len(rows.features.names)
        if self.n_components is not None and _validate.count("n_components", self.n_components) > d:
            raise wrong("n_components")(
                f"Expected n_components <= {d} columns, got {self.n_components}; ask for fewer."
            )
        reason = "Components are those of a matrix of second moments with noise"
        bought = ", of rows scaled down to a norm that is bought" if self.buys_norm else ""
        return self._on_matrix(rows, f"{reason}{bought}.")

    def forecast(self, n_features: int | None = None, *, n_rows: int | None = None) -> Forecast:
        """The standard error to be expected of an explained variance.

        Parameters
        ----------
        n_features : int, optional
            How many columns there are, where `limits` or `columns` do not name them.
        n_rows : int, optional
            About how many rows the table has; the declared `n_rows` if not given.
        """
        plan, n = self.plan(n_features), self._expected_rows(n_rows)
        noise = plan.noise_scale
        low = noise["matrix"] / n * (0.01 if "norms" in noise else 1.0)
        within = "rows of a tenth of the declared norm or more" if "norms" in noise else "any rows"
        return Forecast(
            {"standard error of an explained variance": (low, 1.5 * noise["matrix"] / n)},
            (self._assumed_rows(n), within),
        )

    def _finish(self, rows: Rows) -> None:
        super()._finish(rows)
        d, s = len(rows.features.names), self._matrix_noise
        k = d if self.n_components is None else self.n_components
        spectrum = Spectrum(self._scatter(), s, overwrite=True)
        vectors, values = spectrum.vectors[:, ::-1].T, spectrum.values[::-1]
        signs = np.sign(vectors[np.arange(d), np.argmax(np.abs(vectors), axis=1)])
        vectors = vectors * signs[:, None]
        self.components_ = vectors[:k]
        self.explained_variance_ = values[:k] / self._n_rows
        total = float(np.sum(values))
        self.explained_variance_ratio_ = values[:k] / (total if total > 0 else 1.0)
        # The eigenvalues of noise alone end at sqrt(2 d) s.
        self.above_noise_ = spectrum.noisy_values[::-1][:k] > math.sqrt(2.0 * d) * s
        error = self._error(self.components_) * np.where(self.above_noise_, 1.0, 1.5)
        relative = self.explained_variance_ * self._count_noise
        errors = np.hypot(error, relative) / self._n_rows
        # To first order the noise between two eigenvectors turns one towards the other by the gap's
        # reciprocal; where the gap is lost in it, by anything.
        gaps = (values[:k, None] - values) ** 2
        turned = spectrum.variance / (gaps + spectrum.variance)
        turned[np.arange(k), np.arange(k)] = 0.0
        self._errors = np.column_stack([errors, np.sqrt(turned @ vectors**2)])
        self.feature_names_ = rows.features.names
        self.mean_, self.scale_ = self._middle + self._width * self._mean, self._width
        self._n_features_out = k

    def intervals(self, level: float = 0.95, of: str = "table") -> Intervals:
        """Intervals for the variance along each component and for its entries, to first order.

        Parameters
        ----------
        level : float, default 0.95
        of : {"table"}
            The components of this table, rows scaled down to `radius_`: the noise of privacy is
            covered. How far other samples would turn them second moments do not tell.
        """
        _validate.one_of("of", of, ["table"])
        return Intervals.of_normal(
            ("variance", *self.feature_names_),
            np.column_stack([self.explained_variance_, self.components_]),
            self._errors,
            level=level,
            of=of,
            labels=tuple(f"component {index + 1}" for index in range(len(self.components_))),
        )

    def answers(self) -> list[Answer]:
        """Variances along the components, the components, and the errors of both."""
        labels = [f"component {index + 1}" for index in range(len(self.components_))]
        parts = (self.explained_variance_, self._errors[:, 0], self.explained_variance_ratio_)
        components = Estimate(self.components_, self._errors[:, 1:])
        return [
            Answer.of("variance", (*ESTIMATE, "share"), labels, zip(*parts, strict=True)),
            *Answer.of_matrix("components", self.feature_names_, labels, components),
        ]

    def transform(self, X: Any) -> Any:
        """The rows of a table in the coordinates of the components.

        It belongs to the owner of the table: nothing is added to hide it.

        Parameters
        ----------
        X : table
            With the columns of the one that was fitted.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Or a data frame, see `set_output`.
        """
        table, labels = self._open(X)
        table = table.with_rows(self._rows(table, labels), drop_missing=False)
        weights = self.components_ / self.scale_
        parts = [
            weights @ (on_host(block.features) - self.mean_[:, None])
            for block in table.blocks(raw=True)
        ]
        return self._framed(np.hstack([np.empty((len(weights), 0)), *parts]).T, X)

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """Rows in the table's own units from coordinates of the components.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_components)

        Returns
        -------
        ndarray of shape (n_rows, d)
        """
        coordinates = _validate.floats("X", X, (None, len(self.components_)))
        return np.asarray(self.mean_ + self.scale_ * (coordinates @ self.components_))


def row_shift(recipe: Columns) -> float:
    """How far a row on the grid moves, in scaled units, when it moves by 1 in the table's own.

    Clipping to a box and scaling down to a ball bring no two rows farther apart; on the grid both
    rows are rounded.
    """
    length, steps = recipe.norm, _GRID_STEPS * math.sqrt(len(recipe.names))
    reach = (float(np.max(recipe.scale)) + steps) * length / GRID_NORM
    return float(min(reach, 2.0 * length) * ROUND_UP)


def moved(length: float, shift: float) -> float:
    """How far z z^T moves in the Frobenius norm, if a row of this length moves by a shift.

    Examples
    --------
    >>> from ndis.mechanisms.moments import moved
    >>> moved(10.0, 1.0), round(moved(0.5, 1.0), 6)
    (19.0, 0.353553)
    """
    ratio = length / shift
    if ratio < math.sqrt(0.5):
        return math.sqrt(2.0) * length**2
    return shift**2 * max(2.0 * ratio - 1.0, math.sqrt(2.0 * ratio**2 - 0.5))


def best_radius(
    norms: FloatArray, noise: Mapping[str, float], length: float, n_columns: int
) -> float:
    """The radius that balances noise against variance cut off, from noisy counts of norms.

    The noise matrix has norm sqrt(2 d) s at radius `length`, and less by the square of the ratio.
    Counts below two standard errors are taken for empty bins.
    """
    squares = 2.0 ** -np.arange(NORM_BINS)  # of the bins' upper ends, relative to the bound
    counts = np.where(norms > 2.0 * noise["norms"], norms, 0.0)
    cut = np.maximum(0.75 * squares - squares[:, None], 0.0) @ counts
    cost = squares * math.sqrt(2.0 * n_columns) * noise["matrix"] / length**2 + _CUT * cut
    return length * math.sqrt(float(squares[int(np.argmin(cost))]))
