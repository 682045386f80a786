"""Two parties with an agreement, and people of whom each holds some columns."""

import numpy as np

from ndis import Release
from ndis.mechanisms.multiparty import Agreement, release_party

PARTIES = {"a": {"x0": (-1.0, 1.0), "x1": (0.0, 10.0)}, "b": {"y": (-5.0, 3.0)}}
CORNERS = np.array([[-1.0, 0.0, -5.0], [1.0, 10.0, 3.0]])


def agreement(n_rows: int = 50, **how: object) -> Agreement:
    given = {"parties": PARTIES, "epsilon": 1.0, "delta": 1e-5, "seed": 7} | how
    return Agreement(n_rows, **given)


def people(n_rows: int, seed: int = 0) -> np.ndarray:
    """Rows within the bounds of PARTIES: x0, x1 and y, which depends on both."""
    rng = np.random.default_rng(seed)
    x0, x1 = rng.uniform(-1, 1, n_rows), rng.uniform(0, 10, n_rows)
    return np.column_stack([x0, x1, -1.0 + 2.0 * x0 + 0.1 * x1 + rng.uniform(-1, 1, n_rows)])


def held(party: str, table: np.ndarray) -> np.ndarray:
    return table[:, :2] if party == "a" else table[:, 2:]


def parts(agreed: Agreement, table: np.ndarray, **how: object) -> list[Release]:
    return [release_party(agreed, party, held(party, table), **how) for party in PARTIES]
