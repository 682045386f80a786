"""Checks of the contract that could not fail would be none: a loss that tells less than is true."""

import numpy as np
import pytest

from commands import block
from ndis.testing import LOSS_CHECKS, check_loss

PAGE = "how-to-add-a-loss.md"


def laplace() -> type:
    """The example of docs/how-to-add-a-loss.md."""
    from commands import PAGE as OTHER

    scope: dict[str, object] = {"__name__": "example"}
    exec(block("python", OTHER.with_name(PAGE)), scope)
    return scope["LaplaceLoss"]  # type: ignore[return-value]


Laplace = laplace()


class Less(Laplace):  # type: ignore[misc, valid-type]
    """Its table is that of a loss half as large."""

    def dominating(self):
        return Laplace(0.5 * self.distance).dominating()


class Loose(Laplace):  # type: ignore[misc, valid-type]
    """Its bounds are the wrong way round."""

    def log_delta_bounds(self, epsilon):
        low, high = super().log_delta_bounds(epsilon)
        return high + 1e-3, low


@pytest.mark.parametrize(
    ("kind", "check"),
    [(Less, "dominating dominates"), (Loose, "bounds enclose and fall")],
)
def test_a_broken_sentence_is_seen(kind, check, tmp_path) -> None:
    with pytest.raises(AssertionError):
        LOSS_CHECKS[check](kind(0.5), tmp_path)
    with pytest.raises(AssertionError) as caught:
        check_loss(kind(0.5))
    assert caught.value.__notes__


def test_the_example_keeps_the_contract() -> None:
    assert np.isfinite(Laplace(0.5).delta(0.1))
    check_loss(Laplace(0.5))
