"""Private logistic regression with two or more classes.

Two methods, one guarantee for every person with one row in the table. "newton" releases the noisy
moments of the rows once and noisy gradients in rounds, "descent" noisy gradients alone, which is
better where a Gram matrix has more entries than the data can fill. (A third, "posterior", draws
from a Gaussian posterior, and is in ndis-papers.) docs/proofs/classification.md has the proofs.

Both methods first buy a centre m of the rows and their mean distance from it, and then
weight the likelihood: a row y = (x - m)/L counts by w <= 1 with w |y| <= 1 (`ndis.tables.Weights`).
Weights that follow from the features alone cost no bias, and a row of norm one does no more than
one of length L.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from ndis import _validate
from ndis._validate import FloatArray
from ndis.answer import Answer
from ndis.calibration import ROUND_UP
from ndis.mechanisms.center import center_of, count_noise, count_of, draw_center
from ndis.mechanisms.classification_newton import (
    Newton,
    Point,
    class_basis,
    moderation,
    weighted_bound,
)
from ndis.mechanisms.intervals import COVERED, Intervals
from ndis.mechanisms.manners import require_fitted
from ndis.mechanisms.run import Arrays, Forecast, Plan
from ndis.mechanisms.tabular import Classifier, TableEstimator, unclassified_labels
from ndis.mechanisms.target import Noise, Part
from ndis.randomness import add_noise, add_symmetric_noise
from ndis.tables import (
    GRID_NORM,
    Block,
    Columns,
    ExactSum,
    Rows,
    Scores,
    Table,
    Together,
    Weights,
    unclassified,
)
from ndis.tables.arrays import namespace, on_host
from ndis.tables.sums import Distances, WeightedMoments, totals

__all__ = ["Logits", "PrivateLogisticRegression", "in_table_units"]

# With more features than this, a noisy Gram matrix drowns in its noise.
_MOST_FOR_GRAM = 128
# The constant beside rows of norm one: a constant of one would double what a row can do.
_CONSTANT = 0.35
# Shares of the squared mean shift: of what says how long rows are, and of their moments.
_OF_WEIGHTS = {"center": 0.03, "distance": 0.02}
_SHARES = {
    "newton": {**_OF_WEIGHTS, "gram": 0.15, "sums": 0.03, "count": 0.03},
    "descent": _OF_WEIGHTS,
}
# Where weights begin, in units of the rows' mean distance from their centre, and at the least.
_RADIUS, _SHORTEST = 0.85, 2.0**-10
# What this distance usually is, and how far it varies between tables.
_USUAL, _VARIES = 0.65, 0.15
# A larger radius when sampling error exceeds noise: in units of sqrt(n/d) over the centre's noise.
_QUIET = 0.9
# What a round of "newton" releases.
_OF_ROUNDS = ("points", "plain", "gradients", "residuals", "parts")
_ROUNDS = {"newton": 12, "descent": 32}
# Descent: residuals are cut to this; noise of a logit that steps may add up to; a cautious step, in
# units of (K + 2)/(n l^2): the more classes, the smaller the curvature; and as far as how many of
# these all steps go.
_CLIP, _LOGIT_NOISE, _STABLE, _PLAIN = 0.5, 0.9, 4.0, 100
# How much longer than the one before a step may be, and of how many of the 32 parts at the most; a
# step along the constant beside one along a feature, so that the constant is not the steepest.
_LONGER, _LONGEST, _OF_CONSTANT = 4.0, 4.0, 0.25 * _CONSTANT**2
# Curvature may be larger by this than gradients have shown, where momentum is chosen.
_CAREFUL = 1.5
# Rounds take whole numbers of these of a part, which add up without rounding.
_SHARE_OF_PART = 1.0 / 64
# Rows of an imagined table, and how far its log-odds spread: for forecasts.
_IMAGINED, _SIGNALS = 2000, (0.5, 2.0)
# Intervals are longer than their errors say by this factor, chosen on made-up tables.
_WIDER = 1.5
# No column of integer coefficients is longer than this, so that logits are exact.
_THETA_NORM = 2.0**32 * (1.0 - 2.0**-16)

Ask = Callable[[Point, bool, float], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class Logits:
    """What a release says about the logits of rows of norm at most one.

    Attributes
    ----------
    theta : ndarray of shape (d, K)
    intercept : ndarray of shape (K,)
    factor, center : float and ndarray of shape (K,)
        Predictions have coefficients drawn towards zero by the factor, and this intercept.
    errors, noise_errors : ndarray of shape (d, K) or None
        Standard errors of theta, where every error is counted, so that they make intervals; and
        without those of sampling.
    """

    theta: FloatArray
    intercept: FloatArray
    factor: float
    center: FloatArray
    errors: FloatArray | None = None
    noise_errors: FloatArray | None = None

    def moderated(self, block: Block) -> FloatArray:
        """The logits of predictions, of shape (K, n_rows)."""
        logits = on_host(block.times(block.beside(self.theta))) * (self.factor / GRID_NORM)
        return np.asarray(logits + self.center[:, None])

    def of_rows(self, weights: Weights) -> Logits:
        """The same for rows x, where this is for (x - m)/L."""
        theta = self.theta / weights.radius
        errors, noise_errors = (
            None if each is None else each / weights.radius
            for each in (self.errors, self.noise_errors)
        )
        middle = weights.center @ theta / GRID_NORM
        return replace(
            self,
            theta=theta,
            intercept=self.intercept - middle,
            center=self.center - self.factor * middle,
            errors=errors,
            noise_errors=noise_errors,
        )

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Coefficients and intercepts: of each class, or of the log-odds of two classes."""
        theta, intercept = self.theta.T, self.intercept
        if len(intercept) == 2:
            return theta[1:] - theta[:1], intercept[1:] - intercept[:1]
        return theta, intercept


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(Classifier, TableEstimator):
    """Logistic regression, private for every person with one row in the table.

    Parameters
    ----------
    classes : sequence
        The classes, two or more. They become public, so they are declared, never read.
    epsilon, delta : float
        The guarantee, for the presence of one row.
    method : {"auto", "newton", "descent", "posterior"}
        "newton": noisy moments of the rows once, then up to 12 noisy gradients. "descent": 10 to 32
        noisy gradients and no moments. "auto": "newton" up to 128 features and "descent" beyond.
        "posterior", with the package ndis-papers: draws from a Gaussian posterior of two classes.
    limits : mapping of str to (low, high), or sequence of pairs, optional
        The public limits of every numeric feature; values are clipped to them.
    data_norm : float, optional
        The largest length a row of features can have; longer rows are scaled down to it. With
        `limits` it bounds the row scaled by them. One of the two is needed.
    levels : mapping of str to sequence, optional
        Public levels of categorical features; each becomes an indicator.
    columns : sequence of str, optional
        The columns to read, the label among them; all if not given.
    prior_precision : float, optional
        For "posterior": the precision of the coefficients' prior, for rows of norm one. The noise
        is proportional to its inverse. By default max(1, 20/epsilon).
    n_draws : int, default 1
        For "posterior": independent draws to release, all under one guarantee.
    max_rows : int, optional
        For "posterior": a public cap on the number of rows; it saves a little noise. By default
        2^30.
    noise_scale : dict of str to float, optional
        Noise to use instead of the least that (epsilon, delta) needs.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    release_ : Release
        What may be published; everything else here follows from it.
    classes_ : ndarray of shape (K,)
        Sorted.
    coef_, intercept_ : ndarray of shape (1, d) and (1,), or (K, d) and (K,)
        Of the log-odds of the second of two classes, or of the logit of each, in units of the
        table (indicators as they are).
    feature_names_ : tuple of str
        What the coefficients belong to.
    guarantee_ : Guarantee
    noise_scale_ : dict of str to float
        In units of rows of norm one.

    draws_ : ndarray of shape (n_draws, 1 + d)
        Of "posterior": the draws, for rows of norm one, the intercept first.

    Notes
    -----
    Rows to be predicted pass the same gates as those of `fit`: they are clipped to the limits and
    scaled down to the bound. Logits are moderated: as far as noise leaves coefficients uncertain,
    probabilities are drawn towards the shares of the classes; `moderated_logits` returns these.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = (X[:, 0] + 0.2 * rng.standard_normal(20_000) > 0).astype(int)
    >>> model = PrivateLogisticRegression(
    ...     classes=[0, 1], epsilon=1.0, delta=1e-6, limits=[(-1, 1), (-1, 1)], random_state=7
    ... )
    >>> model.plan().method
    'newton'
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    labelled, _certified = True, frozenset({"label"})
    needs = ("limits|data_norm", "classes")
    methods = ("newton", "descent")
    weighs = True
    _checked = (unclassified,)

    classes: Sequence[Any] | None = None
    method: str = "auto"
    prior_precision: float | None = None
    n_draws: int = 1
    max_rows: int | None = None
    n_rows: None = field(default=None, init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- before the data -----------------------------------------------------------------------

    def _plan(self, rows: Rows) -> Plan:
        d, k = len(rows.features.names), len(self.declared_classes()) - 1
        method, reason = self._chosen(d)
        n_rows = 1 if k == 1 else k + 1
        shapes: dict[str, tuple[int, ...]] = {"coef": (n_rows, d), "intercept": (n_rows,)}
        n_rounds = _ROUNDS[method]
        shapes |= {"center": (d + 1,), "distance": ()}
        if method == "newton":
            shapes |= {"gram": (d, d), "sums": (d,), "count": (), "gradients": (n_rounds, d, k)}
            shapes |= {"residuals": (n_rounds, k), "points": (n_rounds, d + 1, k)}
            shapes |= {"plain": (n_rounds,), "parts": (n_rounds,)}
        else:
            shapes |= {"theta": (d + 1, k)}
        parts, target = _parts(method, k + 1), self._target(rows)
        return Plan.buying(
            parts, target, self.noise_scale, method=method, shapes=shapes, reason=reason
        )

    def _chosen(self, n_features: int) -> tuple[str, str]:
        """The method for so many features, and why."""
        if self.method != "auto":
            return self.method, "It was asked for."
        if n_features <= _MOST_FOR_GRAM:
            return "newton", f"With at most {_MOST_FOR_GRAM} features their moments are worth it."
        return (
            "descent",
            f"With more than {_MOST_FOR_GRAM} features a Gram matrix would drown in its noise.",
        )

    def declared_classes(self) -> Any:
        """The declared classes, sorted."""
        if self.classes is None:
            raise ValueError(
                "Expected classes, got none; list all classes, since labels that are read from "
                "the table would be published."
            )
        classes = np.unique(np.asarray(self.classes))
        if len(classes) < 2 or len(classes) < len(self.classes):
            raise ValueError(
                f"Expected at least two distinct classes, got {list(self.classes)!r}; list each "
                "class once."
            )
        return classes

    def forecast(self, n_features: int | None = None, *, n_rows: int | None = None) -> Forecast:
        """How much worse than the best coefficients the released ones will predict.

        The method is run on imagined tables of evenly spread rows, with log-odds that
        spread little (0.5) or much (2).

        Parameters
        ----------
        n_features : int, optional
            How many features there are, where `limits` or `columns` do not name them.
        n_rows : int
        """
        plan, other = self.plan(n_features), self._other
        d = plan.shapes["coef"][1]
        if other is not None:
            return other._forecast(self._rows_declared(n_features), plan, n_rows)
        n = self._expected_rows(n_rows)
        lost = [_imagined_loss(plan, len(self.declared_classes()), d, n, s) for s in _SIGNALS]
        sampling = d * (len(self.declared_classes()) - 1) / (2.0 * n)
        return Forecast(
            {"log loss above the best": (min(lost), max(lost) + sampling)},
            (
                self._assumed_rows(n),
                "rows that fill their bound",
                "balanced classes",
                "features of equal weight",
            ),
        )

    # -- with the data -------------------------------------------------------------------------

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        features = self._features(table, labels)
        known = self.declared_classes().tolist()
        if len(labels) == 1:
            classes = Columns(labels, {labels[0]: known})
        else:
            classes = Columns(labels, limits=dict.fromkeys(labels, (0.0, 1.0)), centered=False)
        return Rows(features, classes, weighted=False)

    def _arrays(self, X: Any, y: Any, numeric: bool = False) -> tuple[Any, Any]:
        """Rows, and an indicator of each class; NaN where the label is missing."""
        known = self.declared_classes()
        X, labels = super()._arrays(X, y, numeric=False)
        xp = namespace(labels)
        _check_distinct(known, labels)
        stacked = xp.stack([xp.astype(labels == n, xp.float64) for n in known.tolist()], axis=1)
        if self.drop_missing and xp is np:
            stacked[[each is None or each != each for each in labels.tolist()]] = np.nan
        return X, stacked

    def _public(self, data: Table) -> dict[str, Any]:
        rows, known = data.rows, self.declared_classes().tolist()
        public = super()._public(data) | {"classes": known, "columns": [*rows.features.columns]}
        if len(rows.labels.columns) == 1:  # a column of the table, and no indicators of an array
            public["label"] = rows.labels.columns[0]
        return public

    def _check_raw(self, sums: Mapping[str, ExactSum]) -> None:
        if sums["unclassified"].value > 0:
            raise unclassified_labels()

    def _study(self, data: Table, plan: Plan) -> dict[str, ExactSum]:
        return self.read_totals(data)

    def read_totals(self, table: Table) -> dict[str, ExactSum]:
        """Sums of the rows and their number; all that can be wrong with a table is found here."""
        if table.once:
            raise ValueError(
                "Expected a table that can be read more than once, got a one-shot reader; "
                "hand over the file or the data frame."
            )
        both = Together((totals, unclassified))
        sums = table.sum(both, again=True, what="Reading the table")
        self._check_raw(sums)
        self._check_rows(table.n_rows)
        return sums

    def _draw(
        self, studied: Any, plan: Plan, data: Table, rng: np.random.Generator
    ) -> Mapping[str, Any]:
        """Noise in grid units, then units of rows of norm one."""
        noise, k = plan.noise_scale, len(self.declared_classes())
        arrays: dict[str, FloatArray] = {"center": draw_center(studied, noise["center"], rng)}
        total = data.sum(Distances(center_of(arrays["center"], noise["center"])))["distances"]
        arrays["distance"] = add_noise(total, noise["distance"] * GRID_NORM, rng) / GRID_NORM
        weights = _weights(arrays, noise)
        ask = _asking(data, k, plan, weights, rng)
        if plan.method == "descent":
            arrays["theta"] = descend(ask, arrays, noise, (plan.shapes["coef"][1], k - 1))
        else:
            arrays |= _draw_moments(data, noise, weights, rng)
            model = _newton(k, arrays, noise)
            arrays |= newton_rounds(model, ask)
            logits = _estimated(model, weights)
            return Arrays(arrays | in_table_units(logits, data.rows), logits)
        logits = _logits(plan.method, noise, k, arrays)
        return Arrays(arrays | in_table_units(logits, data.rows), logits)

    def _finish(self, rows: Rows) -> None:
        self.classes_ = self.declared_classes()
        arrays = self.release_.arrays
        self.coef_, self.intercept_ = arrays["coef"], arrays["intercept"]
        self.feature_names_ = rows.features.names
        self._recipe_used = Rows(rows.features)
        # A list, since scikit-learn allows no new attribute in a prediction.
        self._told: list[Logits] = [] if self._solution is None else [self._solution]

    @property
    def _logits(self) -> Logits:
        """What the release says of logits, found when it is first asked for."""
        if not self._told:
            method, K = self.release_.parameters["method"], len(self.classes_)
            arrays, other = self.release_.arrays, self._other
            known = _logits(method, self.noise_scale_, K, arrays) if other is None else None
            self._told.append(known or other.logits(arrays))  # type: ignore[union-attr]
        return self._told[0]

    # -- after the release ---------------------------------------------------------------------

    def intervals(self, level: float = 0.95, of: str = "population") -> Intervals:
        """Intervals for each coefficient, about `coef_`.

        Parameters
        ----------
        level : float, default 0.95
        of : {"population", "table"}
            "population": the coefficients of the law from which rows were drawn; sampling and the
            noise of privacy are covered. "table": only the noise is covered.

        Notes
        -----
        They cover the error of the model of the curvature, too, and come from the
        release alone, with the prior by which the coefficients were estimated. They are approximate
        and half as long again as these errors say, since these were too short on made-up tables;
        docs/classification.md has their measured coverage.
        """
        require_fitted(self)
        _validate.one_of("of", of, list(COVERED))
        logits = self._logits
        errors = logits.errors if of == "population" else logits.noise_errors
        if errors is None:
            raise ValueError(
                f"Expected a method that knows its errors, got {self.release_.parameters['method']}"
                "; use newton."
            )
        scale = self._recipe_used.features.scale / GRID_NORM
        of_odds = 2.0 * errors.T[1:] if len(self.classes_) == 2 else errors.T
        return Intervals.of_normal(
            self.feature_names_,
            self.coef_,
            _WIDER * of_odds * scale,
            level=level,
            of=of,
            labels=tuple(map(str, self.classes_)),
        )

    def answers(self) -> list[Answer]:
        """The coefficients of each class with intervals, below its intercept."""
        chosen = self.classes_[1:] if len(self.coef_) == 1 else self.classes_
        told = self.intervals().answers([f"log-odds of {name}" for name in chosen])
        constants = [("intercept", [float(value)]) for value in self.intercept_]
        return [
            each._replace(rows=[first, *each.rows])
            for each, first in zip(told, constants, strict=True)
        ]

    def moderated_logits(self, X: Any) -> FloatArray:
        """Moderated log-odds of the second of two classes, or logits of every class."""
        require_fitted(self)
        table = self._new_rows(X, self._recipe_used.features)
        logits = table.measure(self._logits.moderated, len(self.classes_)).T
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X: Any) -> Any:
        """The most probable class of each row."""
        logits = self.moderated_logits(X)
        chosen = logits.argmax(axis=1) if logits.ndim == 2 else (logits > 0).astype(int)
        return self.classes_[chosen]

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes, a column each."""
        logits = self.moderated_logits(X)
        if logits.ndim == 2:
            return np.asarray(softmax(logits, axis=1))
        return np.column_stack([expit(-logits), expit(logits)])


