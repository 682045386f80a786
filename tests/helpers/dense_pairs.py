"""Random pairs of Gaussians that doubles hardly resolve, and the delta of their matrices as given.

The truth is computed from the exact values of the doubles by mpmath and the tests' oracle; it
shares no code with `ndis`.
"""

import numpy as np
from mpmath import mp, mpf

from ndis import Gaussian, privacy_loss
from oracles import Term, delta_reference
from oracles.chi_square import BallExponent, ChiSquareLaw, Tails, inversion

SEED = 16
DIGITS = 120
ZERO = mpf(10) ** -70  # no eigenvalue of a random matrix of doubles is smaller, unless it is 0
KINDS = ("thin", "shifted", "kernel", "mapped", "removed", "line", "factor", "rounded")
Pair = tuple[Gaussian, Gaussian]


def dense_pair(rng: np.random.Generator) -> tuple[str, Gaussian, Gaussian]:
    """One of the kinds above, of condition up to 1e14, in 2 to 8 dimensions."""
    kind = KINDS[int(rng.integers(len(KINDS)))]
    d = int(rng.integers(2, 9))
    mean = rng.standard_normal(d) * rng.choice([0.0, 0.1, 1.0])
    return kind, *globals()[f"_{kind}"](rng, d, mean)


def _spectrum(rng: np.random.Generator, d: int, least: float) -> tuple[np.ndarray, np.ndarray]:
    """An orthogonal matrix, and eigenvalues from 1 down to `least`."""
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    values = 10 ** rng.uniform(np.log10(least), 0.0, d)
    values[0], values[-1] = 1.0, least
    return basis, values


def _thin(rng: np.random.Generator, d: int, mean: np.ndarray) -> Pair:
    """Directions of 1e-14 and more, a few times as thick under one law as under the other."""
    basis, values = _spectrum(rng, d, 10 ** rng.uniform(-14, -2))
    wider = values * np.exp(rng.uniform(-1.5, 1.5, d))
    P, Q = ((basis * v) @ basis.T for v in (wider, values))
    shift = basis @ (np.sqrt(values) * mean)
    return Gaussian(shift, 0.5 * (P + P.T)), Gaussian(np.zeros(d), 0.5 * (Q + Q.T))


def _shifted(rng: np.random.Generator, d: int, mean: np.ndarray) -> Pair:
    """Equal covariances with a thin direction, and a mean that moves along it."""
    basis, values = _spectrum(rng, d, 10 ** rng.uniform(-14, -2))
    S = (basis * values) @ basis.T
    shift = basis[:, -1] * np.sqrt(values[-1]) * rng.uniform(0.1, 3.0)
    return Gaussian(mean + shift, 0.5 * (S + S.T)), Gaussian(mean, 0.5 * (S + S.T))


def _kernel(rng: np.random.Generator, d: int, mean: np.ndarray) -> Pair:
    """Gram matrices of a smooth kernel with two small nuggets."""
    x = np.sort(rng.uniform(0.0, 1.0, d))
    K = np.exp(-0.5 * (x[:, None] - x) ** 2 / rng.uniform(0.2, 1.0) ** 2)
    nugget = 10 ** rng.uniform(-13, -3)
    wider = nugget * rng.uniform(1.0, 6.0)
    move = mean * np.sqrt(nugget)
    return Gaussian(move, K + wider * np.eye(d)), Gaussian(np.zeros(d), K + nugget * np.eye(d))


def _mapped(rng: np.random.Generator, d: int, mean: np.ndarray) -> Pair:
    """An ordinary pair under a linear map of condition up to 1e7."""
    a, b = rng.standard_normal((2, 2 * d, d))
    first, second = a.T @ a / d, (a + 0.3 * b).T @ (a + 0.3 * b) / d
    left, values = _spectrum(rng, d, 10 ** rng.uniform(-7, 0))
    A = (left * values) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    P, Q = A @ first @ A.T, A @ second @ A.T
    return Gaussian(A @ mean, 0.5 * (P + P.T)), Gaussian(np.zeros(d), 0.5 * (Q + Q.T))


def _removed(rng: np.random.Generator, d: int, mean: np.ndarray) -> Pair:
    """A Gram matrix with a small ridge, and the same without one row."""
    rows = rng.standard_normal((d - 1, d))
    ridge = 10 ** rng.uniform(-13, 0) * np.eye(d)
    G = rows.T @ rows + ridge
    return Gaussian(0.0 * mean, G), Gaussian(0.0 * mean, rows[1:].T @ rows[1:] + ridge)


