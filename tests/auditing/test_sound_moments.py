"""Covariance, components and graphs keep their promise; sold for more than they are they do not.

A share of what `make evidence` runs 1,000 configurations of (benchmarks/check_moments.py).
"""

import numpy as np
import pytest

from moment_audits import FAMILIES, audited

# The share of mechanisms sold for more that must be refuted, and how near the best search comes.
POWER, NEAR = {"row-shift": 0.3}, {"row-shift": -3.0}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_sound_configuration_is_refuted(name: str) -> None:
    found = list(audited(name, 8, seed=1))
    assert len(found) == 8
    assert not any(refuted for refuted, _ in found)
    assert max(above for _, above in found) > NEAR.get(name, -0.7)  # the search is not blind


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_sold_for_more_than_it_is_refuted(name: str) -> None:
    found = [refuted for refuted, _ in audited(name, 8, seed=2, weaker=True)]
    assert np.mean(found) >= POWER.get(name, 0.5)
