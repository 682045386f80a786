"""Several parties in one process."""

from functools import partial

import numpy as np

from estimators import Case
from ndis import MultiPartyRegression

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (400, 3))
Y = X @ [0.5, -0.3, 0.1]
OTHER = np.vstack([-X[:1], X[1:]])

CASES = [
    Case(
        "multi-party",
        partial(MultiPartyRegression, parties=2),
        lambda: (X, Y),
        lambda: (OTHER, Y),
        (400, 3),
        {"noise_scale": "Parties agree on (epsilon, delta), and their noise follows from that."},
    )
]
