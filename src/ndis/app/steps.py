"""The five steps: what each page shows, and what becomes of what was typed there."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ndis.answer import DATE, ESTIMATE, as_date
from ndis.app.desk import Desk
from ndis.app.drafts import FIRST, QUESTIONS, Draft
from ndis.app.jobs import Job, JobState
from ndis.cli import answers as told
from ndis.cli import ledger as ledgers
from ndis.cli.console import in_words, open_ledger
from ndis.cli.settings import SWITCH, Settings
from ndis.report.summary_page import histograms

STEPS = {
    "table": "Your table",
    "public": "What is public",
    "question": "Your question",
    "privacy": "How private",
    "publish": "Publish",
}
Form = Mapping[str, list[str]]
# Everything that stands in a page is escaped.
TEMPLATES = Environment(
    loader=PackageLoader("ndis.app"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
# Rows of an answer that a page shows.
_MOST_ROWS = 200


def _one(form: Form, name: str) -> str:
    return form.get(name, [""])[0].strip()


# -- 1: the table -------------------------------------------------------------------------------


def show_table(desk: Desk, draft: Draft) -> dict[str, Any]:
    """The files to choose from, or the columns of the one that was chosen."""
    if not draft.source:
        return {"files": desk.files(), "folder": str(desk.folder)}
    n_rows, complete, columns = desk.pictures(draft)
    n_people, ids = desk.people(draft)
    return {
        "n_rows": n_rows,
        "complete": complete,
        "columns": columns,
        "ids": ids,
        "n_people": n_people,
        "chosen": draft.columns
        or [each.name for each in columns if not each.doubts and each.name not in ids],
        "text": "header" in draft.written,
    }


def save_table(desk: Desk, draft: Draft, form: Form) -> str:
    """Take a file, how it is written, who is a person, and which columns matter."""
    if "forget" in form:
        draft.source = ""
        return "table"
    if path := _one(form, "path"):
        desk.choose(draft, path)
        return "table"
    if "delimiter" in form:
        old, written = dict(draft.written), dict[str, Any](header=True)
        marks = {"tab": "\t", "space": " "}
        for name in ("delimiter", "encoding", "decimal", "thousands"):
            if word := marks.get(_one(form, name), _one(form, name)):
                written[name] = word
        if units := [word.strip() for word in _one(form, "units").split(",") if word.strip()]:
            written["units"] = units
        lines = (line.partition("=") for line in _one(form, "dates").splitlines())
        if dates := {name.strip(): form_.strip() for name, sign, form_ in lines if sign}:
            written["dates"] = dates
        draft.written = written
        try:
            desk.table(draft)
        except Exception:
            draft.written = old
            raise
    names = desk.table(draft).columns
    ticked = form.get("column", [])
    draft.columns = [name for k, name in enumerate(names) if str(k) in ticked]
    draft.person = _one(form, "person") if _one(form, "person") in names else ""
    draft.drop_missing = "drop_missing" in form
    if "again" in form:
        return "table"
    if not draft.columns:
        raise ValueError("Expected at least one column that matters, got none; tick some.")
    return "public"


# -- 2: what is public --------------------------------------------------------------------------


def show_public(desk: Desk, draft: Draft) -> dict[str, Any]:
    """What is said of each column, and what that does to the owner's values."""
    columns = desk.pictures(draft, public=True)[2]
    used = [each for each in columns if each.name in draft.columns and each.name != draft.person]
    return {"columns": used, "names": [each.name for each in columns]}


