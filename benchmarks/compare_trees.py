"""Compare the speed of two source trees: training, fits of the default, and predictions, in alternating processes.

    BDKN_DATA=folder python benchmarks/compare_trees.py OLD/src NEW/src [--rounds 5] [--blocks 2] [--write]

Only the public interface is used, so that both trees can run it. Every round starts one process per tree; within a
process each work is timed several times and the least CPU time of all threads counts. The table has the ratio new/old
of each round: the median, the lowest and the highest. ``--write`` writes it to benchmarks/records/compare_trees.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import blocks
from bdkn.environment import describe_machine

RECORDS = Path(__file__).parent / "records"

MEASURE = """
import json, os, time
import numpy as np
import bdkn

def table(name):
    path = os.path.join(os.environ["BDKN_DATA"], f"{name}.csv.gz")
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    return rows[:, :-1], rows[:, -1]

def least(work, times):
    found = []
    for _ in range(times):
        began, wall = time.process_time(), time.perf_counter()
        work()
        found.append((time.process_time() - began, time.perf_counter() - wall))
    return min(found)

small, large = table("boston"), table("kin8nm")
five = dict(n_members=5, hidden_layer_sizes=(50, 50), activation="relu", weight_decay=0.0, random_state=0)
bdkn.BDKNRegressor(n_members=2, epochs=1).fit(*small)  # compiles, or loads from disk
model = bdkn.BDKNRegressor(random_state=0).fit(*small)
many = np.random.default_rng(0).normal(size=(200_000, small[0].shape[1])) * small[0].std(axis=0) + small[0].mean(axis=0)
print(json.dumps({
    "training, 8192 x 8 rows, 5 networks of (50, 50), 20 epochs, one thread": least(
        lambda: bdkn.DeepEnsembleRegressor(**five, epochs=20, n_jobs=1).fit(*large), 3),
    "the same, two threads": least(lambda: bdkn.DeepEnsembleRegressor(**five, epochs=20, n_jobs=2).fit(*large), 3),
    "fit of BDKNRegressor(), Boston": least(lambda: bdkn.BDKNRegressor(random_state=0).fit(*small), 2),
    "fit of BDKNRegressor.from_paper(1), Boston": least(
        lambda: bdkn.BDKNRegressor.from_paper(1, random_state=0).fit(*small), 20),
    "fit of BDKNRegressor(), Kin8nm, a fifth of the epochs": least(
        lambda: bdkn.BDKNRegressor(epochs=42, random_state=0).fit(*large), 1),
    "prediction with std, 1 row (1000 times)": least(
        lambda: [model.predict(small[0][:1], return_std=True) for _ in range(1000)], 5),
    "prediction with std, 1000 rows (20 times)": least(
        lambda: [model.predict(many[:1000], return_std=True) for _ in range(20)], 5),
    "prediction with std, 200 000 rows": least(lambda: model.predict(many, return_std=True), 3),
    "fit of BayesianStackingRegressor(), Boston": least(
        lambda: bdkn.BayesianStackingRegressor(random_state=0, n_jobs=1).fit(*small), 1),
}))
"""

BLOCKS = """
import json, os, time
import bdkn

began, wall = time.process_time(), time.perf_counter()
bdkn.BDKNRegressor(epochs=2, random_state=0, n_jobs=2).fit(bdkn.ParquetRows(os.environ["FOLDER"], "y"))
print(json.dumps({"fit of BDKNRegressor(), 10⁶ x 20 rows of Parquet, 2 epochs": [
    time.process_time() - began, time.perf_counter() - wall]}))
"""


Times = dict[str, list[float]]
"""CPU and wall seconds of each work."""


def measure(program: str, src: Path, folder: str) -> Times:
    """Run a program with the package of a source tree, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(src), "PYTHONWARNINGS": "ignore", "FOLDER": folder}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    found: Times = json.loads(run.stdout)
    return found


def alternate(program: str, old: Path, new: Path, rounds: int, folder: str = "") -> Iterator[list[tuple[Times, Times]]]:
    """Yield the times of both trees after each round; the tree that goes first alternates."""
    made = []
    for number in range(rounds):
        found = {src: measure(program, src, folder) for src in ((old, new) if number % 2 == 0 else (new, old))}
        made.append((found[old], found[new]))
        yield made


def table(rounds: list[tuple[Times, Times]]) -> str:
    """Return the ratios as rows of a table in Markdown."""
    lines = []
    for name in rounds[0][0]:
        old, new = ([one[k][name][0] for one in rounds] for k in (0, 1))
        ratios = [b / a for a, b in zip(old, new, strict=True)]
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        lines.append(f"| {name} | {min(old):.4g} | {min(new):.4g} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=0, metavar="ROUNDS", help="also fit to rows in blocks, so often")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/records/compare_trees.md")
    given = parser.parse_args()
    for src in (given.old, given.new):
        measure(MEASURE, src, "")  # compiles
    text = "| work | old, CPU s | new, CPU s | new / old (lowest to highest) |\n| --- | ---: | ---: | ---: |"
    for rounds in alternate(MEASURE, given.old, given.new, given.rounds):
        print(table(rounds), flush=True)
    text += "\n" + table(rounds)
    if given.blocks:
        with tempfile.TemporaryDirectory() as folder:
            blocks.write_parquet(Path(folder), 1_000_000)
            for rounds in alternate(BLOCKS, given.old, given.new, given.blocks, folder):
                print(table(rounds), flush=True)
        text += "\n" + table(rounds)
    if given.write:
        heading = "# Two source trees compared\n\n`python benchmarks/compare_trees.py OLD/src NEW/src"
        heading += f" --rounds {given.rounds} --blocks {given.blocks} --write`\n\nMachine: {describe_machine()}. "
        heading += f"{given.rounds} rounds of alternating processes, {given.blocks} for rows in blocks.\n\n"
        (RECORDS / "compare_trees.md").write_text(f"{heading}{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
