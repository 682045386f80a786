"""One function per peer: ``delta(epsilon)`` of a cell, from its numbers, each call from scratch.

This file runs inside each peer's own environment, so peers are imported inside their function and
nothing of ndis is imported outside ``ndis_engine``.

A cell has ``eps``, ``fold`` and either ``distance`` (a mean shift), or ``leverage`` and
``components`` (a projection), or ``excess`` and ``shift`` (the numbers that QuadraticLoss stores).
A function raises ``NotApplicable`` for a cell that its peer has no means to compute.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Cell = Mapping[str, Any]
GRID = 1e-4  # the discretisation of the privacy-loss accountants


class NotApplicable(Exception):
    """The peer cannot express this cell."""


# --- Shared descriptions of a cell, in plain double precision ------------------------------------


def chi_square_parameters(cell: Cell) -> tuple[list[tuple[float, float, float, float]], float]:
    """Rows (weight under P, weight under Q, dof, offset^2 under P) and the edge of the loss.

    Under Q the squared offset is the one under P divided by the variance ratio. Completing the
    square is what every generalized chi-square routine needs.
    """
    if "leverage" in cell:
        p = cell["leverage"]
        count = cell["components"] * cell["fold"]
        return [(p / (1 - p) / 2, p / 2, count, 0.0)], count * math.log1p(-p) / 2
    if "excess" not in cell:
        raise NotApplicable
    rows, edge = [], 0.0
    for x, h in zip(cell["excess"], cell["shift"], strict=True):
        lam = 1 + x if x >= 0 else 1 / (1 - x)
        m2 = h / max(1.0, lam)
        rows.append(((lam - 1) / 2, (1 - 1 / lam) / 2, cell["fold"], m2 * (lam / (lam - 1)) ** 2))
        edge -= (lam * m2 / (lam - 1) + math.log(lam)) / 2 * cell["fold"]
    return rows, edge


def projection_profile(leverage: float, components: int) -> Callable[[np.ndarray], np.ndarray]:
    """delta(eps) of a projection by scipy's chi-square, for any sign of eps."""
    from scipy.stats import chi2

    def delta(eps: np.ndarray) -> np.ndarray:
        x = (2 * eps - components * math.log1p(-leverage)) / leverage
        return chi2.sf((1 - leverage) * x, components) - np.exp(eps) * chi2.sf(x, components)

    return delta


# --- The peers -----------------------------------------------------------------------------------


def ndis_engine(cell: Cell) -> float:
    from ndis.loss import QuadraticLoss

    if "distance" in cell:
        loss = QuadraticLoss.from_shift(cell["distance"])
    elif "leverage" in cell:
        loss = QuadraticLoss.from_leverage(cell["leverage"], cell["components"])
    else:
        loss = QuadraticLoss(cell["excess"], cell["shift"], [1] * len(cell["excess"]))
    return float((cell["fold"] * loss).delta(cell["eps"]))


def scipy_closed_forms(cell: Cell) -> float:
    from scipy.stats import norm

    eps = cell["eps"]
    if "distance" in cell:
        d = cell["distance"] * math.sqrt(cell["fold"])
        return float(norm.sf(eps / d - d / 2) - math.exp(eps) * norm.sf(eps / d + d / 2))
    if "leverage" in cell:
        count = cell["components"] * cell["fold"]
        return float(projection_profile(cell["leverage"], count)(np.float64(eps)))
    raise NotApplicable


def dp_accounting_analytic(cell: Cell) -> float:
    from dp_accounting import gaussian_mechanism

    if "distance" not in cell:
        raise NotApplicable
    sigma = 1 / (cell["distance"] * math.sqrt(cell["fold"]))
    return math.exp(gaussian_mechanism._get_log_delta(sigma, cell["eps"]))


def dp_accounting_pld(cell: Cell) -> float:
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    if "distance" in cell:
        pld = privacy_loss_distribution.from_gaussian_mechanism(
            1 / cell["distance"], value_discretization_interval=GRID
        )
    elif "leverage" in cell:
        profile = projection_profile(cell["leverage"], cell["components"])
        # The loss is bounded below; above, the grid goes to where the profile is 1e-22.
        lowest = math.floor(cell["components"] * math.log1p(-cell["leverage"]) / 2 / GRID)
        highest = math.ceil(
            next(e for e in GRID * 2.0 ** np.arange(40) if profile(e) < 1e-22) / GRID
        )
        steps = np.arange(lowest, highest + 1)
        deltas = np.minimum.accumulate(np.maximum(profile(steps * GRID), 0.0))
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(GRID, steps, deltas)
        pld = privacy_loss_distribution.PrivacyLossDistribution(pmf)
    else:
        raise NotApplicable
    return float(pld.self_compose(cell["fold"]).get_delta_for_epsilon(cell["eps"]))


