"""The reference engine: each rule of training against a plain implementation of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from make_jobs import jobs_of, split_of, start_networks, weights_of

from bdkn.data.rows import Rows
from bdkn.kernels.dense import shuffle
from bdkn.networks import (
    ACTIVATIONS,
    OBJECTIVES,
    SCHEDULES,
    EpochReport,
    Networks,
    NetworkSpec,
    Trained,
    TrainingConfig,
)
from bdkn.networks.reference import ReferenceEngine

Seeds = list[np.random.SeedSequence]
SPEC = NetworkSpec(n_inputs=3, hidden=(8, 8), activation="tanh")
STOPPING = TrainingConfig(
    epochs=200, batch_size=16, learning_rate=0.02, validation_fraction=0.25, patience=7, tol=1e-3, warmup_epochs=3
)


def networks_of(trained: Trained) -> Networks:
    assert isinstance(trained.networks, Networks)
    return trained.networks


def loss_on(trained: Trained, h: int, rows: Rows, chosen: np.ndarray, objective: str = "nll") -> float:
    """Recompute Σ w l / n of some rows from the finished network's outputs."""
    means, variances = trained.networks.outputs(rows.X[chosen])
    error, v = means[h] - rows.y[chosen], variances[h]
    losses = error**2 / 2 if objective == "mse" else (np.log(v) + error**2 / v) / 2
    return float((weights_of(rows)[chosen] * losses).mean())


