"""The pages as a client sees them: whole runs, and what a stranger is refused."""

import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from app_pages import Client, served, write_ugly
from ndis import Ledger, Release

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("app")
    write_ugly(folder / "visits.csv")
    with served(folder, "visits.csv") as found:
        yield found


@pytest.fixture
def seeded(tmp_path: Path) -> Any:
    write_ugly(tmp_path / "visits.csv")
    with served(tmp_path, "--seed", "1", "visits.csv") as found:
        yield found


def releases(client: Client) -> int:
    with Ledger(client.folder / "budget.ndis") as book:
        return len(book.history())


def test_a_table_becomes_a_verified_release_and_is_paid_once(client: Client) -> None:
    draft = client.new()
    page = client.ask("GET", f"{draft}/table")[1]
    assert "Aufnahme=%d.%m.%Y" in page
    assert "Only you see this" in page
    client.prepare(draft, by=["Station"])
    before = releases(client)
    button = {"mark": client.mark(draft)}
    assert client.ask("POST", f"{draft}/start", button)[0] == 303
    page = client.wait(draft)
    assert "Verified" in page, page
    assert releases(client) == before + 1
    # A reload, a step back and a second click find what was made.
    assert client.ask("POST", f"{draft}/start", button)[0] == 303
    assert client.ask("POST", f"{draft}/privacy", {"epsilon": "2"})[0] == 303
    assert client.ask("GET", f"{draft}/publish")[0] == 303
    assert client.wait(draft) == page
    assert releases(client) == before + 1
    for what in ("release", "certificate", "csv", "page", "command"):
        status, text = client.ask("GET", f"{draft}/save/{what}")
        assert status == 200
        assert "P0" not in text or what == "release"


def test_the_script_and_the_command_give_the_same_release(seeded: Client) -> None:
    draft = seeded.new()
    seeded.prepare(draft, by=["Station"])
    seeded.ask("POST", f"{draft}/start", {"mark": seeded.mark(draft)})
    assert "NOT PRIVATE" in seeded.wait(draft)
    first = Release.load(seeded.folder / "visits-summary.npz")
    script, command = (seeded.ask("GET", f"{draft}/save/{w}")[1] for w in ("script", "command"))
    script = script.replace("visits-summary.npz", "python.npz")
    subprocess.run([sys.executable, "-c", script], cwd=seeded.folder, check=True, timeout=60)
    words = shlex.split(command.replace("visits-summary.npz", "shell.npz"))
    call = [sys.executable, "-m", *words]
    subprocess.run(call, cwd=seeded.folder, check=True, timeout=60, stdout=subprocess.DEVNULL)
    for name in ("python.npz", "shell.npz"):
        assert Release.load(seeded.folder / name).digest == first.digest


def test_a_regression_is_published_and_verified(client: Client) -> None:
    draft = client.new()
    client.prepare(draft, "regression", label="Kosten")
    client.ask("POST", f"{draft}/start", {"mark": client.mark(draft)})
    page = client.wait(draft)
    assert "Verified" in page, page
    assert "Alter" in page


def test_two_tabs_at_once_pay_once(client: Client) -> None:
    draft = client.new()
    client.prepare(draft)
    button, before = {"mark": client.mark(draft)}, releases(client)
    tabs = [
        threading.Thread(target=client.ask, args=("POST", f"{draft}/start", button))
        for _ in range(4)
    ]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    client.wait(draft)
    assert releases(client) == before + 1


def test_a_page_that_another_tab_has_changed_publishes_nothing(client: Client) -> None:
    draft = client.new()
    client.prepare(draft)
    button, before = {"mark": client.mark(draft)}, releases(client)
    client.step(draft, "privacy", epsilon="0.5", ledger_choice="open", ledger="budget.ndis")
    status, text = client.ask("POST", f"{draft}/start", button)
    assert status == 422
    assert "another tab" in text
    assert releases(client) == before


@pytest.mark.parametrize("after", [0.3, 1.2, 2.0])
def test_a_release_that_is_stopped_is_not_half_paid(client: Client, after: float) -> None:
    draft = client.new()
    client.prepare(draft)
    before = releases(client)
    client.ask("POST", f"{draft}/start", {"mark": client.mark(draft)})
    time.sleep(after)
    client.ask("POST", f"{draft}/stop", {})
    page = client.wait(draft)
    made = "Published" in page
    assert made or "Nothing was paid" in page
    assert releases(client) == before + made


def refused(client: Client, method: str, path: str, **headers: str) -> bool:
    return client.ask(method, path, {} if method == "POST" else None, **headers)[0] in (400, 403)


def test_strangers_are_refused(client: Client) -> None:
    draft, base = client.new(), client.base
    port = client.host.partition(":")[2]
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.x:{port}", ""):
        assert refused(client, "GET", f"{base}/", Host=host)
    for origin in ("http://evil.example", "null", f"https://{client.host}", "http://localhost"):
        assert refused(client, "GET", f"{base}/", Origin=origin)
        assert refused(client, "POST", f"{draft}/start", Origin=origin)
    assert refused(client, "POST", f"{draft}/start", Origin="")
    assert refused(client, "GET", f"{base}/", Sec_Fetch_Site="cross-site")
    for path in ("/", "/static/app.js", f"/{'x' * 43}/", draft.replace(base, "")):
        assert refused(client, "GET", path)
    assert client.ask("GET", f"{base}/")[0] == 303


@pytest.mark.parametrize("path", ["../secret.csv", "/etc/passwd", "a/../../secret.csv", "link.csv"])
def test_nothing_outside_the_folder_is_read(client: Client, path: str) -> None:
    secret = client.folder.parent / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    link = client.folder / "link.csv"
    if not link.is_symlink():
        link.symlink_to(secret)
    draft = client.new()
    status, text = client.ask("POST", f"{draft}/table", {"path": path})
    assert status == 422
    assert "within the folder" in text
    assert client.ask("GET", f"{client.base}/static/../server.py")[0] in (403, 404)
    assert client.ask("GET", f"{client.base}/static/%2e%2e%2fserver.py")[0] == 404


def test_names_and_levels_are_text_and_no_script(client: Client) -> None:
    evil = "<script>alert(1)</script>"
    rows = "".join(f"{k % 7},{evil if k % 2 else 'x'}\n" for k in range(100))
    (client.folder / "evil.csv").write_text(f'"{evil}",level\n{rows}')
    draft = client.new()
    client.step(draft, "table", path="evil.csv")
    pages = [client.ask("GET", f"{draft}/table")[1]]
    client.step(draft, "table", column=["0", "1"])
    public = {"low-0": 0, "high-0": 7, "levels-1": f"x\n{evil}", "again": "1"}
    client.step(draft, "public", **public)
    pages.append(client.ask("GET", f"{draft}/public")[1])
    for page in pages:
        assert "&lt;script&gt;" in page
        assert "<script>alert" not in page
    policy = client.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_uploads_are_for_their_owner_alone_and_removed(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        draft = client.new()
        status, _ = client.ask("POST", f"{draft}/upload", {"a,b\n1": "2"}, X_Name="../t.csv")
        assert status == 200
        assert "t.csv" in client.ask("GET", f"{draft}/table")[1]
        assert list(tmp_path.iterdir()) == []
