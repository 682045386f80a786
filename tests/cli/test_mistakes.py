"""Wrong calls: one sentence that names the remedy, the right exit code, nothing lost."""

import os
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import LIMITS, PROMISE, call
from ndis import GaussianMechanism, Ledger, PrivateCovariance, Release
from ndis.cli.console import ExitCode

GAUSSIAN = ("gaussian", "--sensitivity", "1", *PROMISE)
COVARIANCE = ("covariance", *LIMITS, *PROMISE)


@pytest.fixture(autouse=True)
def budget(folder: Path) -> None:
    Ledger.create("budget", 3.0, 1e-5, "add-remove").close()


def refused(capsys, *words: str, out: str = "r.npz") -> str:
    """What a release that is refused says; nothing is spent and nothing written."""
    before = {path.name for path in Path().iterdir()}
    code, printed, err = call(capsys, "release", *words, "--ledger", "budget", "--out", out)
    assert (code, printed) == (ExitCode.WRONG_CALL, ""), err
    told = [line for line in err.splitlines() if not line.startswith("ndis: columns read:")]
    assert len(told) == 1, err
    assert told[0].startswith("ndis: ")
    assert Ledger("budget").history() == []
    assert {path.name for path in Path().iterdir()} == before
    return told[0]


# -- text files ---------------------------------------------------------------------------------

TEXTS = {
    "a first person's row as header": (
        "1.5,2013-05-04\n1,2013-05-05\n",
        ("--no-header", "--names"),
    ),
    "names that nobody confirmed": ("a,b\n1,2\n", ("--header", "--columns")),
    "empty": ("", ("is empty",)),
    "ragged": ("a,b\n1,2\n3\n", ("Line 3", "--delimiter")),
    "decimal commas": ('a,b\n"1,5",2\n', ("'a'", "--decimal ,")),
    "other dates": ("a,b\n04.05.2013,2\n", ("'a'", "--dates NAME=%d.%m.%Y")),
    "amounts": ('a,b\n"6.171,34 EUR",2\n', ("'a'", "--units EUR", "--decimal ,")),
    "binary": ("a,b\n\0\0\0,1\n", ("binary",)),
    "semicolons": ("a;b\n1;2\n", ("--delimiter ';'",)),
    "mixed types": ("a,b\n" + "1,2\n" * 400_000 + "x,2\n", ("Line 400002", "text")),
    "gaps": ("a,b\n1,2\n,2\n", ("--drop-missing", "not private")),
    "infinities": ("a,b\n1,2\ninf,2\n", ("--drop-missing",)),
    "text": ("a,b\nx,2\ny,2\n", ("'a'", "--levels")),
}
CONFIRMED = {"a first person's row as header", "names that nobody confirmed"}


@pytest.mark.parametrize(("name", "text", "remedies"), [(k, *v) for k, v in TEXTS.items()])
def test_a_text_file_that_cannot_be_read(capsys, name: str, text: str, remedies) -> None:
    Path("t.csv").write_text(text)
    words = ("--data-norm", "2") if name in CONFIRMED else LIMITS
    told = refused(capsys, "covariance", "t.csv", *words, *PROMISE)
    assert all(remedy in told for remedy in remedies), told
    if name not in ("text", "names that nobody confirmed"):
        assert "2013" not in told  # nothing of a record


def test_another_encoding(capsys) -> None:
    Path("t.csv").write_bytes("a,b,stadt\n1,2,Köln\n".encode("latin-1"))
    words = ("covariance", "t.csv", *LIMITS, "--levels", "stadt=Köln,Bonn", *PROMISE)
    assert "--encoding latin-1" in refused(capsys, *words)
    code, _, err = call(capsys, "release", *words, "--encoding", "latin-1", "--out", "r.npz")
    assert code == ExitCode.DONE, err


