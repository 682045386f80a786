"""Mutated release files against ``ndis verify``: what it answers and believes, how long it takes.

    python benchmarks/fuzz_releases.py [FILES [FIRST_SEED]]

Every file is a release of the library, damaged, repacked or forged by somebody who knows the
format (``helpers/fuzzing.py``). The program runs in this process, under an alarm of a minute per
file. A file is believed falsely if its exit code is 0 and it promises more than its original
proves.
"""

import contextlib
import io
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))

import numpy as np

from fuzzing import is_stronger, mutant
from memory import peak_memory
from ndis import (
    GaussianMechanism,
    Guarantee,
    MatrixGaussianMechanism,
    PrivateCovariance,
    PrivateLeastSquares,
    PrivateProjection,
    Profile,
    QuadraticLoss,
    Release,
)
from ndis.cli import main
from ndis.mechanisms.multiparty import Agreement, release_party

SETTINGS = {"epsilon": 1.0, "delta": 1e-6}
MEANING = {0: "checked", 1: "refuted", 2: "unreadable", 5: "not checkable"}
LIMIT_SECONDS = 60


def corpus(folder: Path) -> list[bytes]:
    """Releases of mechanisms that can be recomputed, and of others."""
    rows = np.random.default_rng(0).random((50, 3))
    agreement = Agreement(50, {"a": {"x0": (0, 1), "x1": (0, 1)}}, **SETTINGS, seed=1)
    wide = Profile.both(QuadraticLoss.from_leverage(0.1, 20) + QuadraticLoss.from_shift(0.1))
    made = [
        GaussianMechanism(**SETTINGS, sensitivity=1.0).release(rows),
        MatrixGaussianMechanism(**SETTINGS, sensitivity=1.0).release(rows),
        PrivateProjection(**SETTINGS, data_norm=2.0, n_components=9).fit(rows).release_,
        PrivateLeastSquares(**SETTINGS, data_norm=2.0, label_bound=1.0)
        .fit(rows, rows[:, 0])
        .release_,
        PrivateLeastSquares(**SETTINGS, data_norm=2.0, label_bound=1.0, method="gaussian-limit")
        .fit(rows, rows[:, 0])
        .release_,
        PrivateCovariance(**SETTINGS, data_norm=2.0, method="sketch", n_components=9)
        .fit(rows)
        .release_,
        release_party(agreement, "a", rows[:, :2]),
        Release(rows, Guarantee(0.1, 1e-9, "edge", "refuted", wide, note="A note."), "Unknown"),
        Release(rows, Guarantee(1.0, 1e-6, "edge", "declared", None), "Unknown", {"a": [1, {}]}),
    ]
    paths = [release.save(folder / f"{n}.npz") for n, release in enumerate(made)]
    return [path.read_bytes() for path in paths]


def verify(path: Path) -> int:
    """The exit code of the program."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(["verify", str(path)])
    except SystemExit as leaving:
        if "\x1b" in out.getvalue() + err.getvalue():
            raise RuntimeError("an escape sequence was printed") from None
        return int(leaving.code or 0)
    raise RuntimeError("the program did not leave")


def alarm(*_: object) -> None:
    raise TimeoutError("a file took too long")


def run(files: int, first: int) -> bool:
    """Verify that many mutants and print what came of them; whether all is well."""
    codes: Counter[int] = Counter()
    believed, faults, slowest = [], [], (0.0, -1)
    signal.signal(signal.SIGALRM, alarm)
    with tempfile.TemporaryDirectory() as name:
        path, originals = Path(name) / "mutant.npz", corpus(Path(name))
        before = peak_memory()
        for seed in range(first, first + files):
            original, content = mutant(originals, seed)
            path.write_bytes(content)
            started = time.process_time()
            signal.alarm(LIMIT_SECONDS)
            try:
                code = verify(path)
                codes[code] += 1
                if code == 0 and content != original and is_stronger(path, original):
                    believed.append(seed)
            except BaseException:
                faults.append(seed)
                traceback.print_exc(limit=-3)
            signal.alarm(0)
            slowest = max(slowest, (time.process_time() - started, seed))
    memory = peak_memory()
    print(f"{files} mutated release files, seeds {first} to {first + files - 1}")
    for code in sorted(codes):
        print(f"  exit {code}, {MEANING.get(code, 'NOT ALLOWED')}: {codes[code]}")
    print(f"  tracebacks, time-outs, escape sequences: {len(faults)} {faults[:9] or ''}")
    print(f"  believed falsely: {len(believed)} {believed[:9] or ''}")
    print(f"  slowest: {slowest[0]:.2f} s of processor time (seed {slowest[1]})")
    print(f"  memory at most: {memory:.0f} MB ({before:.0f} MB before the first file)")
    return not faults and not believed and codes.keys() <= MEANING.keys() and memory < 500


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(not run(*(given + [10_000, 0][len(given) :])))
