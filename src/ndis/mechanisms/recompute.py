"""What a mechanism's public parameters imply, for those who hold a release and do not trust it.

The parameters in a certificate are those of the estimator and its noise, so its plan can be made
again without data. A mechanism that is no estimator takes part by a function
``recompute(mechanism, parameters)`` in its module, named in `HOMES`. Parameters come from a
stranger's file: whatever they make the plan raise is for the caller to catch, and nothing is
computed whose size depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ndis.mechanisms.plugins import NotInstalled, estimator_named, methods_of, missing
from ndis.mechanisms.run import Plan

HOMES = {
    "MultiPartyPart": "ndis.mechanisms.multiparty.joint_regression",
    "MultiPartyRegression": "ndis.mechanisms.multiparty.joint_regression",
}


def implied(
    mechanism: str, parameters: Mapping[str, Any], delta: float, epsilon: float | None = None
) -> Plan | None:
    """What the parameters of a release imply; None for a mechanism that nobody can recompute.

    Parameters
    ----------
    mechanism, parameters, delta
        As in the certificate.
    epsilon : float, optional
        What to promise; the epsilon that follows if not given, which may take long to find.

    Examples
    --------
    >>> from ndis.mechanisms.recompute import implied
    >>> parameters = {"sensitivity": 1.0, "shape": [3], "noise_scale": 5.0}
    >>> f"{implied('GaussianMechanism', parameters, 1e-6).loss.delta(1.0):.1e}"
    '1.8e-08'
    >>> implied("Nonsense", {}, 1e-6) is None
    True
    """
    if mechanism in HOMES:
        found: Plan = import_module(HOMES[mechanism]).recompute(mechanism, parameters)
        return found
    estimator = estimator_named(mechanism)
    if estimator is None:
        if "package" in parameters:
            raise NotInstalled(missing(mechanism, str(parameters["package"])))
        return None
    method, chosen = parameters.get("method"), hasattr(estimator, "method")
    known = {*estimator.methods, *methods_of(estimator)}
    if "package" in parameters and chosen and method not in known:
        what = f"method={method!r} of {mechanism}"
        raise NotInstalled(missing(what, str(parameters["package"])))
    plan: Plan = estimator.from_public(parameters, delta, epsilon)
    return plan
