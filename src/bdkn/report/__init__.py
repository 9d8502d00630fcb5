"""Reports as HTML pages about one model, with the model in them."""

from __future__ import annotations

from bdkn.report.page import Page, make_page, prepare_folder, write_page

__all__ = ["Page", "make_page", "prepare_folder", "write_page"]
