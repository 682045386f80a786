"""Claims of the paper on the rank-1 singular multivariate Gaussian mechanism (R1SMG)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln
from scipy.stats import beta, chi2, kstest, kstwo, norm

from ndis import Gaussian, privacy_loss
from ndis.calibration import noise_multiplier
from ndis_papers.additive import AccuracyLoss, classic_noise, matrix_noise, matrix_precision_bound
from ndis_papers.checks.quantities import shift_delta
from ndis_papers.checks.registry import CONFIRMED, CORRECTED, LOOSE, REFUTED, Evidence, Paper
from ndis_papers.radial import RadialLoss
from ndis_papers.rank_one import published_spread, singular_spread, true_spread
from ndis_papers.sketches import inner_epsilon

PAPER = Paper(
    "rank-one-gaussian",
    "Less is More: Revisiting the Gaussian Mechanism for Differential Privacy",
    "Tianxi Ji and Pan Li",
    "USENIX Security 2024",
)


def _true(dimension: int, eps: float, delta: float) -> float:
    """The proven lower end of the true delta of published noise."""
    low, _ = RadialLoss(dimension, published_spread(dimension, eps, delta)).delta_bounds(eps)
    return float(low)


@PAPER.claim("Lemma 1", "Moments of a quadratic form of a Gaussian, by recursion.", CONFIRMED)
def lemma_1() -> Evidence:
    """The first two, the trace read as that of a power, against an exact product rule."""
    A, S, mean = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[1.0, 0.3], [0.3, 0.5]]), [0.4, -1.0]
    mu, AS = np.array(mean), A @ S
    g0 = np.trace(AS) + mu @ A @ mu
    g1 = 2 * (np.trace(AS @ AS) + 2 * mu @ AS @ A @ mu)
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    share = np.outer(weights, weights).ravel() / weights.sum() ** 2
    x = grid @ np.linalg.cholesky(S).T + mu
    form = np.einsum("ij,jk,ik->i", x, A, x)
    gaps = abs(share @ form - g0), abs(share @ form**2 - (g1 + g0 * g0))
    return Evidence(
        f"a form in two variables: moments {g0:.4f} and {g1 + g0 * g0:.4f}, both to 1e-10",
        bool(max(gaps) < 1e-10),
    )


@PAPER.claim("Theorem 6", "x/|x| of a standard normal x is uniform on the sphere.", CONFIRMED)
def theorem_6() -> Evidence:
    """The square of a coordinate must be beta(1/2, (M-1)/2): 20,000 draws, M = 5."""
    x = np.random.default_rng(0).standard_normal((20_000, 5))
    squares = (x / np.linalg.norm(x, axis=1, keepdims=True)) ** 2
    distance = max(float(kstest(squares[:, j], beta(0.5, 2.0).cdf).statistic) for j in range(5))
    limit = float(kstwo.isf(1e-3 / 5, 20_000))
    return Evidence(
        f"largest Kolmogorov distance of five coordinates {distance:.3f}, allowed {limit:.3f}",
        distance < limit,
    )


@PAPER.claim("Theorem 1", "The classic calibration is private for eps < 1.", CONFIRMED)
def theorem_1() -> Evidence:
    """A grid, and how far beyond 1 it holds."""
    worst = max(
        shift_delta(eps, 1 / classic_noise(eps, delta)) / delta
        for eps in (0.01, 0.1, 0.5, 0.99)
        for delta in (0.1, 1e-3, 1e-5, 1e-10)
    )
    beyond = {e: shift_delta(e, 1 / classic_noise(e, 1e-5)) <= 1e-5 for e in (8.0, 9.0)}
    return Evidence(
        f"true over claimed delta at most {worst:.3f}; at 1e-5 it still holds at eps = 8 "
        "and fails at eps = 9",
        worst < 1 and beyond[8.0] and not beyond[9.0],
    )


@PAPER.claim("Theorem 2", "The analytic calibration is exact.", CONFIRMED)
def theorem_2() -> Evidence:
    """delta at the calibrated noise."""
    sigma = noise_multiplier(1.0, 1e-5)
    delta = shift_delta(1.0, 1 / sigma)
    return Evidence(f"sigma = {sigma:.6f} gives {delta:.10e}", 0.999999e-5 < delta <= 1e-5)


def _matrix_factor(m: int) -> float:
    """Published over exact noise for an m x m answer with equal variances."""
    return matrix_noise(1.0, 1e-5, 1.0, (m, m), norm_bound=1.0) / noise_multiplier(1.0, 1e-5)


@PAPER.claim("Theorem 3", "The matrix-variate condition suffices for privacy.", LOOSE)
def theorem_3() -> Evidence:
    """Against the exact closed form of this equal-covariance pair."""
    factors = {m: _matrix_factor(m) for m in (1, 10, 100)}
    shown = ", ".join(f"{factor:.3g} ({m} x {m})" for m, factor in factors.items())
    return Evidence(f"noise larger than needed by {shown}", factors[1] > 1 and factors[100] > 1e5)


@PAPER.claim(
    "Section 7.2",
    "For PCA (2400 x 2400, Delta = 0.1413) the condition allows a product of 0.011.",
    REFUTED,
)
def section_7_2() -> Evidence:
    """The paper's own theorem 3."""
    allowed = matrix_precision_bound(1.6, 1e-7, 0.1413, (2400, 2400), norm_bound=1.0)
    return Evidence(f"theorem 3 allows {allowed:.2e}", allowed < 1e-15)


