"""Errors of any size, whose squares leave the range of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from bdkn.metrics.scores import root_mean_square


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_the_root_mean_square_is_in_the_units_of_the_errors(size):
    assert root_mean_square(size * np.array([3.0, 4.0]), None) == pytest.approx(size * np.sqrt(12.5), rel=1e-12, abs=0)
    assert root_mean_square(np.zeros(2), None) == 0.0
