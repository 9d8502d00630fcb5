"""Conversion to data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bdkn.errors import missing_extra


def as_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pandas data frame."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise missing_extra("pandas", "frames") from error
    return DataFrame(columns)
