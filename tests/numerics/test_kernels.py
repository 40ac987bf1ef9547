"""`make kernels` runs these tests on the BLAS kernels of other processors: here is whether they are really taken."""

import os
import platform

import numpy as np
import pytest
import scipy.linalg


@pytest.mark.skipif("OPENBLAS_CORETYPE" not in os.environ, reason="OPENBLAS_CORETYPE names no kernel (see make kernels)")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the kernels of make kernels are x86-64")
def test_the_kernel_and_the_threads_are_those_asked_for():
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed (pip install threadpoolctl)")
    scipy.linalg.cholesky(np.eye(2))
    libraries = [library for library in threadpoolctl.threadpool_info() if library["internal_api"] == "openblas"]
    assert libraries, "NumPy and SciPy use no OpenBLAS"
    assert {library["architecture"] for library in libraries} == {os.environ["OPENBLAS_CORETYPE"]}
    if "OPENBLAS_NUM_THREADS" in os.environ:
        assert {library["num_threads"] for library in libraries} == {int(os.environ["OPENBLAS_NUM_THREADS"])}
