"""The pages as a client sees them: whole runs, and what a stranger is refused."""

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from app_pages import Client, served, write_ugly
from ndis import Ledger

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("app")
    write_ugly(folder / "visits.csv")
    with served(folder, "visits.csv") as found:
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
    assert "Verified: the file" in page, page
    assert releases(client) == before + 1
    # A reload, a step back and a second click find what was made.
    assert client.ask("POST", f"{draft}/start", button)[0] == 303
    assert client.ask("POST", f"{draft}/privacy", {"epsilon": "2"})[0] == 303
    assert client.ask("GET", f"{draft}/publish")[0] == 303
    assert client.wait(draft) == page
    assert releases(client) == before + 1


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


def test_two_people_never_overspend_one_ledger(tmp_path: Path) -> None:
    """Each has an app of their own; the budget is enough for one of them."""
    write_ugly(tmp_path / "visits.csv")
    with served(tmp_path, "visits.csv") as one, served(tmp_path, "visits.csv") as two:
        buttons = []
        for client, out in ((one, "one.npz"), (two, "two.npz")):
            draft = client.new()
            client.prepare(draft, budget="1")
            client.step(draft, "publish", out=out, note="")
            buttons.append((client, draft, {"mark": client.mark(draft)}))
        for client, draft, button in buttons:
            assert client.ask("POST", f"{draft}/start", button)[0] == 303
        pages = [client.wait(draft) for client, draft, _ in buttons]
        assert sorted("Verified: the file" in page for page in pages) == [False, True]
        assert any("Nothing was paid" in page for page in pages)
        assert releases(one) == 1
        assert len([*tmp_path.glob("*.npz")]) == 1


@pytest.mark.parametrize("after", [0.0, 0.5, 1.5])
def test_a_server_that_is_killed_leaves_nothing_unpaid(tmp_path: Path, after: float) -> None:
    write_ugly(tmp_path / "visits.csv")
    with served(tmp_path, "visits.csv") as client:
        draft = client.new()
        client.prepare(draft)
        client.ask("POST", f"{draft}/start", {"mark": client.mark(draft)})
        time.sleep(after)
        client.process.kill()
    with served(tmp_path, "visits.csv") as client:
        for _ in range(100):  # the release goes on, paid and written, whoever has gone
            made = (tmp_path / "visits-summary.npz").exists()
            if made:
                break
            time.sleep(0.2)
        assert made
        assert releases(client) == 1
        assert client.ask("GET", f"{draft}/answer")[0] == 403  # another address, another secret


def test_every_answer_says_that_it_is_kept_by_nobody_and_framed_by_nobody(client: Client) -> None:
    draft = client.new()
    for path in ("table", "public", "progress", "nothing"):
        client.ask("GET", f"{draft}/{path}")
        assert client.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in client.headers["content-security-policy"]
        assert "set-cookie" not in client.headers
    client.ask("GET", "/")
    assert "frame-ancestors 'none'" in client.headers["content-security-policy"]


def test_what_others_send_changes_nothing(client: Client) -> None:
    draft = client.new()
    client.prepare(draft)
    mark, before = client.mark(draft), releases(client)
    for method in ("PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"):
        assert client.ask(method, f"{draft}/start", Origin="http://evil.example")[0] >= 400
    assert (
        client.ask("POST", f"{draft}/start", {"mark": mark}, Sec_Fetch_Site="cross-site")[0] == 403
    )
    # A file may lead a browser here, and only to look.
    led = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert client.ask("GET", f"{draft}/table", Sec_Fetch_Dest="document", **led)[0] == 200
    assert client.ask("GET", f"{draft}/table", Sec_Fetch_Dest="iframe", **led)[0] == 403
    assert client.ask("GET", f"{draft}/start")[0] == 404
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
    key = {"Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    assert client.ask("GET", f"{draft}/table", **upgrade, **key)[0] != 101
    assert client.ask("POST", f"{draft}/table", {"path": "x" * 2**22})[0] == 413
    assert releases(client) == before


def test_nothing_is_written_to_logs(tmp_path: Path) -> None:
    (tmp_path / "secret-name.csv").write_text("secret-column\nsecret-value\n")
    with served(tmp_path, "secret-name.csv") as client:
        draft = client.new()
        client.ask("GET", f"{draft}/table")
        client.ask("POST", f"{draft}/table", {"column": "99", "person": "x"})
        client.ask("GET", f"{draft}/save/../../x")
        client.process.send_signal(signal.SIGINT)
        told = client.process.communicate(timeout=30)
    assert "secret" not in "".join(filter(None, told))
    assert client.base not in "".join(filter(None, told))


def test_nobody_counts_and_then_a_ledger_does(tmp_path: Path) -> None:
    write_ugly(tmp_path / "visits.csv")
    Ledger.create(tmp_path / "mine.ndis", 9.0, 1e-5, "add-remove").close()
    with served(tmp_path, "visits.csv", "--ledger", "mine.ndis") as client:
        draft = client.new()
        client.prepare(draft, person="")
        said = {"epsilon": "1", "delta": "1e-6", "measure": "epsilon", "ledger": "mine.ndis"}
        for choice, counted in (("none", False), ("open", True)):
            client.step(draft, "privacy", ledger_choice=choice, **said)
            page = client.ask("GET", f"{draft}/publish")[1]
            assert ("Ledger mine.ndis" in page) == counted
            assert ("No ledger counts" in page) != counted


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
