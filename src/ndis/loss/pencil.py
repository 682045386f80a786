"""Proven deltas from covariance matrices: the eigenvalue problem is enclosed too.

A basis B in floating point nearly diagonalises both covariances. In ball arithmetic, and from
the exact doubles of the matrices,

    B^T S2 B = V2 + E2,    B^T S1 B = V1 + E1,    V1, V2 diagonal, E1, E2 off-diagonal and tiny,

and everything in Lambda(s) is a determinant or a quadratic form of M(s) = (1+s) S2 - s S1. With
F = D^{-1/2} ((1+s) E2 - s E1) D^{-1/2}, D = (1+s) V2 - s V1, and f >= |F| (Frobenius),

    |ln det(I + F)| <= f^2 / (2 (1 - f)),      |y^T (I + F)^{-1} y - y^T y| <= |y|^2 f / (1 - f),

so that Lambda is the one of the diagonal pair (V1, V2) up to an explicit radius. The derivation,
and what happens on the ray to infinity, stand in docs/proofs/certified-bounds.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import acb, arb, arb_mat
from numpy.typing import NDArray

from ndis.loss import certified
from ndis.loss.quadratic import QuadraticLoss

FloatArray = NDArray[np.float64]

_BITS = 192
_REFINEMENTS = 5
_TINY = 1e-24


def log_delta_bounds(
    first: FloatArray,
    second: FloatArray,
    difference: FloatArray,
    basis: FloatArray,
    eps: float,
    copies: int = 1,
) -> tuple[float, float]:
    """Proven bounds on ln delta(eps) of N(m1, first) against N(m2, second), difference m1 - m2.

    `first` and `second` are matrices, and `basis` is any matrix whose columns nearly
    diagonalise both: the better it is, the narrower the bounds, which hold for every one.
    With `copies` independent draws of either law Lambda is so many times as large, and so is
    the bound on its error.
    """
    with certified.precision(_BITS):
        S1, S2, B = (arb_mat(m.tolist()) for m in (first, second, basis))
        G1, G2, B, off = _best_basis(S1, S2, B)
        mean = B.transpose() * arb_mat([[v] for v in difference.tolist()])
        d = difference.size
        pair = _pair(
            [G1[i, i] for i in range(d)],
            [G2[i, i] for i in range(d)],
            [mean[i, 0] for i in range(d)],
            off,
            copies,
        )
    return certified.delta_of(*pair, eps)


def diagonal_log_delta_bounds(
    first: FloatArray, second: FloatArray, difference: FloatArray, eps: float, copies: int = 1
) -> tuple[float, float]:
    """The same for positive variances instead of matrices."""
    with certified.precision(_BITS):
        v1, v2, mean = ([arb(v) for v in part.tolist()] for part in (first, second, difference))
        pair = _pair(v1, v2, mean, (arb(0), arb(0)), copies)
    return certified.delta_of(*pair, eps)


@dataclass(frozen=True)
class _PairCumulant(certified.LossCumulant):
    """Lambda(s) of the diagonal pair (V1, V2) with mean v, and its distance to the true one.

    The squares of v are those of all copies together.
    """

    v1: list[arb]
    v2: list[arb]
    gap: list[arb]
    squares: list[arb]
    off_first: arb
    off_second: arb
    copies: int

    @property
    def uncertainty(self) -> certified.Uncertainty:
        """What the matrices have off their diagonals."""
        return self

    def error(self, s: acb) -> arb:
        """A bound on |Lambda(s) of the matrices - Lambda(s) of the diagonals|."""
        e1, e2 = self.off_first, self.off_second
        size, size_1 = abs(s), abs(1 + s)
        largest, pull = arb(0), arb(0)
        for v1, v2, gap, square in zip(self.v1, self.v2, self.gap, self.squares, strict=True):
            inverse = 1 / abs(v2 + s * gap)
            largest = largest.max(v1 * inverse)
            pull += square * inverse
        # (1+s) v2 = D + s v1, so |1+s| v2 / |D| is at most one more than |s| v1 / |D|.
        f = ((1 + size * largest) * (e1 + e2)).abs_upper()
        if not f < 0.5:
            return arb("nan")
        logs = _log_det(f) + size * _log_det(e1) + size_1 * _log_det(e2)
        return (self.copies * logs + size * size_1 * pull * f / (1 - f)) / 2

    def rise(self, s: acb) -> arb:
        """How far ln|e^Lambda| can rise above the diagonal pair's value on the ray up from s."""
        e1, e2 = self.off_first, self.off_second
        worst = arb(0)
        for v1, v2 in zip(self.v1, self.v2, strict=True):
            x = v1 / v2 * (1 + arb(0, ((e1 + e2) / (1 - e2)).abs_upper())) - 1
            if not 1 - s.real * x > 0:
                worst = worst.max((1 + x) / abs(x) ** 3)
        whole = sum((q / v2 for q, v2 in zip(self.squares, self.v2, strict=True)), arb(0))
        return self.error(s) + whole / (1 - e2) * worst / (4 * s.imag)


