"""Measure how fast PyTorch trains the cross-fitted networks of the default, all in one program and one at a time.

    python benchmarks/torch_engine.py [--device cuda] [--quick] [--rounds 5] [--write] [--results FOLDER]

Three ways to train the same jobs take turns in every round: one call of the engine with all jobs; one call for each
job; and one network after the other with automatic differentiation and ``torch.optim.AdamW``, as the engine worked
before it received all jobs at once. The slow ways train a sample of the jobs. Each way is timed for a few and for some
more epochs, and the time of a whole training follows from both: all epochs take the same time, what precedes them
counts once. Ratios are taken within a round. On the CPU one thread is used and its CPU time counts, so that other work
on the machine does not; on other devices it is wall time. ``--write`` writes the table to torch_engine.json and
torch_engine.md, one section per device.

It also runs without Numba: then NumPy shuffles the rows, in another order but in about the same time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch.nn import functional

if find_spec("numba") is None:

    def numpy_shuffle(order: np.ndarray, state: int) -> int:
        """Replace ``bdkn.kernels.dense.shuffle``, which needs Numba."""
        np.random.default_rng(int(state)).shuffle(order)
        return (int(state) + 1) % 2**64

    sys.modules["numba"] = ModuleType("numba")
    sys.modules["numba"].njit = lambda **_: lambda f: numpy_shuffle if f.__name__ == "shuffle" else f  # type: ignore[attr-defined]

from bdkn.data.rows import Rows
from bdkn.kernels.dense import shuffle
from bdkn.networks import ACTIVATIONS, MIN_VARIANCE, Job, NetworkSpec, TrainingConfig
from bdkn.networks.job import JobRows
from bdkn.networks.torch_engine import TorchEngine

RECORDS = Path(__file__).parent / "records"
FOLDS, ACTIVATION, DECAY = 5, ("silu", "relu"), (0.0, 0.3, 0.0, 1.0, 0.0, 0.3)
WAYS = ("one program", "one job at a time", "one network at a time, automatic differentiation")


@dataclass(frozen=True)
class Work:
    """The default's networks for a table of some size; ``timed`` are the few and the more epochs."""

    name: str
    rows: int
    inputs: int
    members: int
    hidden: tuple[int, ...]
    epochs: int
    timed: tuple[int, int]

    def table(self) -> Rows:
        """Return synthetic rows."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(self.rows, self.inputs)).astype(np.float32)
        return Rows(X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.2 * rng.normal(size=self.rows))

    def jobs(self) -> list[Job]:
        """Return one job per fold and member; each member has folds of its own."""
        config = TrainingConfig(epochs=self.epochs, learning_rate=3e-3, schedule="cosine")
        rng, seeds = np.random.default_rng(1), iter(np.random.SeedSequence(2).spawn(FOLDS * self.members))
        folds = [rng.permutation(self.rows) % FOLDS for _ in range(self.members)]
        return [
            Job(
                NetworkSpec(n_inputs=self.inputs, hidden=self.hidden, activation=ACTIVATION[h % 2]),
                replace(config, weight_decay=DECAY[h // 2 % len(DECAY)]),
                next(seeds),
                np.flatnonzero(folds[h] != k).astype(np.int32),
            )
            for k in range(FOLDS)
            for h in range(self.members)
        ]


WORKS = (
    Work("455 rows, 13 inputs (Boston)", 455, 13, 12, (50, 50), 500, (4, 24)),
    Work("7373 rows, 8 inputs (Kin8nm)", 7373, 8, 6, (36,) * 5, 215, (3, 6)),
)


def shortened(jobs: Sequence[Job], epochs: int) -> list[Job]:
    """Return the same jobs with another number of epochs."""
    return [replace(job, config=replace(job.config, epochs=epochs)) for job in jobs]


def former_training(job: Job, table: Rows, device: str) -> None:
    """Train one network with automatic differentiation and AdamW, all operations launched one by one."""
    own = JobRows.of(job, len(table))
    X, y = (torch.tensor(part, dtype=torch.float32, device=device) for part in (table.X, table.y))
    drawn = job.spec.initial_layers(own.streams.initial)
    layers = [[torch.tensor(part[None], device=device, requires_grad=True) for part in layer] for layer in drawn]
    optimizer = torch.optim.AdamW([part for layer in layers for part in layer], weight_decay=job.config.weight_decay)
    activation, state, step = ACTIVATIONS[job.spec.activation].torch, np.uint64(own.streams.order), 0
    steps = job.config.epochs * math.ceil(len(own.training) / job.config.batch_size)
    for _ in range(job.config.epochs):
        state, totals = np.uint64(shuffle(own.training, state)), []
        order = torch.tensor(own.training[None], dtype=torch.long, device=device)
        for batch in torch.split(order, job.config.batch_size, 1):
            value = X[batch]
            for i, (W, b) in enumerate(layers):
                value = torch.baddbmm(b[:, None], value, W.mT)
                value = activation(value) if i < len(layers) - 1 else value
            mean, raw = value.unbind(-1)
            v = functional.softplus(raw, threshold=40) + MIN_VARIANCE
            total = ((v.log() + (mean - y[batch]) ** 2 / v) / 2).sum(dim=1)
            optimizer.zero_grad()
            torch.autograd.backward(total.sum() / batch.shape[1])
            optimizer.param_groups[0]["lr"] = float(job.config.learning_rate_at(step, steps))
            optimizer.step()
            step += 1
            totals.append(total.detach())
        torch.stack(totals).sum().item()


def seconds(call: Callable[[], object], device: str) -> float:
    """Return the time of a call; each way reads the loss at the end of an epoch, so that the device has finished."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    began = clock()
    call()
    return clock() - began


