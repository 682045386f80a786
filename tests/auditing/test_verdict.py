"""What a verdict says, and what it does not."""

import json
import math

import pytest

import planted
from ndis import (
    audit,
)
from ndis.auditing import Claim
from ndis.auditing.verdict import Verdict
from planted import CLAIM, COMPONENTS, RIDGE, TABLE


def test_a_delta_above_the_claim_that_refutes_nothing_is_told() -> None:
    verdict = Verdict(Claim(1.0, 0.1), math.log(0.2), -10.0, "a pair", ())
    assert verdict.outcome == "consistent"
    assert "no more than rounding can explain" in str(verdict)


def test_a_verdict_names_nobody_and_is_not_a_truth_value() -> None:
    verdict = audit(planted.sketch(RIDGE / 4), TABLE, CLAIM, copies=COMPONENTS)
    told = json.dumps(verdict.to_dict())
    assert "row" not in verdict.to_dict()
    assert not any(repr(float(entry)) in told for entry in TABLE.reshape(-1))
    assert len(verdict.worst) == 10
    assert all(
        a.log_delta >= b.log_delta for a, b in zip(verdict.worst, verdict.worst[1:], strict=False)
    )
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(verdict)


@pytest.mark.parametrize("claim", [None, 1.0, (1.0,), "strong"])
def test_a_claim_is_two_numbers(claim: object) -> None:
    with pytest.raises(TypeError, match="two numbers"):
        Claim.of(claim)
