"""The ledger of claims: complete, well formed, recomputed, and the same as the page."""

import json
import re
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ndis.cli.program import app
from ndis_papers.checks import PAPERS, VERDICTS, Evidence, Paper, PublishedClaim, claims
from ndis_papers.checks.contents import CONTENTS, WITHOUT_CLAIM, items
from ndis_papers.checks.page import page, row

PAGE = Path(__file__).parents[2] / "docs" / "claims.md"
EVERY = claims()
# The papers' central theorems and the errors that matter most: recomputed on every run.
QUICK = [
    claim
    for claim in EVERY
    if claim.place
    in {
        "Theorem 1, formula",
        "Theorem 2",
        "Proposition 10",
        "Theorem 5",
        "Theorem 5, assumption 1",
        "Lemma 2, threshold",
        "Theorem 6.1, Figure 5",
        "Section 7.1",
        "Section 7.2, privacy",
        "Theorem III.1",
        "Theorem IV.1, Algorithm 3",
        "Abstract, Table I",
        "Sections 1 and 3",
        "Tables 1 and 3, dot products",
    }
]


NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")


def step(number: str) -> float:
    """One unit of the last digit that is printed; a whole number is a count, and exact."""
    mantissa, _, exponent = number.replace(",", "").partition("e")
    if not exponent and "." not in mantissa:
        return 0.0
    return float(f"1e{int(exponent or 0) - len(mantissa.partition('.')[2])}")


def same(found: str, written: str) -> bool:
    """Equal but for the last digit of a measured number, in which machines may differ."""
    if NUMBER.sub("#", found) != NUMBER.sub("#", written):
        return False
    return all(
        abs(float(a.replace(",", "")) - float(b.replace(",", ""))) <= 1.001 * max(step(a), step(b))
        for a, b in zip(NUMBER.findall(found), NUMBER.findall(written), strict=True)
    )


def test_texts_are_the_same_up_to_the_last_digit() -> None:
    assert same("delta 1.2e-05, 1,234 rows", "delta 1.3e-05, 1,234 rows")
    assert not same("delta 1.2e-05", "delta 1.4e-05")
    assert not same("1,234 rows", "1,235 rows")
    assert not same("0 of 3 violations", "1 of 3 violations")
    assert not same("delta 0.12", "gamma 0.12")


def identity(claim: PublishedClaim) -> str:
    return f"{claim.paper}: {claim.place}"


def test_the_ledger_covers_five_papers() -> None:
    counts = Counter(claim.paper for claim in EVERY)
    assert set(counts) == {
        "ndis-2024",
        "ndis-2026",
        "rank-one-gaussian",
        "jl-transform",
        "multi-party",
    }
    assert {claim.verdict for claim in EVERY} == set(VERDICTS)


def test_everything_that_a_paper_numbers_has_a_row() -> None:
    covered = {(claim.paper, item) for claim in EVERY for item in items(claim.place)}
    numbered = {(paper, item) for paper, text in CONTENTS.items() for item in items(text)}
    assert numbered - covered - WITHOUT_CLAIM.keys() == set()
    # A place that names what the paper does not have is a slip.
    assert covered - numbered == set()
    assert not covered & WITHOUT_CLAIM.keys()


def test_a_missing_number_would_be_found() -> None:
    assert set(items("Theorems 1 to 3; Lemma 2")) - set(items("Theorem 1, proof; Theorem 3")) == {
        "Theorem 2",
        "Lemma 2",
    }


def test_every_claim_has_its_own_place_and_function() -> None:
    places = Counter((claim.paper, claim.place) for claim in EVERY)
    functions = Counter(claim.computed_by for claim in EVERY)
    assert max(places.values()) == max(functions.values()) == 1
    assert all(claim.recompute.__doc__ for claim in EVERY)


def written() -> dict[tuple[str, str], str]:
    """The rows of the page, by paper and place."""
    rows: dict[tuple[str, str], str] = {}
    paper = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            paper = line.removeprefix("## ")
        elif paper and line.startswith("| ") and not line.startswith("| Place"):
            place = line.removeprefix("| ").split(" | ")[0]
            assert (paper, place) not in rows
            rows[paper, place] = line
    return rows


