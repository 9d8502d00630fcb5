from functools import cache

import numpy as np
import pytest
from quick import QUICK, grouped
from sklearn.ensemble import RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor

import bdkn
from bdkn import BayesianStackingRegressor, BDKNRegressor
from bdkn.data.rows import Rows
from bdkn.errors import InvalidParameterError
from bdkn.model.target_choice import TargetSettings, log_link, numeric_table
from bdkn.predictive import ContinuedLink, IdentityLink, LogitLink, LogLink, MirroredLink, StudentT, YeoJohnsonLink


def signal(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return rng, X, np.sin(X[:, 0]) + 0.6 * X[:, 1]


def prices(n=300, seed=0):
    rng, X, f = signal(n, seed)
    return X, np.exp(3 + f + 0.3 * rng.normal(size=n))


def counts(n=300, seed=0):
    rng, X, f = signal(n, seed)
    return X, rng.poisson(np.exp(0.5 + 0.7 * f)).astype(float)


def shares(n=300, seed=0):
    rng, X, f = signal(n, seed)
    return X, np.clip(0.5 + 0.35 * f + 0.1 * rng.normal(size=n), 0.0, 1.0)


def zeros(n=500, seed=0):
    rng, X, f = signal(n, seed)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-2 * f)), 0.0, np.exp(1 + f + 0.4 * rng.normal(size=n)))


def network(**parameters):
    return BDKNRegressor(**grouped(**{**QUICK, "cv": 2, **parameters}))


def stack(**parameters):
    members = [("forest", RandomForestRegressor(10)), ("near", KNeighborsRegressor())]
    return BayesianStackingRegressor(members, **grouped(cv=3, random_state=0, **parameters))


BOTH = pytest.mark.parametrize("make", [network, stack])


@cache
def fit_to_prices(make, target):
    """Return a model of prices, or by hand of their logarithms; it is shared and not to be changed."""
    X, y = prices()
    return make(target=target).fit(X, np.log(y) if target == "identity" else y)


@BOTH
@pytest.mark.parametrize(
    ("data", "parameters", "kind"),
    [
        (prices, {"target": "log"}, LogLink),
        (counts, {"target": "log"}, LogLink),
        (shares, {"target": "logit"}, LogitLink),
        (prices, {"target": "yeo-johnson", "lower": 0}, YeoJohnsonLink),
    ],
)
def test_everything_is_in_the_units_of_the_target(make, data, parameters, kind, tmp_path):
    X, y = data()
    model = make(**parameters).fit(X, y)
    assert isinstance(model.link_.link, kind)
    assert model.score(X, y) > 0.3
    X = X[:60]
    dist, (lower, upper) = model.predict_dist(X), model.link_.support
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, dist.mean())
    assert np.all((dist.ppf(0.001) >= lower) & (dist.ppf(0.999) <= upper))
    parts = model.predict_var(X, decompose=True)
    np.testing.assert_allclose(sum(parts.values()), dist.var(), rtol=1e-9)
    np.testing.assert_allclose(model.predict_var(X), std**2, rtol=1e-9)
    centre, covariance = model.predict(X[:9], return_cov=True)
    np.testing.assert_allclose(centre, mean[:9], rtol=1e-9)
    np.testing.assert_allclose(np.diag(covariance), std[:9] ** 2, rtol=1e-9)
    draws = model.sample_y(X[:9], 2000)
    assert draws.min() >= lower
    assert draws.max() <= upper
    assert np.abs(dist[:9].cdf(draws).mean(axis=1) - 0.5).max() < 0.05


@pytest.mark.no_cover
@BOTH
def test_reports_are_in_the_units_of_the_target(make):
    X, y = prices()
    model, by_hand = fit_to_prices(make, "log"), fit_to_prices(make, "identity")
    table = model.member_table()
    assert np.all(table["rmse"] < 2 * y.std())
    assert np.all(table["rmse"] > 0.05 * y.std())
    curve = model.member_curve()
    assert curve["log_score"][-1] == pytest.approx(model.log_score(X, y), abs=0.5)
    assert curve["rmse"][-1] < y.std()
    mean, _ = model.members_[0].predict(X)
    assert np.corrcoef(mean, y)[0, 1] > 0.5
    assert mean.min() > 0
    assert model.evidence_ == pytest.approx(by_hand.evidence_ - np.log(y).sum(), rel=1e-6)


