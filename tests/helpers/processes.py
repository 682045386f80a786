"""Programs that must start anew, with their own threads."""

import os
import subprocess
import sys


def in_fresh_process(program: str, n_threads: int) -> str:
    """What it prints where linear algebra may use so many threads."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(n_threads), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout
