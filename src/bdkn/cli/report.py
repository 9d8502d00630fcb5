"""The command ``bdkn report``, which writes an HTML report about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bdkn.cli.inputs import labelled_for, load_model
from bdkn.cli.terminal import AsJson, Data, KnownTarget, Model, Quiet, Screen
from bdkn.errors import check_choice, require


def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Page to write, .html.", show_default=False)],
    target: KnownTarget = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write an HTML report about a model: its errors, its calibration, what drives it, and where it is not certain.

    The report is one file that needs no network. The rows should be new to the model.

    Example:

        bdkn report flats.bdkn sold.csv --target price --out flats.html
    """
    require("matplotlib", "jinja2", extra="report")
    from bdkn.report import write_page
    from bdkn.table_files import check_output

    screen = Screen(json=as_json, quiet=quiet)
    check_choice("the ending of --out", out.suffix.lower(), (".html", ".htm"))
    check_output(out, model, data)
    fitted = load_model(model)
    name, rows = labelled_for(fitted, data, target, screen)
    screen.progress(f"Writing the page about {len(rows):,} rows of {data}")
    with screen.noting_warnings():
        write_page(fitted, rows.X, rows.y, out, title=title, target_name=name)
    screen.write(f"Page: {out}")
    screen.finish({"page": str(out), "rows": len(rows)})
