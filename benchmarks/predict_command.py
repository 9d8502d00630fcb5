"""Measure `bdkn predict` on tables of 20 numeric columns, and how long `bdkn --help` takes.

    python benchmarks/predict_command.py [--write] [--rows 100000 1000000 10000000] [--models small fast default]

Each command runs in a process of its own. Its wall time, its CPU time (of all threads) and its peak memory are those
that the system reports when it ends. Rows per second are of the difference between two sizes, so that starting Python,
importing libraries and loading the model are not part of them; the rate by CPU time is that of one core, and does not
depend on other work on the machine. Predictions are Student-t distributions, without support flags. Models differ in
size: "small" has 2 members with 16 hidden units, "fast" and "default" are what ``effort`` means; all are hardly
trained, as the quality of the fit does not matter. ``--write`` writes benchmarks/records/predict_command.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

import bdkn
from bdkn.environment import describe_machine
from bdkn.table_files import writing

RECORDS = Path(__file__).parent / "records"
COLUMNS = [f"x{j}" for j in range(20)]
BLOCK = 100_000
MODELS = {
    "small": {"effort": "fast", "n_members": 2, "hidden_layer_sizes": (16,), "n_bins": 0},
    "fast": {"effort": "fast"},
    "default": {},
}


@dataclass(frozen=True)
class Ran:
    """What a process took: seconds by the clock and of the processor, and its peak memory in MB."""

    wall: float
    cpu: float
    memory: float


@dataclass(frozen=True)
class Measured:
    """One command: the model, the kind of file, the number of rows, and what it took."""

    model: str
    kind: str
    rows: int
    ran: Ran


def run(words: Sequence[str]) -> Ran:
    """Run a command of Python and return what it took."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    with process.stderr as stream:
        text = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # the process is not waited for again
    if status:
        raise RuntimeError(text.decode())
    return Ran(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def write_rows(path: Path, rows: int) -> None:
    """Write a table of random numbers, in blocks."""
    with writing(path) as file:
        for start in range(0, rows, BLOCK):
            numbers = np.random.default_rng(start).normal(size=(len(COLUMNS), min(BLOCK, rows - start)))
            file.write(pa.table(list(numbers), names=COLUMNS))


def fit_models(folder: Path, names: Sequence[str]) -> None:
    """Fit and save the models."""
    X = np.random.default_rng(0).normal(size=(2000, len(COLUMNS)))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.3 * np.random.default_rng(1).normal(size=len(X))
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = bdkn.BDKNRegressor(**MODELS[name], epochs=3, density="student-t", random_state=0)
            model.fit(pd.DataFrame(X, columns=COLUMNS), y).save(folder / f"{name}.bdkn")


def measure(folder: Path, model: str, kind: str, rows: int) -> Measured:
    """Predict a table file; it is written first, and deleted afterwards."""
    data, out = folder / f"rows.{kind}", folder / f"predicted.{kind}"
    write_rows(data, rows)
    words = ["-m", "bdkn", "predict", str(folder / f"{model}.bdkn"), str(data), "--out", str(out), "--no-support"]
    found = Measured(model, kind, rows, run([*words, "--density", "student-t"]))
    data.unlink()
    out.unlink()
    print(found, flush=True)
    return found


def help_seconds(rounds: int = 5) -> dict[str, float]:
    """Return the shortest times of `bdkn --help`."""
    runs = [run(["-m", "bdkn", "--help"]) for _ in range(rounds)]
    return {"wall": min(ran.wall for ran in runs), "cpu": min(ran.cpu for ran in runs)}


def table(machine: str, measured: Sequence[Measured], shown: dict[str, float]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# The command line: predictions per second, memory, and help",
        "",
        "`python benchmarks/predict_command.py --write`",
        "",
        f"Machine: {machine}",
        "",
        f"`bdkn --help`: {shown['wall']:.2f} s by the clock, {shown['cpu']:.2f} s of the processor (best of 5).",
        "",
        "`bdkn predict --density student-t --no-support`, 20 numeric columns; rows per second of those beyond the line "
        "above, so that starting the process is not part of it. CPU time is that of all threads; where it is "
        "less than the clock, the machine was busy with other work.",
        "",
        "The aim is 300,000 rows per second on two idle cores, 150,000 per CPU second. Networks set the limit: those "
        "of the default model have 333,000 weights, of effort 'fast' 114,000, of the small one 3,700. One "
        "multiplication per weight and row takes 8.0, 2.7 and 0.1 µs at the rate of BLAS on one of these cores "
        "(83 GFLOP/s), so with dense products the default model cannot exceed 125,000 rows per CPU second; its "
        "networks alone take 12 µs.",
        "",
        "| model | file | rows | clock, s | CPU, s | rows per second | rows per CPU second | peak memory, MB |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    before: Measured | None = None
    for now in measured:
        same = before is not None and (before.model, before.kind) == (now.model, now.kind)
        rates = _rates(before, now) if same and before is not None else ("", "")
        numbers = f"{now.ran.wall:.1f} | {now.ran.cpu:.1f} | {rates[0]} | {rates[1]} | {now.ran.memory:.0f}"
        lines.append(f"| {now.model} | {now.kind} | {now.rows:,} | {numbers} |")
        before = now
    return "\n".join(lines) + "\n"


def _rates(before: Measured, now: Measured) -> tuple[str, str]:
    more = now.rows - before.rows
    wall, cpu = now.ran.wall - before.ran.wall, now.ran.cpu - before.ran.cpu
    return f"{more / wall:,.0f}" if wall > 0.0 else "", f"{more / cpu:,.0f}"


def main() -> None:
    """Measure, print, and write if asked to."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true")
    options.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    options.add_argument("--long", type=int, help="rows of one more table, for the smallest model and Parquet")
    options.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options.add_argument("--kinds", nargs="+", choices=["parquet", "csv"], default=["parquet", "csv"])
    given = options.parse_args()
    assert all(few < many for few, many in pairwise(given.rows)), "numbers of rows must grow"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit_models(folder, given.models)
        measured = []
        for model in given.models:
            for kind in given.kinds:
                long = [given.long] if given.long and model == given.models[0] and kind == given.kinds[0] else []
                measured += [measure(folder, model, kind, rows) for rows in (*given.rows, *long)]
        shown, machine = help_seconds(), describe_machine()
    text = table(machine, measured, shown)
    print(text)
    if given.write:
        record = {"machine": machine, "help": shown, "predict": [asdict(one) for one in measured]}
        (RECORDS / "predict_command.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        (RECORDS / "predict_command.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
