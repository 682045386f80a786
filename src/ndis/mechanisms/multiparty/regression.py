"""All parties in one process: the whole workflow as a scikit-learn regressor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ndis import _validate
from ndis._validate import FloatArray
from ndis.gaussian import Gaussian
from ndis.guarantee import Guarantee, NeighbourRelation
from ndis.mechanisms.base import PrivateEstimator
from ndis.mechanisms.multiparty.agreement import Agreement
from ndis.mechanisms.multiparty.releasing import draw_all, mix, output_law, shapes, whole_parameters
from ndis.mechanisms.multiparty.training import LinearModel, train
from ndis.randomness import RandomState, generator

if TYPE_CHECKING:
    from ndis.ledger import Ledger

LABEL = "y"


class MultiPartyRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Linear regression on what several parties release about the same people.

    Parties hold different columns; none sees another's. In production each runs
    `ndis party release`; this estimator plays all parts in one process.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee (see `protects`).
    parties : int or mapping of str to sequence of str, default 2
        The columns of each party, the label ``y`` among them; a number deals all columns evenly.
        Columns of arrays are called ``x0, x1, ...``.
    bounds : (low, high) or mapping of str to (low, high), default (-1, 1)
        The public interval of all columns, or of each, the label ``y`` included. Values outside
        are clipped.
    protects : {"party", "person"}
        Whether (epsilon, delta) is met for a person's attributes at one party (as published) or
        for the whole record. Both are in `guarantees_`.
    n_components : int, optional
        How many mixed rows are released; chosen from public parameters if not given.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget for the joint guarantee, relation "replace".

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    release_ : Release
        What may be published.
    guarantee_ : Guarantee
        The joint one, for a person's whole record.
    guarantees_ : dict of str to Guarantee
        That of each party for a person's attributes there, and the ``joint`` one.
    agreement_ : Agreement
        The public parameters.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import MultiPartyRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200_000, 3))
    >>> y = X @ [0.5, -0.3, 0.1] + 0.1
    >>> model = MultiPartyRegression(epsilon=2.0, delta=1e-6, parties=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.with_label("x0").features
    ('x1', 'x2', 'y')
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        parties: int | Mapping[str, Sequence[str]] = 2,
        bounds: tuple[float, float] | Mapping[str, tuple[float, float]] = (-1.0, 1.0),
        protects: str = "party",
        n_components: int | None = None,
        random_state: RandomState = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.parties = parties
        self.bounds = bounds
        self.protects = protects
        self.n_components = n_components
        self.random_state = random_state
        self.ledger = ledger

    # -- before the data ---------------------------------------------------------------------

    def agreement(
        self, n_rows: int, features: Sequence[str] | int, seed: int | None = None
    ) -> Agreement:
        """The public parameters for so many rows of these features; needs no data.

        Parameters
        ----------
        n_rows : int
        features : int or sequence of str
            How many, or their names.
        seed : int, optional
            The public seed of the signs.
        """
        count = features if isinstance(features, int) else 0
        names = [f"x{i}" for i in range(count)] if count else list(features)  # type: ignore[arg-type]
        columns = self._dealt([*names, LABEL])
        bounds = self._bounds([*names, LABEL])
        return Agreement(
            n_rows,
            {party: {name: bounds[name] for name in held} for party, held in columns.items()},
            self.epsilon,
            self.delta,
            self.protects,
            self.n_components,  # type: ignore[arg-type]
            **({} if seed is None else {"seed": seed}),  # type: ignore[arg-type]
        )

    def calibrate(self, n_rows: int, n_features: int) -> dict[str, float]:
        """The noise of each party, in half-widths of its columns' intervals; needs no data.

        Examples
        --------
        >>> from ndis import MultiPartyRegression
        >>> noise = MultiPartyRegression(epsilon=1.0, delta=1e-5).calibrate(1000, 2)
        >>> {party: round(scale, 4) for party, scale in noise.items()}
        {'party-1': 10.5518, 'party-2': 7.4613}
        """
        agreement = self.agreement(n_rows, n_features)
        return {party: agreement.noise_scale(party) for party in agreement.parties}

    def _dealt(self, names: list[str]) -> dict[str, list[str]]:
        """The columns of each party, every one of them once."""
        if isinstance(self.parties, Mapping):
            held = {party: list(columns) for party, columns in self.parties.items()}
            found = sorted(name for columns in held.values() for name in columns)
            if found != sorted(names):
                raise ValueError(
                    f"Expected every column at one party, {', '.join(sorted(names))}, got "
                    f"{', '.join(found)}; name each once, the label {LABEL!r} too."
                )
            return held
        n_parties = _validate.count("parties", self.parties)
        if n_parties > len(names):
            raise ValueError(
                f"Expected at most {len(names)} parties for as many columns, got "
                f"parties={n_parties}; use fewer."
            )
        shares = np.array_split(np.array(names), n_parties)
        return {f"party-{i}": share.tolist() for i, share in enumerate(shares, 1)}

    def _bounds(self, names: list[str]) -> dict[str, tuple[float, float]]:
        if not isinstance(self.bounds, Mapping):
            low, high = self.bounds
            return dict.fromkeys(names, (low, high))
        missing = [name for name in names if name not in self.bounds]
        if missing:
            raise ValueError(
                f"Expected bounds of every column, got none of {missing[0]!r}; add them."
            )
        return {name: self.bounds[name] for name in names}

    # -- with the data -----------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> MultiPartyRegression:
        """Release the columns of all parties, then train on the release.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features)
            Features; a data frame brings their names.
        y : array_like of shape (n_rows,)
            The label.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        seed = int.from_bytes(generator(self.random_state).bytes(16), "little")
        names = list(getattr(self, "feature_names_in_", [])) or X.shape[1]
        self.agreement_ = self.agreement(len(X), names, seed)
        table = np.column_stack([X, y])
        mixed = {
            party: mix(self.agreement_, party, self._held(party, table))
            for party in self.agreement_.parties
        }
        joint = self.agreement_.joint_guarantee()
        self._release(
            draw_all(self.agreement_, mixed),
            joint,
            whole_parameters(self.agreement_),
            shapes(self.agreement_, self.agreement_.columns),
        )
        model = self.with_label(LABEL)
        order = [model.features.index(name) for name in self._names()]
        self.coef_, self.intercept_ = model.coef[order], model.intercept
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predict the label."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(X @ self.coef_ + self.intercept_)

    def with_label(self, label: str, features: Sequence[str] | None = None) -> LinearModel:
        """A model of any other column from the same release, at no further cost."""
        check_is_fitted(self, "release_")
        return train(self.release_, label, features)

    @property
    def guarantees_(self) -> dict[str, Guarantee]:
        """That of each party, and the joint one."""
        check_is_fitted(self, "release_")
        each = {party: self.agreement_.guarantee(party) for party in self.agreement_.parties}
        return each | {"joint": self.guarantee_}

    @property
    def relation(self) -> NeighbourRelation:
        """What the joint guarantee is for."""
        return NeighbourRelation.REPLACE

    def output_law(self, table: Any) -> Gaussian:
        """The law of all that is released about a table of features and label (for auditors)."""
        check_is_fitted(self, "release_")
        laws = [
            output_law(self.agreement_, party, self._held(party, table))
            for party in self.agreement_.parties
        ]
        mean = np.concatenate([law.mean for law in laws])
        return Gaussian.from_diagonal(mean, np.concatenate([law.variances for law in laws]))

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if names is None else list(names)

    def _held(self, party: str, table: FloatArray) -> FloatArray:
        names = [*self._names(), LABEL]
        return table[:, [names.index(name) for name in self.agreement_.party_columns(party)]]

    def _repr_html_(self) -> str:
        """Parameters and, after fitting, both guarantees as sentences."""
        from html import escape

        shown = super()._repr_html_()
        if not hasattr(self, "release_"):
            return shown
        each = (f"<li>{escape(f'{k}: {v}')}</li>" for k, v in self.guarantees_.items())
        return f"{shown}<ul>{''.join(each)}</ul>"
