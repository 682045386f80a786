"""The site: formulas, what the copy button copies, a page for each name and each command."""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import ndis
from ndis.cli.program import COMMANDS
from requires import require_chromium

pytest.importorskip("matplotlib")
pytest.importorskip("mkdocs")
DOCS = Path(__file__).parent.parent / "docs"


def hook(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"hooks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


maths, copying, api, commands = map(hook, ("maths", "copying", "api", "commands"))
home, project, dates = map(hook, ("home", "project", "dates"))
DOORS = ["Start", "Tutorials", "How do I...", "Reference", "Explanation"]
notebooks, runner = hook("notebooks"), hook("../../tools/run_notebooks")


@pytest.mark.parametrize(
    ("text", "shown"),
    {
        "p ≤ e^epsilon q": "p ≤ e<sup>epsilon</sup> q",
        "e^{s(l−eps)}": "e<sup>s(l−eps)</sup>",
        "S1^(-1/2) v": "S1<sup>-1/2</sup> v",
        r"alpha\^2": "alpha<sup>2</sup>",
        "10^−6.3.": "10<sup>−6.3</sup>.",
        "x_{j−1} and d_j": "x<sub>j−1</sub> and d<sub>j</sub>",
        "Σ a_i z_i²": "Σ a<sub>i</sub> z<sub>i</sub>²",
        "sup_S P(S)": "sup<sub>S</sub> P(S)",
        "(x_j − x)_+": "(x<sub>j</sub> − x)<sub>+</sub>",
        "e^{l_j}": "e<sup>l<sub>j</sub></sup>",
        "data_norm and n_components": "data_norm and n_components",
        "<code>x_j^2</code> x_j": "<code>x_j^2</code> x<sub>j</sub>",
        "<pre><code>e^x</code> a_b</pre>": "<pre><code>e^x</code> a_b</pre>",
        '<a href="x_j^2">y</a>': '<a href="x_j^2">y</a>',
    }.items(),
)
def test_formulas(text: str, shown: str) -> None:
    assert maths.on_page_content(text) == shown


def test_the_home_page_shows_the_commands_of_the_readme() -> None:
    """And no sketch in Python before them."""
    shown = home.on_page_markdown((DOCS / "index.md").read_text())
    commands = re.findall(r"^\$ (ndis [a-z]+)", shown, re.MULTILINE)[:3]
    assert commands == ["ndis ledger", "ndis release", "ndis show"]
    assert ">>>" not in shown[: shown.index("ndis show")]
    with pytest.raises(ValueError, match="Expected a section of README"):
        home.section("Nonsense")


def test_five_doors_lead_to_every_page() -> None:
    nav = (DOCS.parent / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    nav = nav.partition("\nvalidation:\n")[0]
    assert re.findall(r"^  - (.+):$", nav, re.MULTILINE) == DOORS
    listed = re.findall(r": (\S+\.md)$", nav, re.MULTILINE)
    assert len(set(listed)) == len(listed)
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert written <= set(listed)
    assert set(project.PAGES.values()) <= set(listed)


def test_files_of_the_root_are_pages_whose_links_lead_to_pages() -> None:
    changes = project.page("CHANGELOG.md")
    assert "](summary.md)" in changes
    assert "](index.md)" in changes
    assert "](docs/" not in changes
    assert "licensed under Apache-2.0." in project.page("CONTRIBUTING.md")


def test_pages_have_dates() -> None:
    page = argparse.Namespace(file=argparse.Namespace(src_uri="guarantee.md"))
    if dates.dates():  # in a clone
        shown = dates.on_page_markdown("x", page)
        assert re.search(r"^<small>Last changed on \d{4}-\d\d-\d\d\.</small>$", shown, re.MULTILINE)
    page.file.src_uri = "made/elsewhere.md"
    assert dates.on_page_markdown("x", page) == "x"


@pytest.mark.parametrize(
    ("plain", "tex"),
    {
        "P(S) ≤ e^epsilon Q(S) + delta": r"P(S)\leq e^{\varepsilon }Q(S)+\delta ",
        "ln E_P[e^(sL)]": r"{\mathrm{ln}}\;E_{P}[e^{sL}]",
        "½ Σ aᵢ zᵢ²": r"\frac{1}{2} \sum a_{i}z_{i}^{2}",
        "p = vᵀ (DᵀD + σ² I)⁻¹ v": r"p=v^{T}(D^{T}D+\sigma ^{2}I)^{-1}v",
        "√(2w) <= sqrt(x)": r"\sqrt{2w}\leq \sqrt{x}",
        "0 for x in A": r"0\;{\mathrm{for}}\;x\;{\mathrm{in}}\;A",
    }.items(),
)
def test_plain_notation_is_read_as_tex(plain: str, tex: str) -> None:
    assert maths.to_tex(plain) == tex
    assert maths.draw(tex, plain).startswith('<svg class="formula" role="img" aria-label=')


@pytest.mark.slow
def test_every_formula_can_be_drawn() -> None:
    drawn = 0
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text()
        maths.on_page_markdown(text)
        outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for block in re.findall(r"(?<=\n\n)(?:    [^ *>\n-].*\n)+(?=\n|$)", outside):
            drawn += maths.set_block(textwrap.dedent(block)) is not None
    assert drawn > 50


def test_code_is_no_formula() -> None:
    code = ('ledger = Ledger("a")', ">>> x = 1", "data ──▶ tables", "run --shift=1")
    for text in (*code, "def f(x_a_b):\n    assert x < 1"):
        assert maths.set_block(text) is None


def test_the_copy_button_copies_what_can_be_pasted() -> None:
    page = copying.on_page_markdown("```python\n>>> 1 + 1\n2\n```\n")
    assert page.startswith("```pycon\n>>> ")
    session = ">>> for x in y:\n...     print(x)\n...\n1\n"
    assert copying.to_paste("pycon", session) == "for x in y:\n    print(x)\n"
    assert copying.to_paste("console", "$ ndis curve --shift 1\nPrivacy\n") == (
        "ndis curve --shift 1"
    )
    html = (
        '<div class="language-console highlight"><pre><span></span><code><span class="gp">$ '
        "</span>ndis show &quot;a b&quot;\n<span>x</span></code></pre></div>"
    )
    shown = copying.on_page_content(html)
    assert 'data-copy="ndis show &quot;a b&quot;"><pre>' in shown


def test_every_public_name_has_a_page_of_its_own() -> None:
    names = [name for section in api.sections().values() for name in section]
    listed = {name.removeprefix("ndis.") for name in names}
    assert listed >= set(ndis.__all__) - {"Verdict", "testing"}  # whose names are listed
    assert "auditing.Verdict" in listed
    pages = [api.page(name).lower() for name in names if name.startswith("ndis.")]
    assert len(set(pages)) == len(pages)
    assert all(api.summary(name) for name in names if name.startswith("ndis."))


def test_every_command_has_a_reference_with_all_its_options() -> None:
    found = dict(commands.commands())
    assert set(COMMANDS) <= found.keys()
    release = commands.reference("ndis release", found["release"])
    assert "## ndis release regression" in release
    assert re.search(r"- `--delta`: .* \*\*Required\.\*\*", release)
    for each in found["curve"].params:
        assert f"`{each.opts[0]}`: {each.help}" in commands.reference("ndis curve", found["curve"])


@pytest.mark.slow
@pytest.mark.parametrize("path", runner.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_stored_in_it(path: Path) -> None:
    """Other numbers each time, of the same kinds: pictures, tables and sentences."""
    stored = json.loads(path.read_text())
    for before, now in zip(stored["cells"], runner.run(stored)["cells"], strict=True):
        kinds = [sorted(each.get("data", {"text": 0})) for each in before.get("outputs", ())]
        assert [sorted(each.get("data", {"text": 0})) for each in now.get("outputs", ())] == kinds
    page = notebooks.page(path.read_text(), path.name)
    assert page.startswith("# ")
    assert f"[Download this notebook]({path.name})" in page
    assert "data:image/png;base64," in page


# What prose.md asks to avoid: words that make a reader stumble, and "he" for everybody.
STUMBLING = re.compile(
    r"\b([Hh]e|[Hh]is|[Hh]im|[Bb]esides|[Ww]hoever|[Hh]itherto|without a word|in earnest"
    r"|the owner's alone|some 1e-\d+|(?:row|column|commit) an? (?:person|row|column|thought))\b"
)


def test_pages_are_in_plain_words() -> None:
    root = DOCS.parent
    read = [*root.glob("*.md"), *DOCS.rglob("*.md"), *DOCS.glob("*.ipynb")]
    found = {
        f"{path.relative_to(root)}: {word}"
        for path in read
        for word in STUMBLING.findall(path.read_text())
    }
    assert found == set()


# What newcomers search for, and the page that they should find first.
NEWCOMERS = {
    "average by group": "tutorial-summary",
    "GridSearchCV": "how-scikit-learn",
    "semicolon": "errors",
    "missing values": "how-gaps",
    "databricks": "how-spark",
    "privacy budget": "budget",
    "diffprivlib": "how-migrate",
    "choose epsilon": "explore",
    "regulator": "how-regulator",
    "several rows": "tutorial-several-rows",
    "unknown levels": "how-unknown-levels",
}


@pytest.mark.slow
@pytest.mark.browser
def test_the_site_opens_from_a_file_and_is_searched_there(tmp_path: Path) -> None:
    browser = require_chromium()
    site, root = tmp_path / "site", DOCS.parent
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(site)]
    subprocess.run(build, check=True, cwd=root, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    fetched = re.compile(r'<(?:script|link)[^>]* (?:src|href)="https?://[^"]*\.(?:js|css)')
    assert not [path for path in site.rglob("*.html") if fetched.search(path.read_text())]
    look = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=9000"]
    look += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}"]
    page = (site / "index.html").as_uri()
    seen = subprocess.run([*look, "--dump-dom", f"{page}?q=ledger"], capture_output=True, text=True)
    assert re.search(r"\d+ matching documents", seen.stdout)
    assert re.search(r'api/Ledger\.html[^>]*class="md-search-result__link"', seen.stdout)
    for words, wanted in NEWCOMERS.items():
        query = f"{page}?q={quote(words)}"
        seen = subprocess.run([*look, "--dump-dom", query], capture_output=True, text=True)
        found = re.search(r'([\w-]+)\.html[^"]*"[^>]*class="md-search-result__link"', seen.stdout)
        assert found is not None, words
        assert found[1] == wanted, words
    proof = (site / "proofs/contour.html").read_text()
    assert proof.count('<svg class="formula"') > 10
