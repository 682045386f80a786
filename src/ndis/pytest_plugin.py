"""A fixture for pytest: replay code with its noise frozen, and fail where it breaks its claim.

pytest loads it wherever ndis is installed; nothing else is imported until a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def replay() -> Callable[..., Any]:
    """Run a mechanism on two neighbours with the same noise: `ndis.auditing.audit_replay`.

    The test fails if the claim is refuted, or if the declared sensitivity is broken; the message
    has the delta that is proven. The verdict is returned.
    """
    from ndis.auditing.replay import BROKEN, audit_replay

    def check(mechanism: Any, D: Any, D_prime: Any, claim: Any, **declared: Any) -> Any:
        verdict = audit_replay(mechanism, D, D_prime, claim, **declared)
        broken = [part for part in verdict.searched if part.endswith(BROKEN)]
        if verdict.refuted or broken:
            pytest.fail("\n".join([str(verdict), *broken]), pytrace=False)
        return verdict

    return check
