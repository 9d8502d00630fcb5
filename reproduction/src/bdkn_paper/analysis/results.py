"""The records of an experiment by data set and method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bdkn.errors import InvalidParameterError, check_choice
from bdkn_paper import paper
from bdkn_paper.analysis.sample import Sample
from bdkn_paper.store import Cell, Record

DATASET_TITLES = {
    **paper.DATASETS,
    "sarcos-clean": "Sarcos, clean",
    "synthetic-song": "Song's shape, synthetic",
    "diabetes": "Diabetes",
    "synthetic-small": "Synthetic, small",
}
"""Names of data sets in tables."""


@dataclass(frozen=True, eq=False)
class Results:
    """The records of one experiment: ``done`` holds those of each data set and method, in the order of splits."""

    experiment: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    done: Mapping[tuple[str, str], Sequence[Record]]
    failed: Mapping[tuple[str, str], int]

    def sample(self, dataset: str, method: str, metric: str) -> Sample | None:
        """Return a metric over the splits, None if there is no split or the records do not have the metric."""
        values = [record["metrics"].get(metric) for record in self.done.get((dataset, method), ())]
        return None if not values or None in values else Sample(tuple(values))

    def shared(self, dataset: str, metric: str) -> dict[str, Sample]:
        """Return a metric of all methods on a data set, over the splits that all of them have."""
        found = {
            method: {record["cell"]["split"]: record["metrics"].get(metric) for record in self.done[dataset, method]}
            for method in self.methods
            if self.sample(dataset, method, metric) is not None
        }
        common = sorted(set.intersection(*map(set, found.values()))) if found else []
        return {method: Sample(tuple(values[k] for k in common)) for method, values in found.items()} if common else {}

    def notes(self) -> tuple[str, ...]:
        """Return one sentence per data set and number of missing splits."""
        notes: dict[tuple[str, str], list[str]] = defaultdict(list)
        for dataset in self.datasets:
            for method in self.methods:
                if note := self._note(dataset, method):
                    notes[dataset, note].append(method_title(method))
        return tuple(f"{dataset_title(dataset)}, {', '.join(names)}: {n}" for (dataset, n), names in notes.items())

    def _note(self, dataset: str, method: str) -> str:
        done, failed = len(self.done.get((dataset, method), ())), self.failed.get((dataset, method), 0)
        known = paper.datasets().get(dataset.removesuffix("-clean"))
        expected = known.splits if known else done + failed
        if done >= expected or not done + failed:
            return ""
        words = f"{done} of {expected} splits"
        return f"{words}, {failed} failed" if failed else words


def gather(records: Iterable[Record], experiment: str) -> Results:
    """Return the records of one experiment, in the order of the paper's tables."""
    mine = [record for record in records if record["cell"]["experiment"] == experiment]
    done: dict[tuple[str, str], dict[int, Record]] = defaultdict(dict)
    failed: dict[tuple[str, str], int] = defaultdict(int)
    first: dict[tuple[str, str], Cell] = {}
    for record in mine:
        cell = Cell.of(record)
        if record["status"] != "done":
            failed[cell.dataset, cell.method] += 1
            continue
        done[cell.dataset, cell.method].setdefault(cell.split, record)
        if not cell.is_like(first.setdefault((cell.dataset, cell.method), cell)):
            raise InvalidParameterError(
                f"records that are averaged, here {cell.method} on {cell.dataset} in {experiment}, must have the same "
                "parameters; got different ones, from an earlier version of the experiment: give the path of the "
                "experiment file in place of its name, which leaves them out, or pack the file again"
            )
    cells = in_order({(record["cell"]["dataset"], record["cell"]["method"]) for record in mine})
    return Results(
        experiment,
        tuple(sorted({dataset for dataset, _ in cells}, key=_dataset_place)),
        tuple(dict.fromkeys(method for _, method in cells)),
        {cell: [splits[k] for k in sorted(splits)] for cell, splits in done.items()},
        dict(failed),
    )


def in_order(cells: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sort pairs of data set and method by method and data set in the order of the paper's tables, others last."""
    return sorted(cells, key=lambda cell: (_method_place(cell[1]), _dataset_place(cell[0])))


def check_experiment(records: Iterable[Record], experiment: str) -> None:
    """Raise unless there are records of an experiment."""
    names = sorted({record["cell"]["experiment"] for record in records})
    if not names:
        raise InvalidParameterError("there must be records; got none: run 'bdkn-paper run FILE' first")
    check_choice("experiment", experiment, names)


def dataset_title(name: str) -> str:
    """Return the name of a data set in tables."""
    return DATASET_TITLES.get(name, name)


def method_title(name: str) -> str:
    """Return the name of a method in tables."""
    return paper.METHODS.get(name, name)


def _dataset_place(name: str) -> tuple[int, str]:
    """Return the sort key of a data set: the paper's order, "sarcos-clean" after "sarcos", others last."""
    names = list(paper.DATASETS)
    known = name if name in names else name.removesuffix("-clean")
    return (names.index(known) if known in names else len(names)), name


def _method_place(name: str) -> tuple[int, str, int]:
    names, (stem, number) = list(paper.METHODS), paper.stem_and_number(name)
    return (names.index(stem) if stem in names else len(names)), stem, number
