"""Tables of any kind and size, summed in one pass. Nothing here knows of privacy."""

from ndis.tables.edges import Edges, read_edges
from ndis.tables.gram import Gram, GramAccumulator, read_gram
from ndis.tables.leverage import leverage_error, leverages_and_residuals, row_leverages
from ndis.tables.progress import track
from ndis.tables.rows import Rows, norm_from_limits, scale_rows
from ndis.tables.sources import Batches, batches

__all__ = [
    "Batches",
    "Edges",
    "Gram",
    "GramAccumulator",
    "Rows",
    "batches",
    "leverage_error",
    "leverages_and_residuals",
    "norm_from_limits",
    "read_edges",
    "read_gram",
    "row_leverages",
    "scale_rows",
    "track",
]
