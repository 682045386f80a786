import os

from hypothesis import settings

from ledger_places import place, server  # noqa: F401 - fixtures

# Two workers on two cores: a linear algebra pool inside each would only get in the way.
for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

settings.register_profile("ndis", derandomize=True, deadline=None)
settings.load_profile("ndis")
