"""Run the tests again and again in random order, on an idle and on a busy machine, and count tests that fail.

    python tests/stress/repeats.py --write
    python tests/stress/repeats.py --jobs 14 --scale 0.25
    python tests/stress/repeats.py --select "tests/inference tests/metrics -k 'not memory'"

Modules are run in random order, and tests in random order within their module, so that tests that share a fit still do.
Each run has a number, from which its order follows: ``--first 7 --scale 0.05`` repeats run 7 alone. Sets of texts have
another order in each run, too. "Busy" means that three processes per core do nothing but compute, beside the tests:
four processes share each core.

The module is a plugin of pytest at the same time, which makes the order and writes what failed.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RUNS = 20
BUSY = 3
"""Processes beside the tests, for each core."""

TITLE = "Repeats: the tests themselves, in random order"

FOUND = (
    (
        "A test imported a table from a module named conftest: which of several modules of this name it got depended "
        "on the order of folders.",
        "The table has a module of its own.",
    ),
    (
        "The interrupt of a command, one of ten times, ended Python by the signal instead of the exit code 130.",
        "Commands raise an interrupt of their own class, which Python does not act upon.",
    ),
    (
        "The coverage of intervals that hold all targets was 1.0000000000000002 for some numbers of rows.",
        "It is 1.",
    ),
    (
        "By reading: Hypothesis ends a test whose examples are made too slowly, which a busy machine does.",
        "This check is off; the examples of a run are the same each time.",
    ),
)
"""What earlier runs found, and how it was mended."""


@dataclass
class Outcome:
    """How many tests ran, and how often each of them failed."""

    tests: int = 0
    runs: int = 0
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, tests: int, failed: list[str]) -> None:
        """Count one run."""
        self.tests, self.runs = self.tests + tests, self.runs + 1
        self.failed.update(failed)

    def remark(self) -> str:
        """Return the names of tests that failed."""
        names = [f"{name} in {count} of {self.runs}" for name, count in self.failed.most_common(8)]
        return "; ".join([f"{self.runs} runs", *names])


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Shuffle modules, and the tests within each of them."""
    seed = os.environ.get("BDKN_SHUFFLE")
    if seed is not None:
        chance = random.Random(int(seed))
        modules = [list(tests) for _, tests in groupby(items, key=lambda item: item.nodeid.partition("::")[0])]
        chance.shuffle(modules)
        for tests in modules:
            chance.shuffle(tests)
        items[:] = [item for tests in modules for item in tests]


def pytest_sessionfinish(session: Any) -> None:
    """Write the number of tests and the names of those that failed, once for all processes."""
    path = os.environ.get("BDKN_OUTCOME")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if path and reporter is not None and not hasattr(session.config, "workerinput"):
        failed = [report.nodeid for kind in ("failed", "error") for report in reporter.stats.get(kind, [])]
        passed = sum(len(reporter.stats.get(kind, [])) for kind in ("passed", "xfailed"))
        Path(path).write_text(json.dumps({"tests": passed + len(failed), "failed": failed}), "utf-8")


@contextmanager
def busy_machine(processes: int) -> Iterator[None]:
    """Let so many processes compute meanwhile."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def run_once(seed: int, words: list[str], jobs: int, minutes: float) -> tuple[int, list[str]]:
    """Run the tests once; return how many ran, and those that failed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcome.json"
        own = {"BDKN_SHUFFLE": str(seed), "BDKN_OUTCOME": str(path), "PYTHONHASHSEED": str(seed)}
        folders = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ, **own, "PYTHONPATH": folders}
        parallel = ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else []
        command = [sys.executable, "-m", "pytest", "-q", "-p", "repeats", "-p", "no:cacheprovider", *parallel, *words]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60 * minutes
            )
        except subprocess.TimeoutExpired:
            return 1, [f"run {seed} did not end within {minutes:g} minutes"]
        if not path.exists() or done.returncode not in (0, 1):
            return 1, [f"run {seed} ended with status {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"]
        outcome = json.loads(path.read_text("utf-8"))
    if outcome["failed"]:
        print(done.stdout[-4000:], flush=True)
    return outcome["tests"], outcome["failed"]


def repeat(seeds: range, words: list[str], *, jobs: int = 1, beside: int = 0, minutes: float = 120.0) -> Outcome:
    """Run the tests once for each seed, with so many busy processes beside them."""
    outcome = Outcome()
    for seed in seeds:
        with busy_machine(beside):
            tests, failed = run_once(seed, words, jobs, minutes)
        outcome.add(tests, failed)
        print(f"run {seed}: {tests} tests, {len(failed)} failed", flush=True)
    return outcome


def main() -> None:
    """Repeat the tests and write how many failed."""
    from record import Found, arguments, recording

    parser = arguments(__doc__ or "")
    parser.add_argument("--select", default="", help="paths and options for pytest (default: all tests)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes of pytest-xdist (default: cores)"
    )
    parser.add_argument("--first", type=int, default=1, help="number of the first run (default 1)")
    parser.add_argument("--minutes", type=float, default=120.0, help="after so many, a run has failed (default 120)")
    parser.add_argument("--not-busy", action="store_true", help="leave out the runs on a busy machine")
    given = parser.parse_args()
    seeds = range(given.first, given.first + max(1, round(RUNS * given.scale)))
    words, cores = shlex.split(given.select), os.cpu_count() or 1
    command = "python tests/stress/repeats.py" + (f' --select "{given.select}"' if given.select else "")
    with recording("repeats", TITLE, command, [Found(*one) for one in FOUND], write=given.write) as record:
        busy = [] if given.not_busy else [("random order, four processes on each core", BUSY * cores)]
        for what, beside in [("random order", 0), *busy]:
            outcome = repeat(seeds, words, jobs=given.jobs, beside=beside, minutes=given.minutes)
            record.add(f"Tests in {what}", outcome.tests, outcome.failed.total(), outcome.remark())


if __name__ == "__main__":
    main()
