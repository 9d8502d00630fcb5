"""Where a fit comes from: its seed, its rows and its parameters, so that members can be added later."""

from __future__ import annotations

import hashlib
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import InvalidParameterError
from bdkn.rows import BLOCK_ROWS, Rows

Seed = int | np.random.RandomState | np.random.Generator | None


@dataclass(frozen=True)
class FitProvenance:
    """The entropy of a fit's seed, the digest of its rows, and the parameters that its members share."""

    entropy: int | Sequence[int] | None
    rows: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, random_state: Seed, rows: Rows, parameters: Mapping[str, Any]) -> FitProvenance:
        """Return the provenance of a fit to these rows."""
        return cls(seed_sequence(random_state).entropy, digest(rows), parameters)

    @property
    def seed(self) -> np.random.SeedSequence:
        """The seed of the fit."""
        return np.random.SeedSequence(self.entropy)

    def check(self, rows: str, parameters: Mapping[str, Any]) -> None:
        """Raise unless members made from these rows with these parameters can join those of the fit."""
        if rows != self.rows:
            raise InvalidParameterError(
                "new members must be fitted to the rows that the others were fitted to, in the same order; got other "
                "rows, targets or weights: give X, y and sample_weight as in fit, or fit a new regressor"
            )
        for name, value in self.parameters.items():
            if parameters[name] != value:
                raise InvalidParameterError(
                    f"new members must be made as the others were; the fit had {name}={value!r}, which is now "
                    f"{parameters[name]!r}: set it back, or fit anew"
                )


def seed_sequence(random_state: Seed) -> np.random.SeedSequence:
    """Return the seed sequence of a random state.

    The same integer always gives the same sequence. A generator is drawn from, so that its next use differs; None takes
    fresh entropy from the operating system.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(0, 2**32, size=4, dtype=np.uint32).tolist())
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(0, 2**32, size=4, dtype=np.uint32).tolist())
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, numbers.Integral) and random_state >= 0:
        return np.random.SeedSequence(int(random_state))
    raise InvalidParameterError(
        "random_state must be None, an integer >= 0, a numpy.random.Generator or a numpy.random.RandomState; "
        f"got {random_state!r}"
    )


def digest(rows: Rows) -> str:
    """Return a text that is the same for the same rows, targets and counts, and different for all others."""
    seen = hashlib.sha256()
    for part in (*_arrays(rows.X), rows.y, *(() if rows.counts is None else (rows.counts,))):
        seen.update(f"{part.dtype.str} {part.shape}".encode())
        for start in range(0, len(part), BLOCK_ROWS):
            block = part[start : start + BLOCK_ROWS]
            seen.update(repr(block.tolist()).encode() if block.dtype == object else np.ascontiguousarray(block).data)
    return seen.hexdigest()


def _arrays(X: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays that a table consists of: itself, a frame's columns, or the parts of a sparse matrix."""
    if hasattr(X, "columns"):
        for name in X.columns:
            yield np.array([name], dtype=object)
            yield np.asarray(X[name])
    elif hasattr(X, "indptr"):
        yield from (X.data, X.indices, X.indptr)
    else:
        yield np.asarray(X)
