"""What scikit-learn expects of an estimator, without importing it.

Its pipelines, searches and checks ask for methods of these names, not for classes of its own; to
import it takes a second, and most of what a command does needs none of it. So parameters, copies
and tags are made here, and scikit-learn is imported where its arrays, scores or frames are wanted.
"""

from __future__ import annotations

import copy
import inspect
import reprlib
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

__all__ = ["Estimator", "Scored", "Transformer", "require_fitted", "signature_of", "validated"]


class Estimator:
    """Parameters that can be read, set and copied: those of ``__init__``."""

    # What scikit-learn calls it: a "regressor", a "classifier", or nothing of the kind.
    _type: ClassVar[str | None] = None
    # What it remembers of the rows that were fitted.
    n_features_in_: int
    feature_names_in_: Any
    # How many copies scikit-learn made of it and of each estimator that it is a copy of.
    _copies: tuple[list[int], ...] = ()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep`, those of parameters that have some too.

        Parameters
        ----------
        deep : bool, default True
        """
        own = {name: getattr(self, name) for name in sorted(signature_of(type(self)))}
        further: dict[str, Any] = {}
        for name, value in own.items() if deep else ():
            if hasattr(value, "get_params") and not isinstance(value, type):
                further |= {f"{name}__{each}": v for each, v in value.get_params().items()}
        return own | further

    def set_params(self, **parameters: Any) -> Self:
        """Set some parameters; ``name__part`` is the `part` of the parameter `name`."""
        known = sorted(signature_of(type(self)))
        for name, value in parameters.items():
            own, _, part = name.partition("__")
            if own not in known:
                raise ValueError(
                    f"Expected parameters of {type(self).__name__} ({', '.join(known)}), got "
                    f"{name!r}; correct the name."
                )
            if part:
                getattr(self, own).set_params(**{part: value})
            else:
                setattr(self, own, value)
        return self

    def __sklearn_clone__(self) -> Self:
        """One with the same parameters, not fitted; how many there are is counted."""
        made = self._copy()
        own, *above = self._copies or ([0],)
        self._copies = (own, *above)
        own[0] += 1
        made._copies = ([0], *self._copies)
        return made

    def _copy(self) -> Self:
        """One with the same parameters, not fitted."""
        return type(self)(**copy.deepcopy(self.get_params(deep=False)))

    def _is_one_of_many(self) -> bool:
        """Whether others were copied from the same, as in a cross-validation or a search."""
        return any(count > 1 for (count,) in self._copies[1:])

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type=self._type,
            target_tags=TargetTags(required=self._type is not None),
            regressor_tags=RegressorTags() if self._type == "regressor" else None,
            classifier_tags=ClassifierTags() if self._type == "classifier" else None,
        )

    def __repr__(self) -> str:
        usual = {name: each.default for name, each in signature_of(type(self)).items()}
        given = [
            f"{name}={_SHORT.repr(value)}"
            for name, value in self.get_params(deep=False).items()
            if value is not usual[name] and repr(value) != repr(usual[name])
        ]
        name = f"{type(self).__name__}("
        lines = textwrap.wrap(", ".join(given), 79 - len(name), break_long_words=False)
        return name + f"\n{' ' * len(name)}".join(lines) + ")"


class Scored:
    """What compares its predictions with labels."""

    def score(self: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """As in scikit-learn: R^2 of a regression, the share of right answers of a classifier.

        Parameters
        ----------
        X : table
            With the columns that were fitted.
        y : array_like
            Labels.
        sample_weight : array_like, optional
        """
        from sklearn.metrics import accuracy_score, r2_score

        measure = accuracy_score if self._type == "classifier" else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))


class Transformer:
    """What fits and transforms in one go, and names its columns by its class and a number."""

    _output: str | None = None

    def fit_transform(self: Any, X: Any, y: Any = None) -> Any:
        """Fit to a table, then transform it.

        Parameters
        ----------
        X, y : object
            As in `fit`.
        """
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self: Any, input_features: Any = None) -> Any:
        """The names of what `transform` returns.

        Parameters
        ----------
        input_features : object
            Not used.
        """
        require_fitted(self)
        stem = type(self).__name__.lower()
        return np.array([f"{stem}{index}" for index in range(self._n_features_out)], object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns: an array or a data frame.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            None leaves it as it is.
        """
        if transform is not None:
            self._output = transform
        return self

    def __sklearn_clone__(self: Any) -> Any:
        made = super().__sklearn_clone__()  # type: ignore[misc]
        return made.set_output(transform=self._output)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.transformer_tags = TransformerTags()
        return tags

    def _framed(self, values: Any, X: Any) -> Any:
        """Coordinates, in the frame that `set_output` or scikit-learn's settings ask for."""
        from sklearn.base import BaseEstimator, TransformerMixin

        names = self.get_feature_names_out

        class Made(TransformerMixin, BaseEstimator):  # type: ignore[misc]
            """Returns what was computed before."""

            def transform(self, _: Any) -> Any:
                return values

            def get_feature_names_out(self, input_features: Any = None) -> Any:
                return names(input_features)

        return Made().set_output(transform=self._output).transform(X)


def require_fitted(estimator: Any) -> None:
    """Refuse to answer before there is a release.

    Parameters
    ----------
    estimator : PrivateEstimator
    """
    if not hasattr(estimator, "release_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with "
            "appropriate arguments before using this estimator."
        )


def signature_of(cls: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a class; looked up once."""
    return _signature(cls)


@cache
def _signature(cls: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(cls).parameters


def validated(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Rows and labels as scikit-learn checks them, silently: a warning would tell of giants.

    Some of its messages quote values of the data; ours say the same without them.
    """
    from sklearn.utils.validation import validate_data

    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return validate_data(estimator, X, y, **options)
    except ValueError as error:
        told = next((ours for theirs, ours in _UNQUOTED.items() if theirs in str(error)), "")
        if not told:
            raise
    raise ValueError(told)


_TEXT = "Expected numbers, got text; hand over a data frame and list the levels of its text."
_UNQUOTED = {
    "could not convert string": _TEXT,
    "Unable to convert": _TEXT,
    "dtype='numeric' is not compatible": _TEXT,
    "Complex data": "Complex data not supported; hand over real numbers.",
    "Expected 2D array": "Expected 2D array, rows and columns, got another shape. Reshape your "
    "data either using array.reshape(-1, 1) or array.reshape(1, -1).",
    "Input y contains": "Expected finite labels, but Input y contains NaN or infinity; drop those "
    "rows, for a fit with drop_missing=True.",
}
# Long lists of limits and levels are shown in part.
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 4, 200, 200
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = 20
