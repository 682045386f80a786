"""How the estimators of graphs and covariances are asked: through the sketch that they released."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def asks_sketch(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], _T]:
    """Let an estimator answer what its fitted `sketch_` answers."""

    @functools.wraps(method)
    def ask(estimator: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if not hasattr(estimator, "sketch_"):
            raise ValueError(
                f"Expected a fitted {type(estimator).__name__}, got one that has released nothing; "
                "call fit first."
            )
        return method(estimator.sketch_, *args, **kwargs)

    return ask
