"""The fused engine: the numbers of the reference, by compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from make_jobs import jobs_of

from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError
from bdkn.networks import (
    ACTIVATIONS,
    OBJECTIVES,
    SCHEDULES,
    EpochReport,
    Networks,
    NetworkSpec,
    Trained,
    TrainingConfig,
    get_engine,
)
from bdkn.networks.fused import FusedEngine
from bdkn.networks.job import threads
from bdkn.networks.reference import ReferenceEngine

Seeds = list[np.random.SeedSequence]
TOLERANCE = 1e-3
"""Rounding of single precision, grown over 240 steps of training."""


def agree(spec: NetworkSpec, rows: Rows, config: TrainingConfig, seeds: Seeds) -> Trained:
    """Train with both engines, compare all they return, and return the fused engine's."""
    ours = FusedEngine().train(jobs_of(spec, config, seeds), rows, n_jobs=2)
    truth = ReferenceEngine().train(jobs_of(spec, config, seeds), rows)
    assert ours.best_epochs == truth.best_epochs
    for mine, theirs in zip(
        ours.loss_curves + ours.validation_curves, truth.loss_curves + truth.validation_curves, strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE)
    for part, other in zip(flat(ours), flat(truth), strict=True):
        np.testing.assert_allclose(part, other, rtol=TOLERANCE, atol=TOLERANCE)
    return ours


def flat(trained: Trained) -> list[np.ndarray]:
    assert isinstance(trained.networks, Networks)
    return [part for layer in trained.networks.layers for part in layer]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equals_the_reference(rows: Rows, seeds: Seeds, activation: str, objective: str) -> None:
    config = TrainingConfig(epochs=40, batch_size=16, learning_rate=3e-3, objective=objective)  # 240 steps
    agree(NetworkSpec(n_inputs=3, hidden=(8, 8), activation=activation), rows, config, seeds)


@pytest.mark.parametrize("hidden", [(), (1,), (5,), (17, 3), (33, 20, 12), (50, 50), (130, 64, 9, 31)])
def test_any_depth_and_width(rows: Rows, seeds: Seeds, hidden: tuple[int, ...]) -> None:
    config = TrainingConfig(epochs=12, batch_size=16, learning_rate=1e-3)
    agree(NetworkSpec(n_inputs=3, hidden=hidden), rows, config, seeds)


@pytest.mark.parametrize("n_inputs", [1, 4, 8, 15, 16, 17, 21, 31, 32, 90])
def test_any_number_of_inputs(seeds: Seeds, n_inputs: int) -> None:
    rng = np.random.default_rng(n_inputs)
    X = rng.normal(size=(40, n_inputs)).astype(np.float32)
    rows = Rows(X, (X.sum(axis=1) / np.sqrt(n_inputs)).astype(np.float64))
    agree(NetworkSpec(n_inputs=n_inputs, hidden=(10,)), rows, TrainingConfig(epochs=20, batch_size=7), seeds)


@pytest.mark.parametrize("batch_size", [1, 2, 7, 13, 16, 31, 32, 33, 64, 82, 83, 500])
def test_any_batch_size_and_the_partial_batch(rows: Rows, seeds: Seeds, batch_size: int) -> None:
    agree(NetworkSpec(n_inputs=3, hidden=(8, 8)), rows, TrainingConfig(epochs=8, batch_size=batch_size), seeds)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("warmup_epochs", [0, 15])
def test_schedule_decay_and_warmup(
    rows: Rows, seeds: Seeds, schedule: str, weight_decay: float, warmup_epochs: int
) -> None:
    config = TrainingConfig(
        epochs=40, batch_size=16, schedule=schedule, weight_decay=weight_decay, warmup_epochs=warmup_epochs
    )
    agree(NetworkSpec(n_inputs=3, hidden=(8, 8)), rows, config, seeds)


@pytest.mark.parametrize("warmup_epochs", [0, 3])
def test_early_stopping(rows: Rows, seeds: Seeds, warmup_epochs: int) -> None:
    config = TrainingConfig(
        epochs=300, batch_size=16, learning_rate=0.01, validation_fraction=0.25, patience=7, warmup_epochs=warmup_epochs
    )
    trained = agree(NetworkSpec(n_inputs=3, hidden=(8, 8)), rows, config, seeds)
    assert all(len(curve) < 300 for curve in trained.loss_curves)
    assert all(best == len(curve) - 1 - 7 for best, curve in zip(trained.best_epochs, trained.loss_curves, strict=True))


