"""Times of our fits and the minutes that the paper reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

from bdkn_paper import paper
from bdkn_paper.analysis.results import gather, in_order
from bdkn_paper.store import Record

TEN = tuple(name for name in paper.DATASETS if name != "song")
"""The data sets of the paper that were available here: all except Song."""


@dataclass(frozen=True)
class Runtime:
    """The time of all fits of a method on the splits of a data set, or of several data sets together.

    ``seconds`` is the sum over fits. ``busy`` is what they would take with all cores in use: a fit with one thread is
    counted with its share of the cores. ``paper`` is in minutes, None where the paper has no number; ``alike`` is the
    same for as many fits as ours. ``aggregate`` is the time of the closed forms, in the fit and for the predictions of
    the test rows, estimated from the fits for which both were measured.
    """

    dataset: str
    method: str
    fits: int
    seconds: float
    busy: float
    aggregate: float | None
    paper: float | None
    alike: float | None

    @property
    def minutes(self) -> float:
        """Minutes with all cores in use."""
        return self.busy / 60

    @property
    def ratio(self) -> float:
        """The paper's time divided by ours, for the same number of fits."""
        return nan if self.alike is None or not self.busy else self.alike / self.minutes

    @property
    def share(self) -> float | None:
        """The time of the closed forms, relative to that of the fits."""
        return None if self.aggregate is None or not self.seconds else self.aggregate / self.seconds


def runtimes(records: Sequence[Record], setting: int) -> list[Runtime]:
    """Return the times of every method and data set of a setting, method by method.

    Generated rows of the size of Song have their own experiment, with method names such as "bdkn-1" for setting 1.
    """
    cells = dict(gather(records, f"setting{setting}").done)
    for (dataset, method), done in gather(records, "synthetic-song").done.items():
        stem, number = paper.stem_and_number(method)
        if number == setting:
            cells[dataset, stem] = done
    return [_runtime(*cell, cells[cell], setting) for cell in in_order(cells)]


def total(lines: Sequence[Runtime], method: str) -> Runtime:
    """Return the sum over those of the ten data sets that both we and the paper have."""
    mine = [line for line in lines if line.method == method and line.dataset in TEN and line.paper is not None]
    name = "all ten sets" if len(mine) == len(TEN) else f"{len(mine)} of ten sets"
    parts = [line.aggregate for line in mine if line.aggregate is not None]
    return Runtime(
        name,
        method,
        sum(line.fits for line in mine),
        sum(line.seconds for line in mine),
        sum(line.busy for line in mine),
        sum(parts) if mine and len(parts) == len(mine) else None,
        sum(line.paper or 0.0 for line in mine),
        sum(line.alike or 0.0 for line in mine),
    )


def machine(records: Iterable[Record]) -> str:
    """Return a description of the machines that the cells ran on."""
    kinds = {_machine(record["hardware"]) for record in records if record["status"] == "done"}
    return "; ".join(sorted(kinds)) or "an unknown machine"


def _runtime(dataset: str, method: str, records: Sequence[Record], setting: int) -> Runtime:
    took = [record["seconds"] for record in records]
    timed = [seconds for seconds in took if {"aggregate", "predict_aggregate"} <= seconds.keys()]
    share = sum(s["aggregate"] + s["predict_aggregate"] for s in timed) / (sum(s["fit"] for s in timed) or 1.0)
    fit = sum(seconds["fit"] for seconds in took)
    return Runtime(
        dataset,
        method,
        len(records),
        fit,
        sum(record["seconds"]["fit"] * _share_of_cores(record) for record in records),
        share * fit if timed else None,
        *_printed(setting, dataset.removeprefix("synthetic-"), paper.stem_and_number(method)[0], len(records)),
    )


def _printed(setting: int, dataset: str, method: str, fits: int) -> tuple[float | None, float | None]:
    """Return the paper's minutes, and its minutes for the given number of fits, one per split."""
    minutes, known = paper.runtimes().get((setting, dataset, method)), paper.datasets().get(dataset)
    return minutes, minutes if minutes is None or known is None else minutes * min(1.0, fits / known.splits)


def _machine(hardware: Mapping[str, Any]) -> str:
    device = f" and {hardware['device']}" if "device" in hardware else ""
    return f"{hardware.get('processor', 'unknown processor')}, {hardware.get('cores', '?')} cores{device}"


def _share_of_cores(record: Record) -> float:
    """Return the threads of a fit divided by the cores of the machine; a missing or negative number means all cores.

    A fit on a GPU counts with all of its time, because there is one GPU.
    """
    if "device" in record.get("hardware", {}):
        return 1.0
    cores, threads = (record.get("hardware", {}).get(name) for name in ("cores", "threads"))
    return threads / cores if cores and threads and 0 < threads < cores else 1.0
