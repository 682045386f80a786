import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from app_pages import served


def test_it_listens_here_only_and_its_address_holds_a_secret(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        assert client.host.startswith("127.0.0.1:")
        assert len(client.base) > 40
        assert client.ask("GET", f"{client.base}/")[0] == 303


def test_the_command_line_knows_it() -> None:
    (found,) = entry_points(group="ndis.commands", name="app")
    assert found.value == "ndis.app.command:app"
    call = [sys.executable, "-m", "ndis", "app", "--help"]
    told = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    assert "five questions" in told
