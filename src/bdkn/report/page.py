"""The report as one HTML page, which contains its figures and needs no other file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bdkn.errors import require
from bdkn.report.document import Report


def render_page(report: Report, drawings: Mapping[str, str]) -> str:
    """Return the page; ``drawings`` contains the SVG text of each illustration, by its stem."""
    require("jinja2", extra="report")
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("bdkn.report", "templates")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    inline = {stem: Markup(inline_svg(text, stem)) for stem, text in drawings.items()}
    return pages.get_template("index.html").render(report=report, drawings=inline)


def inline_svg(text: str, stem: str) -> str:
    """Return an SVG file as an element of a page, its identifiers prefixed by ``stem`` to make them unique there."""
    element = text[text.index("<svg") :]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{stem}-", element)