@pytest.mark.parametrize(
    ("name", "text", "more"),
    [
        ("t.tsv", "a\tb\n1\t2\n", ()),
        ("t.csv", "a;b\n1;2\n", ("--delimiter", ";")),
        ("t.csv", "1,2\n3,4\n", ("--no-header", "--names", "a,b")),
        ("t.csv", "1,2\n3,4\n", ("--names", "a,b")),
        ("t.csv", ",a,b\n0,1,2\n1,3,4\n", ()),
        ("t.csv", "a,b\n1,2\n,4\n", ("--drop-missing",)),
    ],
)
def test_the_remedies_work(capsys, name: str, text: str, more: tuple[str, ...]) -> None:
    Path(name).write_text(text)
    words = ("covariance", name, *LIMITS, *PROMISE, "--out", "r.npz", *more)
    code, _, err = call(capsys, "release", *words)
    assert (code, err) == (ExitCode.DONE, "ndis: columns read: a, b\n")


def test_dates_are_numbers_of_days(capsys) -> None:
    Path("t.csv").write_text("a,day\n0.5,2013-05-04\n0.1,2014-01-01\n")
    limits = ("--limits", "a=0:1", "--limits", "day=2013-01-01:2014-12-31")
    words = ("covariance", "t.csv", *limits, *PROMISE, "--out", "r.npz")
    code, _, err = call(capsys, "release", *words)
    assert (code, err) == (ExitCode.DONE, "ndis: columns read: a, day\n")


def test_an_index_that_pandas_wrote_is_not_data(capsys) -> None:
    pytest.importorskip("pandas")
    import pandas as pd

    frame = pd.DataFrame({"a": [0.1, 0.2, 0.3], "b": [0.5, 0.6, 0.7]})
    frame.to_csv("t.csv")
    frame[frame.a > 0.1].to_parquet("t.parquet")
    for name, more in (("t.csv", ("--header",)), ("t.parquet", ())):
        words = ("covariance", name, "--data-norm", "2", *PROMISE, "--out", f"{name}.npz", *more)
        code, _, err = call(capsys, "release", *words)
        assert (code, err) == (ExitCode.DONE, "ndis: columns read: a, b\n")


def test_other_files_that_cannot_be_read(capsys) -> None:
    Path("t.parquet").write_bytes(b"PAR1 and nothing else")
    assert "t.parquet" in refused(capsys, "covariance", "t.parquet", *COVARIANCE[1:])
    Path("t.txt").write_text("a,b\n")
    assert "t.txt" in refused(capsys, "covariance", "t.txt", *COVARIANCE[1:])
    assert "nobody.csv" in refused(capsys, "covariance", "nobody.csv", *COVARIANCE[1:])


# -- releases -----------------------------------------------------------------------------------


def test_a_table_of_people_is_no_table_of_answers(capsys) -> None:
    told = refused(capsys, *GAUSSIAN, "part-1.parquet")
    assert "Expected --relation and --shape, got neither" in told
    words = (*GAUSSIAN, "part-1.parquet", "--relation", "add-remove", "--shape", "3,4")
    told = refused(capsys, *words)
    assert "a table of people does not belong here" in told
    assert "1500" not in told


@pytest.mark.parametrize("out", ["f.csv", "f"])
def test_a_release_is_an_npz_file(capsys, out: str) -> None:
    assert "ends in .npz" in refused(capsys, "covariance", "people.csv", *COVARIANCE[1:], out=out)


def test_a_saved_release_is_never_overwritten(capsys) -> None:
    release = GaussianMechanism(epsilon=1, delta=1e-6, sensitivity=1).release([1.0])
    release.save("x.npz")
    with pytest.raises(FileExistsError, match="choose another"):
        release.save("x.npz")
    told = refused(capsys, "covariance", "people.csv", *COVARIANCE[1:], out="x.npz")
    assert told == "ndis: Expected a new file, got x.npz, which exists; choose another."


