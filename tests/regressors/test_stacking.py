"""Bayesian stacking: scikit-learn's contract, and models of any kind as members."""

import pickle
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from quick import QUICK, grouped
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, RepeatedKFold, TimeSeriesSplit, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import bdkn.estimators.members
from bdkn import BayesianStackingRegressor, BDKNRegressor, CombinationOptions, DeepEnsembleRegressor
from bdkn.ensemble.estimators import predict_mean_std
from bdkn.errors import DivergedError, DivergedMemberWarning, InvalidParameterError, ModelFileError
from bdkn.estimators.members import default_estimators
from bdkn.inference import Forecast, combine


def table(n, seed=0):
    """Return rows and targets that a line and the nearest rows predict about equally well."""
    rng = np.random.default_rng(seed)
    X = rng.normal(2, [1, 5, 0.1], (n, 3))
    return X, 50 + 2 * X[:, 0] + 0.5 * X[:, 1] + 2 * np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=n)


X, y = table(150)
NEW, Y_NEW = table(60, seed=1)
PAIR = [("near", make_pipeline(StandardScaler(), KNeighborsRegressor(5))), ("line", BayesianRidge())]
TREES = [("tree", ExtraTreesRegressor(10, min_samples_leaf=2)), ("line", BayesianRidge())]


class Aware(BayesianRidge):
    """A linear model with standard deviations that are proportional to its errors."""

    def predict(self, X, return_std=False):
        return (super().predict(X), self.spread(X)) if return_std else super().predict(X)

    @staticmethod
    def spread(X):
        return 0.1 + 5 * np.abs(X[:, 0] - 2)


AWARE = [PAIR[0], ("line", Aware())]
UNEVEN = y + 3 * np.abs(X[:, 0] - 2) * np.random.default_rng(2).normal(size=150)
CHECKED = [("line", Ridge()), ("tree", DecisionTreeRegressor(max_depth=3))]


