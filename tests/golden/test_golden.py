"""Fits give the numbers they gave when the stored files were written, and model files written then still load.

With vectors of the same width as when the files were written (tests/on_avx2.py sets it) and the same libraries, every
bit is the same. Elsewhere sums are taken in another order, and the rounding error of single precision, 6e-8, grows with
the steps of training: TOLERANCE is more than what was seen with other vector widths. Networks trained by ``fused`` have
the same bits at any width; without an instruction that multiplies and adds with one rounding, every number of a
training differs, and variances that follow from 80 rows by a fifth: hence UNFUSED_TOLERANCE.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import bdkn
from bdkn.kernels.code_cache import compiled
from bdkn.kernels.dense import fma

from .cases import CASES, SAVED, fingerprint, fitted, predictions

FOLDER = Path(__file__).parent / "files"

TOLERANCE = 2e-2
UNFUSED_TOLERANCE = 0.5
LOADED_TOLERANCE = 1e-4
"""A loaded model only predicts."""

LIKE_THEN = json.loads((FOLDER / "made-with.json").read_text())["fingerprint"]


@compiled
def is_fused(x: float) -> bool:
    """Return whether a product and a sum are rounded once; ``x`` squared must not be exact."""
    return bool(fma(x, x, -(x * x)) != 0)


def assert_same(found: dict[str, np.ndarray], name: str, tolerance: float) -> None:
    kept = load_file(FOLDER / f"{name}.safetensors")
    assert found.keys() == kept.keys()
    exact = fingerprint() == LIKE_THEN
    for key, numbers in kept.items():
        if key == "draws" and not exact:
            continue  # the root of a covariance, through which they are drawn, is unique up to signs only
        atol = 0.0 if exact else tolerance * np.abs(numbers).max()
        np.testing.assert_allclose(found[key], numbers, rtol=0.0 if exact else tolerance, atol=atol, err_msg=key)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", CASES)
def test_a_fit_gives_the_kept_numbers(name: str) -> None:
    assert_same(predictions(fitted(name)), name, TOLERANCE if is_fused(np.float32(1.1)) else UNFUSED_TOLERANCE)


@pytest.mark.parametrize("name", SAVED)
def test_a_kept_model_file_loads_and_predicts_the_kept_numbers(name: str) -> None:
    assert_same(predictions(bdkn.load(FOLDER / f"{name}.bdkn")), name, LOADED_TOLERANCE)
