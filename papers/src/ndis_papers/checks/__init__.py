"""The ledger of published claims: what five papers say, and what recomputing it shows."""

from __future__ import annotations

from ndis_papers.checks import (
    jl_transform,
    multi_party,
    ndis_2024,
    ndis_2024_regression,
    ndis_2026,
    rank_one_figures,
    rank_one_gaussian,
)
from ndis_papers.checks.registry import VERDICTS, Evidence, Paper, PublishedClaim

__all__ = ["PAPERS", "VERDICTS", "Evidence", "Paper", "PublishedClaim", "claims"]

_MODULES = (
    ndis_2024,
    ndis_2024_regression,
    ndis_2026,
    rank_one_gaussian,
    rank_one_figures,
    jl_transform,
    multi_party,
)
PAPERS: tuple[Paper, ...] = tuple({m.PAPER.name: m.PAPER for m in _MODULES}.values())


def claims() -> list[PublishedClaim]:
    """Every checkable claim of the papers, with our verdict and how to recompute its evidence.

    Returns
    -------
    list of PublishedClaim

    Examples
    --------
    >>> from ndis_papers import claims
    >>> claim = next(c for c in claims() if c.place == "Theorem 2")
    >>> claim.verdict
    'confirmed with correction'
    >>> claim.check().supports
    True
    """
    return [claim for paper in PAPERS for claim in paper.claims]
