"""Mini-batches of rows, in a new random order in every epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bdkn.data.rows import Rows


@dataclass(frozen=True)
class Batches:
    """Rows on the device, in shuffled batches of ``size`` rows; None is one batch of all rows."""

    X: Tensor
    y: Tensor
    size: int | None
    generator: np.random.Generator

    @classmethod
    def of(cls, rows: Rows, like: Tensor, size: int | None, seed: np.random.SeedSequence) -> Batches:
        """Return the batches of encoded rows, with the type and device of ``like``."""
        return cls(torch.tensor(rows.X).to(like), torch.tensor(rows.y).to(like), size, np.random.default_rng(seed))

    def __len__(self) -> int:
        return len(self.y)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        if self.size is None:
            yield self.X, self.y
            return
        order = torch.as_tensor(self.generator.permutation(len(self)), device=self.y.device)
        X, y = self.X[order], self.y[order]  # once per epoch, so that a batch is a view
        yield from zip(torch.split(X, self.size), torch.split(y, self.size), strict=True)
