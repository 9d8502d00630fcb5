"""The engine for GPUs: a program trains all networks at once, each by one block of GPU threads."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bdkn.data.rows import Rows
from bdkn.errors import check_choice, warn_user
from bdkn.networks.gpu import cuda
from bdkn.networks.gpu.cuda import Cuda, NoDeviceError
from bdkn.networks.gpu.launch import PRECISIONS, DeviceTable, Entry, Launch, layout_for
from bdkn.networks.job import Hook, Job, Task, TrainingTable, renumbered, train_tasks
from bdkn.networks.mlp import Trained
from bdkn.typing import Float32Array


class GPUEngine:
    """Engine that trains all networks of a call at once on a GPU of NVIDIA.

    Initial weights and batches are the same as in other engines, in single precision. Networks that are too large for
    the shared memory of a multiprocessor, or have a user-defined objective or head, are trained on the same GPU by
    PyTorch, if it is installed. If training on the GPU is impossible, networks are trained on the CPU, with a warning.

    Parameters
    ----------
    device : int, default=0
        Number of the CUDA device.
    precision : {"float32", "tf32"}, default="float32"
        Precision of the factors of products. "tf32" rounds them to 11 significant bits before they are multiplied on
        tensor cores; sums, weights and everything else stay in single precision. It is faster, and networks differ more
        from those of other engines.
    """

    def __init__(self, device: int | Cuda = 0, precision: str = "float32") -> None:
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
        """Train one network per job; ``n_jobs`` threads are used if networks must be trained on the CPU."""
        return self._train([Task(jobs, len(rows), lambda: rows)], n_jobs, watch, on_epoch)[0]

    def train_many(
        self, tasks: Sequence[Task], *, n_jobs: int | None = None, on_epoch: Hook | None = None
    ) -> list[Trained]:
        """Train the networks of all tasks at the same time; return one result per task."""
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

    def prediction_device(self) -> Cuda | None:
        """Return the GPU for predictions, or None if there is no GPU and the CPU must predict."""
        try:
            return self._device()
        except NoDeviceError:
            return None

    def _device(self) -> Cuda:
        return cuda.find_cuda(self._given) if isinstance(self._given, int) else self._given


def _train_on_cpu(
    tasks: Sequence[Task], n_jobs: int | None, watch: Float32Array | None, on_epoch: Hook | None, reason: str
) -> list[Trained]:
    """Train tasks on the CPU, by the fused engine, with a warning that states the reason."""
    from bdkn.networks.fused import FusedEngine

    n = sum(len(task.jobs) for task in tasks)
    warn_user(f"engine='gpu': {n} network{'s' * (n > 1)} trained on the CPU instead: {reason}", UserWarning)
    return train_tasks(FusedEngine(), tasks, n_jobs=n_jobs, watch=watch, on_epoch=on_epoch)


@dataclass(frozen=True)
class _Training:
    """Training of networks on a GPU; some after the others if its memory is too small for all at once."""

    device: Cuda
    precision: str
    n_jobs: int | None
    watch: Float32Array | None

    def train(self, tasks: Sequence[Task], on_epoch: Hook | None) -> list[Trained]:
        """Train the networks of all tasks; raise ``MemoryError`` if GPU memory is too small for a single network."""
        n = sum(len(task.jobs) for task in tasks)
        try:
            return self._train_at_once(tasks, on_epoch)
        except MemoryError:
            if n == 1:
                raise
        if len(tasks) > 1:
            first, second = tasks[: len(tasks) // 2], tasks[len(tasks) // 2 :]
        else:
            jobs, half = tasks[0].jobs, n // 2
            first, second = ([replace(tasks[0], jobs=part)] for part in (jobs[:half], jobs[half:]))
        later = renumbered(on_epoch, range(sum(len(task.jobs) for task in first), n))
        trained = [*self.train(first, on_epoch), *self.train(second, later)]
        return trained if len(tasks) > 1 else [Trained.join(trained)]

    def _train_at_once(self, tasks: Sequence[Task], on_epoch: Hook | None) -> list[Trained]:
        """Train all networks together; those that the GPU program cannot train are then trained by other engines."""
        entries: list[Entry] = []
        others: list[tuple[Task, list[int], str]] = []
        ends = [0, *itertools.accumulate(len(task.jobs) for task in tasks)]
        for task, first in zip(tasks, ends[:-1], strict=True):
            table = TrainingTable.of(task.rows(), task.jobs)
            layouts = [layout_for(job, len(table.y), self.device) for job in task.jobs]
            failed = [number for number, layout in enumerate(layouts) if isinstance(layout, str)]
            if failed:
                left = replace(task, jobs=[task.jobs[number] for number in failed])
                others.append((left, [first + number for number in failed], str(layouts[failed[0]])))
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
        for task, numbers, reason in others:
            parts += self._train_otherwise(task, reason, renumbered(on_epoch, numbers))
        order = [*(entry.number for entry in entries), *(n for _, numbers, _ in others for n in numbers)]
        together = parts[0] if len(parts) == 1 else Trained.join(parts, order)
        if len(tasks) == 1:
            return [together]
        return [together[range(start, stop)] for start, stop in itertools.pairwise(ends)]

    def _train_otherwise(self, task: Task, reason: str, hook: Hook | None) -> list[Trained]:
        """Train the networks of a task by PyTorch on the same GPU if possible, else on the CPU with a warning."""
        if self.device.torch_name is None or not _torch_sees_cuda():
            reason += "; with PyTorch for CUDA it could be trained on the GPU"
            return _train_on_cpu([task], self.n_jobs, self.watch, hook, reason)
        from bdkn.networks.torch_engine import TorchEngine

        engine = TorchEngine(device=self.device.torch_name)
        try:
            return train_tasks(engine, [task], n_jobs=self.n_jobs, watch=self.watch, on_epoch=hook)
        except RuntimeError as error:  # the base class of PyTorch's error for lack of memory
            if "out of memory" not in str(error):
                raise
            reason += f", and PyTorch: {str(error).splitlines()[0]}"
            return _train_on_cpu([task], self.n_jobs, self.watch, hook, reason)


def _torch_sees_cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())
