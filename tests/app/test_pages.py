"""The pages in Chromium: from an ugly file to verified releases with mouse and keyboard alone."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app_pages import Client, served, write_ugly
from browser import Browser, browser

pytestmark = pytest.mark.browser

# The control that a label names, within a card if one is given; fails where there is none.
FIND = """
const [text, card] = arguments;
const cards = [...document.querySelectorAll("main fieldset, main .card")];
const place = card ? cards.find(c => c.querySelector("legend, b")?.textContent === card) : document;
const label = [...place.querySelectorAll("main label")].find(l => l.textContent.trim() === text);
const found = label.control || label.querySelector("input");
found.scrollIntoView({ block: "center" });
"""
FILL = (
    FIND.replace("[text, card]", "[text, card, value]")
    + """
if (found.type === "checkbox" || found.type === "radio") {
  if (found.checked !== value) found.click();
} else {
  found.value = found.tagName === "SELECT"
    ? [...found.options].find(o => o.textContent.includes(value)).value : value;
  found.dispatchEvent(new Event("input", { bubbles: true }));
}"""
)
PRESS = """
window.old = true;
[...document.querySelectorAll("main button")].find(b => b.textContent === arguments[0]).click();"""
# Whatever can be used has a name, a label is no trap, ids are unique, headings start with one h1.
ORDERLY = """
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
return [
  document.querySelectorAll("h1").length === 1,
  new Set(ids).size === ids.length,
  document.documentElement.lang === "en",
  [...document.querySelectorAll("[popovertarget]")].every(b => b.popoverTargetElement),
  document.documentElement.scrollWidth <= window.innerWidth,
];"""


class Person:
    """Somebody at the browser."""

    def __init__(self, window: Browser, client: Client) -> None:
        self.window, self.client = window, client
        window.call("url", url=client.address)

    def fill(self, label: str, value: object, card: str = "") -> None:
        """Type, tick or choose."""
        self.window.run(FILL, label, card, value)

    def press(self, button: str) -> str:
        """Press a button; the heading of the page that comes."""
        self.window.run(PRESS, button)
        self.wait("!window.old && document.readyState === 'complete'")
        return str(self.window.run("return document.querySelector('h1').textContent"))

    def wait(self, what: str) -> None:
        """Until something is so on the page."""
        for _ in range(600):
            try:
                if self.window.run(f"return {what}"):
                    return
            except RuntimeError:  # between two pages
                pass
            time.sleep(0.05)
        raise TimeoutError(what)

    def orderly(self) -> None:
        """The page can be read out, and fits a telephone, in light and in dark."""
        for dark in (False, True):
            self.window.resize(390, 900, dark=dark)
            assert self.window.run(ORDERLY) == [True] * 5
        self.window.resize(1280, 900)
        nodes = self.window.chrome("Accessibility.getFullAXTree")["nodes"]
        used = {"slider", "button", "combobox", "textbox", "checkbox", "radio", "image", "link"}
        named = [
            node["name"]["value"] for node in nodes if node.get("role", {}).get("value") in used
        ]
        assert all(named)
        assert len(named) > 5


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as one:
        yield one


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    write_ugly(tmp_path / "visits.csv")
    with served(tmp_path) as found:
        yield found


def to_question(person: Person) -> None:
    person.orderly()
    person.fill("visits.csv", True)
    assert person.press("Look at it") == "Is this your table?"
    assert person.window.run("return document.getElementById('decimal').value") == ","
    assert person.window.run("return document.getElementById('encoding').value") == "latin-1"
    person.orderly()
    person.fill("Whose row is it?", "Patient")
    person.press("Next: what is public")
    person.fill("Levels, one in each line", "Nord\nSüd\nWest", "Station")
    person.fill("From", "18", "Alter")
    person.fill("to", "60", "Alter")
    person.fill("I don't know", True, "Kosten")
    person.fill("From", "2020-01-01", "Aufnahme")
    person.fill("to", "2024-12-31", "Aufnahme")
    person.press("What does this change?")
    text = person.window.run("return document.querySelector('main').textContent")
    assert re.search(r"[1-9]\d+ of 2938 values lie beyond the limits", " ".join(text.split()))
    person.orderly()
    assert person.press("Next: your question") == "What do you want to publish?"


def publish(person: Person) -> str:
    person.orderly()
    person.press("Publish")
    person.wait("document.querySelector('#verdict')")
    person.orderly()
    text = str(person.window.run("return document.querySelector('#verdict').textContent"))
    assert "Verified: the file" in text
    return str(person.window.run("return document.querySelector('main').textContent"))


def test_from_an_ugly_file_to_two_verified_releases(window: Browser, client: Client) -> None:
    window.log("browser"), window.log("performance")
    person = Person(window, client)
    to_question(person)
    person.orderly()
    person.fill("Station", True, "By group")
    person.fill("Aufnahme", False, "The question uses these columns")
    person.press("Next: how private")
    person.orderly()
    said = "return document.querySelector('#forecast .large').textContent"
    before = window.run(said)
    window.run("document.getElementById('slide-risk').focus()")
    window.press("Right", "Right", "Right")  # the forecast moves along
    person.wait(f"(() => {{ {said} }})() !== {json.dumps(before)}")
    assert "at most 58 times" in window.run(said)
    assert "at most 58 times" in window.run("return document.getElementById('heard').textContent")
    assert person.press("Make or open it, and show what is left") == "How private should it be?"
    assert "left after it" in window.run("return document.querySelector('.legend').textContent")
    assert person.press("Next: publish") == "Publish this?"
    text = publish(person)
    assert "mean of Kosten" in text
    assert "Süd" in text
    # Another question from the same settings, from the same ledger.
    person.press("Publish something else from these settings")
    window.run("window.old = true")
    person.fill("How does a number depend on other columns? A linear regression", True)
    person.wait("!window.old && document.getElementById('label')")
    person.fill("The column to explain", "Kosten")
    person.fill("Aufnahme", True, "The question uses these columns")
    person.press("Next: how private")
    assert person.press("Next: publish") == "Publish this?"
    assert "Linear regression of Kosten" in publish(person)
    assert sorted(path.name for path in client.folder.glob("*.npz")) == [
        "visits-regression.npz",
        "visits-summary.npz",
    ]
    # Nothing was asked of anybody else, and no page complained.
    events = [json.loads(entry["message"])["message"] for entry in window.log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"].endswith("WillBeSent")]
    assert all(url.startswith((f"http://{client.host}/", "data:", "about:")) for url in asked)
    assert not any("Kosten" in url or re.search(r"P0\d{4}", url) for url in asked)
    assert window.log("browser") == []


def test_the_keyboard_is_enough_and_every_term_is_one_key_away(
    window: Browser, client: Client
) -> None:
    person = Person(window, client)
    person.fill("visits.csv", True)
    person.press("Look at it")
    seen = []
    for _ in range(60):
        window.press("Tab")
        seen.append(window.run("return document.activeElement.outerHTML.slice(0, 200)"))
    assert "skip" in seen[0]
    order = ["Your table", 'id="delimiter"', 'id="person"', 'name="column"', "Next: what"]
    places = [next(k for k, each in enumerate(seen) if what in each) for what in order]
    assert places == sorted(places)
    window.run("document.querySelector('[popovertarget=about-people]').focus()")
    window.press("Space")
    assert window.run("return document.getElementById('about-people').matches(':popover-open')")


def test_a_script_in_names_and_levels_does_not_run(window: Browser, client: Client) -> None:
    evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    quoted = evil.replace('"', '""')
    rows = "".join(f'{k % 7},"{quoted if k % 2 else "x"}"\n' for k in range(100))
    name = "<script>document.title='owned'<!-- .csv".replace("/", "")
    (client.folder / name).write_text(f'"{quoted}",grade\n{rows}')
    person = Person(window, client)
    person.fill(name, True)
    assert person.press("Look at it") == "Is this your table?"
    person.press("Next: what is public")
    person.fill("From", "0", evil)
    person.fill("to", "6", evil)
    window.run("[...document.querySelectorAll('[data-fill]')].forEach(b => b.click())")
    window.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    person.press("What does this change?")
    person.press("Next: your question")
    person.fill("grade", True, "By group")
    person.press("Next: how private")
    person.press("Next: publish")
    publish(person)
    draft = window.run("return location.pathname").rpartition("/")[0]
    kept = client.folder / "kept.html"
    kept.write_text(client.ask("GET", f"{draft}/save/page")[1])
    for path in (None, kept):
        if path is not None:
            window.open(path)
        assert window.run("return document.title") != "owned"
        assert window.run("return document.querySelectorAll('main script, main img').length") == 0
    assert "onerror" in kept.read_text()  # it is there, as text