def _check_distinct(classes: Any, labels: Any) -> None:
    """Refuse classes that are one number in the labels' type, as whole numbers beyond 2^53 are."""
    kind = str(labels.dtype).rpartition(".")[2]
    if kind.startswith("float") and len(set(np.asarray(classes, kind).tolist())) < len(classes):
        raise ValueError(
            f"Expected classes that labels of type {kind} can tell apart, got "
            f"{classes.tolist()!r}; hand over labels as whole numbers."
        )


# -- parts -------------------------------------------------------------------------------------


def _parts(method: str, n_classes: int) -> list[Part]:
    """How far a row of norm one moves each sum, and its share of the squared mean shift.

    A row (c, x) is one of x and of c in a gradient.
    """
    c2 = _CONSTANT**2
    parts = [Part(name, 1.0, share) for name, share in _SHARES[method].items()]
    left = 1.0 - sum(_SHARES[method].values())
    bound = weighted_bound(n_classes) if method == "newton" else _CLIP
    all_rounds = bound * math.sqrt(_ROUNDS[method])
    parts.append(Part("gradients", all_rounds, left / (1.0 + c2)))
    parts.append(Part("residuals", all_rounds, left * c2 / (1.0 + c2)))
    return parts


def _weights(arrays: Mapping[str, FloatArray], noise: Mapping[str, float]) -> Weights:
    """How much rows count, by what has been released of their lengths."""
    n_rows = count_of(arrays["center"], noise["center"])
    seen = float(arrays["distance"]) / n_rows
    error = math.hypot(noise["distance"], _USUAL * count_noise(noise["center"])) / n_rows
    mean = _USUAL + (seen - _USUAL) / (1.0 + (error / _VARIES) ** 2)
    quiet = _QUIET * math.sqrt(n_rows / (len(arrays["center"]) - 1)) / noise["center"]
    radius = min(max(max(_RADIUS, quiet) * mean, _SHORTEST), 1.0)
    return Weights(center_of(arrays["center"], noise["center"]), radius)


