"""Members that know nothing, or talk in other units, do no harm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from quick import QUICK, Stretched, grouped, table

from bdkn import BDKNRegressor, CombinationOptions
from bdkn.ensemble.selection import MIN_GAIN, HeldOut, elimination
from bdkn.networks import Networks
from bdkn.networks.reference import ReferenceEngine

X, y = table()
NEW, y_new = table(200, seed=1)
FOUR = {**QUICK, "n_members": 4}


@dataclass(frozen=True)
class Noisy:
    """Trains with the reference engine, then gives the last of four networks, in any fold, random weights."""

    def train(self, jobs, rows, *, n_jobs=None, watch=None, on_epoch=None):
        trained = ReferenceEngine().train(jobs, rows)
        rng, layers = np.random.default_rng(0), []
        for W, b in trained.networks.layers:
            W, b = W.copy(), b.copy()
            W[3::4], b[3::4] = rng.normal(size=W[3::4].shape), rng.normal(size=b[3::4].shape)
            layers.append((W, b))
        return replace(trained, networks=Networks(jobs[0].spec, tuple(layers)))


@pytest.fixture(scope="module", params=[{}, {"predict_with": "refit"}, {"tails": "posterior"}], ids=str)
def sane(request):
    """Three networks, which have the same seeds and the same folds among four, and their options."""
    options = {**request.param, "density": "student-t"}
    return BDKNRegressor(**grouped(**QUICK, **options, engine="reference")).fit(X, y), options


@pytest.mark.parametrize(
    "engine",
    [Stretched((1, 1, 1, 0)), Stretched((1, 1, 1, -1)), Stretched((1, 1, 1, 1e6)), Noisy()],
    ids=["constant", "reversed", "huge", "noise"],
)
def test_one_among_four_does_no_harm(engine, sane):
    three, options = sane
    model = BDKNRegressor(**grouped(**FOUR, **options, engine=engine)).fit(X, y)
    assert model.held_out_.means.shape[1] == len(model.weights_) == len(model.member_names_)
    assert model.combination_.score > three.combination_.score - 0.02
    assert model.score(NEW, y_new) > three.score(NEW, y_new) - 0.01
    assert model.log_score(NEW, y_new) > three.log_score(NEW, y_new) - 0.08


@pytest.mark.parametrize("options", [{}, {"design": "hold-out"}, {"tails": "posterior"}], ids=str)
def test_the_members_in_use_have_the_best_score(options):
    def fitted(select):
        return BDKNRegressor(**grouped(**FOUR, **options, select_members=select, engine="reference")).fit(X, y)

    everyone, best = fitted(False), fitted(True)
    assert everyone.member_names_ == ("network 1", "network 2", "network 3", "network 4")
    assert len(everyone.weights_) == 4
    scores = {}
    for kept in elimination(everyone.held_out_):
        names = tuple(everyone.member_names_[h] for h in kept)
        scores[names] = (everyone.combination or CombinationOptions()).combine(everyone.held_out_[kept]).score
    n = len(everyone.held_out_.y)
    priced = {names: n * score - MIN_GAIN * (4 - len(names)) for names, score in scores.items()}
    assert best.member_names_ == max(priced, key=priced.get)
    assert best.combination_.score == scores[best.member_names_]


@pytest.mark.parametrize(("n", "most"), [(2, 1), (3, 1), (4, 2), (5, 3), (6, 4)])
def test_fewer_members_than_held_out_rows_are_used(n, most):
    model = BDKNRegressor(**grouped(**FOUR, cv=2, engine="reference")).fit(X[:n], y[:n])
    assert len(model.held_out_.y) == n
    assert 1 <= len(model.member_names_) <= most
    everyone = BDKNRegressor(**grouped(**FOUR, cv=2, select_members=False, engine="reference")).fit(X[:n], y[:n])
    assert len(everyone.member_names_) == 4


def test_the_published_method_gives_a_useless_member_no_weight():
    model = BDKNRegressor(**grouped(**FOUR, design="in-sample", engine=Stretched((1, 1, 1, 1e6)))).fit(X, y)
    assert len(model.weights_) == 4
    assert abs(model.weights_[3]) * 1e6 < 0.5


def held_out(noise, n=400, counts=None):
    """Return members that are right up to so much noise of their own."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=n)
    means = y[:, None] + np.asarray(noise) * rng.normal(size=(n, len(noise)))
    return HeldOut(means, np.ones_like(means), np.zeros_like(means), y, counts)


class TestElimination:
    @pytest.mark.parametrize("H", [1, 2, 5])
    def test_one_member_is_removed_at_a_time(self, H):
        subsets = list(elimination(held_out(np.linspace(0.2, 0.9, H))))
        assert [len(kept) for kept in subsets] == list(range(H, 0, -1))
        for more, fewer in pairwise(subsets):
            assert set(fewer) < set(more)

    def test_the_mean_of_the_remaining_members_has_the_smallest_error(self):
        said = held_out([0.3, 0.5, 2.0, 0.4, 0.9], n=30)
        for more, fewer in pairwise(elimination(said)):
            others = combinations(more, len(fewer))
            errors = [np.mean((said.means[:, some].mean(axis=1) - said.y) ** 2) for some in others]
            assert np.mean((said.means[:, fewer].mean(axis=1) - said.y) ** 2) == pytest.approx(min(errors), rel=1e-9)

    @pytest.mark.parametrize("bad", [3.0, 1e6, 1e100])
    def test_bad_members_are_removed_first(self, bad):
        _, first, second, *_ = elimination(held_out([0.3, bad, 0.3, 0.7 * bad, 0.3]))
        assert (first.tolist(), second.tolist()) == ([0, 2, 3, 4], [0, 2, 4])

    def test_counts_are_repetitions(self):
        rng = np.random.default_rng(1)
        for _ in range(20):
            plain, counts = held_out(rng.uniform(0.2, 0.8, 4), 12), rng.integers(1, 6, 12)
            counted = replace(plain, counts=counts.astype(float))
            repeated = HeldOut(
                *(
                    np.repeat(part, counts, axis=0)
                    for part in (plain.means, plain.variances, plain.fold_variance, plain.y)
                )
            )
            for one, other in zip(elimination(counted), elimination(repeated), strict=True):
                np.testing.assert_array_equal(one, other)
