"""The command ``bdkn``, one file a verb; what a verb needs is imported when it runs, so that help comes at once."""

from __future__ import annotations

from typing import Annotated

import typer

from bdkn.cli import demo

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)
app.command()(demo.demo)


def _tell_version(wanted: bool) -> None:
    if wanted:
        import bdkn

        typer.echo(f"bdkn {bdkn.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Regression with honest uncertainty: Bayesian deep kernel networks."""
