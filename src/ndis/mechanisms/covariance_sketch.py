"""What the public can do with the sketch of a covariance matrix.

It is the sketch of the centred table, so its estimates are those of `Sketch`; here they get their
names in statistics, and are divided by the number of rows where that is known.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.mechanisms.sketch import Estimate, PrincipalComponents, Sketch
from ndis.release import Release

MECHANISM = "PrivateCovariance"


@dataclass(frozen=True)
class CovarianceSketch:
    """A released covariance: d x r numbers from which any directional variance can be estimated.

    Parameters
    ----------
    matrix : ndarray of shape (d, r)
        What was released: a row a column of the table.
    columns : tuple of str
        Names of the table's columns.
    weight : float
        The noise, as the paper counts it: w^2 was added to every directional scatter.
    n_rows : Estimate, optional
        The number of rows, with error 0 where it is public; None where it is private.
    sums : Estimate, optional
        The sums of the columns, where they were released.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateCovariance
    >>> table = np.random.default_rng(0).normal(size=(200_000, 3)) @ np.diag([1.0, 2.0, 3.0])
    >>> sketch = PrivateCovariance(
    ...     epsilon=1.0, delta=1e-6, n_components=1000, random_state=0
    ... ).fit(table).sketch_
    >>> value, error = sketch.variance([0.0, 0.0, 1.0])
    >>> bool(abs(value - 9.0) < 3 * error < 2.0)
    True
    """

    matrix: FloatArray = field(repr=False)
    columns: tuple[str, ...]
    weight: float
    n_rows: Estimate | None = None
    sums: Estimate | None = field(default=None, repr=False)

    @classmethod
    def from_release(cls, release: Release) -> CovarianceSketch:
        """The sketch in a release of `PrivateCovariance`."""
        if release.mechanism != MECHANISM:
            raise ValueError(
                f"Expected a release of {MECHANISM}, got one of {release.mechanism}; "
                "read its arrays instead."
            )
        known, arrays = release.parameters, release.arrays
        sums = n_rows = None
        if known["n_rows"] is not None:
            n_rows = Estimate(np.array(float(known["n_rows"])), np.array(0.0))
        if "sums" in arrays:
            noise = np.full(arrays["sums"].shape, known["sum_noise"])
            sums = Estimate(arrays["sums"], noise)
        if "count" in arrays:
            n_rows = Estimate(arrays["count"], np.array(known["count_noise"]))
        return cls(arrays["sketch"], tuple(known["columns"]), known["weight"], n_rows, sums)

    @classmethod
    def load(cls, path: str | Path) -> CovarianceSketch:
        """Read the sketch from a file that `Release.save` wrote."""
        return cls.from_release(Release.load(path))

    @property
    def n_components(self) -> int:
        """The number r of columns of the sketch."""
        return int(self.matrix.shape[1])

    # -- estimates ---------------------------------------------------------------------------

    def scatter(self, x: ArrayLike) -> Estimate:
        """The sum of squared deviations from the mean along x, without bias.

        The paper's directional variance, which is not divided by the number of rows.

        Parameters
        ----------
        x : array_like of shape (d,) or (k, d)
            Directions; they need not have length 1.

        Returns
        -------
        value, standard_error : ndarray of shape () or (k,)
            The estimate may be negative where the noise is larger than the scatter.
        """
        directions = _validate.floats("x", x)
        rows = np.atleast_2d(directions)
        if directions.ndim > 2 or rows.shape[1] != len(self.columns):
            raise ValueError(
                f"Expected directions with {len(self.columns)} entries, one a column, got shape "
                f"{directions.shape}; give every column its weight."
            )
        forms = np.mean((rows @ self.matrix) ** 2, axis=1)
        value = forms - self.weight**2 * np.sum(rows**2, axis=1)
        error = np.sqrt(2.0 / self.n_components) * forms
        shape = directions.shape[:-1]
        return Estimate(value.reshape(shape), error.reshape(shape))

    def variance(self, x: ArrayLike) -> Estimate:
        """The variance along x: `scatter` divided by the number of rows.

        Needs the number of rows: public by declaration or relation, or released with the mean.

        Returns
        -------
        value, standard_error : ndarray of shape () or (k,)
        """
        return _ratio(self.scatter(x), self._n_rows())

    def mean(self) -> Estimate:
        """The mean of each column, where `PrivateCovariance(mean=True)` released it.

        Returns
        -------
        value, standard_error : ndarray of shape (d,)
        """
        if self.sums is None:
            raise ValueError(
                "Expected a release with a mean, got one without; release it with mean=True."
            )
        return _ratio(self.sums, self._n_rows())

    def scatter_matrix(self) -> Estimate:
        """All sums of products of deviations, without bias, entry by entry.

        Returns
        -------
        value, standard_error : ndarray of shape (d, d)
        """
        return self._sketch().gram()

    def principal_components(self, k: int) -> PrincipalComponents:
        """The k directions of largest scatter; not what this release is made for.

        The paper warns that the released matrix is neither a low-rank approximation of the
        covariance nor a matrix on which to compute its principal components: it is there to test
        directions that were chosen before looking at it. Standard errors are those of a sketch
        with many more components than columns.

        Returns
        -------
        components : Estimate of shape (k, d)
        moments : Estimate of shape (k,)
            Scatter along the components, largest first.
        """
        warnings.warn(
            "The released matrix is made to test given directions; its principal components need "
            "not be near those of the data, as the paper says itself.",
            stacklevel=2,
        )
        return self._sketch().principal_components(k)

    # -- parts -------------------------------------------------------------------------------

    def _sketch(self) -> Sketch:
        # Nothing was subsampled, so that the bound on the rows enters no error.
        return Sketch(self.matrix, self.columns, data_norm=1.0, ridge=self.weight**2)

    def _n_rows(self) -> Estimate:
        if self.n_rows is None:
            raise ValueError(
                "Expected a release that tells the number of rows, got one that keeps it private; "
                "use scatter, declare n_rows public, or release the mean too."
            )
        if self.n_rows.value <= 2.0 * self.n_rows.standard_error:
            raise ValueError(
                "Expected a number of rows that stands out from its noise, got one that does not; "
                "use scatter."
            )
        return self.n_rows


def _ratio(top: Estimate, bottom: Estimate) -> Estimate:
    """A quotient, its error to first order."""
    value = top.value / bottom.value
    error = np.hypot(top.standard_error, value * bottom.standard_error) / bottom.value
    return Estimate(value, error)
