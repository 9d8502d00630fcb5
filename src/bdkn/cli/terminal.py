"""Output, options and errors of the commands.

Exit codes: 0, done; 2, the command, its input or its machine must be corrected, and a paragraph explains how; 130 and
143, interrupted by SIGINT or SIGTERM, and no file is half-written; 1, an unexpected error, with a traceback.

Names of columns and files come from others: characters that would control the terminal are shown as escapes, and no
text is read as markup.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bdkn.errors import BDKNError

if TYPE_CHECKING:
    from rich.console import Console


def number(value: float, *, sign: bool = False) -> str:
    """Format a number with four significant digits; large ones get thousands separators instead of an exponent."""
    plus = "+" if sign else ""
    if 1e4 <= abs(value) < 1e12:
        return f"{float(f'{value:.4g}'):{plus},.0f}"
    return f"{value:{plus}.4g}"


def cell(value: Any) -> str:
    """Format a value for a table: empty if it is missing; only the date if its time is midnight."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return number(value)
    if hasattr(value, "date"):
        return str(value.date()) if str(value).endswith("00:00:00") else str(value)
    return str(value)


Data = Annotated[Path, typer.Argument(help="Table: .csv, .tsv (also .gz) or .parquet.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="Model file that `bdkn fit` wrote.", show_default=False)]
Target = Annotated[str, typer.Option(help="Column to predict; it must hold numbers.", show_default=False)]
KnownTarget = Annotated[
    str | None, typer.Option(help="Column with the true values; the one that the model was fitted to if not given.")
]
Features = Annotated[str | None, typer.Option(help="Input columns: a,b,c. All others if not given.")]
Drop = Annotated[str | None, typer.Option(help="Columns that are no inputs: x,y.")]
Groups = Annotated[
    str | None,
    typer.Option(help="Column of labels; rows with the same label, as of one patient, are held out together."),
]
Time = Annotated[
    str | None, typer.Option(help="Column of dates or numbers; later rows are predicted from earlier ones.")
]
Coverage = Annotated[float, typer.Option(min=0.01, max=0.999, help="Probability of each interval.")]
MAX_SEED = 2**32 - 1
"""Maximum seed of random numbers that all libraries in use accept."""

Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed; the same seed and table give the same result.")]
Jobs = Annotated[int, typer.Option(help="Number of threads; -1: one per core.")]
Density = Annotated[str | None, typer.Option(help="'student-t' omits densities of neighbouring rows, which is faster.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes on standard error.")]


def names_of(text: str | None) -> tuple[str, ...]:
    """Return the names in a comma-separated text; none for None."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


_LESS_MEMORY = "use fewer processes (--jobs 1), fewer rows, or a machine with more memory"

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Pattern of characters that control a terminal, change the writing direction, or cannot be encoded."""


def printable(text: str) -> str:
    """Return a text with escapes in place of characters that would control the terminal, except line ends and tabs."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def echo(text: str, *, err: bool = False) -> None:
    """Print a text to standard output or standard error; characters that would control the terminal are escaped."""
    typer.echo(printable(text), err=err)


class Interrupted(KeyboardInterrupt):
    """The process was asked to end by a signal; ``code`` is its exit code.

    A plain KeyboardInterrupt does not suffice: ``python -m`` would end with another code, even if it is caught.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Print errors that the user can correct as one paragraph on standard error, and exit with code 2."""
    try:
        with _interruptible():
            yield
    except BrokenPipeError as error:
        # The reader has closed the output. Without this, Python prints another error when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from error
    except (BDKNError, OSError) as error:
        echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error
    except MemoryError as error:
        echo(f"Error: there is not enough memory ({str(error) or 'no details'}); {_LESS_MEMORY}", err=True)
        raise typer.Exit(2) from error
    except BrokenExecutor as error:  # joblib's message is a page long
        echo(f"Error: a worker process was killed, usually since memory ran out; {_LESS_MEMORY}", err=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        typer.echo("Interrupted: every file is complete, or as it was.", err=True)
        raise typer.Exit(getattr(error, "code", 130)) from error


@contextmanager
def _interruptible() -> Iterator[None]:
    """Convert SIGINT and SIGTERM to an exception, so that temporary files are removed; ignored signals stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    received: list[int] = []

    def interrupt(number: int, _: object) -> None:
        received.append(number)
        raise Interrupted(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    former = {
        number: handler for number in signals if (handler := signal.getsignal(number)) not in (None, signal.SIG_IGN)
    }
    for number in former:
        signal.signal(number, interrupt)
    try:
        yield
    except Exception as error:
        if received:  # modules in C++ that are interrupted while they are imported raise an ImportError instead
            raise Interrupted(received[0]) from error
        raise
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


class Screen:
    """Output of a command: its result on standard output, as text or one JSON object, and notes on standard error."""

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json, self.quiet = json, quiet
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Print a note on standard error, once, and keep it."""
        if text not in self.notes:
            self.notes.append(text)
            self.progress(f"Note: {text}")

    def progress(self, text: str) -> None:
        """Print a line on standard error, unless quiet."""
        if not self.quiet:
            echo(text, err=True)

    def write(self, *lines: str) -> None:
        """Print lines of the result, unless the result is JSON."""
        if not self.json:
            echo("\n".join(lines))

    def table(self, title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]], *, texts: bool = False) -> None:
        """Print a table of the result, unless the result is JSON; ``texts`` if its cells are not numbers."""
        if not self.json:
            from rich.console import Console

            # As wide as the terminal, or 140 columns wide without one.
            console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 140)
            print_table(console, title, columns, rows, texts=texts)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Print the result and the notes as one JSON object, if JSON output was requested."""
        if self.json:
            import json

            typer.echo(json.dumps({**_plain(result), "notes": self.notes}, indent=2, allow_nan=False))

    @contextmanager
    def noting_warnings(self) -> Iterator[None]:
        """Show Python warnings of the block as notes, also if the block fails."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for of_developers in (DeprecationWarning, ResourceWarning):
                warnings.simplefilter("ignore", of_developers)
            try:
                yield
            finally:
                for warning in caught:
                    self.note(str(warning.message))


def print_table(
    console: Console,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    texts: bool = False,
    style: Callable[[int, int], str] = lambda row, column: "",
) -> None:
    """Print a table, names aligned left and numbers aligned right; ``texts`` if all columns are texts.

    ``style`` is called with the row and column number of each cell, and returns a style of the package rich.
    """
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    heading = Text(printable(title), style="bold")
    grid = Grid(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        grid.add_column(Text(printable(column)), justify="right" if place and not texts else "left")
    for i, row in enumerate(rows):
        grid.add_row(*(Text(printable(cell), style=style(i, j)) for j, cell in enumerate(row)))
    console.print(grid)


def _plain(value: Any) -> Any:
    """Convert a value to types that JSON can hold; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # an array or a number of NumPy
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
