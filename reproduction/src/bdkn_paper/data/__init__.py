"""The eleven data sets of the paper: description, sources, download, checks and splits."""

from bdkn_paper.data.access import load_dataset, split, splits
from bdkn_paper.data.dataset import Dataset, DatasetInfo
from bdkn_paper.data.download import fetch
from bdkn_paper.data.errors import DataError
from bdkn_paper.data.fingerprint import Fingerprint
from bdkn_paper.data.folder import data_folder, find
from bdkn_paper.data.registry import DATASETS, dataset_info
from bdkn_paper.data.source import Source
from bdkn_paper.data.split_rules import ByPosition, Sampled, Shuffled, Split, SplitRule
from bdkn_paper.data.statistics import DatasetStatistics, describe

__all__ = [
    "DATASETS",
    "ByPosition",
    "DataError",
    "Dataset",
    "DatasetInfo",
    "DatasetStatistics",
    "Fingerprint",
    "Sampled",
    "Shuffled",
    "Source",
    "Split",
    "SplitRule",
    "data_folder",
    "dataset_info",
    "describe",
    "fetch",
    "find",
    "load_dataset",
    "split",
    "splits",
]
