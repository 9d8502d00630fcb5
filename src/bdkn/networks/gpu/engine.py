"""The engine for GPUs: all networks of a call are trained at once, each by one block of threads, in a few launches."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bdkn.data.rows import Rows
from bdkn.errors import check_choice, warn_user
from bdkn.networks.gpu.cuda import Device, NoDeviceError
from bdkn.networks.gpu.launch import PRECISIONS, DeviceTable, Entry, Launch, room_for
from bdkn.networks.job import Engine, Hook, Job, Task, Trained, TrainingTable, renumbered, train_tasks
from bdkn.typing import Float32Array


class GPUEngine:
    """Engine that trains all networks of a call at once on a GPU of NVIDIA.

    Networks, batches and their order are those of the other engines, in single precision. Networks that are too large
    for the shared memory of a multiprocessor, or have an objective or a head of their own, are trained on the same
    device by PyTorch, if it is there. What cannot be trained on the device is trained on the CPU, with a warning.

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
        """Train one network per job; ``n_jobs`` is for the CPU, should it be needed."""
        return self._train([Task(jobs, len(rows), lambda: rows)], n_jobs, watch, on_epoch)[0]

    def train_many(
        self, tasks: Sequence[Task], *, n_jobs: int | None = None, on_epoch: Hook | None = None
    ) -> list[Trained]:
        """Train the jobs of all tasks side by side."""
        return self._train(tasks, n_jobs, None, on_epoch)

    def _train(
        self, tasks: Sequence[Task], n_jobs: int | None, watch: Float32Array | None, on_epoch: Hook | None
    ) -> list[Trained]:
        cpu = _Fallback(n_jobs, watch)
        try:
            return _Training(self._device(), self._precision, cpu, watch).train(tasks, on_epoch)
        except NoDeviceError as error:
            reason = str(error)
        except MemoryError as error:
            reason = f"{error}, even for one network at a time"
        return cpu.train(tasks, on_epoch, reason)

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


class _Fallback:
    """Training on the CPU, of what cannot be trained on the device."""

    def __init__(self, n_jobs: int | None, watch: Float32Array | None) -> None:
        self._n_jobs, self._watch = n_jobs, watch

    def train(self, tasks: Sequence[Task], on_epoch: Hook | None, reason: str) -> list[Trained]:
        """Train tasks by the fused engine, and warn."""
        from bdkn.networks.fused import FusedEngine

        n = sum(len(task.jobs) for task in tasks)
        warn_user(f"engine='gpu': {n} network{'s' * (n > 1)} trained on the CPU instead: {reason}", UserWarning)
        return self.by(FusedEngine(), tasks, on_epoch)

    def by(self, engine: Engine, tasks: Sequence[Task], on_epoch: Hook | None) -> list[Trained]:
        """Train tasks by another engine."""
        if self._watch is None:
            return train_tasks(engine, tasks, n_jobs=self._n_jobs, on_epoch=on_epoch)
        (task,) = tasks
        options = {"n_jobs": self._n_jobs, "watch": self._watch, "on_epoch": on_epoch}
        return [engine.train(task.jobs, task.rows(), **options)]  # type: ignore[arg-type]


class _Training:
    """The training of tasks on a device: all at once, or in parts if its memory does not suffice."""

    def __init__(self, device: Device, precision: str, cpu: _Fallback, watch: Float32Array | None) -> None:
        self._device, self._precision, self._cpu, self._watch = device, precision, cpu, watch

    def train(self, tasks: Sequence[Task], on_epoch: Hook | None) -> list[Trained]:
        """Train all tasks; raise ``MemoryError`` if the device is too small for a single job."""
        try:
            return self._at_once(tasks, on_epoch)
        except MemoryError:
            if sum(len(task.jobs) for task in tasks) == 1:
                raise
        if len(tasks) > 1:
            return self._in_turn(tasks[: len(tasks) // 2], tasks[len(tasks) // 2 :], on_epoch)
        (task,) = tasks
        half = len(task.jobs) // 2
        first, second = (replace(task, jobs=jobs) for jobs in (task.jobs[:half], task.jobs[half:]))
        return [Trained.join(self._in_turn([first], [second], on_epoch))]

    def _in_turn(self, first: Sequence[Task], second: Sequence[Task], on_epoch: Hook | None) -> list[Trained]:
        n = sum(len(task.jobs) for task in first)
        later = renumbered(on_epoch, range(n, n + sum(len(task.jobs) for task in second)))
        return [*self.train(first, on_epoch), *self.train(second, later)]

    def _at_once(self, tasks: Sequence[Task], on_epoch: Hook | None) -> list[Trained]:
        """Train all tasks side by side, and then the jobs that do not fit on a multiprocessor in another way."""
        entries: list[Entry] = []
        others: list[_Other] = []
        first = 0
        for task in tasks:
            found, left = self._divided(task, first)
            entries += found
            others += [] if left is None else [left]
            first += len(task.jobs)
        options = {"reported": on_epoch is not None, "watched": self._watch is not None}
        parts = (
            [Launch(entries, self._device, self._precision, **options).run(self._watch, on_epoch)] if entries else []
        )
        numbers = [np.array(sorted(entry.number for entry in entries), dtype=np.intp)]
        for other in others:
            parts += self._otherwise(other, on_epoch)
            numbers.append(other.numbers)
        together = parts[0] if len(parts) == 1 else Trained.join(parts)[np.argsort(np.concatenate(numbers))]
        ends = np.cumsum([0, *(len(task.jobs) for task in tasks)])
        spans = itertools.pairwise(ends.tolist())
        return [together] if len(tasks) == 1 else [together[range(start, stop)] for start, stop in spans]

    def _divided(self, task: Task, first: int) -> tuple[list[Entry], _Other | None]:
        """Return the jobs that fit on a multiprocessor, with their table on the device, and the others."""
        table = TrainingTable.of(task.rows(), task.jobs)
        rooms = [room_for(job, len(table.y), self._device) for job in task.jobs]
        left = [number for number, room in enumerate(rooms) if isinstance(room, str)]
        other = _Other(task, left, first, next(str(rooms[number]) for number in left)) if left else None
        if len(left) == len(rooms):
            return [], other
        uploaded = DeviceTable.of(table, self._device)
        pairs = enumerate(zip(task.jobs, rooms, strict=True), first)
        return [Entry(n, job, uploaded, room) for n, (job, room) in pairs if not isinstance(room, str)], other

    def _otherwise(self, other: _Other, on_epoch: Hook | None) -> list[Trained]:
        """Train jobs by PyTorch on the same device or, where that cannot be, on the CPU."""
        hook, name = renumbered(on_epoch, other.numbers.tolist()), self._device.torch_name
        if name is None or not _torch_sees_cuda():
            reason = f"{other.reason}; with PyTorch for CUDA it could be trained on the GPU"
            return self._cpu.train([other.task], hook, reason)
        from bdkn.networks.torch_engine import TorchEngine

        try:
            return self._cpu.by(TorchEngine(device=name), [other.task], hook)
        except RuntimeError as error:  # PyTorch's own error of memory is one
            if "out of memory" not in str(error):
                raise
            return self._cpu.train([other.task], hook, f"{other.reason}, and PyTorch: {str(error).splitlines()[0]}")


class _Other:
    """The jobs of a task that do not fit on a multiprocessor, their numbers among all jobs, and a reason."""

    def __init__(self, task: Task, places: Sequence[int], first: int, reason: str) -> None:
        self.task = replace(task, jobs=[task.jobs[place] for place in places])
        self.numbers, self.reason = first + np.array(places, dtype=np.intp), reason


def _torch_sees_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())
