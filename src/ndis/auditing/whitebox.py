"""Audits of mechanisms whose output law is known.

An audit looks for the pair of neighbours that is easiest to tell apart. The search runs on the
fast path, in both directions of every pair; what it finds is then enclosed in ball arithmetic, so
that a refutation is a proof. What was searched, and what was not, is part of the verdict.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from ndis import _validate
from ndis._validate import FloatArray
from ndis.auditing.verdict import FLOATING, PROVEN, Claim, Neighbour, Verdict, clears, decide
from ndis.chi_square import GeneralizedChiSquare
from ndis.gaussian import Gaussian, log_delta_bounds, privacy_loss
from ndis.guarantee import NeighbourRelation
from ndis.loss import PrivacyLoss, QuadraticLoss, renyi
from ndis.mechanisms.additive import GaussianMechanism
from ndis.mechanisms.base import PrivateEstimator
from ndis.tables import track

# The routes of `audit_pair` must agree to this; the classical one has no more digits to offer.
_AGREEMENT = 1e-9
# What a mechanism's own arithmetic may have done to an entry of a covariance, in units of rounding
# and of its diagonal; to be multiplied by the dimension, and by the condition of the matrix.
_ROUNDINGS = 64.0 * float(np.finfo(np.float64).eps)
# Covariance matrices up to this size are enclosed together with their eigenvalue problem.
_ENCLOSED = 100
# Starting points of the search for the worst record, and evaluations it may use from each.
_STARTS = 4
_EVALUATIONS = 80
_DEEPEST = 1e6  # where a row is not accepted: a depth that no delta has
# Tables with more rows have too many laws to compute for a local search beside them.
_SEARCHED = 20_000
# Rows of these lengths are moved where rows have no bound.
_LONG, _ZEROS = (10.0, 1e3, 1e5), 1000
# Neighbours by replacement that are looked at; of more, so many at random.
_REPLACEMENTS = 20_000
# The worst neighbours that a verdict lists.
_LISTED = 10
# Orders at which a batch of losses is bounded before any delta is computed, rows of the sample that
# chooses among them, how many it chooses, and how many deltas are computed at a time.
_ORDERS, _SAMPLED, _CHOSEN = np.geomspace(0.05, 5e4, 600), 256, 8
_AT_ONCE = 2048

# What neighbours are called: which comes first is part of it.
_ONE_ROW = "one row of the table"
_PRESENCE = (", present first", ", absent first")
_LAWS = ("the first law against the second", "the second law against the first")

Law = Callable[[Any], Gaussian]


# -- one pair --------------------------------------------------------------------------------


def audit_pair(P: Gaussian, Q: Gaussian, claim: Any) -> Verdict:
    """Check a claim against one pair of Gaussians, in both directions.

    Two routes must agree before anything is said: the difference of two generalized chi-square
    probabilities (the published tool), and the contour integral in ball arithmetic. They have in
    common the doubles of the two laws, which directions count as degenerate, and how a path of
    integration is chosen. The first takes the eigenvalues and the sum over the path as floating
    point finds them, the second encloses both. Laws that are mutually singular have no density to
    compare: delta is 1, and there is no second route.

    Parameters
    ----------
    P, Q : Gaussian
        The output laws on two neighbouring data sets.
    claim : (epsilon, delta) or Guarantee

    Returns
    -------
    Verdict

    Examples
    --------
    >>> from ndis import Gaussian, audit_pair
    >>> P, Q = Gaussian([0.0], [[1.0]]), Gaussian([1.0], [[1.0]])
    >>> print(audit_pair(P, Q, claim=(1.0, 0.1)))
    REFUTED: the claim of (1, 0.1)-differential privacy is false. At that epsilon delta is at least 0.1269, proven; the witness is the first law against the second.
    """  # noqa: E501 - the verdict is one line
    asked = Claim.of(claim)
    search = _Search(asked, copies=1)
    search.consider(P, Q, "", orders=_LAWS)
    low, high, _ = search.enclose()
    singular = bool(np.isinf(search.loss.excess).any())
    classical = math.exp(high) if singular else chi_square_delta(search.loss, asked.epsilon)
    if not math.exp(low) - _AGREEMENT <= classical <= math.exp(high) + _AGREEMENT:
        raise ArithmeticError(
            f"Two routes disagree on delta at epsilon={asked.epsilon}: {classical} and "
            f"{math.exp(high)}; please report this pair."
        )
    return search.verdict(("both directions of this pair",), ("any other pair of neighbours",))


def audit_loss(loss: PrivacyLoss, claim: Any) -> Verdict:
    """Check a claim against a privacy loss, in both directions.

    For mechanisms that are not Gaussian but whose loss is known.

    Parameters
    ----------
    loss : PrivacyLoss
        One whose lower bounds are attained by a pair of neighbours. A loss that is nothing but an
        upper bound refutes nothing, and is refused.
    claim : (epsilon, delta) or Guarantee

    Returns
    -------
    Verdict

    Examples
    --------
    >>> from ndis import LeastSquaresLoss
    >>> from ndis.auditing import audit_loss
    >>> audit_loss(LeastSquaresLoss(0.05, 3, 100), claim=(1.0, 1e-6)).outcome
    'refuted'
    """
    asked = Claim.of(claim)
    ways = loss.directions()
    bounds = [tuple(map(float, way.log_delta_bounds(asked.epsilon))) for way in ways]
    if all(
        way.exactness == "upper bound" and low == -math.inf < high
        for way, (low, high) in zip(ways, bounds, strict=True)
    ):
        raise ValueError(
            f"Expected a loss that a pair of neighbours attains, got {type(loss).__name__}; an "
            "upper bound on delta cannot refute a claim."
        )
    place = max(range(len(bounds)), key=lambda i: bounds[i][0])
    order = (
        ("record present first", "record absent first")[place] if len(ways) == 2 else "any order"
    )
    return decide(
        asked,
        float(ways[place].log_delta(asked.epsilon)),
        bounds[place][0],
        f"the worst pair, {order}",
        ("both directions of the worst pair of this loss",),
        loss=ways[place],
    )


def chi_square_delta(loss: QuadraticLoss, epsilon: float) -> float:
    """The classical route, P(L > epsilon) - e^epsilon Q(L > epsilon): two generalized chi-squares.

    It loses its digits as delta falls, and is kept to check the other route.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.auditing.whitebox import chi_square_delta
    >>> f"{chi_square_delta(QuadraticLoss.from_shift(1.0), 1.0):.9f}"
    '0.126936738'
    """
    if np.isinf(loss.excess).any():
        return 1.0
    if not (loss.excess.any() or loss.shift.any()):  # one law
        return max(0.0, -math.expm1(epsilon))  # delta of one law against itself, not a clip
    above = float(loss_law(loss).sf(epsilon))
    under_q = float(loss_law(loss.reversed()).cdf(-epsilon))
    return above - math.exp(epsilon) * under_q if under_q else above


def loss_law(loss: QuadraticLoss) -> GeneralizedChiSquare:
    """The law of the privacy loss itself, as a generalized chi-square.

    A direction with variance ratio v1/v2 = 1 + 2w and mean difference m, in units of the first
    standard deviation, contributes w (z + m (1 + 2w)/(2w))^2 and constants; one with equal
    variances contributes a normal of standard deviation m.

    Examples
    --------
    >>> from ndis import QuadraticLoss
    >>> from ndis.auditing.whitebox import loss_law
    >>> law = loss_law(QuadraticLoss.from_shift(1.0))
    >>> float(law.mean()), float(law.var())
    (0.5, 1.0)
    """
    x, n, size = loss.excess, loss.count, 1.0 + np.abs(loss.excess)
    ratio = np.where(x >= 0, size, 1.0 / size)
    squared = np.where(x >= 0, loss.shift / size, loss.shift)
    curved = x != 0
    weights = 0.5 * np.where(x >= 0, x, x / size)[curved]
    centres = squared[curved] * (ratio[curved] / (2.0 * weights)) ** 2
    logs = np.where(x >= 0, np.log1p(np.maximum(x, 0.0)), -np.log1p(-np.minimum(x, 0.0)))
    constant = 0.5 * float((ratio * squared - n * logs).sum()) - float((weights * centres).sum())
    normal = math.sqrt(float(squared[~curved].sum()))
    return GeneralizedChiSquare(weights, n[curved], centres, normal, constant)


# -- a mechanism -----------------------------------------------------------------------------


def audit(
    mechanism: Any,
    data: Any,
    claim: Any = None,
    *,
    relation: NeighbourRelation | str | None = None,
    universe: ArrayLike | None = None,
    data_norm: float | None = None,
    copies: int | None = None,
) -> Verdict:
    """Look for neighbours on which a mechanism breaks its claim.

    Parameters
    ----------
    mechanism : object or callable
        An estimator of this library; anything with `output_law(data) -> Gaussian`; or a function
        that returns a Gaussian or a pair (mean, covariance).
    data : array_like or tuple
        The data set around which to search, one row per person, with the label as the last column
        for a regression; a weighted adjacency matrix for the relation "edge". For an estimator
        also the arguments of `fit` as a tuple: any table it can read. It is then run on the data
        and on neighbours with the same noise (see `ndis.auditing.estimators`), as it is wherever
        no single law is known.
    claim : (epsilon, delta) or Guarantee, optional
        What is claimed; by default the mechanism's own epsilon and delta.
    relation : NeighbourRelation or str, optional
        By default the mechanism's own relation, or "add-remove".
    universe : array_like, optional
        Rows that may be added, or put in place of others.
    data_norm : float, optional
        Public bound on the norm of a row: inside that ball the worst row to add is searched for.
        By default the mechanism's own.
    copies : int, optional
        How many independent draws of the law are released; by default the mechanism's own.

    Returns
    -------
    Verdict
        "refuted" with a witness and a proven lower bound, or "consistent" with the largest delta
        found. A search alone never proves a claim.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import PrivateProjection, audit
    >>> data = np.random.default_rng(0).uniform(-0.5, 0.5, (30, 3))
    >>> sound = PrivateProjection(epsilon=1.0, delta=1e-6, data_norm=1.0, n_components=20)
    >>> audit(sound, data).outcome
    'consistent'
    >>> half = 0.25 * sound.calibrate(3) ** 2 * np.eye(3)
    >>> def careless(table):
    ...     return np.zeros(3), table.T @ table + half
    >>> audit(careless, data, claim=(1.0, 1e-6), data_norm=1.0, copies=20).outcome
    'refuted'
    """
    plain = all(each is None for each in (universe, data_norm, copies))
    if plain and isinstance(mechanism, PrivateEstimator):
        arguments = _arguments_of_fit(mechanism, data)
        if arguments is not None:
            from ndis.auditing.estimators import audit_estimator

            return audit_estimator(mechanism, arguments, claim, relation=relation)
    asked = Claim.of(mechanism if claim is None else claim)
    named = str(relation or getattr(mechanism, "relation", None) or NeighbourRelation.ADD_REMOVE)
    kind = NeighbourRelation(_validate.one_of("relation", named, [*map(str, NeighbourRelation)]))
    draws = copies if copies is not None else getattr(mechanism, "output_copies", 1)
    norm = data_norm if data_norm is not None else getattr(mechanism, "data_norm", None)
    table = _validate.floats("data", data, ndim=2)
    pool = None if universe is None else _validate.floats("universe", universe, ndim=2)
    if pool is not None and pool.shape[1] != table.shape[1]:
        raise ValueError(
            f"Expected a universe of rows with {table.shape[1]} entries, as the data have, got "
            f"{pool.shape[1]}; the label, if there is one, belongs to a row."
        )
    search = _Search(asked, _validate.count("copies", draws))
    law = _law_of(mechanism, kind)
    around = _Surroundings(law, table, pool, norm)
    here = law(table)
    looked, missed = _SEARCHES[kind](search, around, here, mechanism)
    if search.refused and not search.worst:
        raise ValueError(
            f"Expected a mechanism that accepts neighbours of the data, got one that refuses all "
            f"{search.refused} that were tried; audit it around other data."
        )
    search.stand_above_rounding(here)
    return replace(search.verdict(looked, missed), of_table=True)


def _arguments_of_fit(estimator: PrivateEstimator, data: Any) -> tuple[Any, ...] | None:
    """What `fit` is to be given where an estimator has to be run; None if its law is known."""
    if isinstance(data, tuple):
        return data
    if isinstance(estimator, GaussianMechanism) or np.ndim(data) != 2:
        return (data,)
    graph = getattr(estimator, "relation", None) is NeighbourRelation.EDGE
    rows = np.asarray(data, dtype=np.float64)
    held = _as_graph(rows) if graph else rows
    law = getattr(estimator, "output_law", None)
    if law is None:
        return (held,)
    try:
        _whole_table(law)(held)
    except (ValueError, NotFittedError):  # there is no single one
        labelled = "y" in inspect.signature(estimator.fit).parameters and not graph
        wanted = inspect.signature(law).parameters
        return (rows[:, :-1], rows[:, -1]) if labelled and "y" in wanted else (held,)
    return None


def _law_of(mechanism: Any, kind: NeighbourRelation) -> Law:
    law = getattr(mechanism, "output_law", mechanism)
    if not callable(law):
        raise TypeError(
            f"Expected a mechanism with output_law(data), or a function, got "
            f"{type(mechanism).__name__}; pass a function that returns mean and covariance."
        )
    if law is mechanism:  # a function of the auditor's own gets the matrix as it is
        return lambda data: _gaussian(law(data))
    whole = _whole_table(law)
    graph = kind is NeighbourRelation.EDGE
    return lambda data: _gaussian(whole(_as_graph(data) if graph else data))


def _gaussian(result: Any) -> Gaussian:
    return result if isinstance(result, Gaussian) else Gaussian(*result)


def _as_graph(weights: FloatArray) -> Any:
    from scipy.sparse import csr_array

    return csr_array(weights)


def _whole_table(method: Callable[..., Any]) -> Callable[[FloatArray], Any]:
    """A method of (X, y) as one of a whole table, the label last; others as they are."""
    if "y" in inspect.signature(method).parameters:
        return lambda table: method(table[:, :-1], table[:, -1])
    return method


@dataclass
class _Search:
    """The worst pairs seen so far, at the claimed epsilon, record present first or last."""

    claim: Claim
    copies: int
    worst: list[Neighbour] = field(default_factory=list)
    loss: QuadraticLoss = field(default_factory=lambda: QuadraticLoss(0.0, 0.0, 0.0))
    pair: tuple[Gaussian, Gaussian] | None = None
    refused: int = 0
    ceiling: float = math.inf  # of what may be said about ln delta, whatever a pair would prove

    @property
    def log_delta(self) -> float:
        """Of the worst pair."""
        return self.worst[0].log_delta if self.worst else -math.inf

    def consider(
        self,
        P: Gaussian | None,
        Q: Gaussian | None,
        name: str,
        row: int | None = None,
        orders: tuple[str, str] = (", as it is first", ", changed first"),
    ) -> None:
        """Weigh a pair of laws in both directions; count it where one of them is refused."""
        if P is None or Q is None:
            self.refused += 1
            return
        loss = self.copies * privacy_loss(P, Q)
        ways = ((loss, (P, Q)), (loss.reversed(), (Q, P)))
        for (way, pair), order in zip(ways, orders, strict=True):
            height = float(way.log_delta(self.claim.epsilon))
            if height > self.log_delta or not self.worst:
                self.loss, self.pair = way, pair
            self._list(Neighbour(height, name + order, row))

    def consider_losses(self, losses: QuadraticLoss) -> None:
        """Weigh a batch of losses, one a row, in both directions."""
        for batch, order in zip((losses, losses.reversed()), _PRESENCE, strict=True):
            rows, heights = _highest(batch, self.claim.epsilon)
            for row, height in zip(rows.tolist(), heights.tolist(), strict=True):
                if height > self.log_delta or not self.worst:
                    self.loss, self.pair = batch[row], None
                self._list(Neighbour(height, _ONE_ROW + order, row))

    def _list(self, neighbour: Neighbour) -> None:
        """Keep the worst, and of rows that nobody has only the worst of each kind."""
        same = [seen for seen in self.worst if seen.row is None and seen.kind == neighbour.kind]
        if neighbour.row is None and same:
            if same[0].log_delta >= neighbour.log_delta:
                return
            self.worst.remove(same[0])
        self.worst.append(neighbour)
        self.worst.sort(key=lambda seen: -seen.log_delta)
        del self.worst[_LISTED:]

    def enclose(self) -> tuple[float, float, str]:
        """Proven bounds on ln delta of the worst pair, and what they rest on."""
        if self.pair is not None and self.pair[0].dimension <= _ENCLOSED:
            low, high = log_delta_bounds(*self.pair, self.claim.epsilon, self.copies)
        else:
            low, high = map(float, self.loss.log_delta_bounds(self.claim.epsilon))
        return low, high, FLOATING if self.pair is None else PROVEN

    def stand_above_rounding(self, here: Gaussian) -> None:
        """Let no claim be refuted by what a mechanism's own arithmetic did to its laws.

        A law that a mechanism computes is rounded, and a sound mechanism may meet its claim with
        equality. So the worst pair must break the claim even if every difference between its two
        laws is smaller by as much as rounding can have made it larger. Where only the law `here` of
        the data is known, its conditioning stands for that of the pair.
        """
        if clears(self.log_delta, self.claim):
            blurred = _blurred(self.loss, self.pair or (here, here), self.copies)
            height = float(blurred.log_delta(self.claim.epsilon))
            if not clears(height, self.claim):
                self.ceiling = height

    def verdict(self, looked: Sequence[str], missed: Sequence[str]) -> Verdict:
        """What was found."""
        low, _, basis = self.enclose()
        low = min(low, self.ceiling)
        if self.refused:
            missed = [*missed, f"{self.refused} neighbours that the mechanism refuses"]
        searched = (*looked, *(f"not searched: {part}" for part in missed))
        witness = self.worst[0].kind if self.worst else "no neighbour at all"
        return decide(
            self.claim,
            self.log_delta,
            low,
            witness,
            searched,
            basis=basis,
            worst=tuple(self.worst),
            pair=self.pair,
            loss=self.loss,
        )


def _blurred(loss: QuadraticLoss, pair: tuple[Gaussian, Gaussian], copies: int) -> QuadraticLoss:
    """A loss with every difference smaller by what rounding can do to the laws of its pair."""
    blur, move = 0.0, 0.0
    for law in pair:
        if law.variances is not None:
            spread = np.sqrt(law.variances)
            condition, d, alive = 1.0, 1, spread > 0
        else:
            spread = np.sqrt(np.diag(law.cov))
            alive = spread > 0
            scaled = law.cov[np.ix_(alive, alive)] / np.outer(*2 * [spread[alive]])
            least = float(np.linalg.eigvalsh(scaled)[0]) if alive.any() else 1.0
            d = int(alive.sum())
            condition = 1.0 / max(least, 1e-300)
        blur = max(blur, _ROUNDINGS * d * condition)
        sizes = np.abs(law.mean[alive]) / spread[alive]
        move = max(move, _ROUNDINGS * math.sqrt(d * condition) * float(sizes.max(initial=0.0)))
    size = np.abs(loss.excess)
    with np.errstate(invalid="ignore"):
        less = np.where(np.isinf(size), size, np.maximum(size * (1.0 - blur) - blur, 0.0))
    nearer = np.sqrt(loss.shift) * (1.0 - blur) - math.sqrt(copies) * move
    return QuadraticLoss(np.sign(loss.excess) * less, np.maximum(nearer, 0.0) ** 2, loss.count)


def _highest(losses: QuadraticLoss, epsilon: float) -> tuple[NDArray[np.intp], FloatArray]:
    """The rows of a batch with the largest delta, and ln of these.

    Every row is first bounded by min_s exp(Lambda(s) - s eps) s^s / (1+s)^(1+s); deltas are
    computed in the order of these bounds, until no bound is left above the worst that are known.
    Any s will do; tried are quantiles of those that are best for the rows of a sample.
    """
    (n,) = losses.batch_shape
    sample = losses[np.linspace(0, n - 1, min(n, _SAMPLED)).astype(np.intp)]
    best = np.argmin(_bounds(sample, epsilon, _ORDERS), axis=0)
    chosen = np.unique(np.quantile(best, np.linspace(0.0, 1.0, _CHOSEN), method="nearest"))
    bound = _bounds(losses, epsilon, _ORDERS[chosen]).min(axis=0)
    order = np.argsort(-bound)
    rows, heights = order[:0], np.empty(0)
    while order.size:
        part, order = order[:_AT_ONCE], order[_AT_ONCE:]
        rows = np.concatenate([rows, part])
        values = np.atleast_1d(np.asarray(losses[part].log_delta(epsilon)))
        heights = np.concatenate([heights, values])
        best = np.argsort(-heights, kind="stable")[:_LISTED]
        rows, heights = rows[best], heights[best]
        order = order[bound[order] >= heights[-1] - 1e-9]
    return rows, heights


def _bounds(losses: QuadraticLoss, epsilon: float, orders: FloatArray) -> FloatArray:
    """Bounds on ln delta of every row of a batch, by one order after another."""
    bounds = np.full((orders.size, *losses.batch_shape), np.inf)
    if not np.isinf(losses.excess).any():
        for bound, s in zip(bounds, orders, strict=True):
            bound[...] = renyi.log_delta_bound(losses.cumulant(s), s, epsilon)
    return bounds


# -- the neighbours of each relation -----------------------------------------------------------


@dataclass(frozen=True)
class _Surroundings:
    """Where to search: the law, the data set, the rows that others may have, their norm."""

    law: Law
    table: FloatArray
    universe: FloatArray | None
    data_norm: float | None

    def neighbour(self, table: FloatArray) -> Gaussian | None:
        """The law of a neighbour, None where the mechanism refuses it.

        It may: an empty table, or one that is longer than was declared, is outside its claim.
        """
        try:
            return self.law(table)
        except ValueError:
            return None


_Found = tuple[list[str], list[str]]


def _add_remove(search: _Search, around: _Surroundings, here: Gaussian, mechanism: Any) -> _Found:
    looked, missed = [_removals(search, around, here, mechanism)], []
    if around.universe is not None:
        for row in track(around.universe, "Adding rows"):
            larger = around.neighbour(np.vstack([around.table, row]))
            search.consider(larger, here, "a row of the universe", orders=_PRESENCE)
        looked.append(f"{len(around.universe)} additions from the universe given")
    if around.data_norm is None:
        missed.append("added rows beyond the universe, for want of a bound on their norm")
    else:
        # Not an empty table, which a mechanism need not accept.
        zeros = np.zeros((1, around.table.shape[1]))
        for name, base in (("this table", around.table), ("a row of zeros", zeros)):
            if len(base) > _SEARCHED:
                missed.append(f"rows to add to {name}, which has more than {_SEARCHED} rows")
                continue
            before = around.neighbour(base)
            if before is None:
                missed.append(f"rows to add to {name}: the mechanism refuses it")
                continue

            def beside(row: FloatArray, base: FloatArray = base) -> Gaussian | None:
                return around.neighbour(np.vstack([base, row]))

            if _worst_row(search, around, beside, before, f"a row beside {name}", _PRESENCE):
                looked.append(f"the worst row to add to {name}, {_LOCALLY}")
            else:
                missed.append(f"rows to add to {name}: the mechanism refuses them")
    missed.append("tables that are not neighbours of these")
    return looked, missed


_LOCALLY = f"by local search ({_STARTS} starts, {_EVALUATIONS} evaluations each)"


def _removals(search: _Search, around: _Surroundings, here: Gaussian, mechanism: Any) -> str:
    """Every removal: by rank-one updates where the mechanism knows them, else one by one."""
    n = len(around.table)
    if not hasattr(mechanism, "removal_losses"):
        for i in track(range(n), "Removing rows", n):
            smaller = around.neighbour(np.delete(around.table, i, axis=0))
            search.consider(here, smaller, _ONE_ROW, i, orders=_PRESENCE)
        return f"all {n} removals, one by one"
    if not n:
        return "no removal, as there is no row"
    losses = _whole_table(mechanism.removal_losses)(around.table)
    search.consider_losses(search.copies * losses)
    worst = search.worst[0]
    assert worst.row is not None
    # The worst one again from the laws themselves, for the proof.
    smaller = around.neighbour(np.delete(around.table, worst.row, axis=0))
    if smaller is not None:
        present = worst.kind.endswith(_PRESENCE[0])
        search.pair = (here, smaller) if present else (smaller, here)
    return f"all {n} removals"


def _worst_row(
    search: _Search,
    around: _Surroundings,
    with_row: Callable[[FloatArray], Gaussian | None],
    before: Gaussian,
    name: str,
    orders: tuple[str, str],
    row: int | None = None,
) -> bool:
    """Local search for the row inside the ball that is easiest to see; False if none is accepted.

    It climbs on a bound of delta, which is cheap; delta itself is computed where a climb ends.
    """
    from scipy.optimize import minimize

    norm = _validate.positive("data_norm", around.data_norm)
    d = around.table.shape[1]

    def inside(free: FloatArray) -> FloatArray:
        return np.asarray(free * (norm / max(float(np.linalg.norm(free)), norm)))

    def depth(free: FloatArray) -> float:
        law = with_row(inside(free))
        if law is None:
            return _DEEPEST
        loss = search.copies * privacy_loss(law, before)
        if np.isinf(loss.excess).any():
            return 0.0
        eps = search.claim.epsilon
        ways = (loss, loss.reversed())
        bounds = (renyi.log_delta_bound(way.cumulant(_ORDERS), _ORDERS, eps) for way in ways)
        return -max(float(np.min(bound)) for bound in bounds)

    rng = np.random.default_rng(0)  # an auditor's search is repeatable and needs no secrecy
    axes = np.linalg.eigh(around.table.T @ around.table + np.eye(d))[1]
    starts = [norm * axes[:, 0], norm * axes[:, -1]]
    starts += [norm * v / np.linalg.norm(v) for v in rng.standard_normal((_STARTS - 2, d))]
    if with_row(starts[0]) is None:
        return False
    for start in starts:
        options = {"maxfev": _EVALUATIONS}
        end = np.asarray(minimize(depth, start, method="Nelder-Mead", options=options).x)
        for free in (start, -start, end):
            # What comes first in `orders` is the law with the row.
            search.consider(with_row(inside(free)), before, name, row, orders=orders)
    return True


def _replace(search: _Search, around: _Surroundings, here: Gaussian, mechanism: Any) -> _Found:
    table = around.table
    rows, whose = (
        (table, "of the table itself")
        if around.universe is None
        else (around.universe, "of the universe given")
    )

    def replaced(i: int, row: FloatArray) -> Gaussian | None:
        other = table.copy()
        other[i] = row
        return around.neighbour(other)

    count = len(table) * len(rows)
    chosen: Any = range(count)
    if count > _REPLACEMENTS:
        chosen = np.random.default_rng(0).choice(count, _REPLACEMENTS, replace=False).tolist()
    for place in track(chosen, "Replacing rows", len(chosen)):
        i, j = divmod(int(place), len(rows))
        search.consider(here, replaced(i, rows[j]), "one row replaced", i)
    looked = [f"all {count} replacements of a row by one {whose}"]
    missed = [f"rows that are not {whose}", "other tables"]
    if count > _REPLACEMENTS:
        looked = [f"{_REPLACEMENTS} random replacements of a row by one {whose}"]
        missed.insert(0, f"the other {count - _REPLACEMENTS} replacements")
    if around.data_norm is not None and search.worst:
        i = search.worst[0].row or 0
        ways = (", changed first", ", as it is first")
        _worst_row(search, around, lambda row: replaced(i, row), here, "one row replaced", ways, i)
        looked.append(f"any row within the norm in place of the worst one, {_LOCALLY}")
    return looked, missed


def _row_shift(search: _Search, around: _Surroundings, here: Gaussian, mechanism: Any) -> _Found:
    table, d = around.table, around.table.shape[1]
    rng = np.random.default_rng(0)
    random = rng.standard_normal((_STARTS, d))
    moves = np.vstack([np.eye(d), random / np.linalg.norm(random, axis=1)[:, None]])

    def move_row(base: FloatArray, law: Gaussian | None, name: str, i: int, own: bool) -> None:
        for move in (*moves, *-moves):
            other = base.copy()
            other[i] += move
            search.consider(law, around.neighbour(other), name, i if own else None)

    for i in track(range(len(table)), "Moving rows", len(table)):
        move_row(table, here, "one row moved", i, own=True)
    # Rows have no bound here, and beside a long one least is seen of where it was; zeros around
    # it keep the mean nearly where it is, for mechanisms that subtract it.
    for length in _LONG:
        long = np.zeros((_ZEROS, d))
        long[0, 0] = length
        move_row(long, around.neighbour(long), "a long row moved", 0, own=False)
    looked = [
        f"{2 * len(moves)} moves of length 1 of each of {len(table)} rows",
        f"the same moves of a row of length {', '.join(f'{x:g}' for x in _LONG)} among zeros",
    ]
    return looked, ["moves in other directions", "shorter moves", "other tables"]


def _edge(search: _Search, around: _Surroundings, here: Gaussian, mechanism: Any) -> _Found:
    weights = around.table
    if not np.array_equal(weights, weights.T):
        raise ValueError(
            "Expected a symmetric matrix of weights for the relation 'edge', got another one; "
            "put the weight between u and v at both [u, v] and [v, u]."
        )
    pairs = list(combinations(range(len(weights)), 2))
    for u, v in track(pairs, "Changing edges", len(pairs)):
        for weight in (0.0, 1.0):
            if weights[u, v] != weight:
                other = weights.copy()
                other[u, v] = other[v, u] = weight
                search.consider(here, around.neighbour(other), "one edge changed", u)
    looked = [f"each of {len(pairs)} edges set to 0 and to 1"]
    return looked, ["weights between 0 and 1", "other graphs"]


_SEARCHES: dict[NeighbourRelation, Callable[[_Search, _Surroundings, Gaussian, Any], _Found]] = {
    NeighbourRelation.ADD_REMOVE: _add_remove,
    NeighbourRelation.REPLACE: _replace,
    NeighbourRelation.ROW_SHIFT: _row_shift,
    NeighbourRelation.EDGE: _edge,
    NeighbourRelation.PARTY: _replace,
}
