"""Arrays of other libraries, and on a card: the same bits and the same sentences."""

import numpy as np
import pytest

from ndis import PrivateLeastSquares
from ndis.tables import (
    Rows,
    moments,
)
from reading import opened, random_table


@pytest.mark.parametrize("kept", [False, True])
def test_a_fit_on_a_card_is_the_one_on_the_processor(kept: bool, monkeypatch) -> None:
    """Whether rows stay on the card for the rounds after the first, or are put there each time."""
    strict = pytest.importorskip("array_api_strict")
    monkeypatch.setattr("ndis.tables.sources.DEVICE_ENTRIES", 2000 * 3)
    monkeypatch.setattr("ndis.tables.kept.free_memory", lambda array: 2**30 * kept)
    read, blocks = [], Rows.blocks
    monkeypatch.setattr(Rows, "blocks", lambda *a, **k: read.append(a) or blocks(*a, **k))
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(9000, 3)) * rng.uniform(0, 2, (9000, 1)), rng.uniform(-1, 1, 9000)
    facts = {"epsilon": 2.0, "delta": 1e-6, "data_norm": 4.0, "label_bound": 1.0, "n_rounds": 3}
    model = PrivateLeastSquares(**facts, random_state=1)
    expected = model.fit(X, y).coef_
    read.clear()
    assert np.array_equal(model.fit(strict.asarray(X), strict.asarray(y)).coef_, expected)
    # Center, norms and Hessian; the rounds, two of which look at products first, and the last at
    # second moments.
    assert len(read) == (3 if kept else 3 * (3 + facts["n_rounds"] + 2 + 1))


def test_a_card_refuses_or_drops_what_is_not_finite() -> None:
    strict = pytest.importorskip("array_api_strict")
    table = random_table(10, 500)
    broken = table.copy()
    broken[123, 4] = np.nan
    broken[7, 2] = -np.inf
    names = [f"x{i}" for i in range(6)]
    limits = dict.fromkeys(names, (-2, 3))
    with pytest.raises(ValueError, match="'x2' has missing or infinite values"):
        opened(strict.asarray(broken), names, limits=limits, norm=None).sum(moments)
    with pytest.raises(ValueError, match="'x2' has missing or infinite values"):
        next(opened(strict.asarray(broken), names, norm=1.0).blocks())
    kept = opened(strict.asarray(broken), names, norm=2.0, drop_missing=True)
    assert (
        kept.moments["gram"] == opened(np.delete(table, [7, 123], axis=0), norm=2.0).moments["gram"]
    )
