"""Statistics of a data set as in the paper's table of data sets."""

from __future__ import annotations

from dataclasses import dataclass

from bdkn_paper.data.dataset import Dataset


@dataclass(frozen=True)
class DatasetStatistics:
    """One line of the table of data sets; ``rows`` are those of one split, ``file_rows`` those of the file."""

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
    """Return the sizes of a data set, and mean and standard deviation of its target."""
    first = next(data.info.split_rule.draw())
    file_rows, features = data.X.shape
    train, test = len(first.train), len(first.test)
    mean, sd = float(data.y.mean()), float(data.y.std())
    return DatasetStatistics(data.name, train + test, features, data.info.n_splits, train, test, file_rows, mean, sd)