@BOTH
def test_a_log_target_is_the_fit_to_logarithms(make):
    X, y = prices()
    model, by_hand = fit_to_prices(make, "log"), fit_to_prices(make, "identity")
    quantiles, expected = np.log(model.predict_quantiles(X)), by_hand.predict_quantiles(X)
    within = expected <= np.log(y.max())  # beyond the largest target the logarithm is continued linearly
    assert within.mean() > 0.9
    np.testing.assert_allclose(quantiles[within], expected[within], atol=1e-3)  # but for the truncation at zero


@pytest.mark.no_cover
def test_saved_models_keep_link_and_values(tmp_path):
    for data, target in ((counts, "log"), (zeros, "auto"), (shares, "yeo-johnson")):
        X, y = data()
        model = network(target=target).fit(X, y)
        model.save(tmp_path / "model.bdkn")
        loaded = bdkn.load(tmp_path / "model.bdkn")
        assert loaded.link_ == model.link_
        np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.no_cover
def test_the_choice():
    settings = TargetSettings("auto", None, None)
    assert isinstance(settings.link(Rows(*prices(600))).link, LogLink)
    assert settings.link(Rows(*counts(600))).support == (0.0, np.inf)
    rng, X, f = signal(600, 0)
    bounded = TargetSettings("auto", 0.0, 1.0)
    assert isinstance(bounded.link(Rows(X, 1 / (1 + np.exp(-f - 0.5 * rng.normal(size=600))))).link, LogitLink)
    assert settings.link(Rows(*shares(600))).support == (0.0, 1.0)
    assert settings.link(Rows(X, f)) == IdentityLink()
    assert settings.link(Rows(X[:20], np.exp(f[:20]))) == IdentityLink()
    assert settings.link(Rows(X, np.ones(600))) == IdentityLink()


@pytest.mark.no_cover
def test_targets_between_0_and_1_have_no_upper_bound():
    settings, (rng, X, f) = TargetSettings("auto", None, None), signal(600, 0)
    y = 0.05 * np.exp(f + 0.5 * rng.normal(size=600))
    for targets in (y[y < 1], 1 / (1 + np.exp(-f - 0.5 * rng.normal(size=600)))):
        assert settings.link(Rows(X[: len(targets)], targets)).support[1] == np.inf


@pytest.mark.parametrize(("sign", "powers"), [(1.0, (0.0, 0.5)), (-1.0, (1.5, 2.0))])
def test_powers_pull_in_the_longer_tail(sign, powers):
    rng, X, f = signal(600, 0)
    link = TargetSettings("auto", None, None).link(Rows(X, sign * (np.exp(f + 0.3 * rng.normal(size=600)) - 1.0)))
    assert isinstance(link.link, YeoJohnsonLink)
    assert link.link.power in powers


@pytest.mark.no_cover
@pytest.mark.parametrize("unit", [1e-12, 1e-8, 1e6])
def test_the_choice_does_not_depend_on_the_unit(unit):
    settings, (X, y) = TargetSettings("auto", None, None), prices(600)
    link, other = (settings.link(Rows(X, factor * y / y.max())) for factor in (0.9, 0.9 * unit))
    assert isinstance(other.link, LogLink)
    np.testing.assert_allclose(other.forward(unit * y) - link.forward(y), np.log(unit), rtol=1e-9)


