"""Load data sets and their splits by name."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from bdkn.errors import check_number
from bdkn_paper.data import folder as folders
from bdkn_paper.data.dataset import Dataset, DatasetInfo
from bdkn_paper.data.download import fetch
from bdkn_paper.data.errors import DataError
from bdkn_paper.data.registry import dataset_info
from bdkn_paper.data.split_rules import Split


def load_dataset(name: str, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Return a data set, checked against its fingerprint.

    It is read from ``folder``, otherwise from the folder in the environment variable BDKN_DATA, otherwise from the
    user's cache, into which it is downloaded if necessary. A folder given by the user is never written to.
    """
    info = dataset_info(name)
    path = folders.find(info, folder)
    if path is None:
        if (named := folders.named_folder(folder)) is not None:
            raise DataError(_absent(info, named))
        path = fetch(name)
    table = folders.read(path)
    why = info.mismatch(table)
    if why is not None:
        raise DataError(f"{path} is not the table {name}: {why}; to replace it, run: {_command(info, path.parent)}")
    return Dataset(name, table[:, :-1].copy(), table[:, -1].copy(), info.feature_names, info.target, info)


def splits(name: str) -> tuple[Split, ...]:
    """Return all splits of a data set as row numbers; the data need not be present."""
    return tuple(dataset_info(name).split_rule.draw())


def split(name: str, k: int) -> Split:
    """Return split ``k``, numbered from 0."""
    rule = dataset_info(name).split_rule
    check_number("k", k, low=0, high=rule.n_splits - 1, whole=True)
    return next(islice(rule.draw(), k, None))


def _absent(info: DatasetInfo, folder: Path) -> str:
    there = ", ".join(sorted(path.name for path in folder.glob("*.csv.gz"))) or "no csv.gz file"
    state = f"it holds {there}" if folder.is_dir() else "there is no such folder"
    return (
        f"{info.name} needs {info.filename} in {folder}, but {state}; to download it there, run: "
        f"{_command(info, folder)}; or name another folder by --data or {folders.VARIABLE}"
    )


def _command(info: DatasetInfo, folder: Path) -> str:
    return f"bdkn-paper data fetch {info.name} --data {folder}"
