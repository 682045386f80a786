"""`ndis audit`: every kind of mechanism and every method, release files, samples, laws."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import call
from ndis import GaussianMechanism, PrivateGraph, Release
from ndis.auditing import neighbours
from ndis.cli.console import ExitCode
from ndis.cli.kinds import KINDS
from ndis.mechanisms.multiparty import Agreement, release_party

BOX = ("--limits", "a=-1:1", "--limits", "b=-1:1")
LABEL = (*BOX, "--limits", "y=-1:1", "--label", "y")
CLASS = (*BOX, "--label", "sick", "--classes", "0,1")
ANSWERS = ("--sensitivity", "1", "--relation", "add-remove", "--shape", "3,2")
SETS = ("--nodes", "6", "--sets", "0,1,2", "--sets", "0,3")
SLOW = pytest.mark.slow
# Every kind with each of its methods: the table, and what is said of it.
AUDITS: dict[str, tuple[str, ...]] = {
    "regression newton": ("people.csv", *LABEL, "--n-rounds", "2"),
    "regression noisy-gram": ("people.csv", *LABEL),
    "regression sketch": ("people.csv", *LABEL, "--n-components", "20"),
    "regression als": ("people.csv", *LABEL, "--n-components", "20"),
    "regression gaussian-limit": ("people.csv", *LABEL, "--n-components", "20"),
    "logistic newton": ("people.csv", *CLASS),
    "logistic descent": ("people.csv", *CLASS),
    "logistic posterior": ("people.csv", *CLASS, "--prior-precision", "20"),
    "process inducing": ("people.csv", *LABEL, "--n-inducing", "6"),
    "process posterior": ("people.csv", *LABEL, "--max-rows", "50"),
    "covariance matrix": ("people.csv", *BOX),
    "covariance sketch": ("people.csv", *BOX, "--n-components", "20"),
    "pca": ("people.csv", *BOX),
    "projection ridge": ("people.csv", *BOX, "--n-components", "20"),
    "projection ptr": ("people.csv", *BOX, "--n-components", "20"),
    "limits": ("people.csv", "--columns", "a,b"),
    "levels": ("people.csv", "--columns", "sick"),
    "poisson": ("people.csv", "--label", "sick", *BOX, "--limits", "sick=0:2"),
    "summary": ("people.csv", "--by", "sick", "--levels", "sick=0,1", "--limits", "a=-1:1"),
    "graph sketch": ("edges.csv", "--nodes", "6", "--n-components", "5"),
    "graph responses": ("edges.csv", "--nodes", "6"),
    "graph answers": ("edges.csv", *SETS),
    "gaussian": ("answers.csv", *ANSWERS),
    "noise": ("answers.csv", *ANSWERS),
    "matrix": ("answers.csv", *ANSWERS),
}
# papers/tests/test_cli.py audits these from the shell too, and tests/auditing without one.
TWICE = ("regression als", "projection ptr")
DEAR = ("logistic", "regression als", "regression gaussian", "projection ptr", "process posterior")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (30, 3))
    sick = (rows[:, 0] > 0).astype(int)
    lines = [f"{a},{b},{y},{s}" for (a, b, y), s in zip(rows, sick, strict=True)]
    (tmp_path / "people.csv").write_text("\n".join(["a,b,y,sick", *lines]))
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n4,5\n")
    np.savetxt(tmp_path / "answers.csv", rng.uniform(size=(3, 2)), delimiter=",", header="u,v",
               comments="")  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(neighbours, "_ROWS", 2)
    monkeypatch.setattr(neighbours, "_PAIRS", 4)
    return tmp_path


def words_of(name: str) -> list[str]:
    kind, _, method = name.partition(" ")
    return [kind, *AUDITS[name], *(("--method", method) if method else ())]


def test_every_kind_is_there() -> None:
    assert {name.partition(" ")[0] for name in AUDITS} == KINDS.keys()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                *[SLOW] * name.startswith(DEAR),
                *[pytest.mark.evidence] * (name in TWICE),
            ],
        )
        for name in AUDITS
    ],
)
def test_a_promise_is_kept_and_its_noise_sold_for_more_is_refuted(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words_of(name)
    told = call(capsys, "audit", *words, "--epsilon", "1", "--delta", "1e-6", "--json")
    assert told[0] == 0, told
    assert json.loads(told[1])["outcome"] == "consistent"
    sold = call(capsys, "audit", *words, "--delta", "1e-6", "--epsilon", "0.15", *noise(name))
    assert sold[0] == 1, sold
    assert sold[1].startswith("REFUTED: the claim of (0.15, 1e-06)")


@pytest.mark.parametrize(
    "words",
    [
        ["covariance", "people.csv", *BOX, "--person", "sick"],
        ["summary", "people.csv", "--by", "sick", "--private-levels", "sick", *BOX[:2]],
    ],
)
def test_whole_numbers_of_a_text_file_are_compared_as_they_are_written(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Ids and levels to be found: neighbours of the table itself are looked at, too."""
    code, out, _ = call(capsys, "audit", *words, "--epsilon", "1", "--delta", "1e-6")
    assert code == 0
    assert re.search("(rows|people) of the table.*, left out", out)
    assert "refuses" not in out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regression newton", "logistic newton", "process inducing"])
