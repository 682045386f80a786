"""Several parties with different columns of the same people, who release them for regression."""

from ndis.mechanisms.multiparty.agreement import Agreement
from ndis.mechanisms.multiparty.regression import MultiPartyRegression
from ndis.mechanisms.multiparty.releasing import combine, output_law, release_party
from ndis.mechanisms.multiparty.training import LinearModel, train

__all__ = [
    "Agreement",
    "LinearModel",
    "MultiPartyRegression",
    "combine",
    "output_law",
    "release_party",
    "train",
]
