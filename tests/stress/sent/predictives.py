"""Metrics and predicted distributions: every argument odd, results compared with scipy and with plain sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from bdkn import metrics
from bdkn.predictive import Gaussian, GaussianMixture, MultivariateT, Predictive, StudentT, StudentTMixture
from sent.judge import Judge
from sent.vectors import FINE, KINDS, SCALARS, Given, Numbers, vector

seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(KINDS)
scalars = st.sampled_from(SCALARS)


def numbers(seed: int, n: int) -> Numbers:
    """Return ordinary numbers, different ones for each seed."""
    return np.random.default_rng(seed).normal(0.0, 3.0, n).round(3)


def distribution(seed: int, n: int, family: str) -> Predictive:
    """Return an ordinary distribution of n rows."""
    rng = np.random.default_rng(seed)
    loc, scale, df = rng.normal(size=n), rng.uniform(0.2, 3.0, n), float(rng.choice([2.5, 5.0, 30.0, np.inf]))
    if family == "gaussian":
        return Gaussian(loc, scale)
    if family == "student":
        return StudentT(df, loc, scale)
    if family == "mixture":
        return GaussianMixture(rng.normal(size=(n, 3)), rng.uniform(0.2, 2.0, (n, 3)))
    return StudentTMixture(5.0, loc, scale, 0.5, rng.normal(size=(n, 2)), np.full((n, 2), 0.3), np.full((n, 2), 0.25))


_LEVEL = 0.9
FAMILIES = ("gaussian", "student", "mixture", "student mixture")


def frozen_of(dist: Predictive) -> Any:
    """Return scipy's distribution, if it has one."""
    if isinstance(dist, Gaussian):
        return stats.norm(dist.loc, dist.scale)
    if isinstance(dist, StudentT):
        return stats.t(dist.df, dist.loc, dist.scale)
    return None


def plain_average(values: Numbers, weights: Numbers | None) -> float:
    """Return a weighted mean in extended precision."""
    w = np.ones(len(values), dtype=np.longdouble) if weights is None else weights.astype(np.longdouble)
    return float(np.sum(w * values.astype(np.longdouble)) / np.sum(w))


def try_metric(judge: Judge, data: Any) -> None:
    """Call metrics with odd targets, weights or levels."""
    seed, n, family = data.draw(seeds), data.draw(st.integers(1, 6)), data.draw(st.sampled_from(FAMILIES))
    dist, v = distribution(seed, n, family), numbers(seed, n)
    odd = data.draw(st.sampled_from(("y", "y", "sample_weight", "level")))
    any_kind = kinds if n > 1 else st.sampled_from(FINE)  # a bad vector of one row may be a good one
    y = vector(data.draw(any_kind), v) if odd == "y" else Given("float64", v, v)
    w = vector(data.draw(any_kind), np.abs(v) + 0.01) if odd == "sample_weight" else None
    level: Any = data.draw(scalars) if odd == "level" else _LEVEL
    weights = None if w is None or w.means is None else w.means.ravel()
    slow = ("summary", "calibration_error", "curve") if family in ("gaussian", "student") else ()
    names = (
        ("coverage", "curve", "calibration_error")
        if odd == "level"
        else ("rmse", "nll", "crps", "coverage", "pit", *slow)
    )
    for name in names:
        given = f"{name} {family} n={n} y={y.kind} w={w and w.kind} level={level!r}"[:300]
        must = _must(y, w, n, level, name)
        check = partial(_check_metric, name, y=y, dist=dist, w=weights)
        judge.call("metrics", name, _metric(name, _again(y), dist, level, w), given=given, check=check, must=must)


def _again(given: Given) -> Any:
    """Return the value of something given; a generator, which can be read once, anew."""
    return (x for x in (1.0, 2.0)) if given.kind == "generator" else given.value


def _metric(name: str, y: Any, dist: Predictive, level: Any, w: Given | None) -> Callable[[], Any]:
    weight = None if w is None else w.value
    if name == "coverage":
        return lambda: metrics.coverage(y, dist, level, weight)
    if name == "summary":
        return lambda: metrics.summary(y, dist, level, weight)
    if name == "curve":
        return lambda: metrics.calibration_curve(y, dist, [level] if level is _LEVEL else level, weight)
    if name == "calibration_error":
        return lambda: metrics.calibration_error(y, dist, None if level is _LEVEL else level, weight)
    if name == "pit":
        return lambda: metrics.pit(y, dist)
    return lambda: getattr(metrics, name)(y, dist, weight)


