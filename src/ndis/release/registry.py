"""A record of a release for OpenDP's registry of deployments, in its schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ndis.guarantee import NeighbourRelation

if TYPE_CHECKING:
    from ndis.release.release import Release

# What the registry of deployments asks of a curator, and what else it takes.
_ABOUT = (
    "name",
    "data_curators",
    "description",
    "intended_use",
    "data_product_region",
    "publication_date",
)
_ABOUT_MORE = ("data_product_type", "data_product_sector")


def record(release: Release, about: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the registry: fields of the certificate, and those only the curator knows."""
    promise = release.guarantee
    promise.must_hold()
    needed = (*_ABOUT, "registry_authors")
    known = {"data_product_type": "Summary statistics", **about}
    missing = [name for name in needed if not known.get(name)]
    unknown = [name for name in known if name not in (*needed, *_ABOUT_MORE)]
    if missing or unknown:
        wrong = f"none of {', '.join(missing)}" if missing else f"also {', '.join(unknown)}"
        raise ValueError(
            f"Expected {', '.join(needed)} for the registry, got {wrong}; correct them."
        )
    party = promise.relation is NeighbourRelation.PARTY
    method = release.parameters.get("method")
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", str(known["name"]).lower()).strip("-"),
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": {name: known[name] for name in (*_ABOUT, *_ABOUT_MORE) if name in known},
            "dp_variant": {"variant_name": "Approximate DP" if promise.delta else "Pure DP"},
            "privacy_loss": {
                "privacy_unit": promise.relation.unit,
                "privacy_unit_details": f"Adjacent: {promise.relation.change}.",
                "privacy_parameters": {"epsilon": promise.epsilon, "delta": promise.delta},
                "privacy_parameters_details": str(promise),
            },
            "deployment_model": {
                "model_name": "Federated" if party else "Central",
                "release_type": "One release",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "mechanisms": f"{release.mechanism}{f', method {method}' if method else ''}, by "
                f"{release.library}; noise is drawn exactly and rounded correctly."
            },
            "administrative": {
                "notes": f"SHA-256 of the release: {release.digest}",
                "registry_authors": list(known["registry_authors"]),
            },
        },
    }
