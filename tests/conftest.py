"""Settings of the whole suite."""

import gc
import os

from hypothesis import settings

# Matrices of tests are small, and every worker of pytest-xdist has a core: further threads only wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The heap of all modules and tests is large: the usual thresholds search it for cycles again and again.
gc.set_threshold(20_000, 20, 10)

# One commit has one verdict: examples follow from the test, not from the day. `--hypothesis-profile=default` draws new ones.
settings.register_profile("repeatable", derandomize=True, print_blob=True)
settings.load_profile("repeatable")


def pytest_collection_finish():
    """Modules and collected tests stay until the end: no search for cycles needs to look at them again."""
    gc.collect()
    gc.freeze()
