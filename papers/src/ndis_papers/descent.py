"""Private gradient descent on any loss whose gradients can be written down, row by row.

Every step takes a Poisson sample of the rows, clips the gradient of each to norm `clip`, adds them
up and adds noise. `descent_loss` accounts for normal noise by a table, rounded up. `of_torch` makes
such gradients of a model of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndis.loss import Profile, QuadraticLoss
from ndis.tables import track
from ndis_papers import _validate
from ndis_papers._validate import FloatArray

# Gradients of the rows whose indices are given, one a line: an array of numpy, or of torch where
# they are to be clipped and added up on the device that holds them.
Gradients = Callable[[FloatArray, Any], Any]
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
        total = _clipped_sum(gradients(parameters, rows), clip)
        if callable(multiplier):
            drawn = multiplier(parameters.size, rng)
        else:
            drawn = multiplier * rng.standard_normal(parameters.size)
        parameters = parameters - learning_rate / (rate * n_rows) * (total + clip * drawn)
        if watch is not None:
            watch(step, parameters)
    return parameters


def _clipped_sum(each: Any, clip: float) -> FloatArray:
    """The sum of the lines, each scaled down to norm `clip` if it is longer, in doubles."""
    if hasattr(each, "detach"):
        lines = each.detach().double()
        return np.asarray(((1.0 / (lines.norm(dim=1) / clip).clip(1.0)) @ lines).cpu())
    lines = np.asarray(each, dtype=np.float64)
    lengths = np.linalg.norm(lines, axis=1) / clip
    return np.asarray((1.0 / np.maximum(lengths, 1.0)) @ lines)


def of_torch(model: Any, loss: Any, inputs: Any, targets: Any) -> tuple[Gradients, FloatArray]:
    """The gradients of a torch model's loss, row by row, and its parameters as a vector.

    Needs torch (``pip install torch``), which is no requirement of this package. Rows are given to
    the model one by one, all at the same time (``torch.func.vmap``): none can depend on another.
    The model itself is not changed; put the trained parameters in with
    ``torch.nn.utils.vector_to_parameters``.

    Parameters
    ----------
    model : torch.nn.Module
        Without layers that need several rows at a time, such as batch normalisation.
    loss : callable
        ``loss(outputs, targets)``: the sum over rows.
    inputs, targets : Tensor
        A row each for every person, on the model's device.

    Returns
    -------
    gradients : callable
        For `private_descent`.
    start : ndarray
        The model's parameters now.
    """
    try:
        from torch import as_tensor, cat, float64
        from torch.func import functional_call, grad, vmap
        from torch.nn.utils import parameters_to_vector
    except ImportError:
        raise ImportError(
            "Expected torch for gradients of its models, but it is not installed; run: pip "
            "install torch."
        ) from None

    known = {name: tensor.detach() for name, tensor in model.named_parameters()}
    start = parameters_to_vector(known.values()).to(dtype=float64).cpu().numpy()

    def loss_of_one(parameters: Any, x: Any, y: Any) -> Any:
        return loss(functional_call(model, parameters, (x[None],)), y[None])

    of_each = vmap(grad(loss_of_one), in_dims=(None, 0, 0), randomness="different")

    def gradients(parameters: FloatArray, rows: Any) -> Any:
        if not len(rows):
            return np.zeros((0, start.size))
        vector, parts, place = as_tensor(parameters), {}, 0
        for name, tensor in known.items():
            part = vector[place : place + tensor.numel()].reshape(tensor.shape)
            parts[name] = part.to(device=tensor.device, dtype=tensor.dtype)
            place += tensor.numel()
        picked = as_tensor(rows, device=inputs.device)
        found = of_each(parts, inputs[picked], targets[picked])
        return cat([found[name].reshape(len(rows), -1) for name in known], dim=1)

    return gradients, start


def descent_loss(multiplier: float, rate: float, steps: int) -> Profile:
    """The loss of all steps with normal noise, for a row that is there or not."""
    step = Profile.both(QuadraticLoss.from_shift(1.0 / multiplier))
    total: Profile = steps * step.subsampled(rate)
    return total
