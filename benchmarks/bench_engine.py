"""Accuracy and time of ``delta(epsilon)``, side by side with every peer that installs.

    python benchmarks/bench_engine.py [--bounds]

Writes docs/benchmarks.md, with `--bounds` only its table of proven bounds. The truth is the oracle
of the tests (oracles), which shares no code with the engine. Each peer runs in an environment
of its own under .bench/, with the versions of benchmarks/peers/*.txt; one that cannot be installed
is reported with the reason.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

import numpy as np
from check_pairs import RECORD, summary
from mpmath import mp, mpf

from oracles import Term, delta_reference
from oracles.chi_square import BallExponent, ChiSquareLaw, Tails, inversion
from oracles.cumulant import Cumulant

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
PEERS = Path(__file__).parent / "peers"
ENVIRONMENTS = ROOT / ".bench"
REFERENCE_DIGITS = 25
SINGLE_TARGETS = (1e-6, 1e-9, 1e-12, 1e-15, 1e-30, 1e-100, 1e-300)
SHOWN_TARGETS = (1e-6, 1e-30, 1e-100)
RIGHT = 5e-4  # three right digits
NEAR = 1e-5  # an error below which a peer is named
BOUNDS_HEADING = """## Proven bounds

`loss.delta_bounds(epsilon)`, best of three calls. The truth belongs to the numbers as given: what a
factory rounds is inside.

"""

# Column heading, function in peers/adapters.py, environment (None: this one).
COLUMNS = (
    ("ndis", "ndis_engine", None),
    ("scipy closed forms", "scipy_closed_forms", None),
    ("gx2", "gx2_auto", "gx2"),
    ("gx2 Imhof, tightest", "gx2_imhof", "gx2"),
    ("gx2 ray", "gx2_ray", "gx2"),
    ("dp-accounting analytic", "dp_accounting_analytic", "dp-accounting"),
    ("dp-accounting PLD", "dp_accounting_pld", "dp-accounting"),
    ("prv-accountant", "prv_accountant", "prv-accountant"),
    ("autodp Fourier", "autodp_fourier", "autodp"),
    ("Monte Carlo, 1e6", "monte_carlo", None),
)
UNMEASURED = ("chi2comb",)  # tried, and reported with the reason


# --- Cells ---------------------------------------------------------------------------------------


def families() -> dict[str, dict[str, Any]]:
    """The losses, as the numbers that peers/adapters.py reads."""
    found: dict[str, dict[str, Any]] = {
        "mean shift 1": {"distance": 1.0, "fold": 1},
        "projection p = 0.1, r = 10": {"leverage": 0.1, "components": 10, "fold": 1},
    }
    for d in (2, 5, 10, 20, 100, 500):
        rng = np.random.default_rng(d)
        excess = rng.uniform(0.2, 1.0, d) * np.where(np.arange(d) % 2, -1, 1) / np.sqrt(d)
        shift = rng.uniform(0.0, 0.5, d) ** 2 / d
        found[f"indefinite, d = {d}"] = {
            "excess": excess.tolist(),
            "shift": shift.tolist(),
            "fold": 1,
        }
    found["mean shift 0.01, 1000 times"] = {"distance": 0.01, "fold": 1000}
    found["projection p = 0.001, r = 10, 1000 times"] = {
        "leverage": 0.001,
        "components": 10,
        "fold": 1000,
    }
    return found


def targets(family: dict[str, Any]) -> tuple[float, ...]:
    if family["fold"] == 1:
        return SINGLE_TARGETS
    return (1.6e-11, 1e-100) if "distance" in family else (5e-14, 1e-100)


def terms(family: dict[str, Any]) -> list[Term]:
    """The family as the oracle reads it."""
    if "distance" in family:
        single = [Term.from_ratio(1.0, family["distance"])]
    elif "leverage" in family:
        single = [Term.from_leverage(family["leverage"], family["components"])]
    else:
        single = [
            Term.from_excess(*row) for row in zip(family["excess"], family["shift"], strict=True)
        ]
    return [term.repeated(family["fold"]) for term in single]


def cells() -> Iterator[tuple[str, dict[str, Any], mpf]]:
    """Name, numbers and true delta of every cell; epsilon is chosen to come near the target."""

    def tails(law: ChiSquareLaw, t: mpf, digits: int) -> Tails:
        return inversion(law, t, digits, exponent_type=BallExponent)

    for name, family in families().items():
        with mp.workdps(50):
            cumulant = Cumulant(terms(family))
            for target in targets(family):
                eps = float(cumulant.first(cumulant.tilt(float(mp.log(target)))))
                truth = delta_reference(terms(family), eps, REFERENCE_DIGITS, tails).value
                yield f"{name} @ {target:g}", family | {"eps": eps, "target": target}, truth


# --- Peers ---------------------------------------------------------------------------------------


def environment(name: str) -> tuple[Path, str]:
    """The interpreter of a peer's environment, made if need be, and why it failed, if it did."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    stamp = folder / "installed.txt"
    wanted = (PEERS / f"{name}.txt").read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return python, ""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run(
        [*pip, "install", "-r", str(PEERS / f"{name}.txt")], capture_output=True, text=True
    )
    if done.returncode:
        return python, reason_of(done.stderr)
    stamp.write_text(wanted)
    return python, ""


