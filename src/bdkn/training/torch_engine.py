"""Training with PyTorch: on any device it knows, and with networks of the user's own making."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bdkn.errors import check_choice, missing_extra
from bdkn.networks import NetworkSpec
from bdkn.training.config import TrainingConfig
from bdkn.training.engine import Hook, Rows, Trained, one_by_one
from bdkn.typing import Float32Array

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class TorchEngine:
    """Members trained by PyTorch's automatic differentiation and its AdamW.

    Parameters
    ----------
    device
        Where to train, for example ``"cpu"``, ``"cuda"`` or ``"mps"``.
    module
        A function that takes the number of inputs and returns a new ``torch.nn.Module``, which maps (B, n_inputs) to
        a mean and a raw variance: two tensors of shape (B,) or (B, 1), or one of shape (B, 2). The variance is
        softplus(raw) + 1e-6. Each member is then one such module, made under its own seed, and the members train one
        after the other. Without it, members are the library's own networks, trained side by side in one batch.
    dtype
        ``"float32"``, the default, or ``"float64"``.
    """

    device: str | torch.device = "cpu"
    module: Callable[[int], torch.nn.Module] | None = None
    dtype: str | torch.dtype | None = None

    def __post_init__(self) -> None:
        check_choice("dtype", self._dtype_name, DTYPES)

    def train(
        self,
        spec: NetworkSpec,
        rows: Rows,
        config: TrainingConfig,
        seeds: Sequence[np.random.SeedSequence],
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network a seed; ``n_jobs`` is not used, PyTorch has threads of its own."""
        if importlib.util.find_spec("torch") is None:
            raise missing_extra("torch", "torch")
        return one_by_one(partial(self._train, spec, config, watch), rows, seeds, on_epoch)

    def _train(
        self,
        spec: NetworkSpec,
        config: TrainingConfig,
        watch: Float32Array | None,
        rows: Rows,
        seeds: Sequence[np.random.SeedSequence],
        on_epoch: Hook | None,
    ) -> Trained:
        from bdkn.training.torch_loop import Table, train_modules, train_stacked

        table = Table.of(rows, self.device, self._dtype_name)
        if self.module is None:
            return train_stacked(spec, table, config, seeds, watch, on_epoch)
        return train_modules(self.module, table, config, seeds, watch, on_epoch)

    @property
    def _dtype_name(self) -> str:
        return "float32" if self.dtype is None else str(self.dtype).removeprefix("torch.")
