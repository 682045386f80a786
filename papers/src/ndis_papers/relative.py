"""The relative Gaussian mechanism of ndis-2024 for least squares, on a declared set of tables.

The set: tables of which no row moves the least-squares solution by more than `influence` when it is
removed. Neighbours in the set differ by one row, so that the solution of the larger one moves by at
most this, and normal noise of that sensitivity is private relative to the set. As printed, the
noise follows from the table itself (`ndis_papers.least_squares.relative_gaussian_law`), which
protects nobody; here it follows from what was declared, and a table outside the set is refused to
its owner. Solution and movements are computed in integers, without rounding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq, fmpq_mat, fmpz, fmpz_mat
from numpy.typing import ArrayLike

from ndis import Guarantee, Ledger, NeighbourRelation, Profile, QuadraticLoss, Release
from ndis.calibration import ROUND_UP, noise_multiplier
from ndis.mechanisms.publish import publish
from ndis.randomness import draw_exactly
from ndis_papers import _validate
from ndis_papers._validate import FloatArray


class RelativeGaussianRegression:
    """The exact least-squares solution plus normal noise, for a declared set of tables.

    Parameters
    ----------
    epsilon, delta : float
        What is to be promised for tables of the set.
    influence : float
        Declares the set: no row moves the solution, in Euclidean length, by more than this when it
        is removed. It must not be taken from the data.
    random_state, ledger
        As for `ndis.GaussianMechanism`.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers import RelativeGaussianRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (1000, 2))
    >>> y = X @ [0.5, -0.2] + 0.1 * rng.uniform(-1, 1, 1000)
    >>> mechanism = RelativeGaussianRegression(epsilon=1.0, delta=1e-6, influence=0.001)
    >>> release = mechanism.release(X, y)
    >>> release.guarantee.basis, release.arrays["coef"].shape
    ('relative', (2,))
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        influence: float,
        *,
        random_state: Any = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = _validate.positive("epsilon", epsilon)
        self.delta = _validate.probability("delta", delta)
        self.influence = _validate.positive("influence", influence)
        self.random_state = random_state
        self.ledger = ledger

    def calibrate(self) -> float:
        """The standard deviation of the noise of a coefficient."""
        return noise_multiplier(self.epsilon, self.delta) * self.influence * ROUND_UP**2

    def guarantee(self) -> Guarantee:
        """What is promised, for tables of the set."""
        loss = Profile.both(QuadraticLoss.from_shift(ROUND_UP * self.influence / self.calibrate()))
        note = (
            "The set: tables of which no row moves the least-squares solution by more than "
            f"{self.influence:.17g} when it is removed."
        )
        relation = NeighbourRelation.ADD_REMOVE
        return Guarantee(self.epsilon, self.delta, relation, "relative", loss, note=note)

    def release(self, X: ArrayLike, y: ArrayLike) -> Release:
        """Solve, add the noise and publish; a table outside the set is refused to its owner.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Features; there is no intercept unless a column of ones is among them.
        y : array_like of shape (n,)
            The label.
        """
        features, label = _validate.floats("X", X), _validate.floats("y", y)
        if features.ndim != 2 or label.shape != features.shape[:1]:
            raise ValueError(
                f"Expected X of shape (n, d) and y of shape (n,), got shapes {features.shape} and "
                f"{label.shape}; pass one label for each row."
            )
        solution = solved_within(features, label, self.influence)
        scale = self.calibrate()

        def draw(rng: np.random.Generator) -> dict[str, FloatArray]:
            coef = draw_exactly(
                lambda z: [arb(x) + arb(scale) * z[k] for k, x in enumerate(solution)],
                len(solution),
                scale,
                rng,
            )
            return {"coef": coef}

        return publish(
            draw,
            self.guarantee(),
            type(self).__name__,
            {"influence": self.influence},
            {"coef": (len(solution),)},
            random_state=self.random_state,
            ledger=self.ledger,
        )

    def __repr__(self) -> str:
        """Show the parameters."""
        return f"{type(self).__name__}({self.epsilon:g}, {self.delta:g}, {self.influence:g})"


def solved_within(features: FloatArray, label: FloatArray, influence: float) -> list[fmpq]:
    """The least-squares solution, if no row's removal moves it by more than `influence`; exact.

    Without row i the solution moves by A^-1 x_i e_i/(1 - p_i), A the Gram matrix, e_i the residual
    and p_i the leverage of the row. Everything is an integer over powers of two and det A.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis_papers.relative import solved_within
    >>> solved_within(np.array([[1.0], [1.0], [1.0]]), np.array([0.0, 1.0, 2.0]), 0.5)
    [1]
    """
    rows, x_bits = _integers(features)
    values, y_bits = _integers(label[:, None])
    gram, moment = rows.transpose() * rows, rows.transpose() * values
    det = gram.det()
    n, d = features.shape
    inside = n > d and det != 0
    if inside:
        inverse, common = fmpq_mat(gram).inv().numer_denom()
        left, theta = rows * inverse, inverse * moment  # over `common`, which may share factors
        fitted, whole = rows * theta, int(common)
        largest = Fraction(influence) ** 2 * Fraction(4) ** (y_bits - x_bits)
        for i in range(n):
            w = [int(left[i, k]) for k in range(d)]
            room = whole - sum(int(rows[i, k]) * w[k] for k in range(d))  # 1 - p
            e = whole * int(values[i, 0]) - int(fitted[i, 0])
            moved = sum(v * v for v in w) * e * e  # over (room * whole)^2
            if room <= 0 or moved > largest * (room * whole) ** 2:
                inside = False
    if not inside:
        raise ValueError(
            "Expected a table of the declared set, got one in which a row moves the solution by "
            "more than the declared influence, or columns depend on each other; declare a larger "
            "influence."
        )
    unit = fmpq(2) ** (x_bits - y_bits)
    return [fmpq(theta[k, 0], common) * unit for k in range(d)]


def _integers(table: FloatArray) -> tuple[fmpz_mat, int]:
    """Doubles as integers over 2^bits, exactly."""
    parts = [[value.as_integer_ratio() for value in row] for row in table.tolist()]
    bits = max((b.bit_length() - 1 for row in parts for _, b in row), default=0)
    return fmpz_mat([[fmpz(a * ((1 << bits) // b)) for a, b in row] for row in parts]), bits