@PAPER.claim("Proposition 1", "The expected loss is the trace of the noise covariance.", CONFIRMED)
def proposition_1() -> Evidence:
    """A simulation of correlated noise."""
    root = np.array([[1.0, 0.0], [0.7, 0.5]])
    noise = np.random.default_rng(15).standard_normal((100_000, 2)) @ root.T
    mean, trace = float(np.mean(np.sum(noise**2, axis=1))), float(np.trace(root @ root.T))
    return Evidence(f"{mean:.3f} simulated, trace {trace:.3f}", abs(mean / trace - 1) < 0.02)


@PAPER.claim(
    "Theorem 4, analytic",
    "Analytic noise has E[L] >= C_A Delta^2, C_A = (Phi^-1(delta)^2 + eps) M/eps^2.",
    REFUTED,
)
def theorem_4() -> Evidence:
    """A sufficient condition was read as a necessary one."""
    cases = [(0.5, 1e-7), (1.0, 1e-5), (0.1, 0.1)]
    rows = [(noise_multiplier(e, d) ** 2, (float(norm.ppf(d)) ** 2 + e) / e**2) for e, d in cases]
    shown = "; ".join(f"{true:.1f} < {claimed:.1f}" for true, claimed in rows)
    return Evidence(f"sigma^2 per entry against C_A/M: {shown}", all(t < c for t, c in rows))


@PAPER.claim(
    "Theorem 4, classic",
    "Classic noise has E[L] >= C_C Delta^2, C_C = 2 ln(1.25/delta) M/eps^2.",
    CONFIRMED,
)
def theorem_4_classic() -> Evidence:
    """With the least noise of theorem 1 it is an equality: by the moments of a chi-square."""
    eps, delta, M = 0.5, 1e-7, 7921
    loss = AccuracyLoss.of_equal_variances(M, classic_noise(eps, delta) ** 2)
    claimed = 2 * math.log(1.25 / delta) * M / eps**2
    less = noise_multiplier(eps, delta) ** 2 * M / claimed
    return Evidence(
        f"eps = 0.5, delta = 1e-7, M = 7921: E[L] = {loss.mean:.5g} = C_C at the least classic "
        f"noise; the analytic calibration needs {less:.2f} of it",
        abs(loss.mean / claimed - 1) < 1e-12 and less < 1,
    )


