"""The page around the numbers: what it is about, and what to copy from it."""

from __future__ import annotations

import inspect
import json
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ndis import _validate
from ndis.explore.sliders import grid
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.tabular import TableEstimator
from ndis.release import plain

# Chosen on the page, or no part of a question.
_LEFT_OUT = ("epsilon", "delta", "method", "n_rows", "noise_scale", "random_state", "ledger")


def write_explorer(
    model: PrivateEstimator,
    path: str | Path,
    size: Any = None,
    *,
    n_rows: int = 10_000,
    label: str | None = None,
    question: str | None = None,
    released: PrivateEstimator | None = None,
    seconds: float = 12.0,
    **expected: Any,
) -> Path:
    """Write a page to choose epsilon with, from public numbers only; no data are read.

    It shows error, risk and noise side by side for steps of epsilon, delta and the number of rows,
    solves for epsilon, splits a budget over several releases, and ends in what to copy. It is one
    file, which needs no server and sends nothing anywhere.

    Parameters
    ----------
    model : PrivateEstimator
        The question. Its `epsilon` and `delta` are where the page starts; 1 and 1e-6 if not given.
    path : path-like
        The page, a file that ends in .html.
    size : int, optional
        As in `model.plan`.
    n_rows : int, default 10_000
        Assumed number of rows, where the page starts.
    label : str, optional
        The column to explain.
    question : str, optional
        The question's name on the command line, such as "regression"; without it the page shows
        the Python call only.
    released : PrivateEstimator, optional
        The estimator that is to be copied, where it differs from the one that is planned with.
    seconds : float, default 12.0
        About how long it may take; the sliders have as many steps as there is time for.
    **expected
        What else `model.forecast` is told about the data.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ndis import PrivateCovariance
    >>> from ndis.explore import write_explorer
    >>> model = PrivateCovariance(limits={"age": (0, 120), "income": (0, 1e5)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_explorer(model, pathlib.Path(folder) / "page.html", seconds=1)
    ...     page.stat().st_size < 2_000_000
    True
    """
    out = Path(path)
    if out.suffix != ".html":
        raise ValueError(f"Expected a page with a name in .html, got {out}; rename it.")
    _validate.positive("seconds", seconds)
    numbers = grid(model, size, _validate.count("n_rows", n_rows), seconds, label, expected)
    texts = _texts(model if released is None else released, model, size, label, question)
    # "<" would end the script.
    data = json.dumps({**numbers, **texts}, allow_nan=False).replace("<", "\\u003c")
    template = resources.files("ndis.explore").joinpath("page.html").read_text()
    title = f"Which epsilon? {question or numbers['mechanism']}"
    out.write_text(template.replace("$TITLE", escape(title)).replace("$DATA", data))
    return out


def _texts(
    model: PrivateEstimator,
    planner: PrivateEstimator,
    size: Any,
    label: str | None,
    question: str | None,
) -> dict[str, Any]:
    """What to copy, with $epsilon, $delta and $method to be filled in."""
    given, answers = _given(model), hasattr(model, "sensitivity")
    settings = {**given, **({} if label is None else {"label": label})}
    if answers:  # who is protected, and how many there are, has to be said
        shape = size if isinstance(size, int) else ",".join(map(str, size or [1]))
        settings |= {"relation": str(vars(model)["relation"]), "shape": shape}
    methods = "method" in model.get_params(deep=False)
    named = "columns" in given or isinstance(given.get("limits"), dict)
    nameless = isinstance(model, TableEstimator) and not named
    accepted = inspect.signature(model.plan).parameters
    sized = next(iter(accepted))  # n_features, n_nodes or shape
    planned = {k: v for k, v in {sized: size, "label": label}.items() if v is not None}
    imports, table = "", '"table.csv"'
    if answers:
        imports = "import numpy as np\n"
        table = 'np.loadtxt("table.csv", delimiter=",", skiprows=1, ndmin=2)'
    elif nameless:
        imports, table = "from ndis.tables import Table\n", 'Table.open("table.csv", header=True)'
    return {
        "question": question,
        "about": str(inspect.getdoc(model)).partition("\n")[0],
        "size": "" if size is None or answers else f" --{sized.replace('_', '-')} {size}",
        "header": " --header" if answers or nameless else "",
        "config": "epsilon: $epsilon\ndelta: $delta\n"
        + "method: $method\n" * methods
        # JSON is YAML, too.
        + "".join(f"{k}: {json.dumps(v, ensure_ascii=False)}\n" for k, v in settings.items()),
        "python": {
            "name": type(model).__name__,
            "model": _python(model),
            "planner": "model" if _given(planner) == given else _python(planner),
            "planned": ", ".join(f"{k}={v!r}" for k, v in planned.items() if k in accepted),
            "fit": table + (f", {label!r}" if label else ""),
            "imports": imports,
        },
    }


def _given(model: PrivateEstimator) -> dict[str, Any]:
    """The parameters that are part of the question, where they are not the default."""
    known = inspect.signature(type(model)).parameters
    return plain(
        {
            name: value
            for name, value in model.get_params(deep=False).items()
            if name not in _LEFT_OUT and not np.array_equal(value, known[name].default)
        }
    )


def _python(model: PrivateEstimator) -> str:
    """The call that makes the estimator; more may be added to its end."""
    method = "    method='$method',\n" * ("method" in model.get_params(deep=False))
    rest = "".join(f"    {name}={value!r},\n" for name, value in _given(model).items())
    return f"{type(model).__name__}(\n    epsilon=$epsilon,\n    delta=$delta,\n{method}{rest})"
