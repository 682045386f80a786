"""Write tests/data/reference_deltas.json: a grid of losses, to 40 digits and more.

Run ``python -m oracles.make_reference`` in tests/helpers. It resumes: cases already in the table
are kept as they are. Every value is computed by one route and checked to 18 digits by another (a
closed form against the inversion, or the inversion along two different rays).

Epsilons are chosen through the saddle point of the cumulant function, so that ln delta spreads
over (-100000, 0) and 1 - delta reaches 1e-12.
"""

import random
import sys
import time
import zlib
from collections.abc import Iterator

from mpmath import mp, mpf

from .chi_square import BallExponent, ChiSquareLaw, Tails, inversion
from .cumulant import Cumulant
from .delta import Delta, Term, delta_reference, equal_covariance_delta, projection_delta
from .reference import ReferenceCase, ReferenceLoss, load_cases, save_cases

LARGEST_EPSILON = 2000.0
LOG_TARGETS = (-3, -7, -14, -30, -70, -150, -300, -600, -688, -760, -2000, -9000, -3e4, -9.9e4)
LOG_COMPLEMENT_TARGETS = (-3, -9, -20, -27.4)
SEED = 20


# --- The losses of the grid --------------------------------------------------------------------


def grid() -> Iterator[ReferenceLoss]:
    """Every loss of the table, in random order, so that a part of the table covers the whole."""
    mixed = _mixed_losses((1, 2, 3, 5, 10, 20))
    losses = [*_shift_losses(), *_leverage_losses(), *mixed]
    random.Random(SEED).shuffle(losses)
    yield from losses
    yield from _large_losses()


def _shift_losses() -> Iterator[ReferenceLoss]:
    for distance in (1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0):
        for fold in (1, 1000, 1_000_000):
            if distance**2 * fold <= 1e4:
                yield ReferenceLoss(
                    f"shift-{distance:g}-x{fold}", "shift", (distance,), (0.0,), (1,), fold
                )


def _leverage_losses() -> Iterator[ReferenceLoss]:
    leverages = (1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1 - 1e-6, 1 - 1e-9)
    for leverage in leverages:
        for count, fold in ((1, 1), (2, 1), (3, 1), (10, 1), (10, 1000), (100, 1), (1300, 1),
                            (10_000, 1), (1_000_000, 1), (1, 1_000_000)):  # fmt: skip
            for backwards in (False, True):
                name = f"leverage-{leverage!r}-r{count}-x{fold}" + "-reversed" * backwards
                yield ReferenceLoss(
                    name, "leverage", (leverage,), (0.0,), (count,), fold, backwards
                )


def _mixed_losses(dimensions: tuple[int, ...]) -> Iterator[ReferenceLoss]:
    scales = ("1e-9", "1e-6", "1e-3", "0.1", "1", "1e4", "spread")
    for d in dimensions:
        for scale in scales:
            for signs in ("wider", "narrower", "indefinite"):
                for means in ("none", "small", "large"):
                    if d > 1 or signs != "indefinite":
                        yield _mixed_loss(d, scale, signs, means)


def _large_losses() -> Iterator[ReferenceLoss]:
    for d in (50, 100, 200, 500, 1000):
        yield _mixed_loss(d, "1", "indefinite", "small")
        yield _mixed_loss(d, "spread", "wider", "none")
        yield _mixed_loss(d, "1e-3", "indefinite", "large")


def _mixed_loss(d: int, scale: str, signs: str, means: str) -> ReferenceLoss:
    name = f"mixed-{d}-{scale}-{signs}-{means}"
    rng = random.Random(f"{SEED} {name}")
    # Few bits, so that composing and squaring are exact in double precision.
    form = rng.choice(("excess", "excess", "log_ratio", "ratio"))
    sizes = [
        10 ** rng.uniform(-9, 4) if scale == "spread" else float(scale) * rng.uniform(0.5, 1)
        for _ in range(d)
    ]
    signed = {
        "wider": sizes,
        "narrower": [-size for size in sizes],
        "indefinite": [size * (-1) ** i for i, size in enumerate(sizes)],
    }[signs]
    typical = min(max(sizes), 1.0)
    deviations = {
        "none": lambda: 0.0,
        "small": lambda: typical * rng.uniform(0, 0.5),
        "large": lambda: rng.uniform(0, 4) * rng.choice((0, 1)),
    }[means]
    shifts = [_few_bits(deviations(), 18) for _ in range(d)]
    if form == "excess":
        values = [_few_bits(x, 30) for x in signed]
        shifts = [m * m for m in shifts]
    elif form == "log_ratio":
        values = [_few_bits(float(mp.sign(x) * mp.log1p(abs(x))), 30) for x in signed]
    else:
        values = [1 + x if x > 0 else 1 / (1 - x) for x in signed]
    if means == "large" and rng.random() < 0.5:  # a direction with a mean and equal variances
        values[0] = 1.0 if form == "ratio" else 0.0
        shifts[0] = 0.5
    fold = rng.choice((1, 1, 1, 10, 1000, 1_000_000)) if d <= 20 else 1
    counts = tuple(rng.choice((1, 1, 1, 2, 7)) if d <= 20 and form != "excess" else 1
                   for _ in range(d))  # fmt: skip
    return ReferenceLoss(
        name, form, tuple(values), tuple(shifts), counts, fold, rng.random() < 0.25
    )


