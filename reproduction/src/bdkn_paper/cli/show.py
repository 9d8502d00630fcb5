"""``bdkn-paper table | compare | runtime | figures | reproduction | results``: show and write what records hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bdkn.cli.terminal import echo, errors_as_messages, print_table, printable
from bdkn_paper.cli.run import tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from bdkn_paper.analysis.markdown import Table
    from bdkn_paper.analysis.results import Results
    from bdkn_paper.tables.score_grid import Grid

ExperimentArgument = Annotated[str, typer.Argument(help="An experiment, such as setting1, or the path of its file.")]
SourceOption = Annotated[Path, typer.Option(help="Folder of records, packed or a store.")]
FormatOption = Annotated[str, typer.Option("--format", help="text, markdown, latex or csv.")]

RESULTS = Path("reproduction/results")


def table(
    experiment: ExperimentArgument,
    metric: Annotated[
        str, typer.Option(help="rmse, nll, crps, calibration_error, coverage_90, width_90, ...")
    ] = "rmse",
    form: FormatOption = "text",
    digits: Annotated[int, typer.Option(min=0, max=12, help="Decimals.")] = 2,
    source: SourceOption = RESULTS,
) -> None:
    """Print a table of data sets and methods: mean ± standard deviation over splits, best and second best marked."""
    with errors_as_messages():
        from bdkn.errors import check_choice
        from bdkn_paper.tables.formats import FORMATS, grid_csv, grid_latex, grid_markdown
        from bdkn_paper.tables.score_grid import score_grid

        check_choice("--format", form, FORMATS)
        grid = score_grid(_results(experiment, source), metric, digits)
        if form == "text":
            _print_grid(grid)
        else:
            typer.echo({"markdown": grid_markdown, "latex": grid_latex, "csv": grid_csv}[form](grid), nl=False)


def compare(experiment: ExperimentArgument, form: FormatOption = "text", source: SourceOption = RESULTS) -> None:
    """Compare each score with the printed one: difference in standard errors, floor of the NLL, how many agree."""
    with errors_as_messages():
        from bdkn_paper.analysis.comparison import compare_with_paper
        from bdkn_paper.paper import METRICS
        from bdkn_paper.tables.comparison import FLOOR, VERDICTS, comparison_table, distribution_table, hit_table

        found = _results(experiment, source)
        cells = compare_with_paper(found)
        parts = [(metric, [cell for cell in cells if cell.metric == metric]) for metric in METRICS]
        tables = [comparison_table(part, f"{metric.upper()}, {found.experiment}") for metric, part in parts]
        tables += [
            distribution_table(heavy, f"{metric.upper()} of heavy-tailed methods over splits, {found.experiment}")
            for metric, part in parts
            if (heavy := [cell for cell in part if cell.heavy_tailed])
        ]
        _print_tables([*tables, hit_table(cells, "Scores that agree with the paper")], form, (VERDICTS, FLOOR))


def runtime(
    setting: Annotated[int | None, typer.Argument(min=1, max=2, help="1 or 2; both if not given.")] = None,
    form: FormatOption = "text",
    source: SourceOption = RESULTS,
) -> None:
    """Print our minutes and the paper's, and their ratio."""
    with errors_as_messages():
        from bdkn_paper import paper
        from bdkn_paper.analysis.results import check_experiment
        from bdkn_paper.analysis.runtimes import machine
        from bdkn_paper.store import records
        from bdkn_paper.tables.comparison import RUNTIME, runtimes_with_totals

        found = records(source, tell)
        present = {record["cell"]["experiment"] for record in found}
        chosen = [number for name, number in paper.EXPERIMENTS.items() if name in present and setting in (None, number)]
        if not chosen:
            check_experiment(found, f"setting{setting or 1}")
        tables = [runtimes_with_totals(found, number) for number in chosen]
        _print_tables(tables, form, (RUNTIME, f"Machine: {machine(found)}."))


def figures(
    out: Annotated[Path, typer.Option(help="Folder of the figures.")] = Path("docs/images"),
    source: SourceOption = RESULTS,
) -> None:
    """Draw the paper's figures 2 and 3 as PNG, SVG and PDF."""
    with errors_as_messages():
        from bdkn.report.page import prepare_folder
        from bdkn_paper.pages.reproduction import write_figures
        from bdkn_paper.store import records

        for path in write_figures(records(source, tell), prepare_folder(out)):
            echo(str(path))


def reproduction(
    out: Annotated[Path, typer.Option(help="The page.")] = Path("docs/reproduction.md"),
    notes: Annotated[Path, typer.Option(help="Notes on scores that miss, TOML.")] = Path(
        "reproduction/miss_notes.toml"
    ),
    source: SourceOption = RESULTS,
) -> None:
    """Write the page that compares all tables and figures with the paper's, and the figures into images/ beside it."""
    with errors_as_messages():
        from bdkn_paper.pages.reproduction import write_reproduction
        from bdkn_paper.store import records

        echo(str(write_reproduction(records(source, tell), notes, out, source)))


def results(
    out: Annotated[Path, typer.Option(help="The page.")] = Path("docs/results.md"), source: SourceOption = RESULTS
) -> None:
    """Write the page that compares the defaults with the paper, the literature and others, its figure, outside.md."""
    with errors_as_messages():
        from bdkn_paper.analysis.outside import FILE, outside_results, read_outside
        from bdkn_paper.pages.results import write_results
        from bdkn_paper.store import records

        echo(str(write_results(records(source, tell), out, outside_results(read_outside(source / FILE)))))


def _results(experiment: str, source: Path) -> Results:
    """Return the records of an experiment; if its file is given, only those of the cells that it has now."""
    from bdkn_paper.analysis.results import check_experiment, gather
    from bdkn_paper.experiments import load_experiment
    from bdkn_paper.store import Cell, records

    found = records(source, tell)
    if experiment.endswith(".toml"):
        file = load_experiment(experiment)
        keys = {cell.key for cell in file.cells(file.source())}
        found, experiment = [record for record in found if Cell.of(record).key in keys], file.name
    check_experiment(found, experiment)
    return gather(found, experiment)


def _print_grid(grid: Grid) -> None:
    from bdkn_paper.tables.formats import grid_table

    styles = {"best": "bold", "second": "underline", "": ""}
    console = _console()

    def style(row: int, column: int) -> str:
        return styles[grid.entries[row][column - 1].mark] if column else ""

    table = grid_table(grid)
    print_table(console, table.title, table.columns, table.rows, style=style)
    legend = ["Bold: best; underlined: second best."] if console.is_terminal else []
    console.print(*legend, *map(printable, grid.notes), sep="\n", markup=False, soft_wrap=True)


def _print_tables(tables: Iterable[Table], form: str, notes: Iterable[str]) -> None:
    from bdkn.errors import check_choice
    from bdkn_paper.analysis.markdown import to_markdown
    from bdkn_paper.tables.formats import FORMATS, to_csv, to_latex

    check_choice("--format", form, FORMATS)
    if form != "text":
        shape = {"markdown": to_markdown, "latex": to_latex, "csv": to_csv}[form]
        typer.echo("\n".join(map(shape, tables)), nl=False)
        return
    console = _console()
    for table in tables:
        print_table(console, table.title, table.columns, table.rows)
    console.print(*map(printable, notes), sep="\n", markup=False, soft_wrap=True)


def _console() -> Console:
    """Return a console that is wide enough for a table, unless it is a terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)
