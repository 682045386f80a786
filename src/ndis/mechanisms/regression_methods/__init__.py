"""How private least squares is done, method by method, a file each.

Features x and labels y are on the grid, each of norm at most 2^20, or 1 in its units.

* *newton* (the default) releases a noisy Hessian and clipped gradients in its metric, in rounds;
* *moments* releases second moments of features and labels once, with noise;
* *sketches* add a ridge to the table and release (or solve) Gaussian combinations of its rows.

What is computed from that is post-processing. The proofs are in docs/proofs/least-squares.md.
"""
