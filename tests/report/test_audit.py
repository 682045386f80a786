"""The report of an audit, and the command that writes it; seen by a real browser."""

import json
import re
import subprocess
from html import escape
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ndis import Gaussian, PrivateProjection, audit, audit_pair, audit_samples
from ndis.cli import main
from ndis.cli.program import app
from ndis.report import write_audit
from requires import require_chromium

LONG = "a_name_that_is_much_longer_than_any_phone_is_wide_and_has_no_space"
SKETCH = ["--epsilon", "1", "--delta", "1e-6", "--data-norm", "1", "--n-components", "20"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "table.csv"
    rows = np.random.default_rng(0).uniform(-0.4, 0.4, (20, 3))
    rows[7] = [0.9, 0.1234, 0.1]
    header = f"<script>alert(1)</script>,income,{LONG}"
    np.savetxt(path, rows, delimiter=",", header=header, comments="")
    return path


@pytest.fixture(scope="module")
def page(table: Path) -> Path:
    out = table.parent / "out.html"
    words = [
        "audit",
        "projection",
        str(table),
        *SKETCH,
        "--noise-scale",
        "2",
        "--owner-report",
        str(out),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert result.stdout.startswith("REFUTED: the claim of (1, 1e-06)")
    return out


@pytest.mark.slow
def test_the_page_says_all_and_names_nobody(page: Path) -> None:
    text = page.read_text()
    assert "REFUTED" in text
    assert "For the owner of the data only" in text
    for heading in ("What was searched", "What was not searched", "How to reproduce", "claim"):
        assert heading in text
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "0.1234" not in text
    assert re.findall(r'(?:src|href)="(?!data:)', text) == []
    assert "http" not in text


@pytest.mark.slow
def test_rows_are_shown_only_when_asked(table: Path) -> None:
    out = table.parent / "rows.html"
    words = [
        "audit",
        "projection",
        str(table),
        *SKETCH,
        "--noise-scale",
        "2",
        "--owner-report",
        str(out),
    ]
    CliRunner().invoke(app, [*words, "--show-rows"])
    text = out.read_text()
    assert "income=0.1234" in text
    assert "owner" not in text.split("The worst neighbours")[1].split("</section>")[0]


@pytest.mark.slow
def test_a_page_to_share_is_the_same_for_neighbours(table: Path) -> None:
    """Also where one row decides what is found."""
    lines = table.read_text().splitlines()
    pages = []
    for number, kept in enumerate((lines, lines[:8] + lines[9:])):
        (table.parent / f"{number}").mkdir()
        (table.parent / f"{number}" / "table.csv").write_text("\n".join(kept))
        out = table.parent / f"{number}" / "page.html"
        words = [*SKETCH, "--noise-scale", "4", "--report", str(out)]
        CliRunner().invoke(
            app, ["audit", "projection", str(table.parent / f"{number}" / "table.csv"), *words]
        )
        pages.append(out.read_bytes())
    assert pages[0] == pages[1]
    text = pages[0].decode()
    assert "This page may be shared" in text
    for secret in ("income", "removals", "table.csv"):
        assert secret not in text


@pytest.mark.slow
def test_what_was_found_on_a_table_is_not_written_for_anybody(tmp_path: Path) -> None:
    model = PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=1.0, n_components=5)
    verdict = audit(model, np.eye(3))
    with pytest.raises(ValueError, match="audience"):
        write_audit(verdict, tmp_path / "page.html", subject="a table")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_sound_noise_is_consistent(table: Path) -> None:
    result = CliRunner().invoke(app, ["audit", "projection", str(table), *SKETCH, "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["outcome"] == "consistent"


def test_a_covariance_with_too_little_noise_is_refuted(table: Path) -> None:
    words = ["--method", "sketch", "--noise-scale", "sketch=1", "--noise-scale", "count=9"]
    words += ["--no-center"]
    result = CliRunner().invoke(app, ["audit", "covariance", str(table), *SKETCH, *words])
    assert result.exit_code == 1


@pytest.mark.slow
def test_a_report_that_cannot_be_drawn_costs_no_verdict(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ImportError("Expected matplotlib; run: pip install 'ndis[plots]'.")

    monkeypatch.setattr("ndis.report.write_audit", missing)
    words = ["--noise-scale", "2", "--report", str(table.parent / "none.html")]
    with pytest.raises(SystemExit) as left:
        main(["audit", "projection", str(table), *SKETCH, *words])
    said = capsys.readouterr()
    assert left.value.code == 1
    assert said.out.startswith("REFUTED")
    assert "pip install" in said.err


NORM = ["--data-norm", "1", "--n-components", "20"]
WRONG = {
    "no components": (["--data-norm", "1"], "Expected --n-components, got none"),
    "no number": ([*NORM, "--noise-scale", "much"], "NAME=NUMBER for each part"),
    "rows without a page": ([*NORM, "--show-rows"], "Expected --owner-report"),
    "no folder": ([*NORM, "--report", "/none/x.html"], "a folder for the page"),
}


@pytest.mark.parametrize(("words", "told"), WRONG.values(), ids=WRONG)
def test_wrong_calls_are_told_before_any_search(
    table: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["audit", "projection", str(table), "--epsilon", "1", "--delta", "1e-6", *words])
    assert left.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert told in said.err
    assert said.err.count("\n") == 1


CLAIM, PLAN = ["--claim", "1,0.1"], [*NORM, "--epsilon", "1", "--delta", "0.1"]


@pytest.mark.parametrize(
    ("kind", "name", "content", "words", "told"),
    [
        ("pair", "a.json", "not json", CLAIM, "got something else"),
        ("pair", "none.json", None, CLAIM, "No such file"),
        ("projection", "none.csv", None, PLAN, "is not there"),
        ("projection", "a.csv", "x,y\n", PLAN, "no rows"),
        ("samples", "a.csv", "1,2\n", ["none.csv", *CLAIM], "No such file"),
    ],
)
def test_wrong_files_are_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    name: str,
    content: str | None,
    words: list[str],
    told: str,
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SystemExit) as left:
        main(["audit", kind, str(tmp_path / name), *words])
    assert left.value.code == 2
    assert told in capsys.readouterr().err


def test_a_pair_from_json(tmp_path: Path) -> None:
    path = tmp_path / "pair.json"
    law = {"mean": [0.0], "cov": [[1.0]]}
    path.write_text(json.dumps({"P": law, "Q": {"mean": [1.0], "cov": [[1.0]]}}))
    assert CliRunner().invoke(app, ["audit", "pair", str(path), "--claim", "1,0.1"]).exit_code == 1
    assert CliRunner().invoke(app, ["audit", "pair", str(path), "--claim", "1,0.2"]).exit_code == 0
    path.write_text(json.dumps({"P": law}))
    result = CliRunner().invoke(app, ["audit", "pair", str(path), "--claim", "1,0.1"])
    assert isinstance(result.exception, ValueError)


def test_samples_have_no_curve(tmp_path: Path) -> None:
    verdict = audit_samples(
        lambda data, rng: data + rng.standard_normal(),
        0.0,
        1.0,
        claim=(1.0, 0.5),
        n_samples=400,
    )
    assert "only samples" in write_audit(verdict, tmp_path / "s.html", subject="noise").read_text()


@pytest.mark.slow
def test_chromium_renders_it_without_complaint(page: Path) -> None:
    browser = require_chromium()
    common = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    shot = page.parent / "phone.png"
    size = "--window-size=390,2000"
    log = ["--enable-logging=stderr", "--v=0", f"--screenshot={shot}"]
    seen = subprocess.run([*common, size, *log, page.as_uri()], capture_output=True, timeout=60)
    assert shot.stat().st_size > 10_000
    assert b"CONSOLE" not in seen.stderr
    # At the width of a phone nothing is wider than the screen. (No window is that narrow.)
    probe = page.parent / "probe.html"
    probe.write_text(
        f'<iframe style="width:390px;height:900px" srcdoc="{escape(page.read_text())}"></iframe>'
        "<script>addEventListener('load', () => {"
        " const inside = document.querySelector('iframe').contentDocument.documentElement;"
        " document.title = 'width ' + inside.scrollWidth + ' of ' + inside.clientWidth;"
        "})</script>"
    )
    dumped = subprocess.run(
        [*common, "--dump-dom", probe.as_uri()], capture_output=True, timeout=60
    ).stdout.decode()
    width, screen = map(int, re.findall(r"<title>width (\d+) of (\d+)</title>", dumped)[0])
    assert width <= screen <= 390


def test_a_report_of_a_pair_lists_no_rows(tmp_path: Path) -> None:
    verdict = audit_pair(Gaussian([0.0], [[1.0]]), Gaussian([0.1], [[1.1]]), (1.0, 0.1))
    text = write_audit(
        verdict, tmp_path / "p.html", subject="a pair", rows=np.eye(2), audience="owner"
    ).read_text()
    assert "Consistent" in text
