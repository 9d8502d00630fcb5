"""Networks predict the same on a device, here an emulated one, as on the CPU, up to rounding."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
from emulated_gpu import Emulated

from bdkn import BDKNRegressor, DeepEnsembleRegressor
from bdkn.networks import ACTIVATIONS, EncodedNetworks, NetworkSpec, PiecewiseLinear, Predictor, initial_networks, join
from bdkn.networks.gpu import cuda, prediction
from bdkn.networks.gpu.cuda import PREDICT, NoDeviceError, Program
from bdkn.networks.gpu.engine import GPUEngine
from bdkn.networks.mlp import predict_on

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="the emulation of a GPU needs g++")
TOLERANCE = 1e-5
SMALL: dict[str, Any] = {"n_members": 2, "cv": 2, "epochs": 3, "random_state": 0, "density": "student-t"}


def table(n: int, p: int = 3) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, p)).astype(np.float32)


def networks(n_inputs: int, hidden: tuple[int, ...], activation: str = "silu") -> Predictor:
    spec = NetworkSpec(n_inputs=n_inputs, hidden=hidden, activation=activation)
    return initial_networks(spec, [np.random.default_rng(number) for number in range(3)])


def encoded(hidden: tuple[int, ...]) -> Predictor:
    encoding = PiecewiseLinear.fit(table(200), 5)
    return EncodedNetworks(encoding, networks(3 + len(encoding), hidden))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the device for any number of rows."""
    monkeypatch.setattr(prediction, "_MIN_PRODUCTS", 0.0)


def launches(device: Emulated, monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Return a list of the programs that the device launches."""
    seen: list[Program] = []
    launch = device.launch

    def counted(queue: None, program: Program, *rest: Any) -> None:
        seen.append(program)
        launch(queue, program, *rest)

    monkeypatch.setattr(device, "launch", counted)
    return seen


@pytest.mark.no_cover
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("n", [1, 7, 200])
@pytest.mark.parametrize(
    "given",
    [
        *(networks(3, (9, 6), activation) for activation in ACTIVATIONS),
        networks(3, ()),
        networks(3, (36,) * 5),
        encoded((9,)),
        join([networks(3, (9,)), encoded((4, 4)), networks(3, (9,))]),
    ],
    ids=[*ACTIVATIONS, "linear", "deep", "bins", "mixed"],
)
def test_outputs_are_those_of_the_cpu(given: Predictor, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, device = table(n), Emulated(shared_bytes=40_000)
    X[0] = [9.0, -9.0, 0.0]
    seen, expected = launches(device, monkeypatch), given.outputs(X)
    with predict_on(device):
        found = given.outputs(X)
    assert set(seen) == {PREDICT}
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == np.float64
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.usefixtures("always")
def test_many_rows_are_predicted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    given, X, device = networks(3, (9, 6)), table(50), Emulated()
    with predict_on(device):
        expected = given.outputs(X)
        monkeypatch.setattr(prediction, "_MAX_OUTPUTS", 21)
        seen = launches(device, monkeypatch)
        np.testing.assert_array_equal(given.outputs(X), expected)
    assert len(seen) == 8


def test_few_rows_and_large_networks_stay_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    X, device = table(50), Emulated(shared_bytes=4000)
    seen, small, large = launches(device, monkeypatch), networks(3, (9, 6)), networks(3, (60, 60))
    with predict_on(device):
        np.testing.assert_array_equal(small.outputs(X), networks(3, (9, 6)).outputs(X))
        monkeypatch.setattr(prediction, "_MIN_PRODUCTS", 0.0)
        large.outputs(X)
    assert seen == []


@pytest.mark.usefixtures("always")
def test_too_little_memory_means_the_cpu() -> None:
    given, X = networks(3, (9, 6)), table(50)
    expected = given.outputs(X)
    with (
        predict_on(Emulated(memory=20)),
        pytest.warns(UserWarning, match="predicted on the CPU instead: the emulated GPU has too little memory"),
    ):
        np.testing.assert_array_equal(given.outputs(X), expected)


@pytest.mark.no_cover
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("cls", [BDKNRegressor, DeepEnsembleRegressor])
def test_a_regressor_predicts_where_its_engine_trains(cls: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X, device = table(60).astype(np.float64), Emulated()
    seen = launches(device, monkeypatch)
    names = SMALL if cls is BDKNRegressor else ("n_members", "epochs", "random_state")
    settings = {name: SMALL[name] for name in names}
    model = cls(**settings, engine=GPUEngine(device)).fit(X, X[:, 0])
    seen.clear()
    found = model.predict(X)
    assert set(seen) == {PREDICT}
    seen.clear()
    expected = model.set_params(engine="fused").predict(X)
    assert seen == []
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("engine", ["gpu", "auto"])
def test_without_a_gpu_the_cpu_predicts(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(number: int = 0) -> None:
        raise NoDeviceError("there is no CUDA device")

    monkeypatch.setattr(cuda, "find_cuda", none)
    X = table(60).astype(np.float64)
    model = BDKNRegressor(**SMALL).fit(X, X[:, 0])
    expected = model.predict(X)
    np.testing.assert_array_equal(model.set_params(engine=engine).predict(X), expected)
