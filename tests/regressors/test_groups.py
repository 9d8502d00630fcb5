"""Groups and splits of one's own, rows that repeat, and rows with outliers."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from quick import QUICK, grouped, table
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold, TimeSeriesSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_info

import bdkn
from bdkn import BayesianStackingRegressor, BDKNRegressor, RowNumberFolds
from bdkn.data.encoder import TableEncoder
from bdkn.data.folds import FoldPlan
from bdkn.data.training_data import TrainingData
from bdkn.errors import ExtremeTargetWarning, InvalidParameterError, RepeatedRowsWarning
from bdkn.threads import bounded_threads, one_blas_thread

X, y = table(60)
NEW, _ = table(20, seed=1)
GROUPS = np.random.default_rng(0).integers(0, 12, 60)
FAST = {**QUICK, "n_members": 2, "epochs": 5, "early_stopping": False}


def stack(**settings):
    members = [("line", LinearRegression()), ("tree", DecisionTreeRegressor(max_depth=3))]
    return BayesianStackingRegressor(members, **grouped(**{"random_state": 0, "select_members": False, **settings}))


def network(**settings):
    return BDKNRegressor(**grouped(**{**FAST, "select_members": False, **settings}))


def both(**settings):
    return network(**settings), stack(**settings)


def plan(model, groups=None):
    return FoldPlan.of(model, TrainingData.read(model, X, y, groups=groups), 0, range(2))


@pytest.mark.parametrize("settings", [{}, {"cv": GroupKFold(4)}, {"cv": 3}, {"design": "hold-out"}])
def test_no_group_is_on_both_sides_of_a_fold(settings):
    found = plan(network(**settings), GROUPS)
    for rows, h, k in zip(found.rows, found.members, np.repeat(np.arange(10), 2), strict=False):
        held_out = found.fold_of[:, h] == k
        assert held_out.any()
        assert not set(GROUPS[np.asarray(rows)]) & set(GROUPS[held_out])


def test_folds_of_groups_are_of_nearly_equal_size_and_each_members_own():
    model = stack().fit(X, y, groups=GROUPS)
    folds = [model.folds_.of_member(name) for name in ("line", "tree")]
    for one in folds:
        assert max(map(len, one.held_out)) - min(map(len, one.held_out)) <= np.bincount(GROUPS).max()
        for kept, held_out in one:
            assert not set(GROUPS[kept]) & set(GROUPS[held_out])
    assert not all(map(np.array_equal, folds[0].held_out, folds[1].held_out))


def test_a_group_of_each_row_changes_nothing_about_which_rows_are_left_out():
    found = plan(network(), np.arange(60))
    assert found.held_out is None
    assert (np.unique(found.fold_of[:, 0], return_counts=True)[1] == 12).all()


def test_a_random_splitter_gives_each_member_folds_of_its_own():
    random = plan(network(cv=KFold(5, shuffle=True)))
    fixed = plan(network(cv=KFold(5, shuffle=True, random_state=0)))
    assert not np.array_equal(*random.fold_of.T)
    np.testing.assert_array_equal(*fixed.fold_of.T)
    np.testing.assert_array_equal(random.fold_of, plan(network(cv=KFold(5, shuffle=True))).fold_of)


def sets(cv, groups=None):
    return TrainingData.read(network(cv=cv), X, y, groups=groups).sets


def test_folds_of_a_cv_are_sets_of_rows():
    np.testing.assert_array_equal(sets(KFold(3)), np.repeat([0, 1, 2], 20))
    np.testing.assert_array_equal(sets(list(KFold(3).split(X))), np.repeat([0, 1, 2], 20))
    np.testing.assert_array_equal(sets(TimeSeriesSplit(3)), np.repeat([0, 1, 2, 3], 15))  # the first rows are a set


@pytest.mark.parametrize(
    "cv", [None, 3, KFold(3, shuffle=True), ShuffleSplit(1), StratifiedKFold(3, shuffle=True), RowNumberFolds(3)]
)
def test_folds_of_single_rows_are_no_sets(cv):
    assert TrainingData.read(network(cv=cv), X, y > 0).sets is None


def test_groups_take_precedence_over_the_folds_of_a_cv():
    np.testing.assert_array_equal(sets(KFold(3), GROUPS), np.unique(GROUPS, return_inverse=True)[1])


@pytest.mark.no_cover
@pytest.mark.parametrize("make", [network, stack])
def test_row_numbers_of_groups_leak_no_group_into_the_density(make):
    """Rows of a group have equal inputs, so that a forest of single rows knows the level of each training group."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 10)
    rows = np.c_[rng.normal(size=(40, 2))[group], rng.normal(size=400)]
    targets = 2 * rng.normal(size=40)[group] + rows[:, 2] + 0.3 * rng.normal(size=400)
    splits = list(GroupKFold(5).split(rows, targets, group))
    assert make(cv=splits).fit(rows, targets).density_ is None
    assert make(cv=splits).fit(rows, targets, groups=np.arange(400)).density_ is not None


