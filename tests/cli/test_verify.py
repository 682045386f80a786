"""``ndis verify``: what does not verify, and who signed."""

import json
from dataclasses import replace
from pathlib import Path

from commands import GAUSSIAN, call
from ndis import GaussianMechanism, Ledger, Release
from ndis.cli.console import ExitCode


def test_a_seeded_release_does_not_verify(capsys, folder: Path) -> None:
    call(capsys, "release", *GAUSSIAN, "--seed", "1", "--out", "s.npz")
    code, out, _ = call(capsys, "verify", "s.npz")
    assert code == ExitCode.CHECK_FAILED
    assert "NOT PRIVATE" in out


def test_a_changed_release_does_not_verify(capsys, folder: Path) -> None:
    call(capsys, "release", *GAUSSIAN, "--out", "s.npz")
    data = bytearray(Path("s.npz").read_bytes())
    Path("s.npz").write_bytes(data[: len(data) // 2])
    for command in ("verify", "show"):
        code, out, err = call(capsys, command, "s.npz")
        assert (code, out) == (ExitCode.WRONG_CALL, "")
        assert err.startswith("ndis: Expected a release file written by ndis")
    data[-300] ^= 1
    Path("s.npz").write_bytes(data)
    code, out, err = call(capsys, "verify", "s.npz")
    assert (code, out) == (ExitCode.CHECK_FAILED, "")
    assert err.endswith("it was changed after it was published.\n")


def test_a_promise_beyond_its_loss_does_not_verify(capsys, folder: Path) -> None:
    honest = GaussianMechanism(epsilon=1, delta=1e-6, sensitivity=1).release([1.0])
    boast = replace(honest.guarantee, delta=9e-7)
    Release(honest.value, boast, honest.mechanism, honest.parameters).save("boast.npz")
    code, out, _ = call(capsys, "verify", "boast.npz", "--json")
    assert code == ExitCode.CHECK_FAILED
    failed = [each for each in json.loads(out)["checks"] if each["outcome"] == "failed"]
    assert "the privacy loss keeps (epsilon, delta)" in [each["what"] for each in failed]


def test_a_signed_release(capsys, folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization as stored
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for name in ("owner", "other"):
        key, pem = Ed25519PrivateKey.generate(), stored.Encoding.PEM
        secret = key.private_bytes(pem, stored.PrivateFormat.PKCS8, stored.NoEncryption())
        Path(f"{name}.pem").write_bytes(secret)
        public = key.public_key().public_bytes(pem, stored.PublicFormat.SubjectPublicKeyInfo)
        Path(f"{name}.pub").write_bytes(public)
    assert call(capsys, "release", *GAUSSIAN, "--sign", "owner.pem", "--out", "s.npz")[0] == 0
    for key, code in (("owner", ExitCode.DONE), ("other", ExitCode.CHECK_FAILED)):
        assert call(capsys, "verify", "s.npz", "--key", f"{key}.pub")[0] == code
    call(capsys, "release", *GAUSSIAN, "--out", "unsigned.npz")
    code, out, _ = call(capsys, "verify", "unsigned.npz", "--key", "owner.pub")
    assert code == ExitCode.CHECK_FAILED
    assert "it is signed with the key" in out
    code, _, err = call(capsys, "release", *GAUSSIAN, "--sign", "people.csv", "--out", "t.npz")
    assert code == ExitCode.WRONG_CALL
    assert "Expected an Ed25519 private key in PEM" in err


def test_a_release_is_not_in_another_ledger(capsys, folder: Path) -> None:
    call(capsys, "release", *GAUSSIAN, "--out", "s.npz")
    Ledger.create("budget", 3.0, 1e-5, "add-remove").close()
    assert call(capsys, "verify", "s.npz", "--ledger", "budget")[0] == ExitCode.CHECK_FAILED
