import itertools
import math

import flint
import numpy as np
import pytest
from flint import arb
from randomgen.wrapper import UserBitGenerator
from scipy import special, stats

from ndis.randomness import generator
from ndis.randomness.reals import LAPLACE, NORMAL, Reals, _leading_heads
from samplers import LEVEL, NEVER, accepts_gaussian, accepts_law, accepts_rate, accepts_scale

LAWS = pytest.mark.parametrize(
    ("law", "reference"),
    [(NORMAL, stats.norm), (LAPLACE, stats.laplace)],
    ids=["normal", "laplace"],
)
SOURCES = pytest.mark.parametrize(("seed", "level"), [(20240607, LEVEL), (None, NEVER)])
WORD = 2**64 - 1


def scripted(words, ordinary=0):
    """A generator that gives these words, and after them `ordinary` ones."""
    remaining = iter(words)
    return np.random.Generator(UserBitGenerator(lambda _: next(remaining, ordinary), 64))


# --- The staircase -------------------------------------------------------------------------------


@LAWS
def test_the_staircase_lies_above_the_density_and_sure_points_below_it(law, reference):
    # With the choice of slots this is the proof that what is kept has the law's density.
    def density(x):
        return law.height * (-law.potential(x)).exp()

    assert law.slots.sum() == 2**14
    with flint.ctx.workprec(120):
        for step in range(256):
            slots = int(law.slots[step])
            assert density(arb(step) / 64) <= slots
            assert int(law.sure[step]) + 1 < 2**50 * density(arb(step + 1) / 64) / slots
        assert law.sure[256] == 0
        for k in range(2**11):
            assert density(arb(4 + k)) * 64 * arb(2) ** (k + 1) <= int(law.slots[256])


@LAWS
def test_doubles_know_the_chance_far_better_than_the_margin(law, reference):
    rng = generator(1)
    x = np.concatenate([rng.uniform(0, 4, 2000), rng.uniform(4, 60, 200)])
    step = np.minimum((x * 64).astype(int), 256)
    unit = np.where(step == 256, np.floor(x) - 4, 0)
    chance = np.exp(law._log_odds[step] + unit * math.log(2.0) - law.potential(x))
    with flint.ctx.workprec(200):
        for i in range(x.size):
            odds = arb(int(law._odds[step[i]])) * arb(2) ** int(unit[i]) / int(law.slots[step[i]])
            exact = odds * (-law.potential(arb(x[i]))).exp()
            assert abs(exact - chance[i]) < 2.0**-46


# --- The laws, with size and power ---------------------------------------------------------------


@SOURCES
@LAWS
def test_draws_follow_the_law(law, reference, seed, level):
    sample = law.draw(400_000, generator(seed)).doubles()
    assert accepts_law(sample, reference.cdf, level)
    for wrong in (0.9, 1.1):
        assert not accepts_law(sample, reference(scale=wrong).cdf, NEVER)


@SOURCES
def test_the_scale_of_normals(seed, level):
    sample = NORMAL.draw(400_000, generator(seed)).doubles()
    assert accepts_scale(sample, 1.0, level)
    for wrong in (0.95, 1.05):
        assert not accepts_scale(sample, wrong, NEVER)


@SOURCES
@LAWS
def test_tails(law, reference, seed, level):
    sample = law.draw(4_000_000, generator(seed)).doubles()
    for cut in (3.99, 4.0, 4.5, 5.0):
        beyond = np.count_nonzero(np.abs(sample) >= cut)
        assert accepts_rate(beyond, sample.size, 2 * reference.sf(cut), level)
    beyond = np.count_nonzero(np.abs(sample) >= 4.0)
    for wrong in (0.9, 1.1):
        assert not accepts_rate(beyond, sample.size, 2 * reference.sf(4 / wrong), NEVER)


@SOURCES
def test_neighbouring_draws_are_independent(seed, level):
    pairs = NORMAL.draw(200_000, generator(seed)).doubles().reshape(-1, 2)
    assert accepts_gaussian(pairs, np.zeros(2), np.eye(2), level)
    assert not accepts_gaussian(pairs, np.zeros(2), np.array([[1.0, 0.05], [0.05, 1.0]]), NEVER)


def accepts_fine_values(sample, cdf, level):
    """Is the probability below a draw spread evenly between multiples of 2^-53?

    Only draws are asked at which doubles are far finer than that.
    """
    below = cdf(sample)
    low = sample[(below < 2.0**-9) & (below > 2.0**-20)]
    assert low.size > 1000
    return accepts_law(np.fmod(cdf(low) * 2.0**53, 1.0), stats.uniform.cdf, level)


@SOURCES
@LAWS
def test_draws_are_not_made_of_53_bits(law, reference, seed, level):
    rng = generator(seed)
    assert accepts_fine_values(law.draw(2_000_000, rng).doubles(), reference.cdf, level)
    uniform = rng.random(2_000_000)
    coarse = special.ndtri(uniform) if law is NORMAL else np.log(2 * np.minimum(uniform, 0.5))
    assert not accepts_fine_values(coarse, reference.cdf, NEVER)


