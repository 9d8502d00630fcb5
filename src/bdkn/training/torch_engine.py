"""Training with PyTorch: on any device it knows, and with networks of the user's own making."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bdkn.errors import check_choice, missing_extra
from bdkn.rows import Rows
from bdkn.training.job import Hook, Job, Trained, train_in_groups
from bdkn.training.progress import Progress
from bdkn.training.rows import TrainingTable, group_jobs
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
        jobs: Sequence[Job],
        rows: Rows,
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network per job; ``n_jobs`` is not used, PyTorch has threads of its own."""
        if importlib.util.find_spec("torch") is None:
            raise missing_extra("torch", "torch")
        from bdkn.training.torch_loop import Table, train_modules, train_stacked

        table = Table.of(TrainingTable.of(rows, jobs), self.device, self._dtype_name)
        if self.module is not None:
            return train_modules(self.module, table, jobs, watch, on_epoch)

        def train(numbers: Sequence[int]) -> Trained:
            progress = Progress(numbers, jobs[numbers[0]].config, watch, on_epoch)
            return train_stacked([jobs[number] for number in numbers], table, progress)

        return train_in_groups(group_jobs(jobs, len(rows)), train)

    @property
    def _dtype_name(self) -> str:
        return "float32" if self.dtype is None else str(self.dtype).removeprefix("torch.")