def _must(y: Given, w: Given | None, n: int, level: Any, name: str) -> str:
    """Return whether a metric must answer, must refuse, or may do either."""
    if y.means is None:
        return "refuse"
    if level is not _LEVEL or y.may_refuse or name == "pit":
        return "either"
    if w is None:
        return "answer"
    if w.means is None:
        return "refuse"
    fine = (w.means >= 0).all() and w.means.sum() > 0 and np.isfinite(w.means).all()
    return "either" if w.may_refuse or not fine else "answer"


def _check_metric(name: str, result: Any, *, y: Given, dist: Predictive, w: Numbers | None) -> None:
    assert y.means is not None, "targets that are no numbers were read"
    _compare_metric(name, result, y.means.ravel(), dist, w)


def _compare_metric(name: str, result: Any, y: Numbers, dist: Predictive, w: Numbers | None) -> None:
    with np.errstate(all="ignore"):
        if name == "summary":
            assert not np.isnan(list(result.values())).any(), result
        elif name == "curve":
            assert result[0].shape == result[1].shape, result
            assert ((result[1] >= 0) & (result[1] <= 1 + 1e-12)).all(), result
        elif name == "pit":
            assert result.shape == y.shape, result
            assert ((result >= 0) & (result <= 1)).all(), result
        elif name in ("coverage", "calibration_error"):
            assert 0 <= result <= 1 + 1e-12, result
        elif name == "rmse":
            expected = float(np.sqrt(np.longdouble(1) * plain_squares(y, dist.mean(), w)))
            assert result == expected or np.isclose(result, expected, rtol=1e-8), (result, expected)
        else:
            assert not np.isnan(result), result
            frozen = frozen_of(dist)
            if name == "nll" and frozen is not None and np.abs(y).max() < 1e100:
                expected = plain_average(-frozen.logpdf(y), w)
                assert np.isclose(result, expected, rtol=1e-6, atol=1e-9), (result, expected)
            if name == "crps":
                far = plain_average(np.abs(y - dist.mean()), w)
                assert result >= 0, (result, far)
                assert result <= 1.000001 * far + 10 * dist.std().max() or far > 1e300, (result, far)


def plain_squares(y: Numbers, mean: Numbers, w: Numbers | None) -> Any:
    """Return the mean square of errors in extended precision."""
    weights = np.ones(len(y), dtype=np.longdouble) if w is None else w.astype(np.longdouble)
    errors = y.astype(np.longdouble) - mean.astype(np.longdouble)
    return np.sum(weights * errors**2) / np.sum(weights)


def try_constructor(judge: Judge, data: Any) -> None:
    """Make a distribution of odd parameters, then ask it for everything."""
    seed, n = data.draw(seeds), data.draw(st.integers(1, 5))
    name = data.draw(st.sampled_from((*("Gaussian", "StudentT") * 4, "GaussianMixture")))
    odd = data.draw(st.sampled_from((0, 1)))
    v = numbers(seed, n)
    parts = [vector(data.draw(kinds), v) if odd == k else Given("float64", v, v) for k in range(2)]
    if odd == 1:
        parts[1] = vector(parts[1].kind, np.abs(v) + 0.1)
    else:
        parts[1] = Given("float64", np.abs(v) + 0.1, np.abs(v) + 0.1)
    loc, scale = (part.value for part in parts)
    given = f"{name} n={n} loc={parts[0].kind} scale={parts[1].kind}"
    if name == "GaussianMixture":

        def make() -> Predictive:
            return GaussianMixture(_pair(loc), _pair(scale))
    elif name == "StudentT":

        def make():
            return StudentT(4.0, loc, scale)
    else:

        def make():
            return Gaussian(loc, scale)

    must = "either"
    if name != "GaussianMixture" and n > 1:
        bad = any(part.means is None for part in parts)
        must = "refuse" if bad else "either" if any(part.may_refuse for part in parts) else "answer"
        if parts[1].kind in ("one text",) or parts[0].kind in ("set", "dict"):
            must = "refuse"

    def check(dist: Predictive) -> None:
        _check_distribution(dist, n if name != "GaussianMixture" else len(dist))

    judge.call("constructors of distributions", name, make, given=given, check=check, must=must)


