"""Members of a stack in which something happens."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression


class _CountedLine(LinearRegression):  # type: ignore[misc]
    """A line that counts its fits in a file, as they may be in several processes."""

    def __init__(self, folder: str = "", k: int = 0) -> None:
        super().__init__()
        self.folder = folder
        self.k = k

    def _number(self) -> int:
        path = Path(self.folder) / "fits.count"
        with path.open("ab") as file:
            file.write(b".")
        return path.stat().st_size


class Raising(_CountedLine):
    """A line whose k-th fit raises an error."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit, or raise."""
        if self._number() == self.k:
            raise ZeroDivisionError("inside of the member")
        super().fit(X, y)
        return self


class Dying(_CountedLine):
    """A line whose k-th fit ends its process."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit, or end."""
        if self._number() == self.k:
            os.kill(os.getpid(), signal.SIGKILL)
        super().fit(X, y)
        return self


def stack(member: BaseEstimator, n_jobs: int | None = None) -> Any:
    """Return a stack of a line and this member."""
    import bdkn

    members = [("line", LinearRegression()), ("odd", member)]
    return bdkn.BayesianStackingRegressor(members, random_state=0, n_jobs=n_jobs, density="student-t")