@pytest.mark.parametrize(
    ("gain", "error", "kind"), [(0.1, 0.04, IdentityLink), (0.02, 0.002, IdentityLink), (0.1, 0.02, LogLink)]
)
def test_another_link_must_be_better_by_four_errors_and_three_hundredths(gain, error, kind, monkeypatch):
    X, y = prices(400)
    spread = np.sqrt(400) * error * np.resize([-1.0, 1.0], 400)  # of the gain of single rows

    def scores(table, targets, links):
        assert isinstance(links[1].link, LogLink)
        return np.stack([gain + spread if k == 1 else np.zeros(400) for k in range(len(links))])

    monkeypatch.setattr("bdkn.model.target_choice.link_scores", scores)
    link = TargetSettings("auto", None, None).link(Rows(X, y))
    assert isinstance(getattr(link, "link", link), kind)


def test_without_a_reason_the_fit_is_the_one_of_the_identity():
    rng, X, f = signal(200, 0)
    y = f + 0.3 * rng.normal(size=200)
    auto, identity = (network(target=name, density="student-t").fit(X, y) for name in ("auto", "identity"))
    np.testing.assert_array_equal(auto.predict(X), identity.predict(X))
    assert isinstance(auto.predict_dist(X), StudentT)


@pytest.mark.parametrize(
    ("lower", "upper", "kind"), [(0, None, LogLink), (None, 500, MirroredLink), (0, 500, LogitLink)]
)
def test_links_of_bounds(lower, upper, kind):
    X, y = prices(100)
    y = y if upper is None else np.minimum(500 - y if lower is None else y, 499.0)
    target = "logit" if kind is LogitLink else "log"
    link = TargetSettings(target, lower, upper).link(Rows(X, y))
    assert isinstance(link.link, kind)
    assert link.support == (-np.inf if lower is None else lower, np.inf if upper is None else upper)
    np.testing.assert_allclose(link.inverse(link.forward(y)), y, rtol=1e-9)


@pytest.mark.no_cover
@BOTH
@pytest.mark.parametrize("target", ["identity", "auto"])
def test_bounds_hold_whatever_the_link(make, target):
    X, y = counts()
    model = make(target=target, lower=0).fit(X, y)
    assert model.predict_dist(X).interval(0.99)[0].min() >= 0.0
    assert model.predict_interval(X).min() >= 0.0
    assert model.sample_y(X, 20).min() >= 0.0


def test_errors():
    X, y = prices(40)
    with pytest.raises(InvalidParameterError, match="target must be one of 'auto', 'identity', 'log', 'logit', "):
        network(target="logs").fit(X, y)
    with pytest.raises(InvalidParameterError, match="targets must lie within lower=30; got"):
        network(lower=30).fit(X, y)
    with pytest.raises(InvalidParameterError, match="lower must be < upper; got lower=3 and upper=2"):
        network(lower=3, upper=2).fit(X, y)
    with pytest.raises(InvalidParameterError, match="target='log' needs targets above the bound 0; they extend"):
        network(target="log").fit(X, y - 50)
    with pytest.raises(InvalidParameterError, match="target='logit' needs targets between 0 and 1"):
        network(target="logit").fit(X, y)
    with pytest.raises(InvalidParameterError, match="all of them lie on the bounds 0 and 1: use target='identity'"):
        network(target="logit").fit(X, (y > y.mean()).astype(float))
    with pytest.raises(InvalidParameterError, match="lower must be a finite number, or None for no bound; got -inf"):
        network(lower=-np.inf).fit(X, y)
    with pytest.raises(InvalidParameterError, match="takes one bound; got lower and upper: use target='logit'"):
        network(target="log", lower=0, upper=1e9).fit(X, y)
    with pytest.raises(InvalidParameterError, match="design='in-sample' is the published method"):
        network(target="log", design="in-sample").fit(X, y)
    with pytest.raises(InvalidParameterError, match="member 'mean' is used as it is and predicts the target itself"):
        BayesianStackingRegressor([("mean", lambda X: X[:, 0])], target="log").fit(X, y)


def test_targets_on_the_bound_and_the_continued_logarithm():
    y = np.array([0.0, 0.0, 1.0, 2.0, 3.0, 10.0])
    assert log_link(y, 0.0) == ContinuedLink(LogLink(0.0), 1.0, 10.0)
    assert log_link(y[2:], 0.0) == ContinuedLink(LogLink(0.0), 1.0 / 3.0, 10.0)


