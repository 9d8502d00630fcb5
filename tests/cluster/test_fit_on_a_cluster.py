"""Fits on a real cluster of two processes: the bits of a fit on one machine, also if a worker is lost."""

import os
import time
from contextlib import nullcontext

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import workers
from bdkn import BayesianStackingRegressor, BDKNRegressor, DaskRows
from bdkn.ensemble import cluster as cluster_chunks
from bdkn.errors import InvalidParameterError
from bdkn.estimators import fitting

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

SMALL = {"n_members": 2, "cv": 2, "epochs": 3, "n_bins": (0, 4), "random_state": 0, "density": "student-t"}
PASSES = 2 * 3 * 3  # members, epochs, chunks


def make_frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(360, 2)), columns=["a", "b"])
    frame["kind"] = rng.choice([f"kind {i}" for i in range(40)], 360)
    frame["weight"] = rng.uniform(0.5, 2.0, 360) * (np.arange(360) % 6 > 0)
    frame["house"] = np.arange(360) // 3
    return frame.assign(price=np.sin(frame["a"]) + 0.5 * frame["b"] + 0.2 * rng.normal(size=360))


FRAME = make_frame()
NAMES = {"sample_weight": "weight", "groups": "house"}


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    """Let a chunk, and the sample, have 110 rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "CHUNK_ROWS", 110)
        yield


@pytest.fixture(scope="module")
def on_one_machine(small_chunks):
    """Return a fit to rows that are read here, one partition at a time."""
    return BDKNRegressor(**SMALL).fit(dd.from_pandas(FRAME, npartitions=2), "price", **NAMES)


@pytest.fixture(scope="module")
def client(on_one_machine):
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def same(one, other):
    columns = FRAME[["a", "b", "kind"]]
    p, q = one.predict_dist(columns), other.predict_dist(columns)
    return all(np.array_equal(getattr(p, name), getattr(q, name)) for name in ("loc", "scale", "df"))


def on_passes(monkeypatch, call):
    monkeypatch.setattr(fitting, "_bar", lambda passes: nullcontext(call))


@pytest.mark.parametrize(("n_partitions", "threads"), [(1, 2), (5, 0)])
def test_any_partition_gives_the_bits_of_one_machine(client, on_one_machine, monkeypatch, n_partitions, threads):
    made = []
    on_passes(monkeypatch, made.append)
    monkeypatch.setattr(cluster_chunks, "MIN_MEMBERS_PER_THREAD", threads)  # members whole, or divided by folds
    frame = dd.from_pandas(FRAME, npartitions=n_partitions)
    model = BDKNRegressor(**SMALL, verbose=1).fit(DaskRows(frame, "price", **NAMES))
    assert same(model, on_one_machine)
    assert model.evidence_ == on_one_machine.evidence_
    assert sum(made) == PASSES


def test_a_worker_that_dies_while_networks_train_changes_nothing(client, on_one_machine, monkeypatch):
    killed = []

    def kill_once(made):
        if not killed:
            killed.append(sorted(client.run(os.getpid).values())[0])
            workers.kill(killed[0])

    on_passes(monkeypatch, kill_once)
    monkeypatch.setattr(cluster_chunks, "PASSES_AT_ONCE", 2)
    model = BDKNRegressor(**SMALL, verbose=1).fit(dd.from_pandas(FRAME, npartitions=3), "price", **NAMES)
    assert same(model, on_one_machine)
    assert len(killed) == 1


def read(number, folder):
    """Return a part of the table; the first attempt fails."""
    mark = os.path.join(folder, f"{number}")
    if not os.path.exists(mark):
        open(mark, "wb").close()
        raise OSError("the file system is away")
    return FRAME.iloc[180 * number : 180 * number + 180]


def test_reading_that_fails_is_tried_again(client, on_one_machine, tmp_path):
    frame = dd.from_map(read, range(2), folder=str(tmp_path), meta=FRAME.iloc[:0])
    assert same(BDKNRegressor(**SMALL).fit(frame, "price", **NAMES), on_one_machine)


def test_a_wrong_row_is_named_as_on_one_machine(client):
    frame = FRAME.copy()
    frame.loc[200, "price"] = np.nan
    with pytest.raises(
        InvalidParameterError, match=r"column .price. must .* finite .*; row 200, in partition 1, is nan"
    ):
        BDKNRegressor(**SMALL).fit(dd.from_pandas(frame, npartitions=3), "price", **NAMES)


def test_an_interrupt_cancels_what_runs(client, monkeypatch):
    def interrupt(made):
        raise KeyboardInterrupt

    on_passes(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        BDKNRegressor(**SMALL, verbose=1).fit(dd.from_pandas(FRAME, npartitions=2), "price", **NAMES)
    until = time.monotonic() + 30
    while (left := client.run_on_scheduler(tasks_left)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


def tasks_left(dask_scheduler):
    return [str(key) for key in dask_scheduler.tasks]


def test_rows_that_the_sample_holds_are_fitted_by_the_client(client, monkeypatch):
    monkeypatch.setattr(fitting, "CHUNK_ROWS", 1000)
    few = BDKNRegressor(**SMALL).fit(dd.from_pandas(FRAME, npartitions=2), "price", **NAMES)
    assert few.combination_.n == pytest.approx(FRAME["weight"].sum())


def test_members_of_a_stack_are_tasks_of_the_cluster_by_joblib(client):
    X, y = FRAME[["a", "b"]].to_numpy(), FRAME["price"].to_numpy()
    stack = BayesianStackingRegressor([("ridge", Ridge()), ("strong", Ridge(alpha=100.0))], random_state=0)
    expected = stack.fit(X, y).predict(X)
    with joblib.parallel_config("dask"):
        assert np.array_equal(stack.fit(X, y).predict(X), expected)
    assert any("_run" in prefix for prefix in client.run_on_scheduler(kinds_of_tasks))


def kinds_of_tasks(dask_scheduler):
    return list(dask_scheduler.task_prefixes)
