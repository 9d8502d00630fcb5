"""The command ``bdkn``, one file per verb. A verb imports what it needs when it runs, so that help is shown at once."""

from __future__ import annotations

from typing import Annotated

import typer

from bdkn.cli import compare, demo, evaluate, explain, fit, inspect, predict, report, update
from bdkn.cli.terminal import errors_as_messages

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)
for _verb in (
    fit.fit,
    predict.predict,
    evaluate.evaluate,
    report.report,
    explain.explain,
    inspect.inspect,
    update.update,
    compare.compare,
    demo.demo,
):
    app.command()(errors_as_messages()(_verb))


def _print_version(is_given: bool) -> None:
    if is_given:
        import bdkn

        typer.echo(f"bdkn {bdkn.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Regression with honest uncertainty, for any table: fit, predict, evaluate, explain, update."""
