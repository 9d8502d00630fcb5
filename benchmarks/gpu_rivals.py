"""Other ways to train many networks at once on a GPU, for ``benchmarks/gpu.py``.

All train the same networks on the same number of rows, in single precision: PyTorch with the members batched
(``baddbmm``), operation by operation and as a CUDA graph; JAX with ``vmap`` over members and ``scan`` over steps.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from engine import RATE, Work, jax_scan

Timer = Callable[[], float]
"""Returns seconds per step of all members."""


def rivals(work: Work, device: str, steps: int) -> dict[str, Timer | str]:
    """Return a timer of each rival, or the reason why it cannot run."""
    found: dict[str, Timer | str] = {}
    if importlib.util.find_spec("torch") is None:
        found["torch, baddbmm, eager"] = found["torch, baddbmm, CUDA graph"] = "PyTorch is not installed"
    else:
        found["torch, baddbmm, eager"] = lambda: torch_batched(work, device, steps, graph=False)
        found["torch, baddbmm, CUDA graph"] = (
            (lambda: torch_batched(work, device, steps, graph=True)) if device != "cpu" else "there is no CUDA device"
        )
    found["JAX, vmap and scan"] = _jax(work, device)
    return found


def _jax(work: Work, device: str) -> Timer | str:
    if importlib.util.find_spec("jax") is None:
        return "JAX is not installed"
    import jax

    if device != "cpu" and jax.default_backend() == "cpu":
        return "JAX is installed without CUDA"
    return lambda: jax_scan(work)() * work.members


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


def _recorded(step: Callable[[Any], None], work: Work, device: str) -> Callable[[Any], None]:
    """Return the step as a CUDA graph, which is replayed with the row numbers of each batch."""
    import torch

    place = _orders(work, device)[:, : work.batch].clone()
    side: Any = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(place)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(place)

    def replay(batch: Any) -> None:
        place.copy_(batch)
        graph.replay()

    return replay
