"""What was published and with which promise: the release, its certificate and its file.

The file is a zip archive that numpy reads, and it is canonical: the certificate, which comes first,
determines its length and every byte outside the arrays, and holds the hashes of those. A reader
checks the certificate against its schema, works out from it what the file must look like, and
refuses every other one. Nothing is unpacked, no pickle is read, and no size is believed.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import math
import os
import re
import secrets
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from html import escape
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis.guarantee import Guarantee, NeighbourRelation

SCHEMA = "ndis-release/2"
# The longest file that a zip archive without extensions can describe.
MOST_BYTES = 2**32 - 1

# What a reader works out about a loss in ball arithmetic takes about 10 s at this size.
MOST_TERMS = 6000

# A file is compared piece by piece, so that it is in memory once.
_PIECE = 2**20

_FIRST = b"certificate.json"
_NUMBERS = re.compile(r"[|][biu]1|<[iuf][248]")
# PKWARE's records: before a member, in the directory, at the end. Nothing is compressed, and the
# date is always the first that zip knows: when the owner worked is not part of the release.
_LOCAL, _CENTRAL, _END = (struct.Struct(f"<4s{f}") for f in ("5H3L2H", "6H3L5H2L", "4H2LH"))
_FIRST_DAY = 1 << 5 | 1

# What the registry of deployments asks of a curator, and what else it takes.
_ABOUT = (
    "name",
    "data_curators",
    "description",
    "intended_use",
    "data_product_region",
    "publication_date",
)
_ABOUT_MORE = ("data_product_type", "data_product_sector")

Shapes = Mapping[str, tuple[int, ...]]


class ChangedRelease(ValueError):
    """A release file that is not as it was published."""


class Release:
    """A published value with its guarantee: one array, or several by name.

    Parameters
    ----------
    value : array or mapping of str to array
        What is published.
    guarantee : Guarantee
    mechanism : str
        Which mechanism made it.
    parameters : mapping
        Public parameters only, JSON-able; nothing here may depend on the data.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import Guarantee, Release
    >>> release = Release(np.array([1.5]), Guarantee(1.0, 1e-6, "replace", "proven"), "example")
    >>> release.certificate()["schema"]
    'ndis-release/2'
    """

    def __init__(
        self,
        value: ArrayLike | Mapping[str, ArrayLike],
        guarantee: Guarantee,
        mechanism: str,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        from ndis import __version__

        named = dict(value) if isinstance(value, Mapping) else {"value": value}
        self.arrays: dict[str, NDArray[Any]] = {k: _numbers(k, v) for k, v in named.items()}
        self.guarantee = guarantee
        self.mechanism = mechanism
        self.parameters: dict[str, Any] = plain(parameters or {})
        self.library = f"ndis {__version__}"
        self.signatures: tuple[dict[str, str], ...] = ()

    @property
    def value(self) -> NDArray[Any]:
        """The array of a release that has only one."""
        if len(self.arrays) != 1:
            names = ", ".join(self.arrays)
            raise ValueError(f"Expected a release of one array, got {names}; use `arrays[name]`.")
        return next(iter(self.arrays.values()))

    def certificate(self) -> dict[str, Any]:
        """The versioned certificate: guarantee, public parameters and hashes of the arrays."""
        return self._certificate({name: _sha256(array) for name, array in self.arrays.items()})

    def _certificate(self, hashes: Mapping[str, str]) -> dict[str, Any]:
        unsigned = {
            "schema": SCHEMA,
            "library": self.library,
            "mechanism": self.mechanism,
            "parameters": self.parameters,
            "guarantee": self.guarantee.to_dict(),
            "arrays": {
                name: {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": hashes[name]}
                for name, array in self.arrays.items()
            },
        }
        return unsigned | ({"signatures": list(self.signatures)} if self.signatures else {})

    @property
    def digest(self) -> str:
        """SHA-256 of everything published; signatures are of it and not in it."""
        unsigned = self.certificate()
        unsigned.pop("signatures", None)
        return hashlib.sha256(json.dumps(unsigned, sort_keys=True).encode()).hexdigest()

    def measure(self) -> int:
        """The length of its file in bytes, from shapes alone; refuses what cannot be written."""
        certificate = self._certificate(dict.fromkeys(self.arrays, "0" * 64))
        try:
            _check(certificate)
        except ValueError as error:
            raise ValueError(
                f"Expected a release that can be written, got one whose {error}."
            ) from None
        text, size = _text(certificate), _length(certificate)
        if len(text) > _validate.MOST_TEXT or size > MOST_BYTES:
            raise ValueError(
                f"Expected a release of at most {MOST_BYTES} bytes with a certificate of at most "
                f"{_validate.MOST_TEXT}, got {size} and {len(text)}; release less at once."
            )
        return size

    # -- signatures --------------------------------------------------------------------------

    def sign(self, key: Any) -> Release:
        """The same release with one more signature.

        Parameters
        ----------
        key : path or Ed25519PrivateKey
            An Ed25519 key of the `cryptography` package, or a PEM file that holds one.

        Examples
        --------
        >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        >>> from ndis import Guarantee, Release
        >>> key = Ed25519PrivateKey.generate()
        >>> release = Release([1.5], Guarantee(1.0, 1e-6, "replace", "proven"), "example")
        >>> release.sign(key).signed_by(key.public_key())
        True
        """
        secret = _key(key, "private")
        signature = secret.sign(_signed_text(self.digest)).hex()
        return self._with(secret.public_key().public_bytes_raw().hex(), signature)

    def signed_by(self, key: Any) -> bool:
        """Whether the release carries a valid signature by this key.

        Parameters
        ----------
        key : path or Ed25519PublicKey
            An Ed25519 key of the `cryptography` package, or a PEM file that holds one.
        """
        from cryptography.exceptions import InvalidSignature

        public, text = _key(key, "public"), _signed_text(self.digest)
        for each in self.signatures:
            with suppress(InvalidSignature):
                public.verify(bytes.fromhex(each["signature"]), text)
                return True
        return False

    def _with(self, public_key: str, signature: str) -> Release:
        signed = copy(self)
        signed.signatures = (
            *self.signatures,
            {"public_key": public_key, "signature": signature},
        )
        return signed

    # -- files -------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write arrays and certificate to a new .npz file; an existing one is never overwritten.

        Examples
        --------
        >>> import tempfile, pathlib, numpy as np
        >>> from ndis import Guarantee, Release
        >>> release = Release(np.array([1.5]), Guarantee(1.0, 1e-6, "replace", "proven"), "example")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = release.save(pathlib.Path(folder) / "release.npz")
        ...     Release.load(path).value
        array([1.5])
        """
        with NewFile(path) as file:
            return file.write(self)

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release; refuses every file that is not exactly as it was written.

        Raises
        ------
        ChangedRelease
            If arrays or certificate were changed after they were written.
        ValueError
            If it is no release file at all.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"Expected a release file, got {path}; check the path.")
        with Path(path).open("rb") as file:
            try:
                release = cls._read(file)
                same = release._is_in(file)
            except Exception as error:  # whatever a stranger's file does to parsers and losses
                raise ValueError(
                    f"Expected a release file written by ndis, got {path}: "
                    f"{_validate.printable(str(error))[:300]}; ask for the file again."
                ) from None
        if not same:
            raise ChangedRelease(
                f"Expected a file that matches its certificate, got {path}; "
                "it was changed after it was published."
            )
        return release

    @classmethod
    def _read(cls, file: BinaryIO) -> Release:
        """The release in a file of the right length; nothing else about the file is checked."""
        size = os.fstat(file.fileno()).st_size
        head = file.read(_LOCAL.size + len(_FIRST))
        if head[:4] != b"PK\3\4" or not head.endswith(_FIRST):
            raise ValueError("it is another kind of file")
        length = _LOCAL.unpack_from(head)[8]
        if length > min(_validate.MOST_TEXT, size):
            raise ValueError("its certificate is too long")
        certificate = parse(file.read(length))
        if size != _length(certificate):
            raise ValueError("its length is not what its certificate implies")
        arrays: dict[str, NDArray[Any]] = {}
        for name, about in sorted(certificate["arrays"].items()):
            arrays[name] = np.empty(about["shape"], about["dtype"])
            head = _npy_head(about["dtype"], about["shape"])
            file.seek(_LOCAL.size + len(_member(name)) + len(head), os.SEEK_CUR)
            file.readinto(_bytes(arrays[name]))  # type: ignore[attr-defined]
        guarantee = Guarantee.from_dict(certificate["guarantee"])
        release = cls(arrays, guarantee, certificate["mechanism"], certificate["parameters"])
        release.library = certificate["library"]
        release.signatures = tuple(certificate.get("signatures", ()))
        return release

    def _is_in(self, file: BinaryIO) -> bool:
        """Whether a file holds this release and nothing else, byte for byte."""
        file.seek(0)
        parts = (memoryview(part) for part in self.parts())
        pieces = (part[at : at + _PIECE] for part in parts for at in range(0, len(part), _PIECE))
        return all(file.read(len(piece)) == piece for piece in pieces) and not file.read(1)

    def parts(self) -> Iterator[Any]:
        """The bytes of the file, piece by piece."""
        contents: dict[bytes, tuple[Any, ...]] = {_FIRST: (_text(self.certificate()),)}
        for name, array in sorted(self.arrays.items()):
            contents[_member(name)] = (_npy_head(array.dtype.str, array.shape), _bytes(array))
        return _zipped(contents)

    # -- for others --------------------------------------------------------------------------

    def to_registry(self, **about: Any) -> dict[str, Any]:
        """A record for OpenDP's registry of deployments, in its schema; JSON of it is YAML.

        What the certificate knows is filled in: the promise, whom it protects, the mechanism. What
        only the curator knows has to be said.

        Parameters
        ----------
        **about
            ``name``, ``data_curators`` and ``registry_authors`` (lists), ``description``,
            ``intended_use``, ``data_product_region``, ``publication_date`` (YYYY-MM-DD), and
            optionally ``data_product_type`` and ``data_product_sector``, as the registry names
            them.

        Examples
        --------
        >>> from ndis import Guarantee, Release
        >>> release = Release([1.5], Guarantee(1.0, 1e-6, "add-remove", "proven"), "example")
        >>> record = release.to_registry(
        ...     name="Steps", data_curators=["A club"], registry_authors=["B. Member"],
        ...     description="Mean steps a day.", intended_use="To compare clubs.",
        ...     data_product_region="Europe", publication_date="2026-11-16",
        ... )
        >>> record["deployment"]["privacy_loss"]["privacy_parameters"]
        {'epsilon': 1.0, 'delta': 1e-06}
        """
        promise = self.guarantee
        promise.must_hold()
        needed = (*_ABOUT, "registry_authors")
        known = {"data_product_type": "Summary statistics", **about}
        missing = [name for name in needed if not known.get(name)]
        unknown = [name for name in known if name not in (*needed, *_ABOUT_MORE)]
        if missing or unknown:
            wrong = f"none of {', '.join(missing)}" if missing else f"also {', '.join(unknown)}"
            raise ValueError(
                f"Expected {', '.join(needed)} for the registry, got {wrong}; correct them."
            )
        party = promise.relation is NeighbourRelation.PARTY
        method = self.parameters.get("method")
        return {
            "url_slug": re.sub(r"[^a-z0-9]+", "-", str(known["name"]).lower()).strip("-"),
            "status": "Draft",
            "tier": 2,
            "deployment": {
                "basic": {name: known[name] for name in (*_ABOUT, *_ABOUT_MORE) if name in known},
                "dp_variant": {"variant_name": "Approximate DP" if promise.delta else "Pure DP"},
                "privacy_loss": {
                    "privacy_unit": promise.relation.unit,
                    "privacy_unit_details": f"Adjacent: {promise.relation.change}.",
                    "privacy_parameters": {"epsilon": promise.epsilon, "delta": promise.delta},
                    "privacy_parameters_details": str(promise),
                },
                "deployment_model": {
                    "model_name": "Federated" if party else "Central",
                    "release_type": "One release",
                    "access_type": "Non-interactive",
                },
                "implementation": {
                    "mechanisms": f"{self.mechanism}{f', method {method}' if method else ''}, by "
                    f"{self.library}; noise is drawn exactly and rounded correctly."
                },
                "administrative": {
                    "notes": f"SHA-256 of the release: {self.digest}",
                    "registry_authors": list(known["registry_authors"]),
                },
            },
        }

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {array.shape}" for name, array in self.arrays.items())
        return f"Release({self.mechanism}, {arrays})\n{self.guarantee}"

    def _repr_html_(self) -> str:
        """The arrays with their values, shortened, and the guarantee."""
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{' &times; '.join(map(str, array.shape))}</td>"
            f"<td><pre>{escape(np.array2string(array, threshold=20, precision=6))}</pre></td></tr>"
            for name, array in self.arrays.items()
        )
        return (
            f"<p><b>{escape(self.mechanism)}</b></p>"
            f"<table><tr><th>array</th><th>shape</th><th>values</th></tr>{rows}</table>"
            f"{self.guarantee._repr_html_()}"
        )