def _log_det(f: arb) -> arb:
    return f * f / (2 * (1 - f))


def _pair(
    v1: list[arb], v2: list[arb], mean: list[arb], off: tuple[arb, arb], copies: int
) -> tuple[_PairCumulant, QuadraticLoss]:
    """A nearly diagonal pair in ball arithmetic, and the diagonal one in doubles."""
    gap = [b - a for a, b in zip(v1, v2, strict=True)]
    wider = [not g.mid() > 0 for g in gap]
    least = [b if w else a for a, b, w in zip(v1, v2, wider, strict=True)]
    sign = [1 if w else -1 for w in wider]
    z = [-k * g / v for k, g, v in zip(sign, gap, least, strict=True)]
    squares = [copies * m**2 for m in mean]
    h = [square / v for square, v in zip(squares, least, strict=True)]
    n = [arb(copies)] * len(z)
    cumulant = _PairCumulant(sign, z, h, n, v1, v2, gap, squares, *off, copies)
    size = np.array([float(ball.mid()) for ball in z])
    excess = np.array(sign) * np.where(size < _TINY, 0.0, size)
    shift = np.array([float(ball.mid()) for ball in h])
    return cumulant, QuadraticLoss(excess[None], shift[None], np.full((1, shift.size), copies))


def _best_basis(S1: Any, S2: Any, B: Any) -> tuple[Any, Any, Any, tuple[arb, arb]]:
    """Both matrices in the best of a few refined bases, the basis, and what is off-diagonal."""
    candidates: list[tuple[float, int, tuple[Any, Any, Any, tuple[arb, arb]]]] = []
    for _ in range(_REFINEMENTS):
        G1, G2, off = _rotated(S1, S2, B)
        candidates.append((float((off[0] + off[1]).upper()), len(candidates), (G1, G2, B, off)))
        if candidates[-1][0] < _TINY:
            break
        B = _refined(G1, G2, B)
    return min(candidates)[2]


def _rotated(S1: Any, S2: Any, B: Any) -> tuple[Any, Any, tuple[arb, arb]]:
    """B^T S B of both matrices, and the Frobenius norms of what is off their scaled diagonals."""
    transposed = B.transpose()
    G1, G2 = transposed * (S1 * B), transposed * (S2 * B)
    return G1, G2, (_off_diagonal(G1), _off_diagonal(G2))


def _off_diagonal(G: Any) -> arb:
    d = G.nrows()
    diagonal = [G[i, i] for i in range(d)]
    if not all(v > 0 for v in diagonal):
        raise ArithmeticError("Expected positive variances in the basis, got one that is not.")
    total = arb(0)
    for i in range(d):
        for j in range(i):
            total += G[i, j] ** 2 / (diagonal[i] * diagonal[j])
    return (2 * total).sqrt().abs_upper()


def _refined(G1: Any, G2: Any, B: Any) -> Any:
    """A better basis; whether it is better is checked, not assumed.

    One step of Newton's method for every pair of directions whose variance ratios are apart,
    and an eigenvalue problem of their own for those that are not.
    """
    d = G1.nrows()
    roots = [G2[i, i].mid().sqrt().mid() for i in range(d)]
    ratio = [(G1[i, i] / G2[i, i]).mid() for i in range(d)]
    step = [[arb(0)] * d for _ in range(d)]
    close = np.eye(d, dtype=bool)
    residual = np.zeros((d, d))
    for j in range(d):
        for i in range(d):
            scale = roots[i] * roots[j]
            a, r = (G1[i, j] / scale).mid(), (-G2[i, j] / scale).mid()
            gap, wanted = ratio[j] - ratio[i], (a + ratio[j] * r).mid()
            if i == j:
                turn = arb(1)
            elif abs(wanted) * (10 * d) < abs(gap):
                turn = (wanted / gap).mid()
            else:
                turn, close[i, j] = r / 2, True
                residual[i, j] = float(wanted)
            step[i][j] = (turn / roots[i]).mid()
    product = B * arb_mat(step)
    for group in _groups(close):
        _turn(product, group, residual, ratio)
    return arb_mat([[product[i, j].mid() for j in range(d)] for i in range(d)])


def _groups(close: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """The sets of two and more directions that are connected by close pairs."""
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(close | close.T, directed=False)
    groups = [np.flatnonzero(label == k) for k in np.unique(label)]
    return [group for group in groups if group.size > 1]


def _turn(B: Any, group: NDArray[np.intp], residual: FloatArray, ratio: list[arb]) -> None:
    """Turn the columns of a group, in place, to diagonalise what is left of it."""
    block = residual[np.ix_(group, group)]
    block = 0.5 * (block + block.T)
    np.fill_diagonal(block, [float((ratio[i] - ratio[group[0]]).mid()) for i in group])
    _, vectors = np.linalg.eigh(block)
    columns = [[B[k, int(i)] for i in group] for k in range(B.nrows())]
    turned = arb_mat(columns) * arb_mat(vectors.tolist())
    for k in range(B.nrows()):
        for j, i in enumerate(group):
            B[k, int(i)] = turned[k, j]