@pytest.mark.no_cover
@parametrize_with_checks(
    [
        BayesianStackingRegressor(CHECKED),
        BayesianStackingRegressor(CHECKED, cv=2, predict_with="refit", target="identity", density="student-t"),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def stack(members=None, **params):
    return BayesianStackingRegressor(members or PAIR, **grouped(**{"random_state": 0, **params}))


def outputs(model, rows):
    """Return the predictions of a stack's fitted estimators, (folds, n, H)."""
    fits = [fits if isinstance(fits, tuple) else (fits,) for fits in model.estimators_]
    return np.stack([[fit.predict(rows) for fit in member] for member in fits], axis=-1)


@pytest.mark.parametrize("predict_with", ["folds", "refit"])
def test_predictions_are_those_of_the_combination(predict_with):
    model = _with_all_members(stack(AWARE, predict_with=predict_with), X, UNEVEN)
    means = outputs(model, NEW)
    assert means.shape == (5 if predict_with == "folds" else 1, 60, 2)
    centre, scale = UNEVEN.mean(), UNEVEN.std()
    z = (means - centre) / scale
    errors = scale * (model.held_out_.means[:, 1] - model.held_out_.y)
    factor = np.mean(errors**2) / np.mean(Aware.spread(X) ** 2)
    noise, disagreement = factor * Aware.spread(NEW) ** 2 / scale**2, z.var(axis=-1).mean(axis=0)
    dist = model.combination_.predictive(Forecast(z.mean(axis=0), noise, disagreement))
    assert model.combination_.tempering > 0.5
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, centre + scale * dist.mean(), rtol=1e-10)
    inside = np.sqrt(std**2 - model.predict_var(NEW, decompose=True)["outside"])
    np.testing.assert_allclose(inside, scale * dist.std(), rtol=1e-10)
    np.testing.assert_allclose(mean, means.mean(axis=0) @ model.weights_ + model.intercept_, rtol=1e-10)
    assert model.score(NEW, Y_NEW) > 0.8


def test_the_combination_is_learned_from_rows_left_out():
    splits = list(KFold(4, shuffle=True, random_state=3).split(X))
    model, y = _with_all_members(stack(AWARE, cv=splits), X, UNEVEN), UNEVEN
    means, stds = np.empty((150, 2)), np.empty(150)
    for kept, held_out in splits:
        near, line = (clone(member).fit(X[kept], y[kept]) for _, member in AWARE)
        means[held_out, 0] = near.predict(X[held_out])
        means[held_out, 1], stds[held_out] = line.predict(X[held_out], return_std=True)
    stds *= np.sqrt(np.mean((means[:, 1] - y) ** 2) / np.mean(stds**2))
    z, scale = (means - y.mean()) / y.std(), y.std()
    expected = combine(Forecast(z, stds**2 / scale**2, z.var(axis=1)), (y - y.mean()) / scale)
    np.testing.assert_allclose(model.weights_, expected.weights, rtol=1e-8)
    np.testing.assert_allclose(model.dof_, expected.tails.df, rtol=1e-6)
    np.testing.assert_allclose(model.evidence_, expected.evidence - 150 * np.log(scale), rtol=1e-8)
    columns = model.member_table()
    np.testing.assert_allclose(columns["rmse"], np.sqrt(np.mean((means - y[:, None]) ** 2, axis=0)))
    own = np.stack([np.full(150, columns["rmse"][0]), stds], axis=1)  # the neighbours' error is all they know of it
    density = -np.log(own) - ((means - y[:, None]) / own) ** 2 / 2 - np.log(2 * np.pi) / 2
    np.testing.assert_allclose(columns["nll"], -density.mean(axis=0))
    assert list(columns) == ["member", "weight", "lower", "upper", "rmse", "nll", "loss_without"]


def test_each_member_has_folds_of_its_own():
    model = _with_all_members(stack(cv=3), X, y)
    for h, (name, member) in enumerate(PAIR):
        for kept, held_out in model.folds_.of_member(name):
            said = clone(member).fit(X[kept], y[kept]).predict(X[held_out])
            np.testing.assert_allclose(model.held_out_.means[held_out, h], (said - y.mean()) / y.std())
    near, line = (model.folds_.of_member(name).held_out for name in model.member_names_)
    assert len(near) == 3
    assert not any(np.array_equal(one, other) for one in near for other in line)


def test_a_splitter_gives_all_members_the_same_folds():
    model = _with_all_members(stack(cv=KFold(3)), X, y)
    for name in model.member_names_:
        folds = model.folds_.of_member(name)
        for (_, held_out), (_, expected) in zip(folds, KFold(3).split(X), strict=True):
            np.testing.assert_array_equal(held_out, expected)


def test_noise_is_the_average_of_the_variances_known():
    spread = Aware.spread(X)

    def first(rows):
        return rows[:, 0], 2 * spread

    def second(rows):
        return 2 * rows[:, 0], np.sqrt(spread)

    def third(rows):
        return rows[:, 1] + 2

    target = X[:, 0] + spread * np.random.default_rng(3).normal(size=150)
    members = [("first", first), ("second", second), ("third", third)]
    model = _with_all_members(stack(members, cv="prefit", tempering=1.0), X, target)
    said = model.held_out_.forecast()
    unit = target.std()
    known = [2 * spread, np.sqrt(spread)]
    factors = [np.mean((target - k * X[:, 0]) ** 2) / np.mean(std**2) for k, std in enumerate(known, start=1)]
    np.testing.assert_allclose(said.noise * unit**2, (factors[0] * known[0] ** 2 + factors[1] * known[1] ** 2) / 2)
    means = np.stack([X[:, 0], 2 * X[:, 0], X[:, 1] + 2], axis=1)
    np.testing.assert_allclose(said.disagreement * unit**2, means.var(axis=1))
    np.testing.assert_allclose(model.model_.forecast(X).variance, said.variance)


def _with_all_members(model, rows, targets, **params):
    """Return the fit that uses all members."""
    options = replace((model.combination or CombinationOptions()), select_members=False)
    return model.set_params(combination=options).fit(rows, targets, **params)


def test_without_any_variance_the_noise_is_constant():
    members = [("near", PAIR[0][1]), ("line", LinearRegression())]
    model = stack(members, cv=KFold(3)).fit(X, y)
    held_out = np.concatenate(
        [
            np.mean([clone(m).fit(X[kept], y[kept]).predict(X[out]) for _, m in members], axis=0)
            for kept, out in KFold(3).split(X)
        ]
    )
    noise = np.mean((held_out - y) ** 2) / y.var()
    np.testing.assert_allclose(model.held_out_.forecast().noise, noise)
    np.testing.assert_allclose(model.model_.forecast(NEW).noise, noise)
    assert np.ptp(model.model_.forecast(NEW).disagreement) > 0


def test_a_stack_of_one_member_with_a_tight_prior_is_that_member():
    model = stack([("line", BayesianRidge())], prior_variance=1e-12, predict_with="refit", density="student-t").fit(
        X, y
    )
    np.testing.assert_allclose(model.predict(NEW), BayesianRidge().fit(X, y).predict(NEW), rtol=1e-6)
    np.testing.assert_allclose(model.weights_, [1.0], rtol=1e-6)
    assert np.isnan(model.member_table()["loss_without"]).all()


def noise(rows):
    return np.random.default_rng(7).normal(50, 3, rows.shape[0])


def constant(rows):
    return np.full(rows.shape[0], 48.0)


def too_large(rows):
    return 1e6 * rows[:, 1]


def too_sure(rows):
    return rows[:, 1], np.full(rows.shape[0], 1e-9)


@pytest.fixture(scope="module")
def plain():
    """The pair, fitted; not to be changed."""
    return stack().fit(X, y)


@pytest.mark.parametrize("useless", [noise, constant, too_large, too_sure])
def test_useless_members_do_next_to_no_harm(useless, plain):
    model = stack([*PAIR, ("useless", useless)]).fit(X, y)
    mean, std = model.predict(NEW, return_std=True)
    expected, expected_std = plain.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=0.03 * y.std())
    np.testing.assert_allclose(std, expected_std, rtol=0.1)


