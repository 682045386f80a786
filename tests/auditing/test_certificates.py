"""Forged certificates are refuted or not checkable; honest ones of known mechanisms pass."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ndis import GaussianMechanism, Ledger, PrivateProjection, Release
from ndis.auditing.certificates import verify
from ndis.mechanisms.multiparty import Agreement, combine, release_party
from ndis.mechanisms.recompute import HOMES

ROWS = np.random.default_rng(0).random((60, 3))
AGREEMENT = Agreement(
    60, {"a": {"x0": (0, 1), "x1": (0, 1)}, "b": {"x2": (0, 1)}}, epsilon=1.0, delta=1e-6, seed=7
)


def party(name: str) -> Release:
    held = ROWS[:, :2] if name == "a" else {"x2": ROWS[:, 2]}
    import pyarrow as pa

    return release_party(AGREEMENT, name, pa.table(held) if name == "b" else held)


MADE: dict[str, Callable[[], Release]] = {
    "GaussianMechanism": lambda: GaussianMechanism(
        epsilon=1.0, delta=1e-6, sensitivity=2.0
    ).release(ROWS),
    "PrivateProjection": lambda: (
        PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=2.0, n_components=30)
        .fit(ROWS)
        .release_
    ),
    "MultiPartyPart": lambda: party("a"),
    "MultiPartyRegression": lambda: combine(AGREEMENT, [party("a"), party("b")]),
}


def forged(release: Release, mechanism: str | None = None, **parameters: Any) -> Release:
    changed = {**release.parameters, **parameters}
    return Release(release.arrays, release.guarantee, mechanism or release.mechanism, changed)


def failed(release: Release, **given: Any) -> dict[str, str]:
    return {c.what: c.outcome for c in verify(release, **given).checks if c.outcome != "held"}


@pytest.mark.parametrize("name", HOMES)
def test_honest_releases_pass(tmp_path: Path, name: str) -> None:
    release = MADE[name]()
    assert release.mechanism == name
    found = verify(Release.load(release.save(tmp_path / "r.npz")))
    assert found.outcome == "checked"
    assert json.loads(json.dumps(found.to_dict()))["outcome"] == "checked"
    assert "who published it: no key was given" in found.not_checked


PROJECTION: list[dict[str, Any]] = [
    {"ridge": 0},
    {"noise_scale": 0},
    {"noise_scale": 1e-3},
    {"data_norm": 2000.0},
    {"n_components": 3000},
    {"columns": ["x0"]},
    {"method": "subsample", "rate": 0.1},
    {"noise_scale": None},
    {"noise_scale": "large"},
    {"columns": None},
]


@pytest.mark.parametrize("change", PROJECTION, ids=str)
def test_forged_parameters(change: dict[str, Any]) -> None:
    assert verify(forged(MADE["PrivateProjection"](), **change)).outcome != "checked"


def test_each_forgery_is_named() -> None:
    honest = MADE["PrivateProjection"]()
    less = forged(honest, noise_scale=0.9 * honest.parameters["noise_scale"])
    assert failed(less) == {"the loss follows from the parameters": "failed"}
    assert verify(less).outcome == "refuted"
    # Noise that is too small for rows of this length: no plan of the library says so.
    assert verify(forged(honest, data_norm=2000.0)).outcome == "not checkable"
    more = failed(forged(honest, n_components=3000))
    assert more["the arrays follow from the parameters"] == "failed"
    assert verify(forged(honest, "Nonsense")).outcome == "not checkable"
    empty = Release(
        honest.arrays, replace(honest.guarantee, loss=None, epsilon=0.1), honest.mechanism
    )
    assert verify(empty).outcome == "not checkable"
    boast = Release(
        honest.arrays, replace(honest.guarantee, epsilon=0.9), honest.mechanism, honest.parameters
    )
    assert failed(boast) == {"the privacy loss keeps (epsilon, delta)": "failed"}
    moved = replace(honest.guarantee, relation="replace")
    assert failed(Release(honest.arrays, moved, honest.mechanism, honest.parameters)) == {
        "the promise follows from the parameters": "failed"
    }


def test_other_agreements_than_the_parties_made() -> None:
    part = MADE["MultiPartyPart"]()
    other = copy.deepcopy(part.parameters)
    other["agreement"]["epsilon"] = 0.1
    assert verify(forged(part, **other)).outcome == "refuted"
    stolen = forged(part, party="b")
    assert verify(stolen).outcome == "refuted"


def test_what_is_no_promise_is_refuted() -> None:
    seeded = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=2.0, random_state=1).release(
        ROWS
    )
    assert failed(seeded) == {"the noise is secret": "failed"}
    honest = MADE["GaussianMechanism"]()
    claim = replace(honest.guarantee, basis="refuted")
    assert verify(Release(honest.arrays, claim, "GaussianMechanism")).outcome == "refuted"


def test_a_loss_that_cannot_be_computed_proves_nothing() -> None:
    class Broken:
        def log_delta_bounds(self, epsilon: Any) -> Any:
            raise ZeroDivisionError

        log_delta = log_delta_bounds

    honest = MADE["GaussianMechanism"]()
    broken = replace(honest.guarantee, loss=Broken())
    found = verify(Release(honest.arrays, broken, honest.mechanism, honest.parameters))
    assert found.outcome == "not checkable"


@pytest.mark.parametrize(("delta", "outcome"), [(0.0, "refuted"), (1.0, "not checkable")])
def test_the_ends_of_delta(delta: float, outcome: str) -> None:
    honest = MADE["GaussianMechanism"]()
    claim = replace(honest.guarantee, delta=delta)
    found = verify(Release(honest.arrays, claim, honest.mechanism, honest.parameters))
    assert found.outcome == outcome


def test_a_ledger_knows_what_was_paid(tmp_path: Path) -> None:
    place = tmp_path / "budget"
    with Ledger.create(place, 5.0, 1e-3, "add-remove", accept=["declared"]) as ledger:
        paid = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=2.0, ledger=ledger).release(
            ROWS
        )
        assert verify(paid, ledger=ledger).outcome == "checked"
        assert failed(MADE["GaussianMechanism"](), ledger=ledger) == {
            "the ledger knows the release": "failed"
        }


# --- Signatures ---------------------------------------------------------------------------------

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()


def test_signatures_survive_the_file_and_name_the_signer(tmp_path: Path) -> None:
    release = MADE["GaussianMechanism"]()
    signed = release.sign(KEY).sign(OTHER)
    again = Release.load(signed.save(tmp_path / "r.npz"))
    assert again.digest == release.digest
    for key in (KEY, OTHER):
        assert verify(again, key=key.public_key()).outcome == "checked"
    stranger = Ed25519PrivateKey.generate().public_key()
    assert failed(again, key=stranger) == {"it is signed with the key": "failed"}
    assert failed(release, key=KEY.public_key()) == {"it is signed with the key": "failed"}


def test_parts_forged_as_a_whole_are_recognised_by_their_keys() -> None:
    """Anybody can make a part of an agreement; only the party can sign it."""
    honest = {"a": party("a").sign(KEY), "b": party("b").sign(OTHER)}
    keys = {"a": KEY.public_key(), "b": OTHER.public_key()}
    assert combine(AGREEMENT, honest.values(), keys).parameters["parts"]
    forgery = party("a").sign(OTHER)
    assert combine(AGREEMENT, [forgery, honest["b"]])
    with pytest.raises(ValueError, match="signed by the key of 'a'"):
        combine(AGREEMENT, [forgery, honest["b"]], keys)
    with pytest.raises(ValueError, match="keys"):
        combine(AGREEMENT, honest.values(), {"c": KEY.public_key()})


@pytest.mark.parametrize("odd", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["rows", "ones"])
def test_a_part_that_is_no_number_is_refused_by_its_party(odd: float, name: str) -> None:
    honest = party("b")
    arrays = {key: array.copy() for key, array in honest.arrays.items()}
    arrays[name].flat[0] = odd
    broken = Release(arrays, honest.guarantee, honest.mechanism, honest.parameters)
    with pytest.raises(ValueError, match="Expected numbers from 'b', got a NaN or an infinite one"):
        combine(AGREEMENT, [party("a"), broken])
