"""The error raised for data sets."""

from __future__ import annotations

from bdkn.errors import BDKNError


class DataError(BDKNError, ValueError):
    """A data set is missing, cannot be downloaded or read, or is another table. The message says what to do."""
