"""A small release, and files of it as a forger makes them."""

import json
import zipfile
from pathlib import Path

import numpy as np

from ndis import Guarantee, Profile, QuadraticLoss, Release
from ndis.release import archive

SHIFT = Profile.both(QuadraticLoss.from_shift(1.0))
PROMISE = Guarantee(1.0, 0.127, "replace", "proven", SHIFT)


def release(**parameters: object) -> Release:
    arrays = {"gram": np.arange(6.0).reshape(2, 3), "count": np.array(7.0)}
    return Release(arrays, PROMISE, "example", {"n_components": 3, **parameters})


def rewritten(path: Path, change: object) -> Path:
    """A file as a forger makes it who knows the format: only the certificate is another."""
    certificate = Release.load(path).certificate()
    change(certificate)  # type: ignore[operator]
    with zipfile.ZipFile(path) as stored:
        arrays = {n.encode(): (stored.read(n),) for n in stored.namelist() if n.endswith(".npy")}
    text = json.dumps(certificate, indent=1, sort_keys=True).encode()
    path.write_bytes(b"".join(archive._zipped({b"certificate.json": (text,), **arrays})))
    return path
