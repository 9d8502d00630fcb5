"""The command ``bdkn``, one file per verb. A verb imports what it needs when it runs, so that help is shown at once."""

from __future__ import annotations

from typing import Annotated

import typer

from bdkn.cli import demo, fit, predict

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)
app.command(help=fit.HELP)(fit.fit)
app.command(help=predict.HELP)(predict.predict)
app.command()(demo.demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        import bdkn

        typer.echo(f"bdkn {bdkn.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Regression with honest uncertainty, for any table: learn, predict, judge, explain, keep up to date."""