def whole(work: Work, device: str, run: Callable[[int], object]) -> float:
    """Return the seconds of a whole training, extrapolated from the times of few and of some more epochs."""
    few, more = work.timed
    first, second = seconds(lambda: run(few), device), seconds(lambda: run(more), device)
    per_epoch = (second - first) / (more - few)
    return first + (work.epochs - few) * per_epoch


def ways(work: Work, device: str, sample: int) -> dict[str, Callable[[], float]]:
    """Return timers of a whole training of all jobs, by way."""
    jobs, table, engine = work.jobs(), work.table(), TorchEngine(device=device)
    some = jobs[:: len(jobs) // sample][:sample]

    def together(epochs: int) -> object:
        return engine.train(shortened(jobs, epochs), table)

    def alone(epochs: int) -> object:
        return [engine.train([job], table) for job in shortened(some, epochs)]

    def before(epochs: int) -> object:
        return [former_training(job, table, device) for job in shortened(some, epochs)]

    factor = len(jobs) / len(some)
    return {
        WAYS[0]: lambda: whole(work, device, together),
        WAYS[1]: lambda: factor * whole(work, device, alone),
        WAYS[2]: lambda: factor * whole(work, device, before),
    }


def difference(work: Work, device: str) -> float:
    """Return the largest difference of a loss, relative to the largest loss, of jobs trained together and alone."""
    jobs, table, engine = shortened(work.jobs(), 3), work.table(), TorchEngine(device=device)
    together = engine.train(jobs, table).loss_curves
    alone = [engine.train([job], table).loss_curves[0] for job in jobs[:3]]
    return float(max(np.abs(a - b).max() / np.abs(a).max() for a, b in zip(together, alone, strict=False)))


def measure(work: Work, device: str, rounds: int, sample: int) -> dict[str, object]:
    """Time all ways in turn."""
    timers = ways(work, device, sample)
    for timer in timers.values():
        timer()  # libraries are loaded and kernels chosen
    times = [{name: timer() for name, timer in timers.items()} for _ in range(rounds)]
    jobs, table, engine = work.jobs(), work.table(), TorchEngine(device=device)
    return {
        "work": work.name,
        "networks": FOLDS * work.members,
        "hidden": work.hidden,
        "epochs": work.epochs,
        "seconds": {name: spread([turn[name] for turn in times]) for name in WAYS},
        "times faster": {name: spread([turn[name] / turn[WAYS[0]] for turn in times]) for name in WAYS[1:]},
        "whole training, s": None if device == "cpu" else seconds(lambda: engine.train(jobs, table), device),
        "difference of losses": difference(work, device),
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, minimum and maximum."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def describe_machine() -> str:
    """Return processor, cores, system and versions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    processor = next(names, platform.processor() or "unknown processor")
    packages = f"Python {platform.python_version()}, numpy {np.__version__}, torch {torch.__version__}"
    return f"{processor}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}; {packages}"


def shown(numbers: dict[str, float]) -> str:
    """Return the median as text, with minimum and maximum in brackets."""
    low, middle, high = (f"{numbers[name]:.3g}" for name in ("low", "median", "high"))
    return f"{middle} ({low} to {high})"


def page(records: dict[str, dict[str, object]]) -> str:
    """Return the results of all devices as Markdown."""
    lines = ["# PyTorch: all jobs in one program", "", "`python benchmarks/torch_engine.py --write [--device cuda]`"]
    for record in records.values():
        lines += ["", f"## {record['device']}", "", f"Machine: {record['machine']}. Single precision, batch 32."]
        lines += [f"Medians of {record['rounds']} alternating rounds, in brackets the lowest and the highest."]
        for found in record["works"]:  # type: ignore[attr-defined]
            about = f"{found['networks']} networks, hidden layers {tuple(found['hidden'])}, {found['epochs']} epochs"
            lines += ["", f"{found['work']}: {about}.", ""]
            lines += ["| way | seconds of a whole training | one program is faster by |", "| --- | ---: | ---: |"]
            for name, taken in found["seconds"].items():
                ratio = shown(found["times faster"][name]) if name in found["times faster"] else ""
                lines.append(f"| {name} | {shown(taken)} | {ratio} |")
            real = found["whole training, s"]
            measured = "" if real is None else f"A whole training in one program, measured: {real:.3g} s. "
            losses = f"Losses of jobs trained together and alone differ by {found['difference of losses']:.1e}."
            lines += ["", measured + losses]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and, with ``--write``, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds, one network for the slow ways")
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--results", type=Path, default=RECORDS, help="folder to write it to")
    given = parser.parse_args()
    if given.device == "cpu":
        torch.set_num_threads(1)
    rounds, sample = (2, 1) if given.quick else (given.rounds, 2)
    record = {
        "device": torch.cuda.get_device_name() if given.device.startswith("cuda") else f"{given.device}, one thread",
        "machine": describe_machine(),
        "rounds": rounds,
        "works": [measure(work, given.device, rounds, sample) for work in WORKS],
    }
    print(page({given.device: record}))
    if given.write:
        kept = given.results / "torch_engine.json"
        records = {**(json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}), given.device: record}
        kept.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        (given.results / "torch_engine.md").write_text(page(records), encoding="utf-8")


if __name__ == "__main__":
    main()
