"""The app as a server of its own, a client for its pages, and a table as people have them."""

import http.client
import re
import signal
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np


def write_ugly(path: Path, n: int = 3000) -> None:
    """Semicolons, decimal commas, gaps, dates, an old encoding, repeated patients."""
    rng = np.random.default_rng(0)
    ward, age = rng.choice(["Süd", "Nord", "West"], n), rng.integers(18, 90, n)
    cost = 500 + 12.5 * age + 200 * (ward == "Nord") + rng.normal(0, 150, n)
    lines = ["Patient;Station;Alter;Kosten;Aufnahme"]
    for k in range(n):
        gap = rng.random() < 0.02
        day = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{rng.integers(2020, 2025)}"
        money = f"{cost[k]:.2f}".replace(".", ",")
        who = f"P{rng.integers(0, 2 * n // 3):05d}"
        lines.append(f"{who};{ward[k]};{'' if gap else age[k]};{money};{day}")
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")


class Client:
    """A browser that only follows forms and redirects."""

    def __init__(self, address: str, process: subprocess.Popen[str]) -> None:
        parts = urllib.parse.urlsplit(address)
        self.address, self.process = address, process
        self.host, self.base = parts.netloc, parts.path.rstrip("/")

    def ask(self, method: str, path: str, form: object = None, **headers: str) -> tuple[int, str]:
        """One request and its answer; headers replace those of a browser."""
        sent = {"Host": self.host, "Origin": f"http://{self.host}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "GET" and "Origin" not in headers:
            del sent["Origin"]
        body = None if form is None else urllib.parse.urlencode(form, doseq=True)  # type: ignore
        line = http.client.HTTPConnection(self.host, timeout=60)
        line.putrequest(method, path, skip_host=True)
        for name, value in {**sent, "Content-Length": str(len(body or ""))}.items():
            if value:
                line.putheader(name, value)
        line.endheaders((body or "").encode())
        answer = line.getresponse()
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        content = answer.read()
        line.close()
        return answer.status, content.decode("latin-1" if content[:2] == b"PK" else "utf8")

    def new(self) -> str:
        """A new draft's address."""
        self.ask("GET", f"{self.base}/")
        return self.headers["location"].rpartition("/")[0]

    def step(self, draft: str, name: str, **form: object) -> str:
        """Send a step; the name of the page that comes next."""
        status, text = self.ask("POST", f"{draft}/{name}", form)
        problem = re.search(r'role="alert">(.*?)</p>', text)
        assert status == 303, problem[1] if problem else text
        return self.headers["location"].rpartition("/")[2]

    def prepare(self, draft: str, kind: str = "summary", **question: object) -> None:
        """All steps to the button, with a ledger; the question uses the columns in `use`."""
        person = question.pop("person", "Patient")
        self.step(draft, "table", column=["1", "2", "3"], person=person, drop_missing="1")
        public = {"levels-1": "Süd\nNord\nWest", "low-2": 0, "high-2": 90}
        self.step(draft, "public", **public, **{"low-3": 0, "high-3": 3000})
        self.step(draft, "question", kind=kind, again="1")
        used = {"use": ["Station", "Alter", "Kosten"]}
        self.step(draft, "question", kind=kind, **(used | question))
        book = "budget.ndis" if person else "rows.ndis"
        ledger = {"ledger": book, "budget": question.pop("budget", "50")}
        ledger["budget_delta"] = "1e-5"
        new = {"measure": "epsilon", "epsilon": "1", "delta": "1e-6"}
        choice = "open" if (self.folder / book).exists() else "new"
        self.step(draft, "privacy", ledger_choice=choice, **new, **ledger)

    def mark(self, draft: str) -> str:
        """What the page with the button shows, in short."""
        status, text = self.ask("GET", f"{draft}/publish")
        found = re.search(r'name="mark" value="(\w+)"', text)
        assert status == 200, text
        assert found, text
        return found[1]

    def wait(self, draft: str) -> str:
        """The page with the answer."""
        for _ in range(600):
            text = self.ask("GET", f"{draft}/progress")[1]
            if '"running"' not in text:
                return self.ask("GET", f"{draft}/answer")[1]
            time.sleep(0.1)
        raise TimeoutError(text)

    folder = Path()


@contextmanager
def served(folder: Path, *words: str) -> Iterator[Client]:
    """The app in a process of its own, ended as by Ctrl-C."""
    call = [sys.executable, "-m", "ndis.app.command", "--no-browser", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(call, text=True, cwd=folder, **pipes)  # type: ignore[call-overload]
    assert process.stdout is not None
    try:
        client = Client(process.stdout.readline().split()[1], process)
        client.folder = folder
        yield client
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(30)
        process.stdout.close()
