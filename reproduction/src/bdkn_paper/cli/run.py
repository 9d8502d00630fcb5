"""``bdkn-paper run | pack | unpack``: run experiments cell by cell, and pack their records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bdkn.cli.terminal import echo, errors_as_messages
from bdkn.errors import InvalidParameterError, require

if TYPE_CHECKING:
    from bdkn_paper.experiments import Outcome
    from bdkn_paper.store import Cell, Store


MOST_JOBS = 1024
"""Most processes that can be asked for."""

_CONNECT_S = 10
"""Seconds within which a scheduler must answer."""


def _not_zero(jobs: int) -> int:
    if jobs == 0 or jobs > MOST_JOBS:
        raise typer.BadParameter(
            f"must be a number of processes, or -1 for one per core; at most {MOST_JOBS}; got {jobs}"
        )
    return jobs


StoreOption = Annotated[Path, typer.Option(help="Folder of records, one file per cell.")]
ResultsOption = Annotated[Path, typer.Option(help="Folder of packed records, one file per experiment.")]
DataOption = Annotated[Path | None, typer.Option(help="Data folder, instead of BDKN_DATA.")]


def run(
    file: Annotated[Path, typer.Argument(help="Experiment, a TOML file.")],
    datasets: Annotated[str, typer.Option(help="Only these data sets, separated by commas.")] = "",
    methods: Annotated[str, typer.Option(help="Only these methods, separated by commas.")] = "",
    splits: Annotated[str, typer.Option(help="Only these splits, such as 0-4 or 0,3,7-9.")] = "",
    store: StoreOption = Path(".bdkn-store"),
    jobs: Annotated[int, typer.Option(help="Processes; -1 for one per core.", callback=_not_zero)] = -1,
    device: Annotated[str, typer.Option(help="Device of the methods that PyTorch trains, for example cuda.")] = "",
    cluster: Annotated[str, typer.Option(help="Address of a Dask scheduler, whose workers run the cells.")] = "",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed cells again.")] = False,
    data: DataOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Run the cells of an experiment that are not in the store yet.

    It can be stopped at any time, even killed: the same command continues where it stopped. Several processes can use
    one store at the same time. The workers of a cluster read data sets from the same folder as this process.
    """
    with errors_as_messages(), _client(cluster) as client:
        from bdkn_paper.experiments import cost, load_experiment, pending, run_cells
        from bdkn_paper.store import Store

        experiment, kept = load_experiment(file), Store(store, tell)
        source = experiment.source(None if data is None else str(data))
        cells = experiment.cells(source, methods=_names(methods), datasets=_names(datasets), splits=_numbers(splits))
        todo = pending(cells, kept, retry_failed=retry_failed)
        work = {cell.key: cost(cell, source) for cell in todo}
        how = {"retry_failed": retry_failed, "device": device or None, "client": client}
        outcomes = run_cells(todo, kept, source, jobs=jobs, **how)
        ended = list(_shown(outcomes, work, quiet=quiet))
        echo(_summary(cells, ended, kept))
        raise typer.Exit(_report_failures([*_failed_before(cells, ended, kept), *ended]))


@contextmanager
def _client(address: str) -> Iterator[Any]:
    """Give the client of the cluster at an address; None if there is no address."""
    if not address:
        yield None
        return
    require("distributed", extra="dask")
    from distributed import Client

    try:
        client = Client(address, timeout=_CONNECT_S)
    except (OSError, ValueError) as error:
        raise InvalidParameterError(
            f"--cluster must be the address of a Dask scheduler, such as tcp://host:8786; got {address!r}: {error}"
        ) from error
    with client:
        yield client


