"""What the public can do with a sketch: estimates, each with its standard error.

A sketch M has r independent columns N(0, A) with A = G + N, where G is the Gram matrix of the table
and N the covariance of the noise. So M M^T is Wishart, and for any vectors a, b

    E[a^T M M^T b] / r = a^T A b,     Var = (a^T A b)^2 + (a^T A a)(b^T A b)  over r.

Standard errors put the estimate of A into such formulas. What is released is the sketch of the
scaled table, with N = ridge I. A row of the table is T times a scaled row, with a public matrix T:
so T M is a sketch of the table in its own units, with N = ridge T T^T.

Of a secret sample of the rows, each with probability q, M/sqrt(q) estimates the same, with N/q.
What is not in the sample adds (1-q)/q sum_i (a^T x_i)^2 (b^T x_i)^2 to the variance. The public
knows a bound on rows, (a^T x)^2 <= a^T B a, so this is at most (1-q)/q times the lesser of
(a^T B a)(b^T G b) and (b^T B b)(a^T G a): standard errors have that bound in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray, wrong
from ndis.release import Release
from ndis.tables import GRID_NORM, Columns


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
        The sketch in the table's own units: one row for each column of the table.
    columns : tuple of str
        Names of the table's columns.
    ridge : float or ndarray of shape (d, d)
        The covariance of the noise in a column of `matrix`; a number times the identity.
    n_rows : int, optional
        The number of rows, where it was declared public.
    unsampled : float or ndarray of shape (d, d)
        Where it is the sketch of a sample: (1-q)/q times a bound B on the rows, x x^T <= B.

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
    ridge: float | FloatArray = field(repr=False)
    n_rows: int | None = None
    unsampled: float | FloatArray = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        d = len(self.columns)
        object.__setattr__(self, "matrix", _validate.floats("matrix", self.matrix, (d, None)))
        for name in ("ridge", "unsampled"):
            found = _validate.floats(name, getattr(self, name))
            if found.shape not in ((), (d, d)):
                raise ValueError(
                    f"Expected {name} as a number or a matrix of {d} rows, got shape "
                    f"{found.shape}; pass a covariance."
                )
            object.__setattr__(self, name, found if found.ndim else float(found))

    @classmethod
    def from_release(cls, release: Release) -> Sketch:
        """The sketch in a release of `PrivateProjection`."""
        from ndis.mechanisms.projection import PrivateProjection

        sketch: Sketch = PrivateProjection.from_release(release).sketch_
        return sketch

    @classmethod
    def load(cls, path: str | Path) -> Sketch:
        """Read the sketch from a file that `Release.save` wrote."""
        return cls.from_release(Release.load(path))

    @property
    def n_components(self) -> int:
        """The number r of columns of the sketch."""
        return int(self.matrix.shape[1])

    def _repr_html_(self) -> str:
        """The sum of squares of each column, with its standard error."""
        value, error = (np.diagonal(part) for part in self.gram())
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{number:.6g}</td><td>{spread:.2g}</td></tr>"
            for name, number, spread in zip(self.columns, value, error, strict=True)
        )
        return (
            f"<p><b>Sketch</b> of {self.n_components} columns</p><table><tr><th>column</th>"
            f"<th>sum of squares</th><th>standard error</th></tr>{rows}</table>"
        )

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
            Weights of the columns, one row for each combination; the columns if not given.

        Returns
        -------
        value, standard_error : ndarray of shape (k, k)

        Examples
        --------
        >>> import numpy as np
        >>> from ndis import Sketch
        >>> sketch = Sketch(np.array([[3.0, -1.0], [1.0, 1.0]]), ("x", "y"), ridge=0.5)
        >>> sketch.inner_products([[1.0, 1.0]]).value
        array([[7.]])
        """
        weights = self._weights(combinations)
        ridged = weights @ self._second_moments() @ weights.T
        value = ridged - weights @ self._noise() @ weights.T
        bound = weights @ self._matrix("unsampled") @ weights.T
        return Estimate(value, np.sqrt(self._variances(ridged) + _missing(bound, value)))

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
        >>> sketch = Sketch(np.array([[3.0, -1.0], [1.0, 1.0]]), ("x", "y"), ridge=0.5)
        >>> sketch.distances().value
        array([[0., 3.],
               [3., 0.]])
        """
        ridged, noise, bound = (
            np.diag(matrix)[:, np.newaxis] + np.diag(matrix) - 2.0 * matrix
            for matrix in (self._second_moments(), self._noise(), self._matrix("unsampled"))
        )
        missing = bound * np.maximum(ridged - noise, 0.0)
        return Estimate(ridged - noise, np.sqrt(2.0 * ridged**2 / self.n_components + missing))

    def least_squares(self, target: str, *, debias: bool = True) -> Estimate:
        """Coefficients of the regression of one column on all others.

        Parameters
        ----------
        target : str
            The column to explain.
        debias : bool, default True
            Take the ridge out before solving: consistent as the sketch grows, with the standard
            error of its linear approximation. Without it the estimate is unbiased for the *ridge*
            regression of the table, with its exact standard error; this also works
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
        unit = np.sqrt(np.diag(A))  # columns may be measured in very different units
        A = A / np.outer(unit, unit)
        G = A - self._noise() / np.outer(unit, unit) if debias else A
        if float(np.linalg.eigvalsh(G[np.ix_(X, X)])[0]) <= 0:
            raise wrong("debias")(
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
        else:
            covariance = residual * inverse / (r - d + 1)
        # The residual of a row, c^T x, is at most the root of c^T B c.
        largest = float(c @ (self._matrix("unsampled") / np.outer(unit, unit)) @ c)
        true = (A - self._noise() / np.outer(unit, unit))[np.ix_(X, X)]
        covariance = covariance + largest * (inverse @ true @ inverse)
        return Estimate(
            coefficients * unit[y] / unit[X], np.sqrt(np.diag(covariance)) * unit[y] / unit[X]
        )

    def principal_components(self, k: int) -> PrincipalComponents:
        """The k directions in which the table's rows have the largest second moments.

        About zero, not about the mean.

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
        Standard errors are those of a large sketch with well separated moments (after Anderson
        1963): with A in the basis of the components v and moments g, A_jj sqrt(2/r) for a moment
        and the root of sum_k (A_jj A_kk + A_jk^2)/(g_k - g_j)^2 v_k^2 / r for an entry of a
        component.
        """
        d = len(self.columns)
        if _validate.count("k", k) > d:
            raise ValueError(f"Expected k <= {d} columns, got k={k}; ask for fewer components.")
        A = self._second_moments()
        values, vectors = np.linalg.eigh(A - self._noise())
        values, vectors = values[::-1], vectors[:, ::-1]
        signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(d)])
        vectors = vectors * signs
        A = vectors.T @ A @ vectors
        gaps = values[:, np.newaxis] - values
        np.fill_diagonal(gaps, np.inf)
        bound = vectors.T @ self._matrix("unsampled") @ vectors
        own = np.maximum(values, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = (self._variances(A)[:k] / gaps[:k] ** 2) @ (vectors**2).T
            # An entry moves with the products of its component and sum_k v_k[entry] v_k / gap.
            moves = vectors[np.newaxis] / gaps[:k, np.newaxis]
            sizes = np.einsum("jmk,kl,jml->jm", moves, bound, moves), (moves**2) @ own
            spread += np.minimum(
                np.diag(bound)[:k, np.newaxis] * sizes[1], sizes[0] * own[:k, np.newaxis]
            )
        of_moments = np.diag(self._variances(A) + _missing(bound, np.diag(values)))
        return PrincipalComponents(
            Estimate(vectors[:, :k].T, np.sqrt(spread)),
            Estimate(values[:k], np.sqrt(of_moments[:k])),
        )

    # -- parts -------------------------------------------------------------------------------

    def _second_moments(self) -> FloatArray:
        """The unbiased estimate of A."""
        result: FloatArray = self.matrix @ self.matrix.T / self.n_components
        return result

    def _variances(self, moments: FloatArray) -> FloatArray:
        """Of products estimated by the sketch of a table that has these second moments."""
        sizes = np.diag(moments)
        result: FloatArray = (moments**2 + np.outer(sizes, sizes)) / self.n_components
        return result

    def _noise(self) -> FloatArray:
        """The covariance of the noise."""
        return self._matrix("ridge")

    def _matrix(self, name: str) -> FloatArray:
        found = getattr(self, name)
        return np.asarray(found * np.eye(len(self.columns)) if np.ndim(found) == 0 else found)

    def _weights(self, combinations: ArrayLike | None) -> FloatArray:
        d = len(self.columns)
        if combinations is None:
            return np.eye(d)
        return _validate.floats("combinations", combinations, (None, d))


def _missing(bound: FloatArray, gram: FloatArray) -> FloatArray:
    """What a sample adds at most to the variances of these products."""
    one = np.outer(np.diag(bound), np.maximum(np.diag(gram), 0.0))
    return np.asarray(np.minimum(one, one.T))


def own_units(recipe: Columns) -> FloatArray:
    """The matrix T that takes a row of the scaled table to the table's own units."""
    units = np.diag((GRID_NORM / recipe.norm) / recipe.scale)
    if recipe.intercept:
        units[:, 0] += recipe.middle * units[0, 0]
    return units
