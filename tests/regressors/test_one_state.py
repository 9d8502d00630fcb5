"""Tests that a prediction sees one fitted model, whenever another thread fits or updates the same regressor."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Event, Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from bdkn import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor, RowStatistics
from bdkn.estimators import bdkn as living

SMALL = {"n_members": 2, "epochs": 5, "n_jobs": 1, "random_state": 0}


def rows(n: int, seed: int, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, 100.0 * seed + X[:, 0] + 0.3 * rng.normal(size=n)


def frame(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table whose column of text has other values in every table; the first row of all is known to all."""
    X, y = rows(n, seed)
    letters = np.array(["a", f"b{seed}"])[np.random.default_rng(seed).integers(2, size=n)]
    return pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "text": letters}), y


def bits(result: Any) -> bytes:
    """Return all numbers of a result."""
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, tuple) else (result,)
    return b"".join(np.ascontiguousarray(np.asarray(part, dtype=np.float64)).tobytes() for part in parts)


def at_line(k: int, act: Callable[[], None], work: Callable[[], Any]) -> tuple[Any, bool]:
    """Do the work, and act before the k-th line of bdkn.estimators; return the result and whether it got there."""
    count = 0

    def watch(frame: Any, event: str, arg: object) -> Any:
        nonlocal count
        if not frame.f_globals.get("__name__", "").startswith("bdkn.estimators"):
            return None
        if event == "line":
            count += 1
            if count == k:
                act()
        return watch

    former = sys.gettrace()
    sys.settrace(watch)
    try:
        result = work()
    finally:
        sys.settrace(former)
    return result, count >= k


def check_every_point(old: Any, new: Any, read: Callable[[Any], Any], step: int = 1) -> None:
    """Replace the fitted model at every step-th line of ``read``; the result is that before or that after."""
    expected, k, reached = {bits(read(old)), bits(read(new))}, 1, True
    assert len(expected) == 2
    while reached:
        model = copy.copy(old)
        result, reached = at_line(k, partial(setattr, model, "model_", new.model_), partial(read, model))
        assert bits(result) in expected, f"the model that was assigned at line {k} was mixed with the former one"
        k += step


@pytest.fixture(scope="module")
def pairs() -> dict[str, tuple[Any, Any]]:
    """Return two fits of each regressor, to other rows with other columns."""

    def both(make: Callable[[], Any], data: Callable[[int, int], Any]) -> tuple[Any, Any]:
        return make().fit(*data(40, 1)), make().fit(*data(48, 2))

    members = [("ridge", Ridge()), ("steep", Ridge(0.1))]
    return {
        "bdkn": both(lambda: BDKNRegressor(**SMALL, density="student-t"), frame),
        "shaped": both(lambda: BDKNRegressor(**SMALL), rows),
        "ensemble": both(lambda: DeepEnsembleRegressor(**SMALL), frame),
        "stack": both(lambda: BayesianStackingRegressor(members, density="student-t", random_state=0), rows),
    }


X_FRAME = pd.DataFrame({"x": [0.1, 0.2], "z": [0.3, -0.2], "text": ["a", "a"]})
X_ARRAY = np.array([[0.1, 0.3, 0.0], [0.2, -0.2, 0.1]])

READS: dict[str, Callable[[Any, Any], Any]] = {
    "predict": lambda model, X: model.predict(X, return_std=True),
    "predict_interval": lambda model, X: model.predict_interval(X),
    "predict_quantiles": lambda model, X: model.predict_quantiles(X),
    "predict_above": lambda model, X: model.predict_above(X, 150.0),
    "sample_y": lambda model, X: model.sample_y(X, 2),
}
MORE_READS: dict[str, Callable[[Any, Any], Any]] = {
    "predict_var": lambda model, X: model.predict_var(X, decompose=True),
    "guarantee": lambda model, X: model.predict_interval(X, 0.8, guarantee=True),
    "support": lambda model, X: model.support(X).ratio,
    "statistics": lambda model, X: int(model.statistics().digest(), 16) % 2**50,
    "intercept_": lambda model, X: model.intercept_,
    "noise_variance_": lambda model, X: model.noise_variance_,
    "evidence_": lambda model, X: model.evidence_,
    "weights_cov_": lambda model, X: model.weights_cov_,
    "member_table": lambda model, X: {
        name: column for name, column in model.member_table().items() if name != "member"
    },
}


