"""HTML reports about one model; a page can contain the model, to predict rows that the reader enters."""

from __future__ import annotations

from bdkn.report.page import Page, make_page, prepare_folder, write_page

__all__ = ["Page", "make_page", "prepare_folder", "write_page"]
