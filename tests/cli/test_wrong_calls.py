"""240 wrong calls: one sentence each, exit code 2, no value of the data, nothing written."""

import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import call
from ndis import GaussianMechanism, Ledger
from ndis.cli.console import ExitCode

# Values that the files hold, and no message may.
SECRETS = re.compile(r"3462|Pédiatrie|P.diatrie|6\.171|ZX-4711")
KINDS = ["summary", "regression", "logistic", "poisson", "process", "covariance", "pca"]
KINDS += ["projection", "limits"]
PROMISE = "--epsilon 1 --delta 1e-6"
KNOWN = "--limits age=18:80 --limits pay=0:8000"
REGRESSION = f"release regression t.csv --label pay {KNOWN} --out new.npz"
SUMMARY = f"release summary t.csv --by sector --levels sector=a,b --limits pay=0:8 {PROMISE}"
GAUSSIAN = f"release gaussian answers.csv --sensitivity 1 --relation add-remove --shape 3 {PROMISE}"


def _each(words: str, *values: str) -> list[str]:
    return [words.replace("@", value) for value in values]


CALLS = [
    # -- commands that are not there, near ones, and files for commands
    *_each(
        "@",
        *("regression people.csv", "releese", "relase", "logistic", "summary", "mean", "average"),
        *("histogram", "median", "group-by", "describe", "sum", "count", "people.csv", "t.csv"),
        *("budget", "init", "spend", "fit", "help", "version", "sketch moon", "graph moon"),
        *("covariance moon", "ledger moon", "party moon", "audit moon", "forecast moon"),
        *("calibrate moon", "explore moon", "release moon", "release t.csv", "forecast t.csv"),
        *("calibrate t.csv", "explore t.csv", "audit t.csv", "release mean", "release average"),
        *(
            "release count",
            "release ols",
            "release glm",
            "release classification",
            "release sketch",
        ),
        *(
            "release median",
            "release REGRESSION",
            "Release",
            "verfy a.npz",
            "shw a.npz",
            "chek t.csv",
        ),
    ),
    # -- options before the command, unknown ones, and near ones
    *_each(
        "@",
        *(
            "forecast --n-rows 1000",
            "explore --epsilon 1",
            "calibrate --delta 1e-6",
            "release --out a",
        ),
        *(
            "audit --epsilon 1",
            "--epsilon 1",
            "--verison",
            "-x",
            "curve --shfit 1",
            "curve --eps 1",
        ),
        *("check t.csv --limit age=1:2", "check t.csv --seperator ;", "show --cvs a.npz"),
        *(
            "risk --eps 1 --delta 1e-6",
            "ledger init b --eps 1",
            "demo --folder x",
            "verify --led b",
        ),
    ),
    *_each(
        f"{REGRESSION} @",
        "--eps 1",
        "--epsilon-1",
        f"{PROMISE} --labels pay",
        f"{PROMISE} --lim a=1:2",
    ),
    # -- what is missing
    *_each(
        "@",
        *("verify", "show", "check", "ledger init", "ledger show", "ledger plan", "ledger history"),
        *(
            "risk",
            "risk --epsilon 1",
            "risk --delta 1e-6",
            "audit samples",
            "audit pair",
            "curve --shift",
        ),
        *("sketch gram", "sketch regress", "sketch distances", "sketch components", "graph cut"),
        *(
            "graph resistance",
            "graph spectrum",
            "covariance variance",
            "party init",
            "party release",
        ),
        *("audit samples outputs.csv", "audit samples outputs.csv outputs.csv", "party combine"),
        *("ledger init b --epsilon 1", "ledger init b --epsilon 1 --delta 1e-6", "party train"),
    ),
    *_each("release @", *KINDS, "graph", "gaussian", "noise", "matrix"),
    *_each("release @ t.csv", *KINDS),
    *_each(f"release @ t.csv {PROMISE}", *KINDS),
    *_each(f"forecast @ {PROMISE}", "regression", "logistic", "poisson", "summary", "projection"),
    *_each("calibrate @", *KINDS, "graph", "gaussian", "noise", "matrix"),
    f"release regression t.csv {KNOWN} {PROMISE} --out new.npz",
    f"forecast regression --limits age=18:80 {PROMISE} --n-rows 9",
    # -- numbers that are none, or outside their range
    *_each(
        f"{REGRESSION} @",
        *(
            "--epsilon one --delta 1e-6",
            "--epsilon -1 --delta 1e-6",
            "--epsilon nan --delta 1e-6",
        ),
        *("--epsilon inf --delta 1e-6", "--epsilon 1 --delta 2"),
        *("--epsilon 1 --delta -1", "--epsilon 1 --delta 1", "--epsilon 1 --delta nan"),
        *("--epsilon 1,5 --delta 1e-6", "--epsilon 1 --delta 1e-6,", "--epsilon '' --delta 1e-6"),
        *(f"{PROMISE} --max-rows 0", f"{PROMISE} --max-rows 2.5", f"{PROMISE} --rows-per-person 0"),
        *(f"{PROMISE} --seed x", f"{PROMISE} --method moon", f"{PROMISE} --relation moon"),
        *(
            f"{PROMISE} --target risk=1",
            f"{PROMISE} --target advantage=2",
            f"{PROMISE} --plot a.txt",
        ),
        *(f"{PROMISE} --plot no/a.png", f"{PROMISE} --config no.yaml", f"{PROMISE} --ledger no"),
        *(f"{PROMISE} --ledger t.csv", f"{PROMISE} --person nobody", f"{PROMISE} --sign no.pem"),
        *(f"{PROMISE} --delimiter ;", f"{PROMISE} --encoding klingon", f"{PROMISE} --decimal ;"),
    ),
    *_each(
        "@",
        *("curve --shift x", "curve --shift -1", "curve --leverage 2 --n-components 3", "curve"),
        *("curve --shift 1 --epsilon x", "curve --n-components 2.5"),
        *(
            "risk --epsilon -1 --delta 1e-6",
            "risk --epsilon 1 --delta 2",
            "risk --epsilon x --delta 1",
        ),
        *(
            "ledger init b --epsilon -1 --delta 1e-6 --relation add-remove",
            "risk t.csv",
            "risk no.npz",
        ),
        *("ledger init b --epsilon 1 --delta 5 --relation add-remove", "ledger show t.csv"),
        *(
            "ledger init b --epsilon 1 --delta 1e-6 --relation moon",
            "ledger show no",
            "ledger verify no",
        ),
        *(
            "ledger init budget --epsilon 1 --delta 1e-6 --relation add-remove",
            "ledger plan budget x",
        ),
        *(
            "ledger init t.csv --epsilon 1 --delta 1e-6 --relation add-remove",
            "ledger history t.csv",
        ),
        f"calibrate gaussian --sensitivity -1 --shape 3 {PROMISE}",
        f"calibrate gaussian --sensitivity one --shape 3 {PROMISE}",
        f"calibrate gaussian --sensitivity 1 --shape x {PROMISE}",
        f"forecast regression --label pay {KNOWN} {PROMISE} --n-rows -1",
        f"forecast regression --label pay {KNOWN} {PROMISE} --n-rows many",
        f"forecast regression --label Pay {KNOWN} {PROMISE} --n-rows 1000",
    ),
    # -- limits and levels
    *_each(
        f"release regression t.csv --label pay {PROMISE} --out new.npz --limits pay=0:8000 @",
        *(
            "--limits age=80:18",
            "--limits age=18-80",
            "--limits age=18,80",
            "--limits age=18",
            "--limits age",
        ),
        *(
            "--limits 18:80",
            "--limits age=18:80,pay=0:1",
            "--limits age=nan:1",
            "--limits age=0:inf",
        ),
        *("--limits hired=2015:2024", "--limits hired=01.01.2015:31.12.2024", "--limits age=5:5"),
        *("--limits hired=2015-13-01:2016-01-01", "--limits Age=18:80", "--limits ages=18:80"),
        *("--limits sector=0:1", "--levels sector", "--levels =a", "--levels Sector=private"),
        *("--levels pay=1,2", "--levels sector=private,private", "--levels sectr=private"),
        *("--limits age=18:80 --levels age=20,30", "--limits age=1:2 --limits age=3:4"),
        *(
            "--dates hired=%Q",
            "--dates hired",
            "--columns age,nobody",
            "--columns Age",
            "--columns ''",
        ),
        *(
            "--limits amount=0:9000",
            "--limits id=0:1",
            "--formula pay~",
            "--limits age=18:80 --units EUR,",
        ),
    ),
    f"release regression t.csv --label Pay {PROMISE} --limits Pay=0:9 --out new.npz",
    f"release regression t.csv --label nobody {PROMISE} --limits age=18:80 --out new.npz",
    f"release regression t.csv --label sector {PROMISE} --limits age=18:80 --out new.npz",
    f"release logistic t.csv --label pay --classes 0,1 --limits age=18:80 {PROMISE} --out new.npz",
    f"release logistic t.csv --label sick --classes 0 --limits age=18:80 {PROMISE} --out new.npz",
    f"release logistic t.csv --label sick --classes 0,0 --limits age=18:80 {PROMISE} --out new.npz",
    f"release logistic t.csv --label sick --limits age=18:80 {PROMISE} --out new.npz",
    f"release poisson t.csv --label sick --limits age=18:80 {PROMISE} --out new.npz",
    *_each(
        f"{SUMMARY} --out new.npz @",
        *(
            "--quantiles 2",
            "--quantiles x",
            "--by nobody",
            "--by Sector",
        ),
    ),
    # -- files that are not there, not tables, or in the way
    *_each(
        f"release regression @ --label pay {KNOWN} {PROMISE} --out new.npz",
        *("no.csv", "no.parquet", "empty.csv", "broken.xlsx", "long.csv", "quote.csv"),
        *(
            "fake.parquet",
            "note.txt",
            "folder",
            "'no*.csv'",
            "budget",
            "g.npz",
            "ragged.csv",
        ),
    ),
    *_each(
        "check @",
        *(
            "no.csv",
            "empty.csv",
            "latin.csv",
            "broken.xlsx",
            "long.csv",
            "quote.csv",
            "fake.parquet",
        ),
        *(
            "folder",
            "g.npz",
            "t.csv --label nobody",
            "t.csv --encoding klingon",
            "t.csv --delimiter ''",
        ),
    ),
    f"{REGRESSION.replace('new.npz', 'g.npz')} {PROMISE}",
    f"{REGRESSION.replace('new.npz', 'no/new.npz')} {PROMISE}",
    f"{REGRESSION.replace('new.npz', 'new.csv')} {PROMISE}",
    f"{REGRESSION.replace('new.npz', 'folder')} {PROMISE}",
    *_each(
        "@",
        *(
            "show no.npz",
            "show t.csv",
            "show g.npz --csv --json",
            "show g.npz extra",
            "show budget",
        ),
        *(
            "verify no.npz",
            "verify t.csv",
            "verify g.npz --ledger no",
            "verify budget",
            "show broken.npz",
        ),
        *("sketch gram g.npz", "sketch regress g.npz --label a", "graph cut g.npz --sets a"),
        *(
            "covariance variance g.npz",
            "sketch gram t.csv",
            "graph spectrum t.csv",
            "verify broken.npz",
        ),
        *(
            "audit samples t.csv t.csv --claim 1,1e-6",
            "audit pair t.csv --claim 1,0.1",
        ),
        *(
            "audit samples few.csv few.csv --claim 1,1e-6",
            "audit no.npz t.csv",
            "audit g.npz t.csv",
        ),
        *(
            "audit samples no.csv no.csv --claim 1,1e-6",
            "audit broken.npz t.csv",
            "party show t.csv",
        ),
        *(
            "party init no.yaml",
            "party release no.json t.csv",
            "curve --config no.yaml",
            "curve more",
        ),
    ),
    # -- a word too many, a claim, a function, a number of releases
    *_each(
        "@",
        *("forecast regression t.csv", "calibrate gaussian t.csv", "explore regression t.csv"),
        *("show g.npz g.npz", "ledger show budget budget", "verify g.npz t.csv"),
        *("audit samples t.csv t.csv --claim 1", "audit samples t.csv t.csv --claim one,two"),
        *("audit pair t.csv --claim 1;0.1", "audit code.py:f", "audit code.py:f --claim 1,1e-6"),
        *("audit no.py:f --claim 1,1e-6", "audit samples quote.csv quote.csv --claim 1,1e-6"),
        *("ledger plan budget 0", "ledger plan budget 1.5", "ledger plan no 12"),
        "verify t.csv --nist",
    ),
    f"release regression t.csv --label nobody {KNOWN} {PROMISE} --out new.npz",
    f"release covariance open.csv {KNOWN} {PROMISE} --out new.npz",
    *_each("check @", "open.csv", "wide.csv", "wide.parquet"),
    # -- answers, graphs
    *_each(
        f"{GAUSSIAN} --out new.npz @".replace("--shape 3", "").replace("--sensitivity 1", ""),
        *("--sensitivity 1 --shape 2", "--sensitivity 0 --shape 3", "--sensitivity -1 --shape 3"),
        *("--sensitivity x --shape 3", "--shape 3", "--sensitivity 1", "--sensitivity 1 --shape 0"),
    ),
    f"release gaussian t.csv {PROMISE} --sensitivity 1 --relation add-remove --shape 3 --out n.npz",
    f"release graph t.csv --nodes 5 {PROMISE} --out new.npz",
    f"release graph edges.csv --nodes 0 {PROMISE} --out new.npz",
    f"release graph edges.csv {PROMISE} --out new.npz",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, and with what people take for one."""
    folder = tmp_path_factory.mktemp("wrong")
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.integers(18, 80)},2016-05-0{1 + i % 9},{('public', 'private', 'Pédiatrie')[i % 3]},"
        f'3462.25,{i % 2},"6.171,34 EUR",ZX-4711-{i}'
        for i in range(60)
    ]
    header = "age,hired,sector,pay,sick,amount,id"
    (folder / "t.csv").write_text("\n".join([header, *rows]) + "\n")
    (folder / "header.csv").write_text(header + "\n")
    (folder / "empty.csv").write_text("")
    (folder / "note.txt").write_text("Dear all, 3462.25 is my pay.\n")
    (folder / "latin.csv").write_bytes("sector,pay,age\nPédiatrie,3462.25,3\n".encode("latin-1"))
    (folder / "quote.csv").write_text('sector,pay,age\n"Pédiatrie,3462.25,30\n' * 3)
    (folder / "open.csv").write_text('sector,pay,age\nb,1,2\n"Pédiatrie,3462.25,30\nb,1,2\n')
    (folder / "code.py").write_text("def f(data):\n    return 3462.25\n")
    (folder / "ragged.csv").write_text("age,pay\n1,2\n3462.25\n1,2,3\n")
    names = [f"c{k}" for k in range(200_000)]  # more than anybody reads, or a terminal prints
    (folder / "wide.csv").write_text(",".join(names) + "\n" + "1," * 199_999 + "1\n")
    pq.write_table(pa.table(dict.fromkeys(names[:20_000], pa.array([1]))), folder / "wide.parquet")
    (folder / "long.csv").write_text("age,pay\n" + "1" * 3_000_000 + ",2\n")
    (folder / "broken.xlsx").write_bytes(b"PK\x03\x04nonsense")
    (folder / "broken.npz").write_bytes(b"PK\x03\x04nonsense")
    (folder / "fake.parquet").write_text("age,pay\n1,3462.25\n")
    (folder / "answers.csv").write_text("10\n20\n30\n")
    (folder / "edges.csv").write_text("source,target\n0,1\n")
    (folder / "few.csv").write_text("1\n2\n")
    (folder / "outputs.csv").write_text("1\n" * 300)
    (folder / "folder").mkdir()
    GaussianMechanism(epsilon=1, delta=1e-6, sensitivity=1, random_state=0).release(1.0).save(
        folder / "g.npz"
    )
    Ledger.create(folder / "budget", 2, 1e-5, "add-remove").close()
    return folder


def test_there_are_enough_of_them() -> None:
    assert len(set(CALLS)) == len(CALLS) >= 240


@pytest.mark.parametrize("words", CALLS, ids=range(len(CALLS)))
def test_a_wrong_call(
    words: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    before = {path: path.stat().st_size for path in place.rglob("*")}
    code, out, err = call(capsys, *shlex.split(words))
    after = {path: path.stat().st_size for path in place.rglob("*")}
    for path in place.glob("n*.npz"):
        path.unlink()  # so that no later call is refused because of an earlier one
    assert (code, out) == (ExitCode.WRONG_CALL, ""), err
    *notes, sentence = err.splitlines()
    assert all(re.match(r"ndis: (columns read|the promise will be for one row)", n) for n in notes)
    assert re.match(r"ndis: \S.{25,}[.?]$", sentence), err
    assert not re.search(r"Traceback|Error\b|object has no|0x[0-9a-f]{6}", err)
    assert not SECRETS.search(err)
    assert {path.name for path in after.keys() ^ before.keys()} <= {"budget-wal", "budget-shm"}
    assert all(
        after[path] == size for path, size in before.items() if path.name in {"t.csv", "g.npz"}
    )
