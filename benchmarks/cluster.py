"""Measure fits on local Dask clusters, and compute from these costs what a large cluster would do.

    python benchmarks/cluster.py [--rows 131072] [--workers 1,2,4] [--repeats 2] [--write]

A table is fitted on clusters of worker processes with one thread each, and on this machine without a cluster, in chunks
that are small enough for many tasks. Recorded are the tasks, the bytes that workers sent to one another and to the
client, the CPU seconds of workers and of the client with the scheduler, clock seconds, and whether predictions have the
bits of the fit without a cluster. From these costs ``benchmarks/cluster_model.py`` computes fits to 10⁹ rows.
``--write`` writes benchmarks/records/cluster.json, benchmarks/records/cluster.md and the picture
benchmarks/records/cluster.svg.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from bdkn import BDKNRegressor, DaskRows
from bdkn.ensemble import cluster as cluster_chunks
from bdkn.ensemble.cluster import PASSES_AT_ONCE
from bdkn.environment import describe_machine
from bdkn.estimators import fitting
from bdkn.stages import observe_stages
from cluster_model import Costs, Fit, predicted
from cluster_page import page, write

RECORDS = Path(__file__).parent / "records"
COLUMNS, MEMBERS, FOLDS, EPOCHS, CHUNK_ROWS, PARTITIONS = 20, 4, 5, 1, 2**14, 16
CLUSTERS = (10, 20, 40, 100, 200, 400)
Record = dict[str, Any]


def part_of_table(number: int, rows: int) -> Any:
    """Return a part of the table as a data frame."""
    import pandas as pd

    rng = np.random.default_rng(number)
    frame = pd.DataFrame(rng.normal(size=(rows, COLUMNS)).astype(np.float32), columns=[f"x{j}" for j in range(COLUMNS)])
    return frame.assign(y=np.sin(2 * frame.x0) + frame.x1 * frame.x2 + 0.3 * rng.normal(size=rows))


def model() -> BDKNRegressor:
    """Return the regressor that is measured."""
    return BDKNRegressor(
        n_members=MEMBERS,
        cv=FOLDS,
        epochs=EPOCHS,
        density="student-t",
        target="identity",
        random_state=0,
        n_jobs=1,
    )


class CpuByStage:
    """Observer that adds up CPU seconds of this process and of workers, and clock seconds, of each stage."""

    def __init__(self, client: Any | None) -> None:
        self.client, self.spent = client, Counter[str]()

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure a stage."""
        begin = self._now()
        yield
        end = self._now()
        workers = [end[key] - begin[key] for key in begin if key not in ("client", "clock")]
        for kind in ("client", "clock"):
            self.spent[f"{name}: {kind}"] += end[kind] - begin[kind]
        if workers:
            self.spent[f"{name}: workers"] += sum(workers)
            self.spent[f"{name}: busiest"] += max(workers)

    def _now(self) -> dict[str, float]:
        workers = {} if self.client is None else self.client.run(time.process_time)
        return {**workers, "client": time.process_time(), "clock": time.perf_counter()}


def sent(dask_worker: Any) -> list[tuple[str, str, int]]:
    """Return to whom a worker has sent what, and how many bytes."""
    return [
        (str(entry["who"]), str(key).split("-")[0].strip("('"), int(size))
        for entry in dask_worker.transfer_outgoing_log
        for key, size in entry["keys"].items()
    ]


def finished_tasks(dask_scheduler: Any) -> dict[str, int]:
    """Return how many tasks of each kind were computed."""
    return {
        name: int(prefix.state_counts["memory"])
        for name, prefix in dask_scheduler.task_prefixes.items()
        if prefix.state_counts["memory"]
    }


def fitted(frame: Any, client: Any | None, new: Any) -> tuple[Record, Any]:
    """Return what a fit took, and its predictions."""
    observer, began = CpuByStage(client), time.perf_counter()
    with observe_stages(observer):
        predictions = model().fit(DaskRows(frame, "y")).predict(new)
    return {"seconds": time.perf_counter() - began, **{k: round(v, 3) for k, v in observer.spent.items()}}, predictions


def task_seconds(client: Any, chains: int = 20, rounds: int = 4) -> float:
    """Return the CPU seconds of client and scheduler for a task that does nothing, in chains as those of training."""
    from bdkn.ensemble.cluster import results_of

    began = time.process_time()
    for _ in range(rounds):
        results_of(client, [chain_of_nothing(PASSES_AT_ONCE) for _ in range(chains)])
    return (time.process_time() - began) / (chains * rounds * PASSES_AT_ONCE)