def blank(
    shapes: Shapes, guarantee: Guarantee, mechanism: str, parameters: Mapping[str, Any]
) -> Release:
    """A release of zeros that take no memory, to be measured and never to be published."""
    for name, shape in shapes.items():
        if 0 in shape:
            raise ValueError(
                f"Expected something to release, got {name!r} of shape {shape}; "
                "name at least one column, component or answer."
            )
        if 8 * math.prod(shape) > MOST_BYTES:
            raise ValueError(
                f"Expected a release of at most {MOST_BYTES} bytes, got {name!r} of shape {shape}; "
                "release less at once."
            )
    zeros = {name: np.broadcast_to(0.0, shape) for name, shape in shapes.items()}
    return Release(zeros, guarantee, mechanism, parameters)


# -- new files -------------------------------------------------------------------------------


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
    >>> run = GaussianMechanism(1.0, 1e-6, sensitivity=1.0).prepare(10.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with NewFile(pathlib.Path(folder) / "count.npz") as file:
    ...         release = run.release(file=file)
    ...     Release.load(file.written).digest == release.digest
    True
    """

    def __init__(self, path: str | Path, key: Any = None) -> None:
        self.path = Path(path)
        self.key = None if key is None else _key(key, "private")
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
            release = release._with("0" * 64, "0" * 128)
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


# -- the certificate -------------------------------------------------------------------------


def parse(text: bytes) -> dict[str, Any]:
    """A certificate from its text, checked against the schema; raises half a sentence."""
    try:
        found = json.loads(text.decode("ascii"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ValueError("its certificate is not JSON") from None
    if isinstance(found, dict) and found.get("schema") != SCHEMA:
        raise ValueError(f"its certificate is of schema {found.get('schema')!r}, not {SCHEMA!r}")
    try:
        _check(found)
    except ValueError as error:
        raise ValueError(f"its {error}") from None
    return dict(found)


def _check(certificate: Any) -> None:
    from fastjsonschema import JsonSchemaValueException

    try:
        _validator()(certificate)
    except JsonSchemaValueException as error:
        raise ValueError(error.message.replace("data", "certificate", 1)) from None
    if _terms(certificate["guarantee"]["loss"]) > MOST_TERMS:
        raise ValueError(f"certificate.guarantee.loss has more than {MOST_TERMS} terms")


def _terms(loss: Any) -> int:
    """How many numbers a reader must work with; a table of masses is cheap at any length."""
    if isinstance(loss, dict):
        return sum(_terms(value) for name, value in loss.items() if name != "mass")
    return len(loss) + sum(map(_terms, loss)) if isinstance(loss, list) else 0


@functools.cache
def _validator() -> Any:
    import fastjsonschema

    schema = resources.files("ndis").joinpath("release.schema.json").read_text()
    return fastjsonschema.compile(json.loads(schema))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON gives them back; numpy's numbers become Python's."""
    found = {}
    for name, value in parameters.items():
        try:
            found[name] = json.loads(json.dumps(value, default=_unwrapped, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(
                f"Expected parameters that JSON can hold, got {name} with something else ({error});"
                " pass numbers, text, lists or mappings."
            ) from None
    return found


def _unwrapped(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not serialisable")


def _text(certificate: Mapping[str, Any]) -> bytes:
    return json.dumps(certificate, indent=1, sort_keys=True, allow_nan=False).encode("ascii")


def _signed_text(digest: str) -> bytes:
    return f"{SCHEMA} {digest}".encode()


def _key(key: Any, kind: str) -> Any:
    """An Ed25519 key, from a PEM file if need be; a private key holds the public one."""
    with _validate.installed("the package cryptography for signatures", "'ndis[sign]'"):
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    wanted = ed25519.Ed25519PrivateKey if kind == "private" else ed25519.Ed25519PublicKey
    if isinstance(key, str | Path):
        content = Path(key).read_bytes()
        try:
            if kind == "private":
                key = serialization.load_pem_private_key(content, None)
            else:
                key = serialization.load_pem_public_key(content)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
    if not isinstance(key, wanted):
        raise ValueError(
            f"Expected an Ed25519 {kind} key in PEM without a password, got something else; make "
            "one with: openssl genpkey -algorithm ed25519."
        )
    return key


# -- the archive -----------------------------------------------------------------------------


def _numbers(name: Any, value: ArrayLike) -> NDArray[Any]:
    array = np.asarray(value)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if not _NUMBERS.fullmatch(array.dtype.str):
        raise TypeError(
            f"Expected arrays of numbers, got {array.dtype} in {name!r}; convert them first."
        )
    return array


def _bytes(array: NDArray[Any]) -> Any:
    """The content of an array in C order, without a copy where it has that order."""
    return np.asarray(array, order="C").reshape(-1).view(np.uint8).data


def _sha256(array: NDArray[Any]) -> str:
    return hashlib.sha256(_bytes(array)).hexdigest()


def _member(name: str) -> bytes:
    return f"{name}.npy".encode("ascii")


def _npy_head(dtype: str, shape: Iterable[int]) -> bytes:
    """What numpy's format 1.0 puts before the content, padded to 64 bytes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    length = -(-(10 + len(text) + 1) // 64) * 64 - 10
    return b"\x93NUMPY\1\0" + length.to_bytes(2, "little") + f"{text:<{length - 1}}\n".encode()


def _zipped(contents: Mapping[bytes, tuple[Any, ...]]) -> Iterator[Any]:
    """A zip archive of uncompressed members, piece by piece."""
    start, directory = 0, b""
    for name, pieces in contents.items():
        crc, size = 0, sum(len(piece) for piece in pieces)
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
        about = (20, 0, 0, 0, _FIRST_DAY, crc, size, size, len(name), 0)
        yield _LOCAL.pack(b"PK\3\4", *about) + name
        yield from pieces
        directory += _CENTRAL.pack(b"PK\1\2", 20, *about, 0, 0, 0, 0, start) + name
        start += _LOCAL.size + len(name) + size
    count = len(contents)
    yield directory + _END.pack(b"PK\5\6", 0, 0, count, count, len(directory), start, 0)


def _length(certificate: Mapping[str, Any]) -> int:
    """How long the file with this certificate is."""
    members = [(len(_FIRST), len(_text(certificate)))]
    for name, about in certificate["arrays"].items():
        content = math.prod(about["shape"]) * np.dtype(about["dtype"]).itemsize
        size = len(_npy_head(about["dtype"], about["shape"])) + content
        members.append((len(_member(name)), size))
    return _END.size + sum(_LOCAL.size + _CENTRAL.size + 2 * n + size for n, size in members)
