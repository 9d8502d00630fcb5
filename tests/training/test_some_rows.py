"""A network trained on some rows of a table is the network trained on those rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from make_jobs import jobs_of

from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError
from bdkn.networks import Engine, Job, NetworkSpec, Trained, TrainingConfig, get_engine

Seeds = list[np.random.SeedSequence]
SPEC = NetworkSpec(n_inputs=3, hidden=(8,), activation="tanh")
CONFIGS = {
    "plain": TrainingConfig(epochs=6, batch_size=16, learning_rate=0.02, weight_decay=0.1),
    "early stopping": TrainingConfig(
        epochs=60, batch_size=16, learning_rate=0.02, validation_fraction=0.25, patience=2, tol=1e-2
    ),
}
OWN = [np.sort(np.random.default_rng(h).permutation(83)[: 60 + h]) for h in range(3)]
"""Other rows for each of three jobs, and another number of them."""


@pytest.fixture(params=["fused", "reference", "torch"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "torch":
        pytest.importorskip("torch")
    return get_engine(str(request.param))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("weighted", [True, False])
def test_other_rows_have_no_influence(
    rows: Rows, seeds: Seeds, engine: Engine, config: TrainingConfig, weighted: bool
) -> None:
    counts = np.r_[np.tile([0.5, 1.5], 41), 1.0] if weighted else None
    rows = replace(rows, counts=counts)
    pairs = [np.unique(numbers[numbers < 82] // 2) for numbers in OWN]
    own = [np.sort(np.r_[2 * pair, 2 * pair + 1]) for pair in pairs]  # of mean count 1, as the whole table is
    together = engine.train(jobs_of(SPEC, config, seeds, own), rows)
    assert len(together.networks) == len(together.loss_curves) == len(together.best_epochs) == 3
    for h, numbers in enumerate(own):
        alone = engine.train(jobs_of(SPEC, config, [seeds[h]]), rows[numbers])
        assert_same(together, h, alone, rows)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16])
def test_row_numbers_may_be_of_any_integer_type_and_stay_as_they_are(
    rows: Rows, seeds: Seeds, engine: Engine, dtype: type[np.integer]
) -> None:
    numbers = OWN[0].astype(dtype)
    numbers.flags.writeable = False
    trained = engine.train(jobs_of(SPEC, CONFIGS["plain"], seeds[:1], [numbers]), rows)
    assert_same(engine.train(jobs_of(SPEC, CONFIGS["plain"], seeds[:1], [OWN[0]]), rows), 0, trained, rows)
    np.testing.assert_array_equal(numbers, OWN[0])


def test_other_rows_may_have_any_values(rows: Rows, seeds: Seeds, engine: Engine) -> None:
    X, y = rows.X.copy(), rows.y.copy()
    X[70:], y[70:] = np.nan, np.inf
    jobs = jobs_of(SPEC, CONFIGS["early stopping"], seeds, [np.arange(70)] * 3)
    clean, dirty = engine.train(jobs, rows), engine.train(jobs, Rows(X, y, rows.counts))
    for a, b in zip(clean.networks.outputs(rows.X), dirty.networks.outputs(rows.X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_target_beyond_single_precision_diverges_silently(rows: Rows, seeds: Seeds, engine: Engine) -> None:
    y = rows.y.copy()
    y[3] = 1e300
    trained = engine.train(jobs_of(SPEC, CONFIGS["plain"], seeds), replace(rows, y=y))
    assert not trained.networks.is_finite().any()


@pytest.mark.parametrize("numbers", [[-1, 2], [0, 83], [], [0.0, 1.0], [[0, 1]], [True, False]], ids=repr)
def test_row_numbers_must_be_in_the_table(rows: Rows, seeds: Seeds, engine: Engine, numbers: list[object]) -> None:
    with pytest.raises(InvalidParameterError, match="must be a list of row numbers from 0 to 82; got"):
        engine.train(jobs_of(SPEC, CONFIGS["plain"], seeds[:1], [np.array(numbers)]), rows)


def test_rows_and_jobs_must_fit(rows: Rows, seeds: Seeds, engine: Engine) -> None:
    jobs = jobs_of(SPEC, CONFIGS["plain"], seeds)
    for X in (np.asfortranarray(rows.X), rows.X.astype(np.float64), rows.X[0], rows.X.tolist()):
        with pytest.raises(InvalidParameterError, match="needs rows whose X is a C-contiguous float32 array"):
            engine.train(jobs, Rows(X, rows.y))
    with pytest.raises(InvalidParameterError, match=r"one input per column of X, which has 3; got n_inputs=4 in job 1"):
        engine.train([jobs[0], replace(jobs[1], spec=replace(SPEC, n_inputs=4))], rows)
    with pytest.raises(InvalidParameterError, match=r"jobs must hold at least one job; got none"):
        engine.train([], rows)


def test_jobs_may_differ_in_everything(rows: Rows, seeds: Seeds, engine: Engine) -> None:
    jobs = [
        Job(
            replace(SPEC, activation=activation, hidden=hidden), replace(CONFIGS["plain"], epochs=epochs), seeds[h], own
        )
        for h, activation, hidden, epochs, own in (
            (0, "silu", (8,), 6, OWN[0]),
            (1, "relu", (5, 4), 6, None),
            (2, "silu", (8,), 4, OWN[2]),
            (0, "relu", (8,), 6, OWN[0]),
        )
    ]
    together = engine.train(jobs, rows)
    for h, job in enumerate(jobs):
        assert_same(together, h, engine.train([job], rows), rows)


def assert_same(together: Trained, h: int, alone: Trained, rows: Rows) -> None:
    np.testing.assert_array_equal(together.loss_curves[h], alone.loss_curves[0])
    np.testing.assert_array_equal(together.validation_curves[h], alone.validation_curves[0])
    assert together.best_epochs[h] == alone.best_epochs[0]
    for mine, theirs in zip(together.networks.outputs(rows.X), alone.networks.outputs(rows.X), strict=True):
        np.testing.assert_array_equal(mine[h], theirs[0])
