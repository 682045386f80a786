"""``ndis ledger``: start a privacy budget, plan, see what is left of it, check it."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis._validate import read_text
from ndis.cli.console import ExitCode, Reply, Shown, open_ledger

if TYPE_CHECKING:
    from ndis.guarantee import Guarantee
    from ndis.ledger import Ledger


def init(
    place: str,
    *,
    epsilon: float,
    delta: float,
    relation: str,
    mode: str = "adaptive",
    accept: list[str] | None = None,
) -> Reply:
    """Start a ledger in a new place.

    Parameters
    ----------
    epsilon : float
        The budget's epsilon.
    delta : float
        The budget's delta.
    relation : str
        Neighbours, such as add-remove or replace.
    mode : str
        adaptive: releases as they come; plan: fixed beforehand.
    accept : list of str
        Count relative, declared or seeded releases too, or use a network disk; repeatable.
    """
    from ndis.ledger import Ledger

    with Ledger.create(place, epsilon, delta, relation, mode=mode, accept=accept or []) as ledger:
        return Reply(_budget(ledger), f"{ledger!r} is ready.")


def plan(place: str, releases: list[str]) -> Reply:
    """Say what each of so many equal releases may take; or fix all releases of a plan.

    A number, such as 12 for a release a month, changes nothing. Files fix the releases of a ledger
    of mode plan, in one call; they cannot be changed later.

    Parameters
    ----------
    releases : PLAN...
        A number of equal releases. Or FILE[:TIMES]...: what `ndis calibrate ... --json` printed, or
        a release with the same settings (of a made-up table, say), and how often it will be made.
    """
    if len(releases) == 1 and releases[0].isdigit():
        return _equal(place, int(releases[0]))
    planned = [guarantee for words in releases for guarantee in _planned(words)]
    with open_ledger(place) as ledger:
        ledger.plan(planned)
        left = ledger.remaining()
    document = {"releases": len(planned), "epsilon": left.epsilon, "delta": left.delta}
    return Reply(document, f"{len(planned)} releases are planned: {left} in all.")


def _equal(place: str, times: int) -> Reply:
    """What each of so many equal releases may take of what is left."""
    with open_ledger(place) as ledger:
        left, relation = ledger.remaining(), ledger.relation
    each = [left.shared(times, left.delta / part) for part in (1, 10, 100, 1000)]
    # Rounded down, so that as many as these fit.
    rows = [[f"{one.delta:g}", f"{math.floor(1e4 * one.epsilon) / 1e4:g}"] for one in each]
    document = {
        "times": times,
        "left": left.epsilon,
        "each": [{"delta": one.delta, "epsilon": one.epsilon} for one in each],
    }
    return Reply(
        document,
        Shown(f"Each of {times} equal releases", ["with --delta", "at most --epsilon"], rows),
        f"Of what is left, {left}, for neighbours by {relation}; of releases with Gaussian noise, "
        "decided one after the other or planned. Nothing is fixed by this.",
    )


def _planned(words: str) -> "list[Guarantee]":
    """The guarantee in a file, as often as it is to be released."""
    from ndis.guarantee import Guarantee
    from ndis.release import Release

    file, colon, times = words.rpartition(":")
    if not colon or not times.isdigit():
        file, times = words, "1"
    if file.endswith(".npz"):
        return [replace(Release.load(file).guarantee, private=True)] * int(times)
    text = read_text(file)
    try:
        promise = Guarantee.from_dict(json.loads(text)["guarantee"])
    except (LookupError, TypeError, ValueError, RecursionError):
        raise ValueError(
            f"Expected what `ndis calibrate ... --json` printed, got {file} without a guarantee; "
            "use a release of a made-up table with the same settings."
        ) from None
    return [promise] * int(times)


def show(place: str, *, plot: Path | None = None) -> Reply:
    """Show the budget and what is left of it.

    Parameters
    ----------
    plot : path
        Write the burn-down as a picture (PNG, SVG or PDF).
    """
    with open_ledger(place) as ledger:
        if plot is not None:
            from ndis import plots

            plots.burn_down(ledger).savefig(plot)
        (releases, completed), left = ledger.counts(), ledger.remaining()
        document = _budget(ledger) | {
            "releases": releases,
            "completed": completed,
            "remaining_epsilon": left.epsilon,
            "remaining_shift": left.shift,
            "remaining_reason": left.reason,
            "guarantee": str(ledger.guarantee()),
            "latest_hash": ledger.latest_hash(),
        }
        return Reply(document, Shown("Ledger", ["", ""], ledger.summary().items(), wrap=True))


def _budget(ledger: "Ledger") -> dict[str, Any]:
    return {
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "relation": str(ledger.relation),
        "mode": ledger.mode,
        "accept": list(ledger.accept),
    }


def history(place: str) -> Reply:
    """List all releases, those without an output included."""
    with open_ledger(place) as ledger:
        entries = ledger.history()
    names = ("number", "time", "mechanism", "note", "digest")
    listed = [
        {name: getattr(entry, name) for name in names} | {"guarantee": entry.guarantee.to_dict()}
        for entry in entries
    ]
    rows = [
        [
            str(entry.number),
            entry.time[:10],
            "\n".join(filter(None, (entry.mechanism, _periods(entry), entry.note))),
            f"{entry.guarantee.epsilon:.4g}",
            f"{entry.guarantee.delta:.2g}",
            "none" if entry.digest is None else entry.digest[:8],
        ]
        for entry in entries
    ]
    headings = ["", "paid", "what and why", "epsilon", "delta", "output"]
    shown = Shown(f"{len(entries)} releases", headings, rows, wrap=True)
    return Reply({"releases": listed}, shown)


def _periods(entry: Any) -> str:
    """Which periods of a series are out."""
    return f"periods 1 to {len(entry.periods) + 1} are out" if entry.periods else ""


def verify(place: str, *, expect: str | None = None) -> Reply:
    """Check every row, the hash chain and the totals.

    Exit code 1 if anything is wrong, 2 if the ledger cannot be read, 5 if it is of another version.

    Parameters
    ----------
    expect : str
        A hash that `ledger show` printed earlier; it must still be in the chain.
    """
    from ndis.ledger import DamagedLedger, OtherVersion

    try:
        with open_ledger(place) as ledger:
            releases = ledger.verify(expect)
    except (DamagedLedger, OtherVersion) as damage:
        known = isinstance(damage, DamagedLedger)
        code = ExitCode.CHECK_FAILED if known else ExitCode.NOT_CHECKABLE
        return Reply({"verified": False, "damage": str(damage)}, str(damage), code=code, aside=True)
    said = f"{releases} releases, all in order and within the budget."
    if expect is not None:
        said += " The expected hash is in the chain."
    return Reply({"verified": True, "releases": releases}, said)
