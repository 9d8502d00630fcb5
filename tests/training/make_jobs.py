"""Jobs for the tests of training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bdkn.data.rows import Rows
from bdkn.networks import Job, Networks, NetworkSpec, TrainingConfig, initial_networks
from bdkn.networks.job import JobRows, Streams, TrainingTable


def jobs_of(
    spec: NetworkSpec,
    config: TrainingConfig,
    seeds: Sequence[np.random.SeedSequence],
    rows: Sequence[np.ndarray | None] | None = None,
) -> list[Job]:
    """Return one job per seed, each on all rows or on those of its own."""
    own = [None] * len(seeds) if rows is None else rows
    return [Job(spec, config, seed, numbers) for seed, numbers in zip(seeds, own, strict=True)]


def split_of(n: int, fraction: float, seed: np.random.SeedSequence) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and the validation rows of a job on all of ``n`` rows."""
    config = TrainingConfig(validation_fraction=fraction)
    rows = JobRows.of(Job(NetworkSpec(n_inputs=1), config, seed), n)
    return rows.training, rows.validation


def start_networks(spec: NetworkSpec, seeds: Sequence[np.random.SeedSequence]) -> tuple[Networks, list[Streams]]:
    """Return the initial networks of jobs with these seeds, and their random streams."""
    streams = [Streams.of(seed) for seed in seeds]
    return initial_networks(spec, [stream.initial for stream in streams]), streams


def weights_of(rows: Rows) -> np.ndarray:
    """Return the weight of each row in training."""
    return TrainingTable.of(rows, jobs_of(NetworkSpec(n_inputs=rows.X.shape[1]), TrainingConfig(), [None])).weights  # type: ignore[list-item]
