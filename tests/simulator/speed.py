"""How many verbs a second one core simulates, all observers on, on the GEMM with a norm over a cluster of two at tiny tiles.

`python -m tests.simulator.speed` prints the best of some runs. One BLAS thread, or the time of those that spin would count.
"""

import os
import time

BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
RUNS = 20
LEAST = 5000  # verbs of a run, for the clock


def best() -> float:
    """Verbs a second of processor time, of the fastest run."""
    from tests.simulator.kernels import linear_norm

    found = 0.0
    for seed in range(RUNS):
        kernel = linear_norm(m=400, k=128)
        began = time.process_time()
        verbs = kernel.run(seed=seed).verbs
        found = max(found, verbs / (time.process_time() - began))
        assert verbs > LEAST
    return found


if __name__ == "__main__":
    os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))  # before NumPy is imported
    print(round(best()))
