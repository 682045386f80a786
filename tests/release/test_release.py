"""Releases as values: there and back, digests, and what cannot be released."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndis import Guarantee, Profile, QuadraticLoss, Release
from ndis.release import blank
from pairs import losses
from release_files import PROMISE, release


def test_a_release_survives_the_disk(tmp_path: Path) -> None:
    path = release().save(tmp_path / "release.npz")
    again = Release.load(path)
    assert again.guarantee == release().guarantee
    assert again.parameters == {"n_components": 3}
    assert again.digest == release().digest
    for name, array in release().arrays.items():
        assert np.array_equal(again.arrays[name], array)
        assert again.arrays[name].shape == array.shape
    assert path.read_bytes() == release().save(tmp_path / "second.npz").read_bytes()
    assert path.stat().st_size == release().measure()


def test_the_digest_is_that_of_whoever_wrote_it(tmp_path: Path) -> None:
    """A ledger of last year finds a release that this year's version has read."""
    old = release()
    old.library = "ndis 0.0.1"
    path = old.save(tmp_path / "old.npz")
    assert Release.load(path).digest == old.digest != release().digest


@pytest.mark.slow
@given(losses(), st.floats(0, 5), st.sampled_from(["proven", "relative", "declared", "refuted"]))
def test_any_loss_survives(loss: QuadraticLoss, epsilon: float, basis: str) -> None:
    promise = Guarantee(epsilon, 1e-6, "edge", basis, Profile.both(loss))
    once = io.BytesIO(b"".join(map(bytes, Release([1.0], promise, "one").parts())))
    stored = json.loads(zipfile.ZipFile(once).read("certificate.json"))["guarantee"]
    assert Guarantee.from_dict(stored).to_dict() == stored


def test_a_release_of_several_arrays_has_no_single_value() -> None:
    with pytest.raises(ValueError, match="gram, count"):
        _ = release().value
    assert Release([1.5], PROMISE, "one").value.tolist() == [1.5]
    for wrong in ([object()], ["text"], [1j]):
        with pytest.raises(TypeError, match="arrays of numbers"):
            Release(np.array(wrong), PROMISE, "wrong")


def test_a_notebook_shows_values_and_promise() -> None:
    shown = release()._repr_html_()
    assert "<td>gram</td><td>2 &times; 3</td>" in shown
    assert "[3. 4. 5.]" in shown
    assert "Changing any one row" in shown
    wide = Release(np.arange(1e6), PROMISE, "wide")._repr_html_()
    assert len(wide) < 2000


@pytest.mark.parametrize("shape", [(10**12, 3), (2**29,), (10**12, 10**12)])
def test_absurd_sizes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="release less at once"):
        blank({"value": shape}, PROMISE, "large", {})