class Silent(BayesianRidge):
    """A linear model without standard deviations."""

    def predict(self, X):
        return super().predict(X)


def told(std):
    """Return a linear model with wrong standard deviations."""

    class Told(BayesianRidge):
        def predict(self, X, return_std=False):
            return (super().predict(X), std(X)) if return_std else super().predict(X)

    return Told()


USELESS = {
    "constant": lambda X: np.full(len(X), 3.0),
    "sure": lambda X: np.full(len(X), 1e-9),
    "zero": lambda X: np.zeros(len(X)),
    "unsure": lambda X: np.full(len(X), 1e6),
    "noise": lambda X: np.exp(np.random.default_rng(0).normal(size=len(X))),
    "nan": lambda X: np.where(X[:, 0] > 2, np.nan, 1.0),
    "infinite": lambda X: np.full(len(X), np.inf),
    "upside down": lambda X: 1 / Aware.spread(X),
}


@pytest.fixture(scope="module")
def silent():
    """A fit with a member that tells no standard deviations; not to be changed."""
    return _with_all_members(stack([*AWARE, ("told", Silent())], density="student-t"), X, UNEVEN)


@pytest.mark.no_cover
@pytest.mark.parametrize("std", USELESS.values(), ids=USELESS)
def test_an_uninformative_standard_deviation_is_not_used(std, silent):
    useless = _with_all_members(stack([*AWARE, ("told", told(std))], density="student-t"), X, UNEVEN)
    assert np.isnan(useless.held_out_.variances).all(axis=0).tolist() == [True, False, True]
    np.testing.assert_array_equal(useless.predict_interval(NEW), silent.predict_interval(NEW))
    assert useless.members_[2].predict(NEW)[1] is None


@pytest.fixture(scope="module")
def expected():
    """A fit with standard deviations of level one; not to be changed."""
    return stack([PAIR[0], ("told", told(Aware.spread))]).fit(X, UNEVEN)


@pytest.mark.no_cover
@pytest.mark.parametrize("factor", [1e-9, 0.1, 1e6])
def test_the_level_of_a_standard_deviation_does_not_matter(factor, expected):
    model = stack([PAIR[0], ("told", told(lambda X: factor * Aware.spread(X)))]).fit(X, UNEVEN)
    np.testing.assert_allclose(model.predict_interval(NEW), expected.predict_interval(NEW), rtol=1e-9)


def fitted_in(unit):
    """Return a fit to targets in some unit."""

    class Spread(KNeighborsRegressor):  # scikit-learn's lines would square the targets
        def predict(self, X, return_std=False):
            return (super().predict(X), unit * Aware.spread(X)) if return_std else super().predict(X)

    members = [("near", Spread(5)), ("networks", DeepEnsembleRegressor(**grouped(**QUICK)))]
    return _with_all_members(stack(members, cv=2), X, unit * UNEVEN)


@pytest.fixture(scope="module")
def usual():
    """A fit in the usual unit; not to be changed."""
    return fitted_in(1.0)


@pytest.mark.parametrize("unit", [1e-160, 1e30, 1e160])
def test_any_unit_of_the_target(unit, usual):
    model, plain = fitted_in(unit), usual
    np.testing.assert_allclose(model.predict_interval(NEW) / unit, plain.predict_interval(NEW), rtol=1e-3)
    np.testing.assert_array_equal(np.isnan(model.held_out_.variances), np.isnan(plain.held_out_.variances))
    np.testing.assert_allclose(model.member_table()["rmse"] / unit, plain.member_table()["rmse"], rtol=1e-3)
    if unit == 1e30:
        np.testing.assert_allclose(model.predict_var(NEW) / unit**2, plain.predict_var(NEW), rtol=1e-3)
    else:
        with pytest.raises(InvalidParameterError, match="variances must be numbers, but the square of the targets"):
            model.predict_var(NEW)


def test_a_member_in_other_units_is_left_out(plain):
    model = stack([*PAIR, ("large", too_large)]).fit(X, y)
    assert model.member_names_ == ("near", "line")
    assert model.named_estimators_["large"] == "drop"
    np.testing.assert_array_equal(model.predict(NEW), plain.predict(NEW))


def test_members_that_are_not_finite():
    def overflows(rows):
        return np.where(rows[:, 0] > 1, np.inf, 0.0)

    with pytest.warns(DivergedMemberWarning, match="left out bad of 3, which diverged: predictions for held-out rows"):
        assert stack([*PAIR, ("bad", overflows)]).fit(X, y).member_names_ == ("near", "line")
    with pytest.raises(DivergedError, match="all 1 members diverged: predictions for held-out rows are not finite"):
        stack([("bad", overflows)]).fit(X, y)
    later = stack([("line", lambda rows: np.where(rows[:, 0] > 1e3, np.nan, rows[:, 1]))]).fit(X, y)
    with pytest.raises(DivergedError, match="member 'line' must predict finite numbers; it does not on one of these"):
        later.predict(1e4 * X)