def test_members_are_compared_by_targets_on_the_bound():
    model = network(target="log", density="student-t").fit(*zeros(200))
    assert np.isfinite(model.member_table()["loss_without"]).all()
    assert np.isfinite(model.member_curve()["log_score"]).all()


@pytest.mark.no_cover
def test_quantiles_are_the_ends_of_intervals_for_values_too():
    X, y = counts(200)
    model = network().fit(X, y)
    assert model.target_values_ is not None
    ends = model.predict_quantiles(X, [0.05, 0.95])
    np.testing.assert_array_equal(ends, model.predict_interval(X, 0.9))
    with pytest.raises(InvalidParameterError, match=r"one value for each of the 200 predicted rows; got shape \(10,\)"):
        model.value_log_score(X, y[:10])
    with pytest.raises(ValueError, match="y contains NaN"):
        model.value_log_score(X[:2], [1.0, np.nan])


def test_any_table_is_read():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    np.testing.assert_array_equal(numeric_table(frame), [[1, 0, 0], [2, 1, 1]])
    assert numeric_table(np.array([["x"]], dtype=object)) is None


@pytest.mark.no_cover
@BOTH
def test_probabilities_of_a_discrete_target(make):
    X, y = counts(600)
    model = make().fit(X, y)
    found = model.target_values_
    assert found.is_discrete
    np.testing.assert_array_equal(found.values, np.unique(y))
    table = model.predict_values(X)
    assert list(table) == list(np.unique(y))
    np.testing.assert_allclose(sum(table.values()), 1.0)
    new, observed = counts(1000, seed=1)
    lower, upper = model.predict_interval(new).T
    assert {*lower, *upper} <= {*found.values}
    assert np.mean((lower <= observed) & (observed <= upper)) > 0.88
    chance = np.log(np.maximum([np.mean(y == value) for value in observed], 1 / 601)).mean()
    assert model.value_log_score(new, observed) > chance


@pytest.mark.no_cover
@BOTH
def test_probabilities_of_a_point_mass(make):
    X, y = zeros()
    model = make().fit(X, y)
    assert not model.target_values_.is_discrete
    new, observed = zeros(1000, seed=1)
    chance = model.predict_values(new)[0.0]
    assert chance.mean() == pytest.approx(np.mean(observed == 0), abs=0.08)
    high = chance > np.median(chance)
    assert np.mean(observed[high] == 0) > np.mean(observed[~high] == 0) + 0.2
    lower, upper = model.predict_interval(new).T
    assert np.mean((lower <= observed) & (observed <= upper)) > 0.86
    assert np.isfinite(model.value_log_score(new, observed))


@pytest.mark.no_cover
def test_most_targets_on_one_of_eleven_values():
    rng, X, f = signal(800, 3)
    y = np.where(rng.random(800) < 0.62, 5.0, np.clip(np.round(5 + 2 * f + 2 * rng.normal(size=800)), 0, 10))
    model = network().fit(X[:400], y[:400])
    lower, upper = model.predict_interval(X[400:]).T
    assert np.mean((lower <= y[400:]) & (y[400:] <= upper)) > 0.88


def test_without_values_there_are_no_probabilities():
    X, y = prices(60)
    model = network().fit(X, y)
    assert model.target_values_ is None
    with pytest.raises(InvalidParameterError, match="probabilities of values need held-out rows and a discrete target"):
        model.predict_values(X)


@pytest.mark.no_cover
def test_members_are_dropped_and_added():
    X, y = counts()
    model = network(target="log").fit(X, y)
    fewer = model.drop_members(model.member_names_[0]) if len(model.member_names_) > 1 else model
    assert fewer.predict_values(X).keys() == model.predict_values(X).keys()
    more = model.add_members(1, X, y)
    np.testing.assert_array_equal(more.predict(X), network(target="log", n_members=4).fit(X, y).predict(X))
