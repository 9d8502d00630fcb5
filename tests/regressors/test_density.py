"""Regressors whose predictions are mixtures of the Student-t and densities of neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from quick import QUICK, grouped
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import bdkn
from bdkn import BayesianStackingRegressor, BDKNRegressor
from bdkn.errors import InvalidParameterError
from bdkn.predictive import StudentT, StudentTMixture


def two_modes(n=300, seed=0):
    """Return rows with targets three above or three below a line."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, 10.0 + X[:, 0] + np.where(rng.random(n) < 0.5, -3.0, 3.0) + 0.1 * rng.normal(size=n)


X, Y = two_modes()
NEW, NEW_Y = two_modes(60, seed=1)
MEMBERS = [("line", LinearRegression()), ("trees", RandomForestRegressor(10))]


def networks(**params):
    return BDKNRegressor(**grouped(**{**QUICK, "early_stopping": False, "epochs": 10, **params}))


def stack(**params):
    return BayesianStackingRegressor(MEMBERS, **grouped(random_state=0, select_members=False, **params))


@pytest.fixture(scope="module", params=[networks, stack], ids=["networks", "stack"])
def model(request):
    return request.param().fit(X, Y)


@pytest.mark.no_cover
def test_predictions_have_the_shape(model):
    dist = model.predict_dist(NEW)
    assert isinstance(dist, StudentTMixture)
    alone = model.combination_.predictive(model.model_.forecast(NEW)).affine(model.target_scaler_.scale, 0.0)
    assert model.log_score(NEW, NEW_Y) > alone.affine(1.0, model.target_scaler_.mean).logpdf(NEW_Y).mean() + 0.2
    np.testing.assert_array_equal(model.predict(NEW), dist.mean())
    np.testing.assert_array_equal(model.predict_interval(NEW), np.stack(dist.interval(0.9), axis=1))


def test_the_student_t_alone(model):
    plain = type(model)(**{**model.get_params(deep=False), "density": "student-t"}).fit(X, Y)
    assert plain.density_ is None
    assert isinstance(plain.predict_dist(NEW), StudentT)
    assert plain.combination_.score == model.combination_.score
    assert "shape" not in plain.predict_var(NEW, decompose=True)
    same = model.without_shape()
    assert (same.density, same.density_) == ("student-t", None)
    assert model.density_ is not None
    np.testing.assert_array_equal(same.predict_dist(NEW).logpdf(NEW_Y), plain.predict_dist(NEW).logpdf(NEW_Y))


@pytest.mark.filterwarnings("ignore::bdkn.errors.OutsideDataWarning")
def test_far_from_the_training_rows_the_student_t_is_alone(model):
    """Where the variance is due to the distance, neighbours do not shape the density."""
    levels, student = np.array([0.05, 0.25, 0.5, 0.75, 0.95]), model.without_shape()

    def difference(rows):
        quantiles = student.predict_quantiles(rows, levels)
        return np.abs(model.predict_dist(rows).cdf(quantiles) - levels).max(axis=1)

    assert difference(1000.0 * NEW).max() < 0.01
    assert np.median(difference(NEW)) > 0.05


def test_parts_add_up_to_the_variance(model):
    parts, dist = model.predict_var(NEW, decompose=True), model.predict_dist(NEW)
    assert list(parts) == ["noise", "disagreement", "weights", "outside", "shape"]
    np.testing.assert_allclose(sum(parts.values()), dist.var(), rtol=1e-9)
    np.testing.assert_allclose(model.predict_var(NEW), dist.var(), rtol=1e-9)


def test_the_covariance_has_the_variances_of_the_mixture(model):
    mean, covariance = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(mean, model.predict(NEW))
    np.testing.assert_allclose(np.diag(covariance), model.predict_dist(NEW).var(), rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9


def test_joint_draws_have_the_distribution_of_each_row(model):
    draws, dist = model.sample_y(NEW[:3], 4000), model.predict_dist(NEW[:3])
    pit = np.sort(dist.cdf(draws), axis=1)
    assert np.abs(pit - (np.arange(4000) + 0.5) / 4000).max() < 0.04


def test_joint_draws_are_those_of_the_student_t_carried_over(model):
    plain = model.without_shape()
    drawn = model.combination_.draw(
        model.model_.forecast(NEW[:4]), 50, np.random.default_rng(np.random.SeedSequence(0))
    )
    ranks = np.argsort(np.argsort(drawn, axis=1), axis=1)
    np.testing.assert_array_equal(np.argsort(np.argsort(plain.sample_y(NEW[:4], 50), axis=1), axis=1), ranks)


@pytest.mark.no_cover
def test_a_saved_model_predicts_the_same(tmp_path):
    model = networks().fit(X, Y)
    model.save(tmp_path / "model.bdkn")
    loaded = bdkn.load(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(loaded.predict_interval(NEW), model.predict_interval(NEW))
    np.testing.assert_array_equal(loaded.predict_dist(NEW).crps(NEW_Y), model.predict_dist(NEW).crps(NEW_Y))


@pytest.mark.no_cover
def test_members_added_are_those_of_a_larger_fit():
    large = networks(n_members=3, select_members=False).fit(X, Y)
    grown = networks(n_members=2, select_members=False).fit(X, Y).add_members(1, X, Y)
    np.testing.assert_array_equal(grown.density_.shares, large.density_.shares)
    np.testing.assert_array_equal(grown.predict_interval(NEW), large.predict_interval(NEW))


def test_weights_of_densities_stay_when_a_member_is_dropped(model):
    fewer = model.drop_members(model.member_names_[0])
    np.testing.assert_array_equal(fewer.density_.shares, model.density_.shares)
    held_out = fewer.held_out_
    others = fewer.combination_.leave_one_out(held_out.forecast(), held_out.y)
    np.testing.assert_array_equal(fewer.density_.neighbours.errors, (held_out.y - others.loc) / others.scale)


@pytest.mark.parametrize("design", ["in-sample", "hold-out"])
def test_other_designs_keep_the_student_t(design):
    assert networks(design=design).fit(X, Y).density_ is None
    assert BDKNRegressor.from_paper(epochs=2).fit(X, Y).density_ is None


@pytest.mark.no_cover
def test_weights_count_rows():
    counts = np.where(np.arange(300) % 3 == 0, 2.0, 1.0)
    assert networks().fit(X, Y, sample_weight=counts).density_ is not None


def test_frames_with_text_use_their_numbers():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"kind": np.where(X[:, 1] > 0, "a", "b"), "first": X[:, 0], "second": X[:, 1]})
    members = [("one", lambda table: np.asarray(table["first"])), ("zero", lambda table: np.zeros(len(table)))]
    model = BayesianStackingRegressor(members, random_state=0).fit(frame, Y)
    assert model.density_.columns == ("first", "second")
    assert isinstance(model.predict_dist(frame[:5]), StudentTMixture)
    only_text = BayesianStackingRegressor(members[1:], random_state=0).fit(frame[["kind"]], Y)
    assert only_text.density_ is None


def test_sparse_tables_keep_the_student_t():
    from scipy.sparse import csr_array

    model = BayesianStackingRegressor([("line", LinearRegression())], random_state=0).fit(csr_array(X), Y)
    assert model.density_ is None


def test_the_parameter_is_checked():
    with pytest.raises(InvalidParameterError, match="density must be one of 'auto', 'student-t'; got 'flow'"):
        networks(density="flow").fit(X, Y)
