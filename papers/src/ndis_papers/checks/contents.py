"""What each paper numbers: theorems, tables, figures and so on. Typed once, from the papers."""

from __future__ import annotations

import re
from collections.abc import Iterator

CONTENTS = {
    "ndis-2024": "Abstract; Theorems 1 to 9; Lemmas 1 and 2; Propositions 1 to 16; Corollaries 1 "
    "to 7; Facts 1 and 2; Remarks 1 and 2; Tables 1 to 6; Figures 1 to 15",
    "ndis-2026": "Abstract; Theorems 4.1 to 4.2; Theorems 5.1 to 5.4; Theorems 6.1 and 7.1; "
    "Lemmas 1 to 4; Propositions 1 to 8; Fact 1; Figures 1 to 5",
    "rank-one-gaussian": "Title; Abstract; Theorems 1 to 9; Lemmas 1 and 2; Proposition 1; "
    "Corollaries 1 and 2; Property 1; Remarks 1 and 2; Tables 1 and 2; Figures 1 to 9; "
    "Appendices A and B and C",
    "jl-transform": "Abstract; Theorems II.4 and III.1 and III.2 and IV.1 and IV.2; Claims III.3 "
    "and A.1; Facts III.4 to III.6; Fact A.2; Tables I and II; Algorithms 1 to 4",
    "multi-party": "Abstract; Theorems 1 and 2; Lemmas 1 to 6; Table 1; Figures 1 to 3; "
    "Algorithms 1 and 2",
}
# What has a number and says nothing that could be true or false.
WITHOUT_CLAIM = {
    ("rank-one-gaussian", "Table 2"): "a list of symbols",
    ("multi-party", "Figure 1"): "a drawing of three clinics",
}

_PLURALS = {"Corollaries": "Corollary", "Properties": "Property", "Appendices": "Appendix"}
_KIND = (
    "Theorem|Lemma|Proposition|Corollar(?:y|ies)|Propert(?:y|ies)|Fact|Claim|Remark|Table|Figure|"
    "Algorithm|Append(?:ix|ices)"
)
_NUMBER = r"(?:[IVX]+\.\d+|A\.\d+|\d+(?:\.\d+)?|[IVX]+\b|[A-C]\b)"
_NUMBERED = re.compile(rf"\b((?:{_KIND})s?) ({_NUMBER}(?:(?: and | to |, ){_NUMBER})*)")


def items(text: str) -> Iterator[str]:
    """The numbered things that a text names, one by one; also a title and an abstract.

    Examples
    --------
    >>> from ndis_papers.checks.contents import items
    >>> list(items("Abstract; Facts III.4 to III.6; Corollaries 1 and 2, proof"))
    ['Abstract', 'Fact III.4', 'Fact III.5', 'Fact III.6', 'Corollary 1', 'Corollary 2']
    """
    yield from re.findall(r"\b(?:Title|Abstract)\b", text)
    for kind, numbers in _NUMBERED.findall(text):
        for number in _numbers(numbers):
            yield f"{_PLURALS.get(kind, kind.removesuffix('s'))} {number}"


def _numbers(text: str) -> Iterator[str]:
    for part in re.split(r" and |, ", text):
        first, _, last = part.partition(" to ")
        before, _, least = first.rpartition(".")
        if not last:
            yield first
            continue
        for number in range(int(least), int(last.rpartition(".")[2]) + 1):
            yield f"{before}.{number}" if before else str(number)
