"""Regressors: fits to odd rows and with odd parameters, and odd questions to fitted models."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import bdkn
from bdkn.predictive import Predictive
from sent.judge import Judge
from sent.predictives import kinds, numbers, scalars, seeds
from sent.tables import TABLES, table
from sent.vectors import Given, Numbers, vector

QUICK: dict[str, Any] = {"n_members": 2, "epochs": 1, "hidden_layer_sizes": 3, "random_state": 0, "n_jobs": 1}
STACK: dict[str, Any] = {"random_state": 0, "cv": 2}


def first_column(X: Any) -> Any:
    """Return the first column: a member that is a function."""
    return np.asarray(X, dtype=np.float64)[:, 0]


def make(name: str, **parameters: Any) -> Any:
    """Return an unfitted regressor that is fast to fit."""
    if name == "stack":
        members = [("ridge", Ridge()), ("column", first_column)]
        return bdkn.BayesianStackingRegressor(**{"members": members, **STACK, **parameters})
    if name == "ensemble":
        return bdkn.DeepEnsembleRegressor(**{**QUICK, **parameters})
    plain = {"density": "student-t"} if name == "bdkn" else {}
    return bdkn.BDKNRegressor(**{**QUICK, "cv": 2, **plain, **parameters})


NAMES = ("bdkn", "ensemble", "stack", "bdkn with shape")


def ordinary(seed: int, n: int, p: int = 2) -> tuple[Numbers, Numbers]:
    """Return rows and targets without surprises."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X[:, 0] + 0.3 * rng.normal(size=n)


def check_finite(dist: Predictive, n: int) -> None:
    """Raise unless all that a distribution says is a number."""
    assert len(dist) == n, (len(dist), n)
    for part in (dist.mean(), *dist.interval(0.9)):
        assert np.isfinite(part).all(), part
    assert not np.isnan(dist.std()).any()
    assert not np.isnan(dist.rvs(2, random_state=0)).any()


def try_fit(judge: Judge, data: Any) -> None:
    """Fit to odd rows, targets, weights or groups, and predict the same rows."""
    seed, n, name = data.draw(seeds), data.draw(st.integers(8, 40)), data.draw(st.sampled_from(NAMES))
    X, y = ordinary(seed, n)
    odd = data.draw(st.sampled_from(("X", "X", "y", "y", "sample_weight", "groups")))
    rows = table(data.draw(st.sampled_from(TABLES)), X) if odd == "X" else Given("float64", X, X)
    targets = vector(data.draw(kinds), y) if odd == "y" else Given("float64", y, y)
    weights = vector(data.draw(kinds), np.abs(y) + 0.1) if odd == "sample_weight" else None
    groups = vector(data.draw(kinds), np.round(y)) if odd == "groups" and name != "ensemble" else None
    more = {} if weights is None else {"sample_weight": weights.value}
    if groups is not None:
        more["groups"] = groups.value
    if name == "stack" and weights is not None:
        more = {"sample_weight": weights.value}

    def fit() -> Any:
        model = make(name).fit(rows.value, targets.value, **more)
        return model.predict_dist(rows.value)

    parts = [part for part in (rows, targets, weights) if part is not None]
    bad = any(part.means is None for part in parts)
    if name == "stack" and odd == "X" and bad:  # members receive tables as they are
        bad = rows.kind in ("masked", "nan", "inf", "dates", "dates with NaT", "durations", "structured", "complex")
        must = "refuse" if bad else "either"
    else:
        must = (
            "refuse" if bad else "either" if groups is not None or any(part.may_refuse for part in parts) else "answer"
        )
    if must == "answer" and odd == "y" and len(np.unique(y.astype(np.float16))) < 2:
        must = "either"
    given = f"{name} n={n} X={rows.kind} y={targets.kind} w={weights and weights.kind} groups={groups and groups.kind}"
    judge.call("fits", name, fit, given=given, check=lambda dist: check_finite(dist, n), must=must)


def try_wide(judge: Judge, data: Any) -> None:
    """Fit to tables of thousands of columns, and the default stack to odd targets."""
    seed, wide = data.draw(seeds), data.draw(st.booleans())
    X, y = ordinary(seed, 12 if wide else 24, data.draw(st.sampled_from((2000, 10_000))) if wide else 2)
    targets = Given("float64", y, y) if wide else vector(data.draw(kinds), y)

    def fit() -> Any:
        model = (
            make("ensemble") if wide else bdkn.BayesianStackingRegressor(random_state=0, cv=2, effort="fast", n_jobs=1)
        )
        return model.fit(X, targets.value).predict_dist(X)

    must = "refuse" if targets.means is None else "either"
    given = f"{X.shape} y={targets.kind}"
    judge.call(
        "wide tables and default stacks",
        "fit",
        fit,
        given=given,
        check=lambda dist: check_finite(dist, len(X)),
        must=must,
    )


PARAMETERS: dict[str, tuple[str, ...]] = {
    "bdkn": tuple(bdkn.BDKNRegressor().get_params()),
    "ensemble": tuple(bdkn.DeepEnsembleRegressor().get_params()),
    "stack": tuple(bdkn.BayesianStackingRegressor().get_params(deep=False)),
}


