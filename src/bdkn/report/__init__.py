"""Reports as HTML pages about one model, with the model in them; tables as text and Markdown."""

from bdkn.report.constant import ConstantGaussian
from bdkn.report.files import check_picture, prepare_folder, write_picture
from bdkn.report.model_page import Page, make_page, write_page
from bdkn.report.tables import Table, to_markdown, to_text

__all__ = [
    "ConstantGaussian",
    "Page",
    "Table",
    "check_picture",
    "make_page",
    "prepare_folder",
    "to_markdown",
    "to_text",
    "write_page",
    "write_picture",
]
