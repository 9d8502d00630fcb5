"""Members judged on rows they were not trained on: that they were not, and what it is good for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from quick import DESIGNS, QUICK, grouped, table
from sklearn.model_selection import KFold
from test_sample_weight import FULL_BATCH

from bdkn import BDKNRegressor
from bdkn.data.folds import Folds
from bdkn.errors import InvalidParameterError
from bdkn.metrics import coverage
from bdkn.networks import Trained
from bdkn.networks.reference import ReferenceEngine

X, y = table()
NEW, y_new = table(30, seed=1)


@dataclass(frozen=True)
class Memory:
    """Networks that predict 1 for rows they were trained on and -1 for all others."""

    seen: tuple[frozenset[bytes], ...]

    def __len__(self):
        return len(self.seen)

    def __getitem__(self, members):
        return Memory(tuple(self.seen[h] for h in members))

    @classmethod
    def concatenate(cls, parts):
        return cls(tuple(seen for part in parts for seen in part.seen))

    def is_finite(self):
        return np.ones(len(self), bool)

    def outputs(self, X):
        rows = [row.tobytes() for row in np.asarray(X, dtype=np.float32)]
        means = np.array([[1.0 if row in seen else -1.0 for row in rows] for seen in self.seen])
        return means, np.ones_like(means)


@dataclass
class Memorising:
    """An engine whose networks memorise their rows; it stores its jobs."""

    jobs: list = field(default_factory=list)

    def train(self, jobs, rows, *, n_jobs=None, watch=None, on_epoch=None):
        self.jobs.append(jobs)
        tables = [rows.X if job.rows is None else rows.X[job.rows] for job in jobs]
        nothing = (np.zeros(1),) * len(jobs)
        networks = Memory(tuple(frozenset(row.tobytes() for row in table) for table in tables))
        return Trained(networks, nothing, nothing, (0,) * len(jobs))


def remembering(**options):
    engine = Memorising()
    return BDKNRegressor(**grouped(**{**QUICK, **options}, engine=engine)).fit(X, y), engine


class TestOutOfFold:
    @pytest.mark.parametrize("options", [{}, {"cv": 2}, {"cv": 200}, {"design": "hold-out"}], ids=str)
    @pytest.mark.parametrize("predict_with", ["folds", "refit"])
    def test_members_are_scored_on_rows_they_were_not_trained_on(self, options, predict_with):
        model, _ = remembering(**options, predict_with=predict_with)
        np.testing.assert_array_equal(model.held_out_.means, -1.0)
        assert len(model.held_out_.y) == (12 if "design" in options else 120)

    def test_targets_belong_to_the_rows_that_were_left_out(self):
        model, engine = remembering(design="hold-out", cv=0.25)
        (jobs,) = engine.jobs
        only = [job.rows for job in jobs]
        held_out = np.setdiff1d(np.arange(120), only[0])
        assert len(held_out) == 30
        np.testing.assert_allclose(
            model.ensemble_.targets.mean + model.ensemble_.targets.scale * model.held_out_.y, y[held_out]
        )
        assert all(np.array_equal(rows, only[0]) for rows in only)

    @pytest.mark.parametrize("folds", [2, 5])
    def test_every_row_is_left_out_of_each_member_once(self, folds):
        _, engine = remembering(cv=folds)
        (jobs,) = engine.jobs  # all at once, one fold after the other
        only = [job.rows for job in jobs]
        assert len(only) == 3 * folds
        for h in range(3):
            held_out = [np.setdiff1d(np.arange(120), rows) for rows in only[h::3]]
            np.testing.assert_array_equal(np.sort(np.concatenate(held_out)), np.arange(120))
            assert {len(rows) for rows in held_out} == {120 // folds}

    def test_no_two_networks_start_alike(self):
        _, engine = remembering(predict_with="refit")
        keys = [job.seed.spawn_key for jobs in engine.jobs for job in jobs]
        assert len(set(keys)) == len(keys) == 3 * 6

    def test_predictions_average_the_folds_or_use_a_refit(self):
        ways = ("folds", "refit")
        (folds, _), (refit, engine) = (remembering(predict_with=way, select_members=False) for way in ways)
        np.testing.assert_allclose(folds.ensemble_.outputs(X)[0], (4 - 1) / 5)  # four of five saw the row
        np.testing.assert_array_equal(folds.ensemble_.outputs(NEW)[0], -1)
        np.testing.assert_array_equal(refit.ensemble_.outputs(X)[0], 1)
        assert all(job.rows is None for job in engine.jobs[0][15:])
        assert (len(folds.ensemble_.networks), len(refit.ensemble_.networks)) == (15, 3)

    def test_in_sample_members_are_trained_on_all_rows(self):
        model, engine = remembering(design="in-sample")
        assert [job.rows for jobs in engine.jobs for job in jobs] == [None] * 3
        np.testing.assert_array_equal(model.ensemble_.outputs(X)[0], 1)
        assert model.held_out_ is None


def heard(n, seed, columns=5):
    """Return rows and targets that have nothing to do with one another."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, columns)), rng.normal(size=n)


