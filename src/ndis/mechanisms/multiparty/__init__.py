"""Several parties with different columns of the same people, who release them for regression.

`MultiPartyRegression` is in ``regression``: it needs scikit-learn, and a party that only releases
does not wait for it.
"""

from ndis.mechanisms.multiparty.agreement import Agreement
from ndis.mechanisms.multiparty.releasing import combine, release_party
from ndis.mechanisms.multiparty.training import LinearModel, train

__all__ = ["Agreement", "LinearModel", "combine", "release_party", "train"]
