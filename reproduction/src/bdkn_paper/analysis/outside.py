"""Scores on random, gap and tail splits, from the records of ``reproduction/benchmarks/outside_tables.py``.

A record has the name of a data set (``set``), of a split ("gap 3": its kind and a number) and of a method, and scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn_paper.store.files import read_file
from bdkn_paper.store.record import loads
from bdkn_paper.store.schema import nested, number, text

FILE = "outside.ndjson"
"""The file of the records, in the folder of results."""

SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")
KINDS = ("gap", "tail", "random")
LEVELS = (0.5, 0.9, 0.95)
METHOD_TITLES = {
    "BDKN": "BDKN",
    "stack": "Stacking",
    "deep ensemble": "deep ensemble",
    "GP": "GP",
    "NGBoost": "NGBoost",
    "CatBoost": "CatBoost",
    "quantile forest": "quantile forest",
}
"""The methods in the order of the rows, and their names."""

OURS = ("BDKN", "stack")
OTHERS = ("deep ensemble", "GP")
"""The methods that ours are compared with in the summary."""

MOST_BYTES = 256 << 20
"""Largest size of the file of the records."""

SCORES = ("nll", "crps", "rmse", "coverage", "seconds")
"""How the names of scores begin."""

Scores = Mapping[str, float]
"""A score of each split that has it."""


@dataclass(frozen=True, eq=False)
class Outside:
    """Records by kind of split, data set, method and split; any may be missing."""

    records: Mapping[tuple[str, str, str], Mapping[str, Mapping[str, Any]]]

    def __bool__(self) -> bool:
        return bool(self.records)

    def scores(self, kind: str, dataset: str, method: str, key: str) -> Scores:
        """Return a score by split."""
        found = self.records.get((kind, dataset, method), {})
        return {split: float(record[key]) for split, record in found.items() if record.get(key) is not None}

    def mean(self, kind: str, dataset: str, method: str, key: str) -> float:
        """Return the mean of a score over the splits that a method has, NaN if there are none."""
        return _mean(self.scores(kind, dataset, method, key).values())

    def means(self, kind: str, method: str, key: str) -> dict[str, float]:
        """Return the mean of a score for each data set that has it."""
        found = {name: self.mean(kind, name, method, key) for name in SETS}
        return {name: mean for name, mean in found.items() if not isnan(mean)}

    def counts(self, kind: str, dataset: str, method: str) -> tuple[int, int]:
        """Return the number of splits that a method has, and that of all splits that any method has."""
        all_splits = {split for name in METHOD_TITLES for split in self.records.get((kind, dataset, name), ())}
        return len(self.records.get((kind, dataset, method), ())), len(all_splits)

    def differences(self, kind: str, key: str, method: str, other: str) -> dict[str, float]:
        """Return for each data set the mean score of a method minus that of another, on the splits that both have."""
        found = {}
        for name in SETS:
            one, two = self.scores(kind, name, method, key), self.scores(kind, name, other, key)
            apart = [one[split] - two[split] for split in one if split in two]
            if not isnan(mean := _mean(apart)):
                found[name] = mean
        return found


def outside_results(records: Iterable[Mapping[str, Any]]) -> Outside:
    """Return the records; of several of one fit the last counts."""
    found: dict[tuple[str, str, str], dict[str, Mapping[str, Any]]] = {}
    for record in records:
        kind = record["split"].partition(" ")[0]
        if kind in KINDS and record["set"] in SETS and record["method"] in METHOD_TITLES:
            found.setdefault((kind, record["set"], record["method"]), {})[record["split"]] = record
    return Outside(found)


def read_outside(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file, none if there is no file; a line cut off when a run was stopped is left out."""
    if not path.exists():
        return []
    try:
        lines = read_file(path, MOST_BYTES).decode("utf-8").split("\n")
        found = [loads(line) for line in lines if line.endswith("}")]
        for place, record in enumerate(found, 1):
            _check(f"record {place}", record)
    except (ValueError, OSError) as error:
        raise InvalidParameterError(
            f"{path} must hold records of splits: {error}; restore it, or remove that line"
        ) from error
    return found


def _check(where: str, record: Any) -> None:
    """Raise unless a record has names, and scores that are numbers."""
    if not isinstance(record, dict):
        raise InvalidParameterError(f"{where} must be a table of names and values")
    for name in ("set", "split", "method"):
        text(f"{name} of {where}", record.get(name))
    for name, value in record.items():
        nested(f"{name[:50]} of {where}", value)
        if name.startswith(SCORES) and value is not None:
            number(f"{name[:50]} of {where}", value)


def _mean(values: Iterable[float]) -> float:
    listed = sorted(values)  # so that a sum does not depend on the order of the records
    with np.errstate(invalid="ignore"):  # infinite values of both signs
        return float(np.mean(listed)) if listed else nan
