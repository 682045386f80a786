"""The file format: a zip archive that numpy reads, and that is canonical.

The certificate, which comes first, determines the file's length and every byte outside the arrays,
and holds the hashes of those. A reader checks the certificate against its schema, works out from
it what the file must look like, and refuses every other one. Nothing is unpacked, no pickle is
read, and no size is believed.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis.release.certificate import as_text, parse

# The longest file that a zip archive without extensions can describe.
MOST_BYTES = 2**32 - 1

# A file is compared piece by piece, so that it is in memory once.
_PIECE = 2**20

_FIRST = b"certificate.json"
_NUMBERS = re.compile(r"[|][biu]1|<[iuf][248]")
# PKWARE's records: before a member, in the directory, at the end. Nothing is compressed, and the
# date is always the first that zip knows: when the owner worked is not part of the release.
_LOCAL, _CENTRAL, _END = (struct.Struct(f"<4s{f}") for f in ("5H3L2H", "6H3L5H2L", "4H2LH"))
_FIRST_DAY = 1 << 5 | 1

Arrays = dict[str, NDArray[Any]]


def read(file: BinaryIO) -> tuple[dict[str, Any], Arrays]:
    """Certificate and arrays of a file of the right length; nothing else about it is checked."""
    size = os.fstat(file.fileno()).st_size
    head = file.read(_LOCAL.size + len(_FIRST))
    if head[:4] != b"PK\3\4" or not head.endswith(_FIRST):
        raise ValueError("it is another kind of file")
    length = _LOCAL.unpack_from(head)[8]
    if length > min(_validate.MOST_TEXT, size):
        raise ValueError("its certificate is too long")
    certificate = parse(file.read(length))
    if size != length_of(certificate):
        raise ValueError("its length is not what its certificate implies")
    arrays: Arrays = {}
    for name, about in sorted(certificate["arrays"].items()):
        arrays[name] = np.empty(about["shape"], about["dtype"])
        head = _npy_head(about["dtype"], about["shape"])
        file.seek(_LOCAL.size + len(_member(name)) + len(head), os.SEEK_CUR)
        file.readinto(_bytes(arrays[name]))  # type: ignore[attr-defined]
    return certificate, arrays


def pieces(certificate: Mapping[str, Any], arrays: Arrays) -> Iterator[Any]:
    """The bytes of the file, piece by piece."""
    contents: dict[bytes, tuple[Any, ...]] = {_FIRST: (as_text(certificate),)}
    for name, array in sorted(arrays.items()):
        contents[_member(name)] = (_npy_head(array.dtype.str, array.shape), _bytes(array))
    return _zipped(contents)


def holds(file: BinaryIO, expected: Iterable[Any]) -> bool:
    """Whether a file holds these bytes and nothing else."""
    file.seek(0)
    parts = (memoryview(part) for part in expected)
    cut = (part[at : at + _PIECE] for part in parts for at in range(0, len(part), _PIECE))
    return all(file.read(len(piece)) == piece for piece in cut) and not file.read(1)


def length_of(certificate: Mapping[str, Any]) -> int:
    """How long the file with this certificate is."""
    members = [(len(_FIRST), len(as_text(certificate)))]
    for name, about in certificate["arrays"].items():
        content = math.prod(about["shape"]) * np.dtype(about["dtype"]).itemsize
        size = len(_npy_head(about["dtype"], about["shape"])) + content
        members.append((len(_member(name)), size))
    return _END.size + sum(_LOCAL.size + _CENTRAL.size + 2 * n + size for n, size in members)


def numbers(name: Any, value: ArrayLike) -> NDArray[Any]:
    """An array of numbers, little-endian: all that a file can hold."""
    array = np.asarray(value)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if not _NUMBERS.fullmatch(array.dtype.str):
        raise TypeError(
            f"Expected arrays of numbers, got {array.dtype} in {name!r}; convert them first."
        )
    return array


def sha256(array: NDArray[Any]) -> str:
    """The hash of an array's content in C order."""
    return hashlib.sha256(_bytes(array)).hexdigest()


def _bytes(array: NDArray[Any]) -> Any:
    """The content of an array in C order, without a copy where it has that order."""
    return np.asarray(array, order="C").reshape(-1).view(np.uint8).data


def _member(name: str) -> bytes:
    return f"{name}.npy".encode("ascii")


def _npy_head(dtype: str, shape: Iterable[int]) -> bytes:
    """The header of numpy's format 1.0, which comes before the content, padded to 64 bytes."""
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
