"""The engine for GPUs: all networks of a call are trained at once, each by one block of threads, in a few launches."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bdkn.data.rows import Rows
from bdkn.errors import check_choice, warn_user
from bdkn.networks.gpu.cuda import Device, NoDeviceError
from bdkn.networks.gpu.launch import PRECISIONS, DeviceTable, Entry, Launch, layout_for
from bdkn.networks.job import Engine, Hook, Job, Task, Trained, TrainingTable, renumbered, train_tasks
from bdkn.typing import Float32Array, IndexArray


class GPUEngine:
    """Engine that trains all networks of a call at once on a GPU of NVIDIA.

    Networks, batches and their order are those of the other engines, in single precision. Networks that are too large
    for the shared memory of a multiprocessor, or have an objective or a head of their own, are trained on the same
    device by PyTorch, if it is installed. Networks that cannot be trained on the device are trained on the CPU, with a
    warning.

    Parameters
    ----------
    device : int, default=0
        Number of the CUDA device.
    precision : {"float32", "tf32"}, default="float32"
        Precision of the factors of products. "tf32" rounds them to 11 significant bits before they are multiplied on
        tensor cores; sums, weights and everything else stay in single precision. It is faster, and networks differ more
        from those of other engines.
    """

    def __init__(self, device: int | Device = 0, precision: str = "float32") -> None:
        check_choice("precision", precision, PRECISIONS)
        self._given, self._precision = device, precision

    def __repr__(self) -> str:
        return f"GPUEngine(device={self._given!r}, precision={self._precision!r})"

    def train(
        self,
        jobs: Sequence[Job],
        rows: Rows,
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network per job; ``n_jobs`` is for training on the CPU."""
        return self._train([Task(jobs, len(rows), lambda: rows)], n_jobs, watch, on_epoch)[0]

    def train_many(
        self, tasks: Sequence[Task], *, n_jobs: int | None = None, on_epoch: Hook | None = None
    ) -> list[Trained]:
        """Train the jobs of all tasks side by side."""
        return self._train(tasks, n_jobs, None, on_epoch)

    def _train(
        self, tasks: Sequence[Task], n_jobs: int | None, watch: Float32Array | None, on_epoch: Hook | None
    ) -> list[Trained]:
        try:
            return _Training(self._device(), self._precision, n_jobs, watch).train(tasks, on_epoch)
        except NoDeviceError as error:
            reason = str(error)
        except MemoryError as error:
            reason = f"{error}, even for one network at a time"
        return _train_on_cpu(tasks, n_jobs, watch, on_epoch, reason)

    def prediction_device(self) -> Device | None:
        """Return the device, None if there is none: then the CPU predicts."""
        try:
            return self._device()
        except NoDeviceError:
            return None

    def _device(self) -> Device:
        if not isinstance(self._given, int):
            return self._given
        from bdkn.networks.gpu.cuda import find_cuda

        return find_cuda(self._given)


def _train_on_cpu(
    tasks: Sequence[Task], n_jobs: int | None, watch: Float32Array | None, on_epoch: Hook | None, reason: str
) -> list[Trained]:
    """Train tasks by the fused engine, and warn."""
    from bdkn.networks.fused import FusedEngine

    n = sum(len(task.jobs) for task in tasks)
    warn_user(f"engine='gpu': {n} network{'s' * (n > 1)} trained on the CPU instead: {reason}", UserWarning)
    return _train_by(FusedEngine(), tasks, n_jobs, watch, on_epoch)


def _train_by(
    engine: Engine, tasks: Sequence[Task], n_jobs: int | None, watch: Float32Array | None, on_epoch: Hook | None
) -> list[Trained]:
    """Train tasks by another engine; with watched rows there is only one task."""
    if watch is None:
        return train_tasks(engine, tasks, n_jobs=n_jobs, on_epoch=on_epoch)
    (task,) = tasks
    return [engine.train(task.jobs, task.rows(), n_jobs=n_jobs, watch=watch, on_epoch=on_epoch)]


