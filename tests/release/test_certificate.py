"""Certificates: one schema, read and written; a wrong one gets one clear sentence."""

from pathlib import Path

import numpy as np
import pytest

from ndis import Guarantee, QuadraticLoss, Release
from ndis.release import ChangedRelease, archive
from release_files import PROMISE, release, rewritten


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return release().save(tmp_path / "release.npz")


LONG = Guarantee(1.0, 0.1, "edge", "proven", QuadraticLoss(1e-3 + 1e-6 * np.arange(2500.0), 0.0, 1))


def test_numpy_numbers_are_parameters() -> None:
    given = {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.arange(2)}
    assert release(**given).parameters == {"n_components": 3, "a": 0.5, "b": 3, "c": True} | {
        "d": [0, 1]
    }


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), float("inf"), np.float64("nan")])
def test_what_json_cannot_hold_is_no_parameter(value: object) -> None:
    with pytest.raises(TypeError, match="Expected parameters that JSON can hold, got odd"):
        release(odd=value)


@pytest.mark.parametrize(
    ("mechanism", "parameters", "words"),
    [
        ("two words", {}, "mechanism must match"),
        ("one", {"camelCase": 1}, "parameters"),
        ("one", {"text": "x" * 2**22}, "release less at once"),
        ("one", {"deep": []}, "than 6000 terms"),
    ],
)
def test_what_no_reader_would_accept_is_not_written(
    tmp_path: Path, mechanism: str, parameters: dict, words: str
) -> None:
    with pytest.raises(ValueError, match="Expected a release") as caught:
        Release([1.0], PROMISE if "deep" not in parameters else LONG, mechanism, parameters).save(
            tmp_path / "r.npz"
        )
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def _set(*keys: str, to: object) -> object:
    def change(certificate: dict) -> None:
        for key in keys[:-1]:
            certificate = certificate[key]
        certificate[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("guarantee", "private", to="no"), "certificate.guarantee.private must be boolean"),
        (_set("guarantee", "epsilon", to=-1), "certificate.guarantee.epsilon must be bigger"),
        (_set("guarantee", "epsilon", to=True), "certificate.guarantee.epsilon must be number"),
        (_set("guarantee", "epsilon", to=float("nan")), "not JSON"),
        (_set("guarantee", "delta", to=2), "certificate.guarantee.delta must be smaller"),
        (_set("guarantee", "basis", to="asymptotic"), "certificate.guarantee.basis must be one of"),
        (_set("guarantee", "relation", to=None), "certificate.guarantee.relation"),
        (_set("guarantee", "loss", to={}), "certificate.guarantee.loss must contain"),
        (_set("guarantee", "loss", to={"kind": "magic"}), "magic"),
        (_set("guarantee", "loss", to={"kind": "x", "y": [[0] * 99] * 99}), "than 6000 terms"),
        (_set("guarantee", "loss", to={"kind": "quadratic"}), "get it anew from its publisher"),
        (_set("guarantee", "surprise", to=1), "certificate.guarantee must not contain"),
        (lambda c: c["guarantee"].pop("relation"), "certificate.guarantee must contain"),
        (lambda c: c.pop("guarantee"), "certificate must contain"),
        (lambda c: c["arrays"].pop("gram"), "length"),
        (_set("arrays", to={}), "certificate.arrays must contain at least"),
        (_set("arrays", "gram", "shape", to=[2**20, 2**20]), "length"),
        (_set("arrays", "gram", "shape", to=[-2, -3]), "must be bigger than or equal to 0"),
        (_set("arrays", "gram", "shape", to=[6.0]), "get it anew from its publisher"),
        (_set("arrays", "gram", "dtype", to="|O8"), "dtype must match"),
        (_set("schema", to="ndis-release/9"), "of schema 'ndis-release/9'"),
        (_set("mechanism", to="\x1b[2Jnothing"), "mechanism must match"),
    ],
)
def test_malformed_certificates_get_one_clear_sentence(path: Path, change: object, words: str):
    with pytest.raises(ValueError, match="Expected a release file written by ndis") as caught:
        Release.load(rewritten(path, change))
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
    assert not isinstance(caught.value, ChangedRelease)


@pytest.mark.parametrize(
    "change",
    [
        _set("guarantee", "epsilon", to=0.1),  # the sentence still says 1
        _set("guarantee", "sentence", to="Nothing can ever happen to you."),
        _set("guarantee", "epsilon", to=1),  # not as it was written: 1.0
        _set("arrays", "gram", "shape", to=[3, 2]),
        _set("arrays", "gram", "sha256", to="0" * 64),
    ],
)
def test_a_certificate_that_contradicts_itself(path: Path, change: object) -> None:
    with pytest.raises(ValueError, match=r"changed after it was published|length"):
        Release.load(rewritten(path, change))


def test_deep_and_long_certificates(path: Path) -> None:
    for text in (
        b"[" * 100_000,
        b"[" * 2**22 + b"]" * 2**22,
        b"9" * 10_000,
        b"\xff\xfe",
        b'"\\ud800"',
    ):
        path.write_bytes(b"".join(archive._zipped({b"certificate.json": (text,)})))
        with pytest.raises(ValueError, match="Expected a release file written by ndis"):
            Release.load(path)