@PAPER.claim(
    "Theorem 4, matrix-variate",
    "Matrix-variate noise has E[L] >= C_M Delta^2, C_M = (5/4 H_r + 1/4 H_(r,1/2)) MN/(2 eps).",
    CORRECTED,
)
def theorem_4_matrix() -> Evidence:
    """It bounds the calibration of theorem 3; the mechanism, exactly calibrated, needs less."""
    eps, delta, rows = 1.0, 1e-5, []
    for m in (10, 2400):
        counts = np.arange(1, m + 1)
        bound = (1.25 * (1 / counts).sum() + 0.25 * (counts**-0.5).sum()) / (2 * eps)
        calibrated = matrix_noise(eps, delta, 1.0, (m, m), norm_bound=0.5) ** 2
        rows.append((m, calibrated, bound, noise_multiplier(eps, delta) ** 2))
    shown = "; ".join(
        f"{m} x {m}: {calibrated:.3g} by theorem 3 against C_M/MN = {bound:.3g}, and {least:.3g} "
        "suffice"
        for m, calibrated, bound, least in rows
    )
    return Evidence(
        f"(1, 1e-5), variance per entry {shown}",
        all(calibrated >= bound for _, calibrated, bound, _ in rows) and rows[1][3] < rows[1][2],
    )


@PAPER.claim(
    "Appendix A", "|a|_2 |1/a|_2 >= M for positive a_1, ..., a_M, the step (e) of (5).", CONFIRMED
)
def appendix_a() -> Evidence:
    """Cauchy and Schwarz for (a_i) and (1/a_i); equality if all are equal."""
    rng = np.random.default_rng(31)
    ratios = [
        float(np.linalg.norm(a) * np.linalg.norm(1 / a) / a.size)
        for a in (rng.lognormal(0, scale, 20) for scale in (0.0, 0.1, 1.0, 2.0))
    ]
    shown = ", ".join(f"{ratio:.4g}" for ratio in ratios)
    return Evidence(
        f"left over right {shown} for 20 numbers that spread more and more",
        min(ratios) > 1 - 1e-12 and ratios == sorted(ratios),
    )


@PAPER.claim(
    "Appendix C",
    "The proof of theorem 3 need not bound |f|: with Y - f for Y the terms in gamma^2 vanish.",
    CONFIRMED,
)
def appendix_c() -> Evidence:
    """The identity on random matrices, and what is left of it: the exact closed form."""
    rng = np.random.default_rng(32)
    Y, f1, f2 = rng.standard_normal((3, 4, 3))
    left, right = (np.linalg.inv(a @ a.T + np.eye(len(a))) for a in (Y, Y.T))
    change = f1 - f2

    def form(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.trace(right @ a.T @ left @ b))

    printed = form(Y, change) + form(change, Y) + form(f2, f2) - form(f1, f1)
    rewritten = form(Y - f2, change) + form(change, Y - f1)
    sizes = [matrix_noise(1.0, 1e-5, 1.0, (10, 10), norm_bound=g) for g in (1.0, 10.0, 100.0)]
    shown = ", ".join(f"{size:.3g}" for size in sizes)
    return Evidence(
        f"both forms {printed:.6f}; theorem 3's noise for 10 x 10 is {shown} for gamma = 1, 10, "
        f"100, the exact one {noise_multiplier(1.0, 1e-5):.3g} for every gamma",
        abs(printed - rewritten) < 1e-12 and sizes == sorted(sizes),
    )


@PAPER.claim(
    "Theorem 5", "R1SMG is (eps, delta)-private with sigma* = 2 Delta^2/(eps psi).", REFUTED
)
def theorem_5() -> Evidence:
    """Proven lower bounds at the claimed eps."""
    cases = [(5, 0.19, 1e-5), (10, 0.05, 1e-5), (100, 1e-3, 1e-5)]
    rows = [(M, e, d, _true(M, e, d)) for M, e, d in cases]
    shown = "; ".join(f"M = {M}, claimed ({e:g}, {d:g}): {true:.4g}" for M, e, d, true in rows)
    return Evidence(f"proven delta at least {shown}", all(true > 100 * d for _, _, d, true in rows))


