"""A real browser for the tests: Chromium, driven through chromedriver's own protocol."""

import base64
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from requires import require_chromedriver, require_chromium

_KEYS = {
    "Home": "\ue011",
    "End": "\ue010",
    "Right": "\ue014",
    "Left": "\ue012",
    "Tab": "\ue004",
    "Space": " ",
}


class Browser:
    """One window of it."""

    def __init__(self, address: str, session: str) -> None:
        self.address, self.session = address, session

    def call(self, command: str, **body: Any) -> Any:
        """A command of the WebDriver protocol, and its answer."""
        return _post(f"{self.address}/session/{self.session}/{command}", body)

    def open(self, page: Path) -> None:
        """Load a page from a file."""
        self.call("url", url=page.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function body returns inside the page."""
        return self.call("execute/sync", script=script, args=list(arguments))

    def chrome(self, command: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self.call("goog/cdp/execute", cmd=command, params=parameters)

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        strokes = [
            {"type": kind, "value": _KEYS[key]} for key in keys for kind in ("keyDown", "keyUp")
        ]
        self.call("actions", actions=[{"type": "key", "id": "keyboard", "actions": strokes}])

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Show the page as on a screen of this size, in light or dark mode."""
        self.chrome(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.chrome("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """The whole page as it is seen."""
        seen = self.chrome("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(seen["data"]))

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What the browser wrote down since it was last asked: "browser" or "performance"."""
        return list(self.call("se/log", type=kind))


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser without a window, closed at the end."""
    chromium, driver = require_chromium(), require_chromedriver()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([driver, f"--port={port}", "--silent"])
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(f"{address}/status")
        options = {
            "binary": chromium,
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"],
        }
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = _post(f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})
        window = Browser(address, made["sessionId"])
        yield window
        urllib.request.urlopen(
            urllib.request.Request(f"{address}/session/{window.session}", method="DELETE")
        )
    finally:
        process.terminate()
        process.wait()


def _wait(address: str) -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(address)
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("chromedriver did not start")


def _post(address: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        address, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise RuntimeError(error.read().decode()[:1000]) from None
