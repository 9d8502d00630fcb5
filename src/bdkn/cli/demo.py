"""``bdkn demo``: the story of a table, from a CSV file to a page, by the commands that a user would type."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from bdkn.cli.options import MOST_SEED
from bdkn.cli.terminal import errors_as_messages
from bdkn.cli.wording import cell
from bdkn.errors import require

HELP = """Show what bdkn does with a table of flats: fit, predict, evaluate, report.

Writes a table of invented flats, then runs the commands that you would type, each printed above its output. The first
run compiles the training code, which takes about 10 seconds.

Example:

    bdkn demo --out report
"""

FILES = ("flats.csv", "sold.csv", "offers.csv", "flats.bdkn", "predicted.csv", "index.html")
"""Files that the story writes."""

TRAINING, SOLD, OFFERED = 1500, 400, 6
"""Rows to learn from, rows to judge by, and rows whose price is to be predicted."""


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder to write to; earlier files are replaced.")] = Path("report"),
    rows: Annotated[int, typer.Option(min=50, max=1_000_000, help="Number of flats to learn from.")] = TRAINING,
    effort: Annotated[str, typer.Option(help="fast, balanced or best.")] = "balanced",
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the table and of the networks.")] = 0,
) -> None:
    """Show what bdkn does with a table of flats."""
    with errors_as_messages():
        from bdkn.report import prepare_folder

        require("pyarrow", "pandas", extra="files")
        require("matplotlib", "jinja2", extra="report")
        folder = prepare_folder(out)
        check_files(folder)
        write_tables(folder, rows, seed)
        show_table(folder / "flats.csv")
        for comment, words in steps(folder, effort, seed):
            typer.echo(f"\n# {comment}\n$ bdkn {shlex.join(words)}")
            run_verb(context.find_root().command, words)
            if words[0] == "predict":
                show_table(folder / "predicted.csv")
        typer.echo(f"\nOpen {folder / 'index.html'} in a browser.")


def check_files(folder: Path) -> None:
    """Raise unless every file of the story can be written, before anything is computed."""
    from bdkn.table_files import check_output

    for name in FILES:
        check_output(folder / name)


def write_tables(folder: Path, rows: int, seed: int) -> None:
    """Write the flats to learn from, those sold since, and those on offer, which have no price."""
    import pyarrow as pa

    from bdkn.cli.flats import make_flats
    from bdkn.table_files import writing

    flats = make_flats(rows + SOLD + OFFERED, seed)
    parts = {
        "flats.csv": flats[:rows],
        "sold.csv": flats[rows : rows + SOLD],
        "offers.csv": flats[rows + SOLD :].drop(columns="price"),
    }
    for name, part in parts.items():
        with writing(folder / name) as file:
            file.write(_with_days(pa.Table.from_pandas(part, preserve_index=False)))


def steps(folder: Path, effort: str, seed: int) -> list[tuple[str, list[str]]]:
    """Return the commands of the story, each with a comment."""
    flats, sold, offers, model = (str(folder / name) for name in ("flats.csv", "sold.csv", "offers.csv", "flats.bdkn"))
    common = [] if effort == "balanced" else ["--effort", effort]
    common += [] if seed == 0 else ["--seed", str(seed)]
    return [
        ("Learn to predict the price.", ["fit", flats, "--target", "price", "--out", model, *common]),
        (
            "What will the flats on offer cost, and which will cost more than 400 000?",
            ["predict", model, offers, "--id", "id", "--above", "400000", "--out", str(folder / "predicted.csv")],
        ),
        ("Were the flats sold since then predicted well?", ["evaluate", model, sold, "--worst", "3"]),
        ("Write the page.", ["report", model, sold, "--out", str(folder / "index.html")]),
    ]


def run_verb(command: Any, words: list[str]) -> None:
    """Run a verb of the command in this process; exit as it does if it fails."""
    code = command.main(args=words, prog_name="bdkn", standalone_mode=False)
    if code:
        raise typer.Exit(int(code))


def show_table(path: Path, lines: int = 6) -> None:
    """Print the first rows of a table."""
    from bdkn.cli.terminal import plain_console, print_table
    from bdkn.report import Table
    from bdkn.table_files import read_table

    frame = read_table(path)
    rows = [tuple(map(cell, row)) for row in frame.head(lines).itertuples(index=False)]
    title = f"\n{path}, the first of {len(frame):,} rows" if len(frame) > lines else f"\n{path}"
    print_table(plain_console(), Table(title, tuple(frame.columns), tuple(rows)))


def _with_days(table: Any) -> Any:
    """Return an Arrow table in which moments are days, so that a file shows 1987-05-01 without a time."""
    import pyarrow as pa

    for place, item in enumerate(table.schema):
        if pa.types.is_timestamp(item.type):
            table = table.set_column(place, item.name, table[item.name].cast(pa.date32()))
    return table
