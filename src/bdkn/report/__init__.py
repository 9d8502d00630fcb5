"""Reports as HTML pages about one model, with the model in them; tables in Markdown."""

from __future__ import annotations

from bdkn.report.evaluation import ConstantGaussian
from bdkn.report.page import Page, check_picture, make_page, prepare_folder, write_page, write_picture
from bdkn.report.tables import Table, to_markdown

__all__ = [
    "ConstantGaussian",
    "Page",
    "Table",
    "check_picture",
    "make_page",
    "prepare_folder",
    "to_markdown",
    "write_page",
    "write_picture",
]
