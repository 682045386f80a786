"""New files: whole or not there, never over another, private until they are whole."""

import os
from pathlib import Path

import pytest

from disks import full_beyond
from ndis import Release
from ndis.release import NewFile
from release_files import PROMISE, release


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
