"""The engine for GPUs: its programs, compiled for the CPU, and its fallbacks are compared with the reference.

Tests that need a GPU are skipped without one: ``pytest tests/training/test_gpu_engine.py`` on a machine with one.
"""

from __future__ import annotations

import gc
import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_gpu import Emulated
from fake_cuda import FakeDriver
from make_jobs import jobs_of

from bdkn import BDKNRegressor
from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError
from bdkn.kernels import code_cache
from bdkn.model import density
from bdkn.networks import (
    ACTIVATIONS,
    OBJECTIVES,
    SCHEDULES,
    Engine,
    EpochReport,
    Job,
    NetworkSpec,
    Task,
    Trained,
    TrainingConfig,
    get_engine,
)
from bdkn.networks.fused import FusedEngine
from bdkn.networks.gpu import cuda, launch
from bdkn.networks.gpu.cuda import PREDICT, NoDeviceError, Program
from bdkn.networks.gpu.engine import GPUEngine
from bdkn.networks.gpu.launch import LAYOUTS, PRECISIONS, SharedLayout, program_for, threads_for
from bdkn.networks.gpu.prediction import gpu_packing_of
from bdkn.networks.job import engine_for, train_tasks
from bdkn.networks.reference import ReferenceEngine
from bdkn.testing import check_engine
from bdkn.testing.engines import Check, engine_checks

Seeds = list[np.random.SeedSequence]
SPEC = NetworkSpec(n_inputs=3, hidden=(7, 5), activation="silu")
CONFIG = TrainingConfig(epochs=4, batch_size=16, learning_rate=0.01)
STOPPING = replace(CONFIG, epochs=20, learning_rate=0.03, validation_fraction=0.25, patience=2, tol=1e-3)

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="the emulation of a GPU needs g++")


def no_gpu() -> str:
    """Return why there is no GPU, an empty text if there is one."""
    try:
        cuda.find_cuda()
    except NoDeviceError as error:
        return str(error)
    return ""


NO_GPU = no_gpu()
needs_gpu = pytest.mark.skipif(bool(NO_GPU), reason=f"no GPU: {NO_GPU}")


def emulated(**options: Any) -> GPUEngine:
    return GPUEngine(Emulated(**options))


def assert_same(found: Trained, expected: Trained, rows: Rows, tolerance: float = 0.0) -> None:
    assert found.best_epochs == expected.best_epochs
    pairs = [
        *zip(found.loss_curves, expected.loss_curves, strict=True),
        *zip(found.validation_curves, expected.validation_curves, strict=True),
        *zip(found.networks.outputs(rows.X), expected.networks.outputs(rows.X), strict=True),
    ]
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.no_cover
@needs_compiler
@pytest.mark.parametrize(("name", "check"), engine_checks(), ids=lambda value: value if isinstance(value, str) else "")
def test_the_emulated_engine_conforms(name: str, check: Check) -> None:
    check(emulated(), 1e-4)


@needs_compiler
@pytest.mark.parametrize("config", [CONFIG, STOPPING], ids=["all epochs", "early stopping"])
@pytest.mark.parametrize("weighted", [True, False])
def test_every_activation_objective_schedule_and_decay_is_that_of_the_reference(
    rows: Rows, config: TrainingConfig, weighted: bool
) -> None:
    rows = rows if weighted else replace(rows, counts=None)
    ways = list(itertools.product(ACTIVATIONS, OBJECTIVES, SCHEDULES, (0.0, 0.5), (0, 2)))[weighted::3]
    jobs = [
        Job(
            replace(SPEC, activation=activation),
            replace(config, objective=objective, schedule=schedule, weight_decay=decay, warmup_epochs=warmup),
            np.random.SeedSequence(number),
        )
        for number, (activation, objective, schedule, decay, warmup) in enumerate(ways)
    ]
    assert_same(emulated().train(jobs, rows), ReferenceEngine().train(jobs, rows), rows, 1e-4)


@needs_compiler
@pytest.mark.parametrize("hidden", [(), (1,), (4,) * 9, (50, 50)], ids=str)
def test_every_depth_is_that_of_the_reference(rows: Rows, seeds: Seeds, hidden: tuple[int, ...]) -> None:
    jobs = jobs_of(replace(SPEC, hidden=hidden), CONFIG, seeds)
    assert_same(emulated().train(jobs, rows), ReferenceEngine().train(jobs, rows), rows, 1e-4)


