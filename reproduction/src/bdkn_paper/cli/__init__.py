"""The command ``bdkn-paper``; a command imports what it needs when it runs, so that help appears at once."""

from __future__ import annotations

from typing import Annotated

import typer

from bdkn_paper.cli import data, run, show

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)
for command in (
    run.run,
    run.pack,
    run.unpack,
    show.table,
    show.compare,
    show.runtime,
    show.figures,
    show.reproduction,
    show.results,
):
    app.command()(command)
app.add_typer(data.app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"bdkn-paper {version('bdkn-paper')}, bdkn {version('bdkn')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the versions and exit.")
    ] = False,
) -> None:
    """Run the experiments of the paper on Bayesian deep kernel networks, and write the pages about them."""
