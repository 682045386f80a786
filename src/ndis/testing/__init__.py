"""Contracts, to be tested by whoever adds a mechanism or a kind of privacy loss.

    from ndis.testing import ESTIMATOR_CHECKS, Case

    CASE = Case("mean", PrivateMean, data, neighbour)

    @pytest.mark.parametrize("check", ESTIMATOR_CHECKS)
    def test_protocol(check, tmp_path):
        ESTIMATOR_CHECKS[check](CASE, tmp_path)

`check_estimator(case)` and `check_loss(loss)` run all checks of a contract. The library's own
estimators and losses pass the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndis.testing.estimator_checks import ESTIMATOR_CHECKS, Case
from ndis.testing.loss_checks import LOSS_CHECKS

__all__ = ["ESTIMATOR_CHECKS", "LOSS_CHECKS", "Case", "check_estimator", "check_loss"]


def check_estimator(case: Case) -> None:
    """Run an estimator through every check of the protocol.

    Parameters
    ----------
    case : Case
        How it is made, and data that it can read.

    Raises
    ------
    AssertionError
        With the sentence that does not hold.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateCovariance
    >>> from ndis.testing import Case, check_estimator
    >>> table = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    >>> def make(**more):
    ...     return PrivateCovariance(**{"limits": [(-1, 1)] * 2, **more})
    >>> check_estimator(Case("covariance", make, lambda: (table,), lambda: (table[1:],)))
    """
    for name, check in ESTIMATOR_CHECKS.items():
        _hold(name, check, case)


def check_loss(loss: Any, members: Sequence[Any] = ()) -> None:
    """Run a privacy loss through every check of the contract.

    Parameters
    ----------
    loss : PrivacyLoss
    members : sequence of PrivacyLoss, optional
        Exact losses that it dominates, such as the pairs of a family.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.testing import check_loss
    >>> check_loss(QuadraticLoss.from_shift(0.7))
    """
    for name, check in LOSS_CHECKS.items():
        _hold(name, check, loss, members)


def _hold(name: str, check: Any, *about: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(about[0], Path(folder), *about[1:])
        except AssertionError as error:
            error.add_note(f"(it does not hold that {name})")
            raise
