"""Two parties in two processes with different working directories, and what is refused."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from ndis import Ledger, Release
from ndis.cli import main
from ndis.cli.console import ExitCode

PEOPLE = 30_000
COLUMNS = ("clinic-a:age:0:100", "clinic-a:effect:-3:4", "clinic-b:dose:0:10")

PAID = ("--ledger", "budget")


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run the program as a user would and return its exit code and what it printed."""
    with pytest.raises(SystemExit) as leaving:
        main(words)
    printed = capsys.readouterr()
    return leaving.value.code or 0, printed.out, printed.err


def init(*more: str, rows: int = PEOPLE, epsilon: float = 8.0) -> tuple[str, ...]:
    columns = [word for column in COLUMNS for word in ("--column", column)]
    budget = ("--epsilon", str(epsilon), "--delta", "1e-6")
    return ("party", "init", "--rows", str(rows), *columns, *budget, "--key", "id", *more)


def write_clinics(folder: Path, n_rows: int = PEOPLE) -> tuple[Path, Path]:
    """One clinic keeps Parquet, the other CSV; each in a folder of its own."""
    rng = np.random.default_rng(0)
    age, dose = rng.uniform(0, 100, n_rows), rng.uniform(0, 10, n_rows)
    effect = 0.3 * dose - 0.02 * age + 0.1 * rng.standard_normal(n_rows)
    keys = rng.permutation(n_rows)
    a, b = folder / "a", folder / "b"
    a.mkdir()
    b.mkdir()
    parquet.write_table(pa.table({"id": keys, "age": age, "effect": effect}), a / "data.parquet")
    csv.write_csv(pa.table({"id": keys, "dose": dose}), b / "data.csv")
    return a, b


def budget(path: Path, epsilon: float = 8.0) -> None:
    """What a party starts once, for all that it releases about these people."""
    Ledger.create(path, epsilon, 1e-6, "party").close()


def process(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ndis", *words],
        cwd=folder,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def tamper(path: Path) -> None:
    """Change one number of a release and nothing else."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    rows = np.load(io.BytesIO(content["rows.npy"]))
    rows[0, 0] += 1.0
    buffer = io.BytesIO()
    np.save(buffer, rows)
    with zipfile.ZipFile(path, "w") as archive:
        for name, stored in (content | {"rows.npy": buffer.getvalue()}).items():
            archive.writestr(name, stored)


@pytest.mark.slow
def test_two_parties_in_two_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write_clinics(tmp_path)
    shared = tmp_path / "agreement.json"
    code, out, _ = call(capsys, *init("--out", str(shared)))
    assert code == ExitCode.DONE
    assert out.count("any one person's attributes at one party") == 2
    assert out.count("whole record") == 1
    for folder in (a, b):
        (folder / "agreement.json").write_bytes(shared.read_bytes())
    for folder in (a, b):
        budget(folder / "budget")
    running = [
        process(a, "party", "release", "--party", "clinic-a", "data.parquet", *PAID),
        process(b, "party", "release", "--party", "clinic-b", "data.csv", *PAID),
    ]
    for each in running:
        out, err = each.communicate(timeout=60)
        assert (each.returncode, err) == (ExitCode.DONE, "")
        assert json.loads(shared.read_text())["fingerprint"] in out
        assert "For a person's attributes at clinic-" in out
        assert "for a person's whole record: Suppose someone knows everything except " in out
    reader = tmp_path / "reader"
    reader.mkdir()
    (reader / "agreement.json").write_bytes(shared.read_bytes())
    files = str(a / "clinic-a.npz"), str(b / "clinic-b.npz")
    joining = process(reader, "party", "combine", *files)
    out, err = joining.communicate(timeout=60)
    assert (joining.returncode, err) == (ExitCode.DONE, "")
    assert Release.load(files[0]).digest in out.replace("\n", "")
    training = process(reader, "party", "train", "--label", "effect", "--json")
    out, err = training.communicate(timeout=60)
    assert (training.returncode, err) == (ExitCode.DONE, "")
    found = json.loads(out)["coefficients"]
    assert found["dose"] == pytest.approx(0.3, abs=0.15)
    assert found["age"] == pytest.approx(-0.02, abs=0.015)

    tamper(a / "clinic-a.npz")
    there = ("--agreement", str(shared), "--out", str(tmp_path / "other.npz"))
    code, _, err = call(capsys, "party", "combine", *files, *there)
    assert code == ExitCode.WRONG_CALL
    assert err.endswith("it was changed after it was published.\n")
    assert err.count("\n") == 1
    assert not (tmp_path / "other.npz").exists()


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the data of clinic a."""
    a, _ = write_clinics(tmp_path, 500)
    budget(a / "budget")
    monkeypatch.chdir(a)
    return a


def test_every_step_speaks_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*words: str) -> dict[str, Any]:
        code, out, err = call(capsys, "party", *words, "--json")
        assert (code, err) == (ExitCode.DONE, "")
        return json.loads(out)

    data = dict(zip("ab", write_clinics(tmp_path, 500), strict=True))
    shared = ("--agreement", str(tmp_path / "agreement.json"))
    made = answer(*init("--out", shared[1], rows=500)[1:])
    assert answer("show", *shared) == made
    files = {"a": "data.parquet", "b": "data.csv"}
    for folder in data.values():
        budget(folder / "budget")
    released = {
        name: answer(
            *("release", str(data[name] / file), "--party", f"clinic-{name}"),
            *("--ledger", str(data[name] / "budget")),
            *("--out", str(tmp_path / f"{name}.npz"), *shared),
        )
        for name, file in files.items()
    }
    assert {part["fingerprint"] for part in released.values()} == {made["fingerprint"]}
    whole = answer(
        *("combine", *(part["file"] for part in released.values())),
        *("--out", str(tmp_path / "all.npz"), *shared),
    )
    digests = {f"clinic-{name}": part["digest"] for name, part in released.items()}
    assert whole["parts"] == digests
    assert whole["guarantee"]["epsilon"] == made["joint_guarantee"]["epsilon"]


