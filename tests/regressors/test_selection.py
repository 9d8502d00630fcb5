"""Inside scikit-learn's own tools."""

import numpy as np
import pytest
from quick import BOTH, EACH, QUICK, grouped, table
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bdkn.metrics import neg_crps, neg_nll

X, y = table(90)


@pytest.mark.no_cover
@pytest.mark.parametrize("cls", EACH)
def test_grid_search_on_a_proper_score(cls):
    search = GridSearchCV(cls(**grouped(**QUICK)), {"epochs": [1, 40]}, scoring=neg_nll, cv=2).fit(X, y)
    assert search.best_params_ == {"epochs": 40}
    assert search.best_score_ == pytest.approx(
        cross_val_score(cls(**grouped(**QUICK)), X, y, scoring=neg_nll, cv=2).mean(), rel=1e-12
    )


@pytest.mark.parametrize("scoring", [neg_nll, neg_crps, None, "neg_root_mean_squared_error"])
def test_pipelines_are_scored(scoring):
    scores = cross_val_score(make_pipeline(StandardScaler(), BOTH[0](**grouped(**QUICK))), X, y, scoring=scoring, cv=3)
    assert np.isfinite(scores).all()


def test_a_pipeline_passes_return_std_on():
    pipeline = make_pipeline(StandardScaler(), BOTH[0](**grouped(**QUICK))).fit(X, y)
    mean, std = pipeline.predict(X, return_std=True)
    np.testing.assert_allclose(mean, BOTH[0](**grouped(**QUICK)).fit(X, y).predict(X), rtol=1e-3)
    assert (std > 0).all()


@pytest.mark.no_cover
@pytest.mark.parametrize("cls", EACH)
def test_meta_estimators(cls):
    assert MultiOutputRegressor(cls(**grouped(**QUICK))).fit(X, np.column_stack([y, -y])).predict(X).shape == (90, 2)
    assert (
        TransformedTargetRegressor(cls(**grouped(**QUICK)), func=np.log, inverse_func=np.exp).fit(X, y).score(X, y)
        > 0.5
    )
    assert StackingRegressor([("a", cls(**grouped(**QUICK)))], cv=2).fit(X, y).score(X, y) > 0.5
