from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from make_jobs import jobs_of, split_of
from scipy import stats

from bdkn.kernels.dense import shuffle
from bdkn.networks import NetworkSpec, TrainingConfig
from bdkn.networks.job import Batches, JobRows, Streams

STATES = st.integers(0, 2**64 - 1)
WORD = 2**64 - 1


def shuffle_in_python(order: list[int], state: int) -> int:
    """SplitMix64 and Fisher-Yates as they are defined, on Python's unbounded integers."""
    for i in range(len(order) - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) & WORD
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        z ^= z >> 31
        j = ((z >> 32) * (i + 1)) >> 32
        order[i], order[j] = order[j], order[i]
    return state


@given(n=st.integers(0, 300), state=STATES)
def test_shuffle_is_its_definition(n: int, state: int) -> None:
    order, slow = np.arange(n, dtype=np.int32), list(range(n))
    for _ in range(3):
        state_after = shuffle(order, np.uint64(state))
        state = shuffle_in_python(slow, state)
        assert int(state_after) == state
        assert order.tolist() == slow


@given(rows=st.lists(st.integers(0, 2**31 - 1), max_size=200), state=STATES)
def test_shuffle_is_a_permutation(rows: list[int], state: int) -> None:
    order = np.array(rows, dtype=np.int32)
    shuffle(order, np.uint64(state))
    assert sorted(order.tolist()) == sorted(rows)


def test_all_permutations_are_equally_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    order, state = np.arange(4, dtype=np.int32), np.uint64(12345)
    for _ in range(24_000):
        state = np.uint64(shuffle(order, state))
        counts[tuple(order)] = counts.get(tuple(order), 0) + 1
    assert len(counts) == 24
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_every_row_comes_everywhere_equally_often() -> None:
    counts = np.zeros((10, 10))
    state = np.uint64(99)
    for _ in range(10_000):
        order = np.arange(10, dtype=np.int32)
        state = np.uint64(shuffle(order, state))
        counts[np.arange(10), order] += 1
    assert stats.chi2.sf(((counts - 1000) ** 2 / 1000).sum(), 81) > 1e-3


def test_streams_repeat_and_do_not_change_the_seed() -> None:
    seed = np.random.SeedSequence(3).spawn(2)[1]
    first, second = Streams.of(seed), Streams.of(seed)
    assert seed.n_children_spawned == 0
    assert first.order == second.order
    assert first.initial.random() == second.initial.random()
    assert first.split.random() == second.split.random()


def test_streams_of_members_differ() -> None:
    streams = [Streams.of(seed) for seed in np.random.SeedSequence(3).spawn(50)]
    assert len({stream.order for stream in streams}) == 50
    draws = [generator.random() for stream in streams for generator in (stream.initial, stream.split)]
    assert len(set(draws)) == 100


@given(n=st.integers(2, 200), fraction=st.floats(0.001, 0.9), seed=st.integers(0, 1000))
def test_split_parts_the_rows(n: int, fraction: float, seed: int) -> None:
    training, validation = split_of(n, fraction, np.random.SeedSequence(seed))
    assert sorted([*training, *validation]) == list(range(n))
    assert min(len(training), len(validation)) >= 1
    assert abs(len(validation) - n * fraction) <= 1
    assert (np.diff(training) > 0).all()
    assert (np.diff(validation) > 0).all()


def test_nothing_is_held_out_without_early_stopping_or_with_one_row() -> None:
    for n, fraction in ((5, 0.0), (1, 0.5)):
        training, validation = split_of(n, fraction, np.random.SeedSequence(0))
        assert training.tolist() == list(range(n))
        assert len(validation) == 0


def test_batches_cover_each_epoch_and_continue_from_the_last_order() -> None:
    seeds = np.random.SeedSequence(5).spawn(3)
    streams = [Streams.of(seed) for seed in seeds]
    config = TrainingConfig(batch_size=5, validation_fraction=0.2)
    jobs = jobs_of(NetworkSpec(n_inputs=1), config, seeds)
    batches = Batches([JobRows.of(job, 23) for job in jobs], config.batch_size)
    slow = [(order.tolist(), stream.order) for order, stream in zip(batches.order, streams, strict=True)]
    assert batches.held_out.shape == (3, 5)
    assert len(batches) == 4
    for _ in range(3):
        batches.shuffle()
        slow = [(order, shuffle_in_python(order, state)) for order, state in slow]
        assert [rows.shape for rows in batches] == [(3, 5), (3, 5), (3, 5), (3, 3)]
        assert np.concatenate(list(batches), axis=1).tolist() == [order for order, _ in slow]