CASES = [(name, read) for name in ("bdkn", "shaped", "ensemble", "stack") for read in READS]
CASES += [("bdkn", read) for read in MORE_READS]


@pytest.mark.parametrize(("name", "read"), CASES)
@pytest.mark.filterwarnings("ignore::bdkn.errors.OutsideDataWarning")
def test_a_model_assigned_before_any_line_of_a_method_is_seen_whole_or_not_at_all(
    pairs: dict[str, tuple[Any, Any]], name: str, read: str
) -> None:
    X = X_FRAME if name in ("bdkn", "ensemble") else X_ARRAY
    work = {**READS, **MORE_READS}[read]
    every = read.endswith("_") or (name != "stack" and read in ("predict", "predict_interval"))
    check_every_point(*pairs[name], lambda model: work(model, X), step=1 if every else 29)


@pytest.fixture
def model() -> BayesianStackingRegressor:
    """Return a stack that is fitted in an instant and can be updated."""
    members = [("one", lambda X: X[:, 0]), ("two", lambda X: X[:, 0] + X[:, 1])]
    return BayesianStackingRegressor(members, density="student-t", random_state=0).fit(*rows(40, 0))


def meanwhile(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], object]) -> None:
    """Let something happen once, in the middle of an update: after ``step`` has computed the new state."""
    original, done = getattr(living, step), []

    def slow(*args: Any) -> object:
        result = original(*args)
        if not done:
            done.append(True)
            thread = Thread(target=act)
            thread.start()
            thread.join()
        return result

    monkeypatch.setattr(living, step, slow)


def test_rows_that_two_threads_absorb_at_the_same_time_are_both_there(
    model: BayesianStackingRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, "absorb", lambda: model.partial_fit(*rows(7, 3)))
    model.partial_fit(*rows(5, 2))
    assert model.combination_.n == 40 + 5 + 7


