"""Tables of any kind and size, summed exactly, in one pass each. Nothing here knows of privacy."""

from ndis.tables.arrays import on_host
from ndis.tables.blocks import Block
from ndis.tables.columns import PRIVATE, Columns, known_levels
from ndis.tables.edges import Edges, read_edges
from ndis.tables.exact import GRID_NORM, MOST_ROWS, ExactSum
from ndis.tables.groups import Cells, GroupCounts, GroupMoments, Named, Positions
from ndis.tables.ids import PersonCounts
from ndis.tables.leverage import joint_gram, leverage_error, leverages
from ndis.tables.progress import track
from ndis.tables.rows import Rows
from ndis.tables.sums import (
    FINER,
    Below,
    Scores,
    Together,
    Weights,
    bounded,
    contrasts,
    moments,
    unclassified,
)
from ndis.tables.table import Table, require_names
from ndis.tables.threads import few_threads
from ndis.tables.weights import Weighting

__all__ = [
    "FINER",
    "GRID_NORM",
    "MOST_ROWS",
    "PRIVATE",
    "Below",
    "Block",
    "Cells",
    "Columns",
    "Edges",
    "ExactSum",
    "GroupCounts",
    "GroupMoments",
    "Named",
    "PersonCounts",
    "Positions",
    "Rows",
    "Scores",
    "Table",
    "Together",
    "Weighting",
    "Weights",
    "bounded",
    "contrasts",
    "few_threads",
    "joint_gram",
    "known_levels",
    "leverage_error",
    "leverages",
    "moments",
    "on_host",
    "read_edges",
    "require_names",
    "track",
    "unclassified",
]
