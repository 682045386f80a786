"""The ledger of claims as a page: docs/claims.md is written by this, never by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ndis_papers.checks.registry import Evidence, Paper, PublishedClaim

_INTRODUCTION = """# What the papers claim, and what recomputing shows

What the five papers behind this library claim, in our words, with a verdict and the evidence: a
number that a function of `ndis-papers` computes anew. Every theorem, lemma, proposition,
corollary, table, figure and abstract has a row; a test lists those that do not. A list of symbols
and a drawing claim nothing and have none. `ndis claims` prints this table, `ndis claims --check`
recomputes all of it and fails if any evidence contradicts its verdict.

| Verdict | means |
|---|---|
| confirmed | it holds as it is printed |
| confirmed with correction | what is meant holds; what is printed has a slip or lacks a condition |
| loose by a factor | true, with that much more noise or error than is needed |
| vacuous | a theorem whose hypothesis fails: it is not wrong, and promises nothing |
| refuted | false; every such verdict has a second route in `papers/tests/test_second_routes.py` |
| open, answered since | a question that the paper leaves open, and our answer |
| not checkable here | what it would take is not available |

A refuted step of a proof need not refute its theorem; where it does, the theorem has an entry of
its own. *Proven* numbers are lower ends of ball-arithmetic enclosures. The formulas of ndis-2026
are lost in the copy that we have: its claims are stated as its text and its proofs imply them.
A slip in print may also be one of our copies. We have not told the authors of any of this yet.

This page is generated: `python -m ndis_papers.checks --write docs/claims.md`.
"""


def page(papers: Sequence[Paper], evidence: dict[str, Evidence]) -> str:
    """The whole page in Markdown."""
    everything = [claim for paper in papers for claim in paper.claims]
    counts = Counter(claim.verdict for claim in everything)
    tally = "; ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    parts = [_INTRODUCTION, f"{len(everything)} claims: {tally}.\n"]
    for paper in papers:
        parts.append(f"## {paper.name}\n\n{paper.authors}. *{paper.title}*. {paper.published}.\n")
        parts.append("| Place | Claim | Verdict | Evidence |\n|---|---|---|---|")
        parts.append("\n".join(row(claim, evidence[claim.computed_by]) for claim in paper.claims))
        parts.append("")
    return "\n".join(parts)


def row(claim: PublishedClaim, evidence: Evidence) -> str:
    """One line of the table."""
    place, text, evidence_text = map(_cell, (claim.place, claim.claim, evidence.text))
    return f"| {place} | {text} | **{claim.verdict}** | {evidence_text} |"


def _cell(text: str) -> str:
    """Text that Markdown leaves alone."""
    for mark in ("\\", "|", "*", "_", "<", "^", "~"):
        text = text.replace(mark, "\\" + mark)
    return text.replace("\\<", "&lt;")
