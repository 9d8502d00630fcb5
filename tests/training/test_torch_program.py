"""A program of many jobs gives each job the same numbers as training it alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bdkn.data.rows import Rows
from bdkn.networks import EpochReport, Job, NetworkSpec, Trained, TrainingConfig
from bdkn.networks.reference import ReferenceEngine
from bdkn.networks.torch_engine import TorchEngine

torch = pytest.importorskip("torch")

DECAYS = (0.0, 0.3, 1.0)
CONFIG = TrainingConfig(epochs=12, batch_size=16, learning_rate=3e-3, schedule="cosine")
STOPPING = replace(
    CONFIG, epochs=40, learning_rate=0.02, validation_fraction=0.25, patience=4, tol=1e-3, warmup_epochs=2
)


def cross_fitted_jobs(config: TrainingConfig, lengths: tuple[int, ...], n_members: int = 4) -> list[Job]:
    """Return jobs of several members and folds, of two activations, three weight decays and unequal numbers of rows."""
    seeds = iter(np.random.SeedSequence(3).spawn(len(lengths) * n_members))
    rng = np.random.default_rng(1)
    return [
        Job(
            NetworkSpec(n_inputs=3, hidden=(7, 6), activation=("silu", "relu")[h % 2]),
            replace(config, weight_decay=DECAYS[h // 2 % 3]),
            next(seeds),
            np.sort(rng.permutation(83)[:length]),
        )
        for length in lengths
        for h in range(n_members)
    ]


def assert_equal(ours: Trained, theirs: Trained, rows: Rows, tolerance: float) -> None:
    assert ours.best_epochs == theirs.best_epochs
    pairs = [*zip(ours.loss_curves, theirs.loss_curves, strict=True)]
    pairs += zip(ours.validation_curves, theirs.validation_curves, strict=True)
    pairs += zip(ours.networks.outputs(rows.X), theirs.networks.outputs(rows.X), strict=True)
    for mine, other in pairs:
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)


# 64 is four batches, 65 five, of which the last has one row; 15 rows are less than a batch.
LENGTHS = {"equal": (64, 64, 64), "nearly equal": (66, 67, 66), "a batch more": (64, 65, 64), "unlike": (15, 83, 40)}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("config", [CONFIG, STOPPING], ids=["plain", "early stopping"])
def test_equals_the_reference_in_double_precision(
    rows: Rows, lengths: tuple[int, ...], config: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bdkn.networks.torch_training._CHUNK_STEPS", 3)  # several chunks per epoch
    jobs = cross_fitted_jobs(config, lengths)
    ours, theirs = TorchEngine(dtype="float64").train(jobs, rows), ReferenceEngine(np.float64).train(jobs, rows)
    assert_equal(ours, theirs, rows, 1e-9)


def test_equals_the_reference_in_single_precision(rows: Rows) -> None:
    jobs = cross_fitted_jobs(CONFIG, (64, 65, 66, 67, 64), n_members=12)
    assert len(jobs) == 60
    assert_equal(TorchEngine().train(jobs, rows), ReferenceEngine().train(jobs, rows), rows, 2e-4)


def test_each_job_is_the_job_alone(rows: Rows) -> None:
    engine, jobs = TorchEngine(dtype="float64"), cross_fitted_jobs(STOPPING, (64, 65))
    together = engine.train(jobs, rows)
    for number, job in enumerate(jobs):
        assert_equal(together[[number]], engine.train([job], rows), rows, 1e-9)


def test_jobs_of_one_shape_are_one_program(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    from bdkn.networks import torch_training as torch_program

    sizes = []

    class Counted(torch_program.Program):
        def __init__(self, jobs, rows, table):  # type: ignore[no-untyped-def]
            sizes.append(len(jobs))
            super().__init__(jobs, rows, table)

    monkeypatch.setattr(torch_program, "Program", Counted)
    jobs = cross_fitted_jobs(replace(CONFIG, epochs=1), (64, 65, 66))
    TorchEngine().train(jobs, rows)
    assert sizes == [12]
    sizes.clear()
    TorchEngine().train([*jobs, replace(jobs[0], config=replace(CONFIG, epochs=2))], rows)
    assert sizes == [12, 1]


def test_padding_may_repeat_a_row_whose_loss_is_infinite(rows: Rows) -> None:
    y = rows.y.copy()
    y[82] = np.inf
    jobs = cross_fitted_jobs(replace(CONFIG, epochs=2), (40, 67), n_members=1)
    spoilt = [replace(jobs[0], rows=np.r_[82, np.arange(30)]), replace(jobs[1], rows=np.arange(67))]
    trained = TorchEngine().train(spoilt, replace(rows, y=y))
    assert trained.networks.is_finite().tolist() == [False, True]


def test_reports_carry_the_numbers_of_the_jobs(rows: Rows) -> None:
    jobs, reports = cross_fitted_jobs(STOPPING, (64, 65)), list[EpochReport]()
    trained = TorchEngine().train(jobs, rows, watch=rows.X[:5], on_epoch=reports.append)
    means, variances = trained.networks.outputs(rows.X[:5])
    for number, best in enumerate(trained.best_epochs):
        own = [report for report in reports if report.job == number]
        assert [report.loss for report in own] == trained.loss_curves[number].tolist()
        np.testing.assert_allclose(own[best].mean, means[number], rtol=1e-4, atol=1e-5)  # type: ignore[arg-type]
        np.testing.assert_allclose(own[best].variance, variances[number], rtol=1e-4)  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("config", [CONFIG, STOPPING], ids=["plain", "early stopping"])
def test_cuda_graphs_equal_the_reference(rows: Rows, config: TrainingConfig) -> None:
    jobs = cross_fitted_jobs(config, (64, 65, 15))
    ours = TorchEngine(device="cuda", dtype="float64").train(jobs, rows)
    assert_equal(ours, ReferenceEngine(np.float64).train(jobs, rows), rows, 1e-8)
