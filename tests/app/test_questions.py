"""Every question from a file to a verified release, and again as a command and as a script."""

import json
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from app_pages import Client, served, write_ugly
from ndis import Release
from ndis.app.drafts import QUESTIONS

pytestmark = pytest.mark.slow

ASKED: dict[str, dict[str, Any]] = {
    "summary": {"by": ["Station"], "more-quantiles": "0.5", "use": ["Station", "Alter", "Kosten"]},
    "regression": {"label": "Kosten", "use": ["Station", "Alter"]},
    "logistic": {"label": "Station", "use": ["Alter", "Kosten"]},
    "poisson": {"label": "Alter", "use": ["Station"]},
    "pca": {"more-n_components": "1", "use": ["Alter", "Kosten"]},
    "process": {"label": "Kosten", "use": ["Alter"]},
    "projection": {"more-n_components": "2", "use": ["Alter", "Kosten"], "person": ""},
}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("questions")
    write_ugly(folder / "visits.csv")
    with served(folder, "--seed", "1", "visits.csv") as found:
        yield found


def again(client: Client, words: list[str], name: str) -> str:
    """What a fresh process makes of the same words: the digest of its release."""
    subprocess.run(words, cwd=client.folder, check=True, timeout=90, stdout=subprocess.DEVNULL)
    return str(Release.load(client.folder / name).digest)


def test_all_questions_are_here() -> None:
    assert ASKED.keys() == QUESTIONS.keys()


@pytest.mark.parametrize("kind", ASKED)
def test_the_page_the_command_and_the_script_give_the_same_release(
    seeded: Client, kind: str
) -> None:
    draft = seeded.new()
    seeded.prepare(draft, kind, **ASKED[kind])
    seeded.ask("POST", f"{draft}/start", {"mark": seeded.mark(draft)})
    page = seeded.wait(draft)
    assert "Published: " in page, page
    assert ("whisker" in page) == (kind != "projection")
    assert ('class="curve"' in page) == (kind == "process")
    kept = {}
    for what in ("certificate", "page", "csv", "command", "script", "notebook"):
        status, kept[what] = seeded.ask("GET", f"{draft}/save/{what}")
        assert status == 200
        assert "Only you see this" not in kept[what]
        assert not re.search(r"P0\d{4}", kept[what])
    name = f"visits-{kind}.npz"
    first = Release.load(seeded.folder / name)
    assert json.loads(kept["certificate"]) == first.certificate()
    assert (digest := first.digest) in kept["page"]
    cells = json.loads(kept["notebook"])["cells"]
    assert "".join(cells[1]["source"]) == kept["script"]
    words = shlex.split(kept["command"].replace(name, "shell.npz"))
    for made, call in (
        ("shell.npz", [sys.executable, "-m", *words]),
        ("python.npz", [sys.executable, "-c", kept["script"].replace(name, "python.npz")]),
    ):
        assert again(seeded, call, made) == digest
        (seeded.folder / made).unlink()


@pytest.mark.parametrize(
    ("kind", "asked", "told"),
    [
        ("regression", {}, "“n components”|“label”|label"),
        ("projection", {}, "Expected “n components”"),
        ("process", {"label": "Kosten"}, "leave out Station"),
        ("summary", {"use": []}, "tick some"),
        ("summary", {"more-quantiles": "many"}, "“quantiles”"),
    ],
)
def test_what_does_not_fit_is_told_in_the_words_of_the_page(
    seeded: Client, kind: str, asked: dict[str, Any], told: str
) -> None:
    draft = seeded.new()
    with pytest.raises(AssertionError, match=told) as caught:
        seeded.prepare(draft, kind, **asked)
    assert "--" not in str(caught.value)