@PAPER.claim("Section 7.1", "The 89 x 89 map is (1e-5, 1e-7)-private under R1SMG.", REFUTED)
def section_7_1() -> Evidence:
    """M = 7921."""
    true = _true(7921, 1e-5, 1e-7)
    return Evidence(f"proven delta >= {true:.4f} at eps = 1e-5", true >= 0.21)


@PAPER.claim("Section 7.2, privacy", "The 2400 x 2400 matrix is (1.6e-7, 1e-7)-private.", REFUTED)
def section_7_2_privacy() -> Evidence:
    """M = 5.76e6."""
    true = _true(5_760_000, 1.6e-7, 1e-7)
    return Evidence(f"proven delta >= {true:.4f} at eps = 1.6e-7", true >= 0.47)


@PAPER.claim("Theorem 5, M = 3", "The same in three dimensions.", CONFIRMED)
def theorem_5_three() -> Evidence:
    """The only dimension tried in which it holds."""
    rows = [(d, _true(3, 0.33, d)) for d in (1e-3, 1e-5, 1e-7)]
    shown = ", ".join(f"{true:.1e} (claimed {d:g})" for d, true in rows)
    return Evidence(f"eps = 0.33: {shown}", all(0 < true <= d for d, true in rows))


@PAPER.claim(
    "Lemma 2", "Pr[|theta - pi/2| >= t] <= sqrt(pi) G(P/2)/G((P-1)/2) cos^(P-2) t.", CONFIRMED
)
def lemma_2() -> Evidence:
    """The exact tail of the angle of a uniform direction."""
    rows = []
    for P, t in ((10, 1.0), (7921, 0.05)):
        exact = 2 * float(beta.sf((1 + math.sin(t)) / 2, (P - 1) / 2, (P - 1) / 2))
        bound = math.exp(
            float(gammaln(P / 2) - gammaln((P - 1) / 2))
            + 0.5 * math.log(math.pi)
            + (P - 2) * math.log(math.cos(t))
        )
        rows.append((exact, bound))
    shown = "; ".join(f"{exact:.2e} <= {bound:.2e}" for exact, bound in rows)
    return Evidence(shown, all(exact <= bound for exact, bound in rows))


@PAPER.claim(
    "Theorem 5, Figure 1, proof",
    "The directions seen from two neighbouring answers are independent.",
    REFUTED,
)
def theorem_5_proof() -> Evidence:
    """Noise of length |n| is seen from both under an angle of about Delta/|n|."""
    M, eps, delta = 7921, 1e-5, 1e-7
    length = math.sqrt(published_spread(M, eps, delta)) * float(norm.isf(0.25))
    median = math.atan2(1.0, length)
    return Evidence(
        f"M = 7921: the median angle between the two directions is {median:.4f}; independent ones "
        f"would be within {3 / math.sqrt(M):.3f} of {math.pi / 2:.3f} almost surely",
        median < 0.1,
    )


@PAPER.claim("Theorem 7", "C_R = 2/(eps psi) decreases with M to 2/eps.", CONFIRMED)
def theorem_7() -> Evidence:
    """1/psi."""
    values = [published_spread(M, 2.0, 1e-7) for M in (4, 10, 100, 10_000)]
    shown = ", ".join(f"{value:.4g}" for value in values)
    return Evidence(
        f"1/psi = {shown} at M = 4, 10, 100, 10000", values == sorted(values, reverse=True)
    )


