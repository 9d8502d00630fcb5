"""The linear member: the lasso as networks without hidden layers, with the folds of other members."""

from __future__ import annotations

import numpy as np
import pytest

from bdkn import BDKNRegressor, CombinationOptions, load
from bdkn.data.folds import FoldPlan, Splitting
from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.ensemble.networks import fit_linear, needs_linear

SMALL = {"n_members": 3, "hidden_layer_sizes": (8,), "epochs": 30, "learning_rate": 0.01, "n_jobs": 1}


def scaled(rows):
    """Return the standardized inputs and targets of rows."""
    X = Standardizer.fit(rows).transform(rows.X)
    return Rows(X, TargetScaler.fit(rows.y, rows.counts).transform(rows.y), rows.counts)


def splitting(rows):
    """Return the splitting that uses every row."""
    return Splitting(rows, np.arange(len(rows)))


def sparse_rows(n=60, p=80, seed=0):
    """Return rows with three true inputs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(2.0, 3.0, size=(n, p))
    return X, 5.0 + X[:, :3].sum(axis=1) + 0.3 * rng.normal(size=n)


def lasso_of(X, y):
    from sklearn.linear_model import LassoCV

    return LassoCV(cv=5, alphas=40, tol=1e-3, fit_intercept=False).fit(X.astype(float), y)


@pytest.mark.parametrize("options", [{}, {"design": "hold-out"}, {"predict_with": "refit"}], ids=str)
def test_each_row_is_predicted_by_a_lasso_of_the_rows_that_its_fold_keeps(options):
    X, y = sparse_rows()
    encoded = scaled(Rows(X, y))
    plan = FoldPlan.of(BDKNRegressor(**options), splitting(encoded), 0, range(3))
    found = fit_linear(encoded, plan)
    assert found.names == ("linear",)
    assert found.is_finite.all()
    numbers = np.arange(60) if plan.held_out is None else plan.held_out
    held_out = found.held_out.means[:, 0]
    fold = int(plan.fold_of[numbers[0], 0])
    rows = np.asarray(plan.rows[3 * fold])
    expected = lasso_of(encoded.X[rows], encoded.y[rows]).predict(encoded.X)
    mine = plan.fold_of[numbers, 0] == fold
    np.testing.assert_allclose(held_out[mine], expected[numbers][mine], atol=1e-4)
    assert len(found.trained.networks) == (1 if options else 5)


def test_its_variance_is_constant_and_of_the_size_of_its_error():
    X, y = sparse_rows()
    encoded = scaled(Rows(X, y))
    found = fit_linear(encoded, FoldPlan.of(BDKNRegressor(), splitting(encoded), 0, range(3)))
    variances = found.held_out.variances
    by_fold = found.trained.networks.outputs(encoded.X)[1]
    assert np.ptp(by_fold, axis=1) == pytest.approx(0.0, abs=1e-6)
    error = np.mean((found.held_out.means[:, 0] - encoded.y) ** 2)
    assert 0.3 < variances.mean() / error < 3.0


def test_counts_are_weights_of_rows():
    X, y = sparse_rows(40, 5)
    counts = np.random.default_rng(1).integers(1, 3, 40).astype(float)
    encoded = scaled(Rows(X, y, counts))
    found = fit_linear(encoded, FoldPlan.of(BDKNRegressor(), splitting(encoded), 0, range(1)))
    assert np.corrcoef(found.held_out.means[:, 0], y)[0, 1] > 0.95
    np.testing.assert_array_equal(found.held_out.counts, counts)


@pytest.mark.parametrize("y", [np.zeros(6), np.arange(6.0)], ids=["constant", "few rows"])
def test_it_is_the_mean_where_nothing_can_be_learned(y):
    X = np.random.default_rng(0).normal(size=(6, 20))
    encoded = scaled(Rows(X[:3], y[:3]))
    plan = FoldPlan.of(BDKNRegressor(cv=3), splitting(encoded), 0, range(1))
    found = fit_linear(encoded, plan)
    assert np.isfinite(found.held_out.means).all()
    for W, _b in found.trained.networks.layers:
        assert not W[:, 0].any()


@pytest.mark.no_cover
def test_wide_tables_have_it_and_others_do_not():
    assert needs_linear(20, 50)
    assert needs_linear(200, 2000)
    assert not needs_linear(120, 3)
    wide, y = sparse_rows()
    model = BDKNRegressor(**SMALL, random_state=0).fit(wide, y)
    assert "linear" in model.member_names_
    alone = BDKNRegressor(**SMALL, random_state=0, members=("networks",)).fit(wide, y)
    assert "linear" not in alone.member_names_
    new, y_new = sparse_rows(300, seed=1)
    assert model.score(new, y_new) > max(0.8, alone.score(new, y_new))
    assert model.n_trained_ == alone.n_trained_ == 3
    narrow = BDKNRegressor(
        **SMALL, random_state=0, members=("networks", "linear"), combination=CombinationOptions(select_members=False)
    ).fit(wide[:, :4], y)
    assert narrow.member_names_ == ("linear", "network 1", "network 2", "network 3")
    assert len(narrow.loss_curve_) == 30


@pytest.mark.no_cover
def test_the_names_of_members_fix_whether_there_is_one():
    rows, y = sparse_rows(40, 6)
    found = [BDKNRegressor(names, **SMALL, random_state=0).fit(rows, y) for names in ("networks", ("networks",))]
    np.testing.assert_array_equal(found[0].predict(rows), found[1].predict(rows))
    wide, y = sparse_rows()
    found = [
        BDKNRegressor(names, **SMALL, random_state=0).fit(wide, y) for names in ("networks", ("networks", "linear"))
    ]
    np.testing.assert_array_equal(found[0].predict(wide), found[1].predict(wide))


def test_it_is_saved_dropped_and_joined_by_more_members(tmp_path):
    X, y = sparse_rows(40, 6)
    options = {
        **SMALL,
        "random_state": 0,
        "members": ("networks", "linear"),
        "combination": CombinationOptions(select_members=False),
    }
    model = BDKNRegressor(**options).fit(X, y)
    model.save(tmp_path / "model.bdkn")
    np.testing.assert_array_equal(load(tmp_path / "model.bdkn").predict(X), model.predict(X))
    assert model.drop_members("linear").member_names_ == ("network 1", "network 2", "network 3")
    more = model.add_members(2, X, y)
    at_once = BDKNRegressor(**{**options, "n_members": 5}).fit(X, y)
    assert more.member_names_ == at_once.member_names_
    np.testing.assert_allclose(more.predict(X), at_once.predict(X), rtol=1e-6)


def test_the_published_method_has_none():
    X, y = sparse_rows(30, 40)
    model = BDKNRegressor.from_paper(1, epochs=3, n_members=2, random_state=0, members=("networks", "linear")).fit(X, y)
    assert model.member_names_ == ("network 1", "network 2")


def test_other_values_are_refused():
    for members in (("linear",), ("linear", "trees"), ("networks", "trees"), (), "linear", 3, None, ("networks", [])):
        with pytest.raises(ValueError, match=r"members must be 'networks', 'auto', \('networks',\), .*; got "):
            BDKNRegressor(members, **SMALL).fit(*sparse_rows())
