"""A weight counts how often a row occurs."""

import numpy as np
import pytest
from quick import EACH, QUICK, grouped, table
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

from bdkn.errors import InvalidParameterError
from bdkn.estimators import BDKNRegressor
from bdkn.networks.reference import ReferenceEngine

X, y = table(60)
NEW, _ = table(20, seed=1)
COUNTS = np.random.default_rng(0).integers(0, 4, 60)

FULL_BATCH = {
    **QUICK,
    "early_stopping": False,
    "batch_size": 10_000,
    "engine": ReferenceEngine(np.float64),
}
"""One batch of all rows in double precision: here a weight and a repetition are the same thing."""

EXACT = EACH[2:]
"""Where every network sees all rows. Else the copies of a row fall into different folds; see test_designs.py."""


@pytest.mark.parametrize("cls", EXACT)
@pytest.mark.parametrize("objective", ["nll", "beta_nll", "mse"])
def test_a_weight_is_a_repetition(cls, objective):
    weighted = cls(**grouped(**FULL_BATCH, objective=objective)).fit(X, y, sample_weight=COUNTS)
    repeated = cls(**grouped(**FULL_BATCH, objective=objective)).fit(np.repeat(X, COUNTS, axis=0), np.repeat(y, COUNTS))
    np.testing.assert_allclose(
        np.stack(weighted.predict(NEW, return_std=True)), np.stack(repeated.predict(NEW, return_std=True)), rtol=1e-5
    )
    for name, column in weighted.member_table().items():
        if name != "member":
            np.testing.assert_allclose(column, repeated.member_table()[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cls", EXACT)
def test_scikit_learns_own_check_holds_with_one_batch(cls):
    check_sample_weight_equivalence_on_dense_data("regressor", cls(**grouped(**{**FULL_BATCH, "epochs": 3})))


@pytest.mark.parametrize("cls", EACH)
def test_rows_of_weight_zero_are_absent(cls):
    keep = COUNTS > 0
    weight = keep.astype(float)
    nonsense = np.where(keep[:, None], X, 1e30)
    absent = cls(**grouped(**QUICK)).fit(nonsense, np.where(keep, y, -1e30), sample_weight=weight)
    # Sums over rows that all count once may round otherwise than sums over rows.
    np.testing.assert_allclose(
        absent.predict(NEW), cls(**grouped(**QUICK)).fit(X[keep], y[keep]).predict(NEW), rtol=1e-12
    )


@pytest.mark.no_cover
@pytest.mark.parametrize("cls", EACH)
def test_weights_of_one_equal_no_weights(cls):
    np.testing.assert_allclose(
        cls(**grouped(**QUICK)).fit(X, y, sample_weight=np.ones(60)).predict(NEW),
        cls(**grouped(**QUICK)).fit(X, y).predict(NEW),
        rtol=1e-6,
    )


def test_weights_count_as_observations():
    model = BDKNRegressor(**grouped(**QUICK, design="in-sample")).fit(X, y, sample_weight=COUNTS)
    assert model.dof_ == COUNTS.sum()
    model = BDKNRegressor(**grouped(**QUICK, tails="posterior")).fit(X, y, sample_weight=COUNTS)
    assert model.dof_ == model.combination_.n == COUNTS.sum()


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(60), "must contain at least one non-zero number; got only zeros"),
        (np.full(60, -1.0), "sample_weight must be >= 0, as it counts rows; got -1.0"),
        (np.ones(59), r"one number per row, shape \(60,\); got \(59,\)"),
        (np.ones((60, 2)), r"one number per row, shape \(60,\); got \(60, 2\)"),
    ],
)
def test_bad_weights(weight, message):
    with pytest.raises(InvalidParameterError, match=message):
        BDKNRegressor(**grouped(**QUICK)).fit(X, y, sample_weight=weight)


def test_weights_must_be_finite():
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        BDKNRegressor(**grouped(**QUICK)).fit(X, y, sample_weight=np.full(60, np.nan))
