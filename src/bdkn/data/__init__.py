"""The eleven regression sets of the paper: what is known of each, where it comes from, how it is split."""

from bdkn.data.access import load_dataset, split, splits
from bdkn.data.dataset import Dataset, DatasetInfo
from bdkn.data.download import fetch
from bdkn.data.errors import DataError
from bdkn.data.fingerprint import Fingerprint
from bdkn.data.folder import data_folder, find
from bdkn.data.registry import DATASETS, dataset_info
from bdkn.data.source import Source
from bdkn.data.split_rules import ByPosition, Sampled, Shuffled, Split, SplitRule
from bdkn.data.statistics import DatasetStatistics, describe

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
