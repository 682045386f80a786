"""What all private estimators share: one way to release, one way to show themselves.

A mechanism stores its parameters in ``__init__`` and does nothing else there. `calibrate` finds
the noise without data; `fit` reads the data and calls `_release` once. Everything fitted that
may leave the house is in `release_`; other fitted attributes belong to the owner of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from ndis.guarantee import Guarantee
from ndis.mechanisms.publish import ask, publish
from ndis.randomness import RandomState
from ndis.release import Release, Shapes

if TYPE_CHECKING:
    from ndis.ledger import Ledger


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the estimators: parameters by keyword, `release_` and `guarantee_` after fitting."""

    random_state: RandomState
    ledger: Ledger | None
    release_: Release

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of what was released."""
        return self.release_.guarantee

    @property
    def output_copies(self) -> int:
        """How many independent draws of `output_law` a release holds."""
        return 1

    def _ask(self, guarantee: Guarantee) -> None:
        """Ask the ledger for this release before any data are read."""
        ask(guarantee, self.ledger, self.random_state)

    def _release(
        self,
        draw: Callable[[np.random.Generator], Any],
        guarantee: Guarantee,
        parameters: Mapping[str, Any],
        shapes: Shapes,
    ) -> Release:
        """Publish under the estimator's name."""
        self.release_ = publish(
            draw,
            guarantee,
            type(self).__name__,
            parameters,
            shapes,
            random_state=self.random_state,
            ledger=self.ledger,
        )
        return self.release_

    def _repr_html_(self) -> str:
        """Parameters and, after fitting, the guarantee as a sentence."""
        promise = f"<p>{escape(str(self.guarantee_))}</p>" if hasattr(self, "release_") else ""
        return f"<pre>{escape(repr(self))}</pre>{promise}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