@PAPER.claim(
    "Theorem 7, exponent",
    "psi is printed with the exponent (M-2)/2 in place of 2/(M-2).",
    CORRECTED,
)
def theorem_7_exponent() -> Evidence:
    """A misprint: with it C_R would grow without bound."""
    eps, delta, logs = 2.0, 1e-7, []
    for M in (10, 100):
        base = (
            math.log(delta) + float(gammaln((M - 1) / 2) - gammaln(M / 2)) - math.log(math.pi) / 2
        )
        logs.append((math.log(2 / eps) - base * (M - 2) / 2) / math.log(10))
    meant = [published_spread(M, eps, delta) for M in (10, 100)]
    return Evidence(
        f"eps = 2, delta = 1e-7, M = 10 and 100: C_R = {meant[0]:.3g} and {meant[1]:.3g} as in "
        f"theorem 5; 10^{logs[0]:.0f} and 10^{logs[1]:.0f} as printed",
        logs[1] > logs[0] > 10 and meant[1] < meant[0],
    )


@PAPER.claim(
    "Section 5.4, Figure 3",
    "No leak through the null space of v: a given direction lies in it with probability 0.",
    CORRECTED,
)
def section_5_4() -> Evidence:
    """True, and no protection: what counts is how small the noise along a direction is."""
    M, eps, delta, runs = 7921, 1e-5, 1e-7, 200_000
    rng = np.random.default_rng(33)
    cosine = np.sqrt(rng.beta(0.5, (M - 1) / 2, runs))
    along = math.sqrt(published_spread(M, eps, delta)) * np.abs(rng.standard_normal(runs)) * cosine
    small = float(np.mean(along < 0.1))
    return Evidence(
        f"M = 7921, (1e-5, 1e-7): probability 0 indeed; but noise along a given direction is less "
        f"than Delta/10 in {100 * small:.1f} % of draws",
        0.01 < small < 0.2,
    )


@PAPER.claim("Property 1", "The noise that is needed does not grow with M.", REFUTED)
def property_1() -> Evidence:
    """The sigma* that really gives (1e-3, 0.1) at M = 10, used elsewhere."""
    spread = true_spread(10, 1e-3, 0.1)
    same = [float(RadialLoss(M, spread).delta(1e-3)) for M in (10, 100, 1000)]
    grown = float(RadialLoss(1000, 115 * spread).delta(1e-3))
    shown = ", ".join(f"{delta:.3f}" for delta in same)
    return Evidence(
        f"sigma*/Delta^2 = {spread:.4g} gives delta {shown} at M = 10, 100, 1000; 115 times "
        f"as much gives {grown:.3f} at M = 1000: it must grow linearly in M",
        same[0] <= 0.1 < 0.5 * same[2] and 0.09 < grown < 0.11,
    )


@PAPER.claim("Corollary 1", "C_R = Theta(eps C_C/M) = Theta(C_A/M) = Theta(C_M/MN).", CORRECTED)
def corollary_1() -> Evidence:
    """The first two hold in M; in eps the second lacks a factor, in M the third a root."""
    delta = 1e-7

    def analytic(M: int, e: float) -> float:
        return (float(norm.ppf(delta)) ** 2 + e) / e**2 / published_spread(M, e, delta)

    def matrix(m: int) -> float:
        counts = np.arange(1, m + 1)
        share = (1.25 * (1 / counts).sum() + 0.25 * (counts**-0.5).sum()) / 2e-7
        return float(share) / published_spread(m * m, 1e-7, delta)

    in_m = [analytic(M, 1e-7) / 1e7 for M in (10**3, 10**4, 10**6)]
    in_eps = [analytic(7921, e) for e in (0.1, 1e-3, 1e-5)]
    matrices = [matrix(m) for m in (30, 300, 3000)]
    shown = [", ".join(f"{r:.3g}" for r in some) for some in (in_m, in_eps, matrices)]
    return Evidence(
        f"eps C_A/(M C_R) = {shown[0]} at M = 1e3, 1e4, 1e6: bounded; but C_A/(M C_R) = "
        f"{shown[1]} at eps = 0.1, 1e-3, 1e-5, and C_M/(MN C_R) = {shown[2]} for 30 x 30, "
        "300 x 300, 3000 x 3000",
        in_m[2] < 1.2 * in_m[0] and in_eps[2] > 1e3 * in_eps[0] and matrices[2] > 4 * matrices[0],
    )


