"""What the public can do with a sketch: estimates, each with its standard error.

A sketch M has r independent columns N(0, A) with A = q G + ridge I, where G is the Gram matrix of
the table (of a Poisson subsample at rate q on average). So M M^T is Wishart, and for any vectors
a, b

    E[a^T M M^T b] / r = a^T A b,     Var = (a^T A b)^2 + (a^T A a)(b^T A b)  over r.

Standard errors put the estimate of A into such formulas. A subsample adds a variance that the
sketch cannot tell; since no row is longer than `data_norm` it is at most

    (1-q)/q data_norm^2 min(|a|^2 b^T G b, |b|^2 a^T G a),

and this bound, with the estimate of G in it, is added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.release import Release

MECHANISM = "PrivateProjection"


class Estimate(NamedTuple):
    """An estimate and its standard error, entry by entry."""

    value: FloatArray
    standard_error: FloatArray


class PrincipalComponents(NamedTuple):
    """Directions of the largest second moments, and those moments."""

    components: Estimate
    moments: Estimate


@dataclass(frozen=True, eq=False)
class Sketch:
    """A released sketch of a table: d x r numbers that stand in for its n x d.

    Parameters
    ----------
    matrix : ndarray of shape (d, r)
        What was released: a row a column of the table.
    columns : tuple of str
        Names of the table's columns.
    data_norm : float
        The public bound on the norm of a row.
    ridge : float
        What the noise added to the diagonal.
    rate : float
        The sampling rate of the rows.
    n_rows : int, optional
        The number of rows, where it was declared public.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateProjection
    >>> table = np.random.default_rng(0).uniform(-1, 1, (100_000, 3))
    >>> table[:, 2] += table[:, 0]
    >>> projection = PrivateProjection(
    ...     epsilon=1.0, delta=1e-6, data_norm=3.0, n_components=1000, random_state=0
    ... ).fit(table)
    >>> sketch = projection.sketch_
    >>> truth, (estimate, error) = table.T @ table, sketch.gram()
    >>> bool(np.all(np.abs(estimate - truth) < 4 * error))
    True
    """

    matrix: FloatArray = field(repr=False)
    columns: tuple[str, ...]
    data_norm: float
    ridge: float
    rate: float = 1.0
    n_rows: int | None = None

    def __post_init__(self) -> None:
        matrix = _validate.floats("matrix", self.matrix, ndim=2)
        if len(matrix) != len(self.columns):
            raise ValueError(
                f"Expected a row of the sketch for each of {len(self.columns)} columns, got shape "
                f"{matrix.shape}; transpose it or name the columns."
            )
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def from_release(cls, release: Release) -> Sketch:
        """The sketch in a release of `PrivateProjection`."""
        if release.mechanism != MECHANISM:
            raise ValueError(
                f"Expected a release of {MECHANISM}, got one of {release.mechanism}; "
                "read its arrays instead."
            )
        known = release.parameters
        tested = release.arrays.get("ridge")
        return cls(
            release.arrays["sketch"],
            tuple(known["columns"]),
            known["data_norm"],
            known["ridge"] if tested is None else float(tested),
            known["rate"],
            known["n_rows"],
        )

    @classmethod
    def load(cls, path: str | Path) -> Sketch:
        """Read the sketch from a file that `Release.save` wrote."""
        return cls.from_release(Release.load(path))

    @property
    def n_components(self) -> int:
        """The number r of columns of the sketch."""
        return int(self.matrix.shape[1])

    # -- estimates ---------------------------------------------------------------------------

    def gram(self) -> Estimate:
        """The Gram matrix of the table, without bias.

        Returns
        -------
        value, standard_error : ndarray of shape (d, d)
        """
        return self.inner_products()

    def inner_products(self, combinations: ArrayLike | None = None) -> Estimate:
        """Inner products between columns of the table or combinations of them, without bias.

        Parameters
        ----------
        combinations : array_like of shape (k, d), optional
            Weights of the columns, a row a combination; the columns themselves if not given.

        Returns
        -------
        value, standard_error : ndarray of shape (k, k)

        Examples
        --------
        >>> import numpy as np
        >>> from ndis import Sketch
        >>> sketch = Sketch(np.array([[3.0, -1.0], [1.0, 1.0]]), ("x", "y"), 1.0, ridge=0.5)
        >>> sketch.inner_products([[1.0, 1.0]]).value
        array([[7.]])
        """
        weights = self._weights(combinations)
        second_moments = self._second_moments()
        ridged = weights @ second_moments @ weights.T
        lengths = np.sum(weights**2, axis=1)
        value = (ridged - self.ridge * (weights @ weights.T)) / self.rate
        sizes = np.sqrt(np.diag(ridged))
        error = np.hypot(ridged, np.outer(sizes, sizes)) / (np.sqrt(self.n_components) * self.rate)
        reach = np.outer(np.sqrt(lengths), np.sqrt(np.maximum(np.diag(value), 0.0)))
        return Estimate(value, np.hypot(error, self._sampling_error() * np.minimum(reach, reach.T)))

    def distances(self) -> Estimate:
        """Squared distances between columns of the table, without bias.

        Squared, because the root of an unbiased estimate is not one.

        Returns
        -------
        value, standard_error : ndarray of shape (d, d)

        Examples
        --------
        >>> import numpy as np
        >>> from ndis import Sketch
        >>> sketch = Sketch(np.array([[3.0, -1.0], [1.0, 1.0]]), ("x", "y"), 1.0, ridge=0.5)
        >>> sketch.distances().value
        array([[0., 3.],
               [3., 0.]])
        """
        d = len(self.columns)
        first, second = np.triu_indices(d, 1)
        differences = np.zeros((first.size, d))
        differences[np.arange(first.size), first] = 1.0
        differences[np.arange(first.size), second] = -1.0
        ridged = np.mean((differences @ self.matrix) ** 2, axis=1)
        squared = (ridged - 2.0 * self.ridge) / self.rate
        spread = np.hypot(
            ridged * np.sqrt(2.0 / self.n_components) / self.rate,
            self._sampling_error() * np.sqrt(2.0 * np.maximum(squared, 0.0)),
        )
        value, error = np.zeros((d, d)), np.zeros((d, d))
        value[first, second] = value[second, first] = squared
        error[first, second] = error[second, first] = spread
        return Estimate(value, error)

    def least_squares(self, target: str, *, debias: bool = True) -> Estimate:
        """Coefficients of the regression of one column on all others.

        Parameters
        ----------
        target : str
            The column to explain.
        debias : bool, default True
            Take the ridge out before solving: consistent as the sketch grows, with the standard
            error of its linear approximation. Without it the estimate is unbiased for the *ridge*
            regression of the (sampled) table, with its exact standard error; this also works
            where the noise is too large to be taken out.

        Returns
        -------
        value, standard_error : ndarray of shape (d - 1,)
            In the order of the other columns.

        Notes
        -----
        With c = (-coefficients, 1), the error of the debiased coefficients is to first order
        G_XX^{-1} (D c)_X, where D is the error of the estimate of A, and
        Cov(D c) = (A c^T A c + A c c^T A) / r. Without debiasing the law given the features is
        multivariate t about them; its covariance is estimated without bias, as in any regression.
        """
        if target not in self.columns:
            raise ValueError(
                f"Expected target to be one of {', '.join(map(repr, self.columns))}, "
                f"got {target!r}; name a column of the sketch."
            )
        d, r = len(self.columns), self.n_components
        if d < 2 or r <= d:
            raise ValueError(
                f"Expected at least two columns and more components than columns, got {d} and {r}; "
                "release a larger sketch."
            )
        y = self.columns.index(target)
        X = np.delete(np.arange(d), y)
        A = self._second_moments()
        unit = float(np.trace(A))  # coefficients do not depend on it, overflow does
        A = A / unit
        G = A - (self.ridge / unit if debias else 0.0) * np.eye(d)
        smallest = float(np.linalg.eigvalsh(G[np.ix_(X, X)])[0])
        if smallest <= 0:
            raise ValueError(
                "Expected features that stand out from the noise, got a sketch in which they do "
                "not; pass debias=False, leave columns out, or release a larger sketch."
            )
        inverse = np.linalg.inv(G[np.ix_(X, X)])
        coefficients = inverse @ G[X, y]
        c = np.insert(-coefficients, y, 1.0)
        residual = float(c @ A @ c)
        if debias:
            spread = residual * A[np.ix_(X, X)] + np.outer((A @ c)[X], (A @ c)[X])
            covariance = inverse @ spread @ inverse / r
            # Rows times residuals: no residual exceeds |c| times data_norm.
            covariance += self._sampling_error() ** 2 / unit * self.rate * float(c @ c) * inverse
        else:
            covariance = residual * inverse / (r - d + 1)
        return Estimate(coefficients, np.sqrt(np.diag(covariance)))

    def principal_components(self, k: int) -> PrincipalComponents:
        """The k directions in which the table's rows have the largest second moments.

        About zero, not about the mean. The noise is the same in all directions, so it moves the
        moments and not the components.

        Parameters
        ----------
        k : int
            How many, at most as many as columns.

        Returns
        -------
        components : Estimate of shape (k, d)
            Unit vectors, the largest entry positive.
        moments : Estimate of shape (k,)
            Eigenvalues of the Gram matrix, largest first.

        Notes
        -----
        Standard errors are those of a large sketch with well separated moments (Anderson 1963):
        a_j sqrt(2/r) for a moment and the root of a_j sum_k a_k / (a_k - a_j)^2 v_k^2 / r for an
        entry of a component, where a are eigenvalues of A and v its eigenvectors.
        """
        d, r = len(self.columns), self.n_components
        if _validate.count("k", k) > d:
            raise ValueError(f"Expected k <= {d} columns, got k={k}; ask for fewer components.")
        values, vectors = np.linalg.eigh(self._second_moments())
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]  # negative by rounding
        signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(d)])
        vectors = vectors * signs
        gaps = values[:, np.newaxis] - values
        np.fill_diagonal(gaps, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = np.sqrt(values)
            spread = np.sqrt((np.outer(roots, roots) / gaps)[:k] ** 2 @ (vectors**2).T / r)
        moments = (values - self.ridge) / self.rate
        error = np.hypot(
            values * np.sqrt(2.0 / r) / self.rate,
            self._sampling_error() * np.sqrt(np.maximum(moments, 0.0)),
        )
        return PrincipalComponents(
            Estimate(vectors[:, :k].T, spread), Estimate(moments[:k], error[:k])
        )

    # -- parts -------------------------------------------------------------------------------

    def _second_moments(self) -> FloatArray:
        """The unbiased estimate of A."""
        result: FloatArray = self.matrix @ self.matrix.T / self.n_components
        return result

    def _sampling_error(self) -> float:
        """What a subsample adds to a standard error, per root of a second moment."""
        return float(np.sqrt((1.0 - self.rate) / self.rate) * self.data_norm)

    def _weights(self, combinations: ArrayLike | None) -> FloatArray:
        d = len(self.columns)
        if combinations is None:
            return np.eye(d)
        weights = _validate.floats("combinations", combinations, ndim=2)
        if weights.shape[1] != d:
            raise ValueError(
                f"Expected combinations of {d} columns, got shape {weights.shape}; "
                "give a weight for every column."
            )
        return weights
