"""Run tests as on a CPU with 256-bit vectors: python tests/on_avx2.py [arguments of pytest].

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
    """Run pytest unless this CPU cannot or always does; return its exit status."""
    features = llvm.get_host_cpu_features()
    if not features.get("avx2", False):
        print("tests on AVX2: skipped, as this CPU does not have it")
        return 0
    if not features.get("avx512f", False):
        print("tests on AVX2: skipped, as this CPU has no AVX-512 to hide: `make tests` has run them with AVX2")
        return 0
    narrow = os.environ | environment()
    subprocess.run([sys.executable, Path(__file__).with_name("compile_all.py")], env=narrow, check=True)
    return subprocess.run([sys.executable, "-m", "pytest", *sys.argv[1:]], env=narrow, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
