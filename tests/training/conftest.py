from __future__ import annotations

import numpy as np
import pytest

from bdkn.data.rows import Rows

try:
    import torch
except ImportError:
    pass
else:
    torch.set_num_threads(1)  # on a busy machine its threads wait for one another far longer than they compute


@pytest.fixture
def rows() -> Rows:
    """Return noisy, weighted rows whose number is no multiple of usual batch sizes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(83, 3)).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] / 2 + 0.2 * rng.normal(size=83)).astype(np.float32)
    return Rows(X, y.astype(np.float64), rng.uniform(0.2, 1.8, 83))


@pytest.fixture
def seeds() -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(8).spawn(3)
