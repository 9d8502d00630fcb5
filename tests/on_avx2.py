"""Run the tests whose numbers depend on vectors as on a CPU with 256-bit vectors.

    python tests/on_avx2.py --compile              compile the inner loops for such a CPU, and keep the code on disk
    python tests/on_avx2.py [options of pytest]    run the tests

Libraries choose their code by the CPU, and most CPUs have no AVX-512. NumPy, OpenBLAS, PyTorch and Numba read the
variables set here when they are loaded, so the tests need a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

TESTS = (
    "tests/golden",
    "tests/inference/test_conjugate.py",
    "tests/inference/test_exact_combination.py",
    "tests/inference/test_kernel.py",
    "tests/inference/test_rowwise.py",
    "tests/kernels/test_copy.py",
    "tests/kernels/test_elementary.py",
    "tests/kernels/test_grown_trees.py",
    "tests/kernels/test_product.py",
    "tests/networks",
    "tests/predictive/test_student_mixture.py",
    "tests/training/test_fused.py",
    "tests/training/test_gradients.py",
)
"""Tests of compiled loops, and of products of matrices, against references; and of whole fits, against golden files."""

ANY_CPU = "tests/kernels/test_product.py::test_vectors_are_those_of_the_cpu_that_numba_compiles_for"
"""A test that starts processes for CPUs of several kinds: it is the same on each."""


def environment() -> dict[str, str]:
    """Return the variables that hide AVX-512."""
    # NumPy warns of names it does not know or the CPU does not have.
    wide = [name for name in __cpu_dispatch__ if name.startswith(("AVX512", "X86_V4")) and __cpu_features__.get(name)]
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(wide),
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "",  # those of the CPU named above; unset, they would be those of this one
        "NUMBA_CACHE_DIR": os.path.abspath(".numba-avx2"),
    }


def main() -> int:
    """Compile or run the tests, unless this CPU cannot or always does; return the exit status."""
    features = llvm.get_host_cpu_features()
    if not features.get("avx2", False):
        print("tests on AVX2: skipped, as this CPU does not have it")
        return 0
    if not features.get("avx512f", False):
        print("tests on AVX2: skipped, as this CPU has no AVX-512 to hide: `make tests` has run them with AVX2")
        return 0
    command = [sys.executable, "-m", "pytest", "--deselect", ANY_CPU, *sys.argv[1:], *TESTS]
    if "--compile" in sys.argv:
        command = [sys.executable, str(Path(__file__).with_name("compile_all.py"))]
    return subprocess.run(command, env=os.environ | environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
