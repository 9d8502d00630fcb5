"""The statistics of a data set that papers tabulate."""

from __future__ import annotations

from dataclasses import dataclass

from bdkn_paper.data.dataset import Dataset


@dataclass(frozen=True)
class DatasetStatistics:
    """One line of the table of data sets; ``rows`` counts those one split uses, ``file_rows`` those there are."""

    name: str
    rows: int
    features: int
    n_splits: int
    train_size: int
    test_size: int
    file_rows: int
    mean: float
    sd: float


def describe(data: Dataset) -> DatasetStatistics:
    """Count the rows of one split, of the table, and measure the target."""
    first = next(data.info.split_rule.draw())
    file_rows, features = data.X.shape
    train, test = len(first.train), len(first.test)
    mean, sd = float(data.y.mean()), float(data.y.std())
    return DatasetStatistics(data.name, train + test, features, data.info.n_splits, train, test, file_rows, mean, sd)