def reason_of(log: str) -> str:
    """The line of a failed installation that tells most: a compiler's error, else pip's last."""
    lines = [line.strip() for line in log.splitlines() if "error" in line.lower()]
    compiler = [line for line in lines if "fatal error:" in line]
    return compiler[0].split("fatal error:")[1].strip() if compiler else lines[-1] if lines else log


def ask(adapter: str, python: Path, questions: dict[str, Any]) -> dict[str, Any]:
    """The answers of one peer."""
    done = subprocess.run(
        [str(python), str(PEERS / "serve.py"), adapter],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{adapter} failed: {done.stderr[-400:]}")
    return json.loads(done.stdout)


# --- The page ------------------------------------------------------------------------------------


def error_of(answer: dict[str, Any], truth: mpf) -> float | None:
    """Relative error, infinite for a NaN or an exception, None where the peer cannot try."""
    if "error" in answer:
        return float("inf")
    if "value" not in answer:
        return None
    value = answer["value"]
    return float(abs(mpf(value) / truth - 1)) if np.isfinite(value) else float("inf")


def show(answer: dict[str, Any], truth: mpf) -> str:
    error = error_of(answer, truth)
    if error is None:
        return "–"
    if "error" in answer:
        return "fails"
    if not np.isfinite(error):
        return "NaN"
    told = "0" if answer["value"] == 0 else f"{error:.0e}"
    return f"{told} · {milliseconds(answer['seconds'])}"


def milliseconds(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.01 else f"{1e3 * seconds:.2f} ms"


def accuracy_table(names: list[str], rows: dict[str, mpf], answers: dict[str, Any]) -> list[str]:
    columns = [c for c in names if any(answers[c][cell] for cell in rows)]
    lines = [
        "| loss | true delta | " + " | ".join(columns) + " |",
        "|" + " --- |" * (len(columns) + 2),
    ]
    for cell, truth in rows.items():
        shown = " | ".join(show(answers[c][cell], truth) for c in columns)
        lines.append(f"| {cell.split(' @ ')[0]} | {mp.nstr(truth, 3)} | {shown} |")
    return lines


def near_peers(rows: dict[str, mpf], answers: dict[str, Any]) -> str:
    """Who comes near the truth where weights have both signs."""
    indefinite = {cell: truth for cell, truth in rows.items() if cell.startswith("indefinite")}
    ours = max(error_of(answers["ndis"][cell], truth) or 0.0 for cell, truth in indefinite.items())
    near = []
    for cell, truth in indefinite.items():
        for name in set(answers) - {"ndis"}:
            error = error_of(answers[name][cell], truth)
            if error is not None and error < NEAR:
                near.append(f"{name} ({error:.0e}, {cell.split(' @ ')[0]}, {mp.nstr(truth, 1)})")
    told = "; ".join(sorted(near)) or "none"
    return (
        f"Where weights have both signs, the largest error of ndis is {ours:.0e}; "
        f"answers of peers that are off by less than {NEAR:g}: {told}."
    )


def random_pairs() -> str:
    """What the long check of the fast path found, if it has run."""
    if not RECORD.exists():
        return "Not run: `python -m benchmarks.check_pairs --n 100000`."
    return summary(json.loads(RECORD.read_text()))


def floor_table(names: list[str], truths: dict[str, mpf], answers: dict[str, Any]) -> list[str]:
    """The smallest delta down to which every answer has three right digits."""
    lines = ["| loss | " + " | ".join(names) + " |", "|" + " --- |" * (len(names) + 1)]
    for family in families():
        rows = {cell: truth for cell, truth in truths.items() if cell.startswith(f"{family} @")}
        if len(rows) < len(SINGLE_TARGETS):
            continue
        told = []
        for name in names:
            reached = "none"
            errors = {cell: error_of(answers[name][cell], truth) for cell, truth in rows.items()}
            if all(error is None for error in errors.values()):
                reached = "–"
            for cell, error in errors.items():
                if error is None or error > RIGHT:
                    break
                reached = cell.split(" @ ")[1]
            told.append(reached)
        lines.append(f"| {family} | " + " | ".join(told) + " |")
    return lines


def bounds_table(questions: dict[str, Any], truths: dict[str, mpf]) -> list[str]:
    """Width and time of the proven enclosure, and whether the truth lies inside."""
    from ndis.loss import QuadraticLoss

    lines = [
        "| loss | true delta | relative width | truth inside | time |",
        "| --- | --- | --- | --- | --- |",
    ]
    for cell, truth in truths.items():
        family = questions[cell]
        if family["target"] not in SHOWN_TARGETS[:2] and family["fold"] == 1:
            continue
        if "distance" in family:
            loss = QuadraticLoss.from_shift(family["distance"])
        elif "leverage" in family:
            loss = QuadraticLoss.from_leverage(family["leverage"], family["components"])
        else:
            loss = QuadraticLoss(family["excess"], family["shift"], [1] * len(family["excess"]))
        times = []
        for _ in range(3):
            began = time.process_time()
            low, high = (family["fold"] * loss).delta_bounds(family["eps"])
            times.append(time.process_time() - began)
        inside = "yes" if low <= truth <= high else "**no**"
        width = float(high - low) / float(truth)
        lines.append(
            f"| {cell.split(' @ ')[0]} | {mp.nstr(truth, 3)} | {width:.0e} | {inside} |"
            f" {milliseconds(min(times))} |"
        )
    return lines


def machine() -> str:
    """The processor, without any name of the host."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines()
                  if line.startswith("model name")]  # fmt: skip
        model = models[0] if models else model
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "python-flint"))
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"


def page(truths: dict[str, mpf], questions: dict[str, Any], answers: dict[str, Any],
         missing: dict[str, str]) -> str:  # fmt: skip
    names = list(answers)
    single = {
        cell: truth
        for cell, truth in truths.items()
        if questions[cell]["fold"] == 1 and questions[cell]["target"] in SHOWN_TARGETS
    }
    composed = {cell: truth for cell, truth in truths.items() if questions[cell]["fold"] > 1}
    pins = ", ".join(
        line
        for name in sorted({env for _, _, env in COLUMNS if env} - set(missing))
        for line in (PEERS / f"{name}.txt").read_text().splitlines()
        if line.split("==")[0] == name
    )
    failures = [f"- `{name}`: {reason}" for name, reason in missing.items()]
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "Written by `make bench`; do not edit by hand.",
            "",
            f"Machine: {machine()}.",
            f"Peers: {pins}.",
            "",
            "Each cell is the relative error of one delta against the tests' "
            f"{REFERENCE_DIGITS}-digit oracle, and the best processor time of a call that starts "
            "from the numbers of the loss. A dash: the peer has no means to express the loss. "
            '"0": the peer answers zero; "NaN" and "fails" mean what they say. '
            "gx2 appears with its default choice of method, with Imhof's integral at tolerances of "
            "0 and 1e-13, and with its integration over rays.",
            "",
            "## One release",
            "",
            *accuracy_table(names, single, answers),
            "",
            near_peers(single, answers),
            "",
            "## 1000 releases",
            "",
            "The accountants discretise the loss: PLD (connect the dots) on a grid of 1e-4, "
            "prv-accountant for an error of 1 % in epsilon and 0.1 % in delta. They compose any "
            "mechanism; the closed forms beside them know only these two.",
            "",
            *accuracy_table(names, composed, answers),
            "",
            "## How far down",
            "",
            "The smallest delta of the run down to which every answer has three right digits.",
            "",
            *floor_table(names, truths, answers),
            "",
            BOUNDS_HEADING + "\n".join(bounds_table(questions, truths)),
            "",
            "## Random pairs",
            "",
            "The fast path beside proven bounds, and calibrations in ball arithmetic "
            "(`python -m benchmarks.check_pairs --n 100000`):",
            "",
            random_pairs(),
            "",
            "## Peers that could not be measured",
            "",
            *(failures or ["None."]),
            "",
        ]
    )


def renew_bounds(questions: dict[str, Any], truths: dict[str, mpf]) -> None:
    """Put a new table of proven bounds into the page."""
    before, rest = PAGE.read_text().split(BOUNDS_HEADING)
    _, after = rest.split("\n## Random pairs", 1)
    table = "\n".join(bounds_table(questions, truths))
    PAGE.write_text(f"{before}{BOUNDS_HEADING}{table}\n\n## Random pairs{after}")


def main() -> None:
    found = list(cells())
    questions = {name: cell for name, cell, _ in found}
    truths = {name: truth for name, _, truth in found}
    if "--bounds" in sys.argv:
        renew_bounds(questions, truths)
        return
    answers, missing = {}, {}
    for heading, adapter, env in COLUMNS:
        python, failure = environment(env) if env else (Path(sys.executable), "")
        if failure:
            missing[env] = failure
            continue
        answers[heading] = ask(adapter, python, questions)
        worst = max(
            filter(None, (error_of(answers[heading][c], truths[c]) for c in truths)), default=0.0
        )
        print(f"{heading:24s} worst relative error {worst:.1e}", flush=True)
        for cell, answer in answers[heading].items():
            if "error" in answer:
                print(f"    {cell}: {answer['error']}")
    for name in UNMEASURED:
        _, failure = environment(name)
        missing[name] = failure or "no adapter: it did not install where they were written"
        print(f"{name:24s} not measured: {missing[name]}")
    PAGE.write_text(page(truths, questions, answers, missing))
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
