"""Predict on many threads: the bits of one thread, and how many predictions they make together.

python tests/stress/load.py --write

The last part fits and updates a regressor while threads predict with it: each prediction must be that of one of the
states that were published.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import joblib
import numpy as np
from sklearn.linear_model import Ridge

from bdkn import BayesianStackingRegressor, BDKNRegressor, DeepEnsembleRegressor
from bdkn.errors import OutsideDataWarning
from record import Found, Record, arguments, recording

TITLE = "Predictions on many threads"
COMMAND = "python tests/stress/load.py --write"
FOUND = [
    Found(
        "A fit in another thread could come between two reads of one prediction: inputs were encoded for the former "
        "members and predicted by the new ones, or a weight of the former fit met a scale of the new one.",
        "Public methods and attributes work on one snapshot of the regressor; a fit replaces it in one assignment.",
    ),
    Found(
        "Of rows that two threads absorbed at the same time, those of one were lost; an update that ended after a fit "
        "put weights of former members on the new ones; a parameter set during a fit was lost.",
        "An update whose state was replaced meanwhile begins again from the new one; a fit keeps parameters set since.",
    ),
    Found(
        "A batch that could not be scored, or that came at the same time as another one, was added to a monitor in "
        "part: its bets counted, its report did not.",
        "A batch is scored first, then added whole, one batch after the other.",
    ),
    Found(
        "With Python 3.11 predictions on several threads waited for each other: its cached properties hold one lock "
        "for all objects of a class while they compute.",
        "Values that are computed once have no lock (bdkn.lazy).",
    ),
]
THREADS = (1, 2, 4, 16, 64)


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of four columns and their targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 5.0 * seed + 0.3 * rng.normal(size=n)


def models() -> dict[str, Any]:
    """Return fitted regressors of every kind."""
    small = {"n_members": 4, "epochs": 30, "n_jobs": 1, "random_state": 0}
    members = [("networks", DeepEnsembleRegressor(**small)), ("ridge", Ridge())]
    made = {
        "BDKNRegressor": BDKNRegressor(**small),
        'BDKNRegressor(density="student-t")': BDKNRegressor(**small, density="student-t"),
        "DeepEnsembleRegressor": DeepEnsembleRegressor(**small),
        "BayesianStackingRegressor": BayesianStackingRegressor(members, density="student-t", random_state=0),
    }
    return {name: model.fit(*rows(150, 0)) for name, model in made.items()}


def together(work: Callable[[int], Iterator[object]], n_threads: int) -> tuple[list[object], float, float]:
    """Do the work of each thread, from the same moment on; return what they yield, the seconds and the CPU seconds."""
    start, results = threading.Barrier(n_threads + 1), [list[object]() for _ in range(n_threads)]

    def run(number: int) -> None:
        start.wait()
        results[number].extend(work(number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(n_threads)]
    for thread in threads:
        thread.start()
    start.wait()
    began, used = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began, time.process_time() - used
    return [found for part in results for found in part], *took


def predicted(model: Any, X: np.ndarray) -> bytes:
    """Return the bits of means, standard deviations and intervals."""
    mean, std = model.predict(X, return_std=True)
    return mean.tobytes() + std.tobytes() + model.predict_interval(X).tobytes()


def one_call(model: Any, X: np.ndarray) -> bytes:
    """Return the bits of what one call predicts; two calls may see two states."""
    return np.concatenate(model.predict(X, return_std=True)).tobytes()


def hold(record: Record, name: str, model: Any, n_rows: int, calls: int) -> None:
    """Predict on more and more threads: all bits are those of one thread; note the calls per second."""
    tables = [rows(n_rows, 100 + k)[0] for k in range(8)]
    right = [predicted(model, X) for X in tables]
    tried = wrong = 0
    rates = []
    for n_threads in THREADS:
        each = max(1, calls // n_threads)

        def work(number: int, each: int = each) -> Iterator[object]:
            for k in range(each):
                yield predicted(model, tables[(number + k) % 8]) == right[(number + k) % 8]

        found, seconds, cpu = together(work, n_threads)
        tried, wrong = tried + len(found), wrong + found.count(False)
        rates.append(f"{n_threads}: {len(found) / seconds:.0f}/s ({len(found) / cpu:.0f} per CPU s)")
    record.add(f"{name}, {n_rows} rows per call, threads: calls", tried, wrong, "; ".join(rates))


def change(record: Record, seconds: float) -> None:
    """Fit, absorb and forget while eight threads predict: every prediction is that of a published state."""
    model = BDKNRegressor(n_members=2, epochs=5, n_jobs=1, density="student-t", random_state=0).fit(*rows(60, 0))
    X, allowed, end = rows(10, 1)[0], set[bytes](), time.monotonic() + seconds
    allowed.add(one_call(model, X))
    over, seen, changes = threading.Event(), set[bytes](), 0

    def predict(_: int) -> Iterator[object]:
        while not over.is_set():
            seen.add(one_call(model, X))
            yield 1

    def states() -> Iterator[None]:
        while time.monotonic() < end:
            model.fit(*rows(60, int(time.monotonic() * 1e6) % 1000))
            yield
            for k in range(5):
                model.partial_fit(*rows(5, k))
                yield
            model.forget()
            yield

    def alter() -> None:
        nonlocal changes
        for _ in states():
            changes += 1
            allowed.add(one_call(model, X))
        over.set()

    altering = threading.Thread(target=alter)
    altering.start()
    done, _, _ = together(predict, 8)
    altering.join()
    remark = f"{changes} fits, updates and returns meanwhile; {len(seen)} different results seen"
    record.add(
        "predictions on 8 threads while the regressor is fitted and updated", len(done), len(seen - allowed), remark
    )


def run(record: Record, scale: float) -> None:
    """Fill the record."""
    warnings.simplefilter("ignore", OutsideDataWarning)
    cores, busy = joblib.cpu_count(), os.getloadavg()[1]
    record.title += f" (on {cores} cores, with a load average of {busy:.1f} before the run)"
    for name, model in models().items():
        hold(record, name, model, 10, int(1280 * scale))
        hold(record, name, model, 1000, int(128 * scale))
    change(record, 60.0 * scale)


if __name__ == "__main__":
    options = arguments(__doc__).parse_args()
    said = COMMAND if options.scale == 1.0 else f"{COMMAND} --scale {options.scale:g}"
    with recording("load", TITLE, said, FOUND, write=options.write) as record:
        run(record, options.scale)
