"""What an ensemble is made of."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from bdkn.typing import FloatArray


class Member(Protocol):
    """Anything that maps raw rows to a mean and, where it knows one, a variance, in the units of the target."""

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray | None]:
        """Return each row's mean and variance (None where the member has no idea of its own error)."""