@pytest.mark.no_cover
def test_a_stack_is_a_bdkn_regressor_with_these_members():
    same_predictions(BDKNRegressor(TREES, random_state=0).fit(X, y), stack(TREES).fit(X, y))
    networks = {**grouped(**QUICK), "n_jobs": 1}
    same_predictions(BayesianStackingRegressor("networks", **networks).fit(X, y), BDKNRegressor(**networks).fit(X, y))


@pytest.mark.parametrize(("cv", "n"), [(None, 15), (0.3, 45)])
def test_members_are_compared_on_one_part_of_the_rows(cv, n):
    model = stack(TREES, design="hold-out", cv=cv).fit(X, y)
    assert len(model.held_out_.y) == len(model.folds_.all_held_out) == n
    assert model.score(NEW, Y_NEW) > 0.7
    with pytest.raises(InvalidParameterError, match="is the published method, for networks; other members are combin"):
        stack(TREES, design="in-sample").fit(X, y)


def test_prefit_members_are_used_as_they_are():
    half = slice(75)
    members = [(name, clone(member).fit(X[half], y[half])) for name, member in PAIR]
    model = stack(members, cv="prefit").fit(X[75:], y[75:])
    assert [*model.estimators_] == [member for _, member in members]
    assert model.named_estimators_.line is members[1][1]
    assert len(model.held_out_.y) == 75
    again = clone(model).fit(X[75:], y[75:])  # scikit-learn's clone would have unfitted the members
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    assert np.isfinite(cross_val_score(model, X[75:], y[75:], cv=2)).all()


def test_models_that_cannot_be_refitted_are_used_as_they_are():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Linear(3, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[2.0, 0.5, 0.0]]))
        module.bias.fill_(50.0)
    frozen = FrozenEstimator(BayesianRidge().fit(X, y))
    members = [("module", module), ("frozen", frozen), ("function", lambda rows: rows[:, 1] / 2 + 54)]
    model = _with_all_members(stack([*members, PAIR[0]]), X, y)
    assert model.named_estimators_["module"] is module
    assert model.named_estimators_["frozen"] is frozen
    assert len(model.named_estimators_["near"]) == 5
    assert model.score(NEW, Y_NEW) > 0.8
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))


def test_bdkn_regressors_as_members():
    rows, targets = table(400)
    targets += 3 * np.abs(rows[:, 0] - 2) * np.random.default_rng(2).normal(size=400)
    model = _with_all_members(
        stack([("networks", DeepEnsembleRegressor(**grouped(**QUICK))), PAIR[1]], cv=2), rows, targets
    )
    assert np.isfinite(model.held_out_.variances[:, 0]).all()
    assert model.score(NEW, Y_NEW) > 0.8


@pytest.mark.no_cover
def test_nested_parameters():
    model = stack()
    assert model.get_params()["near__kneighborsregressor__n_neighbors"] == 5
    assert model.get_params()["line"] is PAIR[1][1]
    assert "line" not in model.get_params(deep=False)
    copy = clone(model).set_params(near__kneighborsregressor__n_neighbors=2, line=Ridge(), cv=3)
    assert copy.named_estimators.near[-1].n_neighbors == 2
    assert isinstance(copy.named_estimators["line"], Ridge)
    assert PAIR[0][1][-1].n_neighbors == 5
    dropped = clone(model).set_params(line="drop").fit(X, y)
    assert dropped.member_names_ == ("near",)
    assert dropped.named_estimators_["line"] == "drop"
    with pytest.raises(ValueError, match="Invalid parameter 'forest'"):
        model.set_params(forest=1)
    search = GridSearchCV(model, {"near__kneighborsregressor__n_neighbors": [4, 5]}, cv=2).fit(X, y)
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0
    empty = BayesianStackingRegressor()
    assert empty.get_params()["members"] == "auto"
    assert empty.named_estimators == {}


def test_the_given_estimators_stay_as_they_are():
    members = [(name, clone(member)) for name, member in TREES]
    stack(members).fit(X, y)
    assert members[0][1].random_state is None
    assert not hasattr(members[1][1], "coef_")


@pytest.mark.no_cover
def test_one_seed_fixes_everything():
    one, two = (stack(TREES).fit(X, y).predict(NEW) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, stack(TREES, random_state=1).fit(X, y).predict(NEW))
    seeds = [fit.random_state for fit in stack(TREES).fit(X, y).named_estimators_["tree"]]
    assert len(set(seeds)) == 5
    chosen = stack([("tree", ExtraTreesRegressor(10, min_samples_leaf=2, random_state=5)), TREES[1]]).fit(X, y)
    assert {fit.random_state for fit in chosen.named_estimators_["tree"]} == {5}
    reordered = stack(TREES[::-1]).fit(X, y)
    np.testing.assert_allclose(reordered.predict(NEW), one, rtol=1e-8)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_the_result_does_not_depend_on_n_jobs(backend):
    with joblib.parallel_config(backend):
        parallel = stack(TREES, n_jobs=2, predict_with="refit").fit(X, y)
    np.testing.assert_array_equal(parallel.predict(NEW), stack(TREES, predict_with="refit").fit(X, y).predict(NEW))


