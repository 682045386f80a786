"""The release as a value: the published arrays, and the promise that comes with them.

Nothing here draws noise, pays or reads data. `archive` writes the file and `certificate` its
schema; whoever reads a file checks both before any number is believed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import copy
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndis import _validate
from ndis.guarantee import Guarantee
from ndis.release import archive, registry
from ndis.release.archive import MOST_BYTES
from ndis.release.certificate import SCHEMA, as_text, check, plain
from ndis.release.new_file import NewFile
from ndis.release.signatures import ed25519_key, signed_text

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
        self.arrays: dict[str, NDArray[Any]] = {k: archive.numbers(k, v) for k, v in named.items()}
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
        hashes = {name: archive.sha256(array) for name, array in self.arrays.items()}
        return self._certificate(hashes)

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
            check(certificate)
        except ValueError as error:
            raise ValueError(
                f"Expected a release that can be written, got one whose {error}."
            ) from None
        text, size = as_text(certificate), archive.length_of(certificate)
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
        secret = ed25519_key(key, "private")
        signature = secret.sign(signed_text(self.digest)).hex()
        return self.with_signature(secret.public_key().public_bytes_raw().hex(), signature)

    def signed_by(self, key: Any) -> bool:
        """Whether the release carries a valid signature by this key.

        Parameters
        ----------
        key : path or Ed25519PublicKey
            An Ed25519 key of the `cryptography` package, or a PEM file that holds one.
        """
        from cryptography.exceptions import InvalidSignature

        public, text = ed25519_key(key, "public"), signed_text(self.digest)
        for each in self.signatures:
            with suppress(InvalidSignature):
                public.verify(bytes.fromhex(each["signature"]), text)
                return True
        return False

    def with_signature(self, public_key: str, signature: str) -> Release:
        """The same release with a signature that is not checked here."""
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
                release = cls._from(*archive.read(file))
                same = archive.holds(file, release.parts())
            except Exception as error:  # whatever a stranger's file does to parsers and losses
                raise ValueError(
                    f"Expected a release file written by ndis, got {path}: "
                    f"{_validate.printable(str(error))[:300]}; get it anew from its "
                    "publisher, or read a table with `ndis check`."
                ) from None
        if not same:
            raise ChangedRelease(
                f"Expected a file that matches its certificate, got {path}; "
                "it was changed after it was published."
            )
        return release

    @classmethod
    def _from(cls, certificate: Mapping[str, Any], arrays: Mapping[str, Any]) -> Release:
        guarantee = Guarantee.from_dict(certificate["guarantee"])
        release = cls(arrays, guarantee, certificate["mechanism"], certificate["parameters"])
        release.library = certificate["library"]
        release.signatures = tuple(certificate.get("signatures", ()))
        return release

    def parts(self) -> Iterator[Any]:
        """The bytes of the file, piece by piece."""
        return archive.pieces(self.certificate(), self.arrays)

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
        return registry.record(self, about)

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