def prv_accountant(cell: Cell) -> float:
    from prv_accountant import GaussianMechanism, PrivacyRandomVariable, PRVAccountant
    from scipy.stats import chi2

    class Projection(PrivacyRandomVariable):
        def __init__(self, leverage: float, components: int) -> None:
            self.weight = leverage / (1 - leverage) / 2
            self.components = components
            self.edge = components * math.log1p(-leverage) / 2

        def cdf(self, t: np.ndarray) -> np.ndarray:
            return chi2.cdf((np.asarray(t, float) - self.edge) / self.weight, self.components)

        def rdp(self, alpha: float) -> float:
            s = alpha - 1
            if 2 * s * self.weight >= 1:
                return math.inf
            return self.edge - self.components * math.log1p(-2 * s * self.weight) / (2 * s)

    if "distance" in cell:
        prv = GaussianMechanism(epsilon=1 / cell["distance"])
    elif "leverage" in cell:
        prv = Projection(cell["leverage"], cell["components"])
    else:
        raise NotApplicable
    accountant = PRVAccountant(
        [prv],
        max_self_compositions=[cell["fold"]],
        eps_error=1e-2 * max(cell["eps"], GRID),
        delta_error=1e-3 * cell["target"],
        eps_max=2 * cell["eps"] + 1,
    )
    _, estimate, _ = accountant.compute_delta(cell["eps"], [cell["fold"]])
    return float(estimate)


def autodp_fourier(cell: Cell) -> float:
    from autodp.autodp_core import Mechanism
    from autodp.transformer_zoo import ComposeAFA

    def cumulant(s: complex) -> complex:
        """ln E_P e^{sL}."""
        if "distance" in cell:
            return cell["distance"] ** 2 * s * (s + 1) / 2
        (weight, _, _, _), *_ = rows
        count = cell["components"]
        return s * count * math.log1p(-cell["leverage"]) / 2 - count / 2 * np.log(
            1 - 2 * weight * s
        )

    if "excess" in cell:
        raise NotApplicable
    rows = [] if "distance" in cell else chi_square_parameters({**cell, "fold": 1})[0]
    mechanism = Mechanism()
    mechanism.name, mechanism.params = "cell", {}
    # The second loss is ln q/p under Q: its cumulant function at s is the first one's at -1 - s.
    mechanism.propagate_updates(
        (lambda t: cumulant(1j * t), lambda t: cumulant(-1 - 1j * t)), "log_phi"
    )
    return float(ComposeAFA()([mechanism], [cell["fold"]]).approx_delta(cell["eps"]))


def gx2_auto(cell: Cell, **options: Any) -> float:
    import gx2

    eps = cell["eps"]
    if "distance" in cell:
        d = cell["distance"] * math.sqrt(cell["fold"])
        laws = [([], [], [], d, sign * d * d / 2) for sign in (1, -1)]
        options = {}  # no quadratic part, so only one method
    else:
        rows, edge = chi_square_parameters(cell)
        weights_p, weights_q, dofs, offsets_p = map(np.array, zip(*rows, strict=True))
        offsets_q = offsets_p * weights_q / weights_p
        laws = [
            (weights_p, dofs, dofs * offsets_p, 0.0, edge),
            (weights_q, dofs, dofs * offsets_q, 0.0, edge),
        ]
    upper = [float(gx2.cdf(eps, *law, side="upper", **options)) for law in laws]
    # Probabilities below the smallest double come back as their decimal logarithm.
    above_p, above_q = (10.0**u if u < 0 else u for u in upper)
    return above_p - math.exp(eps) * above_q


def gx2_imhof(cell: Cell) -> float:
    """The same with Imhof's integral at the tightest tolerance."""
    if "excess" not in cell:
        raise NotApplicable
    return gx2_auto(cell, method="imhof", AbsTol=0.0, RelTol=1e-13)


def gx2_ray(cell: Cell) -> float:
    """The same with gx2's integration over rays, random beyond a few dimensions."""
    if "excess" not in cell:
        raise NotApplicable
    return gx2_auto(cell, method="ray")


def monte_carlo(cell: Cell, samples: int = 1_000_000) -> float:
    rng = np.random.default_rng(0)
    if "distance" in cell:
        d = cell["distance"] * math.sqrt(cell["fold"])
        loss = d * rng.standard_normal(samples) + d * d / 2
    else:
        if len(cell.get("excess", ())) > 20 and cell["target"] < 1e-7:
            raise NotApplicable  # half a minute for an answer of 0
        rows, edge = chi_square_parameters(cell)
        loss = np.full(samples, edge)
        for weight, _, dof, offset in rows:
            if dof == 1:
                loss += weight * (rng.standard_normal(samples) + math.sqrt(offset)) ** 2
            else:
                loss += weight * rng.noncentral_chisquare(dof, dof * offset, samples)
    return float(-np.expm1(np.minimum(cell["eps"] - loss, 0.0)).mean())


PEERS: dict[str, Callable[[Cell], float]] = {
    peer.__name__: peer
    for peer in (
        ndis_engine,
        scipy_closed_forms,
        dp_accounting_analytic,
        dp_accounting_pld,
        prv_accountant,
        autodp_fourier,
        gx2_auto,
        gx2_imhof,
        gx2_ray,
        monte_carlo,
    )
}