def test_all_that_is_missing_at_once(capsys) -> None:
    code, _, err = call(capsys, "release", "regression", "people.csv")
    assert code == ExitCode.WRONG_CALL
    assert err == (
        "ndis: Expected --out, --epsilon or --target, --delta, --limits or --data-norm and "
        "--label or --formula, got none of them; see ndis release regression --help.\n"
    )


def test_a_label_that_is_not_read(capsys) -> None:
    words = ("regression", "people.csv", "--label", "y", "--columns", "a,b", *PROMISE)
    told = refused(capsys, *words, "--data-norm", "2", "--label-bound", "2")
    assert "Expected the label among --columns, got 'y'" in told


@pytest.mark.parametrize(
    ("word", "meant"),
    [("least-squares", "regression"), ("sketch", "projection"), ("gaussian-process", "process")],
)
def test_other_names(capsys, word: str, meant: str) -> None:
    code, _, err = call(capsys, "release", word)
    assert (code, err.endswith(f"did you mean {meant}?\n")) == (ExitCode.WRONG_CALL, True)


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--epsilon", "one", "a number"),
        ("--n-components", "2.5", "a whole number"),
        ("--limits", "a", "NAME=LOW:HIGH"),
        ("--limits", "a=5", "NAME=LOW:HIGH"),
        ("--limits", "a=x:y", "NAME=LOW:HIGH"),
    ],
)
def test_a_wrong_value_is_one_sentence(capsys, option: str, value: str, expected: str) -> None:
    told = refused(capsys, "projection", "people.csv", option, value)
    assert expected in told
    assert option in told
    assert value in told


def test_a_plan_a_relation_and_a_seed_are_named_as_options(capsys) -> None:
    told = refused(capsys, "covariance", "people.csv", *COVARIANCE[1:], "--seed", "1")
    assert "leave out --seed" in told
    told = refused(capsys, "graph", "edges.csv", "--nodes", "5", *PROMISE)
    assert told.endswith("got one for edge; pass another relation, or use another ledger.")
    Ledger.create("planned", 3.0, 1e-5, "add-remove", mode="plan").close()
    words = ("covariance", "people.csv", *COVARIANCE[1:], "--ledger", "planned", "--out", "r.npz")
    code, out, err = call(capsys, "release", *words)
    assert (code, out, Path("r.npz").exists()) == (ExitCode.WRONG_CALL, "", False)
    assert err.endswith("fill it with `ndis ledger plan` or `Ledger.plan`.\n")


def test_no_budget_left_has_its_own_code_and_comes_before_the_data(capsys) -> None:
    Path("t.parquet").write_bytes(Path("part-1.parquet").read_bytes())
    words = ("covariance", "t.parquet", *LIMITS, "--epsilon", "9", "--delta", "1e-6")
    code, out, err = call(capsys, "release", *words, "--ledger", "budget", "--out", "r.npz")
    assert (code, out) == (ExitCode.NO_BUDGET, "")
    assert "ask for less" in err
    assert not Path("r.npz").exists()


def test_what_belongs_to_another_command(capsys) -> None:
    GaussianMechanism(epsilon=1, delta=1e-6, sensitivity=1).release([1.0]).save("p2.npz")
    Path("certificate.json").write_text("{}")
    code, _, err = call(capsys, "audit", "p2.npz")
    assert (code, "Expected INPUT" in err) == (ExitCode.WRONG_CALL, True)
    code, _, err = call(capsys, "verify", "certificate.json")
    assert code == ExitCode.WRONG_CALL
    assert "a release file" in err


def test_a_ledger_where_none_can_be_made(capsys) -> None:
    words = ("ledger", "init", "nowhere/budget", *PROMISE, "--relation", "add-remove")
    code, _, err = call(capsys, *words)
    assert code == ExitCode.WRONG_CALL
    assert "release" not in err
    assert err.count("\n") == 1


# -- permissions --------------------------------------------------------------------------------


