"""Losses in files, and kinds of other packages."""

import pytest
from hypothesis import given

from ndis import Profile, QuadraticLoss
from ndis.loss import from_dict
from pairs import losses


@given(losses())
def test_a_loss_survives_its_dictionary(loss: QuadraticLoss) -> None:
    assert from_dict(loss.to_dict()) == loss
    both = Profile.both(loss)
    assert from_dict(both.to_dict()) == both
    assert hash(from_dict(loss.to_dict())) == hash(loss)


def test_unknown_kinds_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="'cubic'; install the package that defines it"):
        from_dict({"kind": "cubic"})
    from importlib.metadata import EntryPoint

    from ndis.loss import stored

    found = EntryPoint("elsewhere", "ndis.loss.quadratic:QuadraticLoss", stored.GROUP)
    monkeypatch.setattr(
        stored, "entry_points", lambda group, name: [found] if name == "elsewhere" else []
    )
    shift = QuadraticLoss.from_shift(0.7)
    assert from_dict({**shift.to_dict(), "kind": "elsewhere"}) == shift
    monkeypatch.delitem(stored._OURS, "radial", raising=False)
    with pytest.raises(ValueError, match="'radial'; install ndis-papers"):
        from_dict({"kind": "radial"})
