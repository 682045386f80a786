"""Random generalized chi-square laws and arguments, edges included, for tests and long checks."""

import math

import numpy as np

from ndis import GeneralizedChiSquare
from oracles import ChiSquareLaw, chi_square_tails

SEED = 18
VERBS = ("pdf", "cdf", "sf", "ppf", "isf")


def random_law(rng: np.random.Generator) -> GeneralizedChiSquare:
    """One to six terms, definite or not, central or not, with and without a normal part."""
    k = int(rng.integers(1, 7))
    weights = 10 ** rng.uniform(-1, 1, k) ** int(rng.choice([1, 3]))
    signs = {0: np.ones(k), 1: -np.ones(k)}.get(int(rng.integers(4)), rng.choice([-1.0, 1.0], k))
    dofs = rng.choice([0.5, 1.0, 1.0, 1.0, 2.0, 3.0, 10.0, 100.0], k)
    noncentral = 10 ** rng.uniform(-2, 2, k) * rng.choice([0.0, 1.0], k) * rng.integers(2)
    sigma = float(10 ** rng.uniform(-2, 1) * (rng.random() < 0.25))
    scale = 10.0 ** rng.choice([0.0, 0.0, 0.0, -170.0, 150.0])
    shift = float(rng.choice([0.0, 0.0, 1.0, -3.0])) * scale
    return GeneralizedChiSquare(scale * weights * signs, dofs, noncentral, sigma * scale, shift)


def random_argument(law: GeneralizedChiSquare, verb: str, rng: np.random.Generator) -> float:
    """A point or a probability: ordinary, far out, or at or next to an edge."""
    pick = rng.random()
    if verb in ("ppf", "isf"):
        edges = (0.0, 1.0, 0.5, 1e-200, 1e-300, 1.0 - 2.0**-53, 5e-324)
        if pick < 0.2:
            return float(rng.choice(edges))
        return float(rng.random() if pick < 0.6 else 10 ** rng.uniform(-30, 0))
    spread = law.std()
    if pick < 0.5:
        return float(law.mean() + rng.uniform(-3, 6) * spread)
    if pick < 0.65:
        return float(law.mean() + rng.choice([-1, 1]) * spread * 10 ** rng.uniform(0, 4))
    if pick < 0.8:
        return law.shift
    if pick < 0.95:
        return law.shift + float(rng.choice([-1, 1])) * spread * 10 ** rng.uniform(-30, 0)
    return float(rng.choice([math.inf, -math.inf]))


def question(number: int) -> tuple[GeneralizedChiSquare, str, float]:
    """A law, a verb and an argument, by number."""
    rng = np.random.default_rng([SEED, number])
    law, verb = random_law(rng), VERBS[number % len(VERBS)]
    return law, verb, random_argument(law, verb, rng)


def wrong_quantile(law: GeneralizedChiSquare, verb: str, q: float, x: float) -> bool:
    """Whether a quantile is not where its tail is q, to 1e-12 and to what rounding x does."""
    low, high = law.support()
    if q in (0.0, 1.0):
        return x != ((low if q == 0.0 else high) if verb == "ppf" else (high if q == 0.0 else low))
    if abs(x - law.shift) <= 1e-300 * max(1.0, law.std()):
        return False  # a double cannot be nearer to the end of the support
    lower = (verb == "ppf") == (q <= 0.5)
    target = math.log(q) if q <= 0.5 else math.log1p(-q)
    around = [np.nextafter(x, -math.inf), np.nextafter(x, math.inf)]
    tails = sorted((law.logcdf if lower else law.logsf)(around).tolist())
    room = 1e-12 * max(1.0, -target)
    return not tails[0] - room <= target <= tails[1] + room


def wrong_tail(law: GeneralizedChiSquare, verb: str, x: float, digits: int = 15) -> bool:
    """Whether cdf or sf differs from the tests' oracle by more than 1e-11."""
    unit = 2.0 ** -int(np.frexp(law.std())[1])  # exact, and mpmath needs no more
    meant = ChiSquareLaw.of(
        law.weights * unit,
        law.dofs,
        law.noncentralities,
        sigma=law.sigma * unit,
        shift=law.shift * unit,
    )
    tails = chi_square_tails(meant, x * unit, digits)
    truth = float(tails.below if verb == "cdf" else tails.above)
    return abs(getattr(law, verb)(x) - truth) > 1e-11 * truth + 1e-300