def save_public(desk: Desk, draft: Draft, form: Form) -> str:
    """Take limits, levels, or that nobody knows them."""
    names = desk.table(draft).columns
    said: dict[str, Any] = {}
    for k, name in enumerate(names):
        low, high = _one(form, f"low-{k}"), _one(form, f"high-{k}")
        typed = form.get(f"levels-{k}", [""])[0].splitlines()  # a blank may be part of a level
        lines = [line for line in typed if line.strip()]
        if f"unknown-{k}" in form:
            said[name] = "private levels" if f"levels-{k}" in form else "private"
        elif low and high:
            said[name] = (low, high)
        elif lines:
            said[name] = list(dict.fromkeys(lines))
    draft.public = said
    desk.pictures(draft, public=True)  # which refuses what cannot be read
    if "again" in form:
        return "public"
    missing = [n for n in draft.columns if n not in said and n != draft.person]
    if missing:
        raise ValueError(
            f"Expected limits or levels of {', '.join(missing)}, got none; say what everybody may "
            "know, tick “I don't know”, or leave the column out in the first step."
        )
    return "question"


# -- 3: the question ----------------------------------------------------------------------------


def show_question(desk: Desk, draft: Draft) -> dict[str, Any]:
    """The questions, and what each of them wants to know."""
    columns = [name for name in draft.columns if name != draft.person]
    first = FIRST.get(draft.kind)
    options = [(name, option, option.read is SWITCH.read) for name, option in draft.options.items()]
    return {
        "questions": QUESTIONS,
        "used": draft.used,
        "usable": columns,
        "levels": [name for name in columns if _has_levels(draft, name)],
        "first": [each for each in options if each[0] == first],
        "more": [each for each in options if each[0] != first],
        "labelled": draft.question.label,
        "classified": "classes" in draft.question.parameters,
    }


def _has_levels(draft: Draft, name: str) -> bool:
    said = draft.public.get(name)
    return isinstance(said, list) or said == "private levels"


def save_question(desk: Desk, draft: Draft, form: Form) -> str:
    """Take the question and its settings."""
    kind = _one(form, "kind")
    if kind not in QUESTIONS:
        raise ValueError("Expected one of the questions on the page, got another; choose one.")
    changed, draft.kind = kind != draft.kind, kind
    if changed:
        draft.out = ""
    if "again" in form or changed:
        return "question"
    usable = [name for name in draft.columns if name != draft.person]
    label = _one(form, "label")
    draft.label = label if label in usable and draft.question.label else ""
    draft.unused = [name for name in usable if name not in form.get("use", [])]
    draft.by = [name for name in form.get("by", []) if name in usable]
    draft.unused = [name for name in draft.unused if name not in draft.by]
    if not draft.used:
        raise ValueError("Expected a column that the question uses, got none; tick some.")
    draft.classes = _one(form, "classes")
    more = {name: _one(form, f"more-{name}") for name in draft.options}
    switches = {"yes": True, "no": False}
    draft.more = {n: switches.get(v, v) for n, v in more.items() if v}  # type: ignore[misc]
    draft.question.plan(draft.settings())  # which refuses what does not fit together
    return "privacy"


# -- 4: how private -----------------------------------------------------------------------------


def show_privacy(desk: Desk, draft: Draft) -> dict[str, Any]:
    """The forecast at what was chosen."""
    try:
        return {"found": forecast(desk, draft)}
    except Exception as error:  # told on the page, where it can be corrected
        return {"found": None, "problem": sentence(error)}


def save_privacy(desk: Desk, draft: Draft, form: Form) -> str:
    """Take epsilon or a risk, delta, and the ledger, which may be made here."""
    take_privacy(draft, form)
    choice = _one(form, "ledger_choice")
    name = _one(form, "ledger")
    if choice == "none":
        draft.ledger = ""
    elif choice == "new":
        path = desk.inside(name)
        promise = draft.question.plan(draft.settings()).guarantee
        ledgers.init(
            str(path),
            epsilon=_number(form, "budget"),
            delta=_number(form, "budget_delta"),
            relation=str(promise.relation),
            accept=[] if desk.seed is None else ["seeded"],
        )
        draft.ledger = str(path.relative_to(desk.folder))
    elif choice == "open":
        known = name == desk.ledger
        with open_ledger(desk.ledger_place(name) if known else str(desk.inside(name))):
            draft.ledger = name if known else str(desk.inside(name).relative_to(desk.folder))
    forecast(desk, draft)
    return "privacy" if "again" in form else "publish"


