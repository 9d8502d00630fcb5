"""Kill workers of a Dask cluster during fits: the result must have the bits of a fit on one machine.

    python tests/stress/workers.py [--write] [--scale 1]

A table is fitted on a local cluster of four processes, in random partitions, while one or two workers are killed at
random times: while rows are counted, drawn, shuffled, trained on or summarized. Dask starts new workers and computes
again what was lost. A trial is wrong if a prediction has another bit, or if the fit fails.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from bdkn import BDKNRegressor
from bdkn.estimators import fitting
from record import arguments, recording

ROWS, CHUNK_ROWS, WORKERS, TRIALS = 4000, 500, 4, 5


def make_frame(rows: int = ROWS) -> pd.DataFrame:
    """Return the table that is fitted."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["a", "b", "c"])
    return frame.assign(y=np.sin(2 * frame.a) + frame.b * frame.c + 0.3 * rng.normal(size=rows))


def fitted(frame: pd.DataFrame, partitions: int) -> Any:
    """Return what a fit to a frame in so many partitions predicts; on a cluster, if a client is active."""
    import dask.dataframe as dd

    model = BDKNRegressor(n_members=4, epochs=5, density="student-t", target="identity", random_state=0)
    return model.fit(dd.from_pandas(frame, npartitions=partitions), "y").predict(frame[["a", "b", "c"]])


def trial(client: Any, frame: pd.DataFrame, chance: random.Random, longest: float) -> tuple[Any, int]:
    """Return the predictions of a fit during which workers are killed, and how many were."""
    pids = sorted(client.run(os.getpid).values())
    times = sorted(chance.uniform(0.0, longest) for _ in range(min(chance.choice((1, 2)), len(pids) - 1)))
    timers = [threading.Timer(at, kill, (pid,)) for at, pid in zip(times, chance.sample(pids, len(times)), strict=True)]
    for timer in timers:
        timer.start()
    predictions = fitted(frame, chance.choice((1, 4, 9, 16)))
    killed = sum(not timer.is_alive() for timer in timers)
    for timer in timers:
        timer.cancel()
    return predictions, killed


def kill(pid: int) -> None:
    """Kill a process at once."""
    os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def some_trials(n: int, chance: random.Random, frame: pd.DataFrame, expected: Any) -> tuple[int, int]:
    """Return how many of n trials on a new cluster were wrong, and how many workers were killed."""
    from distributed import Client, LocalCluster

    wrong = killed = 0
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        fitted(frame, 4)
        began = time.perf_counter()
        wrong += not np.array_equal(fitted(frame, 4), expected)
        longest = time.perf_counter() - began
        for _ in range(n):
            with suppress(TimeoutError):  # Dask does not always start a worker again that was killed as it started
                client.wait_for_workers(WORKERS, timeout=20)
            try:
                found, lost = trial(client, frame, chance, longest)
            except Exception as error:
                print(f"{type(error).__name__}: {error}", flush=True)
                found, lost = np.empty(0), 1
            wrong, killed = wrong + (not np.array_equal(found, expected)), killed + lost
    return wrong, killed


def main() -> None:
    """Run the trials."""
    given = arguments(__doc__ or "").parse_args()
    fitting.CHUNK_ROWS = CHUNK_ROWS
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    frame, chance = make_frame(), random.Random(0)
    expected, clusters = fitted(frame, 1), max(1, round(6 * given.scale))
    command = "python tests/stress/workers.py --write"
    with recording("workers", "Workers of a cluster that die", command, [], write=given.write) as record:
        ended = [some_trials(TRIALS, chance, frame, expected) for _ in range(clusters)]
        record.add(
            f"fits on {WORKERS} worker processes, of which one or two are killed at random times: the same bits",
            TRIALS * clusters,
            sum(wrong for wrong, _ in ended),
            f"{sum(killed for _, killed in ended)} workers were killed",
        )


if __name__ == "__main__":
    main()
