"""A page to choose epsilon with: error, risk and noise at every position of its sliders."""

from ndis.explore.explorer import write_explorer

__all__ = ["write_explorer"]
