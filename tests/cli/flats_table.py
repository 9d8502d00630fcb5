"""A small table of made-up flats with columns of every kind."""

import numpy as np
import pandas as pd


def mixed_table(n=120, seed=0):
    """Return a table with an identifier, numbers with gaps, categories, dates and true/false."""
    rng = np.random.default_rng(seed)
    area, district = rng.uniform(20, 150, n).round(1), rng.choice(["north", "south", "east"], n)
    frame = pd.DataFrame(
        {
            "id": [f"{i:05d}" for i in range(n)],
            "area": area,
            "district": district,
            "rooms": rng.integers(1, 6, n),
            "lift": rng.choice([True, False], n),
            "built": pd.date_range("1950-01-01", periods=n, freq="90D")[rng.permutation(n)],
        }
    )
    frame["price"] = (3 * area + 40 * (district == "south") + rng.normal(0, 10, n)).round(2)
    frame.loc[3, "price"] = np.nan
    frame.loc[[5, 7], "area"] = np.nan
    frame.loc[9, "district"] = None
    return frame
