"""A regression data set, and its description in the registry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bdkn_paper.data.fingerprint import Fingerprint
from bdkn_paper.data.source import Source
from bdkn_paper.data.split_rules import SplitRule


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """The description of a data set in the registry.

    ``file`` is the stem of its file if it shares the file of another data set with other splits. Without a
    ``fingerprint``, every table of the right shape is accepted.
    """

    name: str
    title: str
    description: str
    target: str
    feature_names: tuple[str, ...]
    rows: int
    split_rule: SplitRule
    licence: str = "not stated"
    citation: str = ""
    uci_id: int | None = None
    openml_id: int | None = None
    sources: tuple[Source, ...] = ()
    fingerprint: Fingerprint | None = None
    file: str = ""

    @property
    def features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    @property
    def filename(self) -> str:
        """Name of its file in the data folder."""
        return f"{self.file or self.name}.csv.gz"

    @property
    def urls(self) -> tuple[str, ...]:
        """All addresses from which it can be downloaded."""
        return tuple(url for source in self.sources for url in source.urls)

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return self.split_rule.n_splits

    @property
    def train_size(self) -> int:
        """Number of training rows of a split."""
        return self.split_rule.train_size

    @property
    def test_size(self) -> int:
        """Number of test rows of a split."""
        return self.split_rule.test_size

    def mismatch(self, table: NDArray[np.float64]) -> str | None:
        """Return why ``table`` (features, then target) is not this data set, or None if it is."""
        if self.fingerprint is not None:
            return self.fingerprint.mismatch(table)
        shape = (self.rows, self.features + 1)
        return None if table.shape == shape else f"it has the shape {table.shape}, not {shape}"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and target, unscaled, with rows in the order that the splits refer to."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    feature_names: tuple[str, ...]
    target: str
    info: DatasetInfo
