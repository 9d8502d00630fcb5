"""Members told apart, dropped and added after a fit, with nothing else fitted anew."""

import numpy as np
import pytest
from quick import QUICK, grouped, table
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bdkn import BayesianStackingRegressor, BDKNRegressor, CombinationOptions, StudentT
from bdkn.errors import InvalidParameterError
from bdkn.inference import combine

X, y = table(150)
NEW, _ = table(40, seed=1)


def neighbours(k):
    return make_pipeline(StandardScaler(), KNeighborsRegressor(k))


MEMBERS = [("three", neighbours(3)), ("five", neighbours(5)), ("seven", neighbours(7))]
LINE = ("line", make_pipeline(StandardScaler(), BayesianRidge()))


def networks(n=3, **params):
    return BDKNRegressor(
        **grouped(**{**QUICK, "n_members": n, "select_members": False, "density": "student-t", **params})
    )


def stack(members=MEMBERS, **params):
    settings = {"random_state": 0, "select_members": False, "density": "student-t"}
    return BayesianStackingRegressor(list(members), **grouped(**{**settings, **params}))


def left_out_one(model, members):
    """Return the mean log density and the squared error of each row under a combination of all other rows."""
    held_out = model.held_out_[np.array(members)]
    forecast, combined = held_out.forecast(), (model.combination or CombinationOptions()).combine(held_out)
    τ, t, n = combined.tempering, combined.prior_variance, len(held_out.y)
    densities, errors = [], []
    for i in range(n):
        rest = np.arange(n) != i
        others = type(forecast)(forecast.means[rest], forecast.noise[rest], forecast.disagreement[rest])
        alone = type(forecast)(forecast.means[[i]], forecast.noise[[i]], forecast.disagreement[[i]])
        refit = combine(others, held_out.y[rest], prior_variance=t, tempering=τ, tails="posterior")
        dist = refit.predictive(alone)
        if (model.combination or CombinationOptions()).tails == "loo":
            dist = StudentT(combined.tails.df, dist.loc, combined.tails.scale * dist.scale)
        densities.append(dist.logpdf(held_out.y[[i]])[0])
        errors.append(dist.loc[0] - held_out.y[i])
    scale = model.target_scaler_.scale
    return np.mean(densities) - np.log(scale), scale * np.sqrt(np.mean(np.square(errors)))


@pytest.fixture(scope="module", params=["stack", "networks", "own tails"])
def model(request):
    if request.param == "stack":
        return stack().fit(X, y)
    return networks(tails="loo" if request.param == "networks" else "posterior").fit(X, y)


@pytest.mark.no_cover
def test_loss_without_a_member(model):
    columns = model.member_table()
    everyone, _ = left_out_one(model, [0, 1, 2])
    without = [left_out_one(model, rest)[0] for rest in ([1, 2], [0, 2], [0, 1])]
    np.testing.assert_allclose(columns["loss_without"], everyone - np.array(without), rtol=1e-6, atol=1e-9)
    assert list(model.member_report()) == list(columns)


def test_member_curve(model):
    curve = model.member_curve()
    np.testing.assert_array_equal(curve["n_members"], [1, 2, 3])
    expected = [left_out_one(model, list(range(size))) for size in (1, 2, 3)]
    np.testing.assert_allclose(np.stack([curve["log_score"], curve["rmse"]], axis=1), expected, rtol=1e-8)
    if (model.combination or CombinationOptions()).tails == "loo":
        np.testing.assert_allclose(
            curve["log_score"][-1], model.combination_.score - np.log(model.target_scaler_.scale)
        )


def same(one, two, rtol=0.0):
    np.testing.assert_allclose(one.predict(NEW), two.predict(NEW), rtol=rtol)
    np.testing.assert_allclose(one.predict_interval(NEW), two.predict_interval(NEW), rtol=rtol)
    first, second = one.member_table(), two.member_table()
    assert first.keys() == second.keys()
    assert first.pop("member") == second.pop("member") == list(one.member_names_)
    for name in first:
        np.testing.assert_allclose(first[name], second[name], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.evidence_, two.evidence_, rtol=rtol)


