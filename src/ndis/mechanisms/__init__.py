"""One file a family: what is bought, the bound on one row, the loss, the draw.

What somebody needs who writes a mechanism is here; docs/how-to-add-a-mechanism.md explains it.
"""

from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.intervals import Intervals
from ndis.mechanisms.run import Arrays, EstimatorMethod, Forecast, Method, Plan, Run
from ndis.mechanisms.tabular import TableEstimator
from ndis.mechanisms.target import (
    Part,
    Target,
    chosen_noise,
    mean_shift,
    noise_of,
    require_rows,
)

__all__ = [
    "Arrays",
    "EstimatorMethod",
    "Forecast",
    "Intervals",
    "Method",
    "Part",
    "Plan",
    "PrivateEstimator",
    "Run",
    "TableEstimator",
    "Target",
    "chosen_noise",
    "mean_shift",
    "noise_of",
    "require_rows",
]
