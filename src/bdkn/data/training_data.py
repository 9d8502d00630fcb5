"""The rows of a fit: checked, without copies, and as numbers; in memory, or a sample of rows that are read in blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bdkn.data.column_report import tell_copies
from bdkn.data.folds import Folds, OwnFolds, Splitting, check_cv
from bdkn.data.rows import Rows
from bdkn.data.sample import Sample
from bdkn.data.scaling import TargetScaler
from bdkn.data.table_reader import TableReader, counted_rows
from bdkn.data.target_values import find_values
from bdkn.data.training_rows import check_not_none, warn_of_extreme_targets
from bdkn.errors import InvalidParameterError, check_choice, check_number
from bdkn.predictive.links import Link
from bdkn.typing import IndexArray

DESIGNS = ("cross-fit", "hold-out", "in-sample")


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows of a fit.

    ``splitting`` has all rows as they were read, the numbers of those that are used, and the sets of rows that belong
    together. ``sample`` is that of rows in blocks, None for rows in memory.
    """

    reader: TableReader
    splitting: Splitting
    is_new: bool = True
    sample: Sample | None = None

    @classmethod
    def read(
        cls,
        params: Any,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        former: TableReader | None = None,
        as_given: bool = False,
        allow_nan: bool = False,
    ) -> TrainingData:
        """Return the checked rows of a fit in memory; ``former`` is the reader of a fit that had the same rows."""
        y = check_not_none(y)
        if former is None:
            owner = type(params).__name__
            reader, table, targets = TableReader.fit(X, y, owner, as_given=as_given, allow_nan=allow_nan)
        else:
            reader, (table, targets) = former, former.read_training(X, y)
        rows = counted_rows(table, targets, sample_weight)
        if former is None:
            warn_of_extreme_targets(rows)
        if params.design == "in-sample":
            if groups is not None:
                raise InvalidParameterError(
                    "groups divide rows into folds, of which design='in-sample' has none; got some"
                )
            return cls(reader, Splitting.plain(rows), former is None)
        cv = None if params.design == "hold-out" else params.cv
        return cls(reader, Splitting.of(rows, groups, cv, warn=former is None), former is None)

    @classmethod
    def of_sample(cls, params: Any, sample: Sample) -> TrainingData:
        """Return the data of a sample of rows in blocks."""
        rows = sample.rows
        reader, table, targets = TableReader.fit(rows.X, rows.y, type(params).__name__)
        given = counted_rows(table, targets, rows.counts)
        warn_of_extreme_targets(given)
        sets = None if sample.units is sample.numbers else np.unique(sample.units, return_inverse=True)[1]
        return cls(reader, Splitting(given, np.arange(len(given)), sets), sample=sample)

    @property
    def n(self) -> int:
        """Number of rows that count, those that are not in memory included."""
        return len(self.splitting.used) if self.sample is None else self.sample.n

    @property
    def is_complete(self) -> bool:
        """Whether all rows are in memory."""
        return self.sample is None or self.sample.is_complete

    def by_cv(self, cv: Any) -> TrainingData:
        """Return the data whose sets of rows are the folds of ``cv``, if that says which rows belong together."""
        return replace(self, splitting=self.splitting.by_cv(cv))

    def by_folds(self, folds: Folds | OwnFolds, cv: Any) -> TrainingData:
        """Return the data whose sets of rows are these folds, if ``cv`` says which rows belong together."""
        return replace(self, splitting=self.splitting.by_folds(folds, cv))

    def encoded(self) -> tuple[TableReader, Rows]:
        """Return the reader with statistics of targets, and the rows that are used, as numbers.

        Statistics for a row are those of rows of other sets.
        """
        rows, encoder = self.splitting.used_rows(), self.reader.encoder
        if encoder is None:
            return self.reader, rows
        encoder, inputs = encoder.learn(rows.X, rows.y, rows.counts, self.splitting.sets)
        if not self.is_new:
            return self.reader, replace(rows, X=inputs)
        tell_copies(encoder, inputs, rows.y)
        return replace(self.reader, encoder=encoder), replace(rows, X=inputs)

    def sets_of(self, numbers: IndexArray | None) -> IndexArray | None:
        """Return the numbers of the sets of some of the rows that are used (None: of all)."""
        sets = self.splitting.sets
        return sets if sets is None or numbers is None else sets[numbers]


def fit_targets(rows: Rows, link: Link, *, standardize_y: bool) -> TargetScaler:
    """Return the link and the scale of the targets, and the values that many of them share."""
    values = find_values(rows.y, rows.counts)
    if standardize_y:
        return TargetScaler.fit(rows.y, rows.counts, link, values)
    return TargetScaler(0.0, 1.0, link, values)


def check_design(design: str, cv: Any) -> None:
    """Raise unless ``cv`` is a value that the design allows."""
    check_choice("design", design, DESIGNS)
    if design == "hold-out" and cv is not None:
        check_number("cv, the fraction of the rows that design='hold-out' holds out,", cv, low=0, high=0.9, strict=True)
    elif design == "cross-fit":
        check_cv(cv)