DESIGNS = [{}, {"predict_with": "refit"}, {"design": "hold-out"}, {"objective": "mse"}, {"random_state": None}]


@pytest.mark.no_cover
@pytest.mark.parametrize("params", DESIGNS)
def test_networks_added_are_those_of_a_larger_fit(params):
    small = networks(2, **params).fit(X, y)
    before = small.predict(NEW)
    large = small.add_members(2, X, y)
    assert large.n_members == 4
    assert large.member_names_[-1] == "network 4"
    np.testing.assert_array_equal(small.predict(NEW), before)
    if params.get("random_state", 0) is not None:
        same(large, networks(4, **params).fit(X, y))
    same(small.add_members(1, X, y).add_members(1, X, y), large)
    same(large.drop_members(["network 3", "network 4"]), small, rtol=1e-8)  # sums over rows are in another order


def test_networks_added_with_weights():
    weights = np.arange(150) % 3
    large = networks(3).fit(X, y, sample_weight=weights)
    same(networks(2).fit(X, y, sample_weight=weights).add_members(1, X, y, sample_weight=weights), large)


def test_dropping_networks_combines_the_others():
    model = networks().fit(X, y)
    fewer = model.drop_members("network 2")
    assert fewer.member_names_ == ("network 1", "network 3")
    expected = combine(model.held_out_[np.array([0, 2])].forecast(), model.held_out_.y)
    np.testing.assert_array_equal(fewer.weights_, expected.weights)
    assert fewer.combination_.score == expected.score
    assert len(fewer.loss_curves_) == 2 * 5
    np.testing.assert_array_equal(fewer.member_table()["rmse"], model.member_table()["rmse"][[0, 2]])
    added = fewer.add_members(1, X, y)
    assert added.member_names_ == ("network 1", "network 3", "network 4")


@pytest.mark.no_cover
@pytest.mark.parametrize("params", [{}, {"predict_with": "refit"}, {"cv": KFold(4)}])
def test_drop_members_of_a_stack_equals_a_fit_without_them(params):
    everyone = stack(**params).fit(X, y)
    fewer = everyone.drop_members(["three"])
    same(fewer, stack(MEMBERS[1:], **params).fit(X, y), rtol=1e-8)
    assert fewer.members == [("three", "drop"), *MEMBERS[1:]]
    same(fewer.fit(X, y), stack(MEMBERS[1:], **params).fit(X, y))
    assert everyone.member_names_ == ("three", "five", "seven")


@pytest.mark.no_cover
@pytest.mark.parametrize("params", [{}, {"predict_with": "refit"}, {"cv": KFold(4)}, {"random_state": 3}])
def test_add_members_to_a_stack_equals_a_fit_with_them(params):
    few = stack(MEMBERS[:1], **params).fit(X, y)
    more = few.add_members(MEMBERS[1:], X, y)
    same(more, stack(**params).fit(X, y))
    assert more.named_estimators_["three"] == few.named_estimators_["three"]  # not fitted anew
    assert few.member_names_ == ("three",)
    same(more.drop_members(["five", "seven"]), few, rtol=1e-8)


def test_prefit_members_are_added_on_the_same_rows():
    fitted = [
        (name, member.fit(X[:75], y[:75])) for name, member in [("three", neighbours(3)), ("five", neighbours(5))]
    ]
    few = stack(fitted[:1], cv="prefit").fit(X[75:], y[75:])
    same(few.add_members(fitted[1:], X[75:], y[75:]), stack(fitted, cv="prefit").fit(X[75:], y[75:]))
    with pytest.raises(InvalidParameterError, match="new members must be fitted to the rows that the others were fitt"):
        few.add_members(fitted[1:], X, y)


