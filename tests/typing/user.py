"""What a user writes, for type checkers: each expression has the type that is asserted.

mypy --strict checks this file in ``make types``, pyright in ``make types-user``; a test runs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import bdkn
from bdkn import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor, Gaussian, Monitor, StudentT
from bdkn.errors import BDKNError, InvalidParameterError, ModelFileError
from bdkn.metrics import MonitorReport
from bdkn.predictive import Predictive

Numbers = NDArray[np.float64]


def fit(X: Numbers, y: Numbers) -> BDKNRegressor:
    """A fit returns the class it was called on."""
    model = BDKNRegressor(n_members=2, epochs=5, random_state=0)
    assert_type(model, BDKNRegressor)
    assert_type(model.fit(X, y), BDKNRegressor)
    assert_type(model.fit(X.tolist(), list(y), sample_weight=np.ones(len(y))), BDKNRegressor)
    return model


def predict(model: BDKNRegressor, X: Numbers, y: Numbers) -> None:
    """What is predicted depends on what is asked for."""
    assert_type(model.predict(X), Numbers)
    assert_type(model.predict(X, return_std=True), tuple[Numbers, Numbers])
    assert_type(model.predict(X, return_cov=True), tuple[Numbers, Numbers])
    assert_type(model.predict_interval(X, coverage=0.8), Numbers)
    assert_type(model.predict_quantiles(X, quantiles=[0.1, 0.9]), Numbers)
    assert_type(model.predict_above(X, 3.0), Numbers)
    assert_type(model.predict_var(X), Numbers)
    assert_type(model.predict_var(X, decompose=True), dict[str, Numbers])
    assert_type(model.sample_y(X, 3), Numbers)
    assert_type(model.log_score(X, y), float)
    assert_type(model.weights_, Numbers)
    assert_type(model.monitor(X, y), MonitorReport)
    assert_type(model.partial_fit(X, y), BDKNRegressor)


def distribution(dist: Predictive, y: Numbers) -> None:
    """Distributions and scores."""
    assert_type(dist.mean(), Numbers)
    assert_type(dist.interval(0.9), tuple[Numbers, Numbers])
    assert_type(dist.ppf([0.1, 0.9]), Numbers)
    assert_type(dist.logpdf(y), Numbers)
    assert_type(dist.rvs(3, random_state=0), Numbers)
    assert_type(bdkn.crps(y, dist), float)
    assert_type(bdkn.nll(y, dist), float)
    assert_type(bdkn.rmse(y, dist), float)
    assert_type(bdkn.coverage(y, dist, level=0.8), float)
    assert_type(bdkn.calibration_error(y, dist), float)


def files(model: BDKNRegressor, X: Numbers, folder: Path) -> Numbers:
    """A loaded model predicts; which class it is, its user knows or asks."""
    model.save(folder / "model.bdkn")
    model.save(str(folder / "model.bdkn"))
    try:
        loaded = bdkn.load(folder / "model.bdkn")
    except (ModelFileError, InvalidParameterError) as error:
        told: BDKNError = error
        raise SystemExit(str(told)) from error
    assert_type(loaded.predict_dist(X), Predictive)
    if isinstance(loaded, BDKNRegressor):
        assert_type(loaded.weights_, Numbers)
    return loaded.predict(X)


def first_column(X: Numbers) -> Numbers:
    """A function of rows can be a member."""
    return X[:, 0]


def other_models(X: Numbers, y: Numbers) -> None:
    """Stacks, ensembles and functions for any estimator."""
    ensemble = DeepEnsembleRegressor(n_members=2, epochs=5)
    assert_type(ensemble.fit(X, y), DeepEnsembleRegressor)
    stack = BayesianStackingRegressor([("networks", ensemble), ("column", first_column)], random_state=0)
    assert_type(stack.fit(X, y), BayesianStackingRegressor)
    assert_type(bdkn.predict_interval(stack, X), Numbers)
    assert_type(bdkn.predict_dist(stack, X), Predictive)
    assert_type(bdkn.cross_val_predict_dist(ensemble, X, y, cv=2), Predictive)
    assert_type(StudentT(np.zeros(2), np.ones(2), 3.0).std(), Numbers)
    assert_type(Gaussian(np.zeros(2), np.ones(2)).mean(), Numbers)
    assert_type(Monitor(), Monitor)
    assert_type(bdkn.__version__, str)


def mistakes(model: BDKNRegressor, X: Numbers) -> None:
    """What a type checker must refuse: each comment would be a complaint itself if the line were right.

    Of names of parameters mypy knows too little to complain, since scikit-learn's classes have no types.
    """
    BDKNRegressor(n_member=3)  # pyright: ignore[reportCallIssue]
    BDKNRegressor(learning_rate="three")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    model.save(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    model.predict_dist(X).quantile(0.5)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    bdkn.load()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
