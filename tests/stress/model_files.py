"""Model files that were changed on purpose, with a correct checksum: does a damaged file ever load, crash or hang?

    python tests/stress/model_files.py --write --jobs 16            # 10^6 changes
    python tests/stress/model_files.py --scale 0.01                 # 10^4
    python tests/stress/model_files.py --show 1234567               # what one change was, and what came of it
    python tests/stress/model_files.py --write --folder F --minutes 0     # the record of what was done in a folder

Each trial takes the file of a small fitted model, changes one to three things in it (shapes, types, values, names,
fields, places of arrays, the JSON text, the header) and writes the checksum anew. Then the file must be refused by a
``ModelFileError``, load to a model with the predictions of the unchanged file, or to another one that predicts the
same finite numbers each time it is loaded. The trials run in other
processes, so that a crash is seen as one. A run that is stopped continues where it was, if it is given the same folder.
The number of a trial is its seed: with another ``--first``, all trials are new ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from _model_file_trials import Trials, describe, make_files
from record import Found, arguments, recording

CHUNK = 10_000
"""Trials of one process before it reports; they are repeated if a run is stopped."""

HANGS = 300.0
"""Seconds without a trial after which a process hangs."""

FOUND = [
    Found(
        "a posterior whose root has another shape than its mean crashed the interpreter in compiled code",
        "every class in a file has a schema of names, types, shapes and ranges, checked before an object is made; and "
        "the functions in front of compiled code check shapes",
    ),
    Found(
        "damaged files raised AttributeError, TypeError, JSONDecodeError, RecursionError from load",
        "all that is read is checked, and load raises ModelFileError only",
    ),
    Found(
        "a few kB that declare layers of 30000 x 30000 occupied load for 16 s",
        "declared sizes must be those of the arrays in the file before anything of that size is made",
    ),
    Found(
        "a forest in a file could have children that lead back to their parents, or rows that are not there",
        "children must follow their node inside of their tree, for files and in front of the compiled code",
    ),
    Found(
        "a model written over a private file was readable for everyone; a link or a device was replaced by the model",
        "a file keeps its mode, links are followed, and what is no file is refused",
    ),
    Found(
        "a file whose targets nearest to a bound were infinite, on the wrong side, gave infinite ends of intervals",
        "the targets nearest to the lower bound are below infinity, those nearest to the upper one above -infinity",
    ),
    Found(
        "files with next to no degrees of freedom gave intervals that are no numbers: quantiles of the Student-t below "
        "0.006 degrees of freedom were those of another level, or no numbers, and its distribution function and "
        "density were 0 where the square of a number overflows",
        "all three are computed from logarithms there, as compared with many digits",
    ),
    Found(
        "files with extreme bandwidths or scales of neighbours gave means that are no numbers, as mixtures keep "
        "distances in single precision",
        "mixtures check their components; predictions too far from the targets for single precision are refused",
    ),
    Found(
        "saves that were killed left hidden files for ever",
        "each save removes those whose writer no longer lives, which a lock tells",
    ),
]


@dataclass(frozen=True)
class Chunk:
    """What came of some trials, and the seconds that they took."""

    outcomes: dict[str, int]
    seconds: float


def finished(folder: Path, first: int) -> Chunk | None:
    """Return the chunk that begins with a trial, if it was run."""
    path = _chunk_path(folder, first)
    return Chunk(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _chunk_path(folder: Path, first: int) -> Path:
    return folder / f"chunk-{first:012d}.json"


def run_chunk(folder: Path, first: int, count: int) -> Chunk:
    """Return the outcomes of the trials of a chunk, run in another process; start again behind a crash."""
    outcomes: Counter[str] = Counter()
    done, started = first, time.perf_counter()
    while done < first + count:
        done, part = _run_process(folder, folder / f"at-{first:012d}", done, first + count)
        outcomes.update(part)
    chunk, path = Chunk(dict(outcomes), time.perf_counter() - started), _chunk_path(folder, first)
    path.with_suffix(".new").write_text(json.dumps(asdict(chunk)), encoding="utf-8")
    path.with_suffix(".new").rename(path)
    return chunk


def _run_process(folder: Path, place: Path, first: int, stop: int) -> tuple[int, Counter[str]]:
    """Run trials in another process; return the number of the next one, and outcomes."""
    command = [sys.executable, __file__, "--worker", str(folder), str(place), str(first), str(stop)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    place.write_text(json.dumps([first, {}]), encoding="utf-8")
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            time.sleep(0.5)
            if time.time() - place.stat().st_mtime > HANGS:
                process.kill()
        errors = (process.stderr.read() if process.stderr else b"").decode(errors="replace")
    at, found = json.loads(place.read_text(encoding="utf-8"))
    outcomes = Counter(found)
    if process.returncode == 0:
        place.unlink()
        return stop, outcomes
    if process.returncode > 0:
        raise SystemExit(f"a process failed in trial {at}:\n{errors[-2000:]}")
    outcomes[f"WRONG killed by signal {-process.returncode} in trial {at}"] += 1
    return at + 1, outcomes


def work(folder: Path, place: Path, first: int, stop: int) -> None:
    """Run trials from ``first`` to ``stop``, and note at which one it is."""
    trials, outcomes = Trials(folder), Counter[str]()
    with open(place, "r+b", buffering=0) as file:
        for number in range(first, stop):
            note = json.dumps([number, outcomes]).encode()
            os.pwrite(file.fileno(), note + b" " * max(0, 4096 - len(note)), 0)
            outcomes[trials.outcome(number)] += 1
        os.pwrite(file.fileno(), json.dumps([stop, outcomes]).encode().ljust(4096), 0)


def main() -> None:
    """Run the trials in parts, and add up what came of them."""
    if sys.argv[1:2] == ["--worker"]:
        work(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        return
    parser = arguments(__doc__ or "")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once (default: all cores)")
    parser.add_argument("--folder", type=Path, help="folder of the files and of what is done (default: a new one)")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial (default 0)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further trials after that time")
    parser.add_argument("--show", type=int, help="show one trial, in this process")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="bdkn-model-files-"))
    folder.mkdir(parents=True, exist_ok=True)
    make_files(folder)
    if given.show is not None:
        print(describe(folder, given.show))
        return
    title, command = "Model files", "python tests/stress/model_files.py"
    with recording("model_files", title, command, FOUND, write=given.write) as record:
        outcomes, record.seconds = run_trials(folder, given)
        add_figures(record, outcomes)


def run_trials(folder: Path, given: argparse.Namespace) -> tuple[Counter[str], float]:
    """Run the trials that were not run before, as long as there is time; return all outcomes, and former seconds."""
    stop = time.monotonic() + 60 * given.minutes
    total, outcomes, seconds = int(1_000_000 * given.scale), Counter[str](), 0.0

    def one(start: int) -> tuple[Chunk | None, bool]:
        found = finished(folder, given.first + start)
        if found is not None or time.monotonic() >= stop:
            return found, True
        return run_chunk(folder, given.first + start, min(CHUNK, total - start)), False

    with ThreadPoolExecutor(given.jobs) as pool:
        for chunk, is_former in pool.map(one, range(0, total, CHUNK)):
            if chunk is not None:
                outcomes.update(chunk.outcomes)
                seconds += chunk.seconds if is_former else 0.0
                print(f"{sum(outcomes.values())} of {total}: {summary(outcomes)}", flush=True)
    return outcomes, seconds


def summary(outcomes: Counter[str]) -> str:
    """Return the outcomes in one line."""
    kinds: Counter[str] = Counter()
    for name, count in outcomes.items():
        kinds[name.partition(":")[0].partition(" in trial")[0]] += count
    return ", ".join(f"{name} {count}" for name, count in kinds.most_common(12))


def add_figures(record, outcomes: Counter[str]) -> None:  # type: ignore[no-untyped-def]
    """Add a line for each kind of change."""
    by_kind: dict[str, Counter[str]] = {}
    for name, count in outcomes.items():
        what, _, kind = name.partition(":")
        by_kind.setdefault(kind or "any", Counter())[what] += count
    for kind, found in sorted(by_kind.items()):
        wrong = sum(count for what, count in found.items() if what.startswith("WRONG"))
        faults = [what for what in found if what.startswith("WRONG")][:5]
        fine = {what: count for what, count in found.items() if not what.startswith("WRONG")}
        remark = ", ".join([*faults, *(f"{what}: {count}" for what, count in sorted(fine.items()))])
        record.add(f"changed {kind}", sum(found.values()), wrong, remark)


if __name__ == "__main__":
    main()
