"""The engines by name, and the choice among them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bdkn.errors import check_choice
from bdkn.networks.job import Engine, Task

if TYPE_CHECKING:
    from bdkn.networks.gpu.cuda import Device

_CLASSES = {
    "fused": "bdkn.networks.fused.FusedEngine",
    "gpu": "bdkn.networks.gpu.engine.GPUEngine",
    "reference": "bdkn.networks.reference.ReferenceEngine",
    "torch": "bdkn.networks.torch_engine.TorchEngine",
}
"""The class of each engine, imported on first use."""

ENGINES = ("fused", "auto", "gpu", "reference", "torch")
"""Values of the parameter ``engine``; "auto" chooses between "fused" and "gpu"."""

_CPU_FLOPS = 6e10
"""Approximate flops per second of the fused engine on one thread."""

_GPU_FLOPS = 8e10
"""Approximate flops per second of one multiprocessor; it is 1.5 times as fast with two networks in turn."""

_MIN_CPU_SECONDS = 3.0
"""Minimum seconds of training on the CPU for which a GPU is considered: its initialization takes a second or two."""

_MIN_SPEEDUP = 1.5
"""Minimum ratio of the times on CPU and GPU for which the GPU is chosen."""


def get_engine(engine: str | Engine) -> Engine:
    """Return the engine of that name, or the engine itself."""
    if not isinstance(engine, str):
        return engine
    check_choice("engine", engine, tuple(_CLASSES))
    module, _, name = _CLASSES[engine].rpartition(".")
    found: Engine = getattr(importlib.import_module(module), name)()
    return found


def engine_for(engine: str | Engine, tasks: Sequence[Task], n_jobs: int | None) -> tuple[Engine, str]:
    """Return the engine for these tasks and, for "auto", a text about the device that was chosen.

    "auto" is the GPU if there is one and it is expected to be faster, else the fused engine.
    """
    if engine != "auto":
        return get_engine(engine), ""
    from bdkn.networks.fused import threads

    n_networks = sum(len(task.jobs) for task in tasks)
    flops = sum(
        # six per weight, row and epoch
        6.0 * job.spec.n_parameters * job.config.epochs * (task.n_rows if job.rows is None else len(job.rows))
        for task in tasks
        for job in task.jobs
    )
    cpu_seconds = flops / _CPU_FLOPS / min(threads(n_jobs), n_networks)
    if cpu_seconds < _MIN_CPU_SECONDS:
        return get_engine("fused"), "on the CPU"
    from bdkn.networks.gpu import cuda

    try:
        device = cuda.find_cuda()
    except cuda.NoDeviceError as error:
        return get_engine("fused"), f"on the CPU ({error})"
    gpu_seconds = flops / _GPU_FLOPS / min(n_networks, 1.5 * device.multiprocessors)
    if _MIN_SPEEDUP * gpu_seconds > cpu_seconds:
        return get_engine("fused"), "on the CPU (faster for this size)"
    return get_engine("gpu"), f"on {device.name}"


def prediction_device(engine: object) -> Device | None:
    """Return the device on which models with this engine predict many rows; None: the CPU."""
    if engine == "auto":
        from bdkn.networks.gpu import cuda

        return cuda.known_cuda()  # predictions alone are not worth the initialization of a GPU
    if isinstance(engine, str):
        engine = get_engine(engine) if engine == "gpu" else None
    device: Device | None = engine.prediction_device() if hasattr(engine, "prediction_device") else None
    return device
