"""How long the app takes: to its first page, and from the button to the picture of an answer.

The table has 100,000 rows and ten columns. Printed are seconds by the clock, of a client that asks
for the pages as a browser does; processes use as many cores as `taskset` leaves them.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/helpers"))

from app_pages import served

N_ROWS, N_NUMBERS = 100_000, 9


def write_table(path: Path) -> None:
    """Nine numbers and a group, with semicolons and decimal commas."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(50.0, 10.0, (N_ROWS, N_NUMBERS)).clip(0.0, 100.0)
    groups = rng.choice(["a", "b", "c", "d"], N_ROWS)
    with path.open("w") as file:
        file.write(";".join([*(f"x{k}" for k in range(N_NUMBERS)), "group"]) + "\n")
        for row, group in zip(numbers, groups, strict=True):
            file.write(";".join([*(f"{x:.2f}".replace(".", ",") for x in row), group]) + "\n")


def main() -> None:
    """Print the two times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder / "table.csv")
        started = time.perf_counter()
        with served(folder) as client:
            client.ask("GET", f"{client.new()}/table")
            print(f"from the command to the first page: {time.perf_counter() - started:.2f} s")
            draft = client.new()
            client.step(draft, "table", path="table.csv")
            started = time.perf_counter()
            client.ask("GET", f"{draft}/table")
            print(f"the owner's pictures: {time.perf_counter() - started:.2f} s")
            columns = [str(k) for k in range(N_NUMBERS + 1)]
            client.step(draft, "table", column=columns)
            limits = {f"{end}-{k}": v for k in range(9) for end, v in (("low", 0), ("high", 100))}
            client.step(draft, "public", **limits, **{"levels-9": "a\nb\nc\nd"})
            used = [*(f"x{k}" for k in range(N_NUMBERS)), "group"]
            client.step(draft, "question", kind="summary", use=used, by=["group"])
            said = {"measure": "epsilon", "epsilon": "1", "delta": "1e-6"}
            budget = {"ledger": "budget.ndis", "budget": "3", "budget_delta": "1e-5"}
            client.step(draft, "privacy", ledger_choice="new", **said, **budget)
            button = {"mark": client.mark(draft)}
            started = time.perf_counter()
            client.ask("POST", f"{draft}/start", button)
            page = client.wait(draft)
            assert "Verified: the file" in page, page
            print(f"from the button to the picture: {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
