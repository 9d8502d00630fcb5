"""Encoders and row sources: the library's own, and a second one of each that proves that the seam holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from bdkn.data.rows import Rows, RowSource
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.ensemble.networks import NetworkEnsemble
from bdkn.inference import Statistics
from bdkn.networks import NetworkSpec, initial_networks
from bdkn.testing import check_encoder

rng = np.random.default_rng(0)


@dataclass(frozen=True)
class MissingIndicators:
    """Missing values become the mean, and one more input per column tells where they were."""

    standardizer: Standardizer

    @classmethod
    def fit(cls, rows: RowSource) -> MissingIndicators:
        filled = np.concatenate([part.X for part in rows.blocks()])
        means = np.nanmean(filled, axis=0)
        return cls(Standardizer.fit(Rows(np.where(np.isnan(filled), means, filled), np.zeros(len(filled)))))

    @property
    def n_columns(self) -> int:
        return self.standardizer.n_columns

    def check_rows(self, X):
        self.standardizer.check_rows(np.nan_to_num(X))
        return np.asarray(X)

    def transform(self, X):
        missing = np.isnan(X)
        known = self.standardizer.transform(np.where(missing, self.standardizer.mean, X))
        return np.ascontiguousarray(np.hstack([known, missing]), dtype=np.float32)


@dataclass(frozen=True)
class MemoryMap:
    """Rows in a file, of which some at a time are in memory."""

    path: str
    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    def blocks(self, size: int | None = None) -> Iterator[Rows]:
        table = np.memmap(self.path, dtype=np.float64, mode="r", shape=self.shape)
        for start in range(0, len(self), size or 100):
            part = np.array(table[start : start + (size or 100)])
            yield Rows(part[:, :-1], part[:, -1])


def holes(n=60):
    X = rng.normal(size=(n, 3)) * [1.0, 50.0, 0.1]
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    return X


def test_the_standardizer_conforms():
    check_encoder(Standardizer.fit)


def test_an_encoder_of_missing_values_conforms():
    check_encoder(MissingIndicators.fit, X=holes())


def test_networks_train_and_predict_behind_an_encoder_of_missing_values():
    X = holes()
    y = np.nansum(X, axis=1)
    encoder = MissingIndicators.fit(Rows(X, y))
    inputs = encoder.transform(X)
    assert inputs.shape == (60, 6)
    networks = initial_networks(NetworkSpec(n_inputs=6, hidden=(4,)), [np.random.default_rng(0)])
    ensemble = NetworkEnsemble(("network 1",), networks, encoder, TargetScaler.fit(y))
    np.testing.assert_array_equal(ensemble.outputs(X)[0][:, 0], networks.outputs(inputs)[0][0])
    with pytest.raises(ValueError, match=r"rows must be \(n, 3\)"):
        ensemble.outputs(X[:, :2])


@pytest.mark.parametrize(
    ("change", "statement"),
    [
        ({"dtype": np.float64}, "single precision"),
        ({"order": "F"}, "C-contiguous"),
        ({"offset": np.inf}, "finite"),
        ({"width": 1}, "n_columns"),
    ],
    ids=str,
)
def test_encoders_that_break_a_rule_are_named_by_the_rule(change, statement):
    @dataclass(frozen=True)
    class Broken:
        inner: Standardizer

        @property
        def n_columns(self):
            return change.get("width", self.inner.n_columns)

        def check_rows(self, X):
            return self.inner.check_rows(X)

        def transform(self, X):
            inputs = self.inner.transform(X) + change.get("offset", 0)
            return np.asarray(inputs, dtype=change.get("dtype", np.float32), order=change.get("order", "C"))

    with pytest.raises(AssertionError, match=statement):
        check_encoder(lambda rows: Broken(Standardizer.fit(rows)))


def test_rows_of_a_memory_map_give_the_encoder_and_the_statistics_of_rows_in_memory(tmp_path):
    table = np.hstack([rng.normal(size=(1000, 4)) * [1, 10, 0.1, 3], rng.normal(size=(1000, 1))])
    table.tofile(tmp_path / "rows")
    source, rows = MemoryMap(str(tmp_path / "rows"), table.shape), Rows(table[:, :-1], table[:, -1])
    ours, theirs = Standardizer.fit(rows), Standardizer.fit(source)
    np.testing.assert_allclose(theirs.mean, ours.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(theirs.scale, ours.scale, rtol=1e-12)
    targets = TargetScaler.fit(rows.y)
    whole = Statistics.from_rows(ours.transform(rows.X), targets.transform(rows.y))
    merged = Statistics.from_chunks((ours.transform(part.X), targets.transform(part.y)) for part in source.blocks(77))
    assert merged.n == whole.n
    np.testing.assert_allclose(np.abs(merged.root), np.abs(whole.root), rtol=1e-9, atol=1e-9)
