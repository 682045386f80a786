"""Exponentials from correctly rounded operations: the same bits in every lane and on any hardware.

Libraries round exp differently on different processors, and even in different lanes of one vector
instruction, so that a row's term would depend on its place in the table. Here everything is
multiplication, addition and division of single elements, which IEEE arithmetic rounds correctly.
Relative errors are below 1e-12; callers round results to a grid of 2^-20.
"""

from __future__ import annotations

import math
from typing import Any

# Beyond this e^-x is below 2^-46, and zero after rounding to 2^-20.
_FAR = 32.0
# e^-x is the 2^8-th power of e^-z with z = x/2^8 <= 1/8, by its series up to z^9.
_SQUARINGS, _TERMS = 8, [1.0 / math.factorial(k) for k in range(9, -1, -1)]


def exp_minus(xp: Any, x: Any) -> Any:
    """e^-x for an array of numbers x >= 0, of any array library; beyond 32, e^-32.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables.exponentials import exp_minus
    >>> bool(abs(exp_minus(np, np.array([0.5, 3.0])) / np.exp([-0.5, -3.0]) - 1).max() < 1e-12)
    True
    """
    z = xp.clip(x, 0.0, _FAR) * (-(2.0**-_SQUARINGS))
    power = z * _TERMS[0]
    for term in _TERMS[1:-1]:
        power += term
        power *= z
    power += _TERMS[-1]
    for _ in range(_SQUARINGS):
        power *= power
    return power


def softmax(xp: Any, logits: Any) -> Any:
    """Class probabilities down the columns of logits, of shape (n_classes, n_rows).

    Powers are rounded to whole numbers, so that their sum is exact in any order.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.tables.exponentials import softmax
    >>> softmax(np, np.array([[0.0], [0.0]])).tolist()
    [[0.5], [0.5]]
    """
    unit = 2.0 ** (52 - int(logits.shape[0]).bit_length())
    powers = xp.round(exp_minus(xp, xp.max(logits, axis=0) - logits) * unit)
    return powers / xp.sum(powers, axis=0)