def try_parameter(judge: Judge, data: Any) -> None:
    """Fit with one odd parameter."""
    name = data.draw(st.sampled_from(tuple(PARAMETERS)))
    parameter = data.draw(st.sampled_from(PARAMETERS[name]))
    value = data.draw(scalars)
    if parameter in ("verbose", "n_jobs", "time_limit") and not isinstance(value, (str, type(None))):
        value = data.draw(st.sampled_from(("abc", None, -1.5, float("nan"), [1], 10**30, np.float32(0.5))))
    X, y = ordinary(data.draw(st.integers(0, 5)), 12)

    def fit() -> Any:
        return make(name, **{parameter: value}).fit(X, y).predict_dist(X)

    given = f"{name}({parameter}={value!r:.120})"
    judge.call("parameters", f"{name}: {parameter}", fit, given=given, check=lambda dist: check_finite(dist, 12))


@cache
def fitted(name: str) -> tuple[Any, Numbers, Numbers]:
    """Return a fitted model with its rows."""
    X, y = ordinary(3, 40)
    return make(name).fit(X, y), X, y


Question = Callable[[Any, Any, Any, Any], Any]

ROW_QUESTIONS: dict[str, Question] = {
    "predict": lambda model, X, y, value: model.predict(X),
    "predict with std": lambda model, X, y, value: model.predict(X, return_std=True),
    "predict with cov": lambda model, X, y, value: model.predict(X, return_cov=True),
    "predict_dist": lambda model, X, y, value: model.predict_dist(X).mean(),
    "predict_interval": lambda model, X, y, value: model.predict_interval(X),
    "predict_quantiles": lambda model, X, y, value: model.predict_quantiles(X),
    "sample_y": lambda model, X, y, value: model.sample_y(X, 2),
    "bdkn.predict_std": lambda model, X, y, value: bdkn.predict_std(model, X),
    "bdkn.predict_interval": lambda model, X, y, value: bdkn.predict_interval(model, X),
    "support": lambda model, X, y, value: model.support(X).ratio,
    "predict_var": lambda model, X, y, value: model.predict_var(X),
    "explain": lambda model, X, y, value: model.explain(X, n_samples=2, max_rows=2).values,
    "partial_dependence": lambda model, X, y, value: model.partial_dependence(X, 0, max_rows=3).mean,
}
"""Questions about rows, which are odd."""

TARGET_QUESTIONS: dict[str, Question] = {
    "score": lambda model, X, y, value: model.score(X, y),
    "log_score": lambda model, X, y, value: model.log_score(X, y),
    "crps": lambda model, X, y, value: model.crps(X, y),
    "neg_nll": lambda model, X, y, value: bdkn.neg_nll(model, X, y),
    "neg_crps": lambda model, X, y, value: bdkn.neg_crps(model, X, y),
    "monitor": lambda model, X, y, value: model.monitor(X, y).log_score,
    "partial_fit": lambda model, X, y, value: _copy(model).partial_fit(X, y).predict(X),
    "partial_fit and forget": lambda model, X, y, value: _copy(model).partial_fit(X, y).forget(X, y).predict(X),
    "guarantee": lambda model, X, y, value: model.predict_interval(X, guarantee=True, shift=(np.ones(40), y)),
    "score with weights": lambda model, X, y, value: model.score(X, np.arange(len(X)), y),
    "partial_fit with weights": lambda model, X, y, value: (
        _copy(model).partial_fit(X, np.arange(len(X)) * 0.1, y).predict(X)
    ),
    "optimal_order": lambda model, X, y, value: model.optimal_order(X, under=y, over=1.0).cost,
    "predict_above": lambda model, X, y, value: model.predict_above(X, y),
    "expected_cost": lambda model, X, y, value: model.expected_cost(X, (1.0, 2.0), y),
}
"""Questions with one number per row, which are odd."""