def _number(form: Form, name: str) -> float:
    try:
        return float(_one(form, name))
    except ValueError:
        said = f"Expected a number for the new budget, got {_one(form, name)!r}; correct it."
        raise ValueError(said) from None


def take_privacy(draft: Draft, form: Form) -> None:
    """Take epsilon or a risk, and delta."""
    by_risk = _one(form, "measure") == "risk"
    draft.epsilon = _one(form, "epsilon") or draft.epsilon
    draft.risk = _one(form, "risk") if by_risk else ""
    draft.delta = _one(form, "delta") or draft.delta


def forecast(desk: Desk, draft: Draft) -> dict[str, Any]:
    """Errors, risk and budget at what was chosen; for the owner, who knows the number of rows."""
    settings, kind = draft.settings(), draft.question
    n_people = desk.people(draft)[0] if draft.person else None
    n_rows = n_people or desk.n_rows(draft)
    expected = kind.forecast(Settings({**settings, "n_rows": n_rows}))
    promise = kind.plan(settings).guarantee
    return {
        "errors": [
            (name, f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}")
            for name, (low, high) in expected.errors.items()
        ],
        "assumptions": expected.assumptions,
        "sentences": promise.sentences(),
        "right": math.ceil(50.0 + 50.0 * promise.risk()),
        "epsilon": promise.epsilon,
        "budget": _budget(desk, draft, promise),
    }


def _budget(desk: Desk, draft: Draft, promise: Any) -> dict[str, Any] | None:
    """The ledger before and after the release."""
    if not draft.ledger:
        return None
    from dataclasses import replace

    honest = replace(promise, private=desk.seed is None)
    with open_ledger(desk.ledger_place(draft.ledger)) as book:
        left, releases = book.remaining(), book.counts()[0]
        before = left.epsilon
        try:
            after, refused = book.preview(honest).epsilon, ""
        except ValueError as error:
            after, refused = before, sentence(error)
        whole = max(book.epsilon, before)
        return {
            "name": draft.ledger,
            "releases": releases,
            "epsilon": book.epsilon,
            "delta": book.delta,
            "before": before,
            "reason": left.reason,
            "after": after,
            "spent_share": 100.0 * (1.0 - before / whole),
            "cost_share": 100.0 * (before - after) / whole,
            "left_share": 100.0 * after / whole,
            "refused": refused,
        }


# -- 5: publish ---------------------------------------------------------------------------------


def show_publish(desk: Desk, draft: Draft) -> dict[str, Any]:
    """What exactly will be published, and what it costs."""
    draft.out = draft.out or desk.free_name(draft)
    plan, known = draft.question.plan(draft.settings()), draft.question.parameters
    call = draft.call()
    return {
        "shapes": {name: " x ".join(map(str, shape)) for name, shape in plan.shapes.items()},
        "n_numbers": sum(math.prod(shape) for shape in plan.shapes.values()),
        "values": [(n, _told(value)) for n, value in draft.values().items() if n in known],
        "sentences": plan.guarantee.sentences(),
        "budget": _budget(desk, draft, plan.guarantee),
        "command": call.command(),
        "mark": mark_of(draft),
    }


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_told(content)}" for name, content in value.items())
    if isinstance(value, tuple):
        return " to ".join(map(str, value))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def mark_of(draft: Draft) -> str:
    """What changes if anything that will be published does: another tab may have changed it."""
    from hashlib import sha256

    return sha256(draft.call().command().encode()).hexdigest()[:16]