def pack(
    files: Annotated[list[Path] | None, typer.Argument(help="Only the cells of these experiments.")] = None,
    store: StoreOption = Path(".bdkn-store"),
    results: ResultsOption = Path("reproduction/results"),
) -> None:
    """Write the records of a store to one file per experiment; records packed earlier are kept.

    If experiments are given, records of cells that they no longer have are removed from the files.
    """
    with errors_as_messages():
        from bdkn_paper import store as stores
        from bdkn_paper.experiments import load_experiment

        experiments = map(load_experiment, files or ())
        keys = {cell.key for experiment in experiments for cell in experiment.cells(experiment.source())}
        count = stores.pack(stores.Store(stores.record_folder(store), tell), results, keys if files else None)
        echo(f"{count} records in {results}")


def unpack(results: ResultsOption = Path("reproduction/results"), store: StoreOption = Path(".bdkn-store")) -> None:
    """Copy packed records into a store, so that their cells count as done."""
    with errors_as_messages():
        from bdkn_paper import store as stores

        echo(f"{stores.unpack(stores.record_folder(results), stores.Store(store))} records added to {store}")


def tell(text: str) -> None:
    """Print a note on standard error."""
    echo(f"Note: {text}", err=True)


def _shown(outcomes: Iterable[Outcome], work: Mapping[str, float], *, quiet: bool) -> Iterator[Outcome]:
    """Yield the outcomes and show progress on standard error, by the estimated work of each cell."""
    from rich.console import Console

    from bdkn.networks.job import progress_bar

    # Long cells end rarely: the time remaining is estimated from the last hour.
    with progress_bar(Console(stderr=True, quiet=quiet), speed_estimate_period=3600) as progress:
        bar = progress.add_task(f"0/{len(work)} cells", total=sum(work.values()))
        for count, outcome in enumerate(outcomes, 1):
            text = f"{count}/{len(work)} cells, last {outcome.cell}"
            progress.update(bar, advance=work[outcome.cell.key], description=text)
            yield outcome


def _summary(cells: Sequence[Cell], ended: Sequence[Outcome], store: Store) -> str:
    failed = sum((store.get(cell) or {}).get("status") == "failed" for cell in cells)
    absent = sum(outcome.status == "no data" for outcome in ended)
    ran = sum(not outcome.found for outcome in ended) - absent
    text = f"{len(cells)} cells: {len(cells) - ran - absent} found, {ran} run, {failed} failed"
    return text + (f", {absent} have no data" if absent else "")


def _failed_before(cells: Sequence[Cell], ended: Sequence[Outcome], store: Store) -> Iterator[Outcome]:
    """Yield the failures of earlier runs."""
    from bdkn_paper.experiments.runner import known_outcome

    now = {outcome.cell.key for outcome in ended}
    for cell in cells:
        if cell.key not in now and (outcome := known_outcome(cell, store)).status == "failed":
            yield replace(outcome, message=f"{outcome.message} (earlier; --retry-failed runs it again)")


def _report_failures(ended: Iterable[Outcome]) -> int:
    """Print on standard error which cells have no result, and why; return the exit code."""
    reasons: dict[str, list[Cell]] = {}
    for outcome in ended:
        if outcome.status != "done":
            reasons.setdefault(f"{outcome.status}: {outcome.message}", []).append(outcome.cell)
    for reason, cells in reasons.items():
        more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        echo(f"{cells[0]}{more}: {reason}", err=True)
    return 1 if reasons else 0


def _names(text: str) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


@dataclass(frozen=True)
class _Numbers:
    """The whole numbers of some ranges, which may be long: they are not listed."""

    ranges: tuple[range, ...]

    def __contains__(self, number: object) -> bool:
        return any(number in part for part in self.ranges)


def _numbers(text: str) -> _Numbers | None:
    """Return the numbers in a list such as ``0,3,7-9``."""
    from bdkn.errors import InvalidParameterError

    if not text:
        return None
    parts = [re.fullmatch(r"\s*([0-9]{1,18})\s*(?:-\s*([0-9]{1,18})\s*)?", part) for part in text.split(",")]
    if not all(parts):
        raise InvalidParameterError(f"splits must be numbers and ranges such as 0,3,7-9; got {text!r}")
    ends = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
    return _Numbers(tuple(range(first, last + 1) for first, last in ends))
