"""How private least squares is done, method by method, each like its algorithm's box.

Rows are [x, y]: features, intercept included, and label, with |[x, y]| <= l = data_norm and
|y| <= Y = label_bound. Two kinds of method, a file each:

* *sketches* add a ridge to the table and release (or solve) Gaussian combinations of its rows;
* *moments* add Gaussian noise to X^T X, X^T y and the like: one mean shift, however many parts.

A method says what its worst-case loss is, finds the least noise, and draws. What it draws is on
the release grid, and everything computed from that is post-processing. The proofs are in
docs/proofs/least-squares.md.
"""

from ndis.mechanisms.regression_methods.base import Method, Table, Task
from ndis.mechanisms.regression_methods.moments import Moments, Newton, NoisyGram
from ndis.mechanisms.regression_methods.sketches import GaussianLimit, Sketch, SketchAndSolve

__all__ = ["METHODS", "Method", "Table", "Task"]

METHODS: dict[str, type[Method]] = {
    "newton": Newton,
    "noisy-gram": NoisyGram,
    "adassp": Moments,
    "gaussian-limit": GaussianLimit,
    "sketch": Sketch,
    "als": SketchAndSolve,
}
