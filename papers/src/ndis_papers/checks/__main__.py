"""``python -m ndis_papers.checks --write docs/claims.md``: write the page anew."""

from __future__ import annotations

import argparse
from pathlib import Path

from ndis.tables import track
from ndis_papers.checks import PAPERS, claims
from ndis_papers.checks.page import page


def main() -> None:
    """Recompute all evidence and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True, metavar="PAGE")
    target = parser.parse_args().write
    every = claims()
    evidence = {c.computed_by: c.check() for c in track(every, "Recomputing claims", len(every))}
    target.write_text(page(PAPERS, evidence), encoding="utf-8")


if __name__ == "__main__":
    main()