class Greedy(LinearRegression):
    """A linear model that stores the n_jobs it was fitted with."""

    def fit(self, X, y):
        self.cores_ = self.n_jobs
        return super().fit(X, y)


@pytest.mark.parametrize(("n_jobs", "cores"), [(None, -1), (1, -1), (2, 1)])
def test_parallel_members_use_one_core_each(n_jobs, cores):
    members = [("line", Greedy(n_jobs=-1)), ("pipe", make_pipeline(Greedy(n_jobs=-1))), ("two", Greedy(n_jobs=2))]
    with joblib.parallel_config("threading"):
        model = _with_all_members(stack(members, n_jobs=n_jobs), X, y)
    for fit in model.named_estimators_["line"]:
        assert (fit.cores_, fit.n_jobs) == (cores, -1)
    assert {fit[-1].cores_ for fit in model.named_estimators_["pipe"]} == {cores}
    assert {fit.cores_ for fit in model.named_estimators_["two"]} == {2}


class Recorder(RegressorMixin, BaseEstimator):
    """A constant model that stores the arguments of fit."""

    def fit(self, X, y, sample_weight=None, flavour=None):
        self.seen_ = {"type": type(X), "columns": list(getattr(X, "columns", [])), "y": y}
        self.weights_, self.flavour_ = sample_weight, flavour
        self.mean_ = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        assert type(X) is self.seen_["type"]
        return np.full(X.shape[0], self.mean_)


@pytest.mark.parametrize("library", [pd, pl])
def test_members_are_given_rows_as_they_are(library):
    frame = library.DataFrame(dict(zip("abc", X.T, strict=True)))
    new = library.DataFrame(dict(zip("abc", NEW.T, strict=True)))
    model = _with_all_members(stack([("line", LinearRegression()), ("seen", Recorder())]), frame, library.Series(y))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    for fit in model.named_estimators_["seen"]:
        assert fit.seen_["type"] is library.DataFrame
        assert fit.seen_["columns"] == ["a", "b", "c"]
        assert set(fit.seen_["y"]) <= set(y)
    for fit in model.named_estimators_["line"]:
        assert list(fit.feature_names_in_) == ["a", "b", "c"]
    plain = _with_all_members(stack([("line", LinearRegression()), ("seen", Recorder())]), X, y)
    np.testing.assert_allclose(model.predict(new), plain.predict(NEW), rtol=1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(new[["c", "b", "a"]])


@pytest.mark.parametrize("line", [BayesianRidge(), make_pipeline(StandardScaler(), BayesianRidge())], ids=str)
def test_polars_and_models_that_calculate_with_the_table_itself(line):
    frame, new = (pl.DataFrame(dict(zip("abc", rows.T, strict=True))) for rows in (X, NEW))
    model, plain = (stack([("line", line)]).fit(rows, y) for rows in (frame, X))
    np.testing.assert_allclose(model.held_out_.variances, plain.held_out_.variances, rtol=1e-10)
    np.testing.assert_allclose(model.predict_interval(new), plain.predict_interval(NEW), rtol=1e-10)


def test_a_column_of_words_reaches_the_members_that_take_it():
    frame = pd.DataFrame({"word": np.where(X[:, 0] > 2, "high", "low"), "number": X[:, 1]})

    def reads(rows):
        return 50 + np.where(rows["word"] == "high", 1.0, 0.0) + rows["number"] / 2

    model = stack([("reads", reads)], cv="prefit").fit(frame, y)
    assert model.score(frame, y) > 0.5


@pytest.mark.no_cover
def test_weights_count_rows():
    counts = np.random.default_rng(0).integers(0, 3, 150)
    there = np.repeat(np.arange(150), counts)
    folds = np.arange(150) % 3
    members = [("line", LinearRegression()), ("tree", DecisionTreeRegressor(max_depth=4, random_state=0))]
    weighted = stack(members, cv=_splits(folds), density="student-t")
    repeated = stack(members, cv=_splits(folds[there]), density="student-t")
    one = weighted.fit(X, y, sample_weight=counts).predict_dist(NEW)
    two = repeated.fit(X[there], y[there], groups=there).predict_dist(NEW)
    np.testing.assert_allclose(one.mean(), two.mean(), rtol=1e-6)
    np.testing.assert_allclose(one.std(), two.std(), rtol=1e-3)
    for name, column in weighted.member_table().items():
        if name != "member":
            np.testing.assert_allclose(column, repeated.member_table()[name], rtol=1e-3, atol=1e-3)


def _splits(folds):
    return [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(folds.max() + 1)]


def test_every_member_must_take_weights():
    message = (
        r"'near', a Pipeline, does not: drop it, or sklearn\.set_config\(enable_metadata_routing=True\) and request it"
    )
    with pytest.raises(InvalidParameterError, match=message):
        stack().fit(X, y, sample_weight=np.ones(150))
    with sklearn.config_context(enable_metadata_routing=True):  # as the message says
        scaler, line = StandardScaler().set_fit_request(sample_weight=False), BayesianRidge()
        pipeline = make_pipeline(scaler, line.set_fit_request(sample_weight=True))
        weighted = stack([("line", pipeline)]).fit(X, y, sample_weight=np.arange(150) % 3)
    assert weighted.score(NEW, Y_NEW) > 0.5
    frozen = FrozenEstimator(clone(PAIR[0][1]).fit(X, y))  # is not fitted, and so needs no weights
    stack([("frozen", frozen), ("function", lambda rows: rows[:, 1]), PAIR[1]]).fit(X, y, sample_weight=np.ones(150))


def test_metadata_is_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        seen = Recorder().set_fit_request(sample_weight=True, flavour=True)
        near = KNeighborsRegressor()
        line = BayesianRidge().set_fit_request(sample_weight=False)
        model = stack([("near", near), ("line", line), ("seen", seen)], cv=GroupKFold(3))
        weights, groups = np.arange(150.0) % 4, np.arange(150) % 5
        rows = np.flatnonzero(weights)
        _with_all_members(model, X, y, sample_weight=weights, flavour=np.arange(150), groups=groups)
        assert len(model.folds_) == 3
        for (kept, held_out), fit in zip(model.folds_, model.named_estimators_["seen"], strict=True):
            np.testing.assert_array_equal(fit.flavour_, rows[kept])
            np.testing.assert_array_equal(fit.weights_, weights[rows[kept]])
            assert not set(groups[rows[kept]]) & set(groups[rows[held_out]])
        with pytest.raises(ValueError, match=r"\[sample_weight\] are passed but are not explicitly set as requested"):
            stack().fit(X, y, sample_weight=weights)
        with pytest.raises(TypeError, match=r"unexpected argument.*flavour"):
            stack().fit(X, y, flavour=np.arange(150))
    with pytest.raises(InvalidParameterError, match=r"fit can pass flavour on only with sklearn\.set_config\(enable_m"):
        stack().fit(X, y, flavour=1)


@pytest.mark.no_cover
def test_spellings_of_cv():
    none, five = (stack(cv=cv).fit(X, y).predict(NEW) for cv in (None, 5))
    np.testing.assert_array_equal(none, five)
    splits = list(KFold(3).split(X))
    expected = stack(cv=KFold(3)).fit(X, y).predict(NEW)
    for cv in (splits, tuple(splits), iter(splits), [(kept.tolist(), out.tolist()) for kept, out in splits]):
        np.testing.assert_array_equal(stack(cv=cv).fit(X, y).predict(NEW), expected)


def test_rows_that_are_never_left_out_are_not_used_for_the_weights():
    model = stack(cv=TimeSeriesSplit(3)).fit(X, y)
    assert len(model.held_out_.y) == len(model.folds_.all_held_out) == 111
    kept, _ = next(iter(model.folds_))
    assert len(kept) == 39
    with pytest.raises(InvalidParameterError, match="cv must hold out no row twice"):
        stack(cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)).fit(X, y)