@pytest.mark.parametrize("make", [BDKNRegressor, BayesianStackingRegressor])
def test_row_numbers_of_groups_leak_no_target_into_statistics_of_categories(make, monkeypatch):
    """Targets exchanged within a fold change the inputs of rows of other folds, but not those of its own rows."""
    learn, seen, rng = TableEncoder.learn, [], np.random.default_rng(0)

    def record(*given):
        seen.append(learn(*given)[1])
        raise KeyboardInterrupt  # the inputs are all that is needed of the fit

    monkeypatch.setattr(TableEncoder, "learn", record)
    street = rng.integers(0, 20, 300)
    frame = pd.DataFrame({"street": [f"s{k}" for k in street], "area": rng.normal(size=300)})
    targets = street + rng.normal(size=300)
    for given in (targets, np.r_[targets[59::-1], targets[60:]]):
        with pytest.raises(KeyboardInterrupt):
            make(cv=list(KFold(5).split(frame))).fit(frame, given)
    changed = (seen[0] != seen[1]).any(axis=1)
    assert not changed[:60].any()
    assert changed[60:].any()


@pytest.mark.parametrize("model", both(cv=TimeSeriesSplit(3)))
def test_with_a_time_series_members_predict_with_a_refit(model):
    model.fit(X, y)
    np.testing.assert_allclose(model.held_out_.y, (y[15:] - y.mean()) / y.std())
    assert (model.held_out_.fold_variance == 0).all()
    networks = getattr(model, "loss_curves_", None) or model.estimators_
    assert len(networks) == len(model.member_names_)


@pytest.mark.parametrize("cv", [3, GroupKFold(3), list(KFold(3).split(X)), TimeSeriesSplit(3)])
@pytest.mark.parametrize("make", [network, stack])
def test_rows_of_weight_zero_are_absent_with_any_folds(make, cv):
    weight = np.where(np.arange(60) % 7 == 0, 0.0, 1.0)
    groups = None if isinstance(cv, TimeSeriesSplit) else GROUPS
    model = make(cv=cv).fit(np.where(weight[:, None], X, 1e6), y, sample_weight=weight, groups=groups)
    assert np.isfinite(model.predict(NEW)).all()
    assert len(model.held_out_.y) <= weight.sum()


@pytest.mark.parametrize("cv", [3, GroupKFold(3, shuffle=True), list(KFold(3).split(X))])
def test_members_are_added_with_the_same_groups_and_folds(cv, tmp_path):
    all_at_once = network(n_members=3, cv=cv).fit(X, y, groups=GROUPS)
    model = network(n_members=2, cv=cv).fit(X, y, groups=GROUPS)
    np.testing.assert_array_equal(model.add_members(1, X, y, groups=GROUPS).predict(NEW), all_at_once.predict(NEW))
    with pytest.raises(InvalidParameterError, match="got other groups or another cv: give groups as in fit"):
        model.add_members(1, X, y)
    model.save(tmp_path / "model.bdkn")
    again = bdkn.load(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    again.cv = cv
    np.testing.assert_array_equal(again.add_members(1, X, y, groups=GROUPS).predict(NEW), all_at_once.predict(NEW))


@pytest.mark.no_cover
def test_a_stack_keeps_its_groups(tmp_path):
    inner = BayesianStackingRegressor([("one", network(n_members=1)), ("two", network(n_members=1))], random_state=0)
    inner.fit(X, y, groups=GROUPS).save(tmp_path / "model.bdkn")
    again = bdkn.load(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(again.folds_.sets, inner.folds_.sets)
    np.testing.assert_array_equal(again.predict(NEW), inner.predict(NEW))
    more = again.add_members([("three", network(n_members=1))], X, y, groups=GROUPS)
    assert "three" in dict(more.candidates_)
    with pytest.raises(InvalidParameterError, match="give groups as in fit"):
        again.add_members([("three", network(n_members=1))], X, y)


def test_groups_are_routed_in_pipelines_and_cross_validation():
    with sklearn.config_context(enable_metadata_routing=True):
        asks = [model.set_fit_request(groups=True, sample_weight=False) for model in both()]
        for model in asks:
            if isinstance(model.members, list):
                for _, member in model.members:
                    member.set_fit_request(sample_weight=False)
            piped = make_pipeline(StandardScaler(), model)
            found = cross_validate(piped, X, y, cv=GroupKFold(2), params={"groups": GROUPS}, error_score="raise")
            assert np.isfinite(found["test_score"]).all()


@pytest.mark.parametrize("model", both())
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(60), "groups must hold at least 2 labels"),
        (np.zeros(59), r"one label per row, shape \(60,\); got shape \(59,\)"),
        (np.full(60, np.nan), "groups must hold a label for every row; got nan"),
    ],
)
def test_bad_groups(model, groups, message):
    with pytest.raises(InvalidParameterError, match=message):
        model.fit(X, y, groups=groups)


