"""``ndis verify``: whether a release file keeps what its certificate says."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis.cli.answers import draw_curve
from ndis.cli.console import ExitCode, Reply, Shown, open_ledger
from ndis.cli.settings import read_file

if TYPE_CHECKING:
    from ndis.release import Release

_CODES = {
    "checked": ExitCode.DONE,
    "refuted": ExitCode.CHECK_FAILED,
    "unreadable": ExitCode.WRONG_CALL,
    "not checkable": ExitCode.NOT_CHECKABLE,
}

_MEANINGS = {
    "checked": "The file is consistent with its promise. It cannot show how it was made.",
    "refuted": "The file does not keep its promise: do not rely on it.",
    "not checkable": "Nobody can recompute what the file promises, as far as this version knows.",
}


def verify(
    path: Path,
    *,
    ledger: str | None = None,
    key: Path | None = None,
    registry: Path | None = None,
    nist: bool = False,
    plot: Path | None = None,
) -> Reply:
    """Check a release file: its arrays, its loss, its parameters, its signature.

    Exit codes: 0 everything holds, 1 refuted, 2 unreadable, 5 not checkable (the certificate has
    no loss, or nobody can recompute its mechanism).

    Parameters
    ----------
    ledger : str
        A ledger in which the release should be.
    key : path
        Public key (Ed25519, PEM) of the expected signer.
    registry : path
        File (YAML, TOML, JSON) with what only the curator knows; print a record for OpenDP's
        registry of deployments if the release holds.
    nist : bool
        Answer the questions of NIST SP 800-226 about the promise, as far as the file knows them.
    plot : path
        Write its privacy curve as a picture (PNG, SVG or PDF).
    """
    from ndis.auditing import certificates
    from ndis.release import ChangedRelease, Release

    try:
        release = Release.load(path)
    except ValueError as error:
        outcome = "refuted" if isinstance(error, ChangedRelease) else "unreadable"
        document = {"outcome": outcome, "why": str(error)}
        return Reply(document, str(error), code=_CODES[outcome], aside=True)
    with nullcontext() if ledger is None else open_ledger(ledger) as book:
        found = certificates.verify(release, ledger=book, key=key)
    if plot is not None:
        draw_curve(release, plot)
    code = _CODES[found.outcome]
    if registry is not None and found.outcome == "checked":
        record = release.to_registry(**read_file(registry))
        return Reply(record, json.dumps(record, indent=2), code=code)
    if nist:
        return _for_evaluators(path, release, found, code)
    marks = {"held": "yes", "failed": "NO"}
    rows = [[each.what, marks.get(each.outcome, each.outcome), each.why] for each in found.checks]
    return Reply(
        found.to_dict(),
        f"{release!r}\nSHA-256 {release.digest}",
        _MEANINGS[found.outcome],
        Shown(f"Verdict: {found.outcome}", ["check", "passed", "why not"], rows, wrap=True),
        *(f"not checked: {each}" for each in found.not_checked),
        code=code,
    )


def _for_evaluators(path: Path, release: "Release", found: Any, code: int) -> Reply:
    """The questions of NIST SP 800-226, answered."""
    from ndis.report.nist import responses

    each = responses(release, found)
    rows = [[one.question, one.response, one.by] for one in each]
    title = f"Answers to the questions of NIST SP 800-226, from the certificate of {path}"
    return Reply(
        {
            "release": release.digest,
            "outcome": found.outcome,
            "answers": [o._asdict() for o in each],
        },
        Shown(title, ["question", "answer", "answered by"], rows, wrap=True),
        str(release.guarantee),
        code=code,
    )
