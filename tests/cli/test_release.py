"""calibrate, forecast, release, show and verify, called as a user would."""

import csv
import inspect
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ndis
from commands import ANSWERS, LIMITS, PLANS, PROMISE, RELEASES, call
from ndis import GaussianMechanism, Ledger, Release
from ndis.cli.console import ExitCode
from ndis.cli.kinds import ELSEWHERE, KINDS
from ndis.cli.settings import as_option, described
from ndis.mechanisms.base import PrivateEstimator
from requires import require_java

MEAN = ("mean", "people.csv", *LIMITS, *PROMISE)
GAUSSIAN = ("gaussian", "answers.csv", *ANSWERS, *PROMISE)
# Parameters that cannot be written on a command line, and why.
PYTHON_ONLY = {"kernel": "a scikit-learn object"}
# Estimators that are no mechanism for a table.
NOT_HERE = {
    "GaussianOutput": "wraps a function of the caller's",
    "MultiPartyRegression": "is `ndis party`",
}


# -- commands are made from estimators ----------------------------------------------------------


def test_every_estimator_is_here() -> None:
    public = {
        name
        for name in ndis.__all__
        if name not in NOT_HERE
        and inspect.isclass(getattr(ndis, name))
        and issubclass(getattr(ndis, name), PrivateEstimator)
    }
    assert public == {kind.home for kind in KINDS.values()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_an_option_or_known_not_to_be(kind: str) -> None:
    estimator = KINDS[kind].estimator
    about = described(estimator)
    for name in inspect.signature(estimator).parameters:
        if name not in ELSEWHERE and name not in PYTHON_ONLY:
            assert name in about, f"{name} is not documented"
            assert as_option(name, *about[name]) is not None, name


@pytest.mark.parametrize("command", ["calibrate", "forecast", "release"])
@pytest.mark.parametrize("kind", KINDS)
def test_help_lists_the_parameters_and_stars_what_is_needed(capsys, command, kind) -> None:
    code, out, _ = call(capsys, command, kind, "--help")
    assert code == ExitCode.DONE
    starred = {line.split()[2] for line in out.splitlines() if line[:5].strip(" │") == "*"}
    assert "--delta" in starred
    assert "One of --epsilon and --target" in " ".join(out.replace("│", " ").split())
    assert ("--out" in starred) == (command == "release")
    assert "--json" in out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["calibrate", "forecast", "release"])
def test_all_that_is_missing_is_told_at_once(capsys, command: str, kind: str) -> None:
    code, out, err = call(capsys, command, kind)
    assert (code, out, err.count("\n")) == (ExitCode.WRONG_CALL, "", 1)
    expected = ["--epsilon", "--delta", *KINDS[kind].needs]
    expected += ["INPUT", "--out", *KINDS[kind].asks] if command == "release" else []
    for option in expected:
        for one in option.split("|"):
            assert one.lstrip("-").replace("_", "-") in err
    assert err.endswith(f"see ndis {command} {kind} --help.\n")


def test_a_new_estimator_is_one_line(capsys, folder: Path, mean: None) -> None:
    code, out, err = call(capsys, "release", *MEAN, "--out", "m.npz")
    assert (code, err) == (ExitCode.DONE, "ndis: columns read: a, b\n")
    assert "sums" in out
    assert "differentially private" in out
    assert Release.load("m.npz").parameters["columns"] == ["a", "b"]
    code, out, _ = call(capsys, "calibrate", *MEAN[:1], *MEAN[2:], "--json")
    assert json.loads(out)["noise_scale"].keys() == {"sums", "count"}


# -- every kind ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_calibrate_says_what_the_plan_says(capsys, folder: Path, kind: str) -> None:
    code, out, err = call(capsys, "calibrate", kind, *PROMISE, *PLANS[kind], "--json")
    assert (code, err) == (ExitCode.DONE, "")
    answer = json.loads(out)
    assert answer["guarantee"]["epsilon"] == 1.0
    code, out, _ = call(capsys, "calibrate", kind, *PROMISE, *PLANS[kind])
    assert code == ExitCode.DONE
    noise = answer["noise_scale"]
    for scale in noise.values() if isinstance(noise, dict) else [noise]:
        assert f"{scale:.6g}" in out
    assert answer["reason"] in " ".join(out.split())


