"""The page about a fitted regressor, which a package above this one makes."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from numpy.typing import ArrayLike


def report_on(model: Any, X: Any, y: ArrayLike, path: str | os.PathLike[str] | None, **options: Any) -> Any:
    """Return the page about a model by these rows, and write it to ``path``, if one is given."""
    pages = import_module("bdkn.report.page")  # it imports regressors itself
    if path is not None:
        pages.check_page_file(path)
    page = pages.make_page(model, X, y, **options)
    if path is not None:
        page.save(path)
    return page