def _draw_moments(
    table: Table, noise: Mapping[str, float], weights: Weights, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Noisy sums of w, of w y and of w y y^T: a row moves them by 1, by 1 and by 1/L."""
    sums, unit, root = table.sum(WeightedMoments(weights)), GRID_NORM**2, math.sqrt(weights.radius)
    gram = add_symmetric_noise(sums["gram"], noise["gram"] * unit, rng)
    first = add_noise(sums["sums"], noise["sums"] * root * ROUND_UP * unit, rng)
    count = add_noise(sums["count"], noise["count"] * unit, rng)
    return {"gram": gram / (unit * root**2), "sums": first / (unit * root), "count": count / unit}


def _newton(n_classes: int, arrays: Mapping[str, Any], noise: Mapping[str, float]) -> Newton:
    """Where the rounds start, in units of the radius."""
    moments = {name: arrays[name] for name in ("gram", "sums", "count")}
    more = noise["gram"] / _weights(arrays, noise).radius
    return Newton(n_classes, **moments, noise={**noise, "gram": more})


def _asking(
    table: Table, n_classes: int, plan: Plan, weights: Weights, rng: np.random.Generator
) -> Ask:
    """Noisy gradients of a table, in units of the radius from the centre."""
    basis, noise, L = class_basis(n_classes), plan.noise_scale, weights.radius
    weighted, center = plan.method == "newton", weights.center
    first = weighted_bound(n_classes) if weighted else _CLIP

    def ask(point: Point, plain: bool, parts: float) -> tuple[FloatArray, FloatArray]:
        theta, scale = _whole(point[0] @ basis.T / L)
        intercept = basis @ (point[1] - center @ point[0] / (L * GRID_NORM))
        bound = math.sqrt(2.0) if plain and weighted else first
        chosen = weighted and not plain
        scores = Scores(theta, scale / GRID_NORM, intercept, bound, chosen, weights=weights)
        sums = table.sum(scores)
        # sum w r (x - m)^T from those of w r x^T and w r, all in whole numbers. A residual of the
        # bound is 2^20 on the grid, whatever the bound is, and a row times it at most L 2^40.
        moved = sums["gradient"] - sums["residuals"].times(center.astype(np.int64)).T
        unit = L * GRID_NORM**2
        # What is bought for several rounds has the noise of their mean.
        share = first * math.sqrt(parts) / ROUND_UP
        gradient = add_noise(moved, noise["gradients"] / share * unit * ROUND_UP, rng)
        residuals = add_noise(sums["residuals"], noise["residuals"] / share * GRID_NORM, rng)
        return gradient * (bound / unit), residuals * (bound / GRID_NORM)

    return ask


def _whole(theta: FloatArray) -> tuple[FloatArray, float]:
    """Coefficients as integers, none of whose columns is longer than 2^32, and their unit."""
    longest = float(np.linalg.norm(theta, axis=0).max())
    unit = longest / _THETA_NORM if longest > 0 else 1.0
    wholes = np.round(theta / unit)
    if wholes.shape[1] == 2:  # exactly opposite: their difference is even, and so are its products
        wholes[:, 1] = -wholes[:, 0]
    return wholes, unit


def newton_rounds(model: Newton, ask: Ask) -> dict[str, FloatArray]:
    """Ask for a gradient where the model wants one, round by round.

    As soon as another round would change little, the next takes what is left for all of them.
    """
    left, rounds = _ROUNDS["newton"], list[tuple[Any, ...]]()
    while left:
        parts = left if model.settled else 1
        point, plain = model.query(parts)
        gradient, residuals = ask(point, plain, parts)
        model.learn(point, plain, gradient, residuals, parts)
        rounds.append((np.vstack([point[1], point[0]]), float(plain), gradient, residuals, parts))
        left -= parts
    unused = _ROUNDS["newton"] - len(rounds)
    rounds += [tuple(np.zeros_like(part) for part in rounds[0])] * unused
    columns = zip(*rounds, strict=True)
    arrays = (np.array(column, np.float64) for column in columns)
    return dict(zip(_OF_ROUNDS, arrays, strict=True))


def descend(
    ask: Ask, arrays: Mapping[str, FloatArray], noise: Mapping[str, float], shape: tuple[int, int]
) -> FloatArray:
    """Steps along noisy gradients: the intercept's coefficients first, then those of the rows.

    A step of so many parts takes so many of the budget: noise adds up to the same, whatever the
    steps. They grow as far as the curvature allows that gradients have shown; where all rounds are
    too few for that, each goes on with a share of the one before (momentum, Polyak).
    """
    most = _ROUNDS["descent"]
    unit, theta = _unit(arrays, noise, shape[1] + 1), np.zeros((shape[0] + 1, shape[1]))
    pace = np.ones((len(theta), 1))
    pace[0] = _OF_CONSTANT
    of_noise = shape[0] * noise["gradients"] ** 2 + _OF_CONSTANT * noise["residuals"] ** 2
    left, step, steepest = float(most), 1.0, 1.0 / most
    moved, before, bias = np.zeros_like(theta), np.zeros_like(theta), 0.0
    for n in range(most):
        parts = _share(left, min(math.ceil(left / step), most - n))
        gradient, residuals = ask((theta[1:], theta[0]), False, parts)
        slope = np.vstack([residuals, gradient])
        if n:
            # The noise of the gradient before is in both, the step and the difference.
            fell = float(np.sum(moved * (before - slope))) - bias
            steepest = max(steepest, unit * fell / float(np.sum(moved * moved / pace)))
        far = _CAREFUL * parts * steepest
        momentum = max((far - 1.0) / (far + 1.0), 0.0) ** 2
        taken = (1.0 - momentum) * parts
        moved, before = momentum * moved + (taken * unit) * pace * slope, slope
        bias = taken * unit * of_noise * shape[1] / parts
        theta, left = theta + moved, left - parts
        if not left:
            break
        step = min(_LONGER * parts, _LONGEST, 1.0 / steepest) if n else step
    return theta


def _share(left: float, rounds: int) -> float:
    """What the first of so many rounds takes of what is left."""
    return max(left // (rounds * _SHARE_OF_PART), 1.0) * _SHARE_OF_PART


def _unit(arrays: Mapping[str, FloatArray], noise: Mapping[str, float], n_classes: int) -> float:
    """How far a step goes for each part, over the gradient.

    All steps go as far as `_PLAIN` cautious ones, or less: T parts of length h add s l sqrt(T) h of
    noise to the logit of a row of norm l, s the noise of a gradient, and more does no good.
    """
    n_parts, length2 = _ROUNDS["descent"], 1.0 + _CONSTANT**2
    count = count_of(arrays["center"], noise["center"])
    cautious = _STABLE * (n_classes + 2) / (count * length2)
    quiet = _LOGIT_NOISE / math.sqrt(length2 * n_parts) / noise["gradients"]
    return min(quiet, cautious * _PLAIN / n_parts)


def _logits(method: str, noise: Noise, n_classes: int, arrays: Mapping[str, FloatArray]) -> Logits:
    """What the released arrays say, by the method's name."""
    basis = class_basis(n_classes)
    assert isinstance(noise, Mapping)
    weights = _weights(arrays, noise)
    if method == "descent":
        theta = arrays["theta"] @ basis.T
        unit = _unit(arrays, noise, n_classes)
        variance = _ROUNDS["descent"] * (unit * noise["gradients"]) ** 2 * (1.0 + _CONSTANT**2)
        factor = moderation(variance, n_classes)
        logits = Logits(theta[1:], theta[0], factor, factor * theta[0])
        return logits.of_rows(weights)
    model = _newton(n_classes, arrays, noise)
    for point, plain, gradient, residuals, parts in zip(
        *(arrays[name] for name in _OF_ROUNDS), strict=True
    ):
        if parts:
            model.learn((point[1:], point[0]), bool(plain), gradient, residuals, int(parts))
    return _estimated(model, weights)


def _estimated(model: Newton, weights: Weights) -> Logits:
    """What "newton" has found."""
    factor, center = model.moderated()
    squares = model.vectors**2
    errors = [np.sqrt(squares @ each) for each in (model.variances, model.noise_variances)]
    theta, intercept = model.theta @ model.basis.T, model.basis @ model.intercept
    return Logits(theta, intercept, factor, model.basis @ center, *errors).of_rows(weights)


def in_table_units(logits: Logits, rows: Rows) -> dict[str, FloatArray]:
    """Coefficients and intercepts as they are released."""
    coef, intercept = logits.coefficients()
    coef = coef * rows.features.scale / GRID_NORM
    return {"coef": coef, "intercept": intercept - coef @ rows.features.middle}


def _imagined_loss(plan: Plan, n_classes: int, d: int, n_rows: int, signal: float) -> float:
    """Log loss above the best on an imagined table, whose labels are their own expectation."""
    rng = np.random.default_rng(0)
    noise, basis = plan.noise_scale, class_basis(n_classes)
    rows = rng.standard_normal((_IMAGINED, d))
    rows /= np.linalg.norm(rows, axis=1).max()
    truth = rng.standard_normal((d, n_classes - 1)) @ basis.T
    truth *= signal / (rows @ (truth[:, 0] - truth[:, 1])).std()
    p, each = softmax(rows @ truth, axis=1), n_rows / _IMAGINED
    weighted = plan.method == "newton"
    count = np.append(np.zeros(d), n_rows + count_noise(noise["center"]) * rng.standard_normal())
    far = np.linalg.norm(rows, axis=1)
    arrays = {"center": count, "distance": np.array(each * far.sum())}
    weights = _weights(arrays, noise)
    radius = weights.radius
    scaled, own = rows / radius, each * radius / np.maximum(far, radius)

    def ask(point: Point, plain: bool, parts: float) -> tuple[FloatArray, FloatArray]:
        there = softmax((scaled @ point[0] + point[1]) @ basis.T, axis=1)
        longest = 1.0 - 2.0 * there.min(axis=1) + np.sum(there**2, axis=1)
        bound = weighted_bound(n_classes)
        each_row = own * bound / np.sqrt(longest) if weighted and not plain else own
        left = (each_row[:, None] * (p - there)) @ basis
        factor = math.sqrt(2.0) / bound if weighted and plain else 1.0
        factor /= math.sqrt(parts)
        gradient_noise = factor * noise["gradients"] * rng.standard_normal((d, n_classes - 1))
        residual_noise = factor * noise["residuals"] * rng.standard_normal(n_classes - 1)
        return scaled.T @ left + gradient_noise, left.sum(axis=0) + residual_noise

    if weighted:
        square = noise["gram"] / radius * rng.standard_normal((d, d))
        arrays["gram"] = (scaled.T * own) @ scaled + 0.5 * (square + square.T)
        arrays["sums"] = own @ scaled + noise["sums"] * rng.standard_normal(d)
        arrays["count"] = np.array(own.sum() + noise["count"] * rng.standard_normal())
        model = _newton(n_classes, arrays, noise)
        newton_rounds(model, ask)
        found = _estimated(model, weights)
    else:
        arrays["theta"] = descend(ask, arrays, noise, (d, n_classes - 1))
        found = _logits(plan.method, noise, n_classes, arrays)
    released = softmax(found.moderated(Block(rows.T * GRID_NORM)).T, axis=1)
    return float(np.mean(np.sum(p * (np.log(p) - np.log(released)), axis=1)))
