"""The numbers that the paper and the literature print."""

from bdkn_paper.paper.printed import (
    DATASETS,
    EXPERIMENTS,
    METHODS,
    METRICS,
    UNIT,
    DatasetLine,
    Printed,
    datasets,
    runtimes,
    scores,
    stem_and_number,
)

__all__ = [
    "DATASETS",
    "EXPERIMENTS",
    "METHODS",
    "METRICS",
    "UNIT",
    "DatasetLine",
    "Printed",
    "datasets",
    "runtimes",
    "scores",
    "stem_and_number",
]
