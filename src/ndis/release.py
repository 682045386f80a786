"""What was published and with which promise: the release, its file and its certificate."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis.guarantee import Guarantee

SCHEMA = "ndis-release/1"


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
    'ndis-release/1'
    """

    def __init__(
        self,
        value: ArrayLike | Mapping[str, ArrayLike],
        guarantee: Guarantee,
        mechanism: str,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        named = dict(value) if isinstance(value, Mapping) else {"value": value}
        self.arrays: dict[str, NDArray[Any]] = {str(k): np.asarray(v) for k, v in named.items()}
        for name, array in self.arrays.items():
            if array.dtype.hasobject:
                raise TypeError(
                    f"Expected arrays of numbers or strings, got Python objects in {name!r}; "
                    "convert them first."
                )
        self.guarantee = guarantee
        self.mechanism = mechanism
        self.parameters: dict[str, Any] = json.loads(json.dumps(dict(parameters or {})))

    @property
    def value(self) -> NDArray[Any]:
        """The array of a release that has only one."""
        if len(self.arrays) != 1:
            names = ", ".join(self.arrays)
            raise ValueError(f"Expected a release of one array, got {names}; use `arrays[name]`.")
        return next(iter(self.arrays.values()))

    @property
    def digest(self) -> str:
        """SHA-256 of everything published."""
        text = json.dumps(self.certificate(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def certificate(self) -> dict[str, Any]:
        """The versioned certificate: guarantee, public parameters and hashes of the arrays."""
        from ndis import __version__

        return {
            "schema": SCHEMA,
            "library": f"ndis {__version__}",
            "mechanism": self.mechanism,
            "parameters": self.parameters,
            "guarantee": self.guarantee.to_dict(),
            "arrays": {name: _description(array) for name, array in self.arrays.items()},
        }

    def save(self, path: str | Path) -> Path:
        """Write arrays and certificate to one .npz file.

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
        target = Path(path)
        certificate = json.dumps(self.certificate(), indent=1, sort_keys=True)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            # A fixed date: when and how long the owner worked is not part of the release.
            def write(name: str, content: bytes) -> None:
                archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)

            write("certificate.json", certificate.encode())
            for name, array in self.arrays.items():
                buffer = io.BytesIO()
                np.save(buffer, array, allow_pickle=False)
                write(f"{name}.npy", buffer.getvalue())
        return target

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release; refuses a certificate that does not match its arrays."""
        try:
            with zipfile.ZipFile(path) as archive:
                certificate = json.loads(archive.read("certificate.json"))
                arrays = {
                    name.removesuffix(".npy"): np.load(
                        io.BytesIO(archive.read(name)), allow_pickle=False
                    )
                    for name in archive.namelist()
                    if name.endswith(".npy")
                }
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise ValueError(
                f"Expected a release written by ndis, got {path} ({error}); check the file."
            ) from None
        if certificate.get("schema") != SCHEMA:
            raise ValueError(
                f"Expected a certificate of schema {SCHEMA}, got {certificate.get('schema')!r}; "
                "use the version of ndis that wrote it."
            )
        found = {name: _description(array) for name, array in arrays.items()}
        if found != certificate["arrays"]:
            raise ValueError(
                f"Expected arrays that match their certificate, got others in {path}; "
                "the file was changed after it was published."
            )
        return cls(
            arrays,
            Guarantee.from_dict(certificate["guarantee"]),
            certificate["mechanism"],
            certificate["parameters"],
        )

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {array.shape}" for name, array in self.arrays.items())
        return f"Release({self.mechanism}, {arrays})\n{self.guarantee}"

    def _repr_html_(self) -> str:
        """The arrays' names and shapes, never their content, and the guarantee as a sentence."""
        shown, _, promise = repr(self).partition("\n")
        return f"<pre>{escape(shown)}</pre><p>{escape(promise)}</p>"


def _description(array: NDArray[Any]) -> dict[str, Any]:
    content = np.ascontiguousarray(array)
    return {
        "dtype": content.dtype.str,
        "shape": list(content.shape),
        "sha256": hashlib.sha256(content.tobytes()).hexdigest(),
    }
