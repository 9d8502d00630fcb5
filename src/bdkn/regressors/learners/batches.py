"""Rows in mini-batches of an order drawn anew every epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bdkn.members import TrainingRows


@dataclass(frozen=True)
class Batches:
    """All rows on the device, shuffled; ``size`` None is one batch of all of them."""

    X: Tensor
    y: Tensor
    size: int | None
    generator: np.random.Generator

    @classmethod
    def of(cls, rows: TrainingRows, like: Tensor, size: int | None, seed: np.random.SeedSequence) -> Batches:
        """Return the batches of scaled rows."""
        return cls(torch.tensor(rows.X).to(like), torch.tensor(rows.y).to(like), size, np.random.default_rng(seed))

    def __len__(self) -> int:
        return len(self.y)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        if self.size is None:
            yield self.X, self.y
            return
        order = torch.as_tensor(self.generator.permutation(len(self)), device=self.y.device)
        X, y = self.X[order], self.y[order]  # once an epoch: a batch is then a view
        yield from zip(torch.split(X, self.size), torch.split(y, self.size), strict=True)
