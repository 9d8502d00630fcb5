"""Experiments as files, run cell by cell, and the records they leave."""

from bdkn.bench.cell import Cell
from bdkn.bench.experiment import Experiment, Method, load_experiment, parse_experiment
from bdkn.bench.pack import pack, unpack
from bdkn.bench.reader import record_folder, records
from bdkn.bench.record import Record
from bdkn.bench.runner import Outcome, cost, pending, run_cells
from bdkn.bench.sources import DataSource, Task, TaskSource
from bdkn.bench.store import Store

__all__ = [
    "Cell",
    "DataSource",
    "Experiment",
    "Method",
    "Outcome",
    "Record",
    "Store",
    "Task",
    "TaskSource",
    "cost",
    "load_experiment",
    "pack",
    "parse_experiment",
    "pending",
    "record_folder",
    "records",
    "run_cells",
    "unpack",
]