def test_rows_absorbed_while_others_are_forgotten_stay(
    model: BayesianStackingRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.partial_fit(*rows(5, 2))
    meanwhile(monkeypatch, "forget", lambda: model.partial_fit(*rows(7, 3)))
    model.forget(*rows(5, 2))
    assert model.combination_.n == 40 + 7


def test_rows_merged_while_others_are_absorbed_stay(
    model: BayesianStackingRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: RowStatistics = copy.copy(model).partial_fit(*rows(9, 4)).statistics()
    meanwhile(monkeypatch, "merge_statistics", lambda: model.partial_fit(*rows(7, 3)))
    model.merge(found)
    assert model.combination_.n == 40 + 7 + 9


def test_rows_absorbed_during_a_fit_join_the_new_members(
    model: BayesianStackingRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = copy.copy(model).fit(*rows(60, 1)).partial_fit(*rows(5, 2))
    meanwhile(monkeypatch, "absorb", lambda: model.fit(*rows(60, 1)))
    model.partial_fit(*rows(5, 2))
    assert bits(model.predict(X_ARRAY, return_std=True)) == bits(expected.predict(X_ARRAY, return_std=True))


def test_two_first_updates_of_a_model_are_a_fit_and_an_update() -> None:
    done = []

    def member(X: np.ndarray) -> np.ndarray:
        if not done:
            done.append(True)
            model.partial_fit(*rows(30, 1))
        return np.asarray(X[:, 0])

    model = BayesianStackingRegressor([("one", member)], density="student-t", random_state=0)
    model.partial_fit(*rows(40, 0))
    assert model.combination_.n == 70
    assert model.updates_ is not None


def test_a_parameter_set_during_a_fit_stays(model: BayesianStackingRegressor) -> None:
    def member(X: np.ndarray) -> np.ndarray:
        model.set_params(density="auto")
        return np.asarray(X[:, 0])

    model.set_params(members=[("one", lambda X: X[:, 1]), ("setting", member)])
    assert model.fit(*rows(150, 1)).density == "auto"
    assert model.density_ is None  # the fit began with the former value


def test_predictions_during_a_fit_are_those_of_the_former_fit(model: BayesianStackingRegressor) -> None:
    before, seen = bits(model.predict(X_ARRAY, return_std=True)), []

    def member(X: np.ndarray) -> np.ndarray:
        seen.append(bits(model.predict(X_ARRAY, return_std=True)))
        return np.asarray(X[:, 1])

    model.set_params(members=[("one", lambda X: X[:, 0]), ("watching", member)])
    model.fit(*rows(50, 1, columns=4))
    assert set(seen) == {before}
    assert model.n_features_in_ == 4


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_fit_that_fails_leaves_the_former_one(model: BayesianStackingRegressor, error: type[BaseException]) -> None:
    before, attributes = bits(model.predict(X_ARRAY, return_std=True)), dict(vars(model))

    def member(X: np.ndarray) -> np.ndarray:
        raise error("in the middle of a fit")

    model.set_params(members=[("one", lambda X: X[:, 0]), ("failing", member)])
    with pytest.raises(error):
        model.fit(*rows(50, 1, columns=4))
    assert {**vars(model), "members": attributes["members"]} == attributes
    assert bits(model.predict(X_ARRAY, return_std=True)) == before


def hammer(work: list[Callable[[], Iterator[object]]]) -> list[list[object]]:
    """Let each of several threads do its work, all from the same moment on; return what they yield."""
    start, results = Barrier(len(work)), [list[object]() for _ in work]

    def run(number: int) -> None:
        start.wait()
        results[number].extend(work[number]())

    threads = [Thread(target=run, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_predictions_on_eight_threads_during_refits_are_of_one_fit(pairs: dict[str, tuple[Any, Any]]) -> None:
    old, new = pairs["bdkn"]
    allowed, over = {bits(fit.predict(X_FRAME, return_std=True)) for fit in (old, new)}, Event()
    model = copy.copy(old)

    def predict() -> Iterator[object]:
        while not over.is_set():
            yield bits(model.predict(X_FRAME, return_std=True))

    def refit() -> Iterator[object]:
        for number in range(200):
            model.model_ = (new, old)[number % 2].model_
        over.set()
        yield from ()

    *seen, _ = hammer([predict] * 8 + [refit])
    assert {found for part in seen for found in part} <= allowed


def test_updates_on_four_threads_are_all_there(model: BayesianStackingRegressor) -> None:
    def absorb(seed: int) -> Callable[[], Iterator[object]]:
        return lambda: (model.partial_fit(*rows(3, 10 * seed + k)) for k in range(6))

    hammer([absorb(seed) for seed in range(4)])
    one = copy.copy(model).forget()
    for seed in range(4):
        for k in range(6):
            one.partial_fit(*rows(3, 10 * seed + k))
    assert model.combination_.n == one.combination_.n == 40 + 4 * 6 * 3
    np.testing.assert_allclose(model.predict(X_ARRAY), one.predict(X_ARRAY), rtol=1e-6)


@pytest.mark.no_cover
def test_sixty_four_threads_predict_the_bits_of_one(pairs: dict[str, tuple[Any, Any]]) -> None:
    for name, X in (("shaped", X_ARRAY), ("ensemble", X_FRAME), ("stack", X_ARRAY)):
        model = pairs[name][0]
        expected = bits(copy.copy(model).predict_interval(X))
        results = hammer([lambda model=model, X=X: iter([bits(model.predict_interval(X))])] * 64)
        assert {found for part in results for found in part} == {expected}


def test_a_prediction_does_not_wait_for_that_of_another_thread(
    model: BayesianStackingRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on, first = Event(), Event(), []

    @contextmanager
    def slow(name: str) -> Iterator[None]:
        if name == "predict" and not first:
            first.append(True)
            started.set()
            assert go_on.wait(60)
        yield

    monkeypatch.setattr("bdkn.model.fitted.stage", slow)
    found: list[np.ndarray] = []
    waiting, other = (Thread(target=lambda: found.append(model.predict(X_ARRAY))) for _ in range(2))
    waiting.start()
    assert started.wait(60)
    other.start()
    other.join(30)
    before = len(found)
    go_on.set()
    waiting.join()
    other.join()
    assert before == 1
    assert np.array_equal(*found)