@PAPER.claim(
    "Corollary 2", "At the same privacy R1SMG has a lower loss than analytic noise.", REFUTED
)
def corollary_2() -> Evidence:
    """At the same true privacy: the delta that R1SMG really has."""
    rows = {}
    for M, e, d in ((10, 0.05, 1e-5), (100, 1e-3, 1e-5), (7921, 1e-5, 1e-7)):
        spread = published_spread(M, e, d)
        rows[M] = spread / (M * noise_multiplier(e, _true(M, e, d)) ** 2)
    shown = ", ".join(f"{ratio:.1f} (M = {M})" for M, ratio in rows.items())
    return Evidence(f"E[L] of R1SMG is larger by {shown}", min(rows.values()) > 1)


@PAPER.claim(
    "Figure 5, text",
    "The mean loss is about 1.5e4 for R1SMG at eps = 1e-5, and about 5e4 for the others at 0.5.",
    CORRECTED,
)
def figure_5() -> Evidence:
    """Theorem 7 with Delta^2 = 2 is about all cells; the paper leaves invalid areas out."""
    full = {
        "R1SMG": 2.0 * published_spread(7921, 1e-5, 1e-7),
        "analytic": 2.0 * 7921 * noise_multiplier(0.5, 1e-7) ** 2,
        "classic": 2.0 * 7921 * classic_noise(0.5, 1e-7) ** 2,
    }
    shares = {name: (1.5e4 if name == "R1SMG" else 5e4) / loss for name, loss in full.items()}
    shown = ", ".join(f"{100 * share:.1f} % ({name})" for name, share in shares.items())
    return Evidence(
        f"theorem 7 gives {full['R1SMG']:.3g} over all 7921 cells; the printed losses are {shown} "
        "of those over all cells, as if some 200 to 300 cells were valid",
        max(shares.values()) < 2 * min(shares.values()) < 0.1,
    )


@PAPER.claim("Theorem 8", "The raw kurtosis of R1SMG's loss is 35/3, above all others.", CONFIRMED)
def theorem_8() -> Evidence:
    """Moments of chi-squares."""
    values = [AccuracyLoss.of_equal_variances(M, 1.0).raw_kurtosis for M in (1, 2, 10, 7921)]
    shown = ", ".join(f"{value:.4g}" for value in values)
    return Evidence(f"{shown} at M = 1, 2, 10, 7921", abs(values[0] - 35 / 3) < 1e-9)


@PAPER.claim("Theorem 9", "Its raw skewness is 5/sqrt(3).", CONFIRMED)
def theorem_9() -> Evidence:
    """Moments of a chi-square."""
    value = AccuracyLoss.of_equal_variances(1, 1.0).raw_skewness
    return Evidence(f"{value:.4f}", abs(value - 5 / math.sqrt(3)) < 1e-12)


@PAPER.claim("Section 6", "Larger kurtosis and skewness make large noise less likely.", REFUTED)
def section_6() -> Evidence:
    """Tails of the loss beyond five times its mean."""
    tails = [float(chi2.sf(5 * M, M)) for M in (1, 10)]
    return Evidence(
        f"Pr[L > 5 E L] = {tails[0]:.4f} for R1SMG, {tails[1]:.1e} for ten equal variances",
        tails[0] > 1e3 * tails[1],
    )


@PAPER.claim(
    "Remark 2",
    "Kurtosis and skewness of full-rank noise tend to 3 + 12/H and sqrt(8/H).",
    CORRECTED,
)
def remark_2() -> Evidence:
    """True of the usual, central moments; section 6 defines and compares raw ones."""
    loss = AccuracyLoss.of_equal_variances(7921, 1.0)
    return Evidence(
        f"M = 7921: central ones {loss.kurtosis:.4f} and {loss.skewness:.4f}, as it says; but the "
        f"definitions of section 6 are raw, {loss.raw_kurtosis:.5f} and {loss.raw_skewness:.5f}",
        abs(loss.raw_kurtosis - 1) < 0.01
        and abs(loss.kurtosis - 3 - 12 / 7921) < 1e-9
        and abs(loss.skewness - math.sqrt(8 / 7921)) < 1e-9,
    )


