"""What every kind of trained network offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bdkn.typing import Array


class Predictor(Protocol):
    """What training leaves behind: H networks that map scaled rows to means and variances, each (H, n)."""

    def __len__(self) -> int:
        """Return H."""

    def __getitem__(self, members: Sequence[int] | NDArray[np.intp]) -> Predictor:
        """Return the chosen networks."""

    @classmethod
    def concatenate(cls, parts: Sequence[Any]) -> Predictor:
        """Return the networks of all parts, which are of this kind and of one shape."""

    def is_finite(self) -> NDArray[np.bool_]:
        """Tell for each network whether all its weights are finite."""

    def outputs(self, X: Array) -> tuple[Array, Array]:
        """Return means and variances."""