VALUE_QUESTIONS: dict[str, Question] = {
    "coverage": lambda model, X, y, value: model.predict_interval(X, value),
    "coverage of bdkn.predict_interval": lambda model, X, y, value: bdkn.predict_interval(model, X, value),
    "guaranteed coverage": lambda model, X, y, value: model.predict_interval(X, value, guarantee=True),
    "quantiles": lambda model, X, y, value: model.predict_quantiles(X, value),
    "quantiles of bdkn.predict_quantiles": lambda model, X, y, value: bdkn.predict_quantiles(model, X, value),
    "threshold": lambda model, X, y, value: model.predict_above(X, value),
    "decision": lambda model, X, y, value: model.expected_cost(X, (1.0, 2.0), value),
    "cost": lambda model, X, y, value: model.expected_cost(X, value, 0.5),
    "tolerance": lambda model, X, y, value: model.expected_cost(X, (1.0, 2.0), 0.5, tolerance=value),
    "under": lambda model, X, y, value: model.optimal_order(X, under=value, over=1.0).quantity,
    "over": lambda model, X, y, value: bdkn.optimal_order(model, X, under=1.0, over=value).quantity,
    "n_samples": lambda model, X, y, value: model.sample_y(X, value),
    "random_state": lambda model, X, y, value: model.sample_y(X, 2, value),
    "samples of explain": lambda model, X, y, value: model.explain(X, n_samples=_few(value), max_rows=2).values,
    "max_rows of explain": lambda model, X, y, value: model.explain(X, n_samples=2, max_rows=value).values,
    "seed of explain": lambda model, X, y, value: model.explain(X, n_samples=2, max_rows=2, random_state=value).values,
    "background": lambda model, X, y, value: model.explain(X, value, n_samples=2, max_rows=2).values,
    "column": lambda model, X, y, value: model.partial_dependence(X, value, max_rows=2).mean,
    "grid": lambda model, X, y, value: model.partial_dependence(X, 0, value, max_rows=2).mean,
    "coverage of dependence": lambda model, X, y, value: (
        model.partial_dependence(X, 0, coverage=value, max_rows=2).mean
    ),
    "forgetting": lambda model, X, y, value: _copy(model).partial_fit(X, y, forgetting=value).predict(X),
    "refit_prior": lambda model, X, y, value: _copy(model).partial_fit(X, y, refit_prior=value).predict(X),
    "shift": lambda model, X, y, value: model.predict_interval(X, guarantee=True, shift=value),
    "drop_members": lambda model, X, y, value: model.drop_members(value).predict(X),
    "merge": lambda model, X, y, value: _copy(model).merge(value).predict(X),
    "cv": lambda model, X, y, value: bdkn.cross_val_predict_dist(model, X, y, cv=value).mean(),
    "estimator": lambda model, X, y, value: bdkn.predict_dist(value, X).mean(),
    "path of load": lambda model, X, y, value: bdkn.load(value),
}
"""Questions with a value of any kind."""


def _copy(model: Any) -> Any:
    import copy

    return copy.deepcopy(model)


def _few(value: Any) -> Any:
    """Return a value; of large numbers of samples, a small one, as all of them would be drawn."""
    return 3 if isinstance(value, (int, float, np.number)) and value == value and 1000 < value < 2**62 else value


def _check_numbers(result: Any, rows: int | None = None) -> None:
    parts = result if isinstance(result, tuple) else (result,)
    for part in parts:
        array = np.asarray(part, dtype=float)
        assert not np.isnan(array).any(), array
        assert rows is None or array.ndim == 0 or len(array) == rows, (array.shape, rows)


FITTED = ("bdkn", "stack", "ensemble", "bdkn with shape")


def try_question(judge: Judge, data: Any) -> None:
    """Ask a fitted model something with an odd argument."""
    name, seed, n = data.draw(st.sampled_from(FITTED)), data.draw(seeds), data.draw(st.integers(1, 5))
    model = fitted(name)[0]
    X, y = ordinary(seed, n)
    sort = data.draw(st.sampled_from(("rows", "targets", "values", "values")))
    if sort == "rows":
        what = data.draw(st.sampled_from(tuple(ROW_QUESTIONS)))
        rows = table(data.draw(st.sampled_from(TABLES)), X)
        must = "either" if name == "stack" else "refuse" if rows.means is None and rows.kind != "sparse" else "either"

        def call() -> Any:
            return ROW_QUESTIONS[what](model, rows.value, y, None)

        given, n_rows = f"{name} n={n} {what} X={rows.kind}", None
    elif sort == "targets":
        what = data.draw(st.sampled_from(tuple(TARGET_QUESTIONS)))
        targets = vector(data.draw(kinds), numbers(seed, n))
        must = (
            "refuse" if targets.means is None and n > 1 and what not in ("predict_above", "expected_cost") else "either"
        )

        def call():
            return TARGET_QUESTIONS[what](model, X, targets.value, None)

        given, n_rows = f"{name} n={n} {what} y={targets.kind}", None
    else:
        what = data.draw(st.sampled_from(tuple(VALUE_QUESTIONS)))
        value = data.draw(scalars)
        if what == "cv":
            value, (X, y) = (
                data.draw(st.sampled_from((2, "a", None, 1.5, 0, -1, 10**30, [], [1], [([0], [1])], "prefit"))),
                ordinary(1, 12),
            )
        if what in ("n_samples", "max_rows of explain"):
            value = _few(value)
        must = "either"

        def call():
            return VALUE_QUESTIONS[what](model, X, y, value)

        given, n_rows = f"{name} n={n} {what}={value!r:.150}", None
    if not hasattr(model, what) and name == "ensemble" and what in _ONLY_COMBINING:
        return
    if n == 1 and what in ("score", "score with weights"):  # which need two rows
        return
    judge.call(
        "questions to fitted models", what, call, given=given, check=lambda r: _check_numbers(r, n_rows), must=must
    )


_ONLY_COMBINING = (
    "support",
    "predict_var",
    "monitor",
    "partial_fit",
    "partial_fit and forget",
    "guarantee",
    "forgetting",
    "partial_fit with weights",
    "refit_prior",
    "shift",
    "drop_members",
    "merge",
    "guaranteed coverage",
)
