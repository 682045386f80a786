"""A hook of mkdocs: parameters.md, which estimator takes which parameter and what it means."""

import inspect
from typing import Any

from mkdocs.structure.files import File

from ndis.cli.kinds import KINDS
from ndis.cli.settings import described
from ndis.mechanisms.tabular import TableEstimator

_ALONE = 2  # parameters of fewer estimators stand in their own lists


def page() -> str:
    """The table of parameters that several estimators share, then those of single ones."""
    kinds = [KINDS[name] for name in KINDS.ours]
    base = described(TableEstimator)
    about = {kind: described(kind.estimator) for kind in kinds}
    taken = {kind: [*inspect.signature(kind.estimator).parameters] for kind in kinds}
    names = dict.fromkeys(name for kind in kinds for name in taken[kind])
    users = {name: [kind for kind in kinds if name in taken[kind]] for name in names}
    shared = {name: found for name, found in users.items() if len(found) > _ALONE}
    parts = [
        "# Parameters of all estimators",
        "One word means one thing everywhere. On the command line `n_components` is "
        "`--n-components`. Each estimator's own page says more.",
        "## Shared",
        "| parameter | type | meaning | taken by |\n| --- | --- | --- | --- |",
    ]
    rows = [
        _row(name, base if name in base else about[found[0]], found, len(kinds))
        for name, found in shared.items()
    ]
    parts[-1] += "\n" + "\n".join(rows)
    for kind in kinds:
        own = [name for name in taken[kind] if name not in shared]
        if own:
            head = f"## {kind.home}\n\n| parameter | type | meaning |\n| --- | --- | --- |\n"
            cells = (_cells(name, about[kind]) for name in own)
            parts.append(head + "\n".join(f"| {' | '.join(each)} |" for each in cells))
    return "\n\n".join(parts) + "\n"


def _cells(name: str, about: Any) -> list[str]:
    kind, meaning = about.get(name, ("", ""))
    text = meaning.partition(". ")[0].rstrip(".").replace("|", "\\|").replace("<", "&lt;")
    return [f"`{name}`", kind.replace("|", "\\|"), f"{text}." if text else ""]


def _row(name: str, about: Any, users: list[Any], most: int) -> str:
    said = "all" if len(users) == most else ", ".join(f"`{kind.name}`" for kind in users)
    return f"| {' | '.join([*_cells(name, about), said])} |"


def on_files(files: Any, config: Any) -> Any:
    """Make the page."""
    files.append(File.generated(config, "parameters.md", content=page()))
    return files
