"""Private Gaussian process regression.

By default the moments of public features are released: of K^{-1/2} k_U(x), where U are public
points in the limits. They are sums over rows, so one mean shift covers them, and predictions with
their variances follow for every input, for any number of rows. docs/proofs/gaussian-process.md has
the proofs. (Another method, "posterior", draws the process itself at public points, and is in
ndis-papers.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ndis import _validate
from ndis._validate import FloatArray, wrong
from ndis.answer import Answer
from ndis.mechanisms.intervals import Intervals
from ndis.mechanisms.kernels import (
    default_kernel,
    described,
    inducing_points,
    kernel_moments,
    made,
)
from ndis.mechanisms.manners import require_fitted
from ndis.mechanisms.run import Forecast, Plan
from ndis.mechanisms.spectrum import Spectrum
from ndis.mechanisms.tabular import Regressor, TableEstimator
from ndis.mechanisms.target import Part
from ndis.randomness import add_noise, add_symmetric_noise
from ndis.tables import GRID_NORM, Columns, Rows, Table
from ndis.tables.arrays import on_host
from ndis.tables.blocks import Block
from ndis.tables.sums import KernelMoments

# A row moves each sum by one, and so count and squares, which are one part, by the root of two.
_PARTS = (Part("gram", 1.0, 0.30), Part("cross", 1.0, 0.67), Part("totals", math.sqrt(2.0), 0.03))
# Shares of the labels' mean square that the process may explain, weighed by their likelihood.
_EXPLAINED = (0.95, 0.8, 0.6, 0.4, 0.2)
# Rounds in which the noise of mixed directions and the weights are found from each other.
_ROUNDS = 4


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGaussianProcess(Regressor, TableEstimator):
    """Gaussian process regression, private for every person with one row in the table.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, for the presence of one row.
    limits : mapping of str to (low, high), sequence of pairs, one pair, or "private"
        The public limits of every feature, in the order of the columns for arrays; one pair stands
        for all of them. Values beyond are moved to them. "private" also instead of a pair: nobody
        knows them, and a tenth of the squared budget finds them.
    label_limits : (float, float), or "private"
        The public limits of the label; a mapping of limits may hold them too.
    method : {"auto", "inducing", "posterior"}
        "auto" is "inducing": noisy moments of features at public points, from which predictions and
        their variances follow everywhere. "posterior", with the package ndis-papers, releases draws
        of the process at public `query_points`, needs `max_rows`, and knows less.
    kernel : scikit-learn kernel, optional
        With fixed, public parameters, in the units of the table. By default a smooth one that
        varies over about half of the limits. "inducing" takes RBF and Matern, and estimates
        amplitude and label noise; "posterior" takes what is proven to be positive semi-definite:
        RBF, Matern, RationalQuadratic, WhiteKernel, DotProduct, positive ConstantKernel, sums,
        products and whole powers of them, and ExpSineSquared on one column.
    n_inducing : int, optional
        Public points to predict from; by default 16 in one dimension, 49 in two, 64 in more.
    query_points : array_like of shape (m, d), optional
        Where "posterior" draws the process; by default at the public points of "inducing".
    max_rows : int, optional
        A public bound on the number of rows; "posterior" needs it.
    noise_variance : float, optional
        "posterior": the variance of a label about the process, the square of half the label's
        limits if not given. The noise falls as it grows.
    kernel_is_psd : bool, default False
        "posterior": declare that another kernel is positive semi-definite. The guarantee then
        rests on that, and says so.
    kernel_bound : float, optional
        A public bound on k(x, x) of such a kernel, if it is not stationary.
    n_draws : int, default 1
        "posterior": independent draws to release, all under one guarantee.
    columns : sequence of str, optional
        The columns to read, the label among them; all if not given.
    n_rows : int, optional
        The number of rows, only where it is public.
    noise_scale : dict of str to float, or float for "posterior", optional
        Noise to use instead of the least that (epsilon, delta) needs.
    random_state : int, SeedSequence, Generator or None
        None is secret; everything else is repeatable and hence NOT private.
    ledger : Ledger, optional
        The budget to spend from.

    Attributes
    ----------
    release_ : Release
        What may be published.
    guarantee_ : Guarantee
    noise_scale_ : dict of str to float, or float for "posterior"
    noise_variance_ : float
        "inducing": the variance of a label about the process, estimated from the release.
    query_points_, draws_ : ndarray of shapes (m, d) and (n_draws, m)
        "posterior": where the process was drawn, and its values there.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateGaussianProcess
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 10, (5000, 1))
    >>> y = np.sin(x[:, 0]) + 0.1 * rng.standard_normal(5000)
    >>> model = PrivateGaussianProcess(
    ...     epsilon=1.0, delta=1e-6, limits=[(0, 10)], label_limits=(-1.5, 1.5), random_state=0
    ... ).fit(x, y)
    >>> mean, std = model.predict([[1.5], [5.0]], return_std=True)
    >>> bool(np.all(np.abs(mean - np.sin([1.5, 5.0])) < 2 * std))
    True
    """

    levels: None = field(default=None, init=False)
    data_norm: None = field(default=None, init=False)
    labelled, _certified = True, frozenset({"label"})
    needs = ("limits",)
    methods = ("inducing",)
    weighs = True
    label_limits: Any = None
    method: str = "auto"
    kernel: Any = None
    n_inducing: int | None = None
    query_points: Any = None
    max_rows: int | None = None
    noise_variance: float | None = None
    kernel_is_psd: bool = False
    kernel_bound: float | None = None
    n_draws: int = 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.regressor_tags.poor_score = True  # of a test with two hundred rows and much noise
        return tags

    # -- before the data ---------------------------------------------------------------------

    def _plan(self, rows: Rows) -> Plan:
        target, (m, d) = self._target(rows), self._features_of(rows).weights.shape
        return Plan.buying(
            _PARTS,
            target,
            self.noise_scale,
            method="inducing",
            shapes={"weights": (m, d), "gram": (d, d), "cross": (d,), "totals": (2,)},
            reason="Moments of public features give predictions everywhere, from any table.",
        )

    def forecast(self, n_features: int | None = None, *, n_rows: int | None = None) -> Forecast:
        """The error to be expected of predictions within the limits, before anything is spent.

        Parameters
        ----------
        n_features : int, optional
            How many features, where `limits` do not tell.
        n_rows : int, optional
            Rows of the imagined table; the declared `n_rows` if not given.
        """
        rows = self._rows_declared(n_features)
        plan = (self._other or self)._plan(rows)
        if (other := self._other) is not None:
            return other._forecast(rows, plan, n_rows)
        n = self._expected_rows(n_rows)
        if unknown := [name for name, *_ in rows.bought]:
            rows = rows.found(dict.fromkeys(unknown, (-1.0, 1.0)))
        d = len(rows.features.names)
        # Inputs all over the limits, and noise that anybody may know.
        imagined = inducing_points(d, 1024) * (0.5 * (rows.features.high - rows.features.low))
        phi = self._phi(imagined + rows.features.middle, rows)
        rng = np.random.default_rng(0)
        gram = n * (phi.T @ phi) / len(phi)
        gram = add_symmetric_noise(gram, plan.noise_scale["gram"], rng)
        unit = self._unit(rows)
        errors = []
        for share in (0.9, 0.5):
            weights = NoisyRegression(gram, None, (n, 0.25 * n), plan.noise_scale, (share,))
            errors.append(unit * math.sqrt(float(np.mean(weights.predict(phi)[1]))))
        assumed = (
            self._assumed_rows(n),
            "rows all over the limits",
            "labels spread over half of their limits",
            "of which the process explains 50% to 90%",
            *(["limits of -1 and 1 where they are to be found"] if unknown else []),
        )
        name = "root mean square error of the process"
        return Forecast({name: (min(errors), max(errors))}, assumed)

    # -- with the data -----------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predicted labels, from the release alone.

        Parameters
        ----------
        X : array_like of shape (n, d), or a table with the columns that were fitted
        return_std : bool, default False
            "inducing": whether to return with them the standard deviation of a new label about its
            prediction. Privacy noise, what the points cannot resolve and what the process leaves
            of the labels are all in it.
        """
        require_fitted(self)
        rows, middle = self._fitted, self._middle
        inputs = self._inputs(X)
        if (other := self._other) is not None:
            if return_std:
                raise ValueError(
                    f"Expected method='auto' for return_std, got {self.method!r}; its draws alone "
                    "do not tell how far they are from the process."
                )
            return middle + other.predict(inputs, rows)  # type: ignore[attr-defined]
        mean, variance = self._weights.predict(self._phi(inputs, rows))
        unit = self._unit(rows)
        if not return_std:
            return middle + unit * mean
        return middle + unit * mean, unit * np.sqrt(variance + self._weights.left)

    def intervals(self, X: Any, level: float = 0.95, of: str = "population") -> Intervals:
        """Intervals for the process at some inputs, from the release alone.

        Parameters
        ----------
        X : array_like of shape (n, d), or a table with the columns that were fitted
        level : float, default 0.95
        of : {"population"}
            The process from which labels were drawn; sampling and the noise of privacy are
            covered. (A posterior does not tell the two apart.) For a new label see `predict`.
        """
        require_fitted(self)
        _validate.one_of("of", of, ["population"])
        if self._other is not None:
            raise ValueError(
                f"Expected method='auto' for intervals, got {self.method!r}; its draws alone do "
                "not tell how far they are from the process."
            )
        inputs = self._inputs(X)
        mean, variance = self._weights.predict(self._phi(inputs, self._fitted))
        unit = self._unit(self._fitted)
        names = tuple(", ".join(f"{value:.6g}" for value in row) for row in inputs)
        estimate = self._middle + unit * mean
        return Intervals.of_normal(
            names, estimate[None], unit * np.sqrt(variance)[None], level=level, of=of
        )

    def answers(self) -> list[Answer]:
        """The process along every feature in turn, the others in the middle of their limits."""
        features, found = self._fitted.features, []
        for index, name in enumerate(features.names):
            points = np.tile(features.middle, (5, 1))
            points[:, index] = np.linspace(features.low[index], features.high[index], 5)
            shown = [f"{value:.6g}" for value in points[:, index]]
            found += self.intervals(points).answers([f"by {name}"], shown)
        return found

    def _study(self, table: Table, plan: Plan) -> Any:
        rows = table.rows
        sums = table.sum(self._features_of(rows))
        self._check_rows(table.n_rows)
        return sums

    def _draw(
        self, studied: Any, plan: Plan, table: Table, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        features, noise, unit = self._features_of(table.rows), plan.noise_scale, float(GRID_NORM**2)
        sums = studied
        return {
            "weights": features.weights * 2.0**-features.bits,
            "gram": add_symmetric_noise(sums["gram"], unit * noise["gram"], rng) / unit,
            "cross": add_noise(sums["cross"][:, 0], unit * noise["cross"], rng) / unit,
            "totals": np.array(
                [
                    float(add_noise(sums["count"], noise["totals"], rng)),
                    float(add_noise(sums["squares"], unit * noise["totals"], rng)) / unit,
                ]
            ),
        }

    def _finish(self, rows: Rows) -> None:
        self._fitted = rows
        self._middle = float(rows.labels.middle[0])
        arrays = self.release_.arrays
        if self._other is not None:
            return
        n, squares = arrays["totals"]
        self._weights = NoisyRegression(
            arrays["gram"], arrays["cross"], (n, squares), self.noise_scale_
        )
        self.noise_variance_ = float(self._unit(rows) ** 2 * self._weights.left)

    def _public(self, data: Table) -> dict[str, Any]:
        rows, (label,) = data.rows, data.rows.labels.columns
        public = super()._public(data) | {
            "columns": list(rows.features.columns),
            "limits": dict(rows.features.limits or {}),
            "label": label,
            "label_limits": rows.labels.limits[label],
        }
        if self.kernel is not None:
            public["kernel"] = described(made(self.kernel))
        public.pop("query_points", None)
        return public if self._other is None else public | self._other._public(rows)

    # -- parts -------------------------------------------------------------------------------

    def _arrays(self, X: Any, y: Any, numeric: bool = True) -> tuple[Any, Any]:
        from sklearn.utils.validation import column_or_1d

        rows, labels = super()._arrays(X, y, numeric)
        return rows, column_or_1d(labels, warn=True) if isinstance(labels, np.ndarray) else labels

    def _rows(self, table: Table, labels: Sequence[str]) -> Rows:
        features = self._features(table, labels)
        if len(labels) > 1:
            raise ValueError(f"Expected one label, got {len(labels)}; fit one process for each.")
        return self._with_label(features, labels[0])

    def _rows_declared(self, n_features: int | None) -> Rows:
        features = self._declared(n_features)
        label = "y"
        while label in features.columns:
            label += "_"
        return self._with_label(features, label)

    def _with_label(self, features: Columns, label: str) -> Rows:
        limits = self._label_limits([label])
        if limits is None:
            raise wrong("label_limits")(
                "Expected label_limits, the public least and largest label, got None; take them "
                "from what the label means, not from the data."
            )
        rows = Rows(features, Columns([label], {}, limits), weighted=False)
        if rows.bought and (self._other is not None or self.kernel is not None):
            raise ValueError(
                'Expected public limits for method="posterior" or a kernel of your own, got '
                '"private"; pass the least and largest values, or take the default.'
            )
        return rows

    def _limits_of(self, names: Sequence[str], labels: Sequence[str] = ()) -> Any:
        if self.limits is None:
            raise wrong("limits")(
                "Expected limits, the public least and largest value of every feature, got None; "
                "take them from what the columns mean, not from the data."
            )
        return super()._limits_of(names, labels)

    def _placed(self) -> tuple[bool, bool]:
        return False, True

    def kernel_of(self, rows: Rows) -> Any:
        """The kernel for inputs with these limits, with fixed parameters."""
        if self.kernel is None:
            return default_kernel(rows.features, _half(rows.labels))
        return made(self.kernel)

    def _features_of(self, rows: Rows) -> KernelMoments:
        return kernel_moments(self.kernel_of(rows), rows.features, self.n_inducing)

    def _unit(self, rows: Rows) -> float:
        """One unit of the scaled label."""
        return float(GRID_NORM / rows.labels.scale[0])

    def _phi(self, inputs: FloatArray, rows: Rows) -> FloatArray:
        """Features of inputs in the units of the table, one row for each."""
        on_grid, _ = rows.features.to_grid(inputs.T.copy())
        features = self._released_features(rows)
        return np.asarray(features.features(Block(on_grid)).T / GRID_NORM)

    def _released_features(self, rows: Rows) -> KernelMoments:
        """Those whose moments were released; eigenvectors may differ on other machines."""
        planned = self._features_of(rows)
        if not hasattr(self, "release_"):
            return planned
        weights = self.release_.arrays["weights"] * 2.0**planned.bits
        return KernelMoments(planned.points, weights, planned.bits, planned.factors, planned.nu)

    def _inputs(self, X: Any) -> FloatArray:
        """New inputs, moved to their limits."""
        features = self._fitted.features
        blocks = self._new_rows(X, features).blocks(raw=True)
        inputs = np.vstack([on_host(block.features).T for block in blocks])
        return np.asarray(np.clip(inputs, features.low, features.high))


def _half(labels: Columns) -> float:
    return float(0.5 * (labels.high[0] - labels.low[0]))


class NoisyRegression:
    """Bayesian linear regression on noisy moments: post-processing of a release.

    Parameters
    ----------
    gram : ndarray of shape (d, d)
        Sum of phi phi^T with symmetric noise.
    cross : ndarray of shape (d,) or None
        Sum of phi y with noise; None asks what is known before there are labels.
    totals : (float, float)
        The number of rows and the sum of squared labels, with noise.
    noise_scale : dict of str to float
        Noise on the three.
    explained : sequence of float
        Shares of the labels' mean square that the process may explain; averaged by likelihood.

    Notes
    -----
    In the eigenbasis of the Gram matrix, with values xi (`Spectrum`), cross = xi beta + error. The
    error has variance s2 xi from labels about the process, s^2 from noise, and what the basis
    mixes of other directions. With beta ~ N(0, g) each direction is a line.
    """

    def __init__(
        self,
        gram: FloatArray,
        cross: FloatArray | None,
        totals: tuple[float, float],
        noise_scale: dict[str, float],
        explained: Sequence[float] = _EXPLAINED,
    ) -> None:
        spectrum = Spectrum(gram, noise_scale["gram"])
        xi, noise = np.maximum(spectrum.values, 1e-6), noise_scale["totals"]
        n = max(float(totals[0]), noise)
        square = float(np.clip(totals[1], 0.5 * noise, n)) / n
        self.vectors = spectrum.vectors
        u = np.zeros(len(xi)) if cross is None else self.vectors.T @ cross
        betas, spreads, heights, logs = [], [], [], []
        for share in explained:
            g, left = share * square, (1.0 - share) * square
            beta2 = np.full(len(xi), g)
            for _ in range(_ROUNDS):
                error = left * xi + noise_scale["cross"] ** 2 + spectrum.mixing @ beta2
                total = g * xi**2 + error
                beta, spread = g * xi * u / total, g * error / total
                if cross is not None:
                    beta2 = beta**2 + spread
            betas.append(beta)
            spreads.append(spread)
            heights.append(g)
            logs.append(-0.5 * float(np.sum(u**2 / total + np.log(total))))
        weight = np.exp(np.array(logs) - max(logs))
        self.weight, self.betas = weight / weight.sum(), np.array(betas)
        self.spreads, self.heights = np.array(spreads), np.array(heights)
        mean = self.weight @ self.betas
        length = float(mean @ mean)
        # What the process leaves of the labels, with two standard errors of its noise.
        rest = float(totals[1]) - 2.0 * float(mean @ u) + float(xi @ mean**2)
        error = math.sqrt(
            noise**2 + 4.0 * noise_scale["cross"] ** 2 * length + spectrum.variance * length**2
        )
        self.left = float(np.clip((rest + 2.0 * error) / n, 0.01 * square, square))

    def predict(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the process at inputs with these features."""
        turned = phi @ self.vectors
        means = self.betas @ turned.T
        outside = np.maximum(1.0 - np.sum(phi**2, axis=1), 0.0)
        variances = self.spreads @ (turned**2).T + self.heights[:, None] * outside
        mean = self.weight @ means
        return mean, self.weight @ (variances + (means - mean) ** 2)