@PAPER.claim(
    "Title",
    "Less is more: at the same privacy noise of lower rank has a lower loss.",
    CORRECTED,
)
def title() -> Evidence:
    """The exact profile of every rank: a density |x|^(r - M) exp(-|x|^2/(2w))."""

    def ratio(M: int, r: int, eps: float, delta: float) -> float:
        return r * singular_spread(M, r, eps, delta) / (M * noise_multiplier(eps, delta) ** 2)

    low = {r: ratio(100, r, 1.0, 1e-3) for r in (1, 2, 10)}
    cases = [(10, 7, 1.0, 1e-3), (10, 7, 1.0, 1e-6), (10, 5, 10.0, 1e-3), (100, 50, 1.0, 1e-6)]
    middle = [ratio(*case) for case in cases]
    shown = ", ".join(
        f"{value:.3f} (M = {M}, r = {r}, ({e:g}, {d:g}))"
        for (M, r, e, d), value in zip(cases, middle, strict=True)
    )
    few = ", ".join(f"{value:.3g} (r = {r})" for r, value in low.items())
    return Evidence(
        f"E[L] over that of the Gaussian mechanism, which is r = M, at the same true (eps, delta): "
        f"middle ranks need less, {shown}; low ranks, the paper's r = 1 among them, far more: "
        f"{few} at M = 100, (1, 1e-3)",
        max(middle) < 0.95 and low[1] > 1000 and low[2] > 10 and low[10] > 1.2,
    )


@PAPER.claim(
    "Abstract",
    "R1SMG is (eps, delta)-private with a loss of a lower order by M than Gaussian noise, and less "
    "likely to draw large noise.",
    REFUTED,
)
def abstract() -> Evidence:
    """As much noise as the Gaussian mechanism needs, and what it is then worth."""
    rows = []
    for M in (10, 100, 7921):
        spread = M * noise_multiplier(1.0, 1e-3) ** 2
        low, _ = RadialLoss(M, spread).delta_bounds(1.0)
        rows.append((M, float(low), float(chi2.sf(5.0, 1)), float(chi2.sf(5.0 * M, M))))
    shown = ", ".join(f"{delta:.3f} (M = {M})" for M, delta, *_ in rows)
    return Evidence(
        f"with the E[L] that gives the Gaussian mechanism (1, 1e-3) R1SMG has proven delta(1) >= "
        f"{shown}; and Pr[L > 5 E L] = {rows[0][2]:.3f}, {rows[0][3]:.1e} for ten equal variances",
        all(delta > 0.01 and one > 1e3 * many for _, delta, one, many in rows),
    )


@PAPER.claim(
    "Sequel, arXiv 2512.06253",
    "Product noise, of a uniform direction and the length sigma chi_1, needs less than classic "
    "Gaussian noise for the same (eps, delta) if M >= 14 (Liu, Ji, Fang, Wei, Li, SIGMOD 2026).",
    REFUTED,
)
def sequel() -> Evidence:
    """That is R1SMG's law; so any calibration that needs less noise is not private."""
    eps, delta, rows = 1.0, 1e-5, []
    for M in (14, 100, 10_000):
        classic = M * classic_noise(eps, delta) ** 2
        low, _ = RadialLoss(M, classic).delta_bounds(eps)
        rows.append((M, float(low)))
    more = true_spread(14, eps, delta) / (14 * classic_noise(eps, delta) ** 2)
    shown = ", ".join(f"{low:.4f} (M = {M})" for M, low in rows)
    return Evidence(
        "the law is that of R1SMG; with as much noise as the classic mechanism has for (1, 1e-5) "
        f"its delta(1) is at least {shown}, proven; the true (1, 1e-5) takes {more:.1e} times as "
        "much at M = 14",
        all(low > 100 * delta for _, low in rows) and more > 100,
    )