def test_a_fit_that_fails_changes_nothing_and_names_the_member():
    model = stack().fit(X, y)
    before = model.predict(NEW)
    with pytest.raises(ValueError, match=r"NaN(?s:.)*raised by member 'near', fitted to 120 rows"):
        model.fit(np.where(X > 5, np.nan, X), y)
    np.testing.assert_array_equal(model.predict(NEW), before)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"members": []}, r"members must be .* a list of \(name, estimator\) pairs; got \[\]"),
        ({"members": [BayesianRidge()]}, r"members must be .* a list of \(name, estimator\) pairs"),
        ({"members": [(1, BayesianRidge())]}, r"members must be .* a list of \(name, estimator\) pairs"),
        ({"members": [("a", BayesianRidge()), ("a", Ridge())]}, "Names provided are not unique"),
        ({"members": [("cv", BayesianRidge())]}, "conflict with constructor arguments"),
        ({"members": [("a__b", BayesianRidge())]}, "must not contain __"),
        ({"members": [("a", "drop")]}, "members must hold one that is not 'drop'; got only such"),
        ({"members": [("a", "skip")]}, "member 'a' must be a regressor with fit and predict"),
        ({"members": [("a", LogisticRegression())]}, "member 'a' must predict numbers; got the classifier"),
        ({"cv": 1}, "cv must be an integer >= 2; got 1"),
        ({"cv": []}, "cv must hold out rows, on which members are compared; it holds out none"),
        ({"cv": [1, 2]}, "cv must be a number, a splitter, or pairs of lists of row numbers: those to train on and"),
        ({"cv": [(0, 1)]}, "got something else in place of a pair"),
        ({"cv": [([0, 1], [2, 150])]}, "cv must give row numbers from 0 to 149; got others: split the rows of X"),
        ({"cv": [([0, 1], [-1])]}, "cv must give row numbers from 0 to 149"),
        ({"cv": "prefitted"}, "cv must be one of 'prefit'; got 'prefitted'; did you mean 'prefit'"),
        ({"cv": "prefit", "members": "auto"}, "cv='prefit' combines fitted members: give them, or let cv be None"),
        ({"predict_with": "all"}, "predict_with must be one of 'folds', 'refit'; got 'all'"),
        ({"tails": "fat"}, "tails must be one of"),
        ({"tempering": 3.0}, "tempering must be a number"),
    ],
)
def test_parameters_are_checked(params, message):
    with pytest.raises(ValueError, match=message):
        stack().set_params(**grouped(**params)).fit(X, y)


