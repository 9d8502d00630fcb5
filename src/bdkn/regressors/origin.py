"""What fitted members come from, so that others can join them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdkn.errors import InvalidParameterError


@dataclass(frozen=True)
class Origin:
    """What the random numbers of a fit follow from, the digest of its rows, and the parameters its members share."""

    entropy: int | Sequence[int] | None
    rows: str
    parameters: Mapping[str, Any]

    @property
    def seed(self) -> np.random.SeedSequence:
        """The seed of the fit."""
        return np.random.SeedSequence(self.entropy)

    def check(self, rows: str, parameters: Mapping[str, Any]) -> None:
        """Raise unless members made from these rows with these parameters belong to those of the fit."""
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
