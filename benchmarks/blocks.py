"""Measure fits to rows in blocks: time, memory, and quality beside an in-memory fit and LightGBM's quantiles.

    python benchmarks/blocks.py [--parts fits,aggregation,rivals] [--sizes 1e5,1e6,1e7] [--jobs 2] [--write]

fits: Parquet files of 20 columns are written to a temporary folder, and ``BDKNRegressor().fit(ParquetRows(...))`` runs
in a process of its own, whose largest memory is recorded. Scores are on 200 000 new rows. rivals:
an in-memory fit on a tenth of the largest table's rows, and LightGBM with one model per quantile, if it is installed.
aggregation: statistics of 10⁵ to 10⁸ rows of 10 members, read from a file that the system has forgotten, beside the
bandwidth of the disk, measured the same way by as many processes, and of memory. Each measurement is written to
benchmarks/records/blocks.json when it is made, with the picture and the page; a later run goes on with what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bdkn.environment import describe_machine

RECORDS = Path(__file__).parent / "records"
COLUMNS, NEW_ROWS, FILE_ROWS = 20, 200_000, 1_000_000
LEVELS = np.arange(1, 20) / 20


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of 20 columns and targets: smooth and stepped effects, an interaction, noise with wide tails."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COLUMNS)).astype(np.float32)
    X[:, 5:10] = rng.uniform(-1, 1, size=(n, 5))
    X[:, 10:12] = rng.integers(0, 8, size=(n, 2))
    mean = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * (X[:, 10] > 3) + np.abs(X[:, 5]) * X[:, 11] / 4
    noise = 0.2 + 0.3 / (1 + np.exp(-2 * X[:, 3]))
    return X, (mean + noise * rng.standard_t(6, size=n)).astype(np.float64)


def write_parquet(folder: Path, n: int) -> None:
    """Write n rows to Parquet files of at most a million rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, start in enumerate(range(0, n, FILE_ROWS)):
        X, y = rows(min(FILE_ROWS, n - start), seed=1000 + number)
        columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
        pq.write_table(pa.table({**columns, "y": y}), folder / f"part-{number:04d}.parquet", row_group_size=2**17)


def scores(predict: Any) -> dict[str, float]:
    """Return RMSE, NLL, pinball loss and coverage of 90 % intervals on new rows."""
    X, y = rows(NEW_ROWS, seed=7)
    return dict(predict(X, y))


