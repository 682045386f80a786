"""Privacy of Gaussian-output algorithms, computed from one small object: the privacy loss.

Public names are imported on first use, so ``import ndis`` costs almost nothing.

Examples
--------
>>> import ndis
>>> loss = ndis.QuadraticLoss.from_shift(1.0)
>>> round(float(loss.delta(1.0)), 6)
0.126937
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ndis.auditing import Verdict, audit, audit_pair, audit_samples
    from ndis.chi_square import GeneralizedChiSquare
    from ndis.gaussian import Gaussian, monte_carlo_delta, privacy_loss, profile
    from ndis.guarantee import Guarantee, NeighbourRelation
    from ndis.ledger import BudgetExceeded, Ledger
    from ndis.loss import LeastSquaresLoss, Profile, QuadraticLoss, TabulatedLoss
    from ndis.mechanisms.additive import GaussianMechanism, MatrixGaussianMechanism
    from ndis.mechanisms.classification import PrivateLogisticRegression
    from ndis.mechanisms.graph import PrivateGraph
    from ndis.mechanisms.limits import PrivateLimits
    from ndis.mechanisms.moments import PrivateCovariance, PrivatePCA
    from ndis.mechanisms.multiparty.regression import MultiPartyRegression
    from ndis.mechanisms.posterior import GaussianOutput
    from ndis.mechanisms.processes import PrivateGaussianProcess
    from ndis.mechanisms.projection import PrivateProjection
    from ndis.mechanisms.regression import PrivateLeastSquares
    from ndis.mechanisms.sketch import Sketch
    from ndis.release import Release
    from ndis.risk import Risk

__all__ = [
    "BudgetExceeded",
    "Gaussian",
    "GaussianMechanism",
    "GaussianOutput",
    "GeneralizedChiSquare",
    "Guarantee",
    "LeastSquaresLoss",
    "Ledger",
    "MatrixGaussianMechanism",
    "MultiPartyRegression",
    "NeighbourRelation",
    "PrivateCovariance",
    "PrivateGaussianProcess",
    "PrivateGraph",
    "PrivateLeastSquares",
    "PrivateLimits",
    "PrivateLogisticRegression",
    "PrivatePCA",
    "PrivateProjection",
    "Profile",
    "QuadraticLoss",
    "Release",
    "Risk",
    "Sketch",
    "TabulatedLoss",
    "Verdict",
    "audit",
    "audit_pair",
    "audit_samples",
    "monte_carlo_delta",
    "privacy_loss",
    "profile",
]

_HOME = {
    "BudgetExceeded": "ndis.ledger",
    "Gaussian": "ndis.gaussian",
    "GaussianMechanism": "ndis.mechanisms.additive",
    "GaussianOutput": "ndis.mechanisms.posterior",
    "GeneralizedChiSquare": "ndis.chi_square",
    "Guarantee": "ndis.guarantee",
    "LeastSquaresLoss": "ndis.loss",
    "Ledger": "ndis.ledger",
    "MatrixGaussianMechanism": "ndis.mechanisms.additive",
    "MultiPartyRegression": "ndis.mechanisms.multiparty.regression",
    "NeighbourRelation": "ndis.guarantee",
    "PrivateCovariance": "ndis.mechanisms.moments",
    "PrivateGaussianProcess": "ndis.mechanisms.processes",
    "PrivateGraph": "ndis.mechanisms.graph",
    "PrivateLeastSquares": "ndis.mechanisms.regression",
    "PrivateLogisticRegression": "ndis.mechanisms.classification",
    "PrivateLimits": "ndis.mechanisms.limits",
    "PrivatePCA": "ndis.mechanisms.moments",
    "PrivateProjection": "ndis.mechanisms.projection",
    "Profile": "ndis.loss",
    "QuadraticLoss": "ndis.loss",
    "Release": "ndis.release",
    "Risk": "ndis.risk",
    "Sketch": "ndis.mechanisms.sketch",
    "TabulatedLoss": "ndis.loss",
    "Verdict": "ndis.auditing",
    "audit": "ndis.auditing",
    "audit_pair": "ndis.auditing",
    "audit_samples": "ndis.auditing",
    "monte_carlo_delta": "ndis.gaussian",
    "privacy_loss": "ndis.gaussian",
    "profile": "ndis.gaussian",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("ndis")
    if name not in _HOME:
        raise AttributeError(f"module 'ndis' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
