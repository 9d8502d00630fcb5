"""Run cells in parallel; each record is stored as soon as its cell is done."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from bdkn.errors import BDKNError
from bdkn_paper.baselines import TorchRegressor
from bdkn_paper.experiments.tasks import TaskSource
from bdkn_paper.store.cell import Cell
from bdkn_paper.store.record import Record
from bdkn_paper.store.store import Store

_PARENT_CHECK_S = 0.5


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: ``status`` is "done", "failed" or, if its data are not available, "no data".

    ``message`` says what went wrong. ``found`` is True if the record was already there, perhaps from another process.
    """

    cell: Cell
    status: str
    message: str = ""
    found: bool = False


def pending(cells: Sequence[Cell], store: Store, *, retry_failed: bool = False) -> list[Cell]:
    """Return the cells without a record in the store, and those that failed if ``retry_failed``."""

    def is_open(cell: Cell) -> bool:
        record = store.get(cell)
        return record is None or (retry_failed and record["status"] == "failed")

    return [cell for cell in cells if is_open(cell)]


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    source: TaskSource,
    *,
    jobs: int = 1,
    retry_failed: bool = False,
    device: str | None = None,
    client: Any | None = None,
) -> Iterator[Outcome]:
    """Run the cells without a record in the store and yield how each ended, in the order in which they end.

    Long cells come first, so that all workers end at about the same time; cells of equal length come in random order,
    so that two processes with the same store rarely run the same cell. Workers store their records themselves: a kill
    loses only the cells that are running. ``device`` is for the regressors that have this parameter. With a ``client``
    of a Dask cluster, cells are its tasks in place of ``jobs`` processes, and this process stores the records.
    """
    from joblib import Parallel, delayed, effective_n_jobs

    from bdkn_paper.experiments.methods import has_device

    todo = pending(cells, store, retry_failed=retry_failed)
    if device is not None and any(map(has_device, todo)):
        TorchRegressor.check_device(device)  # once, before any cell fails because of it
    todo.sort(key=lambda cell: (-cost(cell, source), random.random()))
    if client is not None:
        yield from _run_on_cluster(client, todo, store, source, device)
    elif effective_n_jobs(jobs) == 1:  # no worker processes: the threads of each fit use the cores
        for cell in todo:
            yield run_cell(cell, store, source, n_jobs=-1, retry_failed=retry_failed, device=device)
    else:
        task = delayed(_run_in_worker)
        parent = os.getpid()
        workers = max(2, min(jobs, len(todo))) if jobs > 0 else jobs
        yield from Parallel(n_jobs=workers, return_as="generator_unordered")(
            task(parent, cell, store, source, retry_failed, device) for cell in todo
        )


def cost(cell: Cell, source: TaskSource) -> float:
    """Return an estimate of the work of a cell: rows times epochs times networks."""
    from bdkn_paper.experiments.methods import make_regressor

    try:
        model = make_regressor(cell)
        sizes = [getattr(model, name, 1) for name in ("epochs", "n_members")]
        return math.prod([1.0 * source.train_size(cell.dataset), *(s for s in sizes if not isinstance(s, str))])
    except (TypeError, ValueError):  # it will fail when it is run, and its record will hold the reason
        return 0.0


def run_cell(
    cell: Cell, store: Store, source: TaskSource, *, n_jobs: int, retry_failed: bool = False, device: str | None = None
) -> Outcome:
    """Run one cell, unless another process has done so in the meantime, and store its record."""
    if not pending([cell], store, retry_failed=retry_failed):
        return known_outcome(cell, store)
    return _stored(store, cell, evaluated(cell, source, n_jobs, device))


def evaluated(cell: Cell, source: TaskSource, n_jobs: int, device: str | None) -> Record | Outcome:
    """Return the record of a cell, or how it ended if there are no data."""
    from bdkn_paper.experiments.evaluate import evaluate

    try:
        task = source.load(cell.dataset)
    except (BDKNError, OSError) as error:
        return Outcome(cell, "no data", message=str(error))
    return evaluate(cell, task, n_jobs, device)


def _stored(store: Store, cell: Cell, found: Record | Outcome) -> Outcome:
    if isinstance(found, Outcome):
        return found
    store.put(found)
    return _outcome(cell, found)


def _run_on_cluster(
    client: Any, cells: Sequence[Cell], store: Store, source: TaskSource, device: str | None
) -> Iterator[Outcome]:
    """Run cells as tasks of a Dask cluster; those of a worker that is lost run again on another."""
    from distributed import as_completed

    running = {client.submit(evaluated, cell, source, 1, device, pure=False): cell for cell in cells}
    try:
        for future in as_completed(list(running)):
            cell, error = running.pop(future), future.exception()
            if error is None:
                yield _stored(store, cell, future.result())
            else:  # of the cluster; it leaves no record, so that the cell is run again
                yield Outcome(cell, "failed", message=str(error))
    finally:
        client.cancel(list(running), force=True)


def known_outcome(cell: Cell, store: Store) -> Outcome:
    """Return how a cell ended in an earlier run, "not run" if there was none."""
    return _outcome(cell, store.get(cell) or {"status": "not run"}, found=True)


def _outcome(cell: Cell, record: Record, *, found: bool = False) -> Outcome:
    return Outcome(cell, record["status"], record.get("traceback", "").strip().rpartition("\n")[2], found)


def _run_in_worker(
    parent: int, cell: Cell, store: Store, source: TaskSource, retry_failed: bool, device: str | None
) -> Outcome:
    _exit_with(parent)
    return run_cell(cell, store, source, n_jobs=1, retry_failed=retry_failed, device=device)


@cache
def _exit_with(parent: int) -> None:
    """Exit soon after the parent process was killed, if this is a worker: joblib's workers would run on for minutes."""

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_S)
        os._exit(1)

    if os.getppid() == parent:  # False in a thread of the parent, and on another machine
        threading.Thread(target=watch_parent, daemon=True).start()
