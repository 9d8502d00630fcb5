"""Names of earlier versions still work, and warn with the line that uses them."""

from __future__ import annotations

import numpy as np
import pytest
from quick import QUICK, table

from bdkn import BayesianStackingRegressor, BDKNRegressor

X, y = table(60)


@pytest.fixture(scope="module")
def model():
    return BDKNRegressor(**QUICK).fit(X, y)


@pytest.mark.parametrize(
    ("former", "today"),
    [("prior_scale_", "prior_variance_"), ("noise_", "noise_variance_"), ("origin_", "provenance_")],
)
def test_attributes(model, former, today):
    with pytest.warns(FutureWarning, match=f"{former} is now {today}") as caught:
        assert getattr(model, former) == getattr(model, today)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(("former", "today"), [("exact", "evidence"), ("paper", "paper"), (0.5, 0.5)])
@pytest.mark.parametrize("cls", [BDKNRegressor, BayesianStackingRegressor])
def test_evidence_is_prior_variance(cls, former, today):
    options = QUICK if cls is BDKNRegressor else {"estimators": [("one", BDKNRegressor(**QUICK))], "random_state": 0}
    with pytest.warns(FutureWarning, match="evidence= is now prior_variance=") as caught:
        old = cls(**options, evidence=former).fit(X, y)
    assert caught[0].filename == __file__
    new = cls(**options, prior_variance=today).fit(X, y)
    assert old.prior_variance_ == new.prior_variance_
    np.testing.assert_array_equal(old.predict(X), new.predict(X))


def test_alpha_is_quantiles(model):
    with pytest.warns(FutureWarning, match="alpha= is now quantiles="):
        old = model.predict_quantiles(X, alpha=[0.1, 0.9])
    np.testing.assert_array_equal(old, model.predict_quantiles(X, [0.1, 0.9]))
