"""A network trained on some rows of a table is the network trained on those rows alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bdkn.networks import NetworkSpec
from bdkn.training import ENGINES, Rows, Trained, TrainingConfig, get_engine

Seeds = list[np.random.SeedSequence]
SPEC = NetworkSpec(n_inputs=3, hidden=(8,), activation="tanh")
CONFIGS = {
    "plain": TrainingConfig(epochs=6, batch_size=16, learning_rate=0.02, weight_decay=0.1),
    "early stopping": TrainingConfig(
        epochs=60, batch_size=16, learning_rate=0.02, validation_fraction=0.25, patience=2, tol=1e-2
    ),
}
ONLY = [np.sort(np.random.default_rng(h).permutation(83)[: 60 + h]) for h in range(3)]
"""Other rows for each of three networks, and another number of them."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "torch":
        pytest.importorskip("torch")
    return str(request.param)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("weighted", [True, False])
def test_the_others_are_as_if_they_were_not_there(
    rows: Rows, seeds: Seeds, engine: str, config: TrainingConfig, weighted: bool
) -> None:
    rows = rows if weighted else replace(rows, weight=None)
    together = get_engine(engine).train(SPEC, replace(rows, only=ONLY), config, seeds)
    assert len(together.networks) == len(together.loss_curves) == len(together.best_epochs) == 3
    for h, only in enumerate(ONLY):
        weight = None if rows.weight is None else rows.weight[only]
        alone = get_engine(engine).train(SPEC, Rows(rows.X[only], rows.y[only], weight), config, [seeds[h]])
        assert_same(together, h, alone, rows)


def test_rows_left_out_may_hold_anything(rows: Rows, seeds: Seeds, engine: str) -> None:
    config = CONFIGS["early stopping"]
    only = [np.arange(70)] * 3
    X, y = rows.X.copy(), rows.y.copy()
    X[70:], y[70:] = np.nan, np.inf
    clean, dirty = (
        get_engine(engine).train(SPEC, Rows(x, t, rows.weight, only), config, seeds)
        for x, t in ((rows.X, rows.y), (X, y))
    )
    for a, b in zip(clean.networks.outputs(rows.X), dirty.networks.outputs(rows.X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_rows_of_a_network_as_a_table(rows: Rows) -> None:
    assert rows.taken(1) is rows
    taken = replace(rows, only=ONLY).taken(1)
    np.testing.assert_array_equal(taken.X, rows.X[ONLY[1]])
    np.testing.assert_array_equal(taken.y, rows.y[ONLY[1]])
    assert rows.weight is not None
    assert taken.weight is not None
    np.testing.assert_array_equal(taken.weight, rows.weight[ONLY[1]])
    assert taken.only is None


def assert_same(together: Trained, h: int, alone: Trained, rows: Rows) -> None:
    np.testing.assert_array_equal(together.loss_curves[h], alone.loss_curves[0])
    np.testing.assert_array_equal(together.validation_curves[h], alone.validation_curves[0])
    assert together.best_epochs[h] == alone.best_epochs[0]
    for mine, theirs in zip(together.networks.outputs(rows.X), alone.networks.outputs(rows.X), strict=True):
        np.testing.assert_array_equal(mine[h], theirs[0])
