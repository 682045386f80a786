"""Where every random number comes from.

Three kinds of randomness, kept apart:

* **Secret.** `generator()` keys a cipher with bytes of the operating system. A release drawn
  from it is private. Every call makes a new key, the child of a fork makes new ones for the
  generators that it inherits, and a secret generator can be neither copied nor pickled: two
  draws never come from one stream by accident.
* **Reproducible.** `generator(random_state)` repeats itself, so it hides nothing: anybody who knows
  the seed can subtract the noise. `is_secure` tells the two apart.
* **Public.** `signs` is a function of a seed that all parties share, for matrices which nobody
  needs to hide and everybody needs to agree on.

Noise is drawn and rounded exactly: what `add_noise` and its kin return is the ideal mechanism's
output, a real number, rounded to a public grid. docs/threat-model.md says what this defends.
"""

from ndis.randomness.functions import (
    add_spherical_noise,
    draw_exactly,
    draw_limit,
    draw_solution,
)
from ndis.randomness.generators import (
    RandomState,
    draw_bits,
    generator,
    is_secure,
    subsample_mask,
)
from ndis.randomness.noise import (
    GRID_BITS,
    add_counted_laplace_noise,
    add_discrete_laplace_noise,
    add_laplace_noise,
    add_noise,
    add_symmetric_noise,
    grid_spacing,
)
from ndis.randomness.products import (
    draw_combinations,
    draw_gaussian,
    draw_sampled_sketch,
    draw_sketch,
    least_ridge,
)
from ndis.randomness.signs import sign_product, signs

__all__ = [
    "GRID_BITS",
    "RandomState",
    "add_counted_laplace_noise",
    "add_discrete_laplace_noise",
    "add_laplace_noise",
    "add_noise",
    "add_spherical_noise",
    "add_symmetric_noise",
    "draw_bits",
    "draw_combinations",
    "draw_exactly",
    "draw_gaussian",
    "draw_limit",
    "draw_sampled_sketch",
    "draw_sketch",
    "draw_solution",
    "generator",
    "grid_spacing",
    "is_secure",
    "least_ridge",
    "sign_product",
    "signs",
    "subsample_mask",
]
