"""The torch engine: equal to the reference for the library's networks; it also trains modules of the user."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from make_jobs import jobs_of, split_of, start_networks, weights_of

from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError, MissingExtraError
from bdkn.networks import (
    ACTIVATIONS,
    MIN_VARIANCE,
    OBJECTIVES,
    SCHEDULES,
    EpochReport,
    Networks,
    NetworkSpec,
    Trained,
    TrainingConfig,
)
from bdkn.networks.job import get_objective
from bdkn.networks.reference import ReferenceEngine
from bdkn.networks.spec import NUMPY, torch_functions
from bdkn.networks.torch_engine import TorchEngine

torch = pytest.importorskip("torch")
nn = torch.nn

Seeds = list[np.random.SeedSequence]
SPEC = NetworkSpec(n_inputs=3, hidden=(8, 8))
LONG = TrainingConfig(epochs=40, batch_size=16, learning_rate=3e-3)  # 240 steps, the last of each epoch a partial one
STOPPING = TrainingConfig(
    epochs=80, batch_size=16, learning_rate=0.02, validation_fraction=0.25, patience=7, tol=1e-3, warmup_epochs=3
)


def small(n_inputs: int) -> Any:
    return nn.Sequential(nn.Linear(n_inputs, 16), nn.Tanh(), nn.Linear(16, 2))


def agree(spec: NetworkSpec, rows: Rows, config: TrainingConfig, seeds: Seeds, dtype: str = "float32") -> Trained:
    """Train with both engines, compare all they return, and return torch's."""
    tolerance = 2e-4 if dtype == "float32" else 1e-10
    ours = TorchEngine(dtype=dtype).train(jobs_of(spec, config, seeds), rows)
    truth = ReferenceEngine(np.dtype(dtype)).train(jobs_of(spec, config, seeds), rows)
    assert ours.best_epochs == truth.best_epochs
    for mine, theirs in zip(ours.loss_curves, truth.loss_curves, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    for mine, theirs in zip(ours.validation_curves, truth.validation_curves, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    assert_same_weights(ours, truth, tolerance)
    return ours


def assert_same_weights(ours: Trained, truth: Trained, tolerance: float) -> None:
    assert isinstance(ours.networks, Networks)
    assert isinstance(truth.networks, Networks)
    for mine, theirs in zip(ours.networks.layers, truth.networks.layers, strict=True):
        for part, other in zip(mine, theirs, strict=True):
            assert part.dtype == other.dtype
            np.testing.assert_allclose(part, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equals_the_reference(rows: Rows, seeds: Seeds, activation: str, objective: str) -> None:
    spec = NetworkSpec(n_inputs=3, hidden=(8, 8), activation=activation)
    config = TrainingConfig(epochs=40, batch_size=16, learning_rate=3e-3, objective=objective)
    trained = agree(spec, rows, config, seeds)
    initial, _ = start_networks(spec, seeds)
    assert isinstance(trained.networks, Networks)
    assert np.abs(trained.networks.layers[0][0] - initial.layers[0][0]).max() > 0.01, "training should move weights"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_losses_are_those_of_the_objectives_for_any_variance(objective: str) -> None:
    mean, y = np.random.default_rng(3).normal(size=(2, 121))
    outputs, formula = np.stack([mean, np.linspace(-60, 60, 121)], axis=-1), get_objective(objective, 0.5)
    ours = formula.loss_and_gradient(torch_functions(), torch.tensor(outputs), torch.tensor(y))
    for mine, theirs in zip(ours, formula.loss_and_gradient(NUMPY, outputs, y), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_equals_the_reference_to_the_last_digits_of_double(
    rows: Rows, seeds: Seeds, schedule: str, weight_decay: float
) -> None:
    config = TrainingConfig(epochs=40, batch_size=16, schedule=schedule, weight_decay=weight_decay, warmup_epochs=5)
    agree(SPEC, rows, config, seeds, dtype="float64")


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4, 6)])
def test_equals_the_reference_at_every_depth(rows: Rows, seeds: Seeds, hidden: tuple[int, ...]) -> None:
    agree(NetworkSpec(n_inputs=3, hidden=hidden), rows, TrainingConfig(epochs=10), seeds)


@pytest.mark.parametrize("batch_size", [1, 7, 83, 1000])
def test_equals_the_reference_at_every_batch_size(rows: Rows, seeds: Seeds, batch_size: int) -> None:
    agree(SPEC, Rows(rows.X, rows.y), TrainingConfig(epochs=3, batch_size=batch_size), seeds)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_stops_when_the_reference_stops(rows: Rows, seeds: Seeds, objective: str) -> None:
    config = replace(STOPPING, objective=objective)
    trained = agree(SPEC, rows, config, seeds, dtype="float64")
    lengths = [len(curve) for curve in trained.loss_curves]
    assert min(lengths) < config.epochs
    assert len(set(lengths)) > 1


def test_diverges_as_silently_as_the_reference(rows: Rows, seeds: Seeds) -> None:
    config = TrainingConfig(epochs=30, learning_rate=1e30, validation_fraction=0.2, patience=4)
    trained = TorchEngine().train(jobs_of(SPEC, config, seeds), rows)
    assert [len(curve) for curve in trained.loss_curves] == [4, 4, 4]
    assert trained.best_epochs == (3, 3, 3)
    assert not trained.networks.is_finite().any()


def test_reports_are_those_of_the_reference(rows: Rows, seeds: Seeds) -> None:
    reports: dict[str, list[EpochReport]] = {"torch": [], "reference": []}
    for engine, name in ((TorchEngine(dtype="float64"), "torch"), (ReferenceEngine(np.float64), "reference")):
        engine.train(jobs_of(SPEC, STOPPING, seeds), rows, watch=rows.X[:4], on_epoch=reports[name].append)
    for mine, theirs in zip(reports["torch"], reports["reference"], strict=True):
        assert (mine.job, mine.epoch) == (theirs.job, theirs.epoch)
        assert mine.loss == pytest.approx(theirs.loss, rel=1e-9)
        assert mine.validation_loss == pytest.approx(theirs.validation_loss, rel=1e-9)
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-8)  # type: ignore[arg-type]
        np.testing.assert_allclose(mine.variance, theirs.variance, rtol=1e-8)  # type: ignore[arg-type]