@pytest.mark.parametrize("kind", KINDS)
def test_forecast_gives_ranges_and_what_they_assume(capsys, folder: Path, kind: str) -> None:
    words = (kind, *PROMISE, *PLANS[kind])
    words += ("--n-rows", "4000") if KINDS[kind].source == "table" else ()
    code, out, err = call(capsys, "forecast", *words, "--json")
    assert (code, err) == (ExitCode.DONE, "")
    answer = json.loads(out)
    assert all(0 <= low <= high for low, high in answer["errors"].values())
    code, out, _ = call(capsys, "forecast", *words)
    assert code == ExitCode.DONE
    assert all(f"- assuming {each}" in out for each in answer["assumptions"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_releases_shows_and_verifies(capsys, folder: Path, kind: str) -> None:
    code, out, err = call(
        capsys, "release", kind, *RELEASES[kind], *PROMISE, "--out", "r.npz", "--json"
    )
    assert code == ExitCode.DONE, err
    assert err.startswith("ndis: columns read: ")
    answer = json.loads(out)
    release = Release.load("r.npz")
    assert answer["digest"] == release.digest
    assert answer["guarantee"] == release.guarantee.to_dict()
    for name, array in release.arrays.items():
        np.testing.assert_array_equal(np.array(answer["values"][name]), array)
    code, out, _ = call(capsys, "show", "r.npz")
    assert code == ExitCode.DONE
    if KINDS[kind].source == "table":  # more than the arrays: what they mean, by name
        assert set(answer["values"]) > set(release.arrays)
    assert str(release.guarantee) in out
    code, out, _ = call(capsys, "show", "r.npz", "--csv")
    assert code == ExitCode.DONE
    assert len(list(csv.reader(io.StringIO(out)))) > 1
    code, out, _ = call(capsys, "show", "r.npz", "--json")
    assert json.loads(out)["certificate"] == release.certificate()
    code, out, _ = call(capsys, "verify", "r.npz")
    assert code in (ExitCode.DONE, ExitCode.NOT_CHECKABLE)


# -- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.yaml", "epsilon: 1\ndelta: 1e-6\nlimits: {a: [-1, 1], b: '-1:1'}\n"),
        ("s.toml", "epsilon = 1\ndelta = 1e-6\n[limits]\na = [-1, 1]\nb = [-1, 1]\n"),
        ("s.json", '{"epsilon": 1, "delta": 1e-6, "limits": {"a": [-1, 1], "b": [-1, 1]}}'),
    ],
)
def test_settings_in_a_file_and_flags_that_win(capsys, folder: Path, mean: None, name, text):
    Path(name).write_text(text)
    Ledger.create("budget", 3.0, 1e-5, "add-remove").close()
    words = ("--config", name, "--ledger", "budget", "--note", "for the yearbook")
    code, out, _ = call(
        capsys, "release", "mean", "part-*.parquet", *words, "--epsilon", "0.5", "--out", "m.npz"
    )
    assert code == ExitCode.DONE
    assert "Left of the budget: epsilon" in out
    assert Release.load("m.npz").guarantee.epsilon == 0.5
    with Ledger("budget") as ledger:
        assert ledger.history()[0].note == "for the yearbook"
    code, out, _ = call(capsys, "verify", "m.npz", "--ledger", "budget", "--json")
    assert {"what": "the ledger knows the release", "outcome": "held", "why": ""} in json.loads(
        out
    )["checks"]


@pytest.mark.parametrize(
    "text",
    ["epsilon: [", "- 1", "epsilon: one", "epsilom: 1", "limits: {a: 1}", "drop-missing: maybe"],
)
def test_a_wrong_file_of_settings_is_one_sentence(capsys, folder, mean: None, text: str) -> None:
    Path("settings.yaml").write_text(text)
    words = ("mean", "people.csv", "--config", "settings.yaml", *PROMISE[2:])
    code, _, err = call(capsys, "release", *words, "--out", "s.npz")
    assert code == ExitCode.WRONG_CALL
    assert err.count("\n") == 1


# -- releases -----------------------------------------------------------------------------------


def test_answers_are_released_near_the_truth(capsys, folder: Path) -> None:
    call(capsys, "release", *GAUSSIAN, "--out", "r.npz")
    value = Release.load("r.npz").value
    assert value.shape == (3, 1)
    assert np.abs(value[:, 0] - [10, 20, 30]).max() < 8 * GaussianMechanism(1, 1e-6, 1).calibrate()