def test_overfitted_networks_are_overconfident_in_sample_only():
    large = {**QUICK, "n_members": 2, "hidden_layer_sizes": (64,), "epochs": 400, "early_stopping": False}
    X, y = heard(60, 0)
    new, y_new = heard(1000, 1)
    judged, deceived = (
        BDKNRegressor(**grouped(**large, objective="mse", design=design)).fit(X, y)
        for design in ("cross-fit", "in-sample")
    )
    assert deceived.score(X, y) > 0.95
    assert deceived.noise_variance_ < 0.1
    assert (deceived.member_scores_.mse < 0.1).all()
    assert (judged.member_scores_.mse > 0.9).all()
    assert judged.noise_variance_ > 0.5
    assert coverage(y_new, deceived.predict_dist(new), 0.9) < 0.5
    assert coverage(y_new, judged.predict_dist(new), 0.9) > 0.8


def fanned(n, seed):
    """Return rows whose noise grows away from zero, as much as sixfold."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    return x[:, None], np.sin(2 * x) + (0.1 + 0.25 * np.abs(x)) * rng.normal(size=n)


@pytest.fixture(scope="module")
def covered():
    """Return for each design the coverage of 90 % intervals near zero, far from it, and everywhere."""
    settings = {**QUICK, "hidden_layer_sizes": (20,), "epochs": 150, "early_stopping": False}
    (X, y), (new, y_new) = fanned(500, 0), fanned(4000, 1)
    near, found = np.abs(new[:, 0]) < 0.7, {}
    for design in DESIGNS:
        dist = BDKNRegressor(**grouped(**settings, design=design)).fit(X, y).predict_dist(new)
        found[design] = [coverage(y_new[part], dist[part], 0.9) for part in (near, ~near, np.full(4000, True))]
    return found


@pytest.mark.parametrize(("design", "slack"), [("cross-fit", 0.04), ("hold-out", 0.12)])
def test_intervals_cover_heteroscedastic_noise(covered, design, slack):
    # 500 rows tell a coverage of 0.9 to a standard error of 0.013, 50 held-out rows to one of 0.04.
    np.testing.assert_allclose(covered[design], 0.9, atol=slack)


def test_the_published_method_does_not_cover_heteroscedastic_noise(covered):
    near, far, _ = covered["in-sample"]
    assert near > 0.96
    assert far < 0.87


def test_a_weight_is_a_repetition_where_copies_share_a_fold(monkeypatch):
    counts = np.random.default_rng(0).integers(1, 4, len(y))
    group = {len(y): np.arange(len(y)), counts.sum(): np.repeat(np.arange(len(y)), counts)}

    def cross(cls, n, folds, generator, sets=None):
        return cls(n, tuple(np.flatnonzero(group[n] % folds == k) for k in range(folds)))

    monkeypatch.setattr(Folds, "cross", classmethod(cross))
    weighted = BDKNRegressor(**grouped(**FULL_BATCH, density="student-t")).fit(X, y, sample_weight=counts)
    there = group[counts.sum()]
    repeated = BDKNRegressor(**grouped(**FULL_BATCH, density="student-t")).fit(X[there], y[there], groups=there)
    assert weighted.member_names_ == repeated.member_names_
    for name in ("dof_", "noise_variance_", "evidence_", "intercept_"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-3)
    np.testing.assert_allclose(
        np.stack(weighted.predict(NEW, return_std=True)), np.stack(repeated.predict(NEW, return_std=True)), rtol=1e-4
    )


def test_more_folds_than_rows_leave_out_one_row_each():
    many, as_many = (BDKNRegressor(**grouped(**QUICK, cv=folds)).fit(X[:6], y[:6]) for folds in (100, 6))
    assert len(many.ensemble_.networks) == 6 * len(many.member_names_)
    np.testing.assert_array_equal(many.predict_interval(NEW), as_many.predict_interval(NEW))


@pytest.mark.parametrize("design", ["cross-fit", "hold-out"])
def test_one_row_cannot_be_left_out(design):
    with pytest.raises(InvalidParameterError, match=r"takes at least 2 rows; got n_samples=1.*design='in-sample'"):
        BDKNRegressor(**grouped(**QUICK, design=design)).fit(X[:1], y[:1])


@pytest.mark.parametrize("n", [2, 3, 12])
@pytest.mark.parametrize("design", DESIGNS)
def test_few_rows_are_enough(design, n):
    model = BDKNRegressor(**grouped(**QUICK, design=design)).fit(X[:n], y[:n])
    assert np.isfinite(model.predict(NEW)).all()
    assert not np.isnan(model.predict_interval(NEW)).any()


@pytest.mark.parametrize("options", [{}, {"design": "hold-out"}, {"predict_with": "refit"}], ids=str)
def test_more_members_begin_with_the_same_ones(options):
    few, more = (BDKNRegressor(**grouped(**{**QUICK, **options, "n_members": n})).fit(X, y) for n in (2, 4))
    both = set(few.member_names_) & set(more.member_names_)
    assert both
    for name in both:
        one, other = (model.member_names_.index(name) for model in (few, more))
        np.testing.assert_array_equal(few.members_[one].predict(NEW), more.members_[other].predict(NEW))
        np.testing.assert_array_equal(few.held_out_.means[:, one], more.held_out_.means[:, other])


@pytest.mark.parametrize("options", [{}, {"design": "hold-out"}, {"predict_with": "refit"}], ids=str)
def test_same_bits_for_any_number_of_jobs(options):
    one, two = (BDKNRegressor(**grouped(**QUICK, **options, n_jobs=jobs)).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.predict_interval(NEW), two.predict_interval(NEW))
    np.testing.assert_array_equal(one.held_out_.means, two.held_out_.means)
    assert one.evidence_ == two.evidence_


def test_networks_are_those_trained_on_the_rows_of_their_fold():
    model = BDKNRegressor(**grouped(**{**QUICK, "engine": ReferenceEngine(np.float64)})).fit(X, y)
    means, _ = model.ensemble_.by_fold(X)
    scaled = (y - model.ensemble_.targets.mean) / model.ensemble_.targets.scale
    np.testing.assert_allclose(model.held_out_.y, scaled)
    gap = np.abs(means - model.held_out_.means).min(axis=0)  # one network of each member left the row out
    assert gap.max() < 1e-6


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("objective", ["nll", "mse"])
def test_the_variance_is_the_sum_of_its_parts(design, objective):
    model = BDKNRegressor(**grouped(**QUICK, design=design, objective=objective)).fit(X, y)
    parts, whole = model.predict_var(NEW, decompose=True), model.predict_var(NEW)
    assert parts.keys() == {"noise", "disagreement", "weights", "outside"}
    assert all((part >= 0).all() for part in parts.values())
    np.testing.assert_allclose(sum(parts.values()), whole, rtol=1e-12)
    np.testing.assert_allclose(whole, model.predict(NEW, return_std=True)[1] ** 2, rtol=1e-10)
    np.testing.assert_allclose(whole, np.diag(model.predict(NEW, return_cov=True)[1]), rtol=1e-10)
    scaled = BDKNRegressor(**grouped(**QUICK, design=design, objective=objective)).fit(X, 1024 * y).predict_var(NEW)
    np.testing.assert_allclose(scaled, 1024**2 * whole, rtol=1e-3)


@pytest.mark.parametrize("design", DESIGNS)
def test_the_mean_is_the_weighted_sum_of_the_members(design):
    model = BDKNRegressor(**grouped(**QUICK, design=design)).fit(X, y)
    means = np.column_stack([member.predict(NEW)[0] for member in model.members_])
    np.testing.assert_allclose(model.intercept_ + means @ model.weights_, model.predict(NEW), rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"design": "crossfit"}, "design must be one of 'cross-fit', .*; got 'crossfit'; did you mean 'cross-fit'"),
        ({"predict_with": "all"}, "predict_with must be one of 'folds', 'refit'; got 'all'"),
        ({"cv": 1}, "cv must be an integer >= 2; got 1"),
        ({"cv": 2.5}, r"cv must be .*; got 2\.5"),
        ({"design": "hold-out", "cv": 0}, "cv, the fraction .*, must be a number > 0 and <= 0.9; got 0"),
        ({"design": "hold-out", "cv": 1}, "cv, the fraction .*, must be a number > 0 and <= 0.9; got 1"),
        ({"cv": 0.2}, r"cv must be an integer >= 2; got 0\.2"),
        ({"cv": "prefit"}, "cv must be a number, a splitter or pairs of lists of row numbers; got 'prefit'"),
        ({"design": "hold-out", "cv": 5}, "cv, the fraction .*, must be a number > 0 and <= 0.9; got 5"),
        ({"design": "hold-out", "cv": KFold(3)}, "cv, the fraction .*, must be a number > 0 and <= 0.9; got KFold"),
        ({"tempering": 3}, "tempering must be a number >= 0 and <= 2; got 3"),
        ({"tempering": "loo"}, "tempering must be one of 'evidence'; got 'loo'"),
        ({"tails": "evidence"}, "tails must be one of 'loo', 'posterior'; got 'evidence'"),
    ],
    ids=str,
)
def test_refusals(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        BDKNRegressor(**grouped(**QUICK, **given)).fit(X, y)


@pytest.mark.parametrize(("design", "default"), [("cross-fit", 5), ("hold-out", 0.1)])
def test_defaults_of_cv(design, default):
    none, given = (BDKNRegressor(**grouped(**QUICK, design=design, cv=cv)).fit(X, y) for cv in (None, default))
    np.testing.assert_array_equal(none.predict(NEW), given.predict(NEW))


@pytest.mark.parametrize("n", [2, 5])
def test_members_are_not_compared_on_a_single_row_left_out(n):
    model = BDKNRegressor(**grouped(**QUICK, design="hold-out")).fit(X[:n], y[:n])
    assert len(model.held_out_.y) == 1
    assert np.isfinite(model.predict_interval(X)).all()
    assert np.isnan(model.member_table()["loss_without"]).all()
    with pytest.raises(InvalidParameterError, match="which takes two held-out rows; got 1: add rows, hold out"):
        model.member_curve()
