"""Output of commands: results to standard output, progress and errors to standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from bdkn.errors import BDKNError

if TYPE_CHECKING:
    from rich.console import Console

    from bdkn.report import Table


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Print errors that the user can correct as one line on standard error, and exit with code 2."""
    try:
        yield
    except (BDKNError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error


def print_table(console: Console, table: Table) -> None:
    """Print a table, names aligned left and numbers aligned right."""
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(table.columns):
        grid.add_column(column, justify="right" if place else "left")
    for row in table.rows:
        grid.add_row(*row)
    console.print(grid)
