"""Fits that are recorded in a file one by one: a run that is stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def run_missing(
    path: Path, fits: Iterable[tuple[str, tuple]], run: Callable[..., Record], workers: int, *, write: bool
) -> dict[str, Record]:
    """Return the records of all fits by name: those in the file, and those of ``run`` for the others.

    With ``write`` the file is written after each fit. A fit that fails is named, and is not in the record.
    """
    records = json.loads(path.read_text("utf-8")) if path.exists() else {}
    with ProcessPoolExecutor(workers) as pool:
        names = {pool.submit(run, *given): name for name, given in fits if name not in records}
        for done in as_completed(names):
            if error := done.exception():
                print(f"{names[done]}: {error!r}", flush=True)
                continue
            records[names[done]] = done.result()
            print(names[done], flush=True)
            if write:
                path.write_text(json.dumps(dict(sorted(records.items())), indent=1) + "\n", "utf-8")
    return dict(sorted(records.items()))
