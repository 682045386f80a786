"""The privacy loss: what it is, what it adds up to, and what it means in epsilon and delta."""

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from ndis.loss.base import PrivacyLoss
from ndis.loss.profile import Profile
from ndis.loss.quadratic import QuadraticLoss
from ndis.loss.tabulated import TabulatedLoss

if TYPE_CHECKING:
    from ndis.loss.cumulant_bound import CumulantBound
    from ndis.loss.least_squares import LeastSquaresLoss, removal_loss
    from ndis.loss.student import SketchAndSolveLoss

__all__ = [
    "CumulantBound",
    "LeastSquaresLoss",
    "PrivacyLoss",
    "Profile",
    "QuadraticLoss",
    "SketchAndSolveLoss",
    "TabulatedLoss",
    "from_dict",
    "removal_loss",
]

# Imported on first use: these bring ball arithmetic with them.
_LATER = {
    "CumulantBound": "cumulant_bound",
    "LeastSquaresLoss": "least_squares",
    "SketchAndSolveLoss": "student",
    "removal_loss": "least_squares",
}
_KINDS = {
    "quadratic": "QuadraticLoss",
    "tabulated": "TabulatedLoss",
    "least-squares": "LeastSquaresLoss",
    "sketch-and-solve": "SketchAndSolveLoss",
    "cumulant-bound": "CumulantBound",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'ndis.loss' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"ndis.loss.{_LATER[name]}"), name)
    return value


def from_dict(stored: dict[str, Any]) -> PrivacyLoss:
    """Rebuild a loss from its `to_dict`.

    Other packages name kinds of their own as entry points of the group ``ndis.losses``.

    Examples
    --------
    >>> from ndis.loss import QuadraticLoss, from_dict
    >>> loss = QuadraticLoss.from_shift(0.5)
    >>> from_dict(loss.to_dict()) == loss
    True
    """
    kind = str(stored.get("kind"))
    if kind == "profile":
        return Profile([from_dict(loss) for loss in stored["losses"]])
    if kind in _KINDS:
        own = _KINDS[kind]
        read: Any = globals()[own] if own in globals() else __getattr__(own)
    else:
        found = list(entry_points(group="ndis.losses", name=kind))
        if not found:
            raise ValueError(
                f"Expected a loss of a known kind, got {kind!r}; install the package that wrote it "
                "(ndis-papers for 'radial'), or a newer version of ndis."
            )
        read = found[0].load()
    loss: PrivacyLoss = read.from_dict(stored)
    return loss