def start(desk: Desk, draft: Draft, form: Form) -> None:
    """Publish the draft, once: whoever asks again finds the release that was made."""
    with draft.lock:
        if draft.job is not None and draft.job.outcome().state != "failed":
            return
        if _one(form, "mark") != mark_of(draft):
            raise ValueError(
                "Expected what this page shows, but another tab has changed the draft; look at it "
                "again before you publish."
            )
        if not desk.is_free(draft.out, draft):
            draft.out = ""
            raise ValueError("Expected a new name for the release, but it was taken; look again.")
        draft.job = Job(draft.call(), desk.folder, desk.scratch, draft.key)


def save_publish(desk: Desk, draft: Draft, form: Form) -> str:
    """Take the name of the file and the note for the ledger."""
    name = _one(form, "out")
    path = desk.inside(name)
    if path.parent != desk.folder or path.suffix != ".npz" or not desk.is_free(path.name, draft):
        raise ValueError(f"Expected a new name that ends in .npz, got {name!r}; choose another.")
    draft.out, draft.note = path.name, " ".join(_one(form, "note").split())
    return "publish"


def answer(desk: Desk, draft: Draft) -> dict[str, Any]:
    """How far the release is, and what it says."""
    assert draft.job is not None
    found = draft.job.outcome()
    if found.state != "done":
        return {"outcome": found}
    from ndis.auditing import certificates

    release = _released(desk, found)
    with_ledger = {}
    if draft.ledger:
        with_ledger = {"ledger": open_ledger(desk.ledger_place(draft.ledger))}
    verdict = certificates.verify(release, **with_ledger)
    left = None
    for book in with_ledger.values():
        left = book.remaining()
        book.close()
    call = draft.call()
    return {
        "outcome": found,
        **published(release),
        "verdict": verdict.outcome,
        "checks": [(each.what, each.outcome, each.why) for each in verdict.checks],
        "left": left,
        "command": shown_call(draft).command(),
        "script": shown_call(draft).script(),
        "uploaded": call.source != shown_call(draft).source,
    }


def shown_call(draft: Draft) -> Any:
    """The call as it can be repeated: an upload has no place of its own."""
    from dataclasses import replace

    call = draft.call()
    return replace(call, source=draft.name) if call.source.startswith("/") else call


def _released(desk: Desk, found: JobState) -> Any:
    from ndis.release import Release

    return Release.load(desk.folder / found.file)


def _drawn(each: Any) -> dict[str, Any]:
    """An answer with bars from lower to upper ends, in hundredths of the picture's width."""
    has = tuple(each.headings[:2]) == ESTIMATE
    ends = [_ends(each.headings, row) if has else None for _, row in each.rows]
    known = [found for found in ends if found is not None]
    low, high = min((e[0] for e in known), default=0.0), max((e[2] for e in known), default=0.0)
    dated = DATE in each.units.values()
    if not dated:  # zero means something
        low, high = min(low, 0.0) if low < high / 4 else low, max(high, 0.0)
    width = (high - low) or 1.0
    rows = [
        (
            name,
            cells,
            None if found is None else [100.0 * (end - low) / width for end in found],
        )
        for (name, cells), found in zip(each.cells(), ends, strict=True)
    ]
    return {
        "title": each.title,
        "headings": each.headings,
        "rows": rows[:_MOST_ROWS],
        "bars": bool(known),
        "scale": tuple(as_date(end) if dated else f"{end:.4g}" for end in (low, high)),
        "curve": _curve(rows),
        "note": each.note,
        "hidden": max(len(rows) - _MOST_ROWS, 0),
    }


def _ends(headings: Sequence[str], row: Sequence[float]) -> tuple[float, float, float] | None:
    """The lower end, the estimate and the upper end; without an interval, two standard errors."""
    if headings[2:4] and headings[2].endswith("interval from"):
        found = (row[2], row[0], row[3]) if len(row) >= 4 else ()
    else:
        found = (row[0] - 2 * row[1], row[0], row[0] + 2 * row[1]) if len(row) >= 2 else ()
    return found if found and all(map(math.isfinite, found)) else None