def held_out(rows: Rows, config: TrainingConfig, seed: np.random.SeedSequence) -> np.ndarray:
    return split_of(len(rows.y), config.validation_fraction, seed)[1]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_training_is_a_plain_torch_loop(rows: Rows, seeds: Seeds, objective: str, schedule: str) -> None:
    torch = pytest.importorskip("torch")
    config = TrainingConfig(
        epochs=40, batch_size=16, objective=objective, schedule=schedule, weight_decay=0.05, learning_rate=5e-3
    )
    trained = ReferenceEngine(np.float64).train(jobs_of(SPEC, config, seeds[:1]), rows)
    module, losses = plain_torch_loop(torch, rows, config, seeds[0])
    for (W, b), linear in zip(networks_of(trained).layers, module[::2], strict=True):
        np.testing.assert_allclose(W[0], linear.weight.detach().numpy(), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(b[0], linear.bias.detach().numpy(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(trained.loss_curves[0], losses, rtol=1e-8)
    assert losses[-1] < losses[0]


def plain_torch_loop(torch, rows, config, seed):  # type: ignore[no-untyped-def]
    """Train one member by a plain loop of PyTorch."""
    nn = torch.nn
    module = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    initial, streams = start_networks(SPEC, [seed])
    for (W, b), linear in zip(initial.layers, module[::2], strict=True):
        linear.weight.data[:], linear.bias.data[:] = torch.tensor(W[0]), torch.tensor(b[0])
    X, y, w = (torch.tensor(part).double() for part in (rows.X, rows.y, weights_of(rows)))
    n, size = len(y), config.batch_size
    optimizer = torch.optim.AdamW(module.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    steps = config.epochs * int(np.ceil(n / size))
    scheduler = (
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        if config.schedule == "cosine"
        else torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1)
    )
    order, state, curve = np.arange(n, dtype=np.int32), np.uint64(streams[0].order), []
    for _ in range(config.epochs):
        state = np.uint64(shuffle(order, state))
        total = 0.0
        for start in range(0, n, size):
            batch = order[start : start + size].tolist()
            mean, raw = module(X[batch]).T
            v = nn.functional.softplus(raw, threshold=50) + 1e-6
            loss = ((mean - y[batch]) ** 2 / v + v.log()) / 2
            loss = {"nll": loss, "beta_nll": loss * v.detach() ** 0.5, "mse": (mean - y[batch]) ** 2 / 2}[
                config.objective
            ]
            weighted = (w[batch] * loss).sum()
            optimizer.zero_grad()
            (weighted / len(batch)).backward()
            optimizer.step()
            scheduler.step()
            total += weighted.item()
        curve.append(total / n)
    return module, curve


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_single_precision_stays_near_double(rows: Rows, seeds: Seeds, activation: str) -> None:
    spec = NetworkSpec(n_inputs=3, hidden=(8, 8), activation=activation)
    config = TrainingConfig(epochs=35, batch_size=16)
    single, double = (
        ReferenceEngine(dtype).train(jobs_of(spec, config, seeds), rows) for dtype in (np.float32, np.float64)
    )
    for a, b in zip(networks_of(single).layers, networks_of(double).layers, strict=True):
        for mine, theirs in zip(a, b, strict=True):
            assert mine.dtype == np.float32
            assert theirs.dtype == np.float64
            np.testing.assert_allclose(mine, theirs, atol=1e-3)


def test_members_do_not_depend_on_each_other(rows: Rows, seeds: Seeds) -> None:
    together = ReferenceEngine().train(jobs_of(SPEC, STOPPING, seeds), rows)
    for h, seed in enumerate(seeds):
        alone = ReferenceEngine().train(jobs_of(SPEC, STOPPING, [seed]), rows)
        np.testing.assert_array_equal(together.loss_curves[h], alone.loss_curves[0])
        assert together.best_epochs[h] == alone.best_epochs[0]
        for mine, theirs in zip(networks_of(together).layers, networks_of(alone).layers, strict=True):
            np.testing.assert_array_equal(mine[0][h], theirs[0][0])
            np.testing.assert_array_equal(mine[1][h], theirs[1][0])


def test_rows_of_weight_zero_do_not_matter(rows: Rows, seeds: Seeds) -> None:
    lone = Rows(rows.X[:1], rows.y[:1])
    padded = Rows(rows.X[:2], rows.y[:2], np.array([2.0, 0.0]))
    config = TrainingConfig(epochs=20, batch_size=2)
    a, b = (ReferenceEngine(np.float64).train(jobs_of(SPEC, config, seeds), part) for part in (lone, padded))
    for mine, theirs in zip(networks_of(a).layers, networks_of(b).layers, strict=True):
        np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-9)


def test_epoch_loss_is_the_weighted_mean_over_all_rows(rows: Rows, seeds: Seeds) -> None:
    still = TrainingConfig(epochs=1, batch_size=16, learning_rate=1e-30)
    trained = ReferenceEngine(np.float64).train(jobs_of(SPEC, still, seeds), rows)
    for h in range(len(seeds)):
        assert trained.loss_curves[h][0] == pytest.approx(loss_on(trained, h, rows, np.arange(len(rows.y))), rel=1e-10)


def test_without_early_stopping_the_last_weights_are_returned(rows: Rows, seeds: Seeds) -> None:
    trained = ReferenceEngine().train(jobs_of(SPEC, TrainingConfig(epochs=5), seeds), rows)
    assert trained.best_epochs == (4, 4, 4)
    assert [len(curve) for curve in trained.loss_curves] == [5, 5, 5]
    assert [len(curve) for curve in trained.validation_curves] == [0, 0, 0]


def test_early_stopping_follows_its_rule(rows: Rows, seeds: Seeds) -> None:
    trained = ReferenceEngine().train(jobs_of(SPEC, STOPPING, seeds), rows)
    assert len({len(curve) for curve in trained.loss_curves}) > 1, "members should stop at different epochs"
    for h, curve in enumerate(trained.validation_curves):
        best, best_epoch, stop = np.inf, STOPPING.warmup_epochs - 1, STOPPING.epochs - 1
        for epoch in range(STOPPING.warmup_epochs, len(curve)):
            if curve[epoch] < best - STOPPING.tol:
                best, best_epoch = curve[epoch], epoch
            elif epoch - best_epoch >= STOPPING.patience:
                stop = epoch
                break
        assert len(curve) == len(trained.loss_curves[h]) == stop + 1 < STOPPING.epochs
        assert trained.best_epochs[h] == best_epoch


def test_early_stopping_returns_the_best_weights(rows: Rows, seeds: Seeds) -> None:
    trained = ReferenceEngine(np.float64).train(jobs_of(SPEC, STOPPING, seeds), rows)
    for h, seed in enumerate(seeds):
        best = trained.validation_curves[h][trained.best_epochs[h]]
        assert loss_on(trained, h, rows, held_out(rows, STOPPING, seed)) == pytest.approx(best, rel=1e-10)


def test_held_out_rows_are_not_trained_on(rows: Rows, seeds: Seeds) -> None:
    y = rows.y.copy()
    y[held_out(rows, STOPPING, seeds[0])] = np.nan
    config = TrainingConfig(epochs=3, validation_fraction=STOPPING.validation_fraction)
    trained = ReferenceEngine().train(jobs_of(SPEC, config, seeds[:1]), Rows(rows.X, y, rows.counts))
    assert np.isfinite(trained.loss_curves[0]).all()
    assert np.isnan(trained.validation_curves[0]).all()


def test_validation_uses_the_chosen_objective_even_while_warming_up(rows: Rows, seeds: Seeds) -> None:
    config = TrainingConfig(epochs=2, warmup_epochs=2, objective="nll", validation_fraction=0.25)
    trained = ReferenceEngine(np.float64).train(jobs_of(SPEC, config, seeds), rows)
    assert trained.best_epochs == (1, 1, 1), "no epoch counted, so the last weights are returned"
    for h, seed in enumerate(seeds):
        chosen = held_out(rows, config, seed)
        assert trained.validation_curves[h][1] == pytest.approx(loss_on(trained, h, rows, chosen), rel=1e-10)


def test_the_warm_up_does_not_train_the_variance(rows: Rows, seeds: Seeds) -> None:
    config = TrainingConfig(epochs=4, warmup_epochs=4)
    initial, _ = start_networks(SPEC, seeds)
    layers = networks_of(ReferenceEngine().train(jobs_of(SPEC, config, seeds), rows)).layers
    np.testing.assert_array_equal(layers[-1][0][:, 1], initial.layers[-1][0][:, 1])
    np.testing.assert_array_equal(layers[-1][1][:, 1], initial.layers[-1][1][:, 1])
    assert (layers[-1][0][:, 0] != initial.layers[-1][0][:, 0]).any()


def test_a_member_that_never_validates_stops_with_its_last_weights(rows: Rows, seeds: Seeds) -> None:
    config = TrainingConfig(epochs=50, warmup_epochs=2, validation_fraction=0.25, patience=4)
    y = rows.y.copy()
    y[held_out(rows, config, seeds[0])] = np.nan
    spoilt = Rows(rows.X, y, rows.counts)
    stopped = ReferenceEngine().train(jobs_of(SPEC, config, seeds[:1]), spoilt)
    assert len(stopped.loss_curves[0]) == 2 + 4
    assert stopped.best_epochs == (5,)
    shorter = TrainingConfig(epochs=6, warmup_epochs=2, validation_fraction=0.25, patience=4)
    for mine, theirs in zip(
        networks_of(stopped).layers,
        networks_of(ReferenceEngine().train(jobs_of(SPEC, shorter, seeds[:1]), spoilt)).layers,
        strict=True,
    ):
        np.testing.assert_array_equal(mine[0], theirs[0])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_divergence_is_silent(rows: Rows, seeds: Seeds, activation: str, objective: str) -> None:
    spec = NetworkSpec(n_inputs=3, hidden=(4, 4), activation=activation)
    y = rows.y.copy()
    y[0] = np.inf
    config = TrainingConfig(epochs=3, learning_rate=1e20, objective=objective)
    reports: list[EpochReport] = []
    trained = ReferenceEngine().train(
        jobs_of(spec, config, seeds), Rows(rows.X, y), watch=rows.X, on_epoch=reports.append
    )
    assert not trained.networks.is_finite().any()
    assert len(reports) == 9


def test_one_row_cannot_be_held_out(rows: Rows, seeds: Seeds) -> None:
    lone = Rows(rows.X[:1], rows.y[:1])
    trained = ReferenceEngine().train(
        jobs_of(SPEC, TrainingConfig(epochs=30, validation_fraction=0.2, patience=2), seeds), lone
    )
    assert [len(curve) for curve in trained.loss_curves] == [30, 30, 30]
    assert [len(curve) for curve in trained.validation_curves] == [0, 0, 0]


def test_reports_have_the_losses_of_the_curves(rows: Rows, seeds: Seeds) -> None:
    reports: list[EpochReport] = []
    trained = ReferenceEngine().train(jobs_of(SPEC, STOPPING, seeds), rows, watch=rows.X[:5], on_epoch=reports.append)
    for h in range(len(seeds)):
        mine = [report for report in reports if report.job == h]
        assert [report.epoch for report in mine] == list(range(len(trained.loss_curves[h])))
        assert [report.loss for report in mine] == trained.loss_curves[h].tolist()
        assert [report.validation_loss for report in mine] == trained.validation_curves[h].tolist()
        best = mine[trained.best_epochs[h]]
        means, variances = trained.networks.outputs(rows.X[:5])
        np.testing.assert_array_equal(best.mean, means[h])
        np.testing.assert_array_equal(best.variance, variances[h])
        assert all(not np.array_equal(a.mean, b.mean) for a, b in pairwise(mine))


def test_reports_without_watch_or_validation(rows: Rows, seeds: Seeds) -> None:
    reports: list[EpochReport] = []
    ReferenceEngine().train(jobs_of(SPEC, TrainingConfig(epochs=2), seeds), rows, on_epoch=reports.append)
    assert [(report.job, report.epoch) for report in reports] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert {(report.validation_loss, report.mean, report.variance) for report in reports} == {(None, None, None)}


def test_a_hook_changes_nothing(rows: Rows, seeds: Seeds) -> None:
    config = TrainingConfig(epochs=3)
    plain = ReferenceEngine().train(jobs_of(SPEC, config, seeds), rows)
    hooked = ReferenceEngine().train(jobs_of(SPEC, config, seeds), rows, watch=rows.X, on_epoch=lambda report: None)
    for mine, theirs in zip(networks_of(plain).layers, networks_of(hooked).layers, strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])


def test_training_learns(rows: Rows, seeds: Seeds) -> None:
    config = TrainingConfig(epochs=150, batch_size=16, learning_rate=5e-3, objective="mse")
    trained = ReferenceEngine().train(jobs_of(SPEC, config, seeds), rows)
    best_constant = rows.y.var() / 2
    assert all(curve[-1] < best_constant / 5 for curve in trained.loss_curves)
