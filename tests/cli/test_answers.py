"""What a release says: printed, drawn, and harmless to a spreadsheet."""

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import ndis
from commands import GAUSSIAN, PROMISE, call, shell
from ndis import GaussianMechanism, Release
from ndis.cli.console import ExitCode


def test_answers_are_released_near_the_truth(capsys, folder: Path) -> None:
    call(capsys, "release", *GAUSSIAN, "--out", "r.npz")
    value = Release.load("r.npz").value
    assert value.shape == (3, 1)
    assert (
        np.abs(value[:, 0] - [10, 20, 30]).max()
        < 8 * GaussianMechanism(epsilon=1, delta=1e-6, sensitivity=1).calibrate()
    )


@pytest.mark.slow
def test_pictures(capsys, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    plan = ("gaussian", *PROMISE, "--sensitivity", "2")
    call(capsys, "calibrate", *plan, "--plot", "c.png")
    call(capsys, "forecast", *plan, "--plot", "f.png")
    call(capsys, "release", *GAUSSIAN, "--out", "r.npz", "--plot", "r.png")
    call(capsys, "verify", "r.npz", "--plot", "v.png")
    for name in "cfrv":
        assert Path(f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("stdout", ["> /dev/full", "| true"])
def test_a_release_that_cannot_be_printed_is_a_warning(folder: Path, stdout: str) -> None:
    done = shell("release", *GAUSSIAN, "--out", "g.npz", stdout=stdout)
    assert done.returncode == ExitCode.DONE
    assert Release.load("g.npz").mechanism == "GaussianMechanism"
    if "full" in stdout:  # whether `true` is gone by then is a matter of luck
        assert "the release is written to g.npz; after that: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_picture_that_fails_after_the_release_is_a_warning(capsys, folder: Path) -> None:
    Path("curve.png").mkdir()
    code, out, err = call(capsys, "release", *GAUSSIAN, "--out", "g.npz", "--plot", "curve.png")
    assert code == ExitCode.DONE
    assert "Written to g.npz" in out
    assert "the release is written to g.npz; after that: " in err


def test_names_that_a_spreadsheet_would_run_are_made_harmless(capsys, folder: Path) -> None:
    names = ["=HYPERLINK(1)", "\uff1dwide", "+a", "@b", "-c", "-1.5"]
    table = np.random.default_rng(0).random((5_000, len(names)))
    limits = dict.fromkeys(names, (0, 1))
    ndis.PrivateCovariance(epsilon=1.0, delta=1e-6, limits=limits, random_state=0).fit(
        pa.table(dict(zip(names, table.T, strict=True)))
    ).release_.save("f.npz")
    code, out, _ = call(capsys, "show", "f.npz", "--csv")
    assert code == ExitCode.DONE
    cells = [cell for row in csv.reader(io.StringIO(out)) for cell in row]
    assert "'=HYPERLINK(1)" in cells
    for cell in cells:
        assert cell[:1] not in ("=", "\uff1d", "+", "@", "\t", "\r")
        assert cell[:1] != "-" or float(cell) < 0