def test_errors_of_rows():
    with pytest.raises(InvalidParameterError, match="at least 2 rows; got n_samples=1: add rows, or give fitted memb"):
        stack().fit(X[:1], y[:1])
    with pytest.raises(InvalidParameterError, match=r"X must be a table.*got shape \(3,\)\. Reshape your data"):
        stack().fit(X, y).predict(X[0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        stack().fit(X, y[:-1])
    with pytest.raises(NotFittedError, match="cv='prefit' takes fitted members; fit 'near' first, or let cv be 5"):
        stack(cv="prefit").fit(X, y)
    with pytest.raises(NotFittedError):
        stack().predict(X)


def test_the_default_members_depend_on_the_rows():
    networks = [f"{activation} {decay}" for decay in (0.0, 0.3, 1.0) for activation in ("silu", "relu")]
    bins = ["silu bins", "relu bins"]
    few = [*networks, *bins, "boosting", "stochastic boosting", "trees"]
    assert [name for name, _ in default_estimators(500, 3)] == [*few, "process"]
    assert [name for name, _ in default_estimators(501, 3)] == few
    assert [name for name, _ in default_estimators(100, 3, weighted=True)] == few
    many = dict(default_estimators(5001, 3))
    assert list(many) == [*networks[:4], *bins, "boosting", "deep boosting", "trees"]
    assert many["trees"].n_estimators < dict(default_estimators(5000, 3))["trees"].n_estimators


def test_the_default_members_are_fitted(monkeypatch):
    members = dict(default_estimators(150, 3))
    quick = [("networks", members["silu 0.0"].set_params(**grouped(**QUICK))), ("process", members["process"])]
    monkeypatch.setattr(bdkn.estimators.members, "default_estimators", lambda n, width, weighted, effort: quick)
    model = BayesianStackingRegressor(cv=2, random_state=0).fit(X, y)  # no warning of bounds or of useless members
    assert {name for name, _ in model.candidates_} == {"networks", "process"} == set(model.named_estimators_)
    assert "process" in model.member_names_
    assert model.score(NEW, Y_NEW) > 0.9
    assert model.members == "auto"
    same_predictions(BDKNRegressor("auto", cv=2, n_jobs=None, random_state=0).fit(X, y), model)


@pytest.mark.no_cover
def test_a_stack_of_other_models_is_pickled_and_saved_without_pickle(tmp_path, monkeypatch):
    model = stack(AWARE).fit(X, UNEVEN)
    with pytest.raises(
        InvalidParameterError, match=r"member 'line', a Aware, .*: .* methods to_arrays and from_arrays"
    ):
        model.save(tmp_path / "model.bdkn")
    assert not list(tmp_path.iterdir())
    model = stack(TREES).fit(X, y)
    same_predictions(pickle.loads(pickle.dumps(model)), model)
    monkeypatch.setattr(pickle, "Pickler", None)
    monkeypatch.setattr(pickle, "Unpickler", None)
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    same_predictions(loaded, model)
    pd.testing.assert_frame_equal(loaded.member_report(), model.member_report())
    for name, fits in loaded.named_estimators_.items():
        for fit, own in zip(fits, model.named_estimators_[name], strict=True):
            np.testing.assert_array_equal(predict_mean_std(fit, NEW)[0], own.predict(NEW))


@pytest.mark.no_cover
def test_a_loaded_stack_takes_more_members_and_is_fitted_again_to_estimators_that_are_given(tmp_path):
    model = stack(TREES).fit(X, y)
    model.save(tmp_path / "model.bdkn")
    loaded, more = bdkn.load(tmp_path / "model.bdkn"), [PAIR[0]]
    grown = loaded.add_members(more, X, y)
    same_predictions(grown, model.add_members(more, X, y))
    grown.save(tmp_path / "grown.bdkn")
    same_predictions(bdkn.load(tmp_path / "grown.bdkn"), grown)
    same_predictions(loaded.drop_members("line"), model.drop_members("line"))
    with pytest.raises(InvalidParameterError, match=r"'tree' must be .*; got the text 'ExtraTreesReg.*give them"):
        loaded.fit(X, y)
    same_predictions(loaded.set_params(members=TREES).fit(X, y), model)
    with pytest.raises(InvalidParameterError, match=r"new members must be a list of \(name, estimator\) pairs; got 3"):
        model.add_members(3, X, y)


def same_predictions(one, other):
    for ask in ("predict", "predict_interval", "predict_var", "sample_y"):
        np.testing.assert_array_equal(getattr(one, ask)(NEW), getattr(other, ask)(NEW))
    np.testing.assert_array_equal(one.predict(NEW, return_cov=True)[1], other.predict(NEW, return_cov=True)[1])


@pytest.mark.no_cover
def test_the_default_stack_is_saved_and_loaded(tmp_path):
    model = BayesianStackingRegressor(effort="fast", cv=2, random_state=0).fit(X, y)
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    assert loaded.get_params()["members"] == "auto"
    assert [name for name, _ in loaded.candidates_] == [name for name, _ in model.candidates_]
    same_predictions(loaded, model)


class Level(RegressorMixin, BaseEstimator):
    """A constant model of a user's own, which can be written as arrays."""

    def fit(self, X, y):
        self.level_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.level_)

    def to_arrays(self):
        return {"level": np.array([self.level_])}

    @classmethod
    def from_arrays(cls, arrays):
        made = cls()
        made.level_ = arrays["level"][0]
        return made


def test_members_of_a_users_own_class_are_saved_as_the_arrays_they_give(tmp_path):
    model = _with_all_members(stack([("level", Level()), PAIR[1]]), X, y)
    model.save(tmp_path / "model.bdkn")
    same_predictions(bdkn.load(tmp_path / "model.bdkn", member_classes=[Ridge, Level]), model)
    for others in ((), [Ridge]):
        with pytest.raises(ModelFileError, match="Level"):
            bdkn.load(tmp_path / "model.bdkn", member_classes=others)


class Mine(DeepEnsembleRegressor):
    pass


@pytest.mark.parametrize("model", [Mine(**grouped(**QUICK)), Aware(), constant], ids=["Mine", "Aware", "function"])
def test_members_that_cannot_be_saved_are_found_in_nested_stacks(tmp_path, model):
    kind = type(model).__name__
    for fitted in (stack([("own", model)], cv=2), stack([("inner", stack([("own", model)], cv=2))], cv=2)):
        with pytest.raises(
            InvalidParameterError, match=f"member 'own', a {kind}, cannot be written as numbers.*joblib"
        ):
            fitted.fit(X, y).save(tmp_path / "model.bdkn")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [list, tuple])
