"""What a run asked for and was answered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from estimators import all_cases
from ndis.auditing.transcript import Recorder, Transcript
from ndis.randomness.listening import listening


@pytest.mark.slow
def test_every_answer_is_released() -> None:
    """What is told apart is what is published: an answer that changes shows in the release."""
    quick = ("covariance", "principal", "process", "least squares, n", "limits", "graph", "multi")
    for case in all_cases():
        if not case.name.startswith(quick) or case.name == "process, posterior":
            continue
        recorder = Recorder(case.make(epsilon=1.0, delta=1e-6))
        first = recorder.run(case.data())
        before = released(recorder, case.data(), first.answers)
        for place, answer in enumerate(first.answers):
            changed = [each.copy() for each in first.answers]
            changed[place].reshape(-1)[-1] += max(1.0, abs(float(answer.reshape(-1)[-1])))
            after = released(recorder, case.data(), changed)
            assert any(not np.array_equal(before[name], after[name]) for name in before), (
                case.name,
                place,
            )


def released(recorder: Recorder, data: Any, answers: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a release with these answers."""
    done = Transcript(answers)
    with listening(done):
        arrays = recorder.prepare(data).draw(done.rng)
    return {name: np.asarray(array) for name, array in arrays.items()}
