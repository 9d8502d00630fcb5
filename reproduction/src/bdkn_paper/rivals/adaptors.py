"""The rivals: how each is fitted, and what it predicts. Runs in the environment of the rival, which need not have bdkn.

``ADAPTORS`` has a function per rival, from training rows, a seed, a number of threads and options to a function that
predicts rows. A prediction is a dictionary of arrays: ``mean`` and ``std`` of a Gaussian; ``loc``, ``scale`` and ``df``
of a Student-t; ``quantiles`` (n, levels) at levels of equal distance; or ``samples`` (n, draws).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Array = Any
Prediction = dict[str, Array]
Predict = Callable[[Array], Prediction]

LEVELS = np.arange(1, 100) / 100
"""Levels of quantiles of trees and forests."""

FEWER_LEVELS = np.arange(0.01, 1, 0.02)
"""Levels of quantiles of networks, those of ScoringBench."""


def fit_quantile_forest(X: Array, y: Array, *, seed: int, threads: int, n_estimators: int = 500) -> Predict:
    """Fit a forest that keeps the targets of its leaves (Meinshausen, 2006)."""
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(n_estimators=n_estimators, random_state=seed, n_jobs=threads).fit(X, y)
    return lambda rows: {"quantiles": model.predict(rows, quantiles=list(LEVELS))}


def fit_catboost_quantiles(X: Array, y: Array, *, seed: int, threads: int, iterations: int = 1000) -> Predict:
    """Fit CatBoost with the loss MultiQuantile."""
    from catboost import CatBoostRegressor

    loss = "MultiQuantile:alpha=" + ",".join(f"{level:.2f}" for level in LEVELS)
    model = CatBoostRegressor(
        iterations=iterations,
        loss_function=loss,
        random_seed=seed,
        thread_count=threads,
        allow_writing_files=False,
        verbose=False,
    ).fit(X, y)
    return lambda rows: {"quantiles": model.predict(rows)}


def fit_treeffuser(X: Array, y: Array, *, seed: int, threads: int, n_samples: int = 200) -> Predict:
    """Fit a diffusion model whose score is boosted trees (Beltran-Velez et al., 2024)."""
    from treeffuser import Treeffuser

    model = Treeffuser(seed=seed, n_jobs=threads)
    model.fit(X, y)
    return lambda rows: {"samples": model.sample(rows, n_samples=n_samples, seed=seed).reshape(n_samples, len(rows)).T}


def fit_xgboost_tuned(
    X: Array, y: Array, *, seed: int, threads: int, trials: int = 20, search_folds: int = 3, folds: int = 5
) -> Predict:
    """Fit XGBoost with the best of some random settings by cross-validation, averaged over folds.

    Rows left out of a fold stop its boosting and give the errors, whose size is the standard deviation of predictions.
    """
    generator = np.random.default_rng(seed)
    settings = [_xgboost_settings(generator) for _ in range(trials)]
    search = list(_folds(len(y), search_folds, generator))
    errors = [[_xgboost(X, y, fold, one, seed, threads)[1] for fold in search] for one in settings]
    losses = [np.mean(np.concatenate(each) ** 2) for each in errors]
    best = settings[int(np.argmin(losses))]
    fits = [_xgboost(X, y, fold, best, seed, threads) for fold in _folds(len(y), folds, generator)]
    return _averaged([model.predict for model, _ in fits], np.concatenate([errors for _, errors in fits]))


def fit_xgboostlss(X: Array, y: Array, *, seed: int, threads: int, rounds: int = 500) -> Predict:
    """Fit boosted trees of the parameters of a Student-t."""
    import xgboost
    from xgboostlss.distributions.StudentT import StudentT
    from xgboostlss.model import XGBoostLSS

    model = XGBoostLSS(StudentT(response_fn="exp", loss_fn="nll"))
    unit, centre = float(np.std(y)), float(np.mean(y))
    given = {"eta": 0.05, "max_depth": 4, "seed": seed, "nthread": threads}
    model.train(given, xgboost.DMatrix(X, label=(y - centre) / unit), num_boost_round=rounds)

    def predict(rows: Array) -> Prediction:
        found = model.predict(xgboost.DMatrix(rows), pred_type="parameters")
        return {"loc": centre + unit * found["loc"], "scale": unit * found["scale"], "df": np.asarray(found["df"])}

    return predict


def fit_realmlp(X: Array, y: Array, *, seed: int, threads: int, folds: int = 5) -> Predict:
    """Fit RealMLP-TD (Holzmüller et al., 2024) on each fold."""
    from pytabkit import RealMLP_TD_Regressor

    return _by_fold(RealMLP_TD_Regressor, X, y, seed, threads, folds)


def fit_realmlp_quantiles(X: Array, y: Array, *, seed: int, threads: int, folds: int = 5) -> Predict:
    """Fit RealMLP-TD on each fold, with the pinball losses of fifty levels."""
    from pytabkit import RealMLP_TD_Regressor

    loss = "multi_pinball(" + ",".join(f"{level:.2f}" for level in FEWER_LEVELS) + ")"
    given = {"train_metric_name": loss, "val_metric_name": loss}
    models = [model for model, _ in _pytabkit(RealMLP_TD_Regressor, X, y, seed, threads, folds, **given)]
    return lambda rows: {"quantiles": np.mean([model.predict(rows) for model in models], axis=0)}


def fit_tabm(X: Array, y: Array, *, seed: int, threads: int, folds: int = 5) -> Predict:
    """Fit TabM-D (Gorishniy et al., 2024) on each fold."""
    from pytabkit import TabM_D_Regressor

    return _by_fold(TabM_D_Regressor, X, y, seed, threads, folds)


ADAPTORS: dict[str, Callable[..., Predict]] = {
    "quantile-forest": fit_quantile_forest,
    "catboost-quantiles": fit_catboost_quantiles,
    "xgboost-tuned": fit_xgboost_tuned,
    "xgboostlss": fit_xgboostlss,
    "treeffuser": fit_treeffuser,
    "realmlp": fit_realmlp,
    "realmlp-quantiles": fit_realmlp_quantiles,
    "tabm": fit_tabm,
}


def _folds(n: int, count: int, generator: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    order = generator.permutation(n)
    for left_out in np.array_split(order, count):
        yield np.setdiff1d(order, left_out), left_out


def _averaged(predict: list[Callable[[Array], Array]], errors: Array) -> Predict:
    """Return the average of point predictions, with the standard deviation of errors on rows left out."""
    std = float(np.sqrt(np.mean(errors**2)))

    def predicted(rows: Array) -> Prediction:
        mean = np.mean([np.ravel(one(rows)) for one in predict], axis=0)
        return {"mean": mean, "std": np.full(len(mean), std)}

    return predicted


def _by_fold(cls: Any, X: Array, y: Array, seed: int, threads: int, folds: int) -> Predict:
    fits = list(_pytabkit(cls, X, y, seed, threads, folds))
    errors = [np.ravel(model.predict(X[left_out])) - y[left_out] for model, left_out in fits]
    return _averaged([model.predict for model, _ in fits], np.concatenate(errors))


def _pytabkit(
    cls: Any, X: Array, y: Array, seed: int, threads: int, folds: int, **given: Any
) -> Iterator[tuple[Any, Array]]:
    """Yield a model per fold, whose best epoch is chosen on the rows left out, and these rows."""
    for k, (kept, left_out) in enumerate(_folds(len(y), folds, np.random.default_rng(seed))):
        model = cls(device="cpu", random_state=(seed + k) % 2**31, n_threads=threads, **given)
        model.fit(X[kept], y[kept], X_val=X[left_out], y_val=y[left_out])
        yield model, left_out


def _xgboost_settings(generator: np.random.Generator) -> dict[str, Any]:
    return {
        "learning_rate": float(np.exp(generator.uniform(np.log(0.02), np.log(0.2)))),
        "max_depth": int(generator.integers(3, 11)),
        "min_child_weight": float(np.exp(generator.uniform(0, np.log(20)))),
        "subsample": float(generator.uniform(0.5, 1)),
        "colsample_bytree": float(generator.uniform(0.4, 1)),
        "reg_lambda": float(np.exp(generator.uniform(np.log(0.1), np.log(10)))),
    }


def _xgboost(
    X: Array, y: Array, fold: tuple[Array, Array], settings: dict[str, Any], seed: int, threads: int
) -> tuple[Any, Array]:
    """Return a fit to a fold, and its errors on the rows left out."""
    from xgboost import XGBRegressor

    kept, left_out = fold
    common = {"n_estimators": 2000, "early_stopping_rounds": 50, "tree_method": "hist"}
    model = XGBRegressor(**common, **settings, random_state=seed % 2**31, n_jobs=threads)
    model.fit(X[kept], y[kept], eval_set=[(X[left_out], y[left_out])], verbose=False)
    return model, model.predict(X[left_out]) - y[left_out]
