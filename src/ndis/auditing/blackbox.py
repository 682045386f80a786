"""Audits of mechanisms that can only be run.

Every set S of outputs gives delta(epsilon) >= P(S) - e^epsilon Q(S). A claim at one epsilon is
tested sequentially (`ndis.auditing.sequential`). A whole curve is estimated from a fixed number of
samples: a classifier trained on one half proposes sets (its scores above a threshold); the other
half, which it has never seen, measures them. Clopper-Pearson intervals, shared out over all sets
measured in both directions, make the result a band with the confidence asked for.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ndis import _validate
from ndis._validate import FloatArray
from ndis.auditing.sequential import Given, Quadratic, SequentialTest
from ndis.auditing.verdict import Claim, Verdict
from ndis.randomness import RandomState, generator
from ndis.tables import track

# How many thresholds of the score are measured in each direction.
_THRESHOLDS = 24
# Epsilons beyond this need more samples than anybody has.
_LARGEST = 100.0
# Outputs of either data set, at least.
_FEWEST = 200
# Names that the generator of a mechanism may have, where it has a default.
_CHANCE = ("rng", "generator", "random_state", "random", "seed")
# The reason given where low bits decided and values alone did not.
_BY_BITS = (
    ", by the low bits of its outputs: their values alone refute nothing so far. Noise that is "
    "added in floating point leaks there; without low bits the claim may hold"
)


@dataclass(frozen=True)
class SampledCurve:
    """An estimated privacy curve with a band of simultaneous confidence.

    Attributes
    ----------
    epsilons, estimate, lower, upper : ndarray
        At each epsilon the largest P(S) - e^epsilon Q(S) over the sets measured, and the interval
        for it. `lower` bounds delta itself from below; `upper` bounds only what these sets show.
    """

    epsilons: FloatArray
    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray


def audit_samples(
    mechanism: Callable[..., ArrayLike],
    D: Any,
    D_prime: Any,
    claim: Any,
    *,
    n_samples: int = 20_000,
    confidence: float = 0.99,
    classifier: Any = None,
    low_bits: bool = True,
    random_state: RandomState = 0,
) -> Verdict:
    """Run a mechanism on two neighbours until its claim is refuted.

    The test may look after every run (see `ndis.auditing.sequential`): a claim that is far from
    true takes a hundred runs, and none takes more than `n_samples`.

    Parameters
    ----------
    mechanism : callable
        `mechanism(data, rng)`, or `mechanism(data)` if it draws its noise elsewhere, returns one
        output: a number or an array, of one shape.
    D, D_prime : data sets
        Two neighbours.
    claim : (epsilon, delta) or Guarantee
        What is claimed.
    n_samples : int
        Outputs drawn from each data set, at most.
    confidence : float
        A true claim is refuted with probability at most 1 - confidence.
    classifier : scikit-learn classifier, optional
        Needs `fit` and `predict_proba`; by default linear and quadratic discriminants, which are
        right for Gaussian outputs, beside boosted trees.
    low_bits : bool
        Look at the low bits of outputs too: noise that is added in floating point leaks there,
        whatever its scale, and a claim about such code is false. The verdict says whether they
        alone decided. With False the claim is judged as if arithmetic were exact.
    random_state : int, Generator or None
        For the draws; the audit of a mechanism that takes `rng` is repeatable unless None.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> from ndis import audit_samples
    >>> def noisy_sum(data, rng):
    ...     return sum(data) + rng.standard_normal()
    >>> audit_samples(noisy_sum, [1, 1], [1], claim=(0.5, 0.05)).outcome
    'refuted'
    """
    draw, rng = _drawing(mechanism), generator(random_state)
    most = _validate.count("n_samples", n_samples, _FEWEST)

    def drawn(start: int, size: int) -> tuple[FloatArray, FloatArray]:
        first, second = ([draw(data, rng) for _ in range(size)] for data in (D, D_prime))
        return _paired(_outputs("outputs", first), _outputs("outputs", second))

    return _tested(drawn, most, claim, confidence, classifier, low_bits)


def audit_outputs(
    first: ArrayLike,
    second: ArrayLike,
    claim: Any,
    *,
    confidence: float = 0.99,
    classifier: Any = None,
    low_bits: bool = True,
) -> Verdict:
    """Test a claim on outputs that were drawn before; the same test as `audit_samples`.

    Parameters
    ----------
    first, second : array_like of shape (n,) or (n, k)
        Independent outputs on two neighbours, one in each row, as many of either.
    claim : (epsilon, delta) or Guarantee
        What is claimed.
    confidence, classifier, low_bits
        As in `audit_samples`.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.auditing import audit_outputs
    >>> rng = np.random.default_rng(0)
    >>> first, second = 2.0 + rng.standard_normal(500), rng.standard_normal(500)
    >>> audit_outputs(first, second, claim=(0.5, 0.05)).outcome
    'refuted'
    """
    outputs, others = _paired(_outputs("first", first), _outputs("second", second), _FEWEST)

    def drawn(start: int, size: int) -> tuple[FloatArray, FloatArray]:
        return outputs[start : start + size], others[start : start + size]

    return _tested(drawn, len(outputs), claim, confidence, classifier, low_bits)


def _drawing(mechanism: Callable[..., Any]) -> Callable[[Any, np.random.Generator], FloatArray]:
    """A mechanism that is given a generator only if it takes one; its outputs are numbers."""
    try:
        known = inspect.signature(mechanism).parameters.values()
    except (TypeError, ValueError):  # of a function that is not written in Python
        own = True
    else:
        asked = [p for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        given = any(p.kind is p.VAR_POSITIONAL for p in known)
        second = asked[1] if len(asked) > 1 else None
        wants = second is not None and (second.default is second.empty or second.name in _CHANCE)
        own = not (wants or given)

    def draw(data: Any, rng: np.random.Generator) -> FloatArray:
        output = np.ravel(np.asarray(mechanism(data) if own else mechanism(data, rng)))
        if output.dtype.kind not in "biuf":
            raise TypeError(
                f"Expected a mechanism that returns numbers, got {output.dtype.name}; return "
                "numbers, such as the place of a word in a list of all words."
            )
        return output.astype(np.float64)

    return draw


def _tested(
    drawn: Callable[[int, int], tuple[FloatArray, FloatArray]],
    most: int,
    claim: Any,
    confidence: float,
    classifier: Any,
    low_bits: bool,
) -> Verdict:
    """Test a claim on pairs of outputs, drawn as they are needed."""
    asked = Claim.of(claim)
    if asked.epsilon > _LARGEST:
        raise ValueError(
            f"Expected epsilon of at most {_LARGEST:g}, got {asked.epsilon:g}; no number of "
            "samples can refute more."
        )
    risk = 1.0 - _validate.probability("confidence", confidence)
    test = SequentialTest(asked.epsilon, asked.delta, risk, classifier, low_bits)
    seen: list[tuple[FloatArray, FloatArray]] = []
    for size in track(_batches(most), "Looking at outputs on both data sets", most, size=int):
        seen.append(drawn(sum(len(part) for part, _ in seen), size))
        test.run(*seen[-1])
        if test.refuted:
            break
    decided = ""
    if test.refuted and low_bits and classifier is None:
        alone = SequentialTest(asked.epsilon, asked.delta, risk, low_bits=False)
        alone.run(*map(np.concatenate, zip(*seen, strict=True)))
        decided = ", by its values alone" if alone.refuted else _BY_BITS
    return _decided(test, asked, confidence, decided)


def _batches(most: int) -> Iterator[int]:
    """Numbers of runs that add up to the most allowed, a tenth more each time."""
    done = 0
    while done < most:
        size = min(max(_FEWEST // 10, done // 10), most - done)
        yield size
        done += size


def _decided(test: SequentialTest, asked: Claim, confidence: float, decided: str = "") -> Verdict:
    searched = f"one pair of data sets, {test.n_pairs} samples of each, scored by {test.describe()}"
    missed = "other neighbours, and sets of outputs that these scores do not tell apart"
    with np.errstate(divide="ignore"):
        bound = float(np.log(test.lower_bound)) if test.refuted else -math.inf
        found = max(float(np.log(test.estimate)), bound)
    return Verdict(
        asked,
        found,
        bound,
        f"the pair of data sets given{decided}",
        (searched,),
        (missed,),
        basis=f"with confidence {confidence:g}",
    )


def sampled_curve(
    first: ArrayLike,
    second: ArrayLike,
    epsilons: ArrayLike,
    *,
    confidence: float = 0.99,
    classifier: Any = None,
) -> SampledCurve:
    """Estimate the privacy curve of two laws from samples of both.

    Parameters
    ----------
    first, second : array_like of shape (n,) or (n, k)
        Independent outputs on two neighbours, one for each row; half of them train the classifier.
    epsilons : array_like
        Where the curve is wanted.
    confidence : float
        With which the band holds, at all epsilons at once.
    classifier : scikit-learn classifier, optional
        As in `audit_samples`.

    Returns
    -------
    SampledCurve

    Examples
    --------
    >>> import numpy as np
    >>> from ndis import QuadraticLoss
    >>> from ndis.auditing import sampled_curve
    >>> rng = np.random.default_rng(0)
    >>> first, second = 1.0 + rng.standard_normal(4000), rng.standard_normal(4000)
    >>> curve = sampled_curve(first, second, [0.0, 0.5, 1.0])
    >>> exact = QuadraticLoss.from_shift(1.0).delta(curve.epsilons)
    >>> bool(np.all(curve.lower <= exact)), bool(np.all(np.abs(curve.estimate - exact) < 0.05))
    (True, True)
    """
    level = _validate.probability("confidence", confidence)
    grid = np.atleast_1d(_validate.floats("epsilons", epsilons))
    outputs, others = _paired(_outputs("first", first), _outputs("second", second), _FEWEST)
    scores = _scores(classifier, outputs, others, len(outputs) // 2)
    return _curve(*scores, grid, 1.0 - level)


def _outputs(name: str, values: Any) -> FloatArray:
    sizes = {np.size(each) for each in values} if isinstance(values, list) else set()
    if len(sizes) > 1:
        raise ValueError(
            f"Expected outputs of one size, got sizes {min(sizes)} to {max(sizes)}; pad them with "
            "zeros to one length."
        )
    array = np.asarray(values, dtype=np.float64)
    return _validate.floats(name, array.reshape(len(array), -1), (None, None))


def _paired(
    outputs: FloatArray, others: FloatArray, fewest: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Outputs that can be compared."""
    if outputs.shape[1] != others.shape[1]:
        raise ValueError(
            f"Expected outputs of one size, got {outputs.shape[1]} and {others.shape[1]} entries; "
            "an output whose size depends on the data tells the data sets apart by itself."
        )
    if len(outputs) != len(others) or len(outputs) < fewest:
        raise ValueError(
            f"Expected as many outputs of either data set, {fewest} or more, got {len(outputs)} "
            f"and {len(others)}; draw more."
        )
    return outputs, others