def key(claim: PublishedClaim) -> tuple[str, str]:
    place = row(claim, Evidence("", True)).removeprefix("| ")
    return claim.paper, place.split(" | ")[0]


@pytest.mark.parametrize("claim", QUICK, ids=identity)
def test_evidence_supports_its_verdict_and_is_what_the_page_says(claim: PublishedClaim) -> None:
    evidence = claim.check()
    assert evidence.supports
    assert same(row(claim, evidence), written()[key(claim)])


def test_the_page_has_every_claim_with_its_verdict_and_no_other() -> None:
    page_rows = written()
    assert page_rows.keys() == {key(claim) for claim in EVERY}
    for claim in EVERY:
        beginning, _ = row(claim, Evidence("EVIDENCE", True)).split("EVIDENCE")
        assert page_rows[key(claim)].startswith(beginning)
    assert f"{len(EVERY)} claims: " in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_claim_and_the_whole_page(paper: Paper) -> None:
    evidence = {claim.computed_by: Evidence("", True) for claim in EVERY}
    evidence |= {claim.computed_by: claim.check() for claim in paper.claims}
    contradicted = [name for name, found in evidence.items() if not found.supports]
    assert contradicted == []
    old, new = (
        part_of(paper, text.splitlines())
        for text in (PAGE.read_text(encoding="utf-8"), page(PAPERS, evidence))
    )
    changed = [pair for pair in zip_longest(new, old, fillvalue="") if not same(*pair)]
    assert changed == [], "run: python -m ndis_papers.checks --write docs/claims.md"


def part_of(paper: Paper, lines: list[str]) -> list[str]:
    """The heading of the page, and what it says of this paper."""
    start = lines.index(f"## {paper.name}")
    ends = [i for i, line in enumerate(lines) if line.startswith("## ")]
    end = next((i for i in ends if i > start), len(lines))
    return lines[: ends[0]] + lines[start:end]


@pytest.mark.slow
def test_json_lists_objects() -> None:
    result = CliRunner().invoke(app, ["claims", "--paper", "multi-party", "--json"])
    assert result.exit_code == 0
    listed = json.loads(result.stdout)
    assert [entry["place"] for entry in listed] == [
        claim.place for claim in EVERY if claim.paper == "multi-party"
    ]
    assert all(
        {"paper", "place", "claim", "verdict", "evidence"} <= entry.keys() for entry in listed
    )
    assert all(entry["verdict"] in VERDICTS and entry["evidence"] for entry in listed)


@pytest.mark.slow
def test_check_counts_and_passes() -> None:
    result = CliRunner().invoke(app, ["claims", "--paper", "multi-party", "--check"])
    n = sum(claim.paper == "multi-party" for claim in EVERY)
    assert result.exit_code == 0
    assert f"{n} of {n} claims keep their verdict." in result.stdout


def test_check_fails_where_evidence_contradicts(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = Paper("invented", "An invented paper", "Nobody", "never")
    paper.claim("Theorem 0", "1 = 2", "confirmed")(lambda: Evidence("1 and 2", 1 == 2))
    monkeypatch.setattr("ndis_papers.checks.PAPERS", (paper,))
    result = CliRunner().invoke(app, ["claims", "--check"])
    assert result.exit_code == 1
    assert "0 of 1 claims keep their verdict." in result.stdout


def test_an_unknown_verdict_is_refused() -> None:
    paper = Paper("invented", "An invented paper", "Nobody", "never")
    with pytest.raises(ValueError, match="verdict"):
        paper.claim("Theorem 0", "1 = 1", "true")(lambda: Evidence("1", True))


def test_markdown_survives_strange_characters() -> None:
    paper = Paper("invented", "An invented paper", "Nobody", "never")
    paper.claim("A|B", "x_1 < *2*", "confirmed")(lambda: Evidence("a|b^2", True))
    (claim,) = paper.claims
    line = row(claim, claim.check())
    assert line == r"| A\|B | x\_1 &lt; \*2\* | **confirmed** | a\|b\^2 |"