@contextmanager
def nobody() -> Iterator[None]:
    """As a user who is not root, whom no permission stops."""
    was = os.geteuid()
    os.seteuid(was or 65534)
    try:
        yield
    finally:
        os.seteuid(was)


def test_what_may_not_be_read_or_written(capsys) -> None:
    init = ("ledger", "init", "new", *PROMISE, "--relation", "add-remove")
    release = ("release", "covariance", "--header", *COVARIANCE[1:], "--out")
    with TemporaryDirectory(dir="/tmp") as name, chdir(name):
        Path().chmod(0o755)
        Path("open.csv").write_text("a,b\n1,2\n")
        Path("closed.csv").write_text("a,b\n1,2\n")
        for words in (init, (*release, "r.npz", "open.csv")):  # whose modules are then imported
            assert call(capsys, *words)[0] == ExitCode.DONE
        Path("closed.csv").chmod(0o000)
        Path("free").mkdir()
        Path("free").chmod(0o777)
        for path in ("new", "r.npz"):
            Path(path).unlink()
        unreadable = "File 'closed.csv' may not be read; change its permissions."
        nowhere = (
            f"Cannot create the ledger at {name}/new: Permission denied; choose another folder."
        )
        for words, told in (
            ((*release, "free/r.npz", "closed.csv"), unreadable),
            ((*release, "r.npz", "open.csv"), "Permission denied: r.npz; check the path."),
            (init, nowhere),
        ):
            with nobody():
                code, out, err = call(capsys, *words)
            assert (code, out) == (ExitCode.WRONG_CALL, "")
            assert err.splitlines()[-1] == f"ndis: {told}"
        left = sorted(str(path) for path in Path().rglob("*"))
        assert left == ["closed.csv", "free", "open.csv"]


# -- in Python ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"ledger": "x"}, "open it with Ledger"),
        ({"columns": "age"}, r"a list of names, got the string 'age'; pass \['age'\]"),
        ({"limits": [3]}, "pair"),
    ],
)
def test_wrong_parameters_are_one_sentence(parameters: dict, told: str) -> None:
    table = pa.table({"age": [1.0, 2.0]})
    given = {"epsilon": 1.0, "delta": 1e-6, "limits": {"age": (0, 90)}, **parameters}
    with pytest.raises((TypeError, ValueError), match=told) as error:
        PrivateCovariance(**given).fit(table)
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("default:With probability")
def test_a_large_delta_is_allowed_with_a_warning(capsys) -> None:
    table, limits = pa.table({"age": [1.0, 2.0]}), {"age": (0, 90)}
    with pytest.warns(UserWarning, match=r"probability 0\.5 .* for instance 1e-6"):
        PrivateCovariance(epsilon=1.0, delta=0.5, limits=limits).fit(table)
    words = ("covariance", "people.csv", *LIMITS, "--epsilon", "1", "--delta", "0.5")
    code, _, err = call(capsys, "release", *words, "--out", "r.npz")
    assert (code, err.count("\n")) == (ExitCode.DONE, 2)
    assert "ndis: With probability 0.5 this promise says nothing" in err
    with warnings.catch_warnings(action="error"):
        PrivateCovariance(epsilon=1.0, delta=1e-3, limits=limits).fit(table)


def test_a_column_of_gaps_in_python() -> None:
    table = pa.table({"age": [1.0, None]})
    with pytest.raises(ValueError, match="drop_missing=True"):
        PrivateCovariance(epsilon=1.0, delta=1e-6, limits={"age": (0, 90)}).fit(table)


def test_nothing_is_said_about_a_release_that_is_fine(capsys) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        words = ("covariance", "part-1.parquet", *COVARIANCE[1:], "--out", "r.npz")
        code, out, err = call(capsys, "release", *words)
    assert (code, err) == (ExitCode.DONE, "ndis: columns read: a, b\n")
    assert Release.load("r.npz").digest in out
    assert np.isfinite(Release.load("r.npz").arrays["matrix"]).all()
    assert pq.read_table("part-1.parquet").num_rows == 1500