def _curve(rows: Sequence[tuple[str, Any, Any]]) -> dict[str, Any] | None:
    """A line with a band through rows that are named by numbers."""
    try:
        places = [float(name) for name, _, ends in rows if ends is not None]
    except ValueError:
        return None
    if len(places) < 3 or len(places) < len(rows) or places != sorted(set(places)):
        return None
    across = [100.0 * (x - places[0]) / (places[-1] - places[0]) for x in places]
    low, line, high = (
        [f"{x:.2f},{50.0 - ends[k] / 2:.2f}" for x, (_, _, ends) in zip(across, rows, strict=True)]
        for k in range(3)
    )
    return {
        "line": " ".join(line),
        "band": " ".join(low + high[::-1]),
        "ends": (rows[0][0], rows[-1][0]),
    }


def save(desk: Desk, draft: Draft, what: str) -> tuple[bytes, str, str]:
    """A file to keep: its content, type and name; all of it follows from the release alone."""
    assert draft.job is not None
    found = draft.job.outcome()
    if what == "release":
        return (desk.folder / found.file).read_bytes(), "application/octet-stream", found.file
    make, kind, ending = SAVED[what]
    text = make(_released(desk, found), draft)
    return text.encode(), kind, found.file.removesuffix(".npz") + ending


def _csv(release: Any) -> str:
    """What `ndis show --csv` prints."""
    import contextlib
    import io

    answers = told.answers_of(release, told.estimates_of(release))
    with contextlib.redirect_stdout(io.StringIO()) as text:
        told.Answers.of(*answers).tell(False, as_csv=True)
    return text.getvalue()


def published(release: Any) -> dict[str, Any]:
    """What a page says about a release, from the release alone."""
    model = told.restored(release)
    found = told.answers_of(release, told.estimates_of(release, model))
    return {
        "histograms": [*histograms(model)],
        "answers": [_drawn(each) for each in found],
        "sentences": release.guarantee.sentences(),
        "digest": release.digest,
    }


SAVED: dict[str, tuple[Callable[[Any, Draft], str], str, str]] = {
    "certificate": (
        lambda release, draft: json.dumps(release.certificate(), indent=2),
        "application/json",
        ".certificate.json",
    ),
    "csv": (lambda release, draft: _csv(release), "text/csv", ".csv"),
    "page": (lambda release, draft: page(release, draft.out), "text/html", ".html"),
    "command": (lambda release, draft: shown_call(draft).command(), "text/plain", ".sh"),
    "script": (lambda release, draft: shown_call(draft).script(), "text/x-python", ".py"),
    "notebook": (
        lambda release, draft: shown_call(draft).notebook(),
        "application/x-ipynb+json",
        ".ipynb",
    ),
}


def page(release: Any, name: str) -> str:
    """The answers as a page to share, from the release alone."""
    from importlib import resources

    style = resources.files("ndis.app").joinpath("static", "app.css").read_text(encoding="utf8")
    title = name.removesuffix(".npz")
    shared = TEMPLATES.get_template("shared.html")
    return shared.render(title=title, style=style, **published(release))


def sentence(error: Exception) -> str:
    """What an error says; options have the names that they have on the pages."""
    text = re.sub(r"\bpass --?(\w+)[ =](\S+)", r"choose \2 as --\1", in_words(error))
    text = re.sub(r"; see [^;]* --help\.$", "; fill it in.", text)
    return re.sub(r"(?<![\w-])--([a-z][a-z-]+)", lambda m: f"“{m[1].replace('-', ' ')}”", text)


SHOW: dict[str, Callable[[Desk, Draft], dict[str, Any]]] = {
    "table": show_table,
    "public": show_public,
    "question": show_question,
    "privacy": show_privacy,
    "publish": show_publish,
}
SAVE: dict[str, Callable[[Desk, Draft, Form], str]] = {
    "table": save_table,
    "public": save_public,
    "question": save_question,
    "privacy": save_privacy,
    "publish": save_publish,
}
