"""Several parties with different columns of the same people, who release them for regression."""

from typing import TYPE_CHECKING, Any

from ndis.mechanisms.multiparty.agreement import Agreement
from ndis.mechanisms.multiparty.releasing import combine, output_law, release_party
from ndis.mechanisms.multiparty.training import LinearModel, train

if TYPE_CHECKING:
    from ndis.mechanisms.multiparty.regression import MultiPartyRegression

__all__ = [
    "Agreement",
    "LinearModel",
    "MultiPartyRegression",
    "combine",
    "output_law",
    "release_party",
    "train",
]


def __getattr__(name: str) -> Any:
    # The estimator needs scikit-learn; a party that only releases does not wait for it.
    if name != "MultiPartyRegression":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ndis.mechanisms.multiparty.regression import MultiPartyRegression

    return MultiPartyRegression
