"""An experiment as a file: data sets, methods, and the parameters of each method on each set.

::

    name = "setting1"                        # names the folder of its results
    title = "Setting 1: learning rate 0.1, 40 epochs"
    datasets = ["boston", "yacht"]
    splits = "all"                           # or a number: the first so many
    seed = 0
    kind = "scores"                          # or "curves": metrics after every epoch

    [methods.bdkn]
    regressor = "BDKNRegressor"
    base = { from_paper = 1 }                # else the constructor alone
    parameters = { n_members = 5 }           # on every set

    [methods.bdkn.datasets.boston]           # on this set; a method without such tables runs on every set,
    learning_rate = 0.1                      # one with them on these sets only
    epochs = 40
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from bdkn.bench.cell import Cell
from bdkn.bench.sources import TaskSource
from bdkn.errors import InvalidParameterError, check_choice, check_number

KINDS = ("scores", "curves")

_REQUIRED = {"experiment": ("name", "datasets", "methods"), "method": ("regressor",)}


@dataclass(frozen=True, kw_only=True)
class Method:
    """A regressor and what it is given, on every set and on single ones."""

    regressor: str
    base: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    datasets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from bdkn.bench.methods import METHODS

        check_choice("regressor", self.regressor, METHODS)
        check_keys("base", self.base, ("from_paper",))
        known = set(METHODS[self.regressor]().get_params()) - {"device", "n_jobs", "random_state", "verbose"}
        for where, given in {"parameters": self.parameters, **self.datasets}.items():
            check_keys(where, given, sorted(known))

    def runs_on(self, dataset: str) -> bool:
        """Tell whether a data set is the method's business."""
        return not self.datasets or dataset in self.datasets

    def on(self, dataset: str) -> dict[str, Any]:
        """Return the parameters on a data set."""
        return {**self.parameters, **self.datasets.get(dataset, {})}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What ``load_experiment`` reads; it expands to cells."""

    name: str
    title: str = ""
    datasets: tuple[str, ...]
    splits: str | int = "all"
    seed: int = 0
    kind: str = "scores"
    methods: Mapping[str, Method]

    def __post_init__(self) -> None:
        for name in (self.name, *self.methods):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                raise InvalidParameterError(f"a name must be letters, digits, '.', '_' and '-'; got {name!r}")
        check_choice("kind", self.kind, KINDS)
        check_number("seed", self.seed, low=0, whole=True)
        if self.splits != "all":
            check_number("splits, if not 'all',", self.splits, low=1, whole=True)
        for name, method in self.methods.items():
            check_keys(f"methods.{name}.datasets", method.datasets, self.datasets)

    def cells(
        self,
        source: TaskSource,
        *,
        methods: Collection[str] | None = None,
        datasets: Collection[str] | None = None,
        splits: Collection[int] | None = None,
    ) -> list[Cell]:
        """Return the cells, or those of the chosen methods, data sets and splits."""
        check_all("methods", methods, self.methods)
        check_all("datasets", datasets, self.datasets)
        check_all("datasets", self.datasets, source.names())
        return [
            self._cell(name, method, dataset, split)
            for dataset in self.datasets
            for name, method in self.methods.items()
            if method.runs_on(dataset) and _chosen(name, methods) and _chosen(dataset, datasets)
            for split in range(self._n_splits(source.n_splits(dataset)))
            if _chosen(split, splits)
        ]

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
        )


def load_experiment(path: str | os.PathLike[str]) -> Experiment:
    """Read an experiment; what is wrong with it is said together with the name of the file."""
    try:
        with Path(path).open("rb") as file:
            return parse_experiment(tomllib.load(file))
    except (tomllib.TOMLDecodeError, InvalidParameterError) as error:
        raise InvalidParameterError(f"{path}: {error}") from error


def parse_experiment(document: Mapping[str, Any]) -> Experiment:
    """Return the experiment a TOML document describes."""
    _check_table("experiment", document, Experiment)
    methods = {name: _method(name, table) for name, table in document["methods"].items()}
    return Experiment(**{**document, "datasets": tuple(document["datasets"]), "methods": methods})


def check_keys(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise at the first key that is not known, naming the nearest that is."""
    names = list(known)
    for key in given:
        check_choice(f"a key of {where}", key, names)


def check_all(what: str, given: Iterable[str] | None, known: Iterable[str]) -> None:
    """Raise unless everything given, if anything is, is known."""
    names = list(known)
    for name in given or ():
        check_choice(what, name, names)


def _method(name: str, table: Mapping[str, Any]) -> Method:
    _check_table(f"methods.{name}", table, Method, "method")
    return Method(**table)


def _check_table(where: str, table: Mapping[str, Any], cls: type[Any], kind: str = "experiment") -> None:
    check_keys(where, table, [part.name for part in fields(cls)])
    for key in _REQUIRED[kind]:
        if key not in table:
            raise InvalidParameterError(f"{where} must have the key {key!r}; got {', '.join(table) or 'nothing'}")


def _chosen(value: Any, wanted: Collection[Any] | None) -> bool:
    return wanted is None or value in wanted
