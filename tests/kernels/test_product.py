"""Products over register tiles, on this CPU's vectors and on those of other CPUs."""

from __future__ import annotations

import os
import subprocess
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.kernels.dense import (
    BLOCK,
    EDGE,
    HEIGHTS,
    REGISTERS,
    WIDTHS,
    main_height,
    padded,
    product,
    product_where_positive,
    relu_product,
    transpose,
)

SIZES = st.integers(1, 70)


@given(rows=SIZES, count=SIZES, columns=SIZES, transposed=st.booleans(), seed=st.integers(0, 9))
def test_product_is_numpys(rows: int, count: int, columns: int, transposed: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    S, V = rng.normal(size=(rows, count)).astype(np.float32), rng.normal(size=(count, columns)).astype(np.float32)
    ld, guard = padded(columns), np.float32(7)
    wide = np.zeros((count, ld), np.float32)
    wide[:, :columns] = V
    c, s, v = 0, rows * ld + 16, rows * ld + 16 + rows * count
    operands = [(S.T if transposed else S).ravel(), wide.ravel()]
    mem = np.concatenate([np.zeros(rows * ld), np.full(16, guard), *operands]).astype(np.float32)
    row, step = (1, rows) if transposed else (count, 1)
    product(mem, c, ld, mem, s, row, step, v, ld, rows, main_height(rows), columns, count)
    np.testing.assert_allclose(mem[: rows * ld].reshape(rows, ld)[:, :columns], S @ V, rtol=1e-4, atol=1e-5)
    assert np.all(mem[rows * ld : s] == guard), "nothing behind the product may be touched"


@given(rows=SIZES, count=SIZES, columns=SIZES, seed=st.integers(0, 9))
def test_relu_and_its_slope_are_applied_to_the_product(rows: int, count: int, columns: int, seed: int) -> None:
    rng, ld = np.random.default_rng(seed), padded(columns)
    S, V = rng.normal(size=(rows, count)).astype(np.float32), rng.normal(size=(count, ld)).astype(np.float32)
    other = rng.integers(-1, 2, size=(rows, ld)).astype(np.float32)
    size = rows * ld
    found = {}
    for compute, more in ((product, ()), (relu_product, ()), (product_where_positive, (size,))):
        mem = np.concatenate([np.zeros(size, np.float32), other.ravel(), V.ravel()])
        compute(mem, 0, ld, S.ravel(), 0, count, 1, 2 * size, ld, rows, main_height(rows), columns, count, *more)
        found[compute] = mem[:size].reshape(rows, ld)
    plain = found[product]
    np.testing.assert_array_equal(found[relu_product], np.maximum(plain, 0))
    np.testing.assert_array_equal(found[product_where_positive], np.where(other > 0, plain, 0))


def test_the_scalars_may_be_in_a_separate_array() -> None:
    rng = np.random.default_rng(0)
    S, V = rng.normal(size=(9, 5)).astype(np.float32), rng.normal(size=(5, BLOCK)).astype(np.float32)
    mem, apart = np.concatenate([np.zeros(9 * BLOCK, np.float32), V.ravel(), S.ravel()]), np.append(np.float32(3), S)
    for source, s in ((mem, 14 * BLOCK), (apart, 1)):
        mem[: 9 * BLOCK] = 0
        product(mem, 0, BLOCK, source, s, 5, 1, 9 * BLOCK, BLOCK, 9, main_height(9), BLOCK, 5)
        np.testing.assert_allclose(mem[: 9 * BLOCK].reshape(9, BLOCK), S @ V, rtol=1e-4, atol=1e-5)


@given(columns=st.integers(1, 70), rows=SIZES, count=SIZES)
def test_an_entry_has_the_same_bits_in_any_tile(columns: int, rows: int, count: int) -> None:
    rng = np.random.default_rng(count)
    S, V = rng.normal(size=(rows, count)).astype(np.float32), rng.normal(size=(count, 3 * BLOCK)).astype(np.float32)

    def entries(rows: int, columns: int) -> np.ndarray:
        mem = np.concatenate([np.zeros(rows * 3 * BLOCK, np.float32), V.ravel()])
        ld, v = 3 * BLOCK, rows * 3 * BLOCK
        product(mem, 0, ld, S.ravel(), 0, count, 1, v, ld, rows, main_height(rows), columns, count)
        return mem[:v].reshape(rows, ld)

    few = min(columns, 3 * BLOCK)
    np.testing.assert_array_equal(entries(1, few)[0, :few], entries(rows, 3 * BLOCK)[0, :few])


@given(rows=st.integers(1, 5), columns=st.integers(1, 5))
def test_transpose_is_numpys(rows: int, columns: int) -> None:
    rows, columns = EDGE * rows, EDGE * columns
    source = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    mem = np.concatenate([source.ravel(), np.zeros(source.size, np.float32)])
    transpose(mem, 0, columns, source.size, rows, rows, columns)
    np.testing.assert_array_equal(mem[source.size :].reshape(columns, rows), source.T)


def test_tiles_fit_into_the_registers() -> None:
    most_vectors = max(map(len, WIDTHS))
    assert HEIGHTS[0] * most_vectors + most_vectors + 1 <= REGISTERS


@given(st.integers(1, 1000))
def test_padding_is_less_than_a_vector_and_more_than_nothing(columns: int) -> None:
    assert columns <= padded(columns) < columns + BLOCK // 2
    assert padded(padded(columns)) == padded(columns)


SCRIPT = """
import numpy as np
from bdkn.kernels.dense import LANES, padded
from bdkn.kernels.dense import main_height, product
rng = np.random.default_rng(0)
for rows, count, columns in ((50, 51, 32), (50, 32, 51), (2, 9, 13), (13, 1, 1), (128, 33, 129)):
    S, V = rng.normal(size=(rows, count)).astype("f4"), np.zeros((count, padded(columns)), "f4")
    V[:, :columns] = rng.normal(size=(count, columns))
    C = np.zeros((rows, padded(columns)), "f4")
    mem = np.concatenate([C.ravel(), S.ravel(), V.ravel()])
    ld = padded(columns)
    product(mem, 0, ld, mem, C.size, count, 1, C.size + S.size, ld, rows, main_height(rows), columns, count)
    assert np.allclose(mem[: C.size].reshape(C.shape), S @ V, rtol=1e-4, atol=1e-4), (rows, count, columns)
print(LANES)
"""


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("cpu", "features", "needed", "lanes"),
    [
        ("x86-64", "", "sse2", "4"),
        ("haswell", "", "avx2", "8"),
        ("generic", "+avx2,+fma", "avx2", "8"),
        ("skylake-avx512", "", "avx512bw", "16"),
    ],
)
def test_vectors_are_those_of_the_cpu_that_numba_compiles_for(
    cpu: str, features: str, needed: str, lanes: str, tmp_path: os.PathLike[str]
) -> None:
    if not llvm.get_host_cpu_features().get(needed, False):
        pytest.skip(f"this CPU has no {needed}")
    target = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    result = subprocess.run(command, env=os.environ | target, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == lanes
