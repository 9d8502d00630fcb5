"""``bdkn bench``: experiments run cell by cell, and their records packed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bdkn.cli.terminal import errors_as_messages

if TYPE_CHECKING:
    from bdkn_paper.experiments import Outcome
    from bdkn_paper.store import Cell, Store


def _not_zero(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("must be a number of processes, or -1 for one a core; got 0")
    return jobs


StoreOption = Annotated[Path, typer.Option(help="Folder of records, one file a cell.")]
ResultsOption = Annotated[Path, typer.Option(help="Folder of packed records, one file a method and data set.")]
DataOption = Annotated[Path | None, typer.Option(help="Folder of data, instead of BDKN_DATA.")]


def run(
    file: Annotated[Path, typer.Argument(help="Experiment, a TOML file.")],
    datasets: Annotated[str, typer.Option(help="Only these data sets, with commas between.")] = "",
    methods: Annotated[str, typer.Option(help="Only these methods, with commas between.")] = "",
    splits: Annotated[str, typer.Option(help="Only these splits, such as 0-4 or 0,3,7-9.")] = "",
    store: StoreOption = Path(".bdkn-store"),
    jobs: Annotated[int, typer.Option(help="Processes; -1 for one a core.", callback=_not_zero)] = -1,
    device: Annotated[str, typer.Option(help="Where what PyTorch trains is computed, such as cuda.")] = "",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what failed.")] = False,
    data: DataOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Run the cells of an experiment that are not in the store yet.

    Stop it whenever you like, by Ctrl-C or worse: the same command again goes on where it was. Several may run on one
    store at once.
    """
    with errors_as_messages():
        from bdkn_paper.experiments import cost, load_experiment, pending, run_cells
        from bdkn_paper.store import Store

        experiment, kept = load_experiment(file), Store(store)
        source = experiment.source(None if data is None else str(data))
        cells = experiment.cells(source, methods=_names(methods), datasets=_names(datasets), splits=_numbers(splits))
        todo = pending(cells, kept, retry_failed=retry_failed)
        work = {cell.key: cost(cell, source) for cell in todo}
        outcomes = run_cells(todo, kept, source, jobs=jobs, retry_failed=retry_failed, device=device or None)
        ended = list(_shown(outcomes, work, quiet=quiet))
        typer.echo(_summary(cells, ended, kept))
        raise typer.Exit(_tell_what_went_wrong([*_failed_before(cells, ended, kept), *ended]))


def pack(
    files: Annotated[list[Path] | None, typer.Argument(help="Only the cells of these experiments.")] = None,
    store: StoreOption = Path(".bdkn-store"),
    results: ResultsOption = Path("reproduction/results"),
) -> None:
    """Write the records of a store to one file a method and data set, beside those packed earlier.

    With experiments given, records of cells they no longer have are dropped from their files.
    """
    with errors_as_messages():
        from bdkn_paper import store as stores
        from bdkn_paper.experiments import load_experiment

        experiments = map(load_experiment, files or ())
        keys = {cell.key for experiment in experiments for cell in experiment.cells(experiment.source())}
        count = stores.pack(stores.Store(stores.record_folder(store)), results, keys if files else None)
        typer.echo(f"{count} records in {results}")


def unpack(results: ResultsOption = Path("reproduction/results"), store: StoreOption = Path(".bdkn-store")) -> None:
    """Put packed records that a store lacks into it, so that their cells count as done."""
    with errors_as_messages():
        from bdkn_paper import store as stores

        typer.echo(f"{stores.unpack(stores.record_folder(results), stores.Store(store))} records added to {store}")


def _shown(outcomes: Iterable[Outcome], work: Mapping[str, float], *, quiet: bool) -> Iterator[Outcome]:
    """Yield the outcomes, moving a bar on standard error by the share of the work each was."""
    from rich.console import Console

    from bdkn.training.progress_bar import progress_bar

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
    text = f"{len(cells)} cells: {len(cells) - ran - absent} were there, {ran} ran, {failed} failed"
    return text + (f", {absent} have no data" if absent else "")


def _failed_before(cells: Sequence[Cell], ended: Sequence[Outcome], store: Store) -> Iterator[Outcome]:
    """Yield the failures of earlier runs."""
    from bdkn_paper.experiments.runner import known_outcome

    now = {outcome.cell.key for outcome in ended}
    for cell in cells:
        if cell.key not in now and (outcome := known_outcome(cell, store)).status == "failed":
            yield replace(outcome, message=f"{outcome.message} (earlier; --retry-failed runs it again)")


def _tell_what_went_wrong(ended: Iterable[Outcome]) -> int:
    """Say on standard error which cells have no result, and why, and return the exit code."""
    reasons: dict[str, list[Cell]] = {}
    for outcome in ended:
        if outcome.status != "done":
            reasons.setdefault(f"{outcome.status}: {outcome.message}", []).append(outcome.cell)
    for reason, cells in reasons.items():
        more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        typer.echo(f"{cells[0]}{more}: {reason}", err=True)
    return 1 if reasons else 0


def _names(text: str) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


def _numbers(text: str) -> set[int] | None:
    """Return the numbers of a list such as ``0,3,7-9``."""
    from bdkn.errors import InvalidParameterError

    try:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")] if text else []
        if any(len(part) > 2 for part in ends):
            raise ValueError
    except ValueError:
        raise InvalidParameterError(f"splits must be numbers and ranges such as 0,3,7-9; got {text!r}") from None
    return {number for part in ends for number in range(part[0], part[-1] + 1)} if text else None
