"""``ndis check``: what its owner sees of a table, and nobody else."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from commands import call
from ndis.cli.console import ExitCode


def test_the_owner_sees_more_on_standard_error_only(capsys, folder: Path) -> None:
    code, out, err = call(capsys, "check", "people.csv", "--columns", "a,b")
    assert (code, out) == (ExitCode.DONE, "")
    assert "4000 rows" in err


UGLY = "ward;cost;day\n" + "".join(
    f"{'AB'[k % 2]};{1 + k % 9}.{k:03d},50 EUR;{1 + k % 28:02d}.03.2024\n" for k in range(200)
)
WRITTEN = (
    *("--delimiter", ";", "--decimal", ",", "--thousands", ".", "--units", "EUR"),
    *("--dates", "day=%d.%m.%Y"),
)


def test_an_ugly_file_is_shown_as_it_will_be_read(capsys, tmp_path: Path) -> None:
    (tmp_path / "stays.csv").write_text(UGLY)
    code, _, err = call(capsys, "check", str(tmp_path / "stays.csv"), *WRITTEN)
    assert code == ExitCode.DONE
    cost = next(line for line in err.splitlines() if line.strip().startswith("cost"))
    assert "double" in cost
    assert "1000.5" in cost
    assert "EUR" not in err
    assert "--person" not in err  # amounts and dates name nobody


def test_doubts_of_the_owner(capsys, tmp_path: Path) -> None:
    (tmp_path / "stays.csv").write_text(UGLY)
    file = str(tmp_path / "stays.csv")
    _, _, err = call(capsys, "check", file, *WRITTEN, "--levels", "ward=a,B")
    assert "No row has ward = 'a': levels are compared letter by letter" in err
    said = ("--limits", "cost=0:5e6", "--limits", "day=2024-01-01:2024-12-31", "--label", "cost")
    _, _, err = call(capsys, "check", file, *WRITTEN, "--levels", "ward=A,B", *said)
    assert "Every row has one of the levels listed for ward" in err
    assert "The limits of cost are more than 10 times as wide" in err
    assert "The limits of day" in err
    _, _, err = call(
        capsys, "check", file, *WRITTEN, "--levels", "ward=A", "--limits", "cost=0:10000"
    )
    assert "No row" not in err
    assert "Every row" not in err
    assert "more than" not in err


def test_embeddings(capsys, tmp_path: Path) -> None:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12.0)), 3)
    pq.write_table(pa.table({"vector": lists}), tmp_path / "t.parquet")
    code, _, err = call(capsys, "check", str(tmp_path / "t.parquet"))
    assert code == ExitCode.DONE
    assert "11" in err


def test_columns_that_may_name_people_are_noticed(capsys, tmp_path: Path) -> None:
    file, rng = tmp_path / "stays.parquet", np.random.default_rng(0)
    who = np.repeat(np.arange(60), rng.geometric(0.3, 60))
    who = np.append(who, [7] * 30)
    n = len(who)
    columns = {"patient": [f"p{each}" for each in who], "ward": rng.choice(["A", "B"], n)}
    pq.write_table(pa.table(columns | {"cost": rng.random(n), "row": np.arange(n)}), file)
    most = str(np.bincount(who).max())
    code, out, err = call(capsys, "check", str(file), "--limits", "cost=0:1")
    assert (code, out) == (ExitCode.DONE, "")
    assert f"patient has 60 different values in {n} rows, one of them in {most}" in err
    assert "--person patient" in err
    assert not any(f"{name} has" in err for name in ("ward", "row", "cost"))
    assert "p7" not in err
    _, _, err = call(capsys, "check", str(file))
    assert "--levels ward=A,B,..." in err  # whose levels can be listed
    asked = (
        "--person",
        "patient",
        "--mechanism",
        "covariance",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
    )
    _, _, err = call(capsys, "check", str(file), "--limits", "cost=0:1", *asked)
    assert f"patient: 60 people, the busiest with {most} rows" in err
    assert "60 people who count once each" in err  # of the forecast
    assert "any one patient, with all their rows" in err
    code, _, err = call(capsys, "check", str(file), "--person", "cost")
    assert code != ExitCode.DONE
    assert "write ids as text" in err


def test_rows_without_a_person_are_told_of_and_released(capsys, tmp_path: Path) -> None:
    file, out = tmp_path / "stays.csv", tmp_path / "out.npz"
    rows = "".join(f"{'' if k % 4 == 0 else k // 8},{k % 9}\n" for k in range(80))
    file.write_text("patient,days\n" + rows)
    asked = (str(file), "--limits", "days=0:9", "--person", "patient")
    _, _, err = call(capsys, "check", *asked)
    assert "patient: 10 people, the busiest with 6 rows." in err
    own = (*asked, "--missing-person", "own")
    _, _, err = call(capsys, "check", *own)
    assert "patient: 30 people, the busiest with 6 rows. 20 of them are rows without a" in err
    promised = ("--epsilon", "1", "--delta", "1e-6", "--out", str(out))
    code, _, err = call(capsys, "release", "covariance", *asked, *promised)
    assert code != ExitCode.DONE
    assert "--missing-person own" in err
    code, said, err = call(capsys, "release", "covariance", *own, *promised)
    assert code == ExitCode.DONE
    _, said, _ = call(capsys, "verify", str(out))
    assert "A row without a patient counts as a patient of its own." in said


def test_ids_with_a_letter_are_no_amounts(capsys, tmp_path: Path) -> None:
    """p12 is somebody, and was taken for a number with a unit."""
    rows = "".join(f"p{k},{1 + k % 9}\n" for k in range(40) for _ in range(1 + k % 3))
    (tmp_path / "t.csv").write_text("patient,days\n" + rows)
    _, _, err = call(capsys, "check", str(tmp_path / "t.csv"))
    assert "--person patient" in err
    assert "--units" not in err


def test_lists_of_any_length_are_named(capsys, tmp_path: Path) -> None:
    pq.write_table(pa.table({"vector": [[1.0], [1.0, 2.0]]}), tmp_path / "t.parquet")
    code, _, err = call(capsys, "check", str(tmp_path / "t.parquet"))
    assert code == ExitCode.DONE
    assert "which no release reads: make lists of one fixed size" in err
