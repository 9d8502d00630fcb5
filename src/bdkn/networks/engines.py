"""The engines by name, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bdkn.data.rows import Rows
from bdkn.errors import check_choice
from bdkn.networks.gpu.cuda import Device, NoDeviceError
from bdkn.networks.job import Engine, Hook, Job, Task, Trained, train_tasks
from bdkn.typing import Float32Array

ENGINES = ("fused", "auto", "gpu", "reference", "torch")

_CPU_FLOPS = 6e10
"""Flops per second of one thread of the fused engine, about."""

_GPU_FLOPS = 8e10
"""Flops per second of one multiprocessor, about; one that trains two networks in turn has half as much again."""

_WORTH_S = 3.0
"""Seconds of training on the CPU from which on a GPU, which takes a second or two to begin with, is worth a look."""

_GAIN = 1.5
"""How much faster a GPU must be to be chosen."""


def get_engine(engine: str | Engine) -> Engine:
    """Return the engine of that name, or the engine itself; what an engine needs is imported when it is first used."""
    if not isinstance(engine, str):
        return engine
    check_choice("engine", engine, ENGINES)
    if engine == "auto":
        return AutoEngine()
    if engine == "reference":
        from bdkn.networks.reference import ReferenceEngine

        return ReferenceEngine()
    if engine == "torch":
        from bdkn.networks.torch_engine import TorchEngine

        return TorchEngine()
    if engine == "gpu":
        from bdkn.networks.gpu.engine import GPUEngine

        return GPUEngine()
    from bdkn.networks.fused import FusedEngine

    return FusedEngine()


def engine_for(engine: str | Engine, tasks: Sequence[Task], n_jobs: int | None) -> tuple[Engine, str]:
    """Return the engine for these tasks, and where it trains them if that was chosen here."""
    found = get_engine(engine)
    if not isinstance(found, AutoEngine):
        return found, ""
    choice = found.choose(tasks, n_jobs)
    return choice.engine, choice.place


@dataclass(frozen=True, eq=False)
class Choice:
    """An engine, and where it trains, with the reason."""

    engine: Engine
    place: str


class AutoEngine:
    """Engine that leaves the work to the fastest one: on a GPU, if there is one and the work is worth it, else the CPU.

    Without a GPU the networks are those of ``engine="fused"``, bit by bit.
    """

    def __repr__(self) -> str:
        return "AutoEngine()"

    def choose(self, tasks: Sequence[Task], n_jobs: int | None) -> Choice:
        """Return the engine for these tasks."""
        from bdkn.networks.fused import threads

        flops, n_networks = sum(map(_flops, tasks)), sum(len(task.jobs) for task in tasks)
        on_cpu_s = flops / _CPU_FLOPS / min(threads(n_jobs), n_networks)
        if on_cpu_s < _WORTH_S:
            return Choice(get_engine("fused"), "on the CPU")
        try:
            device = find_device()
        except NoDeviceError as error:
            return Choice(get_engine("fused"), f"on the CPU ({error})")
        on_gpu_s = flops / _GPU_FLOPS / min(n_networks, 1.5 * device.multiprocessors)
        if _GAIN * on_gpu_s > on_cpu_s:
            return Choice(get_engine("fused"), "on the CPU (faster for this size)")
        return Choice(get_engine("gpu"), f"on {device.name}")

    def prediction_device(self) -> Device | None:
        """Return the GPU if it was used before: to begin with one takes a second or two."""
        from bdkn.networks.gpu.cuda import known_cuda

        return known_cuda()

    def train(
        self,
        jobs: Sequence[Job],
        rows: Rows,
        *,
        n_jobs: int | None = None,
        watch: Float32Array | None = None,
        on_epoch: Hook | None = None,
    ) -> Trained:
        """Train one network per job."""
        engine = self.choose([Task(jobs, len(rows), lambda: rows)], n_jobs).engine
        return engine.train(jobs, rows, n_jobs=n_jobs, watch=watch, on_epoch=on_epoch)

    def train_many(
        self, tasks: Sequence[Task], *, n_jobs: int | None = None, on_epoch: Hook | None = None
    ) -> list[Trained]:
        """Train all tasks by one engine."""
        return train_tasks(self.choose(tasks, n_jobs).engine, tasks, n_jobs=n_jobs, on_epoch=on_epoch)


def prediction_device(engine: object) -> Device | None:
    """Return the device on which models with this engine predict many rows, the one that trains; None: on the CPU."""
    if isinstance(engine, str) and engine not in ("auto", "gpu"):
        return None
    found = get_engine(engine) if isinstance(engine, str) else engine
    device: Device | None = found.prediction_device() if hasattr(found, "prediction_device") else None
    return device


def find_device() -> Device:
    """Return the first GPU; raise ``NoDeviceError`` if there is none."""
    from bdkn.networks.gpu.cuda import find_cuda

    return find_cuda()


def _flops(task: Task) -> float:
    """Return the flops of training: six per weight, row and epoch."""
    return sum(
        6.0 * job.spec.n_parameters * job.config.epochs * (task.n_rows if job.rows is None else len(job.rows))
        for job in task.jobs
    )
