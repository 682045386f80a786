"""Release files: canonical, made before they are paid for, and never believed."""

import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disks import full_beyond
from ndis import Guarantee, Profile, QuadraticLoss, Release
from ndis import release as files
from ndis.release import ChangedRelease, NewFile, blank
from pairs import losses

SHIFT = Profile.both(QuadraticLoss.from_shift(1.0))
LONG = Guarantee(1.0, 0.1, "edge", "proven", QuadraticLoss(1e-3 + 1e-6 * np.arange(2500.0), 0.0, 1))
PROMISE = Guarantee(1.0, 0.127, "replace", "proven", SHIFT)


def release(**parameters: object) -> Release:
    arrays = {"gram": np.arange(6.0).reshape(2, 3), "count": np.array(7.0)}
    return Release(arrays, PROMISE, "example", {"n_components": 3, **parameters})


# --- There and back ---------------------------------------------------------------------------


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


def test_other_programs_read_it(tmp_path: Path) -> None:
    path = release().save(tmp_path / "release.npz")
    with np.load(path) as found:
        assert np.array_equal(found["gram"], release().arrays["gram"])
        assert found["count"].shape == ()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["certificate.json", "count.npy", "gram.npy"]
        assert json.loads(archive.read("certificate.json")) == release().certificate()
        assert {info.date_time[0] for info in archive.infolist()} == {1980}


@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8", "i8", ">i4", "u1", "?"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_arrays_of_all_numbers_and_shapes(tmp_path: Path, dtype: str, shape: tuple) -> None:
    array = np.ones(shape, dtype)
    again = Release.load(Release(array, PROMISE, "one").save(tmp_path / "a.npz"))
    assert np.array_equal(again.value, array)
    assert again.value.shape == shape
    assert again.value.dtype.str == array.dtype.newbyteorder("<").str


def test_arrays_in_any_order_of_memory(tmp_path: Path) -> None:
    array = np.arange(12.0).reshape(3, 4)
    for other in (np.asfortranarray(array), np.repeat(array, 2, axis=1)[:, ::2]):
        again = Release.load(Release(other, PROMISE, "one").save(tmp_path / f"{id(other)}.npz"))
        assert np.array_equal(again.value, array)


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


def test_numpy_numbers_are_parameters() -> None:
    given = {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.arange(2)}
    assert release(**given).parameters == {"n_components": 3, "a": 0.5, "b": 3, "c": True} | {
        "d": [0, 1]
    }


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), float("inf"), np.float64("nan")])
def test_what_json_cannot_hold_is_no_parameter(value: object) -> None:
    with pytest.raises(TypeError, match="Expected parameters that JSON can hold, got odd"):
        release(odd=value)


def test_a_notebook_shows_values_and_promise() -> None:
    shown = release()._repr_html_()
    assert "<td>gram</td><td>2 &times; 3</td>" in shown
    assert "[3. 4. 5.]" in shown
    assert "Changing any one row" in shown
    wide = Release(np.arange(1e6), PROMISE, "wide")._repr_html_()
    assert len(wide) < 2000


# --- New files --------------------------------------------------------------------------------


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = release().save(tmp_path / "r.npz")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="Expected a new file"):
        Release([1.0], PROMISE, "other").save(path)
    (tmp_path / "link.npz").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match="Expected a new file"):
        release().save(tmp_path / "link.npz")
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.npz", "r.npz"]


@pytest.mark.parametrize("name", ["f", "f.csv", "f.npz.gz", ".npz"])
def test_the_name_says_what_it_is(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"ends in \.npz"):
        release().save(tmp_path / name)


def test_a_folder_that_is_not_there_or_not_writable(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="which is not there; make it"):
        release().save(tmp_path / "nowhere" / "r.npz")
    with pytest.raises(OSError, match=r"'/proc/r\.npz'"):  # nobody can write there, not even root
        release().save("/proc/r.npz")


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    with full_beyond(500), pytest.raises(OSError, match=r"too large: '.*/r\.npz'"):
        release().save(tmp_path / "r.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_private_until_it_is_whole(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        with NewFile(tmp_path / "r.npz") as file:
            (aside,) = tmp_path.iterdir()
            assert aside.name.startswith(".r.npz.")
            assert aside.stat().st_mode & 0o777 == 0o600
            file.reserve(release())
            assert aside.stat().st_size == release().measure()
            file.write(release())
    finally:
        os.umask(mask)
    (written,) = tmp_path.iterdir()
    assert written.name == "r.npz"
    assert written.stat().st_mode & 0o777 == 0o640


def test_a_name_that_was_taken_meanwhile_costs_no_release(tmp_path: Path) -> None:
    with NewFile(tmp_path / "r.npz") as file:
        (tmp_path / "r.npz").write_text("somebody was quicker")
        assert file.write(release()) == tmp_path / "r-2.npz"
    assert (tmp_path / "r.npz").read_text() == "somebody was quicker"
    assert Release.load(tmp_path / "r-2.npz").digest == release().digest
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")  # what FAT answers

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "taken.npz").touch()
    for name, expected in (("r.npz", "r.npz"), ("s.npz", "s-2.npz")):
        with NewFile(tmp_path / name) as file:
            if expected != name:
                (tmp_path / name).touch()
            assert file.write(release()).name == expected
        assert Release.load(tmp_path / expected).digest == release().digest


