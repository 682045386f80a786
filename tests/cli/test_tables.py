"""Tables on the command line, read here or through Spark."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from commands import LIMITS, MEAN, PROMISE, SECRET, call
from ndis import Release
from ndis.cli.console import ExitCode
from requires import require_java


@pytest.mark.slow
@pytest.mark.spark
def test_a_release_through_spark(folder: Path) -> None:
    require_java()
    words = ["release", "covariance", "part-*.parquet", "--spark", "local[1]", "--out", "s.npz"]
    done = subprocess.run(
        [sys.executable, "-m", "ndis", *words, *LIMITS, *PROMISE], capture_output=True, text=True
    )
    # Java's chatter is kept away.
    assert (done.returncode, done.stderr) == (ExitCode.DONE, "ndis: columns read: a, b\n")


@pytest.mark.slow
@pytest.mark.spark
def test_a_time_of_day_leaves_the_dates_of_others_on_spark(folder: Path) -> None:
    """Spark would infer moments of its time zone for all of them."""
    require_java()
    days = [f"2020-01-{day:02}" for day in range(1, 29)]
    (folder / "days.csv").write_text("\n".join(["hired", *days, "2020-01-28 18:00:00"]))
    words = ["release", "covariance", "days.csv", "--limits", "hired=2019-01-01:2021-01-01"]
    for name, more in (("here.npz", []), ("there.npz", ["--spark", "local[1]"])):
        done = subprocess.run(
            [sys.executable, "-m", "ndis", *words, *PROMISE, "--seed", "1", "--out", name, *more],
            capture_output=True,
            text=True,
            env={**os.environ, "TZ": "Asia/Tokyo"},
        )
        assert done.returncode == ExitCode.DONE, done.stderr
    here, there = (Release.load(name).arrays for name in ("here.npz", "there.npz"))
    assert all(np.array_equal(here[name], there[name]) for name in here)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("source", "master", "told"),
    [
        ("part-*.parquet", "local[zz]", "Expected Spark at local[zz], but it did not start ("),
        ("none.csv", "local[1]", "Expected a table that Spark can read at none.csv, got none ("),
    ],
)
def test_what_spark_refuses_is_one_sentence(
    folder: Path, source: str, master: str, told: str
) -> None:
    require_java()
    words = ["release", "covariance", source, "--spark", master, "--out", "s.npz"]
    done = subprocess.run(
        [sys.executable, "-m", "ndis", *words, *LIMITS, *PROMISE], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (ExitCode.WRONG_CALL, "")
    assert done.stderr.startswith(f"ndis: {told}")
    assert done.stderr.count("\n") == 1


def test_an_address_that_is_none_of_sparks_is_refused_at_once(capsys, folder, mean: None) -> None:
    words = ("release", *MEAN, "--spark", "http://x", "--out", "s.npz")
    code, out, err = call(capsys, *words)
    assert (code, out) == (ExitCode.WRONG_CALL, "")
    assert err.startswith("ndis: Expected --spark with an address such as spark://HOST:7077")


def test_names_in_a_text_file_are_typed_or_confirmed_for_spark_too(capsys, folder, mean: None):
    words = ("mean", "people.csv", "--data-norm", "2", *PROMISE, "--spark", "local[1]")
    code, _, err = call(capsys, "release", *words, "--out", "s.npz")
    assert code == ExitCode.WRONG_CALL
    assert "pass --header" in err


@pytest.mark.parametrize(
    "address", [f"memory://me:{SECRET}@x/t.csv", f"memory://t.csv?key={SECRET}"]
)
def test_a_password_in_the_address_of_a_table_is_not_echoed(
    capsys, folder: Path, address: str
) -> None:
    code, out, err = call(capsys, "check", address)
    assert code == ExitCode.WRONG_CALL
    assert SECRET not in out + err