@pytest.mark.no_cover
@needs_compiler
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("hidden", [(28,), (36, 36, 36), (50, 50)], ids=str)
def test_programs_for_one_width_give_the_numbers_of_the_reference(
    rows: Rows, seeds: Seeds, hidden: tuple[int, ...], precision: str
) -> None:
    jobs = jobs_of(replace(SPEC, hidden=hidden), replace(CONFIG, batch_size=32), seeds[:2])
    assert program_for(jobs[0], 32, precision, 64).macros[1:] == (f"WIDTH={hidden[0]}", "BATCH=32")
    found = GPUEngine(Emulated(), precision).train(jobs, rows)
    assert_same(found, ReferenceEngine().train(jobs, rows), rows, 1e-4)


def test_an_unknown_precision_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidParameterError, match=r"precision must be .*'float32'.*'tf32'.*got 'half'"):
        GPUEngine(precision="half")


@pytest.mark.parametrize(("n_networks", "kilobytes", "threads"), [(4, 90, 64), (5, 90, 32), (5, 120, 64)])
def test_networks_that_share_a_multiprocessor_have_half_of_the_threads(
    n_networks: int, kilobytes: int, threads: int
) -> None:
    assert threads_for(SharedLayout(2, False, 1024 * kilobytes), n_networks, Emulated()) == threads


