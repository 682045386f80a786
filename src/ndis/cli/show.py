"""``ndis show``: what a release says."""

from pathlib import Path

from ndis.cli.answers import Answers, answers_of, describe, estimates_of, shown, values


def show(path: Path, *, verbose: bool = False) -> Answers:
    """Show what a release says: its answers by name, and what is promised.

    The file is checked against its certificate; `ndis verify` checks the promise itself.
    """
    from ndis.release import Release

    release = Release.load(path)
    estimates = estimates_of(release)
    found = answers_of(release, estimates)
    document = {"values": values(release, estimates), "certificate": release.certificate()}
    parts = [*shown(found), str(release.guarantee)]
    if verbose:
        parts.insert(0, describe(release))
    return Answers(document, *parts, answers=found)