def _pair(part: Any) -> Any:
    return (
        np.column_stack([part, part])
        if type(part) is np.ndarray and part.dtype.kind == "f" and part.ndim == 1
        else part
    )


def _check_distribution(dist: Predictive, n: int) -> None:
    with np.errstate(over="ignore"):
        above = dist.mean() + dist.std()
    assert len(dist) == n, (len(dist), n)
    mean, std, median = dist.mean(), dist.std(), dist.ppf(0.5)
    for part in (mean, std, median, dist.var(), *dist.interval(0.9)):
        assert part.shape == (n,), part
        assert not np.isnan(part).any(), part
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    lower, upper = dist.interval(0.5)
    assert (lower <= upper).all()
    for y in (mean, above if np.isfinite(above).all() else mean, 0.0):
        F, score, log = dist.cdf(y), dist.crps(y), dist.logpdf(y)
        assert ((F >= 0) & (F <= 1)).all(), F
        assert (score >= -1e-9 * np.abs(score)).all(), score
        assert not np.isnan(score).any(), score
        assert not np.isnan(log).any(), log
    draws = dist.rvs(3, random_state=0)
    assert draws.shape == (n, 3)
    assert not np.isnan(draws).any()


def try_method(judge: Judge, data: Any) -> None:
    """Ask an ordinary distribution for something with an odd argument."""
    seed, n, family = data.draw(seeds), data.draw(st.integers(1, 5)), data.draw(st.sampled_from(FAMILIES))
    dist, v = distribution(seed, n, family), numbers(seed, n)
    y = vector(data.draw(kinds), v)
    must = "either" if n == 1 or y.may_refuse or y.means is None else "answer"
    for name in ("logpdf", "pdf", "cdf", "crps"):
        call = partial(getattr(dist, name), _again(y))
        check = partial(_check_values, name, y=y, dist=dist)
        given = f"{family} n={n} {name} {y.kind}"
        judge.call("methods of distributions", name, call, given=given, check=check, must=must)
    argument = data.draw(scalars) if data.draw(st.booleans()) else np.random.default_rng(seed).uniform(size=n).tolist()
    other = data.draw(scalars)
    for name in ("ppf", "interval", "affine", "rvs"):
        more = {"random_state": other} if name == "rvs" and seed % 2 else {}
        call = partial(getattr(dist, name), argument, *((other,) if name == "affine" else ()), **more)
        check = partial(_check_other, name, dist=dist, argument=argument)
        given = f"{family} n={n} {name}({argument!r:.100}, {other!r:.100})"
        judge.call("methods of distributions", name, call, given=given, check=check)


def _check_other(name: str, result: Any, *, dist: Predictive, argument: Any) -> None:
    n = len(dist)
    if name == "affine":
        if not isinstance(dist, (GaussianMixture, StudentTMixture)):
            _check_distribution(result, n)
    elif name == "ppf":
        levels = np.asarray(argument, dtype=float)
        assert result.shape == ((n,) if levels.ndim == 0 else (n, len(levels)))
        assert not np.isnan(result).any(), result
        frozen = frozen_of(dist)
        if frozen is not None and levels.ndim == 0 and 1e-12 < levels < 1 - 1e-12:
            np.testing.assert_allclose(result, frozen.ppf(levels), rtol=1e-6, atol=1e-9)
    else:
        parts = result if isinstance(result, tuple) else (result,)
        assert all(not np.isnan(part).any() for part in parts), result


def _check_values(name: str, result: Numbers, *, y: Given, dist: Predictive) -> None:
    missing = y.means is None
    values = np.asarray(y.value, dtype=float) if missing and y.kind in ("nan", "inf", "-inf in a list") else y.means
    if values is None:  # read as nan, or as several values per row
        assert y.kind in (
            "objects with None",
            "polars with null",
            "pyarrow with null",
            "two columns",
            "no rows",
            "empty list",
            "categories with nan",
            "pandas Int64 with NA",
            "pandas boolean with NA",
            "one too few",
            "one row",
            "ragged",
            "three dimensions",
            "numbers as bytes",
        ), y.kind
        return
    values = values.reshape(result.shape) if result.size == values.size else values
    assert (np.isnan(result) == np.isnan(values)).all(), (result, values)
    frozen = frozen_of(dist)
    if frozen is not None and name != "crps" and result.shape == (len(dist),):
        with np.errstate(all="ignore"):
            expected = getattr(frozen, name)(values)
        usual = np.isfinite(expected) & (np.abs(values) < 1e100)
        np.testing.assert_allclose(result[usual], expected[usual], rtol=1e-6, atol=1e-12)