@needs_compiler
@pytest.mark.parametrize("way", range(len(LAYOUTS)))
def test_the_layout_on_a_multiprocessor_does_not_change_the_numbers(
    rows: Rows, seeds: Seeds, way: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_of(SPEC, STOPPING, seeds)
    expected = emulated().train(jobs, rows)
    layout = SharedLayout.of(gpu_packing_of(SPEC), 16, 64, *LAYOUTS[way])
    monkeypatch.setattr("bdkn.networks.gpu.engine.layout_for", lambda *_: layout)
    assert_same(emulated().train(jobs, rows), expected, rows)


@needs_compiler
def test_several_launches_give_the_bits_of_one(rows: Rows, seeds: Seeds, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [*jobs_of(SPEC, replace(CONFIG, epochs=9), seeds), *jobs_of(SPEC, STOPPING, seeds)]
    expected = emulated().train(jobs, rows)
    monkeypatch.setattr(launch, "_ORDER_BYTES", 4 * 2 * 6 * len(rows))
    monkeypatch.setattr(launch, "_FIRST_BYTES", 1)
    assert_same(emulated().train(jobs, rows), expected, rows)


def several_tasks(rows: Rows) -> list[Task]:
    """Return tasks whose tables have different columns, two of them with jobs of one shape."""
    tables = [rows, Rows(rows.X[:, :2].copy(), rows.y), Rows(rows.X[:60].copy(), rows.y[:60])]
    configs = [CONFIG, STOPPING, replace(CONFIG, epochs=6)]
    seeds = np.random.SeedSequence(3).spawn(5)
    shapes = [replace(SPEC, n_inputs=table.X.shape[1]) for table in tables]
    counts = [2, 1, 2]
    return [
        Task(jobs_of(shape, config, seeds[:count]), len(table), lambda table=table: table)  # type: ignore[misc]
        for shape, config, count, table in zip(shapes, configs, counts, tables, strict=True)
    ]


@needs_compiler
def test_tasks_are_trained_at_once_as_they_are_one_by_one(rows: Rows) -> None:
    tasks, reports = several_tasks(rows), list[EpochReport]()
    for engine in (emulated(), ReferenceEngine()):
        reports.clear()
        together = train_tasks(engine, tasks, on_epoch=reports.append)
        for task, found in zip(tasks, together, strict=True):
            assert_same(found, engine.train(task.jobs, task.rows()), task.rows())
        curves = [curve for found in together for curve in found.loss_curves]
        for number, curve in enumerate(curves):
            own = [report for report in reports if report.job == number]
            assert [report.epoch for report in own] == list(range(len(curve)))
            assert [report.is_last for report in own] == [False] * (len(curve) - 1) + [True]
            np.testing.assert_array_equal([report.loss for report in own], curve)


@needs_compiler
def test_a_table_is_made_when_it_is_needed_and_not_kept(rows: Rows) -> None:
    made: list[int] = []

    def table() -> Rows:
        made.append(1)
        return rows

    emulated().train_many([Task(jobs_of(SPEC, CONFIG, np.random.SeedSequence(0).spawn(2)), len(rows), table)] * 2)
    assert len(made) == 2


@needs_compiler
def test_too_little_memory_for_all_networks_at_once_means_several_parts(rows: Rows) -> None:
    tasks = several_tasks(rows)
    expected = emulated().train_many(tasks)
    reports: list[EpochReport] = []
    found = emulated(memory=4 * 2 * len(rows) * 3).train_many(tasks, on_epoch=reports.append)
    for mine, theirs, task in zip(found, expected, tasks, strict=True):
        assert_same(mine, theirs, task.rows())
    assert {report.job for report in reports} == set(range(5))


@needs_compiler
def test_too_little_memory_for_one_network_means_the_cpu(rows: Rows, seeds: Seeds) -> None:
    jobs = jobs_of(SPEC, CONFIG, seeds)
    with pytest.warns(UserWarning, match="3 networks trained on the CPU instead: .* too little memory, even for one"):
        found = emulated(memory=100).train(jobs, rows)
    assert_same(found, FusedEngine().train(jobs, rows), rows)


@needs_compiler
def test_a_network_too_large_for_a_multiprocessor_is_trained_elsewhere(rows: Rows, seeds: Seeds) -> None:
    small, large = SPEC, replace(SPEC, hidden=(60, 60))
    jobs = [*jobs_of(small, CONFIG, seeds), *jobs_of(large, CONFIG, seeds[:1]), *jobs_of(small, CONFIG, seeds[:1])]
    reports: list[EpochReport] = []
    with pytest.warns(UserWarning, match=r"1 network trained on the CPU .* 3-60-60-2 .* needs 74 KB .* has 20 KB"):
        found = emulated(shared_bytes=20 * 1024).train(jobs, rows, watch=rows.X[:5], on_epoch=reports.append)
    assert_same(found, ReferenceEngine().train(jobs, rows), rows, 1e-4)
    assert [sum(report.job == number for report in reports) for number in range(5)] == [4] * 5
    assert all(report.mean is not None and report.mean.shape == (5,) for report in reports)


@needs_compiler
def test_pytorch_trains_what_does_not_fit_if_it_sees_the_device(
    rows: Rows, seeds: Seeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    device = Emulated(shared_bytes=1024)
    monkeypatch.setattr(device, "torch_name", "cpu", raising=False)
    monkeypatch.setattr("bdkn.networks.gpu.engine._torch_sees_cuda", lambda: True)
    jobs = jobs_of(SPEC, CONFIG, seeds)
    assert_same(GPUEngine(device).train(jobs, rows), ReferenceEngine().train(jobs, rows), rows, 1e-4)

    def full(*_: Any, **__: Any) -> Trained:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    monkeypatch.setattr("bdkn.networks.torch_engine.TorchEngine.train", full)
    with pytest.warns(UserWarning, match="PyTorch: CUDA out of memory. Tried to allocate 2 GiB$"):
        GPUEngine(device).train(jobs, rows)


@pytest.fixture
def without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(number: int = 0) -> None:
        raise NoDeviceError('the Python bindings of CUDA are not installed; run: pip install "bdkn[gpu]"')

    monkeypatch.setattr(cuda, "find_cuda", find)


@pytest.mark.usefixtures("without_cuda")
def test_without_cuda_the_cpu_trains_the_networks_of_the_fused_engine(rows: Rows, seeds: Seeds) -> None:
    jobs = jobs_of(SPEC, CONFIG, seeds)
    with pytest.warns(
        UserWarning, match=r'trained on the CPU instead: .* not installed; run: pip install "bdkn\[gpu\]"'
    ):
        found = get_engine("gpu").train(jobs, rows, watch=rows.X, on_epoch=lambda report: None)
    assert_same(found, FusedEngine().train(jobs, rows), rows)


@pytest.mark.usefixtures("without_cuda")
def test_the_automatic_choice_without_cuda_has_the_bits_of_the_fused_engine(rows: Rows) -> None:
    table = rows.X.astype(np.float64)
    settings: dict[str, Any] = {"n_members": 2, "cv": 2, "epochs": 2, "random_state": 0, "density": "student-t"}
    first, second = (BDKNRegressor(**settings, engine=name).fit(table, rows.y) for name in ("auto", "fused"))
    np.testing.assert_array_equal(first.predict(table), second.predict(table))


def choice(n_networks: int, epochs: int) -> tuple[Engine, str]:
    spec, config = NetworkSpec(n_inputs=8, hidden=(50, 50)), TrainingConfig(epochs=epochs)
    jobs = [Job(spec, config, np.random.SeedSequence(0))] * n_networks
    return engine_for("auto", [Task(jobs, 7373, lambda: pytest.fail("no table is needed"))], 1)


class Large:
    """The properties of a device that the choice depends on."""

    name, multiprocessors = "a large GPU", 132


def test_the_automatic_choice_follows_the_size_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "find_cuda", Large)
    engine, place = choice(50, 100)
    assert isinstance(engine, GPUEngine)
    assert place == "on a large GPU"
    assert isinstance(choice(50, 1)[0], FusedEngine)
    assert choice(1, 3000)[1] == "on the CPU (faster for this size)"


@pytest.mark.usefixtures("without_cuda")
def test_the_automatic_choice_without_cuda_is_the_fused_engine_and_states_the_reason() -> None:
    engine, place = choice(50, 100)
    assert isinstance(engine, FusedEngine)
    assert place.startswith("on the CPU (the Python bindings of CUDA are not installed")


@pytest.mark.usefixtures("without_cuda")
def test_verbose_prints_the_device_of_training(rows: Rows, capfd: pytest.CaptureFixture[str]) -> None:
    model = BDKNRegressor(n_members=2, cv=2, epochs=2, density="student-t", engine="auto", verbose=1)
    model.fit(rows.X.astype(np.float64), rows.y)
    assert "trained 4 networks on the CPU" in " ".join(capfd.readouterr().err.split())


@needs_compiler
def test_a_regressor_is_that_of_the_fused_engine_up_to_rounding(rows: Rows) -> None:
    X = rows.X.astype(np.float64)
    settings: dict[str, Any] = {"n_members": 3, "cv": 2, "epochs": 5, "random_state": 0, "density": "student-t"}
    mine, theirs = (BDKNRegressor(**settings, engine=e).fit(X, rows.y) for e in (emulated(), "fused"))
    np.testing.assert_allclose(mine.predict(X), theirs.predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.no_cover
@needs_compiler
@pytest.mark.parametrize("unneeded", [{"density": "student-t"}, {"design": "hold-out"}], ids=str)
def test_no_forest_is_grown_that_is_not_needed(unneeded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density, "grow_forest", lambda *_, **__: pytest.fail("a forest is grown"))
    X = np.linspace(0.0, 1.0, 300)[:, None]
    model = BDKNRegressor(n_members=2, epochs=2, random_state=0, engine=emulated(), **unneeded)
    assert model.fit(X, X[:, 0] + np.arange(300) % 2).density_ is None


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeDriver]:
    """Return a function that replaces the bindings of CUDA by a stand-in."""

    def install(**options: Any) -> FakeDriver:
        driver = FakeDriver(Emulated(), **options)
        monkeypatch.setattr(cuda, "_found", {})
        monkeypatch.setattr(cuda, "_driver", lambda: driver)
        monkeypatch.setattr(cuda, "machine_code", lambda architecture, program: program)
        monkeypatch.setattr(cuda.Cuda, "threads", driver.emulated.threads)
        return driver

    return install


@needs_compiler
def test_calls_of_cuda_train_networks_and_free_all_memory(
    rows: Rows, seeds: Seeds, fake: Callable[..., FakeDriver]
) -> None:
    driver, jobs = fake(), jobs_of(SPEC, STOPPING, seeds)
    free = driver.free
    found = get_engine("gpu").train(jobs, rows)
    assert driver.waits > 0
    assert driver.free == free
    assert_same(found, emulated().train(jobs, rows), rows)


@needs_compiler
def test_calls_on_threads_share_a_device(rows: Rows, fake: Callable[..., FakeDriver]) -> None:
    driver = fake()
    free, tasks = driver.free, several_tasks(rows)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: get_engine("gpu").train(tasks[1].jobs, tasks[1].rows()), range(4)))
    for trained in found:
        assert_same(trained, found[0], tasks[1].rows())
    assert driver.free == free


