"""``python subjects.py NAME``: what an outside subject says or releases, as JSON.

Runs in the subject's own environment, with nothing of ours; whatever it prints itself goes to
stderr. benchmarks/bench_audit.py judges the answers.
"""

import contextlib
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

DELTAS = ("1e-5", "1e-8", "1e-10", "1e-12")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0)
DRAWS = 4000


def attempted(call: Callable[[], Any]) -> Any:
    """The answer, or the error as a sentence: a subject's failure is a result."""
    try:
        return float(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def analytic_gaussian() -> Any:
    """diffprivlib: the scale of its analytic Gaussian at epsilon 1, sensitivity 1."""
    from diffprivlib.mechanisms import GaussianAnalytic

    claimed = ("1e-5", "1e-10", "1e-15", "1e-16", "1e-17", "1e-20")
    return {
        delta: attempted(
            lambda delta=delta: GaussianAnalytic(epsilon=1.0, delta=float(delta), sensitivity=1.0)
            ._scale
        )
        for delta in claimed
    }  # fmt: skip


def linear_regression() -> Any:
    """diffprivlib: coefficients on two tables that differ in one of ten rows, by its options."""
    from diffprivlib.models import LinearRegression

    low = np.full((10, 1), 0.1)
    high = low.copy()
    high[0] = 1.0
    labels = np.full(10, 0.5)
    options = {
        "bounds_X=(0, 1), fit_intercept=False": {"bounds_X": (0, 1), "fit_intercept": False},
        "bounds_X=(-1, 1), fit_intercept=False": {"bounds_X": (-1, 1), "fit_intercept": False},
        "bounds_X=(0, 1)": {"bounds_X": (0, 1)},
        "bounds_X=(-1, 1)": {"bounds_X": (-1, 1)},
    }
    found = {}
    for name, choice in options.items():
        state = np.random.RandomState(0)
        found[name] = {
            which: [
                [*map(float, model.coef_), float(model.intercept_)]
                for model in (
                    LinearRegression(
                        epsilon=1.0, bounds_y=(0, 1), random_state=state, **choice
                    ).fit(rows, labels)
                    for _ in range(DRAWS)
                )
            ]
            for which, rows in (("first", high), ("second", low))
        }
    return found


def fourier_accountant() -> Any:
    """autodp: epsilon and delta of one Gaussian with sigma 1 by characteristic functions."""
    import scipy
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import ComposeAFA

    composed = ComposeAFA()([GaussianMechanism(1.0, phi_off=False)], [1])
    return {
        "scipy": scipy.__version__,
        "epsilon": {d: attempted(lambda d=d: composed.get_approxDP(float(d))) for d in DELTAS},
        "delta": {f"{e:g}": attempted(lambda e=e: composed.approx_delta(e)) for e in EPSILONS},
    }


def main() -> None:
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        found = globals()[sys.argv[1]]()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
