"""What `ndis reproduce` announces, against measurements."""

import json
from pathlib import Path

from ndis_papers.reproduce import EXPERIMENTS


def test_announced_times_are_within_a_factor_of_two_of_those_measured() -> None:
    """Processor minutes; `benchmarks/bench_reproduce.py` writes the record, nothing is timed here.

    Runs of many minutes are in it where they were measured.
    """
    record = json.loads((Path(__file__).parent / "times.json").read_text())
    assert record.keys() == EXPERIMENTS.keys()
    for name, experiment in EXPERIMENTS.items():
        announced = {
            "usual": experiment.minutes,
            "quick": experiment.quick_minutes,
            "full": experiment.full_minutes,
        }
        assert record[name]
        for how, minutes in record[name].items():
            assert 0.5 <= announced[how] / minutes <= 2.0, (name, how)
