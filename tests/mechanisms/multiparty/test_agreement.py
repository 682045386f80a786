"""What parties agree on, in a file that nobody can change alone."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ndis.calibration import noise_multiplier
from ndis.mechanisms.multiparty import Agreement
from parties import PARTIES, agreement


def test_the_joint_distance() -> None:
    sizes = (2, 2, 2, 2, 2, 1)
    names = iter(f"c{i}" for i in range(11))
    parties = {f"p{j}": {next(names): (-1, 1) for _ in range(d)} for j, d in enumerate(sizes)}
    ours = Agreement(1000, parties, 1.0, 1e-5)
    assert ours.joint_shift() == pytest.approx(math.sqrt(6) / noise_multiplier(1.0, 1e-5))
    whole = replace(ours, protects="person")
    assert (whole.joint_guarantee().epsilon, whole.guarantee("p5").epsilon < 0.5) == (1.0, True)


def test_narrow_bounds_mean_little_noise_and_few_columns_too() -> None:
    wide = agreement(parties={"a": {"x": (-1.0, 1.0)}, "b": {"y": (0, 1)}})
    narrow = agreement(parties={"a": {"x": (-0.25, 0.25)}, "b": {"y": (0, 1)}})
    assert (narrow.half_widths * narrow.noise_scales)[0] == pytest.approx(
        (wide.half_widths * wide.noise_scales)[0] / 4
    )
    assert agreement().noise_scale("b") < agreement().noise_scale("a")


def test_the_number_of_mixed_rows_needs_no_data_and_balances() -> None:
    agreed = agreement(3_000_000)
    noise = np.mean(agreed.noise_scales**2)
    assert agreed.n_components == round(3_000_000 / 16 / noise)
    assert agreement(100).n_components == 8


def test_an_agreement_survives_its_file(tmp_path: Path) -> None:
    agreed = agreement(key="id", seed=2**127 + 1)
    again = Agreement.load(agreed.save(tmp_path / "agreement.json"))
    assert (again, again.fingerprint) == (agreed, agreed.fingerprint)


def test_a_changed_agreement_is_refused(tmp_path: Path) -> None:
    path = agreement().save(tmp_path / "agreement.json")
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"epsilon": 2.0}))
    with pytest.raises(ValueError, match="changed after it was agreed on"):
        Agreement.load(path)
    path.write_text(json.dumps(stored | {"more": 1, "fingerprint": "0"}))
    with pytest.raises(ValueError, match="one with a fault"):
        Agreement.load(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="written by `ndis party init`"):
        Agreement.load(path)
    for text, words in (("[" * 10**5, "written by `ndis party init`"), (" " * 2**23, "at most")):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            Agreement.load(path)


def test_every_public_parameter_is_in_the_fingerprint() -> None:
    base = agreement()
    others = [
        replace(base, n_rows=51),
        replace(base, parties={"b": PARTIES["b"], "a": PARTIES["a"]}),
        replace(base, parties=PARTIES | {"b": {"y": (-5.0, 4.0)}}),
        replace(base, epsilon=2.0),
        replace(base, delta=1e-6),
        replace(base, protects="person"),
        replace(base, n_components=20),
        replace(base, key="id"),
        replace(base, seed=8),
    ]
    assert len({each.fingerprint for each in [base, *others]}) == 1 + len(others)
    assert agreement(seed=7).fingerprint == base.fingerprint


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"parties": {}}, "at least one party"),
        ({"parties": {"a": {}}}, "columns of party"),
        ({"parties": {"a": {"x": (1, 1)}}}, "low < high"),
        ({"parties": {"a": {"x": (0, 1)}, "b": {"x": (0, 1)}}}, "more than once"),
        ({"key": "y"}, "more than once"),
        ({"n_rows": 2**40}, "in parts"),
        ({"seed": 2**128}, "seed < "),
        ({"epsilon": 0.0}, "epsilon > 0"),
    ],
)
def test_bad_agreements_are_refused(how: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        agreement(**{"n_rows": 50} | how)
