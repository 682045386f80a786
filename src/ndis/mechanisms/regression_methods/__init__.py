"""How private least squares is done, method by method, a file each.

Features x and labels y are on the grid, each of norm at most 2^20, or 1 in its units.

* *newton* (the default) releases a noisy Hessian and clipped gradients in its metric, in rounds.
  What is learned from them is in `descent`, which uses `curvature` and `histogram`;
* *moments* releases second moments of features and labels once, with noise.

The papers' sketches, which no default chooses, are in ndis-papers.

What is computed from that is post-processing. The proofs are in docs/proofs/least-squares.md.
"""
