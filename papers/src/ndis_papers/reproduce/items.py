"""Every table and figure of the five papers that has numbers, and what becomes of it here.

`ITEMS` is the one list: ``ndis reproduce --list`` prints it, and the tests hold it against what
the experiments write. Figures that are algorithms or drawings have no numbers and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ndis_papers.reproduce import EXPERIMENTS


@dataclass(frozen=True)
class Item:
    """A table or figure.

    Attributes
    ----------
    paper, place : str
        Where it is.
    shows : str
        What it shows.
    experiment : str
        Of `EXPERIMENTS`: what draws it.
    writes : str
        The file with it, a CSV table or a picture.
    files : tuple of str
        The official files that hold the paper's own data.
    stand_in : str
        What is used where those are not given; nothing if the paper's numbers need no file.
    """

    paper: str
    place: str
    shows: str
    experiment: str
    writes: str
    files: tuple[str, ...] = ()
    stand_in: str = ""

    @property
    def state(self) -> str:
        """Run here, or what is needed for the paper's own data."""
        if not self.files:
            return "run here"
        given = " ".join(f"--file {name}=..." for name in self.files)
        how = f"run here on {self.stand_in}" if self.stand_in else "not run without its file"
        return f"{how}; needs {given} for the paper's data"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able description."""
        return {
            "paper": self.paper,
            "place": self.place,
            "shows": self.shows,
            "state": self.state,
            "experiment": self.experiment,
            "minutes": EXPERIMENTS[self.experiment].minutes,
            "writes": self.writes,
            "files": list(self.files),
        }


_BOTH = ("songs", "cancer")
_MADE = "Flight, and made-up tables for Song and Cancer"
ITEMS = (
    Item(
        "ndis-2024",
        "Table 1",
        "projection: distances and products of columns",
        "ndis-2024",
        "tables_1_and_3.csv",
        _BOTH,
        _MADE,
    ),
    Item(
        "ndis-2024",
        "Table 2",
        "least squares: noise and error",
        "ndis-2024",
        "tables_2_and_4.csv",
        _BOTH,
        _MADE,
    ),
    Item(
        "ndis-2024",
        "Table 3",
        "projection, relative privacy",
        "ndis-2024",
        "tables_1_and_3.csv",
        _BOTH,
        _MADE,
    ),
    Item(
        "ndis-2024",
        "Table 4",
        "least squares, relative privacy",
        "ndis-2024",
        "tables_2_and_4.csv",
        _BOTH,
        _MADE,
    ),
    Item(
        "ndis-2024",
        "Figure 5",
        "sketch-and-solve: runs against theory",
        "ndis-2024-black-box",
        "figure_5.png",
        ("cancer",),
        "Flight, and the diabetes table",
    ),
    Item(
        "ndis-2024",
        "Figure 6",
        "inherent privacy of a projection",
        "ndis-2024",
        "figure_6.png",
        ("songs",),
        "Flight, and a made-up table for Song",
    ),
    Item(
        "ndis-2024",
        "Figure 7",
        "the classic Gaussian mechanism: true delta, least noise",
        "ndis-2024-additive",
        "figure_7.png",
    ),
    Item(
        "ndis-2024",
        "Figure 9",
        "one random combination: runs against theory",
        "ndis-2024-black-box",
        "figure_9.png",
        ("cancer",),
        "a few rows of the diabetes table",
    ),
    Item(
        "ndis-2024",
        "Figure 10",
        "inherent privacy of one combination",
        "ndis-2024",
        "figure_10.png",
        ("songs",),
        "Flight, and a made-up table for Song",
    ),
    Item(
        "ndis-2024",
        "Figure 15",
        "delta of least squares over residual and leverage",
        "ndis-2024-monotone",
        "figure_15.png",
    ),
    Item(
        "ndis-2026",
        "Figure 2",
        "allowed leverage, exact over LSV",
        "ndis-2026",
        "figure_2.png",
    ),
    Item(
        "rank-one-gaussian",
        "Table 1",
        "constants of the expected loss",
        "rank-one-constants",
        "table_1.csv",
    ),
    Item(
        "rank-one-gaussian",
        "Figure 4",
        "maps of noisy counts",
        "rank-one-counts",
        "figure_4.png",
        ("uber",),
        "stops in Minneapolis",
    ),
    Item(
        "rank-one-gaussian",
        "Figure 5",
        "losses of the counts: histograms, densities, means",
        "rank-one-counts",
        "figure_5.png",
        ("uber",),
        "stops in Minneapolis",
    ),
    Item(
        "rank-one-gaussian",
        "Figure 6",
        "principal components: deviation and accuracy",
        "rank-one-pca",
        "figure_6.png",
        ("swarm",),
        "handwritten digits",
    ),
    Item(
        "rank-one-gaussian",
        "Figure 7",
        "private gradient descent on MNIST",
        "rank-one-sgd",
        "figure_7.png",
        ("mnist",),
        "5,000 images of MNIST, with --full 60,000 made of them",
    ),
    Item(
        "rank-one-gaussian",
        "Figure 8",
        "private gradient descent on CIFAR-10",
        "rank-one-sgd",
        "figure_8.png",
        ("cifar",),
        "coloured digits made of MNIST's, with --full only",
    ),
    Item(
        "rank-one-gaussian",
        "Figure 9",
        "expected loss over the size of the query",
        "rank-one-constants",
        "figure_9.png",
    ),
    Item(
        "jl-transform",
        "Table I",
        "errors of cut queries, with rivals",
        "jl-transform",
        "table_1.csv",
    ),
    Item(
        "jl-transform",
        "Table II",
        "errors of directional variances, with rivals",
        "jl-transform",
        "table_2.csv",
    ),
    Item(
        "multi-party",
        "Figure 2",
        "errors of the coefficients over n",
        "multi-party",
        "figure_2.png",
    ),
    Item(
        "multi-party",
        "Figure 3",
        "errors over the least eigenvalue",
        "multi-party",
        "figure_3.png",
        ("insurance",),
        "synthetic data (left), and a made-up stand-in for Insurance (right)",
    ),
    Item(
        "multi-party",
        "Table 1",
        "test errors on five tables",
        "multi-party",
        "table_1.csv",
        ("insurance", "bike", "superconductor", "gpu", "songs"),
        "made-up tables of the same columns, with --full of the same rows, too",
    ),
)