@pytest.mark.parametrize(
    "words",
    [
        ("curve",),
        ("curve", "--shift", "-1"),
        ("curve", "--shift", "nan"),
        ("curve", "--leverage", "1.5"),
        ("curve", "--leverage", "0.5", "--n-components", "0"),
        ("curve", "--shift", "1", "--times", "0"),
        ("curve", "--shift", "1", "--plot", "no/such/folder/curve.png"),
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_one_sentence(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *words)
    assert (code, out) == (ExitCode.WRONG_CALL, "")
    assert err.startswith("ndis: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    {
        "curves": "Expected a command of ndis, got 'curves'; did you mean curve?",
        "moon": "Expected a command of ndis, got 'moon'; see ndis --help.",
        "release gausian": "Expected a command of ndis release, got 'gausian'; did you mean "
        "gaussian?",
        "release classification": "Expected a command of ndis release, got 'classification'; did "
        "you mean logistic?",
        "--wrong": "Expected an option of ndis, got --wrong; see ndis --help.",
        "--versoin": "Expected an option of ndis, got --versoin; did you mean --version?",
        "curve --shft 1": "Expected an option of ndis curve, got --shft; did you mean --shift?",
        "calibrate gaussian --sensitivty 1": "Expected an option of ndis calibrate gaussian, got "
        "--sensitivty; did you mean --sensitivity?",
        "audit pca x.csv --data_norm 2": "Expected an option of ndis audit pca, got --data_norm; "
        "did you mean --data-norm?",
        "curve --shift": "Expected a value after --shift, got none; write one.",
        "verify": "Expected RELEASE, got none; see ndis verify --help.",
        "ledger init b --delta 1e-6": "Expected --epsilon and --relation, got neither; see ndis "
        "ledger init --help.",
        "audit pair laws.json": "Expected --claim, got none; see ndis audit pair --help.",
        "curve --shift one": "Expected a number for --shift, got 'one'; correct it.",
        "curve --n-components=2.5": "Expected a whole number for --n-components, got '2.5'; "
        "correct it.",
        "calibrate gaussian --epsilon one": "Expected a number for --epsilon, got 'one'; correct "
        "it.",
    }.items(),
)
def test_a_misspelt_call_is_one_sentence_with_the_nearest_word(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, *words.split()) == (ExitCode.WRONG_CALL, "", f"ndis: {told}\n")


def test_too_many_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "curve", "more")
    assert (code, out, err.count("\n")) == (ExitCode.WRONG_CALL, "", 1)
    assert err.startswith("ndis: Expected options only after ndis curve, which reads no file, got ")
    code, out, err = call(capsys, "show", "a.npz", "b.npz")
    assert (code, out, err.count("\n")) == (ExitCode.WRONG_CALL, "", 1)
    assert "Expected RELEASE after ndis show and nothing more, got 'b.npz' as well" in err


# -- what new users typed (../shared/wrong_calls.md, third part) ---------------------------------

REGRESSION = ("regression", "t.csv", "--label", "pay", *PROMISE)
TYPED = {
    "years for dates": (
        (*REGRESSION, "--limits", "hired=2015:2024", "--limits", "pay=0:8000"),
        "write them as dates, such as 2015-01-01",
    ),
    "dates with points": (
        (*REGRESSION, "--limits", "hired=01.01.2015:31.12.2024", "--limits", "pay=0:8000"),
        "dates such as 2015-01-31, got '01.01.2015'",
    ),
    "two columns in one option": (
        (*REGRESSION, "--limits", "age=18:80,pay=0:8000"),
        "one column at a time, got 'age=18:80,pay=0:8000'; repeat the option",
    ),
    "one of two that is wrong": (
        (*REGRESSION, "--limits", "age=18-80", "--limits", "pay=0:8000"),
        "NAME=LOW:HIGH or NAME=private, got 'age=18-80'",
    ),
    "limits and levels": (
        (*REGRESSION, "--limits", "age=18:80", "--limits", "pay=0:9", "--levels", "age=20,30"),
        "limits or levels of 'age', got both",
    ),
    "another case": (
        ("regression", "t.csv", "--label", "Pay", *PROMISE, "--limits", "Pay=0:8000"),
        "did you mean 'pay'?",
    ),
    "a label of text": (
        ("regression", "t.csv", "--label", "sector", *PROMISE, "--limits", "age=18:80"),
        "for a label that is text use a logistic regression",
    ),
    "a number as class": (
        (
            "logistic",
            "t.csv",
            "--label",
            "pay",
            "--classes",
            "0,1",
            "--limits",
            "age=1:8",
            *PROMISE,
        ),
        "use a regression where labels are continuous",
    ),
    "a file first": (("t.csv",), "say what to do with it, as in ndis release regression t.csv"),
}


