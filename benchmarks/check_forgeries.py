"""Forge certificates of every mechanism, one field at a time, and count what becomes of them.

    python benchmarks/check_forgeries.py

Each field of a certificate is set to several better values, worse ones and ones of another kind. A
forgery is not read, refuted, not checkable, or promises no more than its own parameters imply; if
one were called checked and promised more, the run would end with its name.
"""

import sys
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/helpers"))

from estimators import all_cases, fitted
from forging import judged, parties

OUTCOMES = ("not read", "refuted", "not checkable", "implied")


def main() -> None:
    warnings.simplefilter("error")
    total: Counter[str] = Counter()
    honest = {case.name: lambda case=case: fitted(case).release_ for case in all_cases()}
    honest |= {f"several parties, {name}": lambda r=r: r for name, r in parties().items()}
    print(f"{'':32s}" + "".join(f"{outcome:>15s}" for outcome in OUTCOMES))
    for name, release in honest.items():
        found = judged(release())
        total += found
        print(f"{name:32s}" + "".join(f"{found[each]:15,d}" for each in OUTCOMES), flush=True)
    print(f"{'all':32s}" + "".join(f"{total[each]:15,d}" for each in OUTCOMES))
    print(f"{total.total():,} forgeries of {len(honest)} configurations, none passed.")


if __name__ == "__main__":
    main()