def chain_of_nothing(n: int) -> Any:
    """Return n tasks, each of which waits for the one before."""
    from dask.delayed import delayed

    last = delayed(bytes)(10)
    for _ in range(n):
        last = delayed(bytes)(last)
    return last


def on_cluster(n_workers: int, divided: bool, frame: Any, new: Any, expected: Any) -> Record:
    """Return the costs of a fit on a local cluster, which has done another one before."""
    cluster_chunks.MIN_MEMBERS_PER_THREAD = inf if divided else 0.0
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        fitted(frame.partitions[:4], client, new)  # modules and compiled code are loaded
        overhead = task_seconds(client)
        before, logged = client.run_on_scheduler(finished_tasks), {k: len(v) for k, v in client.run(sent).items()}
        record, found = fitted(frame, client, new)
        after, addresses = client.run_on_scheduler(finished_tasks), set(client.scheduler_info()["workers"])
        tasks = {name: n - before.get(name, 0) for name, n in after.items() if n > before.get(name, 0)}
        moved: Counter[str] = Counter()
        for worker, entries in client.run(sent).items():
            for who, kind, size in entries[logged[worker] :]:
                moved[f"{'workers' if who in addresses else 'client'}: {kind}"] += size
    return {
        "workers": n_workers,
        "divided": divided,
        **record,
        "task_s": overhead,
        "tasks": tasks,
        "bytes": dict(moved),
        "same bits": bool(np.array_equal(found, expected)),
    }


def costs_of(alone: Record, records: list[Record], rows: int) -> Costs:
    """Return the costs of single things, from the totals of fits."""
    whole, divided = (
        min((one for one in records if one["divided"] is kind), key=lambda one: one["train: workers"])
        for kind in (False, True)
    )
    pass_s = max(0.0, whole["train: workers"] - alone["train: client"]) / whole["tasks"]["after_pass"]
    in_parts = divided["train: workers"] - pass_s * divided["tasks"]["after_pass"]
    return Costs(
        row_s=alone["train: client"] / (rows * MEMBERS * EPOCHS),
        part_s=in_parts / (rows * MEMBERS * FOLDS * EPOCHS),
        pass_s=pass_s,
        task_s=min(one["task_s"] for one in records),
        read_s=whole["write chunks: workers"] / rows,
        summary_s=whole["predict held-out rows: workers"] / rows,
        state_bytes=divided["bytes"]["client: after_pass"] / divided["tasks"]["MemberTraining"],
        row_bytes=4 * COLUMNS + 24,
    )


def measured(rows: int, workers: list[int], repeats: int) -> Record:
    """Return all measurements."""
    import dask.dataframe as dd

    size = rows // PARTITIONS
    frame = dd.from_map(part_of_table, range(PARTITIONS), rows=size, meta=part_of_table(0, 1).iloc[:0])
    new = part_of_table(10**6, 1000).drop(columns="y")
    fitted(frame.partitions[:4], None, new)
    alone, expected = min((fitted(frame, None, new) for _ in range(repeats)), key=lambda one: one[0]["train: client"])
    records = []
    for _ in range(repeats):
        for n_workers, divided in [*((n, False) for n in workers), (max(workers), True)]:
            records.append(on_cluster(n_workers, divided, frame, new, expected))
            print(json.dumps(records[-1]), flush=True)
    costs = costs_of(alone, records, rows)
    fits = [Fit(rows=10**9, columns=COLUMNS, members=members, folds=5, epochs=1) for members in (8, 40)]
    return {
        "machine": describe_machine(),
        "rows": rows,
        "fit": f"{COLUMNS} columns, chunks of {CHUNK_ROWS} rows, {MEMBERS} members, {FOLDS} folds, epochs: {EPOCHS}",
        "folds": FOLDS,
        "alone": alone,
        "clusters": records,
        "costs": asdict(costs),
        "simulated": [predicted(fit, costs, n_workers) for fit in fits for n_workers in CLUSTERS],
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2**17)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    fitting.CHUNK_ROWS = CHUNK_ROWS
    logging.getLogger("distributed").setLevel(logging.ERROR)
    record = measured(given.rows, [int(n) for n in given.workers.split(",")], given.repeats)
    print(page(record))
    if given.write:
        (RECORDS / "cluster.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        write(record)


if __name__ == "__main__":
    main()