def _scores(
    classifier: Any, first: FloatArray, second: FloatArray, half: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-odds of unseen outputs of both data sets, and thresholds from the training half."""
    model = Quadratic() if classifier is None else Given(classifier)
    model.learn(first[:half], second[:half])
    odds, seen = model.score, np.vstack([first[:half], second[:half]])
    thresholds = np.quantile(odds(seen), np.linspace(0.02, 0.999, _THRESHOLDS))
    return odds(first[half:]), odds(second[half:]), thresholds


def _curve(
    first: FloatArray, second: FloatArray, thresholds: FloatArray, grid: FloatArray, miss: float
) -> SampledCurve:
    """P(S) - e^eps Q(S) over sets above and below each threshold, the roles exchanged for those."""
    n = first.size
    above_first = (first[:, None] > thresholds).sum(axis=0)
    above_second = (second[:, None] > thresholds).sum(axis=0)
    # Sets above a threshold favour the first data set; their complements favour the second.
    hits = np.concatenate([above_first, n - above_second])
    false_hits = np.concatenate([above_second, n - above_first])
    share = miss / (2.0 * hits.size)
    factor = np.exp(grid)[:, None]
    estimate = hits / n - factor * (false_hits / n)
    lower = _clopper_pearson(hits, n, share)[0] - factor * _clopper_pearson(false_hits, n, share)[1]
    upper = _clopper_pearson(hits, n, share)[1] - factor * _clopper_pearson(false_hits, n, share)[0]
    # The empty set gives delta >= 0 whatever the samples say.
    best = (np.maximum(part.max(axis=1), 0.0) for part in (estimate, lower, upper))
    return SampledCurve(grid, *best)


def _clopper_pearson(hits: Any, n: int, miss: float) -> tuple[FloatArray, FloatArray]:
    """Bounds on a probability, each missed with probability at most `miss`."""
    from scipy.stats import beta

    low = np.where(hits > 0, beta.ppf(miss, hits, n - hits + 1), 0.0)
    high = np.where(hits < n, beta.isf(miss, hits + 1, n - hits), 1.0)
    return low, high
