"""Recording and replay of CUDA graphs, on a fake device that records and replays calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from bdkn.networks.torch_training import Graphs  # noqa: E402


class Device:
    """A stand-in for the part of ``torch.cuda`` that ``Graphs`` uses."""

    def __init__(self) -> None:
        self.is_recording, self.recorded = False, list[Callable[[], None]]()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        device = self

        class Graph:
            def replay(self) -> None:
                for call in self.calls:  # type: ignore[attr-defined]
                    call()

        class Stream:
            def __init__(self, *_: Any) -> None: ...
            def wait_stream(self, other: Any) -> None: ...

        @contextmanager
        def record(graph: Any, **_: Any) -> Iterator[None]:
            device.is_recording, device.recorded = True, []
            try:
                yield
            finally:
                device.is_recording, graph.calls = False, device.recorded

        fakes = {
            "CUDAGraph": Graph,
            "Stream": Stream,
            "graph": record,
            "graph_pool_handle": lambda: None,
            "stream": lambda stream: nullcontext(),
            "device": lambda device: nullcontext(),
            "current_stream": Stream,
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    made.install(monkeypatch)
    return made


def test_replays_with_new_inputs_from_the_second_run_on(device: Device) -> None:
    total, runs = torch.zeros(()), []

    def work(kind: int, values: Any) -> None:
        def step() -> None:
            total.add_(kind * values.sum())

        if device.is_recording:
            device.recorded.append(step)
        else:
            runs.append(kind)
            step()

    graphs = Graphs(work, torch.device("cpu"))
    expected = 0.0
    for turn in range(4):
        for kind in (1, 2):
            graphs(kind, torch.full((3,), float(turn)))
            expected += 3 * kind * turn
    assert runs == [1, 2], "each kind runs once, then it is replayed"
    assert total.item() == expected


def test_calls_that_cannot_be_recorded_run_each_time(device: Device) -> None:
    runs = []

    def work(kind: int, values: Any) -> None:
        if device.is_recording:
            raise RuntimeError("not while recording")
        runs.append(kind)

    graphs = Graphs(work, torch.device("cpu"))
    for _ in range(3):
        graphs(7, torch.zeros(2))
    assert runs == [7, 7, 7]


def test_a_program_on_such_a_device_trains_the_same_networks(
    device: Device, monkeypatch: pytest.MonkeyPatch, rows: Any, seeds: Any
) -> None:
    """The program calls ``Graphs`` with chunks of steps, as on a CUDA device."""
    import numpy as np
    from make_jobs import jobs_of

    from bdkn.networks import NetworkSpec, TrainingConfig
    from bdkn.networks import torch_training as torch_program
    from bdkn.networks.torch_engine import TorchEngine

    jobs = jobs_of(
        NetworkSpec(n_inputs=3, hidden=(5,)), TrainingConfig(epochs=4, warmup_epochs=1, batch_size=16), seeds
    )
    plain = TorchEngine().train(jobs, rows)

    class Graphed(torch_program.Program):
        def __init__(self, jobs: Any, own: Any, table: Any) -> None:
            super().__init__(jobs, own, table)
            run = self._run_steps

            def work(kind: Any, *inputs: Any) -> None:
                if device.is_recording:
                    device.recorded.append(lambda: run(kind, *inputs))
                else:
                    run(kind, *inputs)

            self._steps = Graphs(work, torch.device("cpu"))

    monkeypatch.setattr(torch_program, "Program", Graphed)
    graphed = TorchEngine().train(jobs, rows)
    for mine, theirs in zip(graphed.networks.outputs(rows.X), plain.networks.outputs(rows.X), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
