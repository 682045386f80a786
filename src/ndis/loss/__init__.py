"""The privacy loss: what it is, what it adds up to, and what it means in epsilon and delta."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ndis.loss.contract import PrivacyLoss
from ndis.loss.profile import Profile
from ndis.loss.quadratic import QuadraticLoss
from ndis.loss.stored import from_dict
from ndis.loss.tabulated import TabulatedLoss

if TYPE_CHECKING:
    from ndis.loss.cumulant_bound import CumulantBound
    from ndis.loss.discrete_laplace import DiscreteLaplaceLoss
    from ndis.loss.least_squares import LeastSquaresLoss, removal_loss
    from ndis.loss.spherical import SphericalLoss
    from ndis.loss.student import SketchAndSolveLoss

__all__ = [
    "CumulantBound",
    "DiscreteLaplaceLoss",
    "LeastSquaresLoss",
    "PrivacyLoss",
    "Profile",
    "QuadraticLoss",
    "SketchAndSolveLoss",
    "SphericalLoss",
    "TabulatedLoss",
    "from_dict",
    "removal_loss",
]

# Imported on first use.
_LATER = {
    "CumulantBound": "cumulant_bound",
    "DiscreteLaplaceLoss": "discrete_laplace",
    "LeastSquaresLoss": "least_squares",
    "SketchAndSolveLoss": "student",
    "SphericalLoss": "spherical",
    "removal_loss": "least_squares",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'ndis.loss' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"ndis.loss.{_LATER[name]}"), name)
    return value
