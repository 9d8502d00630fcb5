"""Early stopping, epoch by epoch, with artificial losses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.networks import Networks, NetworkSpec, TrainingConfig, initial_networks
from bdkn.networks.job import Progress
from bdkn.networks.reference import chosen_layers

NAN = float("nan")
NETWORKS = initial_networks(NetworkSpec(n_inputs=2), [np.random.default_rng(0)])


def play(losses: list[float], **config: float) -> tuple[int, int, int]:
    """Return (epochs run, best epoch, epoch last remembered) of one member with these validation losses."""
    progress = Progress([0], TrainingConfig(epochs=len(losses), validation_fraction=0.1, **config))  # type: ignore[arg-type]
    remembered = -1
    for epoch in progress:
        if progress.record(epoch, np.zeros(1), np.array([losses[epoch]]), NETWORKS.outputs)[0]:
            remembered = epoch
    trained = progress.trained(NETWORKS)
    return len(trained.validation_curves[0]), trained.best_epochs[0], remembered


@pytest.mark.parametrize(
    ("losses", "config", "expected"),
    [
        ([3, 2, 1], {"patience": 1}, (3, 2)),
        ([3, 4, 2, 2, 2], {"patience": 1}, (2, 0)),
        ([3, 4, 2, 5, 5, 5], {"patience": 2}, (5, 2)),
        ([3, 2.9, 2.8, 2.4, 0], {"patience": 2, "tol": 0.5}, (3, 0)),
        ([3, 2.9, 2.4, 2.3, 2.3], {"patience": 2, "tol": 0.5}, (5, 2)),
        ([3, 2.5, 2.5], {"patience": 2, "tol": 0.5}, (3, 0)),
        ([0, 0, 3, 4, 4, 4], {"patience": 2, "warmup_epochs": 2}, (5, 2)),
        ([NAN, NAN, 3, NAN, NAN, 1], {"patience": 2}, (2, 1)),
        ([NAN, 3, NAN, NAN, 1], {"patience": 2}, (4, 1)),
        ([NAN] * 6, {"patience": 2, "warmup_epochs": 3}, (5, 4)),
        ([NAN] * 6, {"patience": 20}, (6, 5)),
        ([float("inf")] * 6, {"patience": 3}, (3, 2)),
        ([5, 4, 3], {"patience": 20, "warmup_epochs": 9}, (3, 2)),
    ],
)
def test_examples_of_early_stopping(losses: list[float], config: dict[str, float], expected: tuple[int, int]) -> None:
    run, best, remembered = play(losses, **config)
    assert (run, best) == expected
    assert remembered == best, "the weights returned are those of the best epoch"


@given(
    losses=st.lists(st.floats(-5, 5) | st.just(NAN), min_size=1, max_size=40),
    patience=st.integers(1, 10),
    warmup=st.integers(0, 10),
)
def test_the_best_epoch_is_kept_and_patience_is_respected(losses: list[float], patience: int, warmup: int) -> None:
    run, best, remembered = play(losses, patience=patience, warmup_epochs=warmup, tol=0)
    assert remembered == best
    counted = [np.inf if np.isnan(loss) else loss for loss in losses[warmup:run]]
    if min(counted, default=np.inf) < np.inf:
        assert losses[best] == min(counted)
        assert run - 1 - best <= patience
    else:
        assert best == run - 1
        assert run <= warmup + patience


def test_members_stop_one_by_one_and_are_no_longer_reported() -> None:
    curves = np.array([[1.0, 2, 2, 2, 2], [1, 0.5, 0, 2, 2], [5, 4, 3, 2, 1]])
    reports: list[tuple[int, int]] = []
    config = TrainingConfig(epochs=5, validation_fraction=0.1, patience=2)
    progress = Progress([4, 5, 6], config, on_epoch=lambda report: reports.append((report.job, report.epoch)))
    for epoch in progress:
        progress.record(epoch, np.zeros(3), curves[:, epoch], NETWORKS.outputs)
    assert progress.trained(NETWORKS).best_epochs == (0, 2, 4)
    assert [[epoch for member, epoch in reports if member == m] for m in (4, 5, 6)] == [
        [0, 1, 2],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4],
    ]


def test_outputs_are_computed_only_for_a_hook_with_watched_rows() -> None:
    def refuse(X: object) -> tuple[np.ndarray, np.ndarray]:
        raise AssertionError("no rows are watched")

    watch = np.zeros((1, 2), dtype=np.float32)
    for progress in (
        Progress([0], TrainingConfig(epochs=1), watch, None),
        Progress([0], TrainingConfig(epochs=1), None, lambda report: None),
    ):
        progress.record(0, np.zeros(1), None, refuse)
    with pytest.raises(AssertionError, match="no rows are watched"):
        Progress([0], TrainingConfig(epochs=1), watch, lambda report: None).record(0, np.zeros(1), None, refuse)


def test_chosen_layers_mix_members() -> None:
    spec = NetworkSpec(n_inputs=2, hidden=(3,))
    new, old = (initial_networks(spec, [np.random.default_rng((i, h)) for h in range(3)]) for i in range(2))
    mixed = Networks(spec, chosen_layers(np.array([True, False, True]), new.layers, old.layers))
    for h, source in enumerate((new, old, new)):
        assert same(mixed[[h]], source[[h]])
    assert not same(mixed[[1]], new[[1]])


def same(a: Networks, b: Networks) -> bool:
    return all(np.array_equal(p, q) for x, y in zip(a.layers, b.layers, strict=True) for p, q in zip(x, y, strict=True))