def test_row_numbers_given_as_cv_are_saved(tmp_path, kind):
    model = stack([("networks", DeepEnsembleRegressor(**grouped(**QUICK)))], cv=kind(KFold(2).split(X))).fit(X, y)
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    assert type(loaded.cv) is kind
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    np.testing.assert_array_equal(loaded.fit(X, y).predict(NEW), model.predict(NEW))
    assert loaded.add_members([PAIR[1]], X, y).candidates_[1] == PAIR[1]


@pytest.mark.no_cover
@pytest.mark.parametrize("random_state", [0, None])
def test_a_stack_of_bdkn_regressors_is_saved(tmp_path, random_state):
    members = [
        ("ensemble", DeepEnsembleRegressor(**grouped(**QUICK))),
        ("posterior", BDKNRegressor(**grouped(**QUICK, cv=2))),
        ("inner", stack([("networks", DeepEnsembleRegressor(**grouped(**QUICK)))], cv=2)),
        ("none", "drop"),
    ]
    model = _with_all_members(stack(members, cv=2, predict_with="refit", random_state=random_state), X, y)
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(loaded.predict_interval(NEW), model.predict_interval(NEW))
    assert str(loaded.get_params()) == str(model.get_params())
    pd.testing.assert_frame_equal(loaded.member_report(), model.member_report())
    more = [("line", BayesianRidge())]
    np.testing.assert_array_equal(
        loaded.add_members(more, X, y).predict(NEW), model.add_members(more, X, y).predict(NEW)
    )


SINGLE = X[:60].astype(np.float32)


@pytest.fixture(scope="module")
def of_doubles():
    doubles = SINGLE.astype(np.float64)
    return BayesianStackingRegressor(CHECKED, density="student-t", random_state=0).fit(doubles, y[:60]).predict(doubles)


@pytest.mark.parametrize(
    "same",
    [SINGLE, SINGLE.astype(np.float64, order="F"), SINGLE.astype(">f8")],
    ids=["single precision", "by columns", "other byte order"],
)
def test_equal_numbers_in_another_type_or_order_of_memory_give_the_same_bits(of_doubles, same):
    model = BayesianStackingRegressor(CHECKED, density="student-t", random_state=0).fit(same, y[:60])
    np.testing.assert_array_equal(model.predict(same), of_doubles)


def test_sparse_numbers_in_single_precision_give_the_bits_of_doubles():
    single, lines = csr_matrix(SINGLE), [("a", Ridge()), ("b", Ridge(10.0))]
    models = [BayesianStackingRegressor(lines, random_state=0).fit(X, y[:60]) for X in (single, single.astype(float))]
    np.testing.assert_array_equal(models[0].predict(single), models[1].predict(single))
