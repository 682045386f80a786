"""Records for the registry of deployments: what a certificate knows, and what it does not."""

import pytest

from ndis import Guarantee, Release

ABOUT = {
    "name": "Steps of a club, 2026",
    "data_curators": ["A club"],
    "registry_authors": ["B. Member"],
    "description": "Mean steps a day.",
    "intended_use": "To compare clubs.",
    "data_product_region": "Europe",
    "publication_date": "2026-11-16",
}


def test_a_record_for_the_registry() -> None:
    promise = Guarantee(1.0, 1e-6, "edge", "proven")
    release = Release([1.5], promise, "PrivateGraph", {"method": "sketch"})
    record = release.to_registry(**ABOUT, data_product_sector="Technology")
    assert record["url_slug"] == "steps-of-a-club-2026"
    assert set(record) == {"url_slug", "status", "tier", "deployment"}
    deployment = record["deployment"]
    assert deployment["basic"]["data_product_type"] == "Summary statistics"
    assert deployment["privacy_loss"]["privacy_unit"] == "One edge"
    assert deployment["privacy_loss"]["privacy_parameters_details"] == str(promise)
    assert "PrivateGraph, method sketch, by ndis" in deployment["implementation"]["mechanisms"]
    assert release.digest in deployment["administrative"]["notes"]
    pure = Release([1.5], Guarantee(1.0, 0.0, "party", "proven"), "x").to_registry(**ABOUT)
    assert pure["deployment"]["dp_variant"]["variant_name"] == "Pure DP"
    assert pure["deployment"]["deployment_model"]["model_name"] == "Federated"


def test_no_record_without_a_curator_nor_for_what_does_not_hold() -> None:
    release = Release([1.5], Guarantee(1.0, 1e-6, "replace", "proven"), "x")
    for name in ABOUT:
        with pytest.raises(ValueError, match=f"got none of {name};"):
            release.to_registry(**{k: v for k, v in ABOUT.items() if k != name})
    with pytest.raises(ValueError, match="got also mood;"):
        release.to_registry(**ABOUT, mood="good")
    for broken in ({"basis": "refuted"}, {"private": False}):
        promise = Guarantee(**{**{"basis": "proven"}, "epsilon": 1.0, "delta": 1e-6,
                               "relation": "replace", **broken})  # fmt: skip
        with pytest.raises(ValueError, match="does not"):
            Release([1.5], promise, "x").to_registry(**ABOUT)