def test_a_release_says_how_its_table_is_read(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The label is the one that was explained, and not the last of the columns."""
    words = words_of(name)
    promise = ("--epsilon", "1", "--delta", "1e-6", "--header")
    assert call(capsys, "release", *words, *promise, "--out", "r.npz")[0] == 0
    code, out, err = call(capsys, "audit", "r.npz", words[1])
    label = words[words.index("--label") + 1]
    assert (code, err) == (0, f"ndis: columns read: a, b, {label}\n")
    assert "rows of the table" in out
    assert "refuses" not in out


def noise(name: str) -> list[str]:
    """The noise that epsilon = 1 asks for, as it is typed."""
    from ndis.cli.settings import read_settings

    kind = KINDS[name.partition(" ")[0]]
    words, flags = words_of(name)[2:], dict[str, Any]()
    for flag, value in zip(words[::2], words[1::2], strict=True):
        option = flag[2:].replace("-", "_")
        many = option in ("limits", "sets")
        flags[option] = [*flags.get(option, []), value] if many else value
    flags |= {"epsilon": "1", "delta": "1e-6"}
    found = kind.plan(read_settings(flags, kind.parameters | kind.sizes, None)).noise_scale
    if name == "process posterior":  # no data that we know of are as bad as what it is made for
        found /= 30
    parts = [str(found)] if isinstance(found, float) else [f"{k}={v}" for k, v in found.items()]
    return [word for part in parts for word in ("--noise-scale", part)]


def test_a_risk_in_epsilons_place(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*words_of("gaussian"), "--target", "advantage=0.1", "--delta", "1e-6", "--json")
    code, out, err = call(capsys, "audit", *words)
    assert code == 0, err
    found = json.loads(out)
    assert found["outcome"] == "consistent"
    # The noise of that risk: the worst case is found, and is what is claimed.
    assert -14.2 < found["found_log_delta"] <= np.log(1e-6)


FILES = ["covariance matrix", "regression noisy-gram", "graph responses", "gaussian", "limits"]


@pytest.mark.parametrize("name", FILES)
def test_a_release_with_its_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Mechanism, parameters and noise are those of the certificate."""
    words, source = words_of(name), AUDITS[name][0]
    promise = ("--epsilon", "1", "--delta", "1e-6", "--out", "r.npz")
    header = () if name == "graph responses" else ("--header",)
    assert call(capsys, "release", *words, *promise, *header)[0] == 0
    code, out, err = call(capsys, "audit", "r.npz", source, "--owner-report", "mine.html")
    assert code == 0, err
    assert "Consistent: nothing found contradicts (1, 1e-06)" in out
    assert "For the owner of the data only" in Path("mine.html").read_text()
    assert Path("mine.html").stat().st_mode & 0o777 == 0o600
    for page, why in (("mine.html", "which exists"), ("mine.txt", "ends in .html")):
        code, out, err = call(capsys, "audit", "r.npz", source, "--owner-report", page)
        assert (code, out) == (2, "")
        assert why in err


def test_a_release_that_says_too_much(capsys: pytest.CaptureFixture[str]) -> None:
    """A certificate whose noise is too small for its epsilon; the digest is the forger's own."""
    from dataclasses import replace

    honest = GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0).release(np.ones((3, 2)))
    lying = replace(honest.guarantee, epsilon=0.2)
    Release(honest.arrays, lying, honest.mechanism, honest.parameters).save("r.npz")
    code, out, _ = call(capsys, "audit", "r.npz", "answers.csv", "--json")
    assert code == 1
    assert json.loads(out)["outcome"] == "refuted"


