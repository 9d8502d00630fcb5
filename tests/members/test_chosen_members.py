"""Which members are combined, and how: on threads and one after the other, averaged and not."""

from __future__ import annotations

import numpy as np
import pytest

from bdkn.ensemble import selection as module
from bdkn.ensemble.selection import CombinationOptions, HeldOut, select_and_combine

N, H = 300, 5


def held_out(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=N)
    means = y[:, None] + 0.3 * rng.normal(size=(N, H))
    means[:, 3] = 50.0 * rng.normal(size=N)  # one that does harm
    variances, by_fold = rng.uniform(0.05, 0.2, size=(N, H)), rng.uniform(0.0, 0.05, size=(N, H))
    return HeldOut(means, variances, by_fold, y, fold_of=rng.integers(5, size=(N, H)).astype(np.int16))


@pytest.mark.parametrize("n_jobs", [1, 3, None])
def test_threads_give_the_same_bits(n_jobs, monkeypatch):
    plain, expected = select_and_combine(held_out(), np.arange(H), CombinationOptions())
    monkeypatch.setattr(module, "_MANY_PREDICTIONS", 1)
    members, found = select_and_combine(held_out(), np.arange(H), CombinationOptions(), n_jobs)
    np.testing.assert_array_equal(members, plain)
    np.testing.assert_array_equal(found.posterior.mean, expected.posterior.mean)
    np.testing.assert_array_equal(found.posterior.root, expected.posterior.root)
    assert (found.score, found.averaging, found.tails) == (expected.score, expected.averaging, expected.tails)


def test_the_chosen_combination_is_that_of_its_members():
    members, found = select_and_combine(held_out(), np.arange(H), CombinationOptions())
    assert 3 not in members
    alone = CombinationOptions().combine(held_out()[members])
    assert (found.score, found.averaging) == (alone.score, alone.averaging)
    assert found.averaging < 1.0
    np.testing.assert_array_equal(found.posterior.mean, alone.posterior.mean)


def test_tails_of_the_posterior_are_not_averaged():
    fitted = CombinationOptions(tails="posterior").combine(held_out())
    assert fitted.averaging == 1.0


def test_no_subset_is_better_by_more_than_its_price():
    rows = held_out(1)
    members, found = select_and_combine(rows, np.arange(H), CombinationOptions())
    for subset in module.elimination(rows):
        other = CombinationOptions().combine(rows[subset])
        assert N * (other.score - found.score) <= module.MIN_GAIN * abs(len(members) - len(subset))
