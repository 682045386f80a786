"""calibrate, forecast, release and verify, called as a user would."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from ndis import (
    GaussianMechanism,
    Ledger,
    PrivateCovariance,
    PrivateGraph,
    PrivateLeastSquares,
    PrivateProjection,
    Release,
    Sketch,
)
from ndis.cli import main
from ndis.cli.console import ExitCode
from ndis.cli.kinds import KINDS
from ndis.mechanisms.recompute import HOMES
from requires import require_java

PROMISE = ("--epsilon", "1", "--delta", "1e-6")


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run the program as a user would and return its exit code and what it printed."""
    with pytest.raises(SystemExit) as leaving:
        main(words)
    printed = capsys.readouterr()
    return leaving.value.code or 0, printed.out, printed.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tables of people, edges and answers; the program runs in it."""
    rows = np.random.default_rng(0).uniform(-1, 1, (4000, 3))
    people = pa.table({"a": rows[:, 0], "b": rows[:, 1], "y": rows[:, 2] + rows[:, 0]})
    csv.write_csv(people, tmp_path / "people.csv")
    pq.write_table(people.slice(0, 1500), tmp_path / "part-1.parquet")
    pq.write_table(people.slice(1500), tmp_path / "part-2.parquet")
    csv.write_csv(pa.table({"source": [0, 1], "target": [1, 2]}), tmp_path / "edges.csv")
    csv.write_csv(pa.table({"count": [10, 20, 30]}), tmp_path / "answers.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


PROJECTION = (*PROMISE, "--data-norm", "2", "--components", "50")
REGRESSION = ("regression", *PROMISE, "--data-norm", "2", "--label-bound", "1")
LEAST_SQUARES = PrivateLeastSquares(epsilon=1, delta=1e-6, data_norm=2, label_bound=1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("projection", *PROJECTION),
            lambda: PrivateProjection(
                epsilon=1, delta=1e-6, data_norm=2, n_components=50
            ).calibrate(),
        ),
        (
            ("regression", *PROMISE, "--data-norm", "2", "--features", "3"),
            lambda: PrivateLeastSquares(epsilon=1, delta=1e-6, data_norm=2).calibrate(3),
        ),
        (
            ("covariance", *PROMISE, "--components", "738"),
            lambda: PrivateCovariance(epsilon=1, delta=1e-6, n_components=738).calibrate(),
        ),
        (
            ("graph", *PROMISE, "--components", "50", "--nodes", "90"),
            lambda: PrivateGraph(epsilon=1, delta=1e-6, n_components=50).calibrate(90),
        ),
        (
            ("gaussian", *PROMISE, "--sensitivity", "2"),
            lambda: GaussianMechanism(1, 1e-6, 2).calibrate(),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_calibrate_says_what_the_mechanism_says(capsys, words, expected) -> None:
    code, out, _ = call(capsys, "calibrate", *words, "--json")
    answer = json.loads(out)
    assert code == ExitCode.DONE
    assert answer["noise_scale"] == expected()
    assert answer["kept"] in (True, None)
    _, out, _ = call(capsys, "calibrate", *words)
    assert f"{expected():.6g}" in out


@pytest.mark.parametrize(
    ("words", "key", "expected"),
    [
        (
            ("projection", *PROJECTION, "--rows", "9000", "--width", "4"),
            "relative_error_of_the_Gram_matrix",
            lambda: (
                PrivateProjection(epsilon=1, delta=1e-6, data_norm=2, n_components=50)
                .forecast(n_rows=9000, n_columns=4)
                .relative_error
            ),
        ),
        (
            ("covariance", *PROMISE, "--components", "50", "--scatter", "7"),
            "standard_error_of_the_scatter",
            lambda: PrivateCovariance(epsilon=1, delta=1e-6, n_components=50).forecast(7),
        ),
        (
            ("graph", *PROMISE, "--components", "50", "--nodes", "90", "--set-size", "3"),
            "standard_error_of_the_cut",
            lambda: PrivateGraph(epsilon=1, delta=1e-6, n_components=50).forecast(90, 3),
        ),
        (
            (*REGRESSION, "--method", "adassp", "--rows", "9000", "--features", "2"),
            "R^2_lost",
            lambda: LEAST_SQUARES.set_params(method="adassp").forecast(2, 9000).lost,
        ),
        (
            (*REGRESSION, "--components", "20", "--rows", "9000", "--features", "2"),
            "R^2_lost,_auto",
            lambda: LEAST_SQUARES.set_params(method="auto").forecast(2, 9000).lost,
        ),
        (
            ("gaussian", *PROMISE, "--sensitivity", "2", "--entries", "4"),
            "root_of_the_mean_squared_error_of_all",
            lambda: 2 * GaussianMechanism(1, 1e-6, 2).calibrate(),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_forecast_says_what_the_mechanism_says(capsys, words, key, expected) -> None:
    code, out, _ = call(capsys, "forecast", *words, "--json")
    assert code == ExitCode.DONE
    assert json.loads(out)[key] == pytest.approx(expected(), rel=1e-12)
    assert "To be expected" in call(capsys, "forecast", *words)[1]


def test_a_pattern_is_released_by_settings_in_a_file_and_found_in_the_ledger(
    capsys, folder: Path
) -> None:
    Path("settings.yaml").write_text(
        "epsilon: 1\ndelta: 1e-6\ndata-norm: 2.0\ncomponents: 50\nclip: {y: 1.5}\n"
    )
    Ledger.create("budget", 3.0, 1e-5, "add-remove").close()
    words = ("--config", "settings.yaml", "--ledger", "budget", "--out", "sketch.npz")
    code, out, err = call(capsys, "release", "projection", "part-*.parquet", *words)
    assert (code, err) == (ExitCode.DONE, "")
    assert Release.load("sketch.npz").digest in out
    assert Sketch.load("sketch.npz").columns == ("a", "b", "y")
    code, out, _ = call(capsys, "verify", "sketch.npz", "--ledger", "budget", "--json")
    answer = json.loads(out)
    assert (code, answer["outcome"]) == (ExitCode.DONE, "checked")
    assert {check["outcome"] for check in answer["checks"]} == {"held"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings.toml", "epsilon = 1\ndelta = 1e-6\ndata_norm = 2\ncomponents = 50\n"),
        ("settings.json", '{"epsilon": 1, "delta": 1e-6, "data_norm": 2, "components": 50}'),
    ],
)
def test_other_files_of_settings_and_flags_that_win(capsys, folder: Path, name, text) -> None:
    Path(name).write_text(text)
    words = ("projection", "people.csv", "--config", name, "--components", "7", "--out", "s.npz")
    assert call(capsys, "release", *words)[0] == ExitCode.DONE
    assert Sketch.load("s.npz").n_components == 7


@pytest.mark.parametrize(
    ("words", "mechanism"),
    [
        (("regression", "people.csv", "--data-norm", "2", "--label", "y"), "PrivateLeastSquares"),
        (("covariance", "people.csv", "--components", "50", "--mean"), "PrivateCovariance"),
        (("graph", "edges.csv", "--components", "50", "--nodes", "5"), "PrivateGraph"),
        (("gaussian", "answers.csv", "--sensitivity", "1"), "GaussianMechanism"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_every_mechanism_releases(capsys, folder: Path, words, mechanism) -> None:
    code, out, err = call(capsys, "release", *words, *PROMISE, "--out", "r.npz", "--json")
    assert (code, err) == (ExitCode.DONE, "")
    assert json.loads(out)["mechanism"] == mechanism
    assert Release.load("r.npz").digest == json.loads(out)["digest"]
    code, out, _ = call(capsys, "verify", "r.npz")
    assert code == (ExitCode.DONE if mechanism in HOMES else ExitCode.NOT_CHECKABLE)
    assert ("Verdict: not checkable" in out) == (mechanism not in HOMES)


def test_answers_are_released_near_the_truth(capsys, folder: Path) -> None:
    words = ("gaussian", "answers.csv", "--sensitivity", "1", *PROMISE, "--out", "r.npz")
    call(capsys, "release", *words)
    value = Release.load("r.npz").value
    assert value.shape == (3, 1)
    assert np.abs(value[:, 0] - [10, 20, 30]).max() < 8 * GaussianMechanism(1, 1e-6, 1).calibrate()


def test_a_seeded_release_does_not_verify(capsys, folder: Path) -> None:
    words = ("projection", "people.csv", *PROJECTION, "--seed", "1", "--out", "s.npz")
    call(capsys, "release", *words)
    code, out, _ = call(capsys, "verify", "s.npz")
    assert code == ExitCode.CHECK_FAILED
    assert "NOT PRIVATE" in out


def test_a_changed_release_does_not_verify(capsys, folder: Path) -> None:
    call(capsys, "release", "projection", "people.csv", *PROJECTION, "--out", "s.npz")
    data = bytearray(Path("s.npz").read_bytes())
    Path("s.npz").write_bytes(data[: len(data) // 2])
    code, out, err = call(capsys, "verify", "s.npz")
    assert (code, out) == (ExitCode.WRONG_CALL, "")
    assert err.startswith("ndis: Expected a release file written by ndis")
    data[-300] ^= 1
    Path("s.npz").write_bytes(data)
    code, out, err = call(capsys, "verify", "s.npz")
    assert (code, out) == (ExitCode.CHECK_FAILED, "")
    assert err.endswith("it was changed after it was published.\n")


def test_a_promise_beyond_its_loss_does_not_verify(capsys, folder: Path) -> None:
    from dataclasses import replace

    honest = GaussianMechanism(1, 1e-6, 1).release([1.0])
    boast = replace(honest.guarantee, delta=9e-7)
    Release(honest.value, boast, honest.mechanism, honest.parameters).save("boast.npz")
    code, out, _ = call(capsys, "verify", "boast.npz", "--json")
    assert code == ExitCode.CHECK_FAILED
    failed = [each for each in json.loads(out)["checks"] if each["outcome"] == "failed"]
    assert [each["what"] for each in failed] == ["the privacy loss keeps (epsilon, delta)"]


def test_a_signed_release(capsys, folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization as stored
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for name in ("owner", "other"):
        key, pem = Ed25519PrivateKey.generate(), stored.Encoding.PEM
        secret = key.private_bytes(pem, stored.PrivateFormat.PKCS8, stored.NoEncryption())
        Path(f"{name}.pem").write_bytes(secret)
        public = key.public_key().public_bytes(pem, stored.PublicFormat.SubjectPublicKeyInfo)
        Path(f"{name}.pub").write_bytes(public)
    words = ("projection", "people.csv", *PROJECTION, "--sign", "owner.pem", "--out", "s.npz")
    assert call(capsys, "release", *words)[0] == ExitCode.DONE
    for key, code in (("owner", ExitCode.DONE), ("other", ExitCode.CHECK_FAILED)):
        assert call(capsys, "verify", "s.npz", "--key", f"{key}.pub")[0] == code
    call(capsys, "release", *words[:-4], "--out", "unsigned.npz")
    code, out, _ = call(capsys, "verify", "unsigned.npz", "--key", "owner.pub")
    assert code == ExitCode.CHECK_FAILED
    assert "it is signed with the key" in out
    words = ("projection", "people.csv", *PROJECTION, "--sign", "people.csv", "--out", "t.npz")
    code, _, err = call(capsys, "release", *words)
    assert code == ExitCode.WRONG_CALL
    assert "Expected an Ed25519 private key in PEM" in err


def test_a_release_is_not_in_another_ledger(capsys, folder: Path) -> None:
    call(capsys, "release", "projection", "people.csv", *PROJECTION, "--out", "s.npz")
    Ledger.create("budget", 3.0, 1e-5, "add-remove").close()
    assert call(capsys, "verify", "s.npz", "--ledger", "budget")[0] == ExitCode.CHECK_FAILED


def test_pictures(capsys, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    gaussian = ("gaussian", *PROMISE, "--sensitivity", "2")
    call(capsys, "calibrate", *gaussian, "--plot", "c.png")
    call(capsys, "forecast", *gaussian, "--plot", "f.png")
    release = ("gaussian", "answers.csv", *gaussian[1:], "--out", "r.npz", "--plot", "r.png")
    call(capsys, "release", *release)
    call(capsys, "verify", "r.npz", "--plot", "v.png")
    for name in "cfrv":
        assert Path(f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words",
    [
        ("calibrate", "projection", *PROMISE),
        ("calibrate", "projection", *PROJECTION, "--method", "wrong"),
        ("calibrate", "projection", *PROJECTION, "--config", "nothing.yaml"),
        ("calibrate", "regression", *PROMISE, "--data-norm", "1"),
        ("forecast", "graph", *PROMISE, "--components", "9", "--nodes", "4"),
        ("release", "projection", "nothing.csv", *PROJECTION, "--out", "s.npz"),
        ("release", "projection", "people.csv", *PROJECTION, "--out", "people.csv"),
        ("release", "projection", "people.csv", *PROJECTION, "--out", "nowhere/s.npz"),
        ("release", "projection", "people.csv", *PROJECTION, "--out", "s.npz", "--clip", "y"),
        ("release", "projection", "people.csv", *PROJECTION, "--out", "s.npz", "--columns", "z"),
        ("release", "projection", "people.csv", *PROJECTION, "--out", "s.npz", "--ledger", "no"),
        ("release", "regression", "people.csv", *PROMISE, "--data-norm", "1", "--out", "s.npz"),
        ("release", "graph", "edges.csv", *PROMISE, "--components", "9", "--out", "s.npz"),
        ("verify", "nothing.npz"),
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_one_sentence_and_writes_nothing(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, out, err = call(capsys, *words)
    assert (code, out) == (ExitCode.WRONG_CALL, "")
    assert err.startswith("ndis: ")
    assert err.count("\n") == 1
    assert not Path("s.npz").exists()


@pytest.mark.parametrize(
    "text", ["epsilon: [", "- 1", "epsilon: one", "epsilom: 1", "components: 1.5", "mean: maybe"]
)
def test_a_wrong_file_of_settings_is_one_sentence(capsys, folder: Path, text: str) -> None:
    Path("settings.yaml").write_text(text)
    words = ("covariance", "people.csv", "--config", "settings.yaml", *PROMISE[2:])
    code, _, err = call(capsys, "release", *words, "--out", "s.npz")
    assert code == ExitCode.WRONG_CALL
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["calibrate", "forecast", "release"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_command_lists_its_own_options(capsys, command: str, kind: str) -> None:
    code, out, _ = call(capsys, command, kind, "--help")
    assert code == ExitCode.DONE
    assert "--json" in out
    assert ("--label-bound" in out) == (kind == "regression")


@pytest.mark.slow
@pytest.mark.spark
def test_a_release_through_spark(folder: Path) -> None:
    require_java()
    words = ["release", "projection", "part-*.parquet", "--spark", "local[1]", "--out", "s.npz"]
    done = subprocess.run(
        [sys.executable, "-m", "ndis", *words, *PROJECTION], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (ExitCode.DONE, "")  # Java's chatter is kept away
    assert Sketch.load("s.npz").columns == ("a", "b", "y")


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
    words = ["release", "projection", source, "--spark", master, "--out", "s.npz"]
    done = subprocess.run(
        [sys.executable, "-m", "ndis", *words, *PROJECTION], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (ExitCode.WRONG_CALL, "")
    assert done.stderr.startswith(f"ndis: {told}")
    assert done.stderr.count("\n") == 1


def test_an_address_that_is_none_of_sparks_is_refused_at_once(capsys, folder: Path) -> None:
    words = ("release", "projection", "part-*.parquet", "--spark", "http://x", "--out", "s.npz")
    code, out, err = call(capsys, *words, *PROJECTION)
    assert (code, out) == (ExitCode.WRONG_CALL, "")
    assert err.startswith("ndis: Expected --spark with an address such as spark://HOST:7077")
