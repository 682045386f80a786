"""The published mechanisms of several parties: DGM, RMGM and BGM, on arrays.

All columns are measured in half-widths of their public interval, so that an entry moves by at
most 2. Every party adds noise for the widest of them; RMGM mixes the rows by a common matrix of
signs first. What the parties promise together is weaker than what each of them promises: see the
claim about sections 1 and 3. The library's `MultiPartyRegression` tells both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ndis.calibration import noise_multiplier
from ndis_papers import _validate
from ndis_papers._validate import FloatArray
from ndis_papers.additive import classic_noise

METHODS = ("dgm", "rmgm", "bgm")
# What the paper adds to every Hessian.
PUBLISHED_RIDGE = 1e-5
# Rows that are mixed at a time.
_BLOCK = 4096


@dataclass(frozen=True)
class PublishedParties:
    """One published mechanism and its public parameters.

    Parameters
    ----------
    method : {"dgm", "rmgm", "bgm"}
        "rmgm" mixes the rows by random signs; "dgm" and "bgm" add noise to every entry, and "dgm"
        takes its variance off the Hessian.
    epsilon, delta : float
        For a person's attributes at one party.
    n_rows : int
    widest : int
        Columns of the party that has most of them.
    analytic : bool
        The least noise instead of the published, classic one.
    n_components : int, optional
        Mixed rows of "rmgm"; the published choice sqrt(n)/multiplier if not given.

    Examples
    --------
    >>> from ndis_papers.parties import PublishedParties
    >>> rmgm = PublishedParties("rmgm", 1.0, 1e-5, 1_000_000, widest=2)
    >>> rmgm.components, round(rmgm.noise_scale, 2)
    (206, 13.7)
    """

    method: str
    epsilon: float
    delta: float
    n_rows: int
    widest: int
    analytic: bool = False
    n_components: int | None = None

    def __post_init__(self) -> None:
        _validate.one_of("method", self.method, METHODS)

    @property
    def _multiplier(self) -> float:
        find = noise_multiplier if self.analytic else classic_noise
        return find(self.epsilon, self.delta)

    @property
    def noise_scale(self) -> float:
        """The noise of every entry, in half-widths."""
        return 2.0 * math.sqrt(self.widest) * self._multiplier

    @property
    def components(self) -> int:
        """How many rows are released."""
        if self.method != "rmgm":
            return self.n_rows
        return self.n_components or max(2, round(math.sqrt(self.n_rows) / self._multiplier))

    def release(
        self, table: FloatArray, rng: np.random.Generator, mixed: FloatArray | None = None
    ) -> FloatArray:
        """What the parties would publish of a table in half-widths of its columns' intervals.

        Parameters
        ----------
        table : ndarray
        rng : Generator
        mixed : ndarray, optional
            `signed_sums` of this table, where they are known: they do not depend on epsilon.
        """
        rows = table
        if self.method == "rmgm":
            sums = signed_sums(table, self.components, rng) if mixed is None else mixed
            rows = sums / math.sqrt(self.components)
        return np.asarray(rows + self.noise_scale * rng.standard_normal(rows.shape))

    def hessian(self, rows: FloatArray) -> FloatArray:
        """The published Hessian: second moments of the features, freed from noise by "dgm"."""
        features = rows[:, :-1]
        change = PUBLISHED_RIDGE - (self.noise_scale**2 if self.method == "dgm" else 0.0)
        return np.asarray(features.T @ features / self.n_rows + change * np.eye(features.shape[1]))

    def coefficients(self, rows: FloatArray) -> FloatArray:
        """The published estimate of the last column from the others, through the origin."""
        moment = rows[:, :-1].T @ rows[:, -1] / self.n_rows
        return np.asarray(np.linalg.lstsq(self.hessian(rows), moment, rcond=None)[0])


def signed_sums(rows: FloatArray, n_components: int, rng: np.random.Generator) -> FloatArray:
    """Sums of rows with random signs; the matrix of signs is made block by block."""
    total = np.zeros((n_components, rows.shape[1]))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        bits = np.frombuffer(rng.bytes(-(-n_components * len(block) // 8)), dtype=np.uint8)
        signs = np.unpackbits(bits, count=n_components * len(block)).reshape(n_components, -1)
        total += 2.0 * (signs.astype(np.float64) @ block) - block.sum(axis=0)
    return total
