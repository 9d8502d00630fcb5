"""Work on a CUDA device that is recorded once and replayed as one launch."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

Work = Callable[..., None]
"""Called with a hashable kind of work and tensors; reads these tensors and writes to others that stay in place."""


class Graphs:
    """Runs work on a CUDA device; each kind of work is recorded as a CUDA graph at its second run and replayed later.

    A small network keeps a GPU busy for less time than it takes to launch its operations one by one. The first run of a
    kind is an ordinary one, in which libraries allocate what they need. Work that cannot be recorded stays ordinary.
    """

    def __init__(self, work: Work, device: torch.device) -> None:
        self._work, self._device, self._seen = work, device, set[Hashable]()
        self._recorded: dict[Hashable, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}
        self._pool, self._can_record = torch.cuda.graph_pool_handle(), True
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, kind: Hashable, *inputs: Tensor) -> None:
        """Run the work, or replay it with these inputs."""
        with torch.cuda.device(self._device):
            if kind in self._seen and kind not in self._recorded and self._can_record:
                self._record(kind, inputs)
            if kind in self._recorded:
                self._replay(kind, inputs)
            else:
                self._run(kind, inputs)
        self._seen.add(kind)

    def _run(self, kind: Hashable, inputs: tuple[Tensor, ...]) -> None:
        """Run the work on the stream that will record it."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._work(kind, *inputs)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _record(self, kind: Hashable, inputs: tuple[Tensor, ...]) -> None:
        graph, places = torch.cuda.CUDAGraph(), tuple(given.clone() for given in inputs)
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                self._work(kind, *places)
        except RuntimeError:
            self._can_record = False
        else:
            self._recorded[kind] = graph, places

    def _replay(self, kind: Hashable, inputs: tuple[Tensor, ...]) -> None:
        graph, places = self._recorded[kind]
        for place, given in zip(places, inputs, strict=True):
            place.copy_(given)
        graph.replay()
