"""Training with PyTorch, on any of its devices, and of the user's own modules."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError, check_choice, missing_extra
from bdkn.networks.job import Hook, Job, Trained, TrainingTable, train_in_groups
from bdkn.networks.mlp import MEAN_VARIANCE
from bdkn.threads import settle_torch
from bdkn.typing import Float32Array

if TYPE_CHECKING:
    import torch

    from bdkn.networks.torch_training import DeviceTable


DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class TorchEngine:
    """Engine that trains networks with PyTorch.

    The library's own networks of equal shape are trained together, in one batched program. Modules of your own are
    trained one after the other, by automatic differentiation and AdamW.

    Parameters
    ----------
    device : str or torch.device, default="cpu"
        Device to train on, for example "cpu", "cuda" or "mps".
    module : callable, optional
        A function that takes the number of inputs and returns a new ``torch.nn.Module``, which maps inputs of shape
        (n, n_inputs) to a mean and a raw variance: two tensors of shape (n,) or (n, 1), or one of shape (n, 2). The
        variance is softplus(raw) + 1e-6. Each network is then one such module, created after its seed was set. By
        default the library's own networks are trained.
    dtype : {"float32", "float64"} or torch.dtype, optional
        Precision; "float32" by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bdkn import BDKNRegressor, TorchEngine
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> engine = TorchEngine(device="cpu")
    >>> model = BDKNRegressor(engine=engine, n_members=2, n_folds=2, epochs=2, random_state=0).fit(X, X[:, 0])
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
            Encoded rows, which the row numbers of the jobs refer to.
        n_jobs : int, optional
            Not used: PyTorch has threads of its own.
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
        from bdkn.networks.torch_training import DeviceTable, group_for_programs, train_program

        settle_torch()
        table = DeviceTable.of(TrainingTable.of(rows, jobs), self.device, self._dtype_name)
        if self.module is not None:
            return self._train_modules(jobs, table, watch, on_epoch)
        groups = group_for_programs(jobs, len(rows))
        return train_in_groups(groups, lambda numbers: train_program(numbers, jobs, table, watch, on_epoch))

    def _train_modules(
        self, jobs: Sequence[Job], table: DeviceTable, watch: Float32Array | None, on_epoch: Hook | None
    ) -> Trained:
        from bdkn.networks.torch_training import train_modules

        assert self.module is not None
        if any(job.spec.head != MEAN_VARIANCE for job in jobs):
            raise InvalidParameterError(
                "a module of your own has a mean and a raw variance as outputs; got jobs with another head: train them "
                "without module="
            )
        return train_modules(self.module, table, jobs, watch, on_epoch)

    @property
    def _dtype_name(self) -> str:
        return "float32" if self.dtype is None else str(self.dtype).removeprefix("torch.")