def try_joint(judge: Judge, data: Any) -> None:
    """Make a joint distribution of odd parameters."""
    seed, n, odd = (
        data.draw(seeds),
        data.draw(st.integers(1, 4)),
        data.draw(st.sampled_from(("df", "loc", "shape", "y"))),
    )
    v, rng = numbers(seed, n), np.random.default_rng(seed)
    df: Any = data.draw(scalars) if odd == "df" else 5.0
    loc = vector(data.draw(kinds), v) if odd == "loc" else Given("float64", v, v)
    half = rng.normal(size=(n, n))
    shape: Any = half @ half.T + np.eye(n)
    if odd == "shape":
        shape = data.draw(
            st.sampled_from((shape * np.nan, -shape, shape[:1], shape * 1e300, shape * 0, 3.0, None, "a", half))
        )
    y = vector(data.draw(kinds), v) if odd == "y" else Given("float64", v, v)

    def make() -> Any:
        joint = MultivariateT(df, loc.value, shape)
        return joint.logpdf(y.value), joint.rvs(2, random_state=0), joint.marginal().mean()

    def check(result: Any) -> None:
        good = y.means is not None
        assert not good or not np.isnan(result[0]).any(), result
        assert not np.isnan(result[1]).any()
        assert np.isfinite(result[2]).all()

    given = f"MultivariateT n={n} df={df!r:.40} loc={loc.kind} shape={odd == 'shape' and repr(shape)[:80]} y={y.kind}"
    judge.call("joint distributions", "MultivariateT", make, given=given, check=check)


def try_monitor(judge: Judge, data: Any) -> None:
    """Watch odd batches, with an odd monitor."""
    seed, n = data.draw(seeds), data.draw(st.integers(1, 6))
    odd = data.draw(st.sampled_from(("alpha", "tolerance", "y", "pit", "json")))
    v, dist = numbers(seed, n), distribution(seed, n, data.draw(st.sampled_from(FAMILIES)))
    alpha: Any = data.draw(scalars) if odd == "alpha" else 0.01
    tolerance: Any = data.draw(scalars) if odd == "tolerance" else 0.05
    y = vector(data.draw(kinds), v) if odd == "y" else Given("float64", v, v)
    levels = np.random.default_rng(seed).uniform(size=n)
    pit = vector(data.draw(kinds), levels) if odd == "pit" else None
    text: Any = (
        data.draw(st.one_of(scalars, st.text(max_size=20), st.sampled_from(_texts()))) if odd == "json" else None
    )

    def watch() -> Any:
        if odd == "json":
            return metrics.Monitor.from_json(text).to_json()
        monitor = metrics.Monitor(alpha, tolerance)
        report = monitor.add(y.value, dist, pit=None if pit is None else pit.value)
        again = metrics.Monitor.from_json(monitor.to_json())
        assert again.to_json() == monitor.to_json()
        return report

    def check(report: Any) -> None:
        assert odd == "json" or not np.isnan([report.log_score, report.crps, report.log_wealth]).any(), report

    must = "refuse" if odd == "y" and y.means is None and n > 1 else "either"
    given = (
        f"{odd} alpha={alpha!r:.40} tolerance={tolerance!r:.40} y={y.kind} pit={pit and pit.kind} json={text!r:.100}"
    )
    judge.call("monitor", "Monitor", watch, given=given, check=check, must=must)


def _texts() -> tuple[str, ...]:
    whole = metrics.Monitor().to_json()
    return (
        whole[:-3],
        "{}",
        "[]",
        "null",
        whole.replace("0.01", '"a"'),
        whole.replace("0.05", "null"),
        "[" * 5000,
        whole.replace('"wealth"', '"w"'),
        whole.replace("start", "begin"),
        whole.replace("0.01", "NaN"),
    )