def _line(rng: np.random.Generator, d: int, mean: np.ndarray) -> Pair:
    """Whole numbers, so exactly singular: one support, or two, or a mean just beside it."""
    k = int(rng.integers(1, d))
    A = rng.integers(-3, 4, (d, k)).astype(float)
    other = A if rng.random() < 0.7 else rng.integers(-3, 4, (d, k)).astype(float)
    weights = rng.choice([1.0, 2.0, 4.0], k)
    move = A @ rng.integers(-1, 2, k)
    if rng.random() < 0.3:
        move = move + 1e-13 * rng.standard_normal(d)
    return Gaussian(move, (A * weights) @ A.T), Gaussian(np.zeros(d), other @ other.T)


def _factor(rng: np.random.Generator, d: int, mean: np.ndarray) -> Pair:
    """Low rank, given by factors."""
    k = int(rng.integers(1, d + 1))
    A = rng.standard_normal((d, k))
    other = A * rng.choice([0.5, 1.0, 2.0], k)
    return Gaussian.from_cholesky(0.0 * mean, other), Gaussian.from_cholesky(0.0 * mean, A)


def _rounded(rng: np.random.Generator, d: int, mean: np.ndarray) -> Pair:
    """Low rank, but for what rounding did: these covariances may be anything."""
    A = rng.standard_normal((d, max(1, d // 2)))
    return Gaussian(0.0 * mean, 2.0 * (A @ A.T)), Gaussian(0.0 * mean, 1.1 * A @ A.T)


def terms_as_given(P: Gaussian, Q: Gaussian) -> list[Term] | str | None:
    """The oracle's terms; None for mutually singular laws, a word for what are no two laws."""
    with mp.workdps(DIGITS):
        S1, S2 = (_covariance(law) for law in (P, Q))
        m = mp.matrix(P.mean.tolist()) - mp.matrix(Q.mean.tolist())
        supports = []
        for S in (S1, S2):
            values, vectors = mp.eigsy(S)
            if min(values) < -ZERO:
                return "not positive semi-definite"
            live = [i for i in range(S.rows) if values[i] > ZERO]
            supports.append([vectors[:, i] for i in live])
            null = [vectors[:, i] for i in range(S.rows) if i not in live]
            other = S2 if S is S1 else S1
            if any(mp.norm(other * v) > ZERO or abs((v.T * m)[0]) > ZERO for v in null):
                return None
        basis = mp.matrix(S1.rows, len(supports[0]))
        for j, vector in enumerate(supports[0]):
            basis[:, j] = vector
        S1, S2, m = basis.T * S1 * basis, basis.T * S2 * basis, basis.T * m
        inverse = mp.inverse(mp.cholesky(S1))
        values, vectors = mp.eigsy(inverse * S2 * inverse.T)
        y = vectors.T * (inverse * m)
        return [
            Term(lambda v=1 / values[i]: +v, lambda h=y[i] ** 2: +h) for i in range(len(values))
        ]


def _covariance(law: Gaussian) -> mp.matrix:
    if law._form == "factor":
        factor = mp.matrix(law._given.tolist())
        return factor * factor.T
    return mp.matrix(law.cov.tolist())


def true_log_delta(terms: list[Term], eps: float) -> mpf:
    """ln delta to 18 digits."""

    def tails(law: ChiSquareLaw, t: mpf, digits: int) -> Tails:
        return inversion(law, t, digits, exponent_type=BallExponent)

    return delta_reference(terms, eps, 18, tails).log()


def outcome(number: int) -> tuple[str, str]:
    """The kind of a pair, and what became of it: inside, refused, or what is wrong."""
    rng = np.random.default_rng([SEED, number])
    kind, P, Q = dense_pair(rng)
    if rng.random() < 0.5:
        P, Q = Q, P
    terms = terms_as_given(P, Q)
    try:
        loss = privacy_loss(P, Q)
    except ValueError:
        return kind, "refused, rightly" if isinstance(terms, str) else "refused"
    if isinstance(terms, str):
        return kind, f"wrong: answered, but {terms}"
    if terms is None:
        return kind, "inside" if loss.delta_bounds(1.0) == (1.0, 1.0) else "wrong: not singular"
    eps = float(rng.choice([0.0, 0.3, 1.0, 3.0]))
    low, high = loss.log_delta_bounds(eps)
    truth, value = true_log_delta(terms, eps), float(loss.log_delta(eps))
    if not low <= truth <= high:
        return kind, f"wrong: ln delta {mp.nstr(truth, 17)} not in [{low}, {high}]"
    return kind, "inside" if low <= value <= high else "wrong: delta outside its bounds"
