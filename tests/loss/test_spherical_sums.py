"""Proven integrals of spherical losses: two ways without a step in common."""

import pytest

from ndis.loss.certified import precision
from ndis.loss.spherical_paths import Sum, law_of
from ndis.loss.spherical_sums import BITS, Legs, Product, line_bounds


@pytest.mark.parametrize(("m", "k"), [(2, 2), (2, 25), (3, 3), (5, 6), (7, 4), (13, 2)])
def test_legs_and_line_agree(m: int, k: int) -> None:
    """Two ways without a step in common, where both can be had."""
    t = 1.3 / k**0.7
    total = Sum(((t, m, k),), None)
    assert total.few(0.5)
    for share in (0.2, 0.6):
        epsilon = share * k * t
        with precision(BITS):
            path = total.legs(epsilon)
            low, high = Legs(law_of(m, t), k, epsilon, path.c).bounds(path.panels, path.ends)
            assert float((high - low).upper()) < 1e-13
            if k * (m - 1) < 24:
                continue
            product = Product([(law_of(m, t), k)], None)
            line_low, line_high = line_bounds(product, total.course(epsilon), epsilon)
        assert float(line_low.lower()) <= float(high.upper())
        assert float(low.lower()) <= float(line_high.upper())
        assert total.legs_log_delta(epsilon) == pytest.approx(float(high), rel=1e-12)
