"""What goes wrong with data."""

from __future__ import annotations

from bdkn.errors import BDKNError


class DataError(BDKNError, ValueError):
    """A data set is absent, cannot be fetched or read, or is another table. The message says what to do."""
