"""Experiments: read from a file, expanded to cells, run cell by cell."""

from bdkn_paper.experiments.experiment import Experiment, Method, load_experiment, parse_experiment
from bdkn_paper.experiments.runner import Outcome, cost, pending, run_cells
from bdkn_paper.experiments.tasks import DataSource, Task, TaskSource

__all__ = [
    "DataSource",
    "Experiment",
    "Method",
    "Outcome",
    "Task",
    "TaskSource",
    "cost",
    "load_experiment",
    "parse_experiment",
    "pending",
    "run_cells",
]
