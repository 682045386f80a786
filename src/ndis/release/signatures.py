"""Ed25519 signatures of releases: keys, and the text that is signed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ndis import _validate
from ndis.release.certificate import SCHEMA


def signed_text(digest: str) -> bytes:
    """The bytes that are signed."""
    return f"{SCHEMA} {digest}".encode()


def ed25519_key(key: Any, kind: str) -> Any:
    """An Ed25519 key, from a PEM file if need be; a private key holds the public one."""
    with _validate.installed("the package cryptography for signatures", "'ndis[sign]'"):
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    wanted = ed25519.Ed25519PrivateKey if kind == "private" else ed25519.Ed25519PublicKey
    if isinstance(key, str | Path):
        with Path(key).open("rb") as file:
            content = file.read(_validate.MOST_TEXT)  # of which a key needs a few hundred bytes
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
