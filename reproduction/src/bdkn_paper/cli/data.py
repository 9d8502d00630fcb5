"""``bdkn-paper data``: list, fetch, check and describe the data sets of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bdkn.cli.terminal import errors_as_messages, print_table

if TYPE_CHECKING:
    from bdkn_paper.data import DatasetInfo

app = typer.Typer(no_args_is_help=True, help="The eleven data sets of the paper: list, fetch, check, describe.")

Names = Annotated[list[str] | None, typer.Argument(help="Names of data sets; all if none is given.")]
Folder = Annotated[
    Path | None,
    typer.Option("--data", help="Folder of csv.gz files; by default BDKN_DATA, otherwise the user's cache."),
]


@app.command(name="list")
def list_(names: Names = None, data: Folder = None) -> None:
    """List the data sets, their licences and whether they are present; print all details of those named."""
    with errors_as_messages():
        from bdkn_paper.data import data_folder, find

        if names:
            typer.echo("\n\n".join(map(_all_of, _chosen(names))))
            return
        rows = [
            (
                info.name,
                f"{info.rows} x {info.features}",
                info.target,
                info.licence,
                "yes" if find(info, data) else "no",
            )
            for info in _chosen(None)
        ]
        _print(f"Data sets, and whether they are in {data_folder(data)}", _LIST, rows)


@app.command()
def fetch(
    names: Names = None,
    data: Folder = None,
    again: Annotated[bool, typer.Option("--again", help="Download data sets that are already present, too.")] = False,
) -> None:
    """Download data sets, check their numbers and store them; correct files that are present are kept."""
    with errors_as_messages():
        from bdkn_paper import data as sets

        chosen = _chosen(names)
        bad = _for_each(chosen, lambda info: f"{sets.fetch(info.name, data, again=again)}")
    _leave(bad, len(chosen), "could not be fetched")


@app.command()
def check(names: Names = None, data: Folder = None) -> None:
    """Read the data sets that are present and check their numbers."""
    with errors_as_messages():
        from bdkn_paper.data import load_dataset

        chosen = _chosen(names) if names else _there(data)
        bad = _for_each(chosen, lambda info: "good" if load_dataset(info.name, _folder(data)) else "")
    _leave(bad, len(chosen), "failed the check")


@app.command()
def describe(names: Names = None, data: Folder = None) -> None:
    """Print the paper's table of data sets, computed from those that are present."""
    with errors_as_messages():
        from bdkn_paper.data import describe, load_dataset

        chosen = _chosen(names) if names else _there(data)
        lines = [describe(load_dataset(info.name, _folder(data))) for info in chosen]
        rows = [
            (
                *(line.name, f"{line.rows}", f"{line.features}", f"{line.n_splits}", f"{line.train_size}"),
                *(f"{line.test_size}", f"{line.mean:.5g}", f"{line.sd:.5g}"),
            )
            for line in lines
        ]
        _print("Data statistics", _DESCRIBE, rows)
        for line in lines:
            if line.rows != line.file_rows:
                typer.echo(f"{line.name}: a split uses {line.rows} of the {line.file_rows} rows there are.")


_LIST = ("name", "rows x features", "target", "licence", "here")
_DESCRIBE = ("name", "rows", "features", "splits", "train", "test", "mean y", "sd y")


def _all_of(info: DatasetInfo) -> str:
    """Return the full description of a data set."""
    import textwrap

    numbers = [f"UCI {info.uci_id}"] * bool(info.uci_id) + [f"OpenML {info.openml_id}"] * bool(info.openml_id)
    facts = {
        "about": info.description,
        "target": info.target,
        "features": ", ".join(info.feature_names),
        "size": f"{info.rows} rows, {info.features} features",
        "splits": f"{info.n_splits}, {info.train_size} rows to train on and {info.test_size} to test",
        "licence": info.licence,
        "cite": info.citation,
        "known as": ", ".join(numbers) or "-",
    }
    lines = [
        textwrap.fill(f"{key + ':':<10}{text}", 100, initial_indent="  ", subsequent_indent=" " * 12)
        for key, text in facts.items()
    ]
    return "\n".join([f"{info.name}: {info.title}", *lines, *(f"  {'from:':<10}{url}" for url in info.urls)])


def _chosen(names: Sequence[str] | None) -> list[DatasetInfo]:
    from bdkn_paper.data import DATASETS, dataset_info

    return [dataset_info(name) for name in names or DATASETS]


def _there(data: Path | None) -> list[DatasetInfo]:
    from bdkn_paper.data import DATASETS, DataError, data_folder, find

    there = [info for info in DATASETS.values() if find(info, data)]
    if not there:
        raise DataError(
            f"there is no data set in {data_folder(data)}; run: bdkn-paper data fetch; "
            "or set another folder by --data or BDKN_DATA"
        )
    return there


def _folder(data: Path | None) -> Path:
    """Return the data folder, also if it is the cache, so that nothing is downloaded."""
    from bdkn_paper.data import data_folder

    return data_folder(data)


def _for_each(chosen: Sequence[DatasetInfo], work: Callable[[DatasetInfo], str]) -> int:
    """Print the result of ``work`` for each data set, or its error; return the number of errors."""
    from bdkn_paper.data import DataError

    failed = 0
    for info in chosen:
        try:
            typer.echo(f"{info.name}: {work(info)}")
        except DataError as error:
            failed += 1
            typer.echo(f"{info.name}: Error: {error}", err=True)
    return failed


def _leave(failed: int, total: int, what: str) -> None:
    if failed:
        typer.echo(f"{failed} of {total} {what}", err=True)
        raise typer.Exit(2)


def _print(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console

    print_table(Console(highlight=False), title, columns, rows)
