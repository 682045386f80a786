"""Guarantees, their conversions and their sentences; releases that refuse to be changed."""

import json
import math
import zipfile
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndis import Guarantee, NeighbourRelation, Profile, QuadraticLoss, Release
from pairs import losses

SHIFT = Profile.both(QuadraticLoss.from_shift(1.0))


def guarantee(**changes: object) -> Guarantee:
    settings = {"epsilon": 1.0, "delta": 0.127, "relation": "replace", "basis": "proven"}
    return Guarantee(**{**settings, "loss": SHIFT, **changes})


def test_the_sentence_is_plain_and_complete() -> None:
    assert str(guarantee()) == (
        "(1, 0.127)-differentially private for data sets that differ in the content of one row, "
        "for every pair of neighbours, by proof and exact numerics."
    )
    assert str(guarantee(private=False)).endswith("NOT PRIVATE: the noise came from a known seed.")
    for relation in NeighbourRelation:
        assert relation.sentence in str(guarantee(relation=relation))


@given(losses(), st.floats(0, 5), st.floats(1e-9, 0.5), st.booleans())
def test_a_guarantee_survives_json(
    loss: QuadraticLoss, eps: float, delta: float, private: bool
) -> None:
    promised = Guarantee(eps, delta, "edge", "relative", Profile.both(loss), private, "A note.")
    assert Guarantee.from_dict(json.loads(json.dumps(promised.to_dict()))) == promised


def test_other_dialects() -> None:
    assert guarantee().zcdp() == pytest.approx(0.5, rel=1e-12)
    assert guarantee(delta=float(SHIFT.delta(1.0))).gdp() == pytest.approx(1.0, rel=1e-9)
    sketch = Profile.both(QuadraticLoss.from_leverage(0.1, 10))
    assert math.isinf(guarantee(loss=sketch).zcdp())
    for read in (Guarantee.zcdp, Guarantee.gdp):
        with pytest.raises(ValueError, match="carries its loss"):
            read(guarantee(loss=None))


@given(st.floats(0.01, 1.0), st.integers(2, 4), st.floats(0.05, 0.5))
def test_a_group_is_covered(eps: float, size: int, distance: float) -> None:
    one = QuadraticLoss.from_shift(distance)
    promised = Guarantee(eps, float(one.delta(eps)) * (1 + 1e-12), "add-remove", "proven")
    group = promised.for_group(size)
    assert group.epsilon == pytest.approx(size * eps)
    # A group of `size` rows moves the mean by at most `size` times as much.
    assert QuadraticLoss.from_shift(size * distance).delta(group.epsilon) <= group.delta


def test_conversions_say_what_they_are() -> None:
    promised = guarantee(relation="add-remove", epsilon=0.5, delta=1e-6)
    replaced = promised.to_replace()
    assert replaced.relation is NeighbourRelation.REPLACE
    assert replaced.delta >= 1e-6 * (1 + math.exp(0.5))
    assert "removal followed by an addition" in str(replaced)
    assert promised.for_group(1).epsilon == 0.5
    with pytest.raises(ValueError, match="add-remove"):
        replaced.to_replace()
    with pytest.raises(ValueError, match="size=50"):
        guarantee(delta=0.1).for_group(50)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": -1.0}, "epsilon=-1.0"),
        ({"epsilon": math.inf}, "finite"),
        ({"delta": 1.5}, "delta=1.5"),
        ({"delta": math.nan}, "finite"),
        ({"relation": "cousins"}, "'cousins'"),
        ({"basis": "hearsay"}, "'hearsay'"),
    ],
)
def test_bad_guarantees_get_one_sentence(changes: dict, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match="Expected") as caught:
        guarantee(**changes)
    assert words in str(caught.value)


def test_a_guarantee_cannot_be_edited() -> None:
    with pytest.raises(FrozenInstanceError):
        guarantee().epsilon = 0.1


# --- Releases --------------------------------------------------------------------------------


def release() -> Release:
    arrays = {"gram": np.arange(6.0).reshape(2, 3), "names": np.array(["a", "b"])}
    return Release(arrays, guarantee(), "example", {"n_components": 3})


def test_a_release_survives_the_disk(tmp_path: Path) -> None:
    path = release().save(tmp_path / "release.npz")
    again = Release.load(path)
    assert again.guarantee == release().guarantee
    assert again.parameters == {"n_components": 3}
    assert again.digest == release().digest
    for name, array in release().arrays.items():
        assert np.array_equal(again.arrays[name], array)
    assert path.read_bytes() == release().save(tmp_path / "second.npz").read_bytes()


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = release().save(tmp_path / "release.npz")
    other = Release({**release().arrays, "gram": np.zeros((2, 3))}, guarantee(), "example")
    with zipfile.ZipFile(other.save(tmp_path / "other.npz")) as archive:
        forged = archive.read("gram.npy")
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, stored in content.items():
            archive.writestr(name, forged if name == "gram.npy" else stored)
    with pytest.raises(ValueError, match="changed after it was published"):
        Release.load(path)


def test_files_that_are_no_releases(tmp_path: Path) -> None:
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    bare = tmp_path / "bare.npz"
    np.savez(bare, value=np.ones(2))
    future = tmp_path / "future.npz"
    with zipfile.ZipFile(future, "w") as archive:
        archive.writestr("certificate.json", json.dumps({"schema": "ndis-release/9"}))
    for path, words in (
        (text, "written by ndis"),
        (bare, "written by ndis"),
        (future, "release/9"),
    ):
        with pytest.raises(ValueError, match="Expected") as caught:
            Release.load(path)
        assert words in str(caught.value)


def test_a_release_of_several_arrays_has_no_single_value() -> None:
    with pytest.raises(ValueError, match="gram, names"):
        _ = release().value
    assert Release([1.5], guarantee(), "one").value.tolist() == [1.5]
    with pytest.raises(TypeError, match="Python objects"):
        Release(np.array([object()]), guarantee(), "objects")
