"""``ndis claims``: what the papers claim, and what recomputing it shows."""

from typing import Annotated

import typer

from ndis.cli.console import AsJson, ExitCode, echo, print_json, print_table


def _papers(incomplete: str) -> list[str]:
    from ndis_papers.checks import PAPERS

    return [paper.name for paper in PAPERS if paper.name.startswith(incomplete)]


def claims(
    check: Annotated[
        bool,
        typer.Option("--check", help="Print only what contradicts its verdict; fail if any does."),
    ] = False,
    paper: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Only the claims of this paper.", autocompletion=_papers),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute every checkable claim of the five papers and show verdicts and evidence."""
    from ndis.tables import track
    from ndis_papers.checks import PAPERS
    from ndis_papers.checks import claims as all_claims

    names = [known.name for known in PAPERS]
    if paper is not None and paper not in names:
        raise ValueError(f"Expected a paper among {', '.join(names)}, got {paper!r}; name one.")
    chosen = [claim for claim in all_claims() if paper in (None, claim.paper)]
    found = [(c, c.check()) for c in track(chosen, "Recomputing claims", len(chosen))]
    contradicted = [(claim, evidence) for claim, evidence in found if not evidence.supports]
    shown = contradicted if check else found
    if as_json:
        print_json([claim.to_dict(evidence) for claim, evidence in found])
    elif shown:
        print_table(
            "Claims that their evidence contradicts" if check else "Published claims",
            ["paper", "place", "claim", "verdict", "evidence"],
            [[c.paper, c.place, c.claim, c.verdict, evidence.text] for c, evidence in shown],
            wrap=True,
        )
    if check:
        if not as_json:
            echo(f"{len(found) - len(contradicted)} of {len(found)} claims keep their verdict.")
        if contradicted:
            raise typer.Exit(ExitCode.CHECK_FAILED)
