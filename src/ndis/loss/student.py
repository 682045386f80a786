"""Sketch-and-solve at a finite number of components: two multivariate t laws.

Solving least squares on r Gaussian combinations of the rows of [B, b] gives x_opt plus an error
that, given the combinations of B, is normal with the inverse of a Wishart matrix as covariance.
Its law is multivariate t with r-d+1 degrees of freedom, location x_opt and scale
||e||^2 (B^T B)^{-1} / (r-d+1). In units of ||e||^2 (B^T B)^{-1}, with y the special coordinate, u
the squared norm of the d-1 others, v, w as in `least_squares`, and mu^2 = m^2/r, densities are

    with the row      (1 + y^2 + u)^{-(r+1)/2}                                 times a constant,
    without it        (1 + (y-mu)^2/w + u/v)^{-(r+1)/2} / sqrt(w v^{d-1})      times the same one.

The set where one is more than e^eps times the other is bounded by a quadric that is linear in u.
Given y, u/(1+y^2) has a beta prime law, so delta is one integral over y of incomplete beta
functions, whose integrand is nowhere negative. It is split where the set begins or ends.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaln, stdtr, stdtrit

from ndis import _validate
from ndis._validate import FloatArray
from ndis.loss.least_squares import SHARE, TriangleLoss, chained, special_extremes

# Nodes on each piece; what is cut off on either side, and what the quadrature is trusted to.
_NODES = 160
_CUT, _WIDEST = 1e-40, 0.5 * math.pi - 1e-12
_ACCURACY = 1e-9
# Pairs evaluated at a time: a few megabytes of nodes.
_CHUNK = 256


class SketchAndSolveLoss(TriangleLoss):
    """The worst case of sketch-and-solve with r components over rows of leverage at most s.

    Examples
    --------
    >>> from ndis.loss.student import SketchAndSolveLoss
    >>> f"{SketchAndSolveLoss(9.0**-2, n_features=2, n_components=1269).delta(1.0):.2e}"
    '1.54e-07'
    """

    __slots__ = ()
    kind = "sketch-and-solve"
    tolerance = 0.03
    floor = math.log(1e-30)

    def __init__(
        self, excess: float, n_features: int, n_components: int, backwards: bool = False
    ) -> None:
        super().__init__(excess, n_features, n_components, backwards)
        if self.n_components < self.n_features:
            raise ValueError(
                f"Expected at least as many components as features, got n_components="
                f"{self.n_components} and {self.n_features} features; take more components."
            )

    def log_delta_at(self, q: ArrayLike, p: ArrayLike, epsilon: float) -> FloatArray:
        """Ln delta(epsilon) of the two t laws, in this loss's direction."""
        q, p = np.broadcast_arrays(
            _validate.floats_within("q", q, 0.0, 1.0), _validate.floats_within("p", p, 0.0, 1.0)
        )
        v, w = (1.0 - q) / (1.0 - p), (1.0 - q) / (1.0 - p) ** 2
        return self._pair(v, w, p * (q - p) / (1.0 - p) ** 2, epsilon)

    def cell_bounds(self, cells: FloatArray, epsilon: float, log_scale: float) -> FloatArray:
        """The largest shift, and steps from any v and w in the cell to one of each."""
        d, r = self.n_features, self.n_components
        p_low, p_high, q_low, q_high = cells
        p_high = np.minimum(p_high, q_high)
        w_low, w_high, square = special_extremes(cells, 1)
        v_low = (1.0 - q_high) / (1.0 - p_low)
        v_high = np.minimum((1.0 - q_low) / (1.0 - p_high), 1.0)  # p <= q
        room = 1.0 + epsilon - log_scale + SHARE
        steps = [_step(w_low, w_high, 1, r, room)]
        if d > 1:
            steps.append(_step(v_low, v_high, d - 1, r - d + 2, room))
        v, w = np.sqrt(v_low * v_high), np.sqrt(w_low * w_high)
        # The laws are compared at an epsilon of its own in every cell.
        main = self._pair(v, w, square, epsilon - sum(step for step, _ in steps))
        return chained(main + _ACCURACY, epsilon, steps, self.backwards)

    def _pair(
        self, v: FloatArray, w: FloatArray, square: FloatArray, epsilon: ArrayLike
    ) -> FloatArray:
        if self.backwards:  # in units of the other law
            v, w, square = 1.0 / v, 1.0 / w, square / w
        v, w, square, eps = np.broadcast_arrays(v, w, square, np.asarray(epsilon, dtype=np.float64))
        flat = [a.reshape(-1) for a in (v, w, np.sqrt(square), eps)]
        pieces = [
            student_log_delta(
                *[a[i : i + _CHUNK] for a in flat],
                n_features=self.n_features,
                n_components=self.n_components,
            )
            for i in range(0, v.size, _CHUNK)
        ]
        return np.concatenate(pieces).reshape(v.shape)


