"""An experiment as a file: data sets, methods, and the parameters of each method on each set.

::

    name = "setting1"                        # names the folder of its results
    title = "Setting 1: learning rate 0.1, 40 epochs"
    datasets = ["boston", "yacht"]
    splits = "all"                           # or a number n: the first n splits
    seed = 0
    kind = "scores"                          # or "curves": metrics after every epoch

    [methods.bdkn]
    regressor = "BDKNRegressor"
    base = { from_paper = 1 }                # without it, the constructor
    parameters = { n_members = 5 }           # on every set; options as { training = { batch_size = 64 } }

    [methods.bdkn.datasets.boston]           # for this set; a method with such tables runs on these sets only
    learning_rate = 0.1
    epochs = 40

    [tables.mine]                            # a table of your own, named "mine" in datasets: a CSV file with a line
    path = "mine.csv"                        # of column names, in the folder of this file or one below it
    target = "y"
    splits = 20                              # random splits, nine tenths of the rows for training
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from bdkn.errors import InvalidParameterError, check_choice, check_number
from bdkn_paper.experiments.csv_table import CsvTable
from bdkn_paper.experiments.tasks import DataSource, TaskSource
from bdkn_paper.store.cell import Cell
from bdkn_paper.store.files import read_toml
from bdkn_paper.store.names import check_name
from bdkn_paper.store.parameter_names import OPTIONS
from bdkn_paper.store.schema import finite, nested

KINDS = ("scores", "curves")

MOST_CELLS = 1_000_000
"""Most cells of an experiment."""

_REQUIRED = {"experiment": ("name", "datasets", "methods"), "method": ("regressor",), "table": ("path", "target")}


@dataclass(frozen=True, kw_only=True)
class Method:
    """A regressor with its parameters, for all data sets and for single ones."""

    regressor: str
    base: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    datasets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from bdkn_paper.experiments.methods import METHODS, parameter_names

        check_choice("regressor", self.regressor, METHODS)
        for where, table in {"base": self.base, "parameters": self.parameters, "datasets": self.datasets}.items():
            _check_kind(where, table, "a table")
        check_keys("base", self.base, ("from_paper",))
        for setting in self.base.values():
            check_number("from_paper", setting, low=1, high=2, whole=True)
        known = parameter_names(self.regressor)
        for where, given in {"parameters": self.parameters, **self.datasets}.items():
            _check_kind(where, given, "a table")
            check_keys(where, given, known)
            for name in OPTIONS.keys() & given.keys() & {*known}:
                _check_kind(name, given[name], "a table")
                check_keys(name, given[name], [option.name for option in fields(OPTIONS[name])])
            _check_values(where, given)

    def runs_on(self, dataset: str) -> bool:
        """Return whether the method runs on a data set."""
        return not self.datasets or dataset in self.datasets

    def on(self, dataset: str) -> dict[str, Any]:
        """Return the parameters for a data set."""
        return {**self.parameters, **self.datasets.get(dataset, {})}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Data sets, methods and splits; an experiment expands to cells."""

    name: str
    title: str = ""
    datasets: tuple[str, ...]
    splits: str | int = "all"
    seed: int = 0
    kind: str = "scores"
    methods: Mapping[str, Method]
    tables: Mapping[str, CsvTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (self.name, *self.methods, *self.tables):
            check_name(name)
        _check_kind("title", self.title, "text")
        if len({*self.datasets}) < len(self.datasets):
            raise InvalidParameterError(f"datasets must each be named once; got {', '.join(self.datasets)}")
        if known := sorted({*self.tables} & {*DataSource().names()}):
            raise InvalidParameterError(f"a table must not have the name of a registered data set; got {known[0]!r}")
        check_choice("kind", self.kind, KINDS)
        check_number("seed", self.seed, low=0, whole=True)
        if not (isinstance(self.splits, str) and self.splits == "all"):
            check_number("splits, if not 'all',", self.splits, low=1, whole=True)
        for name, method in self.methods.items():
            check_keys(f"methods.{name}.datasets", method.datasets, self.datasets)

    def source(self, folder: str | None = None) -> DataSource:
        """Return the source of its data sets: those in ``folder``, and its own tables."""
        return DataSource(folder, self.tables)

    def cells(
        self,
        source: TaskSource,
        *,
        methods: Collection[str] | None = None,
        datasets: Collection[str] | None = None,
        splits: Container[int] | None = None,
    ) -> list[Cell]:
        """Return all cells, or those of the chosen methods, data sets and splits."""
        check_all("methods", methods, self.methods)
        check_all("datasets", datasets, self.datasets)
        check_all("datasets", self.datasets, source.names())
        self._check_size(source)
        cells = [
            self._cell(name, method, dataset, split)
            for dataset in self.datasets
            for name, method in self.methods.items()
            if method.runs_on(dataset) and _chosen(name, methods) and _chosen(dataset, datasets)
            for split in range(self._n_splits(source.n_splits(dataset)))
            if _chosen(split, splits)
        ]
        if not cells:
            raise InvalidParameterError(
                f"the selection must contain at least one cell; got none of {self.name}: it has the methods "
                f"{', '.join(self.methods) or '(none)'} on {', '.join(self.datasets) or '(no data sets)'}, and splits "
                "are numbered from 0"
            )
        return cells

    def _check_size(self, source: TaskSource) -> None:
        """Raise if there are too many cells to list them."""
        n = sum(self._n_splits(source.n_splits(name)) for name in self.datasets) * len(self.methods)
        if n > MOST_CELLS:
            raise InvalidParameterError(
                f"an experiment must have at most {MOST_CELLS:,} cells; {self.name} has about {n:,}: name fewer splits"
            )

    def _n_splits(self, available: int) -> int:
        return available if isinstance(self.splits, str) else min(self.splits, available)

    def _cell(self, name: str, method: Method, dataset: str, split: int) -> Cell:
        return Cell(
            experiment=self.name,
            method=name,
            dataset=dataset,
            split=split,
            regressor=method.regressor,
            base=method.base,
            parameters=method.on(dataset),
            seed=self.seed,
            kind=self.kind,
            data=self.tables[dataset].digest if dataset in self.tables else "",
        )


def load_experiment(path: str | os.PathLike[str]) -> Experiment:
    """Read an experiment from a file; errors name the file."""
    try:
        return parse_experiment(read_toml(path), Path(path).parent)
    except ValueError as error:
        raise InvalidParameterError(f"{path}: {error}") from error


def parse_experiment(document: Mapping[str, Any], folder: Path = Path()) -> Experiment:
    """Return the experiment in a TOML document; paths of its tables are relative to ``folder``."""
    _check_table("experiment", document, Experiment)
    _check_kind("methods", document["methods"], "a table")
    _check_kind("datasets", document["datasets"], "a list")
    for name in document["datasets"]:
        _check_kind("each of datasets", name, "text")
    methods = {name: _method(name, table) for name, table in document["methods"].items()}
    _check_kind("tables", document.get("tables", {}), "a table")
    tables = {name: _table(name, table, folder) for name, table in document.get("tables", {}).items()}
    return Experiment(**{**document, "datasets": tuple(document["datasets"]), "methods": methods, "tables": tables})


def check_keys(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise for the first key that is not known, naming the nearest known one."""
    names = list(known)
    for key in given:
        check_choice(f"a key of {where}", key, names)


def check_all(what: str, given: Iterable[str] | None, known: Iterable[str]) -> None:
    """Raise unless all given names, if any, are known."""
    names = list(known)
    for name in given or ():
        check_choice(what, name, names)


def _method(name: str, table: Mapping[str, Any]) -> Method:
    _check_kind(f"methods.{name}", table, "a table")
    _check_table(f"methods.{name}", table, Method, "method")
    return Method(**table)


def _table(name: str, table: Mapping[str, Any], folder: Path) -> CsvTable:
    _check_kind(f"tables.{name}", table, "a table")
    _check_table(f"tables.{name}", table, CsvTable, "table")
    return CsvTable(**table, folder=str(folder))


def _check_table(where: str, table: Mapping[str, Any], cls: type[Any], kind: str = "experiment") -> None:
    check_keys(where, table, [part.name for part in fields(cls) if part.name != "folder"])
    for key in _REQUIRED[kind]:
        if key not in table:
            raise InvalidParameterError(f"{where} must have the key {key!r}; got {', '.join(table) or 'nothing'}")


_KINDS: dict[str, type[Any]] = {"a table": dict, "a list": list, "text": str}


def _check_kind(where: str, given: Any, kind: str) -> None:
    if not isinstance(given, _KINDS[kind]):
        shown = repr(given)
        raise InvalidParameterError(f"{where} must be {kind}; got {shown if len(shown) < 200 else shown[:197] + '...'}")


def _check_values(where: str, given: Mapping[str, Any]) -> None:
    """Raise unless JSON can hold the values: it has neither dates nor numbers that are not finite."""
    for key, value in given.items():
        try:
            nested(f"{where}: {key}", value, leaf=finite)
        except InvalidParameterError as error:
            raise InvalidParameterError(
                f"{where}: {key} must be a finite number, text, true or false, or a list of these ({error})"
            ) from None


def _chosen(value: Any, wanted: Container[Any] | None) -> bool:
    return wanted is None or value in wanted
