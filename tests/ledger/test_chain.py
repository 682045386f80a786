"""Damage to the list of events is noticed, whoever did it and whenever it is read."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ledger_places import DELTA, EPSILON, Address, Place, shift
from ndis import Guarantee, Ledger
from ndis.ledger import DamagedLedger
from ndis.ledger.filter import Filter


def filled(address: Address) -> None:
    with Ledger.create(address, EPSILON, DELTA, "add-remove") as ledger:
        for _ in range(3):
            ledger.complete(ledger.spend(shift(0.05), "toy"), "abc")


PAST = [
    "UPDATE events SET body = replace(body, 'toy', 'boy') WHERE number = 2",
    "UPDATE events SET hash = (SELECT hash FROM events WHERE number = 2) WHERE number = 4",
    "UPDATE events SET kind = 'noted' WHERE number = 3",
]


EDITS = [
    "UPDATE events SET body = replace(body, '1e-06', '1e-05') WHERE number = 1",
    "UPDATE events SET body = replace(body, 'abc', 'abd') WHERE number = 7",
    "DELETE FROM events WHERE number = 4",
    "DELETE FROM events WHERE number = 7",
    "DELETE FROM events",
    "DELETE FROM state",
    "UPDATE state SET body = replace(body, '0x1.', '0x0.')",
    "DROP TABLE state",
    "ALTER TABLE events ADD COLUMN remark TEXT",
]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_noticed(place: Place, address: Address, edit: str) -> None:
    filled(address)
    place.edit(address, edit)
    with pytest.raises(DamagedLedger, match="restore it, or count its budget as spent"):
        Ledger(address)


@pytest.mark.parametrize("edit", PAST)
@pytest.mark.parametrize("look", [Ledger.verify, Ledger.history, Ledger.total, Ledger.burn_down])
def test_an_edit_of_the_past_is_noticed_by_whoever_reads_it(
    place: Place, address: Address, edit: str, look: Callable[[Ledger], object]
) -> None:
    filled(address)
    place.edit(address, edit)
    with pytest.raises(DamagedLedger, match="does not fit the chain"):
        look(Ledger(address))


@pytest.mark.parametrize("edit", [*PAST[2:], *EDITS])
def test_an_edit_is_noticed_by_a_process_at_work(place: Place, ledger: Ledger, edit: str) -> None:
    for _ in range(3):
        ledger.complete(ledger.spend(shift(0.05), "toy"), "abc")
    place.edit(ledger.path, edit)
    with pytest.raises(DamagedLedger):
        ledger.verify()


def forged(ledger: Ledger, number: int, release: Guarantee, **change: object) -> None:
    """Append a release with a chain that fits, as somebody could who knows the format."""

    def append(state: dict) -> None:
        body = {"time": "", "mechanism": "toy", "note": "", "guarantee": release.to_dict()}
        ledger._chain.append("spend", number, body, state | {"releases": number} | change)

    ledger._chain.run(append, write=True)


@pytest.mark.parametrize(
    ("number", "release", "change", "why"),
    [
        (2, shift(0.05), {}, "not the sum of its releases"),
        (3, shift(0.05), {}, "releases are missing"),
        (2, shift(0.05), {"private": False}, "promises more"),
        (2, shift(0.05, "replace"), {}, "does not write"),
        (2, replace(shift(0.05), basis="refuted"), {"basis": "refuted"}, "does not write"),
        (2, replace(shift(0.05), basis="relative"), {"basis": "relative"}, "does not write"),
        (2, shift(0.05), {"mode": {"totals": [["x"]]}}, "does not write"),
        (2, shift(0.05), {"mode": {}}, "does not write"),
    ],
)
def test_what_was_rewritten_with_its_chain_is_found_by_verify(
    ledger: Ledger, number: int, release: Guarantee, change: dict, why: str
) -> None:
    ledger.spend(shift(0.05), "toy")
    forged(ledger, number, release, **change)
    with pytest.raises(DamagedLedger, match=why):
        ledger.verify()


def test_a_filter_of_a_larger_budget_is_found_by_verify(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Filter.design(EPSILON, DELTA)
    for other in (
        replace(honest, squared_shift=2 * honest.squared_shift),
        replace(honest, delta_renyi=0.6 * DELTA),
        replace(honest, weights=tuple(2 * weight for weight in honest.weights)),
    ):
        assert not other.keeps(EPSILON, DELTA)
    assert honest.keeps(EPSILON, DELTA)
    monkeypatch.setattr(Filter, "design", lambda *_: Filter(**(vars(honest) | {"epsilon": 2.0})))
    with (
        Ledger.create(address, EPSILON, DELTA, "add-remove") as ledger,
        pytest.raises(DamagedLedger, match="does not keep its budget"),
    ):
        ledger.verify()


def test_a_hash_noted_earlier_is_found_again(ledger: Ledger) -> None:
    noted = [ledger.latest_hash()]
    for _ in range(2):
        ledger.spend(shift(0.05), "toy")
        noted.append(ledger.latest_hash())
    assert len(set(noted)) == 3
    assert [ledger.verify(each) for each in noted] == [2, 2, 2]
    assert ledger.verify(f" {noted[1].upper()}\n") == 2
    with pytest.raises(DamagedLedger, match=r"no event has the hash 0{64}, .* has been undone"):
        ledger.verify("0" * 64)
    with pytest.raises(ValueError, match="64 hexadecimal digits, got '12'"):
        ledger.verify("12")
