"""``bdkn report``: one page, to look at and to send, about a model and its predictions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bdkn.cli.evaluate import labelled_for
from bdkn.cli.model_files import load_model, target_of
from bdkn.cli.terminal import AsJson, Data, KnownTarget, Model, Quiet, Screen, errors_as_messages

HELP = """Write one HTML page about a model: how good and how calibrated it is, what drives it, where it does not know.

The page needs no network and no other file. The rows should be new to the model.

Example:

    bdkn report flats.bdkn sold.csv --target price --out flats.html
"""


def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Page to write, .html.", show_default=False)],
    target: KnownTarget = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page about a model."""
    with errors_as_messages():
        from bdkn.errors import require
        from bdkn.table_files import check_output

        require("matplotlib", "jinja2", extra="report")
        screen = Screen(json=as_json, quiet=quiet)
        check_page(out)
        check_output(out, model, data)
        fitted = load_model(model)
        name = target_of(fitted, target)
        rows = labelled_for(fitted, data, name, screen)
        screen.progress(f"Writing the page about {len(rows):,} rows of {data}")
        with screen.noting_warnings():
            page_writer()(fitted, rows.X, rows.y, out, title=title, target_name=name)
        screen.say(f"Page: {out}")
        screen.finish({"page": str(out), "rows": len(rows)})


def page_writer() -> Callable[..., None]:
    """Return the function that writes a page."""
    from bdkn import report as pages
    from bdkn.errors import InvalidParameterError

    write: Callable[..., None] | None = getattr(pages, "write_page", None)
    if write is None:
        raise InvalidParameterError("this version of bdkn writes no pages; run: pip install --upgrade bdkn")
    return write


def check_page(path: Path) -> None:
    """Raise unless the name of a page ends in .html."""
    from bdkn.errors import check_choice

    check_choice("the ending of --out", path.suffix.lower(), (".html", ".htm"))