@pytest.mark.parametrize("case", TYPED)
def test_what_new_users_typed(capsys, case: str) -> None:
    Path("t.csv").write_text("age,hired,sector,pay\n" + "30,2016-05-01,public,3462.25\n" * 20)
    words, wanted = TYPED[case]
    told = refused(capsys, *words)
    assert wanted in told
    assert "3462" not in told


def test_a_column_whose_name_has_signs(capsys) -> None:
    Path("odd.csv").write_text("a=b,c:d\n" + "1,2\n" * 20)
    words = ("release", "covariance", "odd.csv", "--limits", "a=b=0:3", "--limits", "c:d=0:3")
    code, _, err = call(capsys, *words, *PROMISE, "--out", "odd.npz")
    assert (code, "a=b, c:d" in err) == (ExitCode.DONE, True)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("regression",), "did you mean ndis release regression?"),
        (("forecast", "--n-rows", "1000"), "as in ndis forecast regression --n-rows"),
        (("explore", "--epsilon", "1"), "as in ndis explore regression --epsilon"),
        (
            ("forecast", "regression", "--limits", "a=0:1", *PROMISE, "--n-rows", "9"),
            "Expected --label, got none",
        ),
        (("risk",), "a release or a ledger, or --epsilon and --delta"),
        (("risk", "budget", "--epsilon", "1", "--delta", "1e-6"), "got neither or more"),
        (("risk", "--epsilon", "1"), "got neither or more"),
        (("risk", "people.csv"), "which is not a ledger"),
        (("check", "latin.csv"), "such as --encoding latin-1"),
        (("check", "broken.xlsx"), "not of the format its name says"),
        (("check", "long.csv"), "a line of more than a million letters"),
    ],
)
def test_what_new_users_typed_elsewhere(capsys, words: tuple[str, ...], wanted: str) -> None:
    Path("latin.csv").write_bytes("ward,cost\nCardiologié,1\n".encode("latin-1"))
    Path("broken.xlsx").write_bytes(b"PK\x03\x04nonsense")
    Path("long.csv").write_text("a,b\n" + "1" * 3_000_000 + ",2\n")
    code, out, err = call(capsys, *words)
    assert (code, out) == (ExitCode.WRONG_CALL, "")
    assert wanted in err
    assert "Cardiologi" not in err


def test_one_form_at_a_time(capsys) -> None:
    release = GaussianMechanism(epsilon=1, delta=1e-6, sensitivity=1, random_state=0).release(1.0)
    release.save("g.npz")
    code, out, err = call(capsys, "show", "g.npz", "--csv", "--json")
    assert (code, out) == (ExitCode.WRONG_CALL, "")
    assert "Expected one form of the answer, got --csv and --json" in err


def test_a_release_that_is_no_sketch(capsys) -> None:
    release = GaussianMechanism(epsilon=1, delta=1e-6, sensitivity=1, random_state=0).release(1.0)
    release.save("g.npz")
    _, _, err = call(capsys, "sketch", "gram", "g.npz")
    assert "`ndis show` shows what it says" in err