def test_rows_without_weights_have_weight_one(rows: Rows, seeds: Seeds) -> None:
    spec, config = NetworkSpec(n_inputs=3), TrainingConfig(epochs=3)
    plain = FusedEngine().train(jobs_of(spec, config, seeds), Rows(rows.X, rows.y))
    ones = FusedEngine().train(jobs_of(spec, config, seeds), Rows(rows.X, rows.y, np.ones_like(rows.y)))
    assert all(np.array_equal(a, b) for a, b in zip(flat(plain), flat(ones), strict=True))


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
def test_same_bits_for_any_number_of_threads(rows: Rows, n_jobs: int) -> None:
    spec, config = NetworkSpec(n_inputs=3), TrainingConfig(epochs=30, validation_fraction=0.2)
    seeds = np.random.SeedSequence(3).spawn(5)
    alone = FusedEngine().train(jobs_of(spec, config, seeds), rows, n_jobs=None)
    together = FusedEngine().train(jobs_of(spec, config, seeds), rows, n_jobs=n_jobs)
    assert all(np.array_equal(a, b) for a, b in zip(flat(alone), flat(together), strict=True))


def test_a_member_does_not_depend_on_the_others(rows: Rows) -> None:
    spec, config = NetworkSpec(n_inputs=3), TrainingConfig(epochs=10)
    seeds = np.random.SeedSequence(3).spawn(4)
    all_four = flat(FusedEngine().train(jobs_of(spec, config, seeds), rows))
    last = flat(FusedEngine().train(jobs_of(spec, config, seeds[3:]), rows))
    assert all(np.array_equal(a[3:], b) for a, b in zip(all_four, last, strict=True))


def test_a_diverging_member_raises_no_error(rows: Rows, seeds: Seeds) -> None:
    spec = NetworkSpec(n_inputs=3)
    trained = FusedEngine().train(jobs_of(spec, TrainingConfig(epochs=5, learning_rate=1e30), seeds), rows)
    assert isinstance(trained.networks, Networks)
    assert not trained.networks.is_finite().all()


class TestHook:
    def test_reports_every_epoch_of_every_member_with_outputs(self, rows: Rows, seeds: Seeds) -> None:
        spec, config = NetworkSpec(n_inputs=3), TrainingConfig(epochs=6, validation_fraction=0.2)
        reports: list[EpochReport] = []
        trained = FusedEngine().train(
            jobs_of(spec, config, seeds), rows, n_jobs=2, watch=rows.X, on_epoch=reports.append
        )
        assert {(r.job, r.epoch) for r in reports} == {(m, e) for m in range(3) for e in range(6)}
        for report in reports:
            assert report.loss == trained.loss_curves[report.job][report.epoch]
            assert report.validation_loss == trained.validation_curves[report.job][report.epoch]

    def test_watched_outputs_are_those_of_the_weights(self, rows: Rows, seeds: Seeds) -> None:
        last: dict[int, EpochReport] = {}
        jobs = jobs_of(NetworkSpec(n_inputs=3), TrainingConfig(epochs=6), seeds)
        trained = FusedEngine().train(
            jobs, rows, watch=rows.X[:21], on_epoch=lambda report: last.update({report.job: report})
        )
        means, variances = trained.networks.outputs(rows.X[:21])
        for member, report in last.items():
            np.testing.assert_array_equal(report.mean, means[member])
            np.testing.assert_array_equal(report.variance, variances[member])

    def test_watched_rows_change_no_bit(self, rows: Rows, seeds: Seeds) -> None:
        spec, config = NetworkSpec(n_inputs=3), TrainingConfig(epochs=6)
        watched = FusedEngine().train(jobs_of(spec, config, seeds), rows, watch=rows.X, on_epoch=lambda report: None)
        alone = FusedEngine().train(jobs_of(spec, config, seeds), rows)
        assert all(np.array_equal(a, b) for a, b in zip(flat(watched), flat(alone), strict=True))

    def test_an_error_in_a_hook_ends_the_training(self, rows: Rows, seeds: Seeds) -> None:
        def fail(report: EpochReport) -> None:
            raise KeyError("enough")

        with pytest.raises(KeyError, match="enough"):
            FusedEngine().train(
                jobs_of(NetworkSpec(n_inputs=3), TrainingConfig(epochs=6), seeds), rows, on_epoch=fail, n_jobs=2
            )


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 1), (1, 1), (7, 7), (-1, 4), (-2, 3), (-9, 1)])
def test_n_jobs_means_what_scikit_learn_means(
    monkeypatch: pytest.MonkeyPatch, n_jobs: int | None, expected: int
) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    assert threads(n_jobs) == expected


def test_zero_threads_are_refused() -> None:
    with pytest.raises(
        InvalidParameterError, match="n_jobs must not be 0; got 0; 1 is one thread, -1 one thread per core"
    ):
        threads(0)


def test_is_the_engine_of_that_name() -> None:
    assert isinstance(get_engine("fused"), FusedEngine)
    assert repr(FusedEngine()) == "FusedEngine()"
