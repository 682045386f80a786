"""Audits of mechanisms whose output law is known.

An audit looks for the pair of neighbours that is easiest to tell apart. The search runs on the
fast path, in both directions of every pair; what it finds is then enclosed in ball arithmetic, so
that a refutation is a proof. What was searched, and what was not, is part of the verdict. The laws
of estimators need no second implementation: they are run (`ndis.auditing.estimators`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.auditing.estimators import Search, audit_estimator
from ndis.auditing.neighbours import ORDERS, Data, Neighbours, Place, places_of_law
from ndis.auditing.transcript import Difference
from ndis.auditing.verdict import Claim, Verdict
from ndis.chi_square import GeneralizedChiSquare
from ndis.gaussian import Gaussian, log_delta_bounds, privacy_loss
from ndis.guarantee import NeighbourRelation
from ndis.loss import PrivacyLoss, QuadraticLoss, renyi
from ndis.mechanisms import PrivateEstimator

# The routes of `audit_pair` must agree to this; the classical one has no more digits to offer.
_AGREEMENT = 1e-9
# Starting points of the search for the worst record, and evaluations it may use from each.
_STARTS, _EVALUATIONS = 4, 80
_DEEPEST = 1e6  # where a row is not accepted: a depth that no delta has
# Tables with more rows have too many laws to compute for a local search beside them.
_SEARCHED = 20_000
_LAWS = ("the first law against the second", "the second law against the first")


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
    asked, loss = Claim.of(claim), privacy_loss(P, Q)
    ways = ((loss, P, Q, _LAWS[0]), (loss.reversed(), Q, P, _LAWS[1]))
    heights = [float(way.log_delta(asked.epsilon)) for way, *_ in ways]
    worst, first, second, witness = ways[heights[1] > heights[0]]
    low, high = log_delta_bounds(first, second, asked.epsilon)
    singular = bool(np.isinf(worst.excess).any())
    classical = math.exp(high) if singular else chi_square_delta(worst, asked.epsilon)
    # Where the loss is nearly a constant its law has no ten digits, and is NaN: no second route.
    if classical < math.exp(low) - _AGREEMENT or classical > math.exp(high) + _AGREEMENT:
        raise ArithmeticError(
            f"Two routes disagree on delta at epsilon={asked.epsilon}: {classical} and "
            f"{math.exp(high)}; please report this pair."
        )
    searched = ("both directions of this pair",), ("any other pair of neighbours",)
    return Verdict(asked, max(heights), low, witness, *searched, loss=worst)


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
    return Verdict(
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
    centers = squared[curved] * (ratio[curved] / (2.0 * weights)) ** 2
    logs = np.where(x >= 0, np.log1p(np.maximum(x, 0.0)), -np.log1p(-np.minimum(x, 0.0)))
    constant = 0.5 * float((ratio * squared - n * logs).sum()) - float((weights * centers).sum())
    normal = math.sqrt(float(squared[~curved].sum()))
    return GeneralizedChiSquare(weights, n[curved], centers, normal, constant)


# -- a mechanism -----------------------------------------------------------------------------


def audit(
    mechanism: Any,
    data: Any,
    claim: Any = None,
    *,
    relation: NeighbourRelation | str | None = None,
    universe: ArrayLike | None = None,
    data_norm: float | None = None,
    copies: int = 1,
) -> Verdict:
    """Look for neighbours on which a mechanism breaks its claim.

    Parameters
    ----------
    mechanism : PrivateEstimator or callable
        An estimator is run on the data and on neighbours with the same answers (see
        `ndis.auditing.estimators`). Of anything else the law has to be known: a function of a
        matrix that returns a Gaussian or a pair (mean, covariance).
    data : array_like or tuple
        For an estimator the arguments of `fit`, as a tuple if there are several. For a law the
        matrix around which to search, one row per person; a weighted adjacency matrix for the
        relation "edge".
    claim : (epsilon, delta) or Guarantee, optional
        What is claimed; by default what the estimator promises.
    relation : NeighbourRelation or str, optional
        By default the estimator's own relation, or "add-remove".
    universe : array_like, optional
        Of a law: rows that may be added, or put in place of others.
    data_norm : float, optional
        Of a law: public bound on the norm of a row. Inside that ball the worst row is searched for.
    copies : int
        Of a law: how many independent draws of it are released.

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
    if isinstance(mechanism, PrivateEstimator):
        if universe is not None or data_norm is not None or copies != 1:
            raise ValueError(
                "Expected universe, data_norm and copies with the law of a mechanism, got them "
                "with an estimator, which knows its own; leave them out."
            )
        arguments = data if isinstance(data, tuple) else (data,)
        return audit_estimator(mechanism, arguments, claim, relation=relation)
    if not callable(mechanism):
        raise TypeError(
            f"Expected an estimator or the law of a mechanism, got {type(mechanism).__name__}; "
            "pass a function that returns mean and covariance."
        )
    kind = NeighbourRelation(relation or NeighbourRelation.ADD_REMOVE)
    table = _validate.floats("data", data, (None, None))
    pool = None if universe is None else _validate.floats("universe", universe, (None, None))
    if pool is not None and pool.shape[1] != table.shape[1]:
        raise ValueError(
            f"Expected a universe of rows with {table.shape[1]} entries, as the data have, got "
            f"{pool.shape[1]}; the label, if there is one, belongs to a row."
        )
    draws = _validate.count("copies", copies)

    def law(data: Data, like: Gaussian | None = None) -> Gaussian:
        found = mechanism(*data)
        return found if isinstance(found, Gaussian) else Gaussian(*found)

    def compare(here: Gaussian, there: Gaussian) -> Difference:
        return Difference(laws=[(here, there, draws)])

    search = Search(Claim.of(claim), compare)
    search.look(places_of_law(table, kind, pool, data_norm), law)
    if data_norm is not None:
        norm = _validate.positive("data_norm", data_norm)
        search.look(_climbs(search, law, table, kind, norm), law)
    return search.verdict()


