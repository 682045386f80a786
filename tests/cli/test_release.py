"""calibrate, forecast, release, show and verify, called as a user would."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import PROMISE, RELEASES, SECRET, call, people, shell
from ndis import GaussianMechanism, Ledger
from ndis.cli.console import ExitCode
from ndis.mechanisms.regression_methods.descent import Descent
from ndis.tables import files
from ndis.tables import table as table_module

# -- commands are made from estimators ----------------------------------------------------------


def counted(monkeypatch: pytest.MonkeyPatch, home: Any, name: str) -> list[str]:
    """Grows with every call of a function."""
    calls: list[str] = []
    original = getattr(home, name)

    def call_it(*args: Any, **named: Any) -> Any:
        calls.append(name)
        return original(*args, **named)

    monkeypatch.setattr(home, name, call_it)
    return calls


@pytest.mark.parametrize("form", ["people.csv", "people.parquet"])
def test_one_regression_is_opened_planned_and_solved_once(
    capsys, folder: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    if form.endswith("parquet"):
        pq.write_table(people(), folder / form)
    opened = counted(monkeypatch, table_module, "open_source")
    schemas = counted(monkeypatch, files, "_opened")
    solved = counted(monkeypatch, Descent, "__init__")
    _, *words = RELEASES["regression"]
    code, out, _ = call(capsys, "release", "regression", form, *words, *PROMISE, "--out", "r.npz")
    assert code == ExitCode.DONE
    assert "Linear regression of y" in out
    assert (len(opened), len(schemas), len(solved)) == (1, 1, 1)
    call(capsys, "show", "r.npz")
    assert len(solved) == 2  # from the file


def test_a_formula_names_the_label(capsys, folder: Path) -> None:
    pytest.importorskip("formulaic")
    words = ("--formula", "y ~ a + a:b", "--limits", "a=-1:1", "--limits", "b=-1:1", *PROMISE)
    limits = ("--limits", "y=-2:2")
    source = ("regression", "people.csv", *words)
    code, out, _ = call(capsys, "release", *source, *limits, "--out", "f.npz")
    assert code == ExitCode.DONE
    assert "Linear regression of y" in out
    assert "a:b" in out
    code, out, _ = call(capsys, "forecast", "regression", *words, *limits, "--n-rows", "4000")
    assert (code, "explained variance lost" in out) == (ExitCode.DONE, True)
    code, out, _ = call(capsys, "audit", *source, *limits)
    assert (code, "Consistent" in out) == (ExitCode.DONE, True)
    code, _, err = call(capsys, "release", "regression", "people.csv", *words[2:], "--out", "g.npz")
    assert "Expected --label or --formula, got none" in err


# -- after the payment --------------------------------------------------------------------------


def test_a_reader_who_leaves_does_not_change_the_verdict(folder: Path) -> None:
    GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).release([1.0]).save("good.npz")
    GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0, random_state=1).release([1.0]).save(
        "bad.npz"
    )
    # Whoever reads has left before anything is printed.
    left = "> >(exec 0<&-; true)"
    for name, code in (("good.npz", ExitCode.DONE), ("bad.npz", ExitCode.CHECK_FAILED)):
        for stdout in ("| true", left):
            done = shell("verify", name, stdout=stdout)
            assert (done.returncode, done.stderr) == (code, ""), (name, stdout)
    full = shell("verify", "good.npz", stdout="> /dev/full")
    assert full.returncode == ExitCode.WRONG_CALL
    assert full.stderr.startswith("ndis: Expected to print the answer, but could not")


# -- what goes out ------------------------------------------------------------------------------


ADDRESSES = [
    f"postgresql://me:{SECRET}@127.0.0.1:1/db",
    f"postgresql://me:a@{SECRET}@127.0.0.1:1/db",
    f"postgresql://me:a/{SECRET}@127.0.0.1:1/db",
    f"postgresql://me:a#{SECRET}@127.0.0.1:1/db",
    f"postgresql://me@127.0.0.1:1/db?password={SECRET}",
    f"postgresql://me@127.0.0.1:1/db?sslpassword={SECRET}&connect_timeout=2",
    f"postgresql://me@127.0.0.1:1/db?nonsense={SECRET}",
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("call_", [("ledger", "show"), ("ledger", "show", "more")])
def test_a_password_in_an_address_is_not_echoed(
    capsys, folder: Path, address: str, call_: tuple[str, ...]
) -> None:
    code, out, err = call(capsys, *call_, address)
    assert code == ExitCode.WRONG_CALL
    assert err.count("\n") == 1
    assert SECRET not in out + err
    with pytest.raises((OSError, ValueError, ImportError)) as caught:
        Ledger(address)
    assert SECRET not in str(caught.value)


def test_the_owner_of_several_rows_a_person_is_told_what_is_promised(
    capsys, tmp_path: Path
) -> None:
    file = tmp_path / "stays.parquet"
    rows = {"patient_id": ["x", "x", "y"] * 40, "age": [30.0, 40.0, 50.0] * 40}
    pq.write_table(pa.table(rows), file)
    asked = ("release", "covariance", str(file), "--limits", "age=0:99", *PROMISE)
    _, out, err = call(capsys, *asked, "--out", str(tmp_path / "rows.npz"))
    assert "the promise will be for one row; if patient_id says whose row it is" in err
    assert "any one row makes" in out
    _, out, err = call(
        capsys, *asked, "--person", "patient_id", "--out", str(tmp_path / "people.npz")
    )
    assert "the promise will be" not in err
    assert "any one patient_id, with all their rows, makes" in out
    code, out, _ = call(capsys, "verify", str(tmp_path / "people.npz"))
    assert code == ExitCode.DONE
