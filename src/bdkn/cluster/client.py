"""The active client of a Dask cluster, and the ways in which it is used."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bdkn.errors import BDKNError, ClusterError, InvalidParameterError

RETRIES = 2
"""How often a task is tried again after an error, such as that of a file system; lost workers are not counted."""

_LARGE_GRAPH = "1 GB"
"""Graphs of a fit hold the inputs of the sample, on purpose: Dask warns only of larger ones."""


def active_client() -> Any | None:
    """Return the client that is active; None if there is none, or inside a task of a cluster."""
    if "distributed" not in sys.modules:
        return None
    from distributed import Client, get_worker

    try:
        get_worker()
    except ValueError:  # not in a task
        pass
    else:
        return None
    try:
        client = Client.current()
    except ValueError:
        return None
    if client.asynchronous:
        raise InvalidParameterError(
            "a fit on a cluster waits for its results; the active Dask client is asynchronous: make one by "
            "Client(address)"
        )
    return client


def started(client: Any, tasks: Sequence[Any]) -> list[Any]:
    """Return futures of tasks, delayed objects, which begin to be computed."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE_GRAPH}):
        futures: list[Any] = client.compute(list(tasks), retries=RETRIES)
    return futures


def result_of(client: Any, task: Any) -> Any:
    """Return the result of a task, a delayed object."""
    return results_of(client, [task])[0]


def results_of(client: Any, tasks: Sequence[Any]) -> list[Any]:
    """Return the results of tasks, delayed objects."""
    futures = started(client, tasks)
    with on_cluster(client, futures):
        results: list[Any] = client.gather(futures)
    return results


@contextmanager
def on_cluster(client: Any, futures: Collection[Any]) -> Iterator[None]:
    """Cancel futures after an error or an interrupt, and tell errors of a cluster in the words of this library."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        yield
    except BaseException as error:
        cancel(client, futures)
        if isinstance(error, KilledWorker):
            raise ClusterError(
                f"{error.allowed_failures + 1} workers were lost one after the other while they worked on the same "
                "part of a fit, most often for lack of memory: give workers more of it, or fewer threads each"
            ) from error
        if isinstance(error, CancelledError | OSError) and client.status != "running":
            raise ClusterError(
                f"the connection to the scheduler of the cluster was lost during a fit ({error}): connect to it by "
                "Client(address), and fit again"
            ) from error
        own = _own(error)
        if own is None:
            raise
        raise own from error


def cancel(client: Any, futures: Collection[Any]) -> None:
    """Cancel futures, if the cluster is still there."""
    if client.status == "running":
        client.cancel(list(futures), force=True)


def _own(error: BaseException) -> BDKNError | None:
    """Return the error of this library that a task raised, if it is hidden behind one of Dask."""
    cause = error.__cause__
    while cause is not None and not isinstance(cause, BDKNError):
        cause = cause.__cause__
    return cause if not isinstance(error, BDKNError) else None