def test_rows_may_be_read_only(rows: Rows, seeds: Seeds) -> None:
    rows.X.flags.writeable = False
    rows.y.flags.writeable = False
    trained = TorchEngine(module=small).train(jobs_of(SPEC, TrainingConfig(epochs=1), seeds), rows)
    assert trained.networks.outputs(rows.X)[0].shape == (3, 83)


def test_the_librarys_network_as_a_module_trains_alike(rows: Rows, seeds: Seeds) -> None:
    """A module with the initial weights of the reference has the same losses and outputs as the reference."""
    initial, _ = start_networks(SPEC, seeds)
    made: list[Any] = []

    def make(n_inputs: int) -> Any:
        module = nn.Sequential(nn.Linear(n_inputs, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        for (W, b), linear in zip(initial.layers, module[::2], strict=True):
            linear.weight.data[:], linear.bias.data[:] = torch.tensor(W[len(made)]), torch.tensor(b[len(made)])
        made.append(module)
        return module

    ours = TorchEngine(module=make, dtype="float64").train(jobs_of(SPEC, STOPPING, seeds), rows)
    truth = ReferenceEngine(np.float64).train(jobs_of(SPEC, STOPPING, seeds), rows)
    assert ours.best_epochs == truth.best_epochs
    for mine, theirs in zip(ours.validation_curves, truth.validation_curves, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)
    for mine, theirs in zip(ours.networks.outputs(rows.X), truth.networks.outputs(rows.X), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-10)


class TwoHeads(nn.Module):  # type: ignore[misc, name-defined]
    """Returns the mean and the raw variance as a pair, each (B, 1) or (B,)."""

    def __init__(self, n_inputs: int, flat: bool) -> None:
        super().__init__()
        self.body, self.mean, self.raw = nn.Linear(n_inputs, 16), nn.Linear(16, 1), nn.Linear(16, 1)
        self.flat = flat

    def forward(self, X: Any) -> tuple[Any, Any]:
        features = torch.relu(self.body(X))
        mean, raw = self.mean(features), self.raw(features)
        return (mean[:, 0], raw[:, 0]) if self.flat else (mean, raw)


@pytest.mark.no_cover
@pytest.mark.parametrize("make", [small, lambda n: TwoHeads(n, flat=True), lambda n: TwoHeads(n, flat=False)])
def test_modules_train_and_lower_the_loss(rows: Rows, seeds: Seeds, make: Callable[[int], Any]) -> None:
    config = TrainingConfig(epochs=60, batch_size=16, learning_rate=1e-2)
    trained = TorchEngine(module=make).train(jobs_of(SPEC, config, seeds), rows)
    assert all(curve[-1] < curve[0] - 0.5 for curve in trained.loss_curves)
    assert len(trained.networks) == 3
    means, variances = trained.networks.outputs(rows.X)
    assert means.shape == variances.shape == (3, 83)
    assert (np.abs(means - rows.y).mean(axis=1) < np.abs(rows.y).mean() / 2).all()
    assert (variances >= MIN_VARIANCE).all()


def test_module_outputs_are_its_own_in_evaluation_mode(rows: Rows, seeds: Seeds) -> None:
    def make(n_inputs: int) -> Any:
        return nn.Sequential(nn.Linear(n_inputs, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2))

    config = TrainingConfig(epochs=3, batch_size=20, validation_fraction=0.2)
    trained = TorchEngine(module=make).train(jobs_of(SPEC, config, seeds), rows)
    X = np.tile(rows.X, (60, 1))  # more than one chunk
    means, variances = trained.networks.outputs(X)
    for h, module in enumerate(trained.networks.modules):  # type: ignore[attr-defined]
        with torch.no_grad():
            mean, raw = module.eval()(torch.tensor(X)).T
        np.testing.assert_allclose(means[h], mean.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(variances[h], np.log1p(np.exp(raw.numpy())) + 1e-6, rtol=1e-5)


def test_modules_validate_in_evaluation_mode(rows: Rows, seeds: Seeds) -> None:
    def make(n_inputs: int) -> Any:
        return nn.Sequential(nn.Linear(n_inputs, 8), nn.Dropout(0.5), nn.Linear(8, 2))

    config = TrainingConfig(epochs=4, objective="mse", validation_fraction=0.25)
    trained = TorchEngine(module=make).train(jobs_of(SPEC, config, seeds), rows)
    means, _ = trained.networks.outputs(rows.X)
    for h, seed in enumerate(seeds):
        held_out = split_of(len(rows.y), 0.25, seed)[1]
        loss = (weights_of(rows) * (means[h] - rows.y) ** 2 / 2)[held_out].mean()
        assert trained.validation_curves[h][trained.best_epochs[h]] == pytest.approx(loss, rel=1e-5)


def test_modules_repeat_under_their_seed_and_leave_torchs_generator_alone(rows: Rows, seeds: Seeds) -> None:
    def make(n_inputs: int) -> Any:
        return nn.Sequential(nn.Linear(n_inputs, 8), nn.Dropout(0.5), nn.Linear(8, 2))

    engine, config = TorchEngine(module=make), TrainingConfig(epochs=2)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = engine.train(jobs_of(SPEC, config, seeds), rows)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    alone = engine.train(jobs_of(SPEC, config, seeds[1:2]), rows)
    np.testing.assert_array_equal(first.networks[[1]].outputs(rows.X), alone.networks.outputs(rows.X))
    assert not np.array_equal(first.networks[[0]].outputs(rows.X), alone.networks.outputs(rows.X))


def test_module_reports_and_best_weights(rows: Rows, seeds: Seeds) -> None:
    reports: list[EpochReport] = []
    trained = TorchEngine(module=small).train(
        jobs_of(SPEC, STOPPING, seeds), rows, watch=rows.X[:4], on_epoch=reports.append
    )
    means, _ = trained.networks.outputs(rows.X[:4])
    for h in range(len(seeds)):
        mine = [report for report in reports if report.job == h]
        assert [report.loss for report in mine] == trained.loss_curves[h].tolist()
        assert len(mine) == len(trained.validation_curves[h])
        best = mine[trained.best_epochs[h]]
        assert best.mean is not None
        np.testing.assert_array_equal(best.mean, means[h])
    assert any(trained.best_epochs[h] < len(trained.loss_curves[h]) - 1 for h in range(len(seeds)))


def test_module_networks_can_be_indexed_counted_and_checked(rows: Rows, seeds: Seeds) -> None:
    networks = TorchEngine(module=small).train(jobs_of(SPEC, TrainingConfig(epochs=1), seeds), rows).networks
    whole = networks.outputs(rows.X)[0]
    np.testing.assert_array_equal(networks[np.array([2, 0])].outputs(rows.X)[0], whole[[2, 0]])
    with torch.no_grad():
        networks.modules[1][0].weight[0, 0] = float("nan")  # type: ignore[attr-defined]
    np.testing.assert_array_equal(networks.is_finite(), [True, False, True])
    assert len(networks[networks.is_finite()]) == 2  # type: ignore[index]


def answering(answer: Callable[[Any], object]) -> Callable[[int], Any]:
    class Module(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, n_inputs: int) -> None:
            super().__init__()
            self.linear = nn.Linear(n_inputs, 3)

        def forward(self, X: Any) -> object:
            return answer(self.linear(X))

    return Module


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        (lambda out: out, r"got Tensor with \(32, 3\) for B = 32"),
        (lambda out: out[:, 0], r"got Tensor with \(32,\) for B = 32"),
        (lambda out: (out[:, :2], out[:, 2]), r"got tuple with \(32, 2\), \(32,\) for B = 32"),
        (lambda out: (out[:, 0], out[:, 1], out[:, 2]), r"got tuple with \(32,\), \(32,\), \(32,\) for B = 32"),
        (lambda out: (out[:, 0], 1.0), r"got tuple with \(32,\), 1\.0 for B = 32"),
        (lambda out: None, r"got NoneType with None for B = 32"),
    ],
)
def test_wrong_shapes_are_explained(rows: Rows, seeds: Seeds, answer: Callable[[Any], object], given: str) -> None:
    rule = r"must return a mean and a raw variance for each of B rows: two tensors of shape \(B,\) or \(B, 1\), or one"
    with pytest.raises(InvalidParameterError, match=rule) as caught:
        TorchEngine(module=answering(answer)).train(jobs_of(SPEC, TrainingConfig(epochs=1), seeds), rows)
    assert caught.match(given)
    assert caught.match(r"try torch\.nn\.Linear\(width, 2\) as its last layer")


def test_module_must_be_a_function_that_makes_modules(rows: Rows, seeds: Seeds) -> None:
    one = small(3)
    for module, message in (
        (one, r"module must be a function that makes a network.*got a network itself; try lambda n_inputs"),
        (lambda n: one, r"returns a new torch\.nn\.Module each time; it returned the same one twice"),
        (lambda n: n, r"module must be a function that returns a torch\.nn\.Module; it returned 3"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            TorchEngine(module=module).train(jobs_of(SPEC, TrainingConfig(epochs=1), seeds), rows)


def test_unusable_devices_are_explained(rows: Rows, seeds: Seeds) -> None:
    for device in ("gpu", "xpu:99"):
        with pytest.raises(
            InvalidParameterError, match=f"device must be one that this PyTorch can use; got '{device}'"
        ):
            TorchEngine(device=device).train(jobs_of(SPEC, TrainingConfig(epochs=1), seeds), rows)


def test_dtype_is_checked_and_may_be_torchs_own(rows: Rows, seeds: Seeds) -> None:
    with pytest.raises(InvalidParameterError, match=r"dtype must be one of 'float32', 'float64'; got 'float16'"):
        TorchEngine(dtype=torch.float16)
    trained = TorchEngine(dtype=torch.float64).train(jobs_of(SPEC, TrainingConfig(epochs=1), seeds), rows)
    assert isinstance(trained.networks, Networks)
    assert trained.networks.layers[0][0].dtype == np.float64


@pytest.mark.parametrize("engine", [TorchEngine(), TorchEngine(device="cuda", module=small, dtype="float64")])
def test_is_a_parameter_like_any_other(engine: TorchEngine) -> None:
    assert copy.deepcopy(engine) == engine
    assert pickle.loads(pickle.dumps(engine)) == engine
    assert repr(TorchEngine()) == "TorchEngine(device='cpu', module=None, dtype=None)"


def test_missing_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch, rows: Rows, seeds: Seeds) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r'this needs torch.*pip install "bdkn\[torch\]"'):
        TorchEngine().train(jobs_of(SPEC, TrainingConfig(epochs=1), seeds), rows)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_equals_the_reference(rows: Rows, seeds: Seeds) -> None:
    ours = TorchEngine(device="cuda").train(jobs_of(SPEC, LONG, seeds), rows)
    assert_same_weights(ours, ReferenceEngine().train(jobs_of(SPEC, LONG, seeds), rows), 1e-3)