def test_a_block_without_a_release_leaves_nothing(tmp_path: Path) -> None:
    with NewFile(tmp_path / "r.npz"):
        pass
    with pytest.raises(ZeroDivisionError), NewFile(tmp_path / "r.npz"):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [(10**12, 3), (2**29,), (10**12, 10**12)])
def test_absurd_sizes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="release less at once"):
        blank({"value": shape}, PROMISE, "large", {})


@pytest.mark.parametrize(
    ("mechanism", "parameters", "words"),
    [
        ("two words", {}, "mechanism must match"),
        ("one", {"camelCase": 1}, "parameters"),
        ("one", {"text": "x" * 2**22}, "release less at once"),
        ("one", {"deep": []}, "than 6000 terms"),
    ],
)
def test_what_no_reader_would_accept_is_not_written(
    tmp_path: Path, mechanism: str, parameters: dict, words: str
) -> None:
    with pytest.raises(ValueError, match="Expected a release") as caught:
        Release([1.0], PROMISE if "deep" not in parameters else LONG, mechanism, parameters).save(
            tmp_path / "r.npz"
        )
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# --- Files of strangers -----------------------------------------------------------------------


def rewritten(path: Path, change: object) -> Path:
    """A file as a forger makes it who knows the format: only the certificate is another."""
    certificate = Release.load(path).certificate()
    change(certificate)  # type: ignore[operator]
    with zipfile.ZipFile(path) as archive:
        arrays = {n.encode(): (archive.read(n),) for n in archive.namelist() if n.endswith(".npy")}
    text = json.dumps(certificate, indent=1, sort_keys=True).encode()
    path.write_bytes(b"".join(files._zipped({b"certificate.json": (text,), **arrays})))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return release().save(tmp_path / "release.npz")


def test_the_forger_of_these_tests_makes_good_files(path: Path) -> None:
    before = path.read_bytes()
    assert rewritten(path, lambda certificate: None).read_bytes() == before


def test_a_changed_number_is_noticed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(5.0).tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(ChangedRelease, match="changed after it was published"):
        Release.load(path)


def test_a_number_changed_with_its_checksum_is_noticed(path: Path) -> None:
    arrays = release().arrays | {"gram": np.ones((2, 3))}
    forged = Release(arrays, PROMISE, "example", {"n_components": 3})
    forged.certificate = release().certificate  # type: ignore[method-assign]
    path.write_bytes(b"".join(map(bytes, forged.parts())))
    with pytest.raises(ChangedRelease):
        Release.load(path)


@pytest.mark.slow
def test_every_byte_counts(path: Path) -> None:
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(ValueError, match="Expected"):
            Release.load(path)
    for other in (content[:-1], content + b"\0", b"", content[:40]):
        path.write_bytes(other)
        with pytest.raises(ValueError, match="Expected"):
            Release.load(path)


def _set(*keys: str, to: object) -> object:
    def change(certificate: dict) -> None:
        for key in keys[:-1]:
            certificate = certificate[key]
        certificate[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("guarantee", "private", to="no"), "certificate.guarantee.private must be boolean"),
        (_set("guarantee", "epsilon", to=-1), "certificate.guarantee.epsilon must be bigger"),
        (_set("guarantee", "epsilon", to=True), "certificate.guarantee.epsilon must be number"),
        (_set("guarantee", "epsilon", to=float("nan")), "not JSON"),
        (_set("guarantee", "delta", to=2), "certificate.guarantee.delta must be smaller"),
        (_set("guarantee", "basis", to="asymptotic"), "certificate.guarantee.basis must be one of"),
        (_set("guarantee", "relation", to=None), "certificate.guarantee.relation"),
        (_set("guarantee", "loss", to={}), "certificate.guarantee.loss must contain"),
        (_set("guarantee", "loss", to={"kind": "magic"}), "magic"),
        (_set("guarantee", "loss", to={"kind": "x", "y": [[0] * 99] * 99}), "than 6000 terms"),
        (_set("guarantee", "loss", to={"kind": "quadratic"}), "ask for the file again"),
        (_set("guarantee", "surprise", to=1), "certificate.guarantee must not contain"),
        (lambda c: c["guarantee"].pop("relation"), "certificate.guarantee must contain"),
        (lambda c: c.pop("guarantee"), "certificate must contain"),
        (lambda c: c["arrays"].pop("gram"), "length"),
        (_set("arrays", to={}), "certificate.arrays must contain at least"),
        (_set("arrays", "gram", "shape", to=[2**20, 2**20]), "length"),
        (_set("arrays", "gram", "shape", to=[-2, -3]), "must be bigger than or equal to 0"),
        (_set("arrays", "gram", "shape", to=[6.0]), "ask for the file again"),
        (_set("arrays", "gram", "dtype", to="|O8"), "dtype must match"),
        (_set("schema", to="ndis-release/9"), "of schema 'ndis-release/9'"),
        (_set("mechanism", to="\x1b[2Jnothing"), "mechanism must match"),
    ],
)
def test_malformed_certificates_get_one_clear_sentence(path: Path, change: object, words: str):
    with pytest.raises(ValueError, match="Expected a release file written by ndis") as caught:
        Release.load(rewritten(path, change))
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
    assert not isinstance(caught.value, ChangedRelease)


