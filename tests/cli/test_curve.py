"""``ndis curve``."""

import json
import math
from pathlib import Path

import pytest

from commands import ANSWERS, PROMISE, call
from ndis.cli.console import ExitCode


def test_curve_of_a_mean_shift(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "curve", "--shift", "2", "--epsilon", "1", "--json")
    answer = json.loads(out)
    upper, lower = (0.5 * math.erfc(-t / math.sqrt(2)) for t in (2 / 2 - 1 / 2, -2 / 2 - 1 / 2))
    assert code == ExitCode.DONE
    assert answer["epsilon"] == [1.0]
    assert answer["delta"] == pytest.approx([upper - math.e * lower], rel=1e-12)
    assert answer["log_delta"] == pytest.approx([math.log(upper - math.e * lower)], rel=1e-12)


def test_curve_composes_what_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    composed = call(capsys, "curve", "--shift", "0.6", "--shift", "0.8", "--times", "4", "--json")
    single = call(capsys, "curve", "--shift", "2", "--json")
    assert json.loads(composed[1])["delta"] == pytest.approx(json.loads(single[1])["delta"], 1e-12)


def test_curve_takes_the_hard_direction_of_a_sketch(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(
        capsys, "curve", "--leverage", "0.1", "--n-components", "2", "--epsilon", "1", "--json"
    )
    # With two components the chi-square survival function is exp(-x/2).
    x = (2 - 2 * math.log1p(-0.1)) / 0.1
    expected = math.exp(-0.9 * x / 2) - math.e * math.exp(-x / 2)
    assert json.loads(out)["delta"] == pytest.approx([expected], rel=1e-12)


def test_curve_prints_a_row_for_each_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "curve", "--shift", "1", "--epsilon", "0.5", "--epsilon", "7")
    assert (code, err) == (ExitCode.DONE, "")
    assert [row.split()[0] for row in out.splitlines()[-3:] if row.split()] == ["0.5", "7"]


def test_curve_draws_a_curve_with_marks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single epsilon gave an empty plot: a line through one point."""
    from ndis import plots

    drawn = []
    curve = plots.curve
    monkeypatch.setattr(plots, "curve", lambda *a, **k: drawn.append(curve(*a, **k)) or drawn[-1])
    picture = tmp_path / "curve.png"
    words = ("--shift", "1", "--epsilon", "1", "--plot", str(picture))
    assert call(capsys, "curve", *words)[0] == ExitCode.DONE
    assert picture.read_bytes().startswith(b"\x89PNG")
    line, mark = drawn[0].axes[0].get_lines()
    assert len(line.get_xdata()) > 100
    assert list(mark.get_xdata()) == [1.0]


def test_curve_of_two_laws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    law = {"mean": [0.0], "cov": [[1.0]]}
    path = tmp_path / "pair.json"
    path.write_text(json.dumps({"P": law, "Q": {"mean": [2.0], "cov": [[1.0]]}}))
    _, shift, _ = call(capsys, "curve", "--shift", "2", "--json")
    code, pair, _ = call(capsys, "curve", "--pair", str(path), "--json")
    assert code == ExitCode.DONE
    assert json.loads(pair)["delta"] == pytest.approx(json.loads(shift)["delta"], rel=1e-9)


WIDE = {"mean": [0.0] * 501, "cov": [[1.0]]}
REFUSED = {"{}": "give both laws", "[" * 10**5: "give both laws", "1": "give both laws"}
REFUSED[json.dumps({"P": WIDE, "Q": WIDE})] = "Expected laws of at most 500 dimensions in pair.json"
REFUSED["long"] = "Expected at most 4194304 bytes in pair.json, got more"


@pytest.mark.parametrize("command", ["curve --pair", "audit pair --claim 1,.1"])
@pytest.mark.parametrize("text", REFUSED, ids=[key[:6] for key in REFUSED])
def test_laws_in_a_strangers_file(command: str, text: str, capsys, folder: Path) -> None:
    with Path("pair.json").open("w", encoding="ascii") as file:
        file.write(text)
        file.truncate(2**33 if text == "long" else None)
    code, _, err = call(capsys, *command.split(), "pair.json")
    assert (code, err.count("\n")) == (ExitCode.WRONG_CALL, 1)
    assert REFUSED[text] in err


@pytest.mark.parametrize("name", ["x.xyz", "nowhere/x.png"])
def test_a_picture_that_cannot_be_drawn_costs_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "o.npz"
    table.write_text("a\n1\n")
    words = ("gaussian", str(table), *PROMISE, *ANSWERS, "--out", str(out))
    code, _, err = call(capsys, "release", *words, "--plot", str(tmp_path / name))
    assert (code, err.count("\n")) == (ExitCode.WRONG_CALL, 1)
    assert not out.exists()
