"""The file format: canonical, readable by numpy, and never believed."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ndis import Release
from ndis.release import ChangedRelease
from release_files import PROMISE, release, rewritten


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return release().save(tmp_path / "release.npz")


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
