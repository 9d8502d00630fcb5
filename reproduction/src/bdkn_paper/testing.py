"""What every store of records must do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from bdkn.testing.encoders import require
from bdkn_paper.store import Cell, Record


class RecordStore(Protocol):
    """Keeps the record of each cell."""

    def get(self, cell: Cell) -> Record | None:
        """Return the record of a cell, None if there is none."""

    def put(self, record: Record) -> None:
        """Keep a record, in place of an earlier one of the same cell."""

    def __iter__(self) -> Iterator[Record]:
        """Yield all records."""


def check_store(make: Callable[[], RecordStore]) -> None:
    """Check that a store does what experiments rely on.

    Parameters
    ----------
    make : callable
        Function that returns a store, at its first call an empty one; at every further call, one of the same records.

    Raises
    ------
    AssertionError
        If a check fails; the message says which.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from bdkn_paper.store import Store
    >>> from bdkn_paper.testing import check_store
    >>> with TemporaryDirectory() as folder:
    ...     check_store(lambda: Store(folder))
    """
    store, cell = make(), _cell()
    require(store.get(cell) is None and list(store) == [], "a new store is empty")
    record = _record(cell, rmse=0.5, nll=math.inf, crps=math.nan)
    store.put(record)
    require(_same(store.get(cell), record), "a record is returned as it was put, infinite and NaN numbers included")
    require(_same(make().get(cell), record), "a record is there for whoever opens the store next")
    others = (replace(cell, split=1), replace(cell, seed=1), replace(cell, parameters={"epochs": 8}))
    for other in others:
        require(store.get(other) is None, f"records of other cells are not returned for {other}")
        store.put(_record(other, rmse=1.0))
    require(len(list(store)) == 1 + len(others), "iterating yields every record once")
    store.put(_record(cell, rmse=0.25))
    require(_same(store.get(cell), _record(cell, rmse=0.25)), "a record replaces an earlier one of the same cell")
    require(len(list(make())) == 1 + len(others), "a record that is replaced is not yielded")


def _cell() -> Cell:
    return Cell(experiment="check", method="bdkn", dataset="yacht", split=0, regressor="BDKNRegressor")


def _record(cell: Cell, **metrics: float) -> Record:
    facts = {"rows": {"train": 9, "test": 1}, "seconds": {"fit": 0.5}, "versions": {}, "hardware": {}}
    return {"cell": cell.as_dict(), "status": "done", "metrics": metrics, **facts}


def _same(one: object, other: object) -> bool:
    """Return whether two records are equal, NaN being equal to itself."""
    return repr(one) == repr(other)
