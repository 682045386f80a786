"""New release files: made before anything is paid, whole when they have their name.

A file is made with all its space under another name, so that a full disk is found before the
payment; a kill leaves either no file of that name or a whole one.
"""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ndis import _validate
from ndis.release.signatures import ed25519_key

if TYPE_CHECKING:
    from ndis.release.release import Release


class NewFile:
    """A release file that appears at once and whole: written beside its place, then named.

    Parameters
    ----------
    path : str or path
        Where the release goes; a name in .npz that is not taken, in a folder that can be written.
    key : path or Ed25519PrivateKey, optional
        What to sign the release with.

    Examples
    --------
    The file is made before anything is paid:

    >>> import pathlib, tempfile
    >>> from ndis import GaussianMechanism, Release
    >>> from ndis.release import NewFile
    >>> run = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).prepare(10.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with NewFile(pathlib.Path(folder) / "count.npz") as file:
    ...         release = run.release(file=file)
    ...     Release.load(file.written).digest == release.digest
    True
    """

    def __init__(self, path: str | Path, key: Any = None) -> None:
        self.path = Path(path)
        self.key = None if key is None else ed25519_key(key, "private")
        self.written: Path | None = None
        self.failure: OSError | None = None
        if self.path.suffix != ".npz":
            raise ValueError(f"Expected a file name that ends in .npz, got {path}; rename it.")
        if os.path.lexists(path):
            raise FileExistsError(f"Expected a new file, got {path}, which exists; choose another.")
        _validate.require_folder(self.path, "release")
        self._aside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.part")

    def __enter__(self) -> NewFile:
        with self._named_in_errors():
            self._file = self._aside.open("xb")
        # Nobody else reads it before it is whole; then it is as public as the umask allows.
        self._mode = self._aside.stat().st_mode & 0o777
        self._aside.chmod(0o600)
        return self

    def reserve(self, release: Release) -> None:
        """Take the space for a release that is not drawn yet; refuses a second one."""
        if self.written is not None:
            raise ValueError(
                f"Expected one release for {self.path}, got a second; give each its own file."
            )
        if self.key is not None:
            release = release.with_signature("0" * 64, "0" * 128)
        with self._named_in_errors():
            zeros, left = bytes(2**20), release.measure()
            while left > 0:
                left -= self._file.write(zeros[:left])
            self._flush()

    def write(self, release: Release) -> Path:
        """Write the release and give the file its name, or a similar one if that was taken."""
        release = release if self.key is None else release.sign(self.key)
        release.measure()
        with self._named_in_errors():
            self._file.seek(0)
            for part in release.parts():
                self._file.write(part)
            self._flush()
            self._aside.chmod(self._mode)
            self.written = self._name()
            with suppress(OSError), _folder(self.path.parent) as folder:
                os.fsync(folder)  # not every system can; the file itself is safe by now
        return self.written

    def _name(self) -> Path:
        others = (self.path.with_stem(f"{self.path.stem}-{n}") for n in range(2, 1000))
        for path in (self.path, *others):
            with suppress(FileExistsError):
                _link(self._aside, path)
                return path
        raise FileExistsError(errno.EEXIST, "All similar names are taken", str(self.path))

    def _flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    @contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        """Errors name the file that was asked for, not the one beside it."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove what is left beside the file; raise what kept a release from being written."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._aside.unlink()
        if self.failure is not None and kind is None:
            raise OSError(
                f"Expected to write {self.path}, but could not ({self.failure.strerror}); the "
                "release is made and must not be made again: save it elsewhere."
            ) from self.failure

    def elsewhere(self, release: Release) -> Path | None:
        """Write a release whose place is gone where there is room, for its owner's eyes only."""
        release = release if self.key is None else release.sign(self.key)
        name = f"{self.path.stem}-{secrets.token_hex(4)}.npz"
        for folder in (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir())):
            with suppress(OSError, RuntimeError):  # no such folder, no home
                path = folder().absolute() / name
                try:
                    with open(
                        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
                    ) as f:
                        f.writelines(release.parts())
                        f.flush()
                        os.fsync(f.fileno())
                except OSError:
                    path.unlink(missing_ok=True)
                    raise
                self.written = path
                return path
        return None


def _link(source: Path, path: Path) -> None:
    """Give a file a second name that is not taken; unlike a rename, this never overwrites."""
    try:
        os.link(source, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        path.open("xb").close()
        source.replace(path)


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    opened = os.open(path, os.O_RDONLY)
    try:
        yield opened
    finally:
        os.close(opened)