@pytest.mark.no_cover
@needs_compiler
def test_a_hook_that_raises_ends_the_training_and_frees_all_memory(
    rows: Rows, seeds: Seeds, fake: Callable[..., FakeDriver]
) -> None:
    driver = fake()
    free = driver.free

    def stop(report: EpochReport) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get_engine("gpu").train(jobs_of(SPEC, CONFIG, seeds), rows, on_epoch=stop)
    gc.collect()  # the error holds what was in use
    assert driver.free == free


@needs_compiler
def test_errors_of_cuda_become_reasons(rows: Rows, seeds: Seeds, fake: Callable[..., FakeDriver]) -> None:
    jobs = jobs_of(SPEC, CONFIG, seeds)
    fake(memory=1000)
    with pytest.warns(UserWarning, match="the GPU has too little memory .CUDA_ERROR_OUT_OF_MEMORY., even for one"):
        get_engine("gpu").train(jobs, rows)
    fake(devices=0)
    with pytest.warns(UserWarning, match="on the CPU instead: there is no CUDA device$"):
        get_engine("gpu").train(jobs, rows)
    fake(devices=2)
    with pytest.raises(InvalidParameterError, match="device must be the number of a CUDA device, from 0 to 1; got 2"):
        GPUEngine(device=2).train(jobs, rows)


