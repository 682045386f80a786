"""Release files as strangers might send them: broken by accident, or forged by hand."""

import copy
import io
import json
import random
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ndis import Guarantee, Release
from ndis.release import archive as files

# What a number, a name or a list is replaced by.
ODDITIES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 10**12, 10**400, 0.5, 1e-300, 1e308, -0.0),
    *("", "no", "0x1p+2000", "nan", "-inf", "\x1b[2J\x1b[31m", "\u202egnp", "\ud800", "x" * 10_000),
    *([], {}, [[[[]]]], [0] * 1000, {"kind": "profile", "losses": []}, {"kind": "quadratic"}),
)


def everywhere(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a JSON document."""
    inside = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    return [at] * bool(at) + [
        path for key, value in inside for path in everywhere(value, (*at, key))
    ]


def _changed(value: Any, rng: random.Random) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        half = value // 2 if isinstance(value, int) else value / 2
        return rng.choice((half, value * 2, -value, value + 1, value * 1000, 1e-9))
    if isinstance(value, str) and value.lower().startswith(("0x", "-0x")):
        number = float.fromhex(value) * rng.choice((0.5, 2.0, 1e-6, 0.0, -1.0, 1 - 1e-9))
        return rng.choice((number.hex(), "0x1p-1074", "0x1.8p+1023"))
    if isinstance(value, str):
        return rng.choice((value[1:], value + value, value.upper(), value[::-1]))
    if isinstance(value, list):
        return rng.choice((value[:-1], value + value, value[::-1], value * 500))
    if isinstance(value, dict):
        return {key: value[key] for key in list(value)[1:]}
    return rng.choice(ODDITIES)


def edit(document: dict, rng: random.Random) -> dict:
    """One to three values changed, replaced, removed or moved."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not document:
            break
        *path, last = rng.choice(everywhere(document))
        parent: Any = document
        for key in path:
            parent = parent[key]
        kind = rng.random()
        if kind < 0.5:
            parent[last] = _changed(parent[last], rng)
        elif kind < 0.8:
            parent[last] = copy.deepcopy(rng.choice(ODDITIES))
        elif kind < 0.9:
            del parent[last]
        elif isinstance(parent, dict):
            parent[rng.choice(("relation", "kind", "Kind", "x\n"))] = parent.pop(last)
    return document


def assemble(certificate: dict, original: bytes) -> bytes:
    """A file with this certificate and the arrays of another, checksums in order."""
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        arrays = {n.encode(): (archive.read(n),) for n in archive.namelist() if n.endswith(".npy")}
    text = json.dumps(certificate, indent=1, sort_keys=True, default=str).encode()
    return b"".join(map(bytes, files._zipped({b"certificate.json": (text,), **arrays})))


def forge(original: bytes, rng: random.Random) -> bytes:
    """A certificate edited by somebody who knows the format."""
    certificate = edit(_certificate(original), rng)
    if rng.random() < 0.7:  # and who makes the sentence fit
        try:
            promise = Guarantee.from_dict(certificate["guarantee"])
            certificate["guarantee"]["sentence"] = str(promise)
        except Exception:  # no such promise has a sentence
            pass
    return assemble(certificate, original)


def _certificate(original: bytes) -> dict:
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        return dict(json.loads(archive.read("certificate.json")))


def damage(original: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, cut out, repeated or added."""
    content = bytearray(original)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        place = rng.randrange(len(content) + 1)
        length = rng.choice((1, 2, 4, 8, 100, 4000))
        kind = rng.randrange(5)
        if kind == 0 and place < len(content):
            content[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[place : place + length]
        elif kind == 2:
            content[place:place] = content[place : place + length]
        elif kind == 3:
            content[place : place + length] = rng.choice((b"\xff", b"\0", b"9", b"[")) * length
        else:
            content[place:place] = rng.randbytes(length)
    return bytes(content)


def repack(original: bytes, rng: random.Random) -> bytes:
    """Another archive with the same content, or a bit more."""
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        content = [(name, archive.read(name)) for name in archive.namelist()]
    kind = rng.randrange(5)
    if kind == 0:
        rng.shuffle(content)
    elif kind == 1:
        content.append((rng.choice(("../../evil.npy", "extra.npy", "value.npy")), b"\x93NUMPY"))
    elif kind == 2:  # a header that asks for terabytes
        header = np.lib.format.magic(1, 0) + b"\x76\0" + b"{'descr': '<f8', 'fortran_order': False,"
        content[-1] = (content[-1][0], header + b" 'shape': (1000000000000,), }".ljust(77) + b"\n")
    elif kind == 3:  # a bomb
        content[-1] = (content[-1][0], content[-1][1] + bytes(2**22))
    packed = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(packed, "w", method) as archive:
        names = set()
        for name, stored in content:
            if name not in names:
                archive.writestr(name, stored)
            names.add(name)
        archive.comment = b"" if kind < 4 else b"\x1b]0;title\x07"
    return packed.getvalue()


def junk(original: bytes, rng: random.Random) -> bytes:
    """Something else altogether, or a certificate that no parser likes."""
    texts = (
        b"[" * 50_000,
        b'{"a":' * 50_000,
        b"9" * 100_000,
        b"{}," * 10**6,
        b"\xff" * 99,
        b"null",
    )
    return rng.choice(
        (
            b"",
            rng.randbytes(rng.randrange(5000)),
            zlib.compress(bytes(10**6)),
            original[:46],
            *(b"".join(files._zipped({b"certificate.json": (text,)})) for text in texts),
        )
    )


MUTATORS: tuple[tuple[Callable[[bytes, random.Random], bytes], float], ...] = (
    (forge, 0.6),
    (damage, 0.25),
    (repack, 0.1),
    (junk, 0.05),
)


def mutant(corpus: list[bytes], seed: int) -> tuple[bytes, bytes]:
    """A file and what became of it; the same for the same seed."""
    rng = random.Random(seed)
    original = rng.choice(corpus)
    mutate = rng.choices([m for m, _ in MUTATORS], [share for _, share in MUTATORS])[0]
    return original, mutate(original, rng)


def is_stronger(path: Path, original: bytes) -> bool:
    """Whether a file that was believed promises more than the original's own loss proves.

    Exempt is a certificate that calls the noise secret: only a signature can vouch for that.
    """
    from ndis.calibration import meets

    before = _certificate(original)
    found = Release.load(path)
    if {k: v["sha256"] for k, v in before["arrays"].items()} != {
        k: v["sha256"] for k, v in found.certificate()["arrays"].items()
    }:
        return True
    old = Guarantee.from_dict(before["guarantee"])
    new = found.guarantee
    if new.relation != old.relation or old.loss is None:
        return True
    if new.delta >= 1:
        return False
    return not meets(old.loss, new.epsilon, new.delta) and (new.epsilon, new.delta) != (
        old.epsilon,
        old.delta,
    )
