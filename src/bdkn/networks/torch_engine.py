"""The engine that trains with PyTorch, on any of its devices: networks of this library, or modules of the user."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bdkn.data.rows import Rows
from bdkn.errors import check_choice, missing_extra
from bdkn.networks.job import Hook, Job, TrainingTable
from bdkn.networks.mlp import Trained
from bdkn.threads import settle_torch
from bdkn.typing import Float32Array

if TYPE_CHECKING:
    import torch


DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class TorchEngine:
    """Engine that trains networks with PyTorch.

    The networks of this library are trained together, by batched operations, if they have the same layers. Your own
    modules are trained one after the other, by automatic differentiation and AdamW.

    Parameters
    ----------
    device : str or torch.device, default="cpu"
        Device to train on, for example "cpu", "cuda" or "mps".
    module : callable, optional
        A function that takes the number of inputs and returns a new ``torch.nn.Module``, which maps inputs of shape
        (n, n_inputs) to a mean and a raw variance: two tensors of shape (n,) or (n, 1), or one of shape (n, 2). The
        variance is softplus(raw) + 1e-6. Each network is then one such module, created after its seed was set. By
        default the networks of this library are trained.
    dtype : {"float32", "float64"} or torch.dtype, optional
        Floating-point precision; "float32" by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BDKNRegressor, TorchEngine
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> engine = TorchEngine(device="cpu")
    >>> model = BDKNRegressor(engine=engine, n_members=2, cv=2, epochs=2, random_state=0).fit(X, X[:, 0])
    >>> model.predict(X).shape
    (40,)
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
        """Train one network per job.

        Parameters
        ----------
        jobs : sequence of Job
            The networks to train.
        rows : Rows
            Encoded rows, to which the row numbers of the jobs refer.
        n_jobs : int, optional
            Not used, since PyTorch has its own threads.
        watch : ndarray of shape (n_watched, n_inputs), optional
            Encoded rows that the networks predict after every epoch, for ``on_epoch``.
        on_epoch : callable, optional
            Called with an ``EpochReport`` after every epoch of every job.

        Returns
        -------
        trained : Trained
            The networks, in the order of the jobs, with their loss curves.
        """
        if importlib.util.find_spec("torch") is None:
            raise missing_extra("torch", "torch")
        from bdkn.networks import torch_training

        settle_torch()
        table = torch_training.DeviceTable.of(TrainingTable.of(rows, jobs), self.device, self._dtype_name)
        if self.module is not None:
            return torch_training.train_modules(self.module, table, jobs, watch, on_epoch)
        return torch_training.train_programs(table, jobs, watch, on_epoch)

    @property
    def _dtype_name(self) -> str:
        return "float32" if self.dtype is None else str(self.dtype).removeprefix("torch.")