@PAPER.claim(
    "Section 4", "Noise along one direction suffices, as only one component matters.", REFUTED
)
def section_4() -> Evidence:
    """Along a public direction that is not the shift's the supports are disjoint."""
    along = np.array([[1.0, 0.0], [0.0, 0.0]])
    delta = float(privacy_loss(Gaussian([0.0, 0.0], along), Gaussian([0.5, 0.5], along)).delta(5.0))
    return Evidence(f"shift at 45 degrees to the noise: delta = {delta:g} at eps = 5", delta == 1.0)


@PAPER.claim("Remark 1, Figure 2", "eps < 1/M makes the guarantee hold.", REFUTED)
def remark_1() -> Evidence:
    """It does not."""
    rows = [(M, 0.99 / M, _true(M, 0.99 / M, 1e-5)) for M in (10, 1000)]
    shown = "; ".join(f"M = {M}, eps = {e:.2g}: {true:.3f}" for M, e, true in rows)
    return Evidence(f"claimed 1e-5, proven {shown}", all(true > 0.05 for _, _, true in rows))


@PAPER.claim(
    "Section 7.1, sensitivity", "Presence of a person changes two cells by one.", CORRECTED
)
def section_7_1_sensitivity() -> Evidence:
    """A person who comes or goes changes one cell; one who moves changes two."""
    counts = np.zeros(4)
    come, move = counts.copy(), counts.copy()
    come[0] += 1
    counts_with = counts.copy()
    counts_with[0] += 1
    move[1] += 1
    squares = float(np.sum((come - counts) ** 2)), float(np.sum((move - counts_with) ** 2))
    return Evidence(
        f"squared distance {squares[0]:g} for add/remove, {squares[1]:g} for replace-one",
        squares == (1.0, 2.0),
    )


@PAPER.claim("Section 7.2, sensitivity", "Delta = 2400 sqrt(2)/24016 = 0.1413.", CONFIRMED)
def section_7_2_sensitivity() -> Evidence:
    """||x x^T - y y^T||_F is largest for orthogonal x and y."""
    x, y = np.ones(4), np.array([1.0, 1.0, -1.0, -1.0])
    ratio = float(np.linalg.norm(np.outer(x, x) - np.outer(y, y))) / 4
    return Evidence(f"{2400 * ratio / 24_016:.5f}", abs(2400 * ratio / 24_016 - 0.1413) < 1e-4)


@PAPER.claim(
    "Section 7.3", "Sampling at rate q turns (eps0, delta0) into (q eps0, q delta0).", REFUTED
)
def section_7_3() -> Evidence:
    """Amplification is ln(1 + q (e^eps0 - 1))."""
    q, eps0 = 256 / 60_000, 5.42
    claimed, true = q * eps0, math.log1p(q * math.expm1(eps0))
    back = float(inner_epsilon(true, q))
    return Evidence(
        f"q = 256/60000, eps0 = 5.42: {true:.3f}, not {claimed:.4f}",
        true > 10 * claimed and abs(back - eps0) < 1e-9,
    )


@PAPER.claim(
    "Figure 9, Appendix B", "E[L] of full-rank noise grows linearly in M, R1SMG's falls.", CONFIRMED
)
def figure_9() -> Evidence:
    """Arithmetic of the published formulas."""
    eps, delta = 1e-7, 1e-10
    rank_one = [published_spread(M, eps, delta) for M in (100, 10_000)]
    full = [M * noise_multiplier(eps, delta) ** 2 for M in (100, 10_000)]
    return Evidence(
        f"R1SMG {rank_one[0]:.3g} to {rank_one[1]:.3g}, analytic {full[0]:.3g} to {full[1]:.3g} "
        "from M = 100 to 10000 (but see theorem 5)",
        rank_one[1] < rank_one[0] and full[1] > full[0],
    )