def test_bad_cv():
    with pytest.raises(InvalidParameterError, match="cv must be an integer >= 2; got 1"):
        network(cv=1).fit(X, y)
    with pytest.raises(InvalidParameterError, match="cv must be a number, a splitter or pairs of lists of row numbers"):
        network(cv="prefit").fit(X, y)
    with pytest.raises(InvalidParameterError, match="groups need folds, which design='in-sample' does not have"):
        network(design="in-sample").fit(X, y, groups=GROUPS)


@pytest.mark.parametrize("make", [network, stack])
def test_rows_given_three_times_count_once(make):
    three = np.tile(np.arange(60), 3)
    with pytest.warns(RepeatedRowsWarning, match="120 of 180 rows repeat another row, inputs and target"):
        model = make().fit(X[three], y[three])
    np.testing.assert_array_equal(model.predict_interval(NEW), make().fit(X, y).predict_interval(NEW))
    own = make().fit(X[three], y[three], groups=np.arange(180))  # no warning: these are observations of their own
    assert len(own.held_out_.y) == 180
    model.drop_members(model.member_names_[:1])


def test_members_are_added_to_a_fit_with_repeated_rows():
    three = np.tile(np.arange(60), 3)
    with pytest.warns(RepeatedRowsWarning):
        model = network().fit(X[three], y[three])
    added = model.add_members(1, X[three], y[three])
    np.testing.assert_array_equal(added.predict(NEW), network(n_members=3).fit(X, y).predict(NEW))


def test_settings_observed_several_times_share_a_fold():
    three = np.tile(np.arange(60), 3)
    noisy = y[three] + np.random.default_rng(3).normal(size=180)
    for kept, held_out in stack().fit(X[three], noisy).folds_.of_member("line"):
        assert not set(three[kept]) & set(three[held_out])


@pytest.mark.parametrize("make", [network, lambda: BayesianStackingRegressor([("line", Ridge()), ("net", network())])])
def test_an_outlier_leaves_the_other_rows_alone(make):
    outlying = X.copy()
    outlying[5, 1] = 1e6 * X[:, 1].std()
    model = BDKNRegressor(**grouped(**{**QUICK, "epochs": 150, "learning_rate": 3e-2, "early_stopping": False})).fit(
        outlying, y
    )
    others = np.arange(60) != 5
    assert model.score(X[others], y[others]) > 0.5
    assert np.isfinite(model.predict_interval(outlying)).all()
    assert np.isfinite(make().fit(outlying, y).predict_interval(outlying)).all()


def test_an_extreme_target_is_told():
    told = y.copy()
    told[7] = 1e30
    with pytest.warns(ExtremeTargetWarning, match=r"1 of 60 targets is extreme: y\[7\] = 1e\+30; .* drop these rows"):
        model = network().fit(X, told)
    assert np.isfinite(model.predict_interval(NEW)).all()
    weight = np.ones(60)
    weight[7] = 0
    network().fit(X, told, sample_weight=weight)  # no warning


def test_members_run_on_bounded_threads():
    threads = []

    class Counting(HistGradientBoostingRegressor):
        def fit(self, X, y):
            from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

            threads.append(_openmp_effective_n_threads())
            return super().fit(X, y)

    BayesianStackingRegressor([("boosting", Counting(max_iter=2))], cv=2).fit(X, y)
    assert threads == [1, 1]


def test_many_rows_have_more_threads(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    for n_rows, n_jobs, most in ((10, 1, 1), (10**6, 1, 4), (10**6, 2, 2), (10**6, 9, 1)):
        with bounded_threads(n_rows, n_jobs):
            assert {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "openmp"} <= {most}


def test_the_limit_on_blas_ends_with_its_last_user():
    def threads():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    before, one, other = threads(), one_blas_thread(), one_blas_thread()
    with one:
        with other:
            assert threads() <= {1}
        assert threads() <= {1}
    assert threads() == before


def test_a_generator_of_row_numbers_is_read_once():
    listed, read = network(cv=list(KFold(4).split(X))).fit(X, y), network(cv=KFold(4).split(X)).fit(X, y)
    np.testing.assert_array_equal(listed.predict(NEW), read.predict(NEW))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_missing_label_is_no_group(missing):
    labels = np.array([missing, *["a", "b"] * 29, "a"], dtype=object)
    with pytest.raises(InvalidParameterError, match="a label for every row; got nan, None or masked ones"):
        network().fit(X, y, groups=labels)


def test_a_splitter_by_groups_needs_groups():
    for model in both(cv=GroupKFold(3)):
        with pytest.raises(InvalidParameterError, match=r"divides rows by their groups; got none: fit\(X, y, groups="):
            model.fit(X, y)
