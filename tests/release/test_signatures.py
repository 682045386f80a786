"""Signatures: of one release alone, by keys in memory or in files."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from release_files import release

KEY = Ed25519PrivateKey.generate()


def test_a_signature_is_of_this_release_alone() -> None:
    signed, other = release().sign(KEY), release(seed=2)
    other.signatures = signed.signatures
    assert not other.signed_by(KEY.public_key())
    signed.parameters["n_components"] = 1.0
    assert not signed.signed_by(KEY.public_key())


def test_keys_in_files(tmp_path: Path) -> None:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    (tmp_path / "key").write_bytes(KEY.private_bytes(pem, form, plain))
    (tmp_path / "pub").write_bytes(
        KEY.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    signed = release().sign(tmp_path / "key")
    assert signed.signed_by(tmp_path / "pub")
    locked = KEY.private_bytes(pem, form, serialization.BestAvailableEncryption(b"secret"))
    (tmp_path / "locked").write_bytes(locked)
    (tmp_path / "text").write_text("no key")
    for wrong in ("pub", "locked", "text"):
        with pytest.raises(ValueError, match="Expected an Ed25519 private key"):
            signed.sign(tmp_path / wrong)
    for wrong in ("key", "text"):
        with pytest.raises(ValueError, match="Expected an Ed25519 public key"):
            signed.signed_by(tmp_path / wrong)
