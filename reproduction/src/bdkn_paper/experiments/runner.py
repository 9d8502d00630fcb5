"""Cells through joblib, each kept as soon as it is done."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from bdkn.errors import BDKNError
from bdkn.regressors import TorchRegressor
from bdkn_paper.experiments.tasks import TaskSource
from bdkn_paper.store.cell import Cell
from bdkn_paper.store.record import Record
from bdkn_paper.store.store import Store

_LOOK_FOR_PARENT_S = 0.5


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: ``status`` "done", "failed" or, if its rows were not to be had, "no data".

    ``message`` says what went wrong. ``found`` is so if it had been run before, be it by another runner meanwhile.
    """

    cell: Cell
    status: str
    message: str = ""
    found: bool = False


def pending(cells: Sequence[Cell], store: Store, *, retry_failed: bool = False) -> list[Cell]:
    """Return the cells that a store has no record of, or, if they are retried, the record of a failure."""

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
) -> Iterator[Outcome]:
    """Run the cells a store lacks and yield how each ended, in the order they end.

    The longest come first, so that all workers end together; equal ones in random order, so that two runners on one
    store seldom do the same. A worker keeps its record itself: nothing is lost but what is in flight. With ``device``
    what can compute on one, does so there.
    """
    from joblib import Parallel, delayed, effective_n_jobs

    from bdkn_paper.experiments.evaluate import has_device

    todo = pending(cells, store, retry_failed=retry_failed)
    if device is not None and any(map(has_device, todo)):
        TorchRegressor.check_device(device)  # here, once: no cell need fail to tell
    todo.sort(key=lambda cell: (-cost(cell, source), random.random()))
    if effective_n_jobs(jobs) == 1:  # no processes: the networks of a cell share the cores instead
        for cell in todo:
            yield run_cell(cell, store, source, n_jobs=-1, retry_failed=retry_failed, device=device)
    else:
        task = delayed(_run_in_worker)
        parent = os.getpid()
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(
            task(parent, cell, store, source, retry_failed, device) for cell in todo
        )


def cost(cell: Cell, source: TaskSource) -> float:
    """Return about how much work a cell is: rows times epochs times networks."""
    from bdkn_paper.experiments.evaluate import regressor

    try:
        model = regressor(cell)
        sizes = [getattr(model, name, 1) for name in ("epochs", "n_members")]
        return math.prod([1.0 * source.train_size(cell.dataset), *(s for s in sizes if not isinstance(s, str))])
    except (TypeError, ValueError):  # it will fail when it is run, and its record will say why
        return 0.0


def run_cell(
    cell: Cell, store: Store, source: TaskSource, *, n_jobs: int, retry_failed: bool = False, device: str | None = None
) -> Outcome:
    """Run one cell, unless another runner has meanwhile, and keep its record."""
    from bdkn_paper.experiments.evaluate import evaluate

    if not pending([cell], store, retry_failed=retry_failed):
        return known_outcome(cell, store)
    try:
        task = source.load(cell.dataset)
    except (BDKNError, OSError) as error:
        return Outcome(cell, "no data", message=str(error))
    record = evaluate(cell, task, n_jobs, device)
    store.put(record)
    return _outcome(cell, record)


def known_outcome(cell: Cell, store: Store) -> Outcome:
    """Return how a cell ended that was run before, "not run" if it was not."""
    return _outcome(cell, store.get(cell) or {"status": "not run"}, found=True)


def _outcome(cell: Cell, record: Record, *, found: bool = False) -> Outcome:
    return Outcome(cell, record["status"], record.get("traceback", "").strip().rpartition("\n")[2], found)


def _run_in_worker(
    parent: int, cell: Cell, store: Store, source: TaskSource, retry_failed: bool, device: str | None
) -> Outcome:
    _end_with(parent)
    return run_cell(cell, store, source, n_jobs=1, retry_failed=retry_failed, device=device)


@cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent was killed, if it is a worker: joblib's would live on for minutes."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_FOR_PARENT_S)
        os._exit(1)

    if os.getppid() == parent:  # not so on a thread of the parent, or on another machine
        threading.Thread(target=look, daemon=True).start()