@dataclass(frozen=True)
class _Training:
    """A call of the engine: the training of tasks on a device, in parts if its memory does not suffice."""

    device: Device
    precision: str
    n_jobs: int | None
    watch: Float32Array | None

    def train(self, tasks: Sequence[Task], on_epoch: Hook | None) -> list[Trained]:
        """Train all tasks; raise ``MemoryError`` if the device is too small for a single job."""
        try:
            return self._train_at_once(tasks, on_epoch)
        except MemoryError:
            if sum(len(task.jobs) for task in tasks) == 1:
                raise
        if len(tasks) > 1:
            half = len(tasks) // 2
            return self._train_in_turn(tasks[:half], tasks[half:], on_epoch)
        (task,) = tasks
        half = len(task.jobs) // 2
        first, second = (replace(task, jobs=jobs) for jobs in (task.jobs[:half], task.jobs[half:]))
        return [Trained.join(self._train_in_turn([first], [second], on_epoch))]

    def _train_in_turn(self, first: Sequence[Task], second: Sequence[Task], on_epoch: Hook | None) -> list[Trained]:
        n = sum(len(task.jobs) for task in first)
        later = renumbered(on_epoch, range(n, n + sum(len(task.jobs) for task in second)))
        return [*self.train(first, on_epoch), *self.train(second, later)]

    def _train_at_once(self, tasks: Sequence[Task], on_epoch: Hook | None) -> list[Trained]:
        """Train all tasks side by side, and then by other engines the jobs that do not fit on a multiprocessor."""
        entries: list[Entry] = []
        others: list[_Other] = []
        ends = [0, *itertools.accumulate(len(task.jobs) for task in tasks)]
        for task, first in zip(tasks, ends[:-1], strict=True):
            table = TrainingTable.of(task.rows(), task.jobs)
            layouts = [layout_for(job, len(table.y), self.device) for job in task.jobs]
            failed = [(number, layout) for number, layout in enumerate(layouts) if isinstance(layout, str)]
            if failed:
                left = replace(task, jobs=[task.jobs[number] for number, _ in failed])
                others.append(_Other(left, np.array([first + number for number, _ in failed]), failed[0][1]))
            if len(failed) < len(layouts):
                uploaded = DeviceTable.of(table, self.device)
                pairs = enumerate(zip(task.jobs, layouts, strict=True), first)
                entries += [
                    Entry(n, job, uploaded, layout) for n, (job, layout) in pairs if not isinstance(layout, str)
                ]
        parts: list[Trained] = []
        if entries:
            options = {"reported": on_epoch is not None, "watched": self.watch is not None}
            parts.append(Launch(entries, self.device, self.precision, **options).run(self.watch, on_epoch))
        for other in others:
            parts += self._train_otherwise(other, on_epoch)
        numbers = [*(entry.number for entry in entries), *(n for other in others for n in other.numbers.tolist())]
        together = parts[0] if len(parts) == 1 else Trained.join(parts, numbers)
        if len(tasks) == 1:
            return [together]
        return [together[range(start, stop)] for start, stop in itertools.pairwise(ends)]

    def _train_otherwise(self, other: _Other, on_epoch: Hook | None) -> list[Trained]:
        """Train jobs by PyTorch on the same device if possible, else on the CPU."""
        hook, name = renumbered(on_epoch, other.numbers.tolist()), self.device.torch_name
        if name is None or not _torch_sees_cuda():
            reason = f"{other.reason}; with PyTorch for CUDA it could be trained on the GPU"
            return _train_on_cpu([other.task], self.n_jobs, self.watch, hook, reason)
        from bdkn.networks.torch_engine import TorchEngine

        try:
            return _train_by(TorchEngine(device=name), [other.task], self.n_jobs, self.watch, hook)
        except RuntimeError as error:  # the base class of PyTorch's error for lack of memory
            if "out of memory" not in str(error):
                raise
            reason = f"{other.reason}, and PyTorch: {str(error).splitlines()[0]}"
            return _train_on_cpu([other.task], self.n_jobs, self.watch, hook, reason)


@dataclass(frozen=True, eq=False)
class _Other:
    """The jobs of a task that do not fit on a multiprocessor, their numbers among all jobs, and the reason."""

    task: Task
    numbers: IndexArray
    reason: str


def _torch_sees_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())
