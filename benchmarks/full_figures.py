"""The papers' figures that want a graphics card, at the papers' own size.

    python benchmarks/full_figures.py run FOLDER [figure_7] [figure_8] [figure_9]
    python benchmarks/full_figures.py draw FOLDER

The first writes the rows of each figure (JSON) and, while networks are trained, a line for each
tenth of a training, so that a run that is stopped leaves what it had. It needs torch, numpy, scipy,
scikit-learn and python-flint, and mlxtend for figures 7 and 8, and finds the packages of this
repository by itself; no picture is drawn. The second draws the pictures, anywhere.

Figures 7 and 8 are those of the rank-one paper, figure 9 is that of ndis-2024. Without the papers'
own files the images are made of 5,000 digits, and the table is that of the diabetes patients.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
sys.path[:0] = [str(HERE / "src"), str(HERE / "papers/src")]

JOBS = {"figure_7": "mnist", "figure_8": "cifar"}


def tell(file: Path, noise: Any, step: int, curves: Any) -> None:
    line = {"noise": noise.kind, "scale": noise.scale, "step": step, "curves": curves}
    with file.open("a") as out:
        out.write(json.dumps(line) + "\n")


def run(folder: Path, name: str) -> list[Any]:
    if name == "figure_9":
        from ndis_papers.reproduce import black_box

        panels = black_box.combination_panels(black_box.small_set(None), full=True)
        how = black_box.PAPER_RUNS, black_box.EPSILONS, black_box.CardNetwork()
        return [row for panel in panels for row in black_box.measured(panel, *how)]
    from ndis_papers.reproduce import private_sgd

    job = private_sgd.Job(name, JOBS[name], None, quick=False, full=True)
    return private_sgd.measured(job, functools.partial(tell, folder / f"{name}.lines"))


def draw(file: Path) -> None:
    from ndis_papers.reproduce import black_box, private_sgd

    rows = json.loads(file.read_text())
    module = black_box if file.stem == "figure_9" else private_sgd
    print(module.draw(rows, file.parent))


def main() -> None:
    verb, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if verb == "draw":
        for file in sorted(folder.glob("figure_*.json")):
            draw(file)
        return
    for name in sys.argv[3:] or [*JOBS, "figure_9"]:
        began = time.monotonic()
        rows = run(folder, name)
        (folder / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
