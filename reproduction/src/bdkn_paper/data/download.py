"""Download a data set, check its numbers, and only then put it into the data folder."""

from __future__ import annotations

import os
import tempfile
import textwrap
from pathlib import Path

from bdkn.errors import BDKNError
from bdkn_paper.data import folder as folders
from bdkn_paper.data.dataset import DatasetInfo
from bdkn_paper.data.errors import DataError
from bdkn_paper.data.fingerprint import Table
from bdkn_paper.data.registry import dataset_info
from bdkn_paper.data.source import Source


def fetch(name: str, folder: str | os.PathLike[str] | None = None, *, again: bool = False) -> Path:
    """Return the file of a data set; download it unless a correct one is present, or if ``again``.

    Sources are tried in turn until one gives the table with the known fingerprint. Nothing else is ever left in
    ``folder``, by default the folder in BDKN_DATA, otherwise the user's cache.
    """
    info = dataset_info(name)
    path = folders.data_folder(folder) / info.filename
    if not again and _is_good(info, path):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    folders.write(path, _first_good_table(info, path))
    return path


def download(url: str) -> bytes:
    """Return the content of ``url``."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    with tempfile.TemporaryDirectory(prefix="bdkn-") as scratch:
        # No hash of the file: archives get repacked and mirrors differ. The numbers inside are checked instead.
        file = pooch.retrieve(url, known_hash=None, fname="download", path=scratch)
        return Path(file).read_bytes()


def _is_good(info: DatasetInfo, path: Path) -> bool:
    try:
        return path.is_file() and info.mismatch(folders.read(path)) is None
    except DataError:
        return False


def _first_good_table(info: DatasetInfo, path: Path) -> Table:
    failures = []
    for source in info.sources:
        try:
            return _good_table(info, source)
        except (BDKNError, OSError, ValueError) as error:
            reason = textwrap.shorten(f"{type(error).__name__}: {error}", 300)
            failures.append(f"  {' and '.join(source.urls)}\n    {reason}")
    tried = "\n".join(["tried:", *failures]) if failures else "no source is known"
    raise DataError(f"{info.name} could not be fetched; {tried}\n{_advice(info, path)}")


def _good_table(info: DatasetInfo, source: Source) -> Table:
    table = source.table([download(url) for url in source.urls])
    why = info.mismatch(table)
    if why is not None:
        raise DataError(f"the downloaded file is not the expected table: {why}")
    return table


def _advice(info: DatasetInfo, path: Path) -> str:
    return (
        f"What to do: make sure that one of these addresses can be reached and run: bdkn-paper data fetch {info.name}\n"
        f"or put the table yourself into {path}: gzipped CSV, header x0,...,x{info.features - 1},y, {info.rows} rows; "
        f"another folder can be set by --data or {folders.VARIABLE}"
    )