@pytest.mark.slow
def test_a_risk_in_epsilons_place_and_read_back(capsys, folder: Path) -> None:
    words = [*GAUSSIAN, "--target", "advantage=0.1", "--out", "out.npz"]
    code, _, err = call(capsys, "release", *words)
    assert (code, "epsilon or target" in err) == (ExitCode.WRONG_CALL, True)
    at = words.index("--epsilon")
    del words[at : at + 2]
    code, out, _ = call(capsys, "release", *words)
    assert code == ExitCode.DONE
    assert "at most 55 of 100 cases" in out
    code, out, _ = call(capsys, "risk", "out.npz", "--json", "--false-positive", "0.1")
    told = json.loads(out)
    assert told["sentence"] == str(Release.load("out.npz").guarantee)
    risks = {each["risk"]: each["at_most"] for each in told["risks"]}
    assert 0.0999 < risks["advantage"] <= 0.1
    assert risks["true-positive rate"] == Release.load("out.npz").guarantee.risk(false_positive=0.1)
    assert "0.1" in call(capsys, "risk", "out.npz")[1]
    assert call(capsys, "calibrate", "gaussian", "--sensitivity", "1", "--delta", "1e-6",
                "--target", "guess=0.2,candidates=10")[0] == ExitCode.DONE  # fmt: skip
    code, _, err = call(capsys, "release", *words, "--target", "luck=1")
    assert (code, "a risk such as advantage=0.1" in err) == (ExitCode.WRONG_CALL, True)


def test_a_seeded_release_does_not_verify(capsys, folder: Path) -> None:
    call(capsys, "release", *GAUSSIAN, "--seed", "1", "--out", "s.npz")
    code, out, _ = call(capsys, "verify", "s.npz")
    assert code == ExitCode.CHECK_FAILED
    assert "NOT PRIVATE" in out


def test_a_changed_release_does_not_verify(capsys, folder: Path) -> None:
    call(capsys, "release", *GAUSSIAN, "--out", "s.npz")
    data = bytearray(Path("s.npz").read_bytes())
    Path("s.npz").write_bytes(data[: len(data) // 2])
    for command in ("verify", "show"):
        code, out, err = call(capsys, command, "s.npz")
        assert (code, out) == (ExitCode.WRONG_CALL, "")
        assert err.startswith("ndis: Expected a release file written by ndis")
    data[-300] ^= 1
    Path("s.npz").write_bytes(data)
    code, out, err = call(capsys, "verify", "s.npz")
    assert (code, out) == (ExitCode.CHECK_FAILED, "")
    assert err.endswith("it was changed after it was published.\n")


def test_a_promise_beyond_its_loss_does_not_verify(capsys, folder: Path) -> None:
    honest = GaussianMechanism(1, 1e-6, 1).release([1.0])
    boast = replace(honest.guarantee, delta=9e-7)
    Release(honest.value, boast, honest.mechanism, honest.parameters).save("boast.npz")
    code, out, _ = call(capsys, "verify", "boast.npz", "--json")
    assert code == ExitCode.CHECK_FAILED
    failed = [each for each in json.loads(out)["checks"] if each["outcome"] == "failed"]
    assert "the privacy loss keeps (epsilon, delta)" in [each["what"] for each in failed]


def test_a_signed_release(capsys, folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization as stored
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for name in ("owner", "other"):
        key, pem = Ed25519PrivateKey.generate(), stored.Encoding.PEM
        secret = key.private_bytes(pem, stored.PrivateFormat.PKCS8, stored.NoEncryption())
        Path(f"{name}.pem").write_bytes(secret)
        public = key.public_key().public_bytes(pem, stored.PublicFormat.SubjectPublicKeyInfo)
        Path(f"{name}.pub").write_bytes(public)
    assert call(capsys, "release", *GAUSSIAN, "--sign", "owner.pem", "--out", "s.npz")[0] == 0
    for key, code in (("owner", ExitCode.DONE), ("other", ExitCode.CHECK_FAILED)):
        assert call(capsys, "verify", "s.npz", "--key", f"{key}.pub")[0] == code
    call(capsys, "release", *GAUSSIAN, "--out", "unsigned.npz")
    code, out, _ = call(capsys, "verify", "unsigned.npz", "--key", "owner.pub")
    assert code == ExitCode.CHECK_FAILED
    assert "it is signed with the key" in out
    code, _, err = call(capsys, "release", *GAUSSIAN, "--sign", "people.csv", "--out", "t.npz")
    assert code == ExitCode.WRONG_CALL
    assert "Expected an Ed25519 private key in PEM" in err


def test_a_release_is_not_in_another_ledger(capsys, folder: Path) -> None:
    call(capsys, "release", *GAUSSIAN, "--out", "s.npz")
    Ledger.create("budget", 3.0, 1e-5, "add-remove").close()
    assert call(capsys, "verify", "s.npz", "--ledger", "budget")[0] == ExitCode.CHECK_FAILED


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