def test_neither_cuda_nor_torch_is_imported_before_it_is_used() -> None:
    engines = {"gpu": "GPUEngine(device=0, precision='float32')"}
    if find_spec("torch") is not None:
        engines["torch"] = "TorchEngine(device='cpu', module=None, dtype=None)"
    script = (
        f"import sys, bdkn; from bdkn.networks import get_engine; print(*map(get_engine, {[*engines]}), sep='\\n');"
        "print([name for name in sys.modules if name.partition('.')[0] in ('cuda', 'torch')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*engines.values(), "[]"]


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep compiled programs in a folder of the test."""
    monkeypatch.setattr(code_cache, "readable", lambda: iter([tmp_path]))
    monkeypatch.setattr(code_cache, "write_first", lambda write: write(tmp_path))
    return tmp_path


def test_programs_are_compiled_for_a_device_without_having_one(own_folder: Path) -> None:
    try:
        cuda._nvrtc()
    except NoDeviceError as error:
        pytest.skip(str(error))
    for program in [PREDICT, Program("train"), Program("train", ("TF32=1", "WIDTH=36", "BATCH=32"))]:
        for architecture in ("sm_75", "sm_90"):
            assert program.name.encode() in cuda.machine_code(architecture, program)
    with pytest.raises(NoDeviceError, match="NVRTC cannot compile for this GPU: nvrtc: error: invalid value"):
        cuda.machine_code("sm_1", PREDICT)


class FakeCompiler:
    """A stand-in for NVRTC; each compilation gives another code."""

    def __init__(self) -> None:
        self.compiled = 0

    def nvrtcVersion(self) -> tuple[int, int, int]:
        return 0, 13, 0

    def nvrtcCreateProgram(self, *_: Any) -> tuple[int, str]:
        return 0, "program"

    def nvrtcCompileProgram(self, *_: Any) -> tuple[int]:
        self.compiled += 1
        return (0,)

    def nvrtcGetCUBINSize(self, program: str) -> tuple[int, int]:
        return 0, 7 + self.compiled

    def nvrtcGetCUBIN(self, program: str, code: bytes) -> None:
        """Do not change the code, which is blank."""


def test_compiled_programs_are_kept_on_disk_unless_they_are_damaged(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    compiler = FakeCompiler()
    monkeypatch.setattr(cuda, "_nvrtc", lambda: compiler)
    first = cuda.machine_code("sm_90", PREDICT)
    assert "compiling a program for this GPU" in capfd.readouterr().err
    assert cuda.machine_code("sm_90", PREDICT) == first
    assert cuda.machine_code("sm_86", PREDICT) != first
    assert cuda.machine_code("sm_90", replace(PREDICT, threads=64)) != first
    assert compiler.compiled == 3
    for file in own_folder.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert cuda.machine_code("sm_90", PREDICT) != first
    assert compiler.compiled == 4


@needs_gpu
def test_the_engine_conforms_on_a_gpu() -> None:
    check_engine(GPUEngine(), tolerance=1e-3)


@needs_gpu
def test_a_gpu_gives_the_numbers_of_the_reference(rows: Rows) -> None:
    tasks = several_tasks(rows)
    for mine, theirs, task in zip(
        train_tasks(GPUEngine(), tasks), train_tasks(ReferenceEngine(), tasks), tasks, strict=True
    ):
        assert_same(mine, theirs, task.rows(), 1e-3)
