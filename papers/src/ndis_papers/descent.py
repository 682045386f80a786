"""Private gradient descent on any loss whose gradients can be written down, row by row.

Every step takes a Poisson sample of the rows, clips the gradient of each to norm `clip`, adds them
up and adds noise. `descent_loss` accounts for normal noise exactly. `of_torch` makes such gradients
of a model of torch, with Opacus.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ndis.loss import Profile, QuadraticLoss, TabulatedLoss
from ndis.tables import track
from ndis_papers import _validate
from ndis_papers._validate import FloatArray
from ndis_papers.subsampling import sampled_deltas

# Gradients of the rows whose indices are given, one a line.
Gradients = Callable[[FloatArray, Any], FloatArray]
# So many numbers of noise, for sums of vectors of norm at most 1.
Noise = Callable[[int, np.random.Generator], FloatArray]


def private_descent(
    gradients: Gradients,
    start: FloatArray,
    n_rows: int,
    *,
    rate: float,
    steps: int,
    noise: float | Noise,
    learning_rate: float,
    clip: float = 1.0,
    rng: np.random.Generator,
    watch: Callable[[int, FloatArray], None] | None = None,
) -> FloatArray:
    """Parameters after so many noisy steps.

    Parameters
    ----------
    gradients : callable
        ``gradients(parameters, rows)`` for an array of row numbers: an array of shape (rows,
        parameters), one gradient of your loss for each row.
    start : ndarray
        The first parameters, as a vector.
    n_rows : int
        How many rows there are to sample from.
    rate : float
        The probability with which a row is in a sample.
    steps : int
    noise : float or callable
        The noise multiplier: the deviation of the noise over `clip`. Or a function that draws
        another noise, for sums of gradients of norm at most 1.
    learning_rate, clip : float
    rng : Generator
    watch : callable, optional
        Called with the number of the step and the parameters after it.

    Examples
    --------
    The mean of a column, as the least of a sum of squares:

    >>> import numpy as np
    >>> from ndis_papers.descent import descent_loss, private_descent
    >>> x = np.random.default_rng(0).uniform(size=5000)
    >>> mean = private_descent(
    ...     lambda theta, rows: theta - x[rows, None], np.zeros(1), 5000, rate=0.05, steps=50,
    ...     noise=1.0, learning_rate=0.2, rng=np.random.default_rng(1),
    ... )
    >>> bool(abs(mean[0] - x.mean()) < 0.05)
    True
    >>> f"{descent_loss(1.0, 0.05, 50).epsilon(1e-5):.2f}"
    '2.67'
    """
    _validate.probability("rate", rate)
    multiplier = noise if callable(noise) else _validate.non_negative("noise", noise)
    parameters = np.array(start, dtype=np.float64)
    for step in track(range(1, steps + 1), "Descending", steps):
        rows = np.flatnonzero(rng.random(n_rows) < rate)
        each = np.asarray(gradients(parameters, rows), dtype=np.float64)
        lengths = np.linalg.norm(each, axis=1) / clip
        total = (1.0 / np.maximum(lengths, 1.0)) @ each
        if callable(multiplier):
            drawn = multiplier(parameters.size, rng)
        else:
            drawn = multiplier * rng.standard_normal(parameters.size)
        parameters = parameters - learning_rate / (rate * n_rows) * (total + clip * drawn)
        if watch is not None:
            watch(step, parameters)
    return parameters


def of_torch(model: Any, loss: Any, inputs: Any, targets: Any) -> tuple[Gradients, FloatArray]:
    """The gradients of a torch model's loss, row by row, and its parameters as a vector.

    Needs Opacus (``pip install opacus``), which is no requirement of this package. The model is
    changed: it has the parameters that the gradients were last asked for; put the trained ones in
    with ``torch.nn.utils.vector_to_parameters``.

    Parameters
    ----------
    model : torch.nn.Module
        Of layers that treat rows apart; Opacus refuses batch normalisation and the like.
    loss : callable
        ``loss(outputs, targets)``: the sum over rows.
    inputs, targets : Tensor
        A row each for every person.

    Returns
    -------
    gradients : callable
        For `private_descent`.
    start : ndarray
        The model's parameters now.
    """
    try:
        from opacus import GradSampleModule
        from opacus.validators import ModuleValidator
    except ImportError:
        raise ImportError(
            "Expected Opacus for gradients of torch models, but it is not installed; run: pip "
            "install opacus."
        ) from None
    from torch import as_tensor, cat
    from torch.nn.utils import parameters_to_vector, vector_to_parameters

    ModuleValidator.validate(model, strict=True)
    watched = GradSampleModule(model, loss_reduction="sum")
    kept = list(watched.parameters())
    start = parameters_to_vector(kept).detach().cpu().numpy().astype(np.float64)

    def gradients(parameters: FloatArray, rows: Any) -> FloatArray:
        if not len(rows):
            return np.zeros((0, start.size))
        where = kept[0]
        vector = as_tensor(parameters, dtype=where.dtype, device=where.device)
        vector_to_parameters(vector, kept)
        watched.zero_grad(set_to_none=True)
        picked = as_tensor(rows, device=inputs.device)
        with warnings.catch_warnings():
            # Inputs are data and need no gradients.
            warnings.filterwarnings("ignore", message="Full backward hook")
            loss(watched(inputs[picked]), targets[picked]).backward()
        each = cat([p.grad_sample.reshape(len(rows), -1) for p in kept], dim=1)
        return np.asarray(each.detach().cpu().numpy(), dtype=np.float64)

    return gradients, start


def descent_loss(multiplier: float, rate: float, steps: int) -> Profile:
    """The loss of all steps with normal noise, for a row that is there or not."""
    loss = QuadraticLoss.from_shift(1.0 / multiplier)
    step = 2.0**-10 if steps > 100 else 2.0**-8
    total: Profile = steps * sampled(loss.delta, rate, step, 8.0)
    return total


def sampled(delta: Callable[[FloatArray], Any], rate: float, step: float, high: float) -> Profile:
    """The loss of one step on a Poisson sample, for a pair that is its own reverse."""
    present, absent = sampled_deltas(delta, delta, rate)
    return Profile.both(TabulatedLoss.from_profile(present, absent, step=step, high=high))
