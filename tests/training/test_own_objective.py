"""An objective and a head of the user, trained by two engines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from make_jobs import jobs_of

import bdkn
from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError
from bdkn.networks import Functions, NetworkSpec, TrainingConfig, get_engine
from bdkn.networks.reference import ReferenceEngine
from bdkn.networks.spec import NUMPY, torch_functions
from bdkn.networks.torch_engine import TorchEngine

Seeds = list[np.random.SeedSequence]


@dataclass(frozen=True)
class LaplaceHead:
    """The mean, and a raw scale r: the scale is b = softplus(r) + 1e-3, the variance 2b²."""

    n_outputs: ClassVar[int] = 2

    def scale(self, fn: Functions, outputs: Any) -> Any:
        return fn.softplus(outputs[..., 1]) + 1e-3

    def mean_and_variance(self, fn: Functions, outputs: Any) -> tuple[Any, Any]:
        return outputs[..., 0], 2 * self.scale(fn, outputs) ** 2


@dataclass(frozen=True)
class Laplace:
    """log b + |e|/b, the Laplace negative log-likelihood without its constant."""

    name: ClassVar[str] = "laplace"
    n_outputs: ClassVar[int] = 2
    trains_variance: ClassVar[bool] = True

    def loss_and_gradient(self, fn: Functions, outputs: Any, y: Any) -> tuple[Any, Any]:
        b, error = LaplaceHead().scale(fn, outputs), outputs[..., 0] - y
        size = fn.abs(error) / b
        gradient = fn.stack([fn.sign(error) / b, (1 - size) / b * fn.sigmoid(outputs[..., 1])])
        return fn.log(b) + size, gradient


@dataclass(frozen=True)
class StudentT:
    """½ (log v + (ν + 1) log(1 + e²/(νv))), the Student-t negative log-likelihood, with v of the usual head."""

    dof: float = 4.0
    name: ClassVar[str] = "student_t"
    n_outputs: ClassVar[int] = 2
    trains_variance: ClassVar[bool] = True

    def loss_and_gradient(self, fn: Functions, outputs: Any, y: Any) -> tuple[Any, Any]:
        v, error, ν = fn.softplus(outputs[..., 1]) + 1e-6, outputs[..., 0] - y, self.dof
        z = error * error / (ν * v)
        loss = (fn.log(v) + (ν + 1) * fn.log1p(z)) / 2
        share = (ν + 1) / (1 + z)
        d_v = (1 - share * z) / (2 * v)
        return loss, fn.stack([share * error / (ν * v), d_v * fn.sigmoid(outputs[..., 1])])


OBJECTIVES = [Laplace(), StudentT()]
SPEC = NetworkSpec(n_inputs=3, hidden=(7, 5), activation="silu", head=LaplaceHead())
CONFIG = TrainingConfig(epochs=20, batch_size=16, learning_rate=0.01, objective=Laplace(), warmup_epochs=3)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradient_is_the_central_difference(objective: Any) -> None:
    rng = np.random.default_rng(0)
    outputs, y, step = rng.normal(size=(50, 2)) * [1, 3], rng.normal(size=50), 1e-6
    loss, gradient = objective.loss_and_gradient(NUMPY, outputs, y)
    assert loss.shape == (50,)
    for k in range(2):
        move = step * np.eye(2)[k]
        above, below = (objective.loss_and_gradient(NUMPY, outputs + s * move, y)[0] for s in (1, -1))
        np.testing.assert_allclose(gradient[:, k], (above - below) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_formulas_work_with_numpy_and_torch(objective: Any) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    outputs, y = rng.normal(size=(4, 9, 2)), rng.normal(size=(4, 9))
    theirs = objective.loss_and_gradient(torch_functions(), torch.tensor(outputs), torch.tensor(y))
    for mine, other in zip(objective.loss_and_gradient(NUMPY, outputs, y), theirs, strict=True):
        np.testing.assert_allclose(mine, other.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("stopping", [0.0, 0.25])
def test_reference_and_torch_train_the_same_networks(rows: Rows, seeds: Seeds, objective: Any, stopping: float) -> None:
    pytest.importorskip("torch")
    config = replace(CONFIG, objective=objective, validation_fraction=stopping, patience=4)
    jobs = jobs_of(SPEC, config, seeds)
    ours, theirs = (engine.train(jobs, rows) for engine in (TorchEngine(dtype="float64"), ReferenceEngine(np.float64)))
    assert ours.best_epochs == theirs.best_epochs
    for mine, other in zip(ours.loss_curves, theirs.loss_curves, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9)
    for mine, other in zip(ours.networks.outputs(rows.X), theirs.networks.outputs(rows.X), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)
    assert theirs.loss_curves[0][-1] < theirs.loss_curves[0][3]


def test_outputs_are_those_of_the_head(rows: Rows, seeds: Seeds) -> None:
    for dtype in (np.float32, np.float64):
        networks = ReferenceEngine(dtype).train(jobs_of(SPEC, CONFIG, seeds), rows).networks
        value = np.asarray(rows.X, dtype=np.float64)
        *hidden, (W, b) = [(W[1], b[1]) for W, b in networks.layers]  # type: ignore[attr-defined]
        for V, c in hidden:
            z = value @ V.T + c
            value = z / (1 + np.exp(-z))
        mean, raw = (value @ W.T + b).T
        means, variances = networks.outputs(rows.X)
        np.testing.assert_allclose(means[1], mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(variances[1], 2 * (np.log1p(np.exp(raw)) + 1e-3) ** 2, rtol=1e-9)


def test_the_error_of_the_fused_engine_names_other_engines(rows: Rows, seeds: Seeds) -> None:
    usual = replace(SPEC, head=NetworkSpec(n_inputs=3).head)
    for spec, objective, name in ((usual, Laplace(), "laplace"), (SPEC, "nll", "nll")):
        message = (
            rf"the fused engine trains 'nll', 'beta_nll', 'mse' with a mean and a raw variance as outputs; got the "
            rf"objective '{name}' with the head .*Head\(\); try engine='reference' or engine='torch'"
        )
        with pytest.raises(InvalidParameterError, match=message):
            get_engine("fused").train(jobs_of(spec, TrainingConfig(objective=objective), seeds), rows)


@pytest.mark.parametrize("engine", ["reference", "torch"])
def test_objective_and_head_must_have_the_same_outputs(rows: Rows, seeds: Seeds, engine: str) -> None:
    @dataclass(frozen=True)
    class ThreeOutputs(LaplaceHead):
        n_outputs: ClassVar[int] = 3

    if engine == "torch":
        pytest.importorskip("torch")
    with pytest.raises(InvalidParameterError, match=r"got 2 for the objective 'laplace' and 3 for .*ThreeOutputs\(\)"):
        get_engine(engine).train(jobs_of(replace(SPEC, head=ThreeOutputs()), CONFIG, seeds), rows)


def test_modules_have_the_usual_head(rows: Rows, seeds: Seeds) -> None:
    nn = pytest.importorskip("torch").nn
    with pytest.raises(InvalidParameterError, match="a module of your own has a mean and a raw variance as outputs"):
        TorchEngine(module=lambda n: nn.Linear(n, 2)).train(jobs_of(SPEC, CONFIG, seeds), rows)


@pytest.mark.parametrize("engine", ["reference", "torch"])
def test_a_regressor_takes_an_objective_of_your_own(rows: Rows, engine: str) -> None:
    if engine == "torch":
        pytest.importorskip("torch")
    quick = {"n_members": 2, "epochs": 30, "hidden_layer_sizes": (8,), "random_state": 0}
    model = bdkn.DeepEnsembleRegressor(**quick, objective=StudentT(), engine=engine).fit(rows.X, rows.y)
    usual = bdkn.DeepEnsembleRegressor(**quick, engine=engine).fit(rows.X, rows.y)
    assert np.isfinite(model.predict(rows.X)).all()
    assert not np.allclose(model.predict(rows.X), usual.predict(rows.X), rtol=1e-3)