def test_a_part_of_several_parties(capsys: pytest.CaptureFixture[str]) -> None:
    agreement = Agreement(
        30, {"one": {"a": (-1, 1)}, "two": {"b": (-1, 1)}}, epsilon=1.0, delta=1e-6, seed=7
    )
    table = np.loadtxt("people.csv", delimiter=",", skiprows=1)
    import pyarrow as pa

    release_party(agreement, "one", pa.table({"a": table[:, 0]})).save("one.npz")
    code, out, err = call(capsys, "audit", "one.npz", "people.csv", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert -14.2 < found["found_log_delta"] <= np.log(1e-6)  # the worst case is found


@pytest.mark.parametrize("header", ["", "x,y\n"])
def test_two_files_of_samples(header: str, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    for name, shift in (("one.csv", 1.0), ("two.csv", 0.0)):
        lines = "\n".join(f"{a + shift},{b}" for a, b in rng.standard_normal((600, 2)))
        Path(name).write_text(header + lines)
    words = ("audit", "samples", "one.csv", "two.csv", "--claim")
    assert call(capsys, *words, "0.2,0.05")[0] == 1
    assert call(capsys, *words, "0.2,0.9")[0] == 0
    Path("two.csv").write_text("a,b\nc,d\n")
    code, _, err = call(capsys, *words, "0.2,0.05")
    assert (code, "got something else in line 2" in err) == (2, True)


def test_a_page_to_share_is_the_same_for_neighbours(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where one row decides of which type a column is, and what is found on the table."""
    lines = (folder / "people.csv").read_text().splitlines()
    whole = [lines[0], *(f"{int(i % 3) - 1},{line.split(',', 1)[1]}"
                         for i, line in enumerate(lines[1:]))]  # fmt: skip
    odd = [*whole, "0.123,0.456,0.789,1"]
    pages = []
    for text in (whole, odd):
        Path("people.csv").write_text("\n".join(text))
        words = (*words_of("covariance matrix"), "--epsilon", "0.5", "--delta", "1e-6")
        call(capsys, "audit", *words, "--noise-scale", "matrix=20", "--noise-scale", "sums=20",
             "--noise-scale", "count=20", "--report", "page.html")  # fmt: skip
        pages.append(Path("page.html").read_bytes())
        Path("page.html").unlink()
    assert pages[0] == pages[1]
    assert b"people.csv" not in pages[0]
    assert b"This page may be shared" in pages[0]


def test_outputs_beyond_the_caps_are_refused_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("wide.csv").write_text(",".join(["1"] * 51) + "\n")
    words = ("audit", "samples", "wide.csv", "wide.csv", "--claim", "1,1e-3")
    code, _, err = call(capsys, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert "at most 50 numbers in a row" in err
    monkeypatch.setattr("ndis.cli.audit._MOST_BYTES", 100)
    code, _, err = call(capsys, *words)
    assert code == 2
    assert "at most 100 bytes in wide.csv, got more" in err
    monkeypatch.setattr("ndis.cli.audit._MOST_BYTES", 2**20)
    Path("long.csv").write_text("1\n" * (2**16 + 1))
    code, _, err = call(capsys, "audit", "samples", "long.csv", *words[3:])
    assert (code, "at most 65536 lines in long.csv, got 65537" in err) == (2, True)


def test_compressed_outputs_are_not_unpacked(capsys: pytest.CaptureFixture[str]) -> None:
    """Two megabytes of them took gigabytes."""
    Path("bomb.csv.gz").write_bytes(gzip.compress(b"1,1\n" * 2**20))
    words = ("audit", "samples", "bomb.csv.gz", "bomb.csv.gz", "--claim", "1,1e-3")
    code, _, err = call(capsys, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert "Expected text in bomb.csv.gz, got something else; unpack or convert it." in err


def test_a_strangers_release_with_parameters_of_another_size(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A billion nodes took gigabytes, to show and to audit."""
    Path("edges.csv").write_text("source,target\n0,1\n1,2\n")
    honest = PrivateGraph(nodes=4, epsilon=1.0, delta=1e-6, method="sketch", n_components=20)
    release = honest.fit(Path("edges.csv")).release_
    parameters = {**release.parameters, "nodes": 10**9}
    Release(release.arrays, release.guarantee, release.mechanism, parameters).save("r.npz")
    code, _, err = call(capsys, "audit", "r.npz", "edges.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert "Expected the arrays that the parameters of the release imply, got others" in err
    code, out, _ = call(capsys, "show", "r.npz")
    assert (code, "factor: 4 x 20 numbers" in out) == (0, True)
    with pytest.raises(ValueError, match="got others; get the file anew from its publisher"):
        PrivateGraph.from_release(Release.load("r.npz"))


def test_low_bits_that_decide_are_named_and_can_be_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Floating-point Laplace noise at the right scale (Mironov, 2012)."""
    rng = np.random.default_rng(0)
    for name, value in (("d", 1.0), ("e", 0.0)):
        np.savetxt(tmp_path / name, value + rng.laplace(0.0, 1.0, 1200), fmt="%.17g")
    words = ("audit", "samples", str(tmp_path / "d"), str(tmp_path / "e"), "--claim", "1,1e-6")
    code, out, _ = call(capsys, *words)
    assert (code, "by the low bits of its outputs" in out) == (ExitCode.CHECK_FAILED, True)
    assert call(capsys, *words, "--no-low-bits")[0] == ExitCode.DONE


CODE = """
import numpy as np

D, D_prime = [1.0, 1.0], [1.0]


def mechanism(data, rng):
    return sum(data) + SCALE * rng.standard_normal()


def alone(data):
    return np.random.default_rng().standard_normal(2) * SCALE + sum(data)


def words(data):
    return "yes"
"""


@pytest.mark.parametrize("name", ["mechanism", "alone"])
def test_a_function_in_a_file_is_run_on_two_neighbours(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for scale, code in (("0.2", ExitCode.CHECK_FAILED), ("9.0", ExitCode.DONE)):
        Path("code.py").write_text(CODE.replace("SCALE", scale))
        words = ("audit", f"code.py:{name}", "--claim", "1,1e-6", "--n-samples", "400")
        assert call(capsys, *words, "--no-low-bits")[0] == code
    Path("t.csv").write_text("a\n" + "0.5\n" * 20 + "1.5\n")
    Path("code.py").write_text(CODE.replace("SCALE", "0.2").replace("sum(data)", "np.sum(data)"))
    code, out, _ = call(capsys, "audit", f"code.py:{name}", "t.csv", "--claim", "1,1e-6")
    assert (code, "REFUTED" in out) == (ExitCode.CHECK_FAILED, True)


@pytest.mark.parametrize(
    ("words", "said"),
    {
        "code.py:mechanism": "Expected --claim, got none",
        "code.py:mechanism --claim 1": "write two numbers such as 1,1e-6",
        "code.py:mechanisms --claim 1,0": "did you mean mechanism?",
        "code.py:words --claim 1,0": "Expected a mechanism that returns numbers",
        "none.py:words --claim 1,0": "is not there; check the path",
        "bare.py:f --claim 1,0": "D and D_prime, in bare.py, got none; define them",
        "code.py:mechanism few.csv --claim 1,0": "at least two rows",
    }.items(),
)
def test_a_function_that_cannot_be_audited(
    capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    Path("code.py").write_text(CODE.replace("SCALE", "1.0"))
    Path("bare.py").write_text("def f(data):\n    return 1.0\n")
    Path("few.csv").write_text("a\n1\n")
    code, out, err = call(capsys, "audit", *words.split())
    assert (code, out, said in err) == (ExitCode.WRONG_CALL, "", True), err