def test_members_are_added_with_weights():
    weights = np.arange(150) % 3
    one, two = ("line", LinearRegression()), ("bayes", BayesianRidge())
    few = stack([one]).fit(X, y, sample_weight=weights)
    same(few.add_members([two], X, y, sample_weight=weights), stack([one, two]).fit(X, y, sample_weight=weights))


def test_new_members_are_checked():
    few = stack().fit(X, y)
    with pytest.raises(ValueError, match="Names provided are not unique"):
        few.add_members(MEMBERS[:1], X, y)
    with pytest.raises(InvalidParameterError, match="new members must be fitted to the rows that the others were fitt"):
        few.add_members([LINE], X, y[::-1])
    with pytest.raises(InvalidParameterError, match="n must be an integer >= 1; got 0"):
        networks(2).fit(X, y).add_members(0, X, y)


OTHER_ROWS = {
    "rows": (X[::-1], y, None),
    "one number": (np.where(np.arange(450).reshape(X.shape) == 7, X + 1, X), y, None),
    "targets": (X, y + (np.arange(150) == 3), None),
    "fewer": (X[:-1], y[:-1], None),
    "weights": (X, y, np.arange(150) % 2 + 1.0),
}


@pytest.mark.parametrize("design", ["cross-fit", "hold-out", "stack"])
def test_rows_other_than_those_of_the_fit_are_refused(design):
    if design == "stack":
        model, new = stack([("line", LinearRegression())]).fit(X, y), [("bayes", BayesianRidge())]
    else:
        model, new = networks(2, design=design, epochs=1).fit(X, y), 1
    for given in OTHER_ROWS.values():
        with pytest.raises(InvalidParameterError, match="got other rows, targets or weights: give X, y and sample_wei"):
            model.add_members(new, *given)
    assert model.add_members(new, X.copy(order="F"), y.tolist()).member_names_[:-1] == model.member_names_


def test_new_members_are_made_as_the_others():
    model = networks(2, epochs=1).fit(X, y).set_params(n_members=7)
    assert model.add_members(1, X, y).member_names_ == ("network 1", "network 2", "network 3")
    for name, value in {"cv": 3, "predict_with": "refit", "learning_rate": 0.1, "activation": ["tanh"]}.items():
        changed = networks(2, epochs=1).fit(X, y).set_params(**{name: value})
        with pytest.raises(InvalidParameterError, match=f"the fit had {name}=.*, which is now .*: set it back, or fit"):
            changed.add_members(1, X, y)
    for name, value in {"cv": 3, "predict_with": "refit"}.items():
        with pytest.raises(InvalidParameterError, match=f"the fit had {name}=.*, which is now .*: set it back, or fit"):
            stack().fit(X, y).set_params(**{name: value}).add_members([LINE], X, y)


def test_members_that_would_harm_the_rest_are_dropped_too():
    large = "large", lambda rows: 1e3 * np.sin(1e4 * rows[:, 1])
    model = stack([*MEMBERS[:2], large]).fit(X, y).set_params(combination=CombinationOptions(select_members=True))
    assert model.drop_members("three").member_names_ == ("five",)
    assert "large" not in model.add_members(MEMBERS[2:], X, y).member_names_


def test_members_that_cannot_be_dropped(model):
    name = model.member_names_[0]
    with pytest.raises(InvalidParameterError, match=f"each member to drop must be one of '{name}'.*got 'forest'"):
        model.drop_members("forest")
    with pytest.raises(InvalidParameterError, match="at least one member must be left of 3; got all of them to drop"):
        model.drop_members(model.member_names_)


def test_in_sample_members_cannot_be_compared():
    model = networks(design="in-sample").fit(X, y)
    message = "only by held-out rows; design='in-sample' has none: fit with design='cross-f"
    for ask in (model.member_curve, lambda: model.drop_members("network 1"), lambda: model.add_members(1, X, y)):
        with pytest.raises(InvalidParameterError, match=message):
            ask()
    assert np.isnan(model.member_table()["loss_without"]).all()
