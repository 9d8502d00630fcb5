"""Measure the speed of prediction, compared with NumPy in double precision and with the peak of the hardware.

    python benchmarks/prediction.py [--write] [--rounds 5]

Times are CPU time of all threads, which does not depend on other work on the machine; the shortest wall time is shown
beside it. The programs take turns in every round of one run. Work is counted as 2 flops per weight and row; the peak is
a 2048³ float32 matrix product on one thread. NumPy's million rows are 50 times 20 000. ``--write`` writes the table to
benchmarks/records/prediction.json and benchmarks/records/prediction.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

import bdkn
from bdkn.environment import describe_machine
from bdkn.networks import Networks, NetworkSpec, initial_networks
from bdkn.networks.compiled import outputs_of, packing_of
from bdkn.networks.mlp import exact_outputs

RECORDS = Path(__file__).parent / "records"
SPEC = NetworkSpec(n_inputs=4, hidden=(64, 64), activation="silu")
NETWORKS = 25
SIZES = (1, 1000, 1_000_000)
NUMPY_MOST = 20_000
FLOPS = 2 * NETWORKS * sum(n_out * n_in for n_out, n_in in SPEC.shapes)


def rows_of(n: int) -> np.ndarray:
    """Return encoded rows."""
    return np.random.default_rng(0).normal(size=(n, SPEC.n_inputs)).astype(np.float32)


@dataclass(frozen=True)
class Took:
    """Seconds of one call: CPU time of all threads, and wall time."""

    cpu: float
    wall: float

    @classmethod
    def best(cls, runs: Sequence[Took]) -> Took:
        """Return the shortest of each."""
        return cls(min(run.cpu for run in runs), min(run.wall for run in runs))


def clock(call: Callable[[], object], least: float = 0.05) -> Took:
    """Return the time of a call, measured over so many calls that they take long enough."""
    calls = 1
    while True:
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(calls):
            call()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if cpu >= least:
            return Took(cpu / calls, wall / calls)
        calls *= 2


def new_process(code: str) -> Took:
    """Return the time of a new process."""
    cpu, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime, time.perf_counter() - wall)


def peak() -> float:
    """Return the flop/s of a large float32 product on one thread."""
    a = np.random.default_rng(0).normal(size=(2048, 2048)).astype(np.float32)
    with threadpool_limits(1, user_api="blas"):
        a @ a
        return 2 * 2048**3 / min(clock(lambda: a @ a).cpu for _ in range(3))


def contenders(networks: Networks) -> dict[str, Callable[[int], Took]]:
    """Return timers of the prediction of n rows, by program."""
    weights, tables = packing_of(SPEC).packed(networks.layers), {n: rows_of(n) for n in (*SIZES, NUMPY_MOST)}

    def numpy(n: int) -> Took:
        most = min(n, NUMPY_MOST)
        took = clock(lambda: exact_outputs(SPEC, networks.layers, tables[most]))
        return Took(took.cpu * n / most, took.wall * n / most)

    return {
        "compiled, 1 thread": lambda n: clock(lambda: outputs_of(SPEC, weights, tables[n], threads=1)),
        f"compiled, {joblib.cpu_count()} threads": lambda n: clock(lambda: outputs_of(SPEC, weights, tables[n])),
        "NumPy, double precision": numpy,
    }


def contest(rounds: int) -> tuple[dict[str, list[Took]], float]:
    """Time all programs in turn; return the best times of each for every number of rows, and the peak in GFLOP/s."""
    networks = initial_networks(SPEC, [np.random.default_rng(h) for h in range(NETWORKS)])
    networks.outputs(rows_of(1))
    runs, peaks = contenders(networks), []
    times: dict[tuple[str, int], list[Took]] = {(name, n): [] for name in runs for n in SIZES}
    for _ in range(rounds):
        peaks.append(peak() / 1e9)
        for (name, n), taken in times.items():
            taken.append(runs[name](n))
    return {name: [Took.best(times[name, n]) for n in SIZES] for name in runs}, max(peaks)


def regressor(rounds: int) -> dict[str, Took]:
    """Return times of the default regressor, after a fit to few rows, as the quality of the fit does not matter."""
    X = rows_of(2000).astype(np.float64)
    model = bdkn.BDKNRegressor(epochs=2, random_state=0).fit(X, X[:, 0] + np.sin(X[:, 1]))
    one, many = X[:1], rows_of(SIZES[-1])
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.bdkn")
        model.save(path)
        ready = f"import bdkn, numpy; bdkn.load({path!r}).predict(numpy.zeros((1, {SPEC.n_inputs})))"
        return {
            "predict one row": Took.best([clock(lambda: model.predict(one)) for _ in range(rounds)]),
            "predict one row and its std": Took.best(
                [clock(lambda: model.predict(one, return_std=True)) for _ in range(rounds)]
            ),
            "predict a million rows": Took.best([clock(lambda: model.predict(many)) for _ in range(2)]),
            "new process: import scikit-learn": Took.best([new_process("import sklearn.base") for _ in range(3)]),
            "new process: load a model, predict a row": Took.best([new_process(ready) for _ in range(3)]),
        }


def shown(took: Took) -> str:
    """Return CPU time and wall time as text, each with a suitable unit."""

    def text(s: float) -> str:
        unit, name = next((u, n) for u, n in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")) if s >= u or n == "µs")
        return f"{s / unit:.3g} {name}"

    return f"{text(took.cpu)} ({text(took.wall)})"


def table(machine: str, times: dict[str, list[Took]], peak: float, whole: dict[str, Took]) -> str:
    """Return the results as Markdown."""
    lines = [
        f"Machine: {machine}",
        "",
        f"Work: {NETWORKS} networks, {SPEC.n_inputs} inputs, hidden {SPEC.hidden}, {SPEC.activation}. "
        f"Peak of one thread: {peak:.0f} GFLOP/s. CPU time of all threads, in brackets wall time; the best of all "
        "rounds. Where wall time exceeds CPU time, the machine was busy with other work.",
        "",
        "| networks' outputs | " + " | ".join(f"{n:,} rows" for n in SIZES) + " | share of peak |",
        "| --- |" + " ---: |" * (len(SIZES) + 1),
    ]
    for name, cells in times.items():
        share = FLOPS * SIZES[-1] / cells[-1].cpu / (1e9 * peak)
        lines.append(f"| {name} | {' | '.join(map(shown, cells))} | {share:.0%} |")
    lines += ["", "| the default regressor | |", "| --- | ---: |"]
    lines += [f"| {name} | {shown(took)} |" for name, took in whole.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and, with ``--write``, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/records/")
    arguments = parser.parse_args()
    machine, (times, peak), whole = describe_machine(), contest(arguments.rounds), regressor(arguments.rounds)
    text = table(machine, times, peak, whole)
    print(text)
    if arguments.write:
        record = {
            "machine": machine,
            "rounds": arguments.rounds,
            "peak_gflops_one_thread": peak,
            "rows": SIZES,
            "seconds": {name: [asdict(took) for took in cells] for name, cells in times.items()},
            "regressor": {name: asdict(took) for name, took in whole.items()},
        }
        (RECORDS / "prediction.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        heading = "# Prediction speed\n\n`python benchmarks/prediction.py --write`\n\n"
        (RECORDS / "prediction.md").write_text(heading + text, encoding="utf-8")


if __name__ == "__main__":
    main()