def scores_of_model(model: Any, as_table: Any) -> dict[str, float]:
    """Return the scores of a fitted regressor of this library."""

    def predict(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
        dist = model.predict_dist(as_table(X))
        low, high = dist.interval(0.9)
        return {
            "rmse": float(np.sqrt(np.mean((dist.mean() - y) ** 2))),
            "nll": float(-dist.logpdf(y).mean()),
            "pinball": _pinball(np.column_stack([dist.ppf(level) for level in LEVELS]), y),
            "coverage_90": float(np.mean((low <= y) & (y <= high))),
        }

    return scores(predict)


def _pinball(quantiles: np.ndarray, y: np.ndarray) -> float:
    apart = y[:, None] - quantiles
    return float(np.maximum(LEVELS * apart, (LEVELS - 1) * apart).mean())


def frame(X: np.ndarray) -> Any:
    """Return rows as the data frame that the Parquet files hold."""
    import pandas as pd

    return pd.DataFrame({f"x{j}": X[:, j] for j in range(COLUMNS)})


def fit_blocks(folder: str, jobs: int) -> dict[str, Any]:
    """Fit to the Parquet files of a folder; return times, memory and scores. Runs in a process of its own."""
    from bdkn import BDKNRegressor, ParquetRows
    from bdkn.stages import StageTimer, observe_stages

    timer = StageTimer()
    began, cpu = time.perf_counter(), time.process_time()
    with observe_stages(timer):
        model = BDKNRegressor(random_state=0, n_jobs=jobs).fit(ParquetRows(folder, "y"))
    taken = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    return {
        **taken,
        "peak_mb": _peak_memory(),
        "stages": dict(timer.seconds),
        **scores_of_model(model, frame),
        "load": os.getloadavg(),
    }


def fit_in_memory(n: int, jobs: int) -> dict[str, Any]:
    """Fit to n rows in memory; return times and scores."""
    from bdkn import BDKNRegressor

    X, y = rows(n, seed=1000)
    began, cpu = time.perf_counter(), time.process_time()
    model = BDKNRegressor(random_state=0, n_jobs=jobs).fit(frame(X), y)
    taken = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    return {**taken, **scores_of_model(model, frame)}


def fit_lightgbm(n: int, jobs: int) -> dict[str, Any]:
    """Fit LightGBM, one model per quantile and one for the mean; return times and scores, without an NLL."""
    import lightgbm

    X, y = (np.concatenate(parts) for parts in zip(*_million_at_a_time(n), strict=True))
    began, cpu = time.perf_counter(), time.process_time()
    common = {"n_estimators": 500, "n_jobs": jobs, "verbose": -1}
    levels = (0.05, 0.5, 0.95)
    models = [lightgbm.LGBMRegressor(objective="quantile", alpha=a, **common).fit(X, y) for a in levels]
    mean = lightgbm.LGBMRegressor(**common).fit(X, y)
    taken = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}

    def predict(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
        low, _, high = (model.predict(X) for model in models)
        rmse = float(np.sqrt(np.mean((mean.predict(X) - y) ** 2)))
        return {"rmse": rmse, "coverage_90": float(np.mean((low <= y) & (y <= high)))}

    return {**taken, **scores(predict)}


def _million_at_a_time(n: int) -> Any:
    return (rows(min(FILE_ROWS, n - start), seed=1000 + i) for i, start in enumerate(range(0, n, FILE_ROWS)))


def aggregate(n: int, H: int, jobs: int, folder: Path) -> dict[str, Any]:
    """Compute the statistics of member outputs in a file, by processes; beside the bandwidths of the machine."""
    from functools import reduce

    from joblib import Parallel, delayed

    path, targets = folder / "members.f4", folder / "targets.f8"
    rng = np.random.default_rng(0)
    with path.open("wb") as file, targets.open("wb") as other:
        for start in range(0, n, FILE_ROWS):
            k = min(FILE_ROWS, n - start)
            truth = rng.normal(size=(k, 1)).astype(np.float32)
            (truth + 0.1 * rng.standard_normal(size=(k, H), dtype=np.float32)).tofile(file)
            (truth[:, 0].astype(np.float64) + 0.2 * rng.normal(size=k)).tofile(other)
    nbytes = path.stat().st_size + targets.stat().st_size
    parts = np.linspace(0, n, jobs + 1).astype(int)
    with Parallel(n_jobs=jobs) as parallel:
        parallel(delayed(_part)(path, targets, 0, 1000, H) for _ in range(jobs))  # processes start
        times: list[tuple[float, float]] = []
        for _ in range(3):
            _forget(path, targets)
            began = time.perf_counter()
            sizes = parallel(delayed(_read)(path, 4 * H * a, 4 * H * b) for a, b in pairwise(parts))
            read = time.perf_counter() - began
            _forget(path, targets)
            began = time.perf_counter()
            found = parallel(delayed(_part)(path, targets, a, b, H) for a, b in pairwise(parts))
            stats = reduce(lambda one, more: one + more, found)
            times.append((read, time.perf_counter() - began))
    disk, taken = sum(sizes) / min(read for read, _ in times), min(one for _, one in times)
    array = np.ones(50_000_000)
    began = time.perf_counter()
    array.sum()
    memory = array.nbytes / (time.perf_counter() - began)
    rate = nbytes / taken
    return {
        "n": stats.n,
        "seconds": taken,
        "all_seconds": [one for _, one in times],
        "gb_per_s": rate / 1e9,
        "of_disk": rate / disk,
        "of_memory": rate / memory,
        "load": os.getloadavg(),
    }


def _part(path: Path, targets: Path, start: int, stop: int, H: int) -> Any:
    from bdkn.inference import Statistics

    step = 2**18
    with path.open("rb") as file, targets.open("rb") as other:
        file.seek(4 * H * start)
        other.seek(8 * start)

        def chunks() -> Any:
            for first in range(start, stop, step):
                k = min(step, stop - first)
                yield np.fromfile(file, np.float32, k * H).reshape(k, H), np.fromfile(other, np.float64, k)

        return Statistics.from_chunks(chunks())


def _forget(*paths: Path) -> None:
    """Let the system forget what it keeps in memory of files."""
    for path in paths:
        with path.open("rb") as file:
            if hasattr(os, "posix_fadvise"):
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(path: Path, start: int, stop: int) -> int:
    """Read a part of a file; return its size."""
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        room, left = bytearray(2**22), stop - start
        while left > 0 and (n := file.readinto(memoryview(room)[: min(left, len(room))])):
            left -= n
    return stop - start


def _peak_memory() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    import resource

    status = Path("/proc/self/status")
    if status.exists():  # what the parent had before this program began is not in it
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        return int(lines["VmHWM"].split()[0]) * 1.024e-3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


class Record:
    """Measurements by name, written when they are made."""

    def __init__(self, *, write: bool) -> None:
        self._path, self._write = RECORDS / "blocks.json", write
        known = json.loads(self._path.read_text(encoding="utf-8")) if write and self._path.exists() else {}
        self.found: dict[str, Any] = {"machine": describe_machine(), **known}

    def measure(self, name: str, work: Any) -> None:
        """Make a measurement unless it is there already."""
        if name in self.found:
            return
        self.found[name] = work()
        print(name, json.dumps(self.found[name]), flush=True)
        if self._write:
            self._path.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
            draw(self.found)
            (RECORDS / "blocks.md").write_text(page(self.found), encoding="utf-8")


def sized(found: dict[str, Any], kind: str) -> list[tuple[float, dict[str, Any]]]:
    """Return the measurements of a kind with their numbers of rows."""
    return sorted(
        ((float(name.rsplit(" ", 1)[1]), part) for name, part in found.items() if name.startswith(kind)),
        key=lambda pair: pair[0],
    )


def draw(found: dict[str, Any]) -> None:
    """Draw the times of fits and of aggregation against the number of rows."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    fits, sums = sized(found, "blocks "), sized(found, "aggregation ")
    n = [size for size, _ in fits]
    left.loglog(n, [part["cpu_seconds"] for _, part in fits], "o-", label="all, CPU seconds")
    for stage in ("train", "write chunks", "sample", "predict held-out rows"):
        left.loglog(n, [part["stages"].get(stage, np.nan) for _, part in fits], ".-", label=stage, alpha=0.7)
    left.set(xlabel="rows of 20 columns", ylabel="seconds", title="Fits to rows in blocks")
    left.legend()
    n = [size for size, _ in sums]
    right.loglog(n, [part["seconds"] for _, part in sums], "o-", label="statistics of 10 members")
    if sums:
        size, part = sums[-1]
        right.loglog(n, [part["seconds"] * m / size for m in n], ":", color="gray", label="linear in the rows")
    right.set(xlabel="rows", ylabel="seconds", title="Aggregation from a file")
    right.legend()
    figure.savefig(RECORDS / "blocks.svg")
    plt.close(figure)


def page(found: dict[str, Any]) -> str:
    """Return all measurements as Markdown."""
    lines = ["# Rows in blocks", "", "`python benchmarks/blocks.py --write`", "", f"Machine: {found['machine']}.", ""]
    lines += ["![Seconds against rows](blocks.svg)", ""]
    lines += ["| fit | seconds | CPU seconds | peak MB | RMSE | NLL | pinball loss | coverage of 90 % | load |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for kind, words in (
        ("blocks ", "blocks"),
        ("in memory ", "in memory"),
        ("lightgbm ", "LightGBM, 4 models, in memory"),
    ):
        for size, part in sized(found, kind):
            names = ("seconds", "cpu_seconds", "peak_mb", "rmse", "nll", "pinball", "coverage_90")
            shown = [_shown(part.get(name), 0 if i < 3 else 4) for i, name in enumerate(names)]
            load = f"{part['load'][1]:.1f}" if "load" in part else ""
            lines.append(f"| {words}, {size:,.0f} rows | {' | '.join(shown)} | {load} |")
    lines += ["", "Load: processes that were running or waiting, the mean over five minutes at the end.", ""]
    lines += ["| rows aggregated | seconds | GB/s | of the disk | of memory, one core |"]
    lines += ["| --- | ---: | ---: | ---: | ---: |"]
    for size, part in sized(found, "aggregation "):
        shares = f"{part['of_disk']:.0%} | {part['of_memory']:.0%}"
        lines.append(f"| {size:,.0f} x 10 | {part['seconds']:.3f} | {part['gb_per_s']:.2f} | {shares} |")
    return "\n".join(lines) + "\n"


def _shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def fit_in_process(n: int, jobs: int) -> dict[str, Any]:
    """Fit to n rows of Parquet in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(Path(folder), n)
        command = [sys.executable, __file__, "--child", folder, "--jobs", str(jobs)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="fits,rivals,aggregation")
    parser.add_argument("--sizes", default="1e5,1e6,1e7")
    parser.add_argument("--aggregated", default="1e5,1e6,1e7,1e8")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--child")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.child:
        print(json.dumps(fit_blocks(given.child, given.jobs)))
        return
    record, parts = Record(write=given.write), given.parts.split(",")
    sizes = [int(float(size)) for size in given.sizes.split(",")]
    if "fits" in parts:
        for n in sizes:
            record.measure(f"blocks {n:.0e}", lambda n=n: fit_in_process(n, given.jobs))
    if "rivals" in parts:
        tenth = max(sizes) // 10
        record.measure(f"in memory {tenth:.0e}", lambda: fit_in_memory(tenth, given.jobs))
        record.measure(f"lightgbm {max(sizes):.0e}", lambda: fit_lightgbm(max(sizes), given.jobs))
    if "aggregation" in parts:
        for n in (int(float(size)) for size in given.aggregated.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                record.measure(f"aggregation {n:.0e}", lambda n=n, at=Path(folder): aggregate(n, 10, given.jobs, at))


if __name__ == "__main__":
    main()