def _few_bits(x: float, bits: int) -> float:
    mantissa, exponent = mp.frexp(mpf(x))
    return float(mp.ldexp(mp.nint(mp.ldexp(mantissa, bits)), int(exponent) - bits))


# --- Epsilons through the saddle point -----------------------------------------------------------


def epsilons(loss: ReferenceLoss, terms: list[Term]) -> Iterator[tuple[float, float]]:
    """Epsilons for this loss, each with the condition of its delta."""
    rng = random.Random(f"{SEED} eps {loss.name}")
    few = len(terms) > 20
    with mp.workdps(70):
        cumulant = Cumulant(terms)
        yield 0.0, float(cumulant.condition(-mpf(1) / 2))
        tilts = [cumulant.tilt(t) for t in sorted(rng.sample(LOG_TARGETS, 2 if few else 4))]
        tilts += [cumulant.lower_tilt(t) for t in rng.sample(LOG_COMPLEMENT_TARGETS, 1)]
        for s in tilts:
            if s is not None and 0 <= (eps := float(cumulant.first(s))) <= LARGEST_EPSILON:
                yield eps, float(cumulant.condition(s))
        if zlib.crc32(loss.name.encode()) % 4 == 0:
            eps = rng.choice((1e-3, 0.1, 1.0, 10.0, 100.0, 2000.0))
            yield eps, float(cumulant.condition(cumulant.tilt_of(eps)))


# --- The values ----------------------------------------------------------------------------------


def reference(loss: ReferenceLoss, eps: float, digits: int) -> Delta:
    """The value by the sharpest route, checked by another."""
    terms = loss.terms()

    def quick_tails(law: ChiSquareLaw, t: mpf, asked: int) -> Tails:
        return inversion(law, t, asked, exponent_type=BallExponent)

    def other_ray(law: ChiSquareLaw, t: mpf, asked: int) -> Tails:
        return inversion(law, t, asked, bend=0.6, exponent_type=BallExponent)

    if loss.form == "shift":
        value = equal_covariance_delta(loss.values[0], eps, digits, loss.fold)
    elif loss.form == "leverage":
        count = loss.counts[0] * loss.fold
        value = projection_delta(loss.values[0], count, eps, loss.reversed, digits)
    else:
        value = delta_reference(terms, eps, digits, tails=quick_tails)
    check = delta_reference(terms, eps, 18, tails=other_ray)
    for one, two in zip(value, check, strict=True):
        if abs(one - two) > mpf(10) ** -17 * abs(one):
            raise ArithmeticError(f"{loss.name} at {eps}: {one} against {two}.")
    return value


def case(loss: ReferenceLoss, eps: float, condition: float) -> ReferenceCase | None:
    """One line of the table, or None where ln delta < -100000."""
    digits = 30 if len(loss.values) > 100 else 50
    value = reference(loss, eps, digits)
    with mp.workdps(digits + 10):
        log_delta = value.log()
        if -mp.inf < log_delta < -1e5:
            return None
        shown = min(digits, 40)
        complement = mp.nstr(value.complement, shown) if value.complement < 0.5 else None
        return ReferenceCase(loss, eps, mp.nstr(log_delta, shown), complement, shown, condition)


def main() -> None:
    cases = load_cases()
    done = {(known.loss.name, known.eps) for known in cases}
    started = time.monotonic()
    for loss in grid():
        fresh = 0
        for eps, condition in epsilons(loss, loss.terms()):
            if (loss.name, eps) not in done:
                done.add((loss.name, eps))
                new = case(loss, eps, condition)
                if new is not None:
                    cases.append(new)
                    fresh += 1
        if fresh:
            save_cases(cases)
            print(f"{time.monotonic() - started:7.0f} s  {len(cases):5d}  {loss.name}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
