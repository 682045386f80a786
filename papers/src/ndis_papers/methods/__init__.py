"""The papers' own draws, as methods of the library's estimators; no default chooses them.

Where this package is installed they are chosen by ``method=`` and ``--method``, planned, released,
verified and audited like the estimators' own (`ndis.mechanisms.plugins`):

* *regression*: `PrivateLeastSquares` by "sketch", "als" and "gaussian-limit" (ndis-2024);
* *classification*: `PrivateLogisticRegression` by "posterior", a draw from Böhning's surrogate;
* *processes*: `PrivateGaussianProcess` by "posterior", a draw of the process at public points;
* *projection*: `PrivateProjection` by "ptr", which tests the least eigenvalue first (ndis-2024);
* *covariance*: `PrivateCovariance` by "sketch" (Blocki et al. 2012).
"""
