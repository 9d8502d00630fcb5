"""The paper's tables of scores, runtimes and data sets.

The numbers are in ``tables/`` beside this file, as "Efficient Bayesian Deep Ensembles via Analytic Predictive
Inference" prints them: ``scores.csv`` the tables of RMSE and NLL of both settings, ``runtimes.csv`` those of runtime in
minutes, ``datasets.csv`` that of data sets. Cells that the paper gives as N/A are empty there and missing here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import nan, sqrt
from types import MappingProxyType

METHODS = MappingProxyType(
    {
        "bdkn": "BDKN",
        "de": "DE",
        "ldbll": "LDBLL",
        "gp": "GP",
        "dkl": "DKL",
        "bll": "BLL",
        "mfvi": "MFVI",
        "vbll": "VBLL",
    }
)
"""The methods and their names in the paper, in the order of its columns."""

DATASETS = MappingProxyType(
    {
        "boston": "Boston",
        "concrete": "Concrete",
        "energy": "Energy",
        "kin8nm": "Kin8nm",
        "naval": "Naval",
        "power": "Power",
        "protein": "Protein",
        "sarcos": "Sarcos",
        "song": "Song",
        "wine": "Wine",
        "yacht": "Yacht",
    }
)
"""The data sets and their names in the paper, in the order of its rows."""

EXPERIMENTS = MappingProxyType({"setting1": 1, "setting2": 2})
"""The experiments that the paper has tables of, and the number of their setting."""

METRICS = ("rmse", "nll")
"""The metrics that the paper prints."""

UNIT = 0.01
"""The last printed digit of every score."""


@dataclass(frozen=True)
class Printed:
    """Printed mean and standard deviation over splits."""

    mean: float
    std: float
    splits: int

    @property
    def error(self) -> float:
        """The standard error of the mean, NaN for a single split.

        The printed standard deviation is taken to be divided by n: the paper prints 0.00 for a single split, for which
        the other one does not exist.
        """
        return self.std / sqrt(self.splits - 1) if self.splits > 1 else nan


@dataclass(frozen=True)
class DatasetLine:
    """A row of the table of data sets."""

    rows: int
    features: int
    splits: int
    train_size: int
    test_size: int


@cache
def scores() -> Mapping[tuple[int, str, str, str], Printed]:
    """Return the scores by setting, metric ("rmse" or "nll"), data set and method."""
    return MappingProxyType(
        {
            (int(line["setting"]), line["metric"], line["dataset"], line["method"]): Printed(
                float(line["mean"]), float(line["std"]), datasets()[line["dataset"]].splits
            )
            for line in _lines("scores.csv")
            if line["mean"]
        }
    )


@cache
def runtimes() -> Mapping[tuple[int, str, str], float]:
    """Return the minutes of all splits by setting, data set and method."""
    return MappingProxyType(
        {
            (int(line["setting"]), line["dataset"], line["method"]): float(line["minutes"])
            for line in _lines("runtimes.csv")
            if line["minutes"]
        }
    )


@cache
def datasets() -> Mapping[str, DatasetLine]:
    """Return the rows of the table of data sets by name."""
    return MappingProxyType(
        {
            line.pop("dataset"): DatasetLine(**{name: int(number) for name, number in line.items()})
            for line in _lines("datasets.csv")
        }
    )


def stem_and_number(method: str) -> tuple[str, int]:
    """Return the parts of a method name such as "bdkn-2"; the number is 0 if there is none."""
    stem, _, number = method.rpartition("-")
    return (stem, int(number)) if stem and number.isdigit() else (method, 0)


def _lines(name: str) -> Iterator[dict[str, str]]:
    text = (files("bdkn_paper.paper") / "tables" / name).read_text("utf-8")
    yield from csv.DictReader(text.splitlines())
