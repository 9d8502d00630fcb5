"""Write the made-up tables of the first steps: flats with prices, others sold later, and some whose price is not known.

The tables have columns of many kinds: numbers, a few and many categories, true/false, dates, and gaps.

Run it with ``python examples/make_flats.py [folder]``. It needs pandas.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

DISTRICTS = {"Harbour": 1.35, "Old town": 1.25, "Hill": 1.1, "Station": 0.95, "Mill": 0.85, "East": 0.75}
HEATING = {"gas": 0.0, "district": 0.03, "heat pump": 0.08, "oil": -0.06}


def flats(n, seed):
    """Return a table of ``n`` flats with their prices."""
    rng = np.random.default_rng(seed)
    size = np.round(rng.gamma(9, 8, n) + 18)
    district, heating = rng.choice([*DISTRICTS], n), rng.choice([*HEATING], n)
    year = rng.integers(1900, 2024, n)
    lift, day = rng.random(n) < 0.4, rng.integers(0, 900, n)
    level = 0.9 * np.log(size) + np.log([DISTRICTS[name] for name in district]) + [HEATING[name] for name in heating]
    level += 0.0025 * (year - 1960) * (year > 1960) + 0.05 * lift + 0.00015 * day
    noise = (0.08 + 0.1 * (year < 1950)) * rng.normal(size=n)
    table = pd.DataFrame(
        {
            "id": np.arange(1, n + 1) + 1000 * seed,
            "size": size,
            "rooms": np.clip(np.round(size / 24 + 0.5 * rng.normal(size=n)), 1, 8).astype(int),
            "district": district,
            "built": year,
            "heating": np.where(rng.random(n) < 0.12, None, heating),
            "lift": lift,
            "energy": np.where(
                rng.random(n) < 0.2, np.nan, np.round(250 - 1.5 * (year - 1900) + 30 * rng.normal(size=n))
            ),
            "sold": (np.datetime64("2024-01-01") + day).astype(str),
        }
    )
    return table.assign(price=np.round(np.exp(level + noise) * 5.6, 1))


def main(folder="examples/data"):
    """Write ``flats.csv``, ``sold.csv`` and ``new.csv``."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    flats(200, seed=0).to_csv(Path(folder) / "flats.csv", index=False)
    flats(80, seed=2).to_csv(Path(folder) / "sold.csv", index=False)
    flats(12, seed=1).drop(columns="price").to_csv(Path(folder) / "new.csv", index=False)


if __name__ == "__main__":
    main(*sys.argv[1:2])
