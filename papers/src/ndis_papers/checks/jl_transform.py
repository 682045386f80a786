"""Claims of "The Johnson-Lindenstrauss transform itself preserves differential privacy"."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from ndis.calibration import noise_multiplier
from ndis.loss import QuadraticLoss
from ndis_papers import johnson_lindenstrauss as jl
from ndis_papers.checks.quantities import sketch_delta
from ndis_papers.checks.registry import (
    ANSWERED,
    CONFIRMED,
    CORRECTED,
    LOOSE,
    REFUTED,
    Evidence,
    Paper,
)
from ndis_papers.johnson_lindenstrauss import (
    exact_covariance_weight,
    exact_graph_weight,
    failure,
    least_components,
    published_components,
)
from ndis_papers.other_matrices import discrete_delta, enumerated_delta, uniform_loss
from ndis_papers.sketches import least_ratio

PAPER = Paper(
    "jl-transform",
    "The Johnson-Lindenstrauss Transform Itself Preserves Differential Privacy",
    "Jeremiah Blocki, Avrim Blum, Anupam Datta and Or Sheffet",
    "FOCS 2012",
)

_R = published_components(0.2, 0.05)


@PAPER.claim(
    "Facts III.4 to III.6",
    "With all weights positive only constants are in the kernel; an added edge raises every "
    "eigenvalue of the Laplacian, by 2(1 - w/n) in all, and lowers its pseudo-inverse.",
    CONFIRMED,
)
def fact_3_5() -> Evidence:
    """A random graph with six nodes, mixed with the complete one."""
    n, w = 6, 2.0
    weights = np.triu(np.random.default_rng(1).uniform(size=(n, n)), 1)
    weights[0, 1] = 0.0

    def laplacian(upper: np.ndarray) -> np.ndarray:
        mixed = w / n + (1 - w / n) * (upper + upper.T)
        np.fill_diagonal(mixed, 0.0)
        return np.asarray(np.diag(mixed.sum(axis=1)) - mixed)

    more = weights.copy()
    more[0, 1] = 1.0
    low, high = laplacian(weights), laplacian(more)
    before, after = np.linalg.eigvalsh(low), np.linalg.eigvalsh(high)
    inverse = np.linalg.eigvalsh(np.linalg.pinv(low) - np.linalg.pinv(high))
    rise = float(after.sum() - before.sum())
    return Evidence(
        f"least eigenvalues {abs(before[0]):.0f} and {before[1]:.3f} >= w = {w:g}; their sum rises "
        f"by {rise:.4f} = 2(1 - w/n)",
        bool(
            abs(before[0]) < 1e-12
            and before[1] >= w - 1e-12
            and np.all(after - before > -1e-12)
            and abs(rise - 2 * (1 - w / n)) < 1e-12
            and inverse[0] > -1e-12
        ),
    )


@PAPER.claim(
    "Theorem IV.2, Algorithm 4",
    "Directional variances have the relative error eta and an additive one of the order "
    "ln(1/delta) ln(1/nu) ln^2(...)/(eps^2 eta).",
    LOOSE,
)
def theorem_4_2() -> Evidence:
    """The bias w^2 times eta, of the published w and of the exact one."""
    eps, delta, eta, nu = 1.0, 1e-6, 0.2, 0.05
    r = published_components(eta, nu)
    printed = eta * jl.covariance_weight(eps, delta, r) ** 2
    order = (
        math.log(1 / delta)
        * math.log(1 / nu)
        * math.log(math.log(1 / nu) / (delta * eta**2)) ** 2
        / (eps**2 * eta)
    )
    exact = eta * exact_covariance_weight(eps, delta, r) ** 2
    return Evidence(
        f"eps = 1, delta = 1e-6, eta = 0.2, nu = 0.05: eta w^2 = {printed:.1e}, "
        f"{printed / order:.0f} times the stated order; the exact w makes it {exact:.0f}, "
        f"{printed / exact:.0f} times less",
        1 < printed / order < 1e5 and printed > 1e4 * exact,
    )


@PAPER.claim("Theorem II.4", "r = 8 ln(2/nu)/eta^2 components give relative error eta.", LOOSE)
def theorem_2_4() -> Evidence:
    """Exact chi-square tails."""
    pairs = [(0.2, 0.05), (0.1, 0.01)]
    rows = [(published_components(*pair), least_components(*pair)) for pair in pairs]
    shown = "; ".join(f"{published} published, {least} suffice" for published, least in rows)
    actual = failure(0.2, rows[0][0])
    return Evidence(
        f"(eta, nu) = (0.2, 0.05), (0.1, 0.01): {shown}; actual failure {actual:.1e} instead of "
        "0.05",
        all(published > 3 * least for published, least in rows) and actual < 0.05,
    )


@PAPER.claim(
    "Section II", "Pr[|x - mu|^2 > ln(1/delta) sigma^2] <= 2 delta for a normal x.", REFUTED
)
def section_2() -> Evidence:
    """A factor 2 is missing in the exponent."""
    delta = 1e-6
    true = 2 * float(norm.sf(math.sqrt(math.log(1 / delta))))
    return Evidence(f"delta = 1e-6: {true:.1e} against {2 * delta:.0e}", true > 10 * 2 * delta)


@PAPER.claim("Theorem III.1", "The published weight w makes the graph sketch private.", LOOSE)
def theorem_3_1() -> Evidence:
    """The exact weight, and the true delta at the published one."""
    eps, delta = 1.0, 1e-6
    published = jl.graph_weight(eps, delta, _R)
    exact = exact_graph_weight(eps, delta, _R, 1000)
    log = float(jl.graph_loss(published, 10**9, _R).log_delta(eps))
    return Evidence(
        f"r = {_R}: w = {published:.0f} published, {exact:.1f} needed (n = 1000), "
        f"{published / exact:.0f} times less; the published one has ln delta = {log:.0f}",
        published > 80 * exact and log < math.log(delta),
    )


@PAPER.claim("Claim III.3", "Each row of the sketch is (eps0, delta0)-private.", CONFIRMED)
def claim_3_3() -> Evidence:
    """One component, with the published w."""
    eps, delta = 1.0, 1e-6
    w = jl.graph_weight(eps, delta, _R)
    eps0 = eps / math.sqrt(4 * _R * math.log(2 / delta))
    t = 2.0 / w
    true = sketch_delta(eps0, t / (1 + t))
    return Evidence(
        f"delta {true:.1e} at eps0 = {eps0:.5f}, allowed {delta / (2 * _R):.1e}",
        true <= delta / (2 * _R),
    )


@PAPER.claim("Claim III.3, proof", "sqrt(2/w) + 2/w <= 2/sqrt(w) whenever 1/w < 1/2.", CORRECTED)
def claim_3_3_proof() -> Evidence:
    """It needs w >= 4/(2 - sqrt 2)^2; the published w is larger unless eps is, too."""
    w = 3.0
    left, right = math.sqrt(2 / w) + 2 / w, 2 / math.sqrt(w)
    needed = 4 / (2 - math.sqrt(2)) ** 2
    least = jl.graph_weight(3.0, 0.1, 1)
    return Evidence(
        f"w = 3: {left:.3f} > {right:.3f}; it needs w >= {needed:.2f}, and the published w is at "
        f"least {least:.1f} for eps <= 3, delta <= 0.1, r >= 1",
        left > right and least > needed,
    )


@PAPER.claim(
    "Theorem III.1, proof", "r-fold composition gives (eps, delta) for every eps.", CORRECTED
)
def theorem_3_1_proof() -> Evidence:
    """The composition theorem it uses exceeds eps for large eps."""

    def composed(eps: float, delta: float) -> float:
        eps0 = eps / math.sqrt(4 * _R * math.log(2 / delta))
        return math.sqrt(2 * _R * math.log(2 / delta)) * eps0 + _R * eps0 * math.expm1(eps0)

    limits = [float(brentq(lambda e, d=d: composed(e, d) - e, 0.1, 100.0)) for d in (1e-6, 1e-2)]
    return Evidence(
        f"it holds for eps < {limits[0]:.1f} (delta = 1e-6) and eps < {limits[1]:.1f} "
        "(delta = 0.01); no such condition is stated",
        composed(1.0, 1e-6) < 1 and limits[1] < limits[0] < 30,
    )


@PAPER.claim("Section III", "w does not depend on n; n is only assumed large.", CORRECTED)
def section_3() -> Evidence:
    """n > 2w is needed, and n < w flips the sign of every edge."""
    w = jl.graph_weight(1.0, 1e-6, _R)
    return Evidence(
        f"eps = 1, delta = 1e-6, r = {_R}: at least {math.floor(2 * w) + 1} nodes; at n = 10000 an "
        f"edge would count {1 - w / 10_000:.2f}",
        1 - w / 10_000 < 0,
    )


@PAPER.claim(
    "Algorithm 1, worst case", "An edge is a rank-one update with t = (1 - w/n) 2/w.", CONFIRMED
)
def worst_edge() -> Evidence:
    """Explicit Laplacians of the empty and a random graph on 6 nodes."""
    n, w = 6, 2.0
    share = 1 - w / n
    complete = w * (np.eye(n) - 1 / n)
    rng = np.random.default_rng(16)
    upper = np.triu((rng.random((n, n)) < 0.5).astype(float), 1)
    adjacency = upper + upper.T
    random = complete + share * (np.diag(adjacency.sum(0)) - adjacency)
    e = np.zeros(n)
    e[0], e[1] = 1.0, -1.0
    values = [share * float(e @ np.linalg.pinv(base) @ e) for base in (complete, random)]
    t = share * 2 / w
    return Evidence(
        f"w = 2, n = 6: t = {t:.4f}; {values[0]:.4f} beside no edges, {values[1]:.4f} beside "
        "random ones",
        abs(values[0] - t) < 1e-9 and values[1] <= t + 1e-9,
    )


@PAPER.claim(
    "Theorem III.2, Algorithm 2",
    "A cut of the sketch has relative error eta plus a known part.",
    CONFIRMED,
)
def theorem_3_2() -> Evidence:
    """1_S^T L 1_S of a sketch is exactly its mean times chi2_r/r."""
    rng = np.random.default_rng(17)
    root, r = rng.standard_normal((5, 4)), 30
    cut = np.array([1.0, 1.0, 0, 0, 0])
    draws = ((cut @ root @ rng.standard_normal((4, 20_000 * r))) ** 2).reshape(20_000, r)
    values = draws.mean(axis=1) / float(cut @ root @ root.T @ cut)
    spread = float(values.std())
    return Evidence(
        f"standard deviation {spread:.4f} of the relative error, chi-square {math.sqrt(2 / r):.4f}",
        abs(spread / math.sqrt(2 / r) - 1) < 0.03,
    )


@PAPER.claim(
    "Abstract, Table I",
    "On small cuts the sketch beats all others: an error of s sqrt(ln k)/eps for s nodes.",
    CORRECTED,
)
def table_1() -> Evidence:
    """Against randomised response and multiplicative weights, which the table has."""
    from ndis_papers.reproduce import jl_transform as run

    n, r, eps, delta = 100_000, published_components(0.1, 0.01), 1.0, 1e-6
    w = jl.graph_weight(eps, delta, r)
    published = math.sqrt(2 / r) * w / (1 - w / n)
    exact = math.sqrt(2 / r) * exact_graph_weight(eps, delta, r, n)
    response = math.sqrt(n - 1) * math.exp(eps / 2) / math.expm1(eps)
    limits = [(response / error) ** 2 for error in (published, exact)]
    # 1,000 nodes, cuts of one node: both learn from the same graph.
    rng = np.random.default_rng(0)
    graph, nodes = run.random_graph(1000, rng), np.eye(1000)[rng.choice(1000, 100, replace=False)]
    truth = run.cuts(graph, nodes)
    few = jl.least_components(0.2, 0.05)
    weight = exact_graph_weight(eps, delta, few, 1000)
    learnt = run.learnt_cuts(graph, nodes, rng, True) - truth
    sketched = run.sketched_cuts(graph, nodes, weight, few, rng) - truth
    weights, sketch = (float(np.sqrt(np.mean(errors**2))) for errors in (learnt, sketched))
    return Evidence(
        f"n = 1e5, r = {r}: error of a cut of s nodes {published:.0f} s with the published weight, "
        f"{exact:.2f} s with the exact one, {response:.0f} sqrt(s) for randomised response: it "
        f"wins nowhere, or for s < {limits[1]:.0f}; n = 1000, s = 1: {sketch:.0f} against "
        f"{weights:.0f} for multiplicative weights",
        limits[0] < 1 and 1000 < limits[1] < 2000 and weights < sketch,
    )


@PAPER.claim(
    "Abstract, Table II",
    "On directional variances the sketch's error does not depend on the size of the table; that of "
    "all others does.",
    CORRECTED,
)
def table_2() -> Evidence:
    """Standard errors along a unit direction, for rows of norm at most 1."""
    eps, delta, k = 1.0, 1e-6, 100
    sigma = noise_multiplier(eps, delta)
    # The factor sqrt(2/r) w^2 is that of an empty direction; the best of many r.
    sketch = min(
        math.sqrt(2 / r) * exact_covariance_weight(eps, delta, r) ** 2 for r in (50, 191, 738, 5000)
    )
    rows = {n: math.sqrt(2 * n) * (2 * sigma) ** 2 for n in (20, 2000, 200_000)}
    shown = ", ".join(f"{error:.0f} (n = {n})" for n, error in rows.items())
    laplace = math.sqrt(2) * k / eps
    return Evidence(
        f"(1, 1e-6): {sketch:.0f} for every n and d with the exact weight; noise on every row "
        f"{shown}; but Laplace noise on k = {k} answers at most {laplace:.0f}, by its own row of "
        f"the table, and Gaussian noise on the matrix at most {2 * sigma:.1f}, for every n and d",
        2 * sigma < laplace < sketch < rows[20],
    )


@PAPER.claim("Table I, Laplace, all cuts", "The error is O(2^(n/2) eps).", CORRECTED)
def table_1_laplace() -> Evidence:
    """More privacy must cost more: 2^(n/2)/eps."""
    errors = [math.sqrt(2) * 8 / eps for eps in (0.1, 1.0)]
    return Evidence(
        f"8 answers: {errors[0]:.0f} at eps = 0.1, {errors[1]:.1f} at eps = 1: it falls with eps",
        errors[0] > errors[1],
    )


@PAPER.claim(
    "Theorem IV.1, Algorithm 3",
    "The published weight w makes the covariance sketch private.",
    LOOSE,
)
def theorem_4_1() -> Evidence:
    """The exact weight, and the true delta at the published one."""
    published = jl.covariance_weight(1.0, 1e-6, _R)
    exact = exact_covariance_weight(1.0, 1e-6, _R)
    log = float(jl.covariance_loss(published, _R).log_delta(1.0))
    return Evidence(
        f"r = {_R}: w = {published:.0f} published, {exact:.1f} needed, {published / exact:.0f} "
        f"times less (its square is the additive error); ln delta = {log:.0f} at the published one",
        published > 300 * exact and log < math.log(1e-6),
    )


@PAPER.claim(
    "Theorem IV.1, stage 2",
    "(lam^2 + w^2)/(sig^2 + w^2) <= lam^2/sig^2, after which stage 1 ends the proof.",
    CORRECTED,
)
def theorem_4_1_stage_2() -> Evidence:
    """Stage 1 needs sig >= w, which is not so any more; the direct bound gives the conclusion."""
    x = np.linspace(0, 50, 2001)
    b = 0.3
    worst = float(np.max((1 + (x + b) ** 2) / (1 + x**2)))
    lam = 1 + b * (b / 2 + math.sqrt(1 + b * b / 4))
    return Evidence(
        f"true, but at sig = 0 the right side is infinite; what is needed holds directly, (1 + (x "
        f"+ b)^2)/(1 + x^2) <= lam*: {worst:.4f} <= {lam:.4f} at b = 0.3",
        worst <= lam + 1e-9,
    )


@PAPER.claim("Footnote 3", "Centring the data has no effect on privacy.", CORRECTED)
def footnote_3() -> Evidence:
    """Harmless for a row that moves; for one that comes or goes the update may be 2l long."""
    rest = np.array([[1.0, 0.0]] * 9)
    row = np.array([-1.0, 0.0])
    centered = [part - part.mean(axis=0) for part in (np.vstack([rest, row]), rest)]
    change = centered[0].T @ centered[0] - centered[1].T @ centered[1]
    length = math.sqrt(float(np.linalg.eigvalsh(change)[-1]))
    return Evidence(
        f"a row of norm 1 beside 9 others changes the scatter by a vector of norm {length:.3f}",
        length > 1.5,
    )


@PAPER.claim("Section IV", "The mean with noise 4 ln(1/delta)/(n eps)^2 is private.", CORRECTED)
def section_4() -> Evidence:
    """As a mean shift: far beyond eps < 1, but not for every eps, and no condition is stated."""
    rows = [
        (eps, float(QuadraticLoss.from_shift(eps / (2 * math.sqrt(math.log(1e5)))).delta(eps)))
        for eps in (0.5, 1.0, 30.0, 40.0)
    ]
    shown = ", ".join(f"{delta:.1e} (eps = {eps:g})" for eps, delta in rows)
    return Evidence(
        f"delta = 1e-5 asked: {shown}; it needs a condition on eps",
        all(d <= 1e-5 for e, d in rows if e <= 30) and rows[-1][1] > 1e-5,
    )


@PAPER.claim("Comment to IV.2", "The sketch is not meant for principal components.", CONFIRMED)
def comment_4_2() -> Evidence:
    """Its rank is r."""
    sketch = np.random.default_rng(18).standard_normal((50, 20))
    rank = int(np.linalg.matrix_rank(sketch @ sketch.T))
    return Evidence(f"r = 20, d = 50: rank {rank}", rank == 20)


@PAPER.claim(
    "Section V, error amplification",
    "Can errors on single cuts be amplified away without a much larger r, which raises the noise?",
    ANSWERED,
)
def section_5_amplification() -> Evidence:
    """There is no need: with the exact weight the noise falls with r."""
    sizes = (20, 191, 4239, 1_000_000)
    errors = [math.sqrt(2 / r) * exact_graph_weight(1.0, 1e-6, r, 10**8) for r in sizes]
    shown = ", ".join(f"{error:.2f}" for error in errors)
    published = [math.sqrt(2 / r) * jl.graph_weight(1.0, 1e-6, r) for r in sizes]
    return Evidence(
        f"a larger r costs nothing: the additive error of a node is {shown} at r = 20, 191, 4239, "
        f"1e6, as w grows like sqrt(r); with the published w it is {published[0]:.0f} to "
        f"{published[-1]:.0f}",
        errors == sorted(errors, reverse=True) and published == sorted(published),
    )


@PAPER.claim(
    "Section V, other matrices",
    "Entries uniform in [-1, 1] should do as well as normal ones; of sparse matrices it is not "
    "known.",
    ANSWERED,
)
def section_5_matrices() -> Evidence:
    """A listing of all signs, the theorem on discrete entries, a certificate for uniform ones."""
    signs = {-1: Fraction(1, 2), 1: Fraction(1, 2)}
    toy = enumerated_delta([Fraction(2)] * 6, Fraction(1), 10.0, signs)
    sparse = discrete_delta(20, 2 / 3)
    w, r, eps = 20.0, 20, 1.0
    uniform = float((r * uniform_loss(w, 20, step=2.0**-8)).delta(eps))
    normal = sketch_delta(eps, 1 / (1 + w), r)
    return Evidence(
        f"discrete entries cannot: delta = {toy:g} at eps = 10 for signs, at least {sparse:.4f} at "
        f"every eps for 20 components of which two thirds are 0; uniform ones can: w = 20 in 20 "
        f"public rows, r = 20, eps = 1: delta at most {uniform:.1e}, {normal:.1e} for normal ones",
        toy == 1 and sparse > 0.999 and normal < uniform < 1e-4,
    )


@PAPER.claim("Section V, all cuts", "All cuts at once need r = Omega(n).", CONFIRMED)
def section_5() -> Evidence:
    """A matching of 300 pairs: the worst direction of a small sketch is far off."""
    n, r = 300, 20
    sketch = np.random.default_rng(19).standard_normal((n, r))
    worst = float(np.linalg.eigvalsh(sketch @ sketch.T / r)[-1])
    return Evidence(
        f"300 equal directions, r = 20: the worst is overestimated {worst:.0f} times", worst > 5
    )


@PAPER.claim(
    "Footnote 2",
    "For one count the transform needs about ln(1/delta)/eps, more than Gaussian.",
    CONFIRMED,
)
def footnote_2() -> Evidence:
    """n ones and a weight w."""
    w = least_ratio(1.0, 1e-6, 1) ** 2
    gauss = noise_multiplier(1.0, 1e-6)
    return Evidence(
        f"(1, 1e-6): w = {w:.2f}, error about {math.sqrt(2) * w:.1f}; Gaussian noise {gauss:.2f}; "
        f"ln(1/delta)/eps = {math.log(1e6):.1f}",
        math.sqrt(2) * w > gauss,
    )


@PAPER.claim(
    "Fact A.2", "A rank-one change of norm 1 moves eigenvalues by at most 1 in all.", CONFIRMED
)
def fact_a_2() -> Evidence:
    """Random symmetric matrices."""
    rng = np.random.default_rng(20)
    worst = 0.0
    for _ in range(100):
        root = rng.standard_normal((5, 5))
        v = rng.standard_normal(5)
        v /= np.linalg.norm(v)
        before = np.linalg.eigvalsh(root @ root.T)
        after = np.linalg.eigvalsh(root @ root.T + np.outer(v, v))
        worst = max(worst, float(np.maximum(after - before, 0).sum()))
    return Evidence(f"largest sum in 100 random cases: {worst:.6f}", worst <= 1 + 1e-9)


@PAPER.claim(
    "Claim A.1", "The bound of each row is printed with e^(-eps0) on both sides.", CORRECTED
)
def claim_a_1() -> Evidence:
    """With e^(-eps0) for e^(+eps0) the statement fails for a sound pair."""
    p, eps0 = 0.02, 0.05
    pair = QuadraticLoss.from_leverage(p)
    at_plus, at_minus = float(pair.delta(eps0)), float(pair.delta(-eps0))
    return Evidence(
        f"a pair with delta = {at_plus:.1e} at +0.05 has {at_minus:.2f} at -0.05",
        at_minus > 10 * at_plus,
    )
