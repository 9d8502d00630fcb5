"""``kill -9`` at random moments of the smoke run, each followed by a rerun: nothing but time may be lost.

    python reproduction/benchmarks/kill.py [--kills 50] [--seed 0] [--write]

Every run is the command ``bdkn-paper run`` in a process of its own, by turns without and with worker processes, on a
fresh store. The moment is drawn so that it falls while cells run, not while Python starts: after a random number of
records, and up to 30 ms, which is longer than a cell takes.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bdkn.environment import describe_machine
from bdkn_paper.store import records

ROOT = Path(__file__).parents[1]
SMOKE = ROOT / "experiments" / "smoke.toml"


def start(store: Path, jobs: int) -> subprocess.Popen[bytes]:
    """Start the smoke run."""
    command = [sys.executable, "-m", "bdkn_paper", "run", SMOKE, "--store", store, "--jobs", str(jobs), "--quiet"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def finish(store: Path, jobs: int) -> list[Any]:
    """Run to the end and return what the table is made of."""
    if start(store, jobs).wait() != 0:
        sys.exit(f"the run on {store} failed")
    return table(store)


def table(store: Path) -> list[Any]:
    """Return the records without what depends on when and where they were made."""
    return [[one["cell"], one["status"], one.get("metrics"), one.get("model")] for one in records(store)]


def count(store: Path) -> int:
    """Return how many records there are."""
    return len(list(store.glob("??/*.json")))


def kill_one(store: Path, jobs: int, chance: random.Random, cells: int) -> int:
    """Start a run, kill it, and return how many cells it had done."""
    run, enough = start(store, jobs), chance.randrange(cells)
    while run.poll() is None and count(store) < enough:
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.03))
    run.kill()
    run.wait()
    return count(store)


def main() -> None:
    """Kill, rerun, compare, print the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="keep the verdict in reproduction/results/kill.json")
    options = parser.parse_args()
    chance, done = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as folder:
        expected, same = finish(Path(folder) / "whole", jobs=1), 0
        for number in range(options.kills):
            store, jobs = Path(folder) / str(number), 1 + number % 2
            done.append(kill_one(store, jobs, chance, len(expected)))
            same += finish(store, jobs) == expected
            print(f"kill {number + 1}: {done[-1]} of {len(expected)} cells done, {same} tables the same", flush=True)
    verdict = {"machine": describe_machine(), "kills": options.kills, "cells_done": done, "identical": same}
    print(f"{same} of {options.kills} final tables are identical to the uninterrupted run's")
    if options.write:
        (ROOT / "results" / "kill.json").write_text(json.dumps(verdict) + "\n")
    sys.exit(same != options.kills)


if __name__ == "__main__":
    main()
