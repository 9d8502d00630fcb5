"""Other ways to train many networks at once on a GPU, for ``benchmarks/gpu.py``.

All train the same networks on the same number of rows, in single precision: PyTorch with the members batched
(``baddbmm``), operation by operation and as a CUDA graph; JAX with ``vmap`` over members and ``scan`` over steps.

Each rival runs in a process of its own, as ``python benchmarks/gpu_rivals.py``: an error on the device ends all work of
the process that meets it, and JAX would keep most of the memory of the device.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from engine import RATE, Work, jax_scan

Timer = Callable[[], float]
"""Returns seconds per step of all members."""

EAGER, GRAPH, JAX = "torch, baddbmm, eager", "torch, baddbmm, CUDA graph", "JAX, vmap and scan"
LIMIT = 300.0
"""Seconds after which a rival is given up."""


def rivals(work: Work, device: str, steps: int) -> dict[str, Timer | str]:
    """Return a timer of each rival, or the reason why it cannot run."""
    found: dict[str, Timer | str] = {
        name: partial(in_own_process, name, work, device, steps) for name in (EAGER, GRAPH, JAX)
    }
    if device == "cpu":
        found[GRAPH] = "there is no CUDA device"
    if importlib.util.find_spec("torch") is None:
        found[EAGER] = found[GRAPH] = "PyTorch is not installed"
    if importlib.util.find_spec("jax") is None:
        found[JAX] = "JAX is not installed"
    return found


def in_own_process(name: str, work: Work, device: str, steps: int) -> float:
    """Return seconds per step of all members, measured by a process of its own; its error is raised here."""
    question = json.dumps({"name": name, "work": asdict(work), "device": device, "steps": steps})
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, __file__, question]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {LIMIT:.0f} s") from None
    if done.returncode != 0:
        raise RuntimeError(_error(done.stderr) or f"ended with code {done.returncode}")
    return float(done.stdout.splitlines()[-1])


def _error(text: str) -> str:
    """Return the line of a traceback that names the error: the last one that begins a line with a name and a colon."""
    lines = [line for line in text.splitlines() if "Error" in line.split(":")[0] and not line.startswith(" ")]
    return lines[-1] if lines else text.strip()[-200:]


def answer(question: str) -> float:
    """Return the shortest of two times of the rival that ``in_own_process`` asks for."""
    given = json.loads(question)
    parts = given["work"]
    work = Work(**{**parts, "hidden": tuple(parts["hidden"])})
    if given["name"] == JAX:
        return _jax(work, given["device"])
    return min(torch_batched(work, given["device"], given["steps"], graph=given["name"] == GRAPH) for _ in range(2))


def _jax(work: Work, device: str) -> float:
    """Train all members by JAX; return seconds per step of all members, the shortest of two times."""
    import jax

    if device != "cpu" and jax.default_backend() == "cpu":
        raise RuntimeError("JAX is installed without CUDA")
    timer = jax_scan(work)
    return min(timer() for _ in range(2)) * work.members


def torch_batched(work: Work, device: str, steps: int, *, graph: bool) -> float:
    """Train all members by batched products; return seconds per step of all members."""
    import torch

    step = _torch_step(work, device, graph=graph)
    orders = [_orders(work, device) for _ in range(2)]

    def run(count: int) -> None:
        for i in range(count):
            start = (i % (work.steps - 1)) * work.batch
            step(orders[i % 2][:, start : start + work.batch])
        if device != "cpu":
            torch.cuda.synchronize()

    run(max(5, steps // 10))
    began = time.perf_counter()
    run(steps)
    return (time.perf_counter() - began) / steps


def _orders(work: Work, device: str) -> Any:
    import torch

    rng = np.random.default_rng(0)
    orders = np.stack([rng.permutation(work.rows) for _ in range(work.members)])
    return torch.from_numpy(orders).to(device)


def _torch_step(work: Work, device: str, *, graph: bool) -> Callable[[Any], None]:
    """Return a function that takes one step of Adam with a batch of row numbers (members, rows)."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    rows, H = work.data(), work.members
    X, y = (torch.from_numpy(part.astype(np.float32)).to(device) for part in (rows.X, rows.y))
    parameters = []
    for n_out, n_in in work.spec.shapes:
        for shape in ((H, n_in, n_out), (H, 1, n_out)):
            parameters.append(torch.empty(shape, device=device).uniform_(-(n_in**-0.5), n_in**-0.5).requires_grad_())
    options: dict[str, Any] = {"capturable": True} if device != "cpu" else {}
    optimizer = torch.optim.Adam(parameters, lr=RATE, **options)

    def step(batch: Any) -> None:
        value = X[batch]
        for layer in range(0, len(parameters), 2):
            value = torch.baddbmm(parameters[layer + 1], value, parameters[layer])
            value = value.relu() if layer < len(parameters) - 2 else value
        variance = torch.nn.functional.softplus(value[..., 1]) + 1e-6
        loss = (variance.log() + (y[batch] - value[..., 0]) ** 2 / variance).mean(dim=1).sum() / 2
        optimizer.zero_grad(set_to_none=not graph)
        loss.backward()
        optimizer.step()

    return _recorded(step, work, device) if graph else step


@dataclass(frozen=True)
class _Recorded:
    """A step as a CUDA graph, which is replayed with the row numbers of each batch.

    The graph knows addresses only. So ``step`` is kept, which owns the rows, the weights and the state of the
    optimizer: their memory would be given to other arrays, such as the row numbers, and the graph would write there.
    """

    step: Callable[[Any], None]
    graph: Any
    place: Any

    def __call__(self, batch: Any) -> None:
        self.place.copy_(batch)
        self.graph.replay()


def _recorded(step: Callable[[Any], None], work: Work, device: str) -> _Recorded:
    """Return the step as a CUDA graph, after the first steps outside of it that PyTorch asks for."""
    import torch

    place = _orders(work, device)[:, : work.batch].contiguous()
    side: Any = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(place)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(place)
    return _Recorded(step, graph, place)


if __name__ == "__main__":
    print(answer(sys.argv[1]))