def _climbs(
    search: Search,
    law: Callable[[Data], Gaussian],
    table: FloatArray,
    kind: NeighbourRelation,
    norm: float,
) -> Iterator[Place]:
    """Local searches for the worst row: beside this table and beside zeros, or in its place."""
    said = f"by local search ({_STARTS} starts, {_EVALUATIONS} evaluations each)"
    # Not an empty table, which a mechanism need not accept.
    bases = {"this table": table, "a row of zeros": np.zeros((1, table.shape[1]))}
    if kind in (NeighbourRelation.REPLACE, NeighbourRelation.PARTY):
        bases = {"the worst row": table}
    elif kind is not NeighbourRelation.ADD_REMOVE:
        return
    for name, base in bases.items():
        if len(base) > _SEARCHED:
            search.missed.append(f"rows beside {name}, which has more than {_SEARCHED} rows")
            continue
        row = search.worst[0].row if name == "the worst row" and search.worst else None
        kept = base if row is None else np.delete(base, row, axis=0)
        rows = _climb(search, law, base, kept, norm)
        found: Neighbours = (
            (f"a row within the norm, {name}", row, (np.vstack([kept, each]),)) for each in rows
        )
        yield Place((base,), found, f"any row within the norm and {name}, {said}")


def _climb(
    search: Search,
    law: Callable[[Data], Gaussian],
    base: FloatArray,
    kept: FloatArray,
    norm: float,
) -> Iterator[FloatArray]:
    """Rows inside the ball that are easy to see beside others, by local search.

    It climbs on a bound of delta, which is cheap.
    """
    from scipy.optimize import minimize

    before, epsilon, d = law((base,)), search.claim.epsilon, base.shape[1]

    def inside(free: FloatArray) -> FloatArray:
        return np.asarray(free * (norm / max(float(np.linalg.norm(free)), norm)))

    def depth(free: FloatArray) -> float:
        try:
            here = law((np.vstack([kept, inside(free)]),))
        except ValueError:
            return _DEEPEST
        loss = search.compare(here, before).loss()
        if np.isinf(loss.excess).any():
            return 0.0
        bounds = (
            renyi.log_delta_bound(way.cumulant(ORDERS), ORDERS, epsilon)
            for way in (loss, loss.reversed())
        )
        return -max(float(np.min(bound)) for bound in bounds)

    rng = np.random.default_rng(0)  # an auditor's search is repeatable and needs no secrecy
    axes = np.linalg.eigh(base.T @ base + np.eye(d))[1]
    starts = [axes[:, 0], axes[:, -1], *rng.standard_normal((_STARTS - 2, d))]
    for start in (norm * way / np.linalg.norm(way) for way in starts):
        yield from (start, -start)
        if depth(start) < _DEEPEST:
            options = {"maxfev": _EVALUATIONS}
            yield inside(minimize(depth, start, method="Nelder-Mead", options=options).x)
