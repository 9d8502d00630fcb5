"""Measure training at several widths of vectors: the share of the peak, and the time of each part of a step.

    python benchmarks/vector_width.py [--write] [--rounds 5]

The same work runs in one process per width, in which environment variables determine the instructions that NumPy,
OpenBLAS and Numba use; processes of all widths take turns. The peak is a 768³ float32 product of the BLAS on one
thread, with the same instructions. Times are CPU times of the one thread, the lowest of many, as other work on the
machine only adds to them. ``--write`` writes the tables to benchmarks/records/vector_width.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numba as nb
import numpy as np
from threadpoolctl import threadpool_limits

from bdkn.environment import describe_machine
from bdkn.networks import Job, TrainingConfig
from bdkn.networks import fused as adam
from bdkn.networks import fused as epochs
from bdkn.networks import fused as step
from bdkn.networks.fused import Run
from bdkn.networks.job import JobRows, TrainingTable
from engine import BASE, SHAPES, Work

RECORDS = Path(__file__).parent / "records"

WIDTHS = {
    "512 bits": {},
    "256 bits": {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "",
    },
    "128 bits, no fused multiply-add": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
        "NUMBA_CPU_NAME": "x86-64-v2",
        "NUMBA_CPU_FEATURES": "",
    },
}
"""Environment variables with which a machine with AVX-512 uses the instructions of an older one."""

ONE_EACH = [work for work in SHAPES if work.members == BASE.members]
"""Shapes that differ in more than the number of members; one network of each is trained."""

EDGE = 768

PARTS = ("forward", "loss", "backward", "Adam", "rows", "Adam and the next rows at once")


@nb.njit
def _forward(times: int, state: epochs.State, activation: int, rows: int) -> None:
    for _ in range(times):
        step.forward_for_training(state.mem, state.layers, state.places, activation, rows)


@nb.njit
def _loss(times: int, state: epochs.State, rows: int, objective: int) -> None:
    for _ in range(times):
        step.loss(state.mem, state.layers, state.places, rows, objective, 0.5)


@nb.njit
def _backward(times: int, state: epochs.State, activation: int, rows: int) -> None:
    for _ in range(times):
        step.backward(state.mem, state.layers, state.places, activation, rows)


@nb.njit
def _update_and_load(times: int, state: epochs.State, update: adam.Update, data: epochs.Data, rows: np.ndarray) -> None:
    for _ in range(times):
        epochs.update_and_load(state.mem, state.layers, state.places, update, data, rows)


def seconds_per_call(function: Callable[..., None], *arguments: object, times: int = 300) -> float:
    """Return the shortest time of one iteration of a compiled loop."""
    function(1, *arguments)
    best = float("inf")
    for _ in range(30):
        began = time.thread_time()
        function(times, *arguments)
        best = min(best, (time.thread_time() - began) / times)
    return best


def started(work: Work) -> Run:
    """Return the training of one network of that shape."""
    job = Job(work.spec, TrainingConfig(epochs=10**6, batch_size=work.batch), np.random.SeedSequence(0))
    table = TrainingTable.of(work.data(), [job])
    run = Run.start(job, table, JobRows.of(job, len(table.y)))
    run.advance(2)
    return run


def parts(work: Work) -> dict[str, float]:
    """Return the µs of each part of one step, each measured separately in a loop."""
    run = started(work)
    state, activation, rows = run.state, run.settings.activation, run.data.order[: work.batch].copy()
    kept, update = state.mem.copy(), adam.update_at(state.places, 1000, 1e-9, 0.0)
    found = {}
    for name, function, arguments in (
        ("forward", _forward, (state, activation, work.batch)),
        ("loss", _loss, (state, work.batch, run.settings.objective)),
        ("backward", _backward, (state, activation, work.batch)),
        ("Adam", _update_and_load, (state, update, run.data, rows[:0])),
        ("rows", _update_and_load, (state, adam.NO_UPDATE, run.data, rows)),
        ("Adam and the next rows at once", _update_and_load, (state, update, run.data, rows)),
    ):
        state.mem[:] = kept
        found[name] = 1e6 * seconds_per_call(function, *arguments)
    return found


def step_us(work: Work) -> float:
    """Return the µs of one step, from the fastest of many epochs of about 3 ms."""
    few = max(1, round(3e8 / (work.flops / work.steps)))
    short = replace(work, rows=min(work.rows, few * work.batch))
    run, best = started(short), float("inf")
    for _ in range(200):
        began = time.thread_time()
        run.advance(1)
        best = min(best, time.thread_time() - began)
    return 1e6 * best / short.steps


def peak_gflops() -> float:
    """Return GFLOP/s of a float32 product on one thread."""
    a = np.random.default_rng(0).normal(size=(EDGE, EDGE)).astype(np.float32)
    best = float("inf")
    with threadpool_limits(1, user_api="blas"):
        for _ in range(400):
            began = time.thread_time()
            a @ a
            best = min(best, time.thread_time() - began)
    return 2 * EDGE**3 / best / 1e9


def measure() -> dict[str, object]:
    """Return the results of one process: peak, µs per step by shape, µs of the parts of a step of the first shape."""
    steps = {work.name: step_us(work) for work in ONE_EACH}
    return {"machine": describe_machine(), "peak": peak_gflops(), "steps": steps, "parts": parts(BASE)}


def best(rounds: list[dict[str, object]]) -> dict[str, object]:
    """Return the shortest times and the highest peak of all rounds."""
    return {
        "peak": max(one["peak"] for one in rounds),
        **{
            kind: {name: min(one[kind][name] for one in rounds) for name in rounds[0][kind]}
            for kind in ("steps", "parts")
        },
    }  # type: ignore[index]


def table(found: dict[str, dict[str, object]], machine: str, rounds: int) -> str:
    """Return the results as Markdown."""
    names = list(found)
    line = "| --- |" + " ---: |" * len(names)
    text = [
        f"Machine: {machine}", "",
        f"Lowest times of {rounds} rounds, one member on one thread.", "",
        "| | " + " | ".join(names) + " |", line,
        "| peak of the BLAS, GFLOP/s | " + " | ".join(f"{found[n]['peak']:.0f}" for n in names) + " |",
    ]  # fmt: skip
    for work in ONE_EACH:
        cells = []
        for name in names:
            t = found[name]["steps"][work.name]  # type: ignore[index]
            cells.append(f"{t:.1f} µs, {work.flops / work.steps / t / 1e3 / found[name]['peak']:.0%}")  # type: ignore[operator]
        text.append(
            f"| {work.name.removesuffix(', 5 members')}: a step, share of the peak | " + " | ".join(cells) + " |"
        )
    text += [
        "",
        f"Parts of a step, µs each alone in a loop ({BASE.name.rpartition(',')[0]}):",
        "",
        "| | " + " | ".join(names) + " |",
        line,
    ]
    for part in PARTS:
        text.append(f"| {part} | " + " | ".join(f"{found[n]['parts'][part]:.2f}" for n in names) + " |")  # type: ignore[index]
    return "\n".join(text) + "\n"


def main() -> None:
    """Measure, print and, with ``--write``, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write the tables to benchmarks/records/")
    parser.add_argument("--measure", action="store_true", help="measure in this process and print the numbers as JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure()))
        return
    rounds: dict[str, list[dict[str, object]]] = {name: [] for name in WIDTHS}
    for _ in range(arguments.rounds):
        for name, variables in WIDTHS.items():
            command = [sys.executable, __file__, "--measure"]
            run = subprocess.run(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=True)
            rounds[name].append(json.loads(run.stdout))
    text = table(
        {name: best(some) for name, some in rounds.items()}, str(rounds["512 bits"][0]["machine"]), arguments.rounds
    )
    print(text)
    if arguments.write:
        path = RECORDS / "vector_width.md"
        path.write_text(
            "# Training speed by the width of vectors\n\n`python benchmarks/vector_width.py --write`\n\n" + text,
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
