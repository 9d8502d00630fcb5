"""A source of a table: its addresses, and how to turn its files into features and target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bdkn.errors import MissingExtraError
from bdkn_paper.data import formats
from bdkn_paper.data.errors import DataError
from bdkn_paper.data.fingerprint import Table


@dataclass(frozen=True)
class Source:
    """One place to download a data set from.

    Parameters
    ----------
    urls : files to download; their rows are concatenated in this order.
    readers : functions from the bytes of each file to a table.
    columns : columns to use: the features in their order, then the target.
    member : the file inside each zip archive, if the files are archives.
    """

    urls: tuple[str, ...]
    readers: tuple[Callable[[bytes], Table], ...]
    columns: tuple[int, ...]
    member: str | None = None

    def table(self, contents: Sequence[bytes]) -> Table:
        """Return features and target, from the contents of all files."""
        parts = [self._part(read, content) for read, content in zip(self.readers, contents, strict=True)]
        return np.concatenate(parts)

    def _part(self, read: Callable[[bytes], Table], content: bytes) -> Table:
        if not content.strip():
            raise DataError("the downloaded file is empty")
        try:
            table = read(content if self.member is None else formats.unzip(content, self.member))
            if not len(table):
                raise ValueError("it holds no numbers")
            return table[:, self.columns]
        except (DataError, MissingExtraError):
            raise
        except Exception as error:  # Readers of other formats raise many kinds of errors.
            reason = f"{type(error).__name__}: {error}"
            raise DataError(f"the downloaded file cannot be read as the table ({reason})") from error
