"""OpenDP: any mechanism of this library as a measurement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndis import _validate
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.loss.contract import SAFETY
from ndis.release import Release

with _validate.installed("OpenDP", "'ndis[interop]'"):
    import opendp.prelude as dp

__all__ = ["make_measurement"]


def make_measurement(
    release: Callable[[Any], Release], guarantee: Guarantee, *, measure: str = "fixed-delta"
) -> dp.Measurement:
    """A mechanism as an OpenDP measurement.

    OpenDP asks for its features "contrib" and "honest-but-curious" to be enabled: it cannot check
    a proof that lives elsewhere.

    Parameters
    ----------
    release : callable
        Maps the data to a release, such as ``lambda table: projection.fit(table).release_``.
    guarantee : Guarantee
        What every such release promises; each one is compared with it.
    measure : {"fixed-delta", "renyi"}
        "fixed-delta" maps a distance to (epsilon, delta), groups included. "renyi" maps it to the
        curve of Renyi divergences, for a distance of at most one; it needs a guarantee that
        carries its loss.

    Returns
    -------
    opendp.Measurement
        Its input metric is the symmetric distance for add-remove, the change-one distance for
        replace, and a distance named after any other relation. It returns the `Release`.

    Examples
    --------
    >>> import numpy as np
    >>> import opendp.prelude as dp
    >>> from ndis import PrivateProjection
    >>> from ndis.interop.opendp import make_measurement
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> projection = PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=1.0, n_components=9)
    >>> measurement = make_measurement(
    ...     lambda table: projection.fit(table).release_, projection.guarantee(2)
    ... )
    >>> measurement.map(1)
    (1.0, 1e-06)
    >>> measurement(np.array([[0.6, 0.8], [0.0, 1.0]])).arrays["sketch"].shape
    (2, 9)
    """
    kind = _validate.one_of("measure", measure, _MEASURES)
    if guarantee.basis != "proven" or not guarantee.private:
        raise ValueError(
            f"Expected a proven guarantee, got {guarantee.basis!r} with private="
            f"{guarantee.private}; OpenDP would count it as one that always holds."
        )
    output_measure, privacy_map = _MEASURES[kind](guarantee)
    promised = (guarantee.epsilon, guarantee.delta, guarantee.relation, "proven", True)

    def function(data: Any) -> Release:
        made = release(data)
        got = made.guarantee
        if (got.epsilon, got.delta, got.relation, got.basis, got.private) != promised:
            raise ValueError(
                "Expected a release with the guarantee of the measurement, got another; "
                "make the measurement with the guarantee of this mechanism."
            )
        return made

    domain = dp.user_domain("data of ndis", lambda _: True)
    metric = _metric(guarantee.relation)
    return dp.m.make_user_measurement(domain, metric, output_measure, function, privacy_map)


def _metric(relation: NeighbourRelation) -> Any:
    if relation is NeighbourRelation.ADD_REMOVE:
        return dp.symmetric_distance()
    if relation is NeighbourRelation.REPLACE:
        return dp.change_one_distance()
    return dp.user_distance(str(relation))


def _fixed_delta(guarantee: Guarantee) -> tuple[Any, Callable[[Any], tuple[float, float]]]:
    def privacy_map(distance: Any) -> tuple[float, float]:
        if distance == 0:
            return 0.0, 0.0
        group = guarantee.for_group(int(distance))
        return group.epsilon, group.delta

    return dp.fixed_smoothed_max_divergence(), privacy_map


def _renyi(guarantee: Guarantee) -> tuple[Any, Callable[[Any], Callable[[float], float]]]:
    loss = guarantee.loss
    if loss is None:
        raise ValueError(
            "Expected a guarantee that carries its loss, got one without; use 'fixed-delta'."
        )

    def privacy_map(distance: Any) -> Callable[[float], float]:
        if distance == 0:
            return lambda order: 0.0
        if distance > 1:
            raise ValueError(
                f"Expected a distance of at most 1 for Renyi divergences, got {distance}; "
                "use 'fixed-delta' for groups."
            )
        return lambda order: float(loss.renyi(order)) * (1.0 + SAFETY)

    return dp.renyi_divergence(), privacy_map


_MEASURES: dict[str, Callable[[Guarantee], tuple[Any, Any]]] = {
    "fixed-delta": _fixed_delta,
    "renyi": _renyi,
}