def student_log_delta(
    v: FloatArray,
    w: FloatArray,
    mu: FloatArray,
    eps: FloatArray,
    *,
    n_features: int,
    n_components: int,
) -> FloatArray:
    """Ln delta(eps) of the pair in the module's docstring, standard law first, for flat arrays."""
    d, r = n_features, n_components
    dof = r - d + 1
    log_ratio = (2.0 * eps - (d - 1) * np.log(v) - np.log(w)) / (r + 1)
    ratio = np.exp(log_ratio)
    # The set is where g(y) + slope u > 0.
    slope = 1.0 / v - ratio
    square, linear, constant = 1.0 / w - ratio, -2.0 * mu / w, 1.0 + mu**2 / w - ratio
    edge = min(math.atan(-float(stdtrit(dof, _CUT)) / math.sqrt(dof)), _WIDEST)
    cut = 2.0 * float(stdtr(dof, -math.tan(edge) * math.sqrt(dof)))
    angles = np.sort(
        np.stack([np.full(v.shape, -edge), *_root_angles(square, linear, constant, edge)]), axis=0
    )
    angles = np.concatenate([angles, np.full((1, v.size), edge)])
    node, weight = _smooth_rule()
    width = np.diff(angles, axis=0)  # (pieces, pairs)
    phi = angles[:-1, :, None] + width[..., None] * node
    y = np.tan(phi)
    v_, w_, mu_, eps_ = (a[:, None] for a in (v, w, mu, eps))
    z = (y - mu_) / np.sqrt(w_)
    # Densities in phi: y^2 + 1 = 1/cos^2. The standard one is cos^(dof-1) times a constant.
    log_p = (dof - 1.0) * np.log(np.cos(phi))
    log_q = -0.5 * (dof + 1.0) * np.log1p(z * z) - 0.5 * np.log(w_) - 2.0 * np.log(np.cos(phi))
    g = (square[:, None] * y + linear[:, None]) * y + constant[:, None]
    if d == 1:
        inside_p = inside_q = (g > 0).astype(np.float64)
    else:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            beyond = slope[:, None] > 0  # the set is u beyond the bound, or else below it
            bound = np.maximum(-g / slope[:, None], 0.0)
            inside_p = _half_line(bound / (1.0 + y * y), beyond, d - 1, dof + 1)
            inside_q = _half_line(bound / v_ / (1.0 + z * z), beyond, d - 1, dof + 1)
    inside = np.exp(log_p) * inside_p - np.exp(eps_ + log_q) * inside_q
    # Each slice of the set has p >= e^eps q on it: what is negative is rounding.
    total = np.einsum("ijk,k,ij->j", np.maximum(inside, 0.0), weight, width)
    log_constant = -float(betaln(0.5, 0.5 * dof))
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log(total) + log_constant, math.log(cut)))


def _root_angles(
    square: FloatArray, linear: FloatArray, constant: FloatArray, edge: float
) -> tuple[FloatArray, FloatArray]:
    """Where g changes sign, as angles within the window; its end where it does not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        under = linear**2 - 4.0 * square * constant
        half = -0.5 * (linear - np.sqrt(np.maximum(under, 0.0)))  # linear <= 0: no cancellation
        roots = [np.where(under > 0, root, np.inf) for root in (half / square, constant / half)]
    found = [np.arctan(np.nan_to_num(root, nan=np.inf)) for root in roots]
    return np.clip(found[0], -edge, edge), np.clip(found[1], -edge, edge)


@functools.cache
def _smooth_rule() -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre on [0, 1] after a map that is flat at both ends.

    The incomplete beta functions have powers of square roots where the set begins; s ~ t^4 there
    makes them smooth.
    """
    x, weight = np.polynomial.legendre.leggauss(_NODES)
    t = 0.5 * (x + 1.0)
    node = t**4 * (35.0 - 84.0 * t + 70.0 * t**2 - 20.0 * t**3)
    return node, 0.5 * weight * 140.0 * (t * (1.0 - t)) ** 3


def _step(
    low: FloatArray, high: FloatArray, n: int, dof: int, room: float
) -> tuple[FloatArray, FloatArray]:
    """An epsilon and the ln delta at it for changing the scale of n coordinates within a cell.

    Given the other coordinates these n are multivariate t with `dof` degrees of freedom, up to a
    factor that both laws share; so it is a scale family of a single beta prime variable, whose
    logarithm has a log-concave density, and the largest ratio is the worst.
    """
    log_ratio = 0.5 * np.log(high / low) + 1e-15
    # Beyond the largest value of the loss, which is finite for t laws, nothing is left.
    largest = 0.5 * max(n, dof) * log_ratio * (1.0 + 1e-12)
    step = np.minimum(np.expm1(log_ratio) * (room + math.sqrt(2.0 * n * room)), largest)
    # B = |.|^2 has the density B^(n/2-1) (1+B)^-(n+dof)/2; the loss of B against ratio B exceeds
    # the step where 1 + B/ratio > c (1 + B): on a half-line, to the right if c > 1.
    deltas = []
    for ratio in (np.exp(log_ratio), np.exp(-log_ratio)):
        c = np.exp((2.0 * step - n * np.log(ratio)) / (n + dof))
        s = 1.0 / ratio
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = (c - 1.0) / (s - c)
            some = bound > 0
            bound = np.where(some, bound, 0.0)
            mass = _half_line(bound, c > 1.0, n, dof)
            other = _half_line(bound * s, c > 1.0, n, dof)
        # The last term is more than rounding can take from the difference.
        deltas.append(np.where(some, mass - np.exp(step) * other + 1e-12 * mass, 0.0))
    with np.errstate(divide="ignore"):
        return step, np.asarray(np.log(np.maximum(np.maximum(*deltas), 1e-300)))


def _half_line(bound: FloatArray, right: NDArray[np.bool_], n: int, dof: int) -> FloatArray:
    """Pr[B > bound] where `right`, else Pr[B < bound], B beta prime with n/2 and dof/2."""
    a, b, x = 0.5 * n, 0.5 * dof, 1.0 / (1.0 + bound)
    return np.asarray(np.where(right, betainc(b, a, x), betainc(a, b, bound * x)))
