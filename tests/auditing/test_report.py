"""The report of an audit, and the command that writes it; seen by a real browser."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.requires import require_chromium
from typer.testing import CliRunner

from ndis import Gaussian, audit_pair, audit_samples
from ndis.cli import app
from ndis.report import write_audit

SKETCH = ["--epsilon", "1", "--delta", "1e-6", "--data-norm", "1", "--components", "20"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "table.csv"
    rows = np.random.default_rng(0).uniform(-0.4, 0.4, (20, 3))
    rows[7] = [0.9, 0.1234, 0.1]
    header = "<script>alert(1)</script>,income,label"
    np.savetxt(path, rows, delimiter=",", header=header, comments="")
    return path


@pytest.fixture(scope="module")
def page(table: Path) -> Path:
    out = table.parent / "out.html"
    words = ["audit", str(table), *SKETCH, "--noise-scale", "2", "--report", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert result.stdout.startswith("REFUTED: the claim of (1, 1e-06)")
    return out


def test_the_page_says_all_and_names_nobody(page: Path) -> None:
    text = page.read_text()
    assert "REFUTED" in text
    for heading in ("What was searched", "What was not searched", "How to reproduce", "claim"):
        assert heading in text
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "0.1234" not in text
    assert re.findall(r'(?:src|href)="(?!data:)', text) == []
    assert "http" not in text


def test_rows_are_shown_only_when_asked(table: Path) -> None:
    out = table.parent / "rows.html"
    words = ["audit", str(table), *SKETCH, "--noise-scale", "2", "--report", str(out)]
    CliRunner().invoke(app, [*words, "--show-rows"])
    text = out.read_text()
    assert "income=0.1234" in text
    assert "owner" not in text.split("The worst neighbours")[1].split("</section>")[0]


def test_sound_noise_is_consistent(table: Path) -> None:
    result = CliRunner().invoke(app, ["audit", str(table), *SKETCH, "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["outcome"] == "consistent"


def test_regression_with_too_little_noise_is_refuted(table: Path) -> None:
    words = ["audit", str(table), *SKETCH, "--mechanism", "regression", "--noise-scale", "0.5"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1


def test_a_pair_from_json(tmp_path: Path) -> None:
    path = tmp_path / "pair.json"
    law = {"mean": [0.0], "cov": [[1.0]]}
    path.write_text(json.dumps({"P": law, "Q": {"mean": [1.0], "cov": [[1.0]]}}))
    assert (
        CliRunner().invoke(app, ["audit", str(path), "--epsilon", "1", "--delta", "0.1"]).exit_code
        == 1
    )
    assert (
        CliRunner().invoke(app, ["audit", str(path), "--epsilon", "1", "--delta", "0.2"]).exit_code
        == 0
    )
    path.write_text(json.dumps({"P": law}))
    result = CliRunner().invoke(app, ["audit", str(path), "--epsilon", "1", "--delta", "0.1"])
    assert isinstance(result.exception, ValueError)


def test_samples_have_no_curve(tmp_path: Path) -> None:
    verdict, _ = audit_samples(
        lambda data, rng: data + rng.standard_normal(),
        0.0,
        1.0,
        1.0,
        claimed_delta=0.5,
        n_samples=400,
    )
    assert "only samples" in write_audit(verdict, tmp_path / "s.html", subject="noise").read_text()


def test_chromium_renders_it_without_complaint(page: Path) -> None:
    browser = require_chromium()
    common = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    shot = page.parent / "phone.png"
    size = "--window-size=390,2000"
    log = ["--enable-logging=stderr", "--v=0", f"--screenshot={shot}"]
    seen = subprocess.run([*common, size, *log, page.as_uri()], capture_output=True, timeout=60)
    assert shot.stat().st_size > 10_000
    assert b"CONSOLE" not in seen.stderr
    # At phone width nothing but the boxes that scroll may be wider than the screen.
    probe = page.parent / "probe.html"
    measure = (
        "<script>addEventListener('load', () => { document.title = 'width ' + "
        "document.documentElement.scrollWidth + ' of ' + innerWidth; })</script>"
    )
    probe.write_text(page.read_text().replace("</body>", measure + "</body>"))
    dumped = subprocess.run(
        [*common, "--window-size=500,900", "--dump-dom", probe.as_uri()],
        capture_output=True,
        timeout=60,
    ).stdout.decode()
    width, screen = map(int, re.findall(r"<title>width (\d+) of (\d+)</title>", dumped)[0])
    assert width <= screen


def test_a_report_of_a_pair_lists_no_rows(tmp_path: Path) -> None:
    verdict = audit_pair(Gaussian([0.0], [[1.0]]), Gaussian([0.1], [[1.1]]), (1.0, 0.1))
    text = write_audit(verdict, tmp_path / "p.html", subject="a pair", rows=np.eye(2)).read_text()
    assert "Consistent" in text
