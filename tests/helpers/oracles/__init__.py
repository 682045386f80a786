"""Independent references for the engine: they share no code with ``ndis``."""

from .chi_square import (
    ChiSquareLaw,
    Tails,
    chi_square_cdf,
    chi_square_sf,
    chi_square_tails,
    convolution,
    inversion,
    ruben,
)
from .delta import (
    Delta,
    Term,
    delta_reference,
    equal_covariance_delta,
    loss_laws,
    monte_carlo,
    projection_delta,
)
from .reference import ReferenceCase, ReferenceLoss, load_cases

__all__ = [
    "ChiSquareLaw",
    "Delta",
    "ReferenceCase",
    "ReferenceLoss",
    "Tails",
    "Term",
    "chi_square_cdf",
    "chi_square_sf",
    "chi_square_tails",
    "convolution",
    "delta_reference",
    "equal_covariance_delta",
    "inversion",
    "load_cases",
    "loss_laws",
    "monte_carlo",
    "projection_delta",
    "ruben",
]
