"""The mechanisms that the command line knows: how to make, calibrate, forecast and release each.

One class a mechanism; the classes hold no state and import their mechanism when they are used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from ndis.cli.settings import Settings

if TYPE_CHECKING:
    from ndis._validate import FloatArray
    from ndis.guarantee import Guarantee
    from ndis.loss import PrivacyLoss
    from ndis.release import Release

_TABLE = {"columns": "columns", "levels": "levels", "clip": "clip", "public_rows": "n_rows"}
_COMMON = {"epsilon": "epsilon", "delta": "delta"}


class Kind(ABC):
    """A mechanism of the command line.

    Attributes
    ----------
    summary : str
    parameters : dict of str to str
        Options and the parameters of the mechanism that they stand for.
    sizes : tuple of str
        What else `noise` has to know where there are no data.
    expectations : tuple of str
        What else `forecast` has to know.
    """

    summary: str
    parameters: ClassVar[dict[str, str]]
    sizes: tuple[str, ...] = ()
    expectations: tuple[str, ...] = ()

    @abstractmethod
    def make(self, settings: Settings, **more: Any) -> Any:
        """The mechanism."""

    def noise(self, settings: Settings) -> float:
        """Its noise scale, without data."""
        return float(self.make(settings).calibrate())

    def loss(self, settings: Settings) -> PrivacyLoss | None:
        """Its worst-case privacy loss, without data, if it can be told."""
        return None

    def promise(self, settings: Settings) -> Guarantee | None:
        """What a release will promise, without data, if it can be told; a plan is made of these."""
        return None

    @abstractmethod
    def forecast(self, settings: Settings) -> dict[str, float]:
        """Errors to be expected, by name."""

    def release(self, settings: Settings, source: Any, **more: Any) -> Release:
        """Read the data, spend, publish."""
        result: Release = self.make(settings, **more).fit(source).release_
        return result

    def _arguments(self, settings: Settings) -> dict[str, Any]:
        for name in _COMMON:
            settings.need(name)
        return settings.named(self.parameters)


class Projection(Kind):
    """`PrivateProjection`."""

    summary = "A sketch of a table: inner products, regressions and components for anybody."
    parameters: ClassVar[dict[str, str]] = {
        **_COMMON,
        **_TABLE,
        "data_norm": "data_norm",
        "components": "n_components",
        "method": "method",
        "rate": "rate",
        "intercept": "intercept",
    }
    expectations = ("rows", "width")

    def make(self, settings: Settings, **more: Any) -> Any:
        """A projection."""
        from ndis.mechanisms.projection import PrivateProjection

        settings.need("data_norm")
        settings.need("components")
        return PrivateProjection(**self._arguments(settings), **more)

    def promise(self, settings: Settings) -> Guarantee | None:
        """The same whatever the table is."""
        result: Guarantee = self.make(settings).guarantee()
        return result

    def loss(self, settings: Settings) -> PrivacyLoss | None:
        """The loss of the guarantee, where it has one."""
        result: PrivacyLoss | None = self.make(settings).guarantee().loss
        return result

    def forecast(self, settings: Settings) -> dict[str, float]:
        """For rows of full length that point everywhere alike."""
        expected = self.make(settings).forecast(
            n_rows=settings.need("rows"), n_columns=settings.need("width")
        )
        return {
            "noise scale": expected.noise_scale,
            "relative error of the Gram matrix": expected.relative_error,
        }


class Regression(Kind):
    """`PrivateLeastSquares`."""

    summary = "Linear regression: the coefficients."
    parameters: ClassVar[dict[str, str]] = {
        **_COMMON,
        **_TABLE,
        "data_norm": "data_norm",
        "label_bound": "label_bound",
        "components": "n_components",
        "rounds": "n_rounds",
        "method": "method",
    }
    sizes = ("features",)
    expectations = ("rows", "features", "explained")

    def make(self, settings: Settings, **more: Any) -> Any:
        """A regression."""
        from ndis.mechanisms.regression import PrivateLeastSquares

        settings.need("data_norm")
        return PrivateLeastSquares(**self._arguments(settings), **more)

    def noise(self, settings: Settings) -> float:
        """For so many features."""
        return float(self.make(settings).calibrate(settings.need("features")))

    def forecast(self, settings: Settings) -> dict[str, float]:
        """For the method that is asked for; for all of them if none is."""
        from ndis.mechanisms.regression_methods import METHODS

        def expected(method: str) -> Any:
            model = self.make(Settings({**settings, "method": method}))
            n_rows, n_features = settings.need("rows"), settings.need("features")
            return model.forecast(n_features, n_rows, explained=settings.get("explained", 0.5))

        if "method" not in settings:
            lost = {f"R^2 lost, {name}": expected(name).lost for name in reversed(METHODS)}
            return {**lost, "R^2 lost, auto": expected("auto").lost}
        errors = expected(settings["method"])
        return {
            "noise scale": errors.noise_scale,
            "relative error of the coefficients": errors.coefficient_error,
            "R^2 lost": errors.lost,
        }

    def release(self, settings: Settings, source: Any, **more: Any) -> Release:
        """The label is a column of the table."""
        result: Release = self.make(settings, **more).fit(source, settings.need("label")).release_
        return result


class Covariance(Kind):
    """`PrivateCovariance`."""

    summary = "Variances in any direction, and the mean."
    parameters: ClassVar[dict[str, str]] = {
        **_COMMON,
        **_TABLE,
        "components": "n_components",
        "data_norm": "data_norm",
        "relation": "relation",
        "mean": "mean",
    }
    expectations = ("scatter",)

    def make(self, settings: Settings, **more: Any) -> Any:
        """A covariance."""
        from ndis.mechanisms.covariance import PrivateCovariance

        settings.need("components")
        return PrivateCovariance(**self._arguments(settings), **more)

    def loss(self, settings: Settings) -> PrivacyLoss | None:
        """Its worst case."""
        result: PrivacyLoss = self.make(settings).worst_case()
        return result

    def forecast(self, settings: Settings) -> dict[str, float]:
        """Of the scatter in one direction."""
        scatter = settings.get("scatter", 0.0)
        return {
            "noise scale": self.noise(settings),
            "standard error of the scatter": float(self.make(settings).forecast(scatter)),
        }


class Graph(Kind):
    """`PrivateGraph`."""

    summary = "Cuts of a graph; a table lists the edges in columns source and target."
    parameters: ClassVar[dict[str, str]] = {
        **_COMMON,
        "components": "n_components",
        "weight": "weight",
    }
    sizes = ("nodes",)
    expectations = ("nodes", "set_size", "cut")

    def make(self, settings: Settings, **more: Any) -> Any:
        """A graph."""
        from ndis.mechanisms.graph import PrivateGraph

        settings.need("components")
        return PrivateGraph(**self._arguments(settings), **more)

    def noise(self, settings: Settings) -> float:
        """The weight of the complete graph."""
        return float(self.make(settings).calibrate(self._nodes(settings)))

    def loss(self, settings: Settings) -> PrivacyLoss | None:
        """Its worst case."""
        result: PrivacyLoss = self.make(settings).worst_case(self._nodes(settings))
        return result

    def forecast(self, settings: Settings) -> dict[str, float]:
        """Of one cut."""
        error = self.make(settings).forecast(
            self._nodes(settings), settings.need("set_size"), cut=settings.get("cut", 0.0)
        )
        return {"noise scale": self.noise(settings), "standard error of the cut": float(error)}

    def release(self, settings: Settings, source: Any, **more: Any) -> Release:
        """The nodes are public and have to be told."""
        fitted = self.make(settings, **more).fit(source, nodes=settings.need("nodes"))
        result: Release = fitted.release_
        return result

    def _nodes(self, settings: Settings) -> int:
        nodes = settings.need("nodes")
        return nodes if isinstance(nodes, int) else len(nodes)


class Gaussian(Kind):
    """`GaussianMechanism`."""

    summary = "Noise on answers that were computed elsewhere: a table of numbers."
    parameters: ClassVar[dict[str, str]] = {
        **_COMMON,
        "sensitivity": "sensitivity",
        "relation": "relation",
    }
    expectations = ("entries",)

    def make(self, settings: Settings, **more: Any) -> Any:
        """Additive noise."""
        from ndis.mechanisms.additive import GaussianMechanism

        settings.need("sensitivity")
        return GaussianMechanism(**self._arguments(settings), **more)

    def promise(self, settings: Settings) -> Guarantee | None:
        """The same whatever the answers are."""
        result: Guarantee = self.make(settings).guarantee()
        return result

    def loss(self, settings: Settings) -> PrivacyLoss | None:
        """Its worst case."""
        result: PrivacyLoss | None = self.make(settings).guarantee().loss
        return result

    def forecast(self, settings: Settings) -> dict[str, float]:
        """Of one number, and of all together."""
        noise = self.noise(settings)
        return {
            "standard error of a number": noise,
            "root of the mean squared error of all": noise * settings.get("entries", 1) ** 0.5,
        }

    def release(self, settings: Settings, source: Any, **more: Any) -> Release:
        """Every number of the table."""
        result: Release = self.make(settings, **more).release(_numbers(source))
        return result


def _numbers(source: Any) -> FloatArray:
    """All numbers of a table, rows by columns."""
    import numpy as np

    from ndis.tables import Rows, batches

    table = batches(source)
    rows = Rows(table.columns)
    blocks = [block.copy() for batch in table for block in rows.blocks(batch)]
    if not blocks:
        raise ValueError("The table has no rows; hand over at least one.")
    return np.vstack(blocks)


KINDS: dict[str, Kind] = {
    "projection": Projection(),
    "regression": Regression(),
    "covariance": Covariance(),
    "graph": Graph(),
    "gaussian": Gaussian(),
}