def test_a_second_release_is_refused(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, *init(rows=500))
    words = ("party", "release", "--party", "clinic-a", "data.parquet", *PAID)
    assert call(capsys, *words)[0] == ExitCode.DONE
    code, _, err = call(capsys, *words)
    assert (code, "which exists" in err) == (ExitCode.WRONG_CALL, True)
    code, _, err = call(capsys, *words, "--out", "again.npz")
    assert code == ExitCode.NO_BUDGET
    assert "got epsilon=8 where 0 is left" in err
    # Nor does another spelling of the file, or a link to it.
    Path("link.parquet").symlink_to("data.parquet")
    for other in ("./data.parquet", str(clinic / "data.parquet"), "link.parquet"):
        words_again = (*words[:4], other, *PAID, "--out", "again.npz")
        assert call(capsys, *words_again)[0] == ExitCode.NO_BUDGET
    # Another agreement over the same columns does not open the budget again.
    call(capsys, *init("--out", "other.json", rows=500, epsilon=0.1))
    again = ("--agreement", "other.json", "--out", "again.npz")
    code, _, err = call(capsys, *words, *again)
    assert code == ExitCode.NO_BUDGET
    assert "where 0 is left" in err
    assert not Path("again.npz").exists()
    with Ledger(clinic / "budget") as ledger:
        entries = ledger.history()
    assert [entry.digest for entry in entries] == [Release.load("clinic-a.npz").digest]


def test_a_release_makes_no_ledger(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, *init(rows=500))
    words = ("party", "release", "--party", "clinic-a", "data.parquet")
    before = sorted(clinic.iterdir())
    code, _, err = call(capsys, *words, "--ledger", "typo")
    assert (code, "make one with `ndis ledger init`" in err) == (ExitCode.WRONG_CALL, True)
    code, _, err = call(capsys, *words)
    assert (code, "--ledger" in err) == (ExitCode.WRONG_CALL, True)
    assert sorted(clinic.iterdir()) == before


def test_a_wrong_number_of_rows_spends_nothing(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, *init(rows=501))
    words = ("party", "release", "--party", "clinic-a", "data.parquet", *PAID)
    code, _, err = call(capsys, *words)
    assert code == ExitCode.WRONG_CALL
    assert err == (
        "ndis: Expected 501 rows as agreed, got another number; "
        "keep exactly the people on whom the parties agreed.\n"
    )
    with Ledger(clinic / "budget") as ledger:
        assert ledger.history() == []


def test_show_prints_both_guarantees(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, *init("--components", "9", "--seed", "ff", rows=500))
    code, out, _ = call(capsys, "party", "show", "--json")
    shown = json.loads(out)
    assert (code, shown["seed"], shown["n_components"]) == (ExitCode.DONE, "ff", 9)
    assert shown["guarantees"]["clinic-b"]["relation"] == "party"
    assert shown["joint_guarantee"]["relation"] == "replace"
    _, out, _ = call(capsys, "party", "show")
    assert shown["fingerprint"] in out
    assert shown["joint_guarantee"]["sentence"] in out


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--column", "age"), "clinic-a:age:0:120"),
        (("--column", "clinic-a:age:0:9"), "'age' twice"),
        (("--seed", "xyz"), "hexadecimal"),
        (("--protects", "nobody"), "protects"),
    ],
)
def test_a_bad_agreement_is_a_wrong_call(
    more: tuple[str, ...], why: str, clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, *init(*more))
    assert (code, why in err) == (ExitCode.WRONG_CALL, True)
    assert not Path("agreement.json").exists()


def test_a_secret_hides_the_order_of_keys(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, *init(rows=500))
    Path("secret").write_text("between us")
    words = ("party", "release", "--party", "clinic-a", "data.parquet", *PAID)
    call(capsys, *words)
    budget(clinic / "other")
    other = (*words[:5], "--ledger", "other")
    call(capsys, *other, "--secret-file", "secret", "--out", "hidden.npz")
    open_, hidden = (Release.load(name) for name in ("clinic-a.npz", "hidden.npz"))
    assert open_.parameters["key_order"] != hidden.parameters["key_order"]
    assert "between us" not in json.dumps(hidden.certificate())