@pytest.mark.parametrize(
    "change",
    [
        _set("guarantee", "epsilon", to=0.1),  # the sentence still says 1
        _set("guarantee", "sentence", to="Nothing can ever happen to you."),
        _set("guarantee", "epsilon", to=1),  # not as it was written: 1.0
        _set("arrays", "gram", "shape", to=[3, 2]),
        _set("arrays", "gram", "sha256", to="0" * 64),
    ],
)
def test_a_certificate_that_contradicts_itself(path: Path, change: object) -> None:
    with pytest.raises(ValueError, match=r"changed after it was published|length"):
        Release.load(rewritten(path, change))


def test_deep_and_long_certificates(path: Path) -> None:
    for text in (
        b"[" * 100_000,
        b"[" * 2**22 + b"]" * 2**22,
        b"9" * 10_000,
        b"\xff\xfe",
        b'"\\ud800"',
    ):
        path.write_bytes(b"".join(files._zipped({b"certificate.json": (text,)})))
        with pytest.raises(ValueError, match="Expected a release file written by ndis"):
            Release.load(path)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """3 MB that unpack to gigabytes, and headers that ask for terabytes: neither is looked at."""
    bomb = tmp_path / "bomb.npz"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("certificate.json", json.dumps(release().certificate()))
        with archive.open("gram.npy", "w") as member:
            for _ in range(64):
                member.write(bytes(2**20))
    with pytest.raises(ValueError, match="Expected a release file"):
        Release.load(bomb)


def test_files_that_are_no_releases(tmp_path: Path) -> None:
    text, bare = tmp_path / "text.npz", tmp_path / "bare.npz"
    text.write_text("not an archive")
    np.savez(bare, value=np.ones(2))
    for path in (text, bare):
        with pytest.raises(ValueError, match="another kind of file"):
            Release.load(path)
    for path in (tmp_path, tmp_path / "nowhere.npz"):
        with pytest.raises(FileNotFoundError, match="Expected a release file"):
            Release.load(path)


# -- for the registry of deployments ---------------------------------------------------------

ABOUT = {
    "name": "Steps of a club, 2026",
    "data_curators": ["A club"],
    "registry_authors": ["B. Member"],
    "description": "Mean steps a day.",
    "intended_use": "To compare clubs.",
    "data_product_region": "Europe",
    "publication_date": "2026-11-16",
}


def test_a_record_for_the_registry() -> None:
    promise = Guarantee(1.0, 1e-6, "edge", "proven")
    release = Release([1.5], promise, "PrivateGraph", {"method": "sketch"})
    record = release.to_registry(**ABOUT, data_product_sector="Technology")
    assert record["url_slug"] == "steps-of-a-club-2026"
    assert set(record) == {"url_slug", "status", "tier", "deployment"}
    deployment = record["deployment"]
    assert deployment["basic"]["data_product_type"] == "Summary statistics"
    assert deployment["privacy_loss"]["privacy_unit"] == "One edge"
    assert deployment["privacy_loss"]["privacy_parameters_details"] == str(promise)
    assert "PrivateGraph, method sketch, by ndis" in deployment["implementation"]["mechanisms"]
    assert release.digest in deployment["administrative"]["notes"]
    pure = Release([1.5], Guarantee(1.0, 0.0, "party", "proven"), "x").to_registry(**ABOUT)
    assert pure["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    assert pure["deployment"]["deployment_model"]["model_name"] == "Federated"


def test_no_record_without_a_curator_nor_for_what_does_not_hold() -> None:
    release = Release([1.5], Guarantee(1.0, 1e-6, "replace", "proven"), "x")
    for name in ABOUT:
        with pytest.raises(ValueError, match=f"got none of {name};"):
            release.to_registry(**{k: v for k, v in ABOUT.items() if k != name})
    with pytest.raises(ValueError, match="got also mood;"):
        release.to_registry(**ABOUT, mood="good")
    for broken in ({"basis": "refuted"}, {"private": False}):
        promise = Guarantee(**{**{"basis": "proven"}, "epsilon": 1.0, "delta": 1e-6,
                               "relation": "replace", **broken})  # fmt: skip
        with pytest.raises(ValueError, match="does not"):
            Release([1.5], promise, "x").to_registry(**ABOUT)