@SOURCES
@LAWS
def test_every_digit_is_fair(law, reference, seed, level):
    reals = law.draw(100_000, generator(seed))
    digits = [(reals.floors >> k) & 1 for k in range(law.bits - 10)]
    assert all(accepts_rate(d.sum(), d.size, 0.5, level / len(digits)) for d in digits)
    pairs = [np.count_nonzero(a == b) for a, b in itertools.pairwise(digits)]
    assert all(accepts_rate(n, reals.floors.size, 0.5, level / len(pairs)) for n in pairs)
    further = np.array([reals.floor(i, law.bits + 20) & (2**20 - 1) for i in range(3000)])
    assert stats.chisquare(np.bincount(further >> 15, minlength=32)).pvalue > level


# --- Digits on demand ----------------------------------------------------------------------------


def test_further_digits_never_change_those_that_are_known():
    reals = NORMAL.draw(50, generator(3))
    for i in range(50):
        known = [reals.floor(i, bits) for bits in (57, 58, 130, 1000, 300, 57)]
        assert known[0] == known[5] == reals.floors[i]
        assert known[1] >> 1 == known[0]
        assert known[3] >> 700 == known[4]
        assert known[3] >> 870 == known[2]


def test_a_draw_from_its_words():
    # The first words: 14 bits of slot, 50 of height. The second: the sign, and the place.
    step_one = int(NORMAL.slots[0])  # the first slot of [1/64, 2/64)
    words = [step_one] * 17 + [0x8000_0000_0000_0000] * 17
    assert NORMAL.draw(1, scripted(words)).doubles()[0] == 1.5 / 64
    words[17] |= 1
    reals = NORMAL.draw(1, scripted(words))
    assert reals.floors[0] == -(3 << 50) - 1  # the number lies in [-floor - 1, -floor]
    assert abs(reals.doubles()[0] + 1.5 / 64) <= 2.0**-57


def boundary(law, x_bits):
    """The slot of a step, and the height at which a point at its middle is just kept."""
    step = 100
    slot = int(law.slots[:step].sum())
    with flint.ctx.workprec(400):
        x = (arb(2 * step) + 1) / 128
        chance = arb(law.height) / int(law.slots[step]) * (-law.potential(x)).exp()
        height = int((chance * arb(2) ** x_bits).floor().unique_fmpz())
    return step, slot, height


@LAWS
@pytest.mark.parametrize("kept", [True, False])
def test_a_close_decision_asks_for_more_digits(law, reference, kept):
    # At x = 100.5/64 exactly, a point is kept if its height is below these 114 bits. The digits of
    # x beyond the first say 0...0, so x is barely above, and the density barely below.
    step, slot, height = boundary(law, 114)
    height += -1000 if kept else 1
    proposals = 17
    firsts = [height >> 64 << 14 | slot] + [0] * (proposals - 1)
    seconds = [1 << 63] * proposals
    # The next word continues the height, and the one after it the place.
    reals = law.draw(1, scripted([*firsts, *seconds, height & WORD, 0]))
    expected = (2 * step + 1) / 128 if kept else 0.5 / 64
    assert reals.doubles()[0] == expected
    if kept:
        assert reals.further[0][1] > law.bits
        assert reals.floor(0, law.bits) == reals.floors[0]


def test_heads_are_counted_beyond_a_word():
    assert _leading_heads(4, scripted([0, 1, 0b1011, WORD, 0b111])).tolist() == [0, 1, 2, 67]


def test_the_tail_starts_where_the_steps_end():
    tail_slot = 2**14 - 1
    proposals = 17
    words = [tail_slot] + [0] * (proposals - 1) + [1 << 63] * proposals + [0b11]
    assert NORMAL.draw(1, scripted(words)).doubles()[0] == 6.5


def test_numbers_too_large_to_hold_are_redrawn():
    tail_slot, proposals = 2**14 - 1, 17
    words = [tail_slot] + [0] * (proposals - 1) + [1 << 63] * proposals + [2**60 - 1]
    assert NORMAL.draw(1, scripted(words)).doubles()[0] == 0.5 / 64


def test_rejected_places_are_filled_from_the_surplus():
    reals = Reals(np.arange(10), 57, generator(1))
    reals.further = {1: (5, 60), 7: (9, 60), 9: (3, 60)}
    kept = reals.first(6, rejected=np.array([1, 3, 6]))
    assert kept.floors.tolist() == [0, 7, 2, 8, 4, 5]
    assert kept.further == {1: (9, 60), 9: (3, 60)}
    assert Reals(np.arange(5), 57, generator(1)).first(3, rejected=np.array([0, 1, 4])) is None


def test_draws_repeat_on_every_platform():
    # The digits are decided exactly, so a seed means the same numbers everywhere.
    reals = NORMAL.draw(100_000, generator(7))
    assert reals.floors[:2].tolist() == [31267491596786089, -141354432649041774]
    assert int(np.bitwise_xor.reduce(reals.floors)) == 628606528263851767
