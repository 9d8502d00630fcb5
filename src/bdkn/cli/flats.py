"""A table of invented flats with columns of all kinds, for the demo: always the same for the same seed."""

from __future__ import annotations

from typing import Any

DISTRICTS = {
    "Harbour": 1.30,
    "Old Town": 1.45,
    "University": 1.20,
    "Station": 1.00,
    "Hillside": 1.15,
    "Riverbank": 1.10,
    "Mill Quarter": 0.90,
    "Airfield": 0.75,
}
"""Names of the districts, and what a square metre costs there in units of the average."""

HEATINGS = ("gas", "district heating", "heat pump", "oil")


def make_flats(n: int, seed: int = 0) -> Any:
    """Return n flats as a data frame; heating, year of renovation and distance are missing in some rows."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    district = rng.choice(list(DISTRICTS), n, p=np.array([9, 6, 14, 18, 12, 13, 16, 12]) / 100)
    rooms = rng.choice([1, 2, 3, 4, 5], n, p=[0.15, 0.3, 0.3, 0.18, 0.07])
    built = pd.Timestamp("1900-01-01") + pd.to_timedelta(rng.beta(2.0, 1.3, n) * 44_000, unit="D")
    frame = pd.DataFrame(
        {
            "id": [f"{number:06d}" for number in rng.permutation(10 * n)[:n]],
            "area": (18 + 19 * rooms + rng.gamma(4.0, 3.0, n)).round(1),
            "rooms": rooms,
            "floor": rng.integers(0, 9, n),
            "district": district,
            "street": [f"{name} {rng.integers(1, 16)}" for name in district],
            "distance": (rng.gamma(2.5, 1.4, n) / np.array([DISTRICTS[name] for name in district])).round(2),
            "built": built.normalize(),
            "heating": rng.choice(HEATINGS, n, p=[0.45, 0.25, 0.15, 0.15]),
            "lift": rng.random(n) < 0.4,
            "renovated": np.where(rng.random(n) < 0.45, rng.integers(1995, 2024, n), np.nan),
        }
    )
    frame["price"] = _prices(frame, rng)
    frame.loc[rng.random(n) < 0.08, "heating"] = None
    frame.loc[rng.random(n) < 0.05, "distance"] = np.nan
    return frame


def _prices(frame: Any, rng: Any) -> Any:
    """Return prices: by area, district, age, floor and heating, with noise that is larger for large, old flats."""
    import numpy as np

    age = 2024 - frame["built"].dt.year.to_numpy()
    known = frame["renovated"].to_numpy()
    wear = np.where(np.isnan(known), age, np.minimum(age, 2024 - np.nan_to_num(known, nan=1900.0) + 15))
    metre = 4200 * frame["district"].map(DISTRICTS).to_numpy() * (1.0 - 0.28 * np.tanh(wear / 60))
    metre *= 1 - 0.03 * frame["distance"].to_numpy()
    climb = np.where(frame["lift"], 0.012, -0.015) * frame["floor"].to_numpy()
    heating = frame["heating"].map({"gas": 0.0, "district heating": 0.02, "heat pump": 0.06, "oil": -0.05}).to_numpy()
    expected = frame["area"].to_numpy() * metre * (1 + climb + heating)
    spread = 0.05 + 0.05 * np.tanh(age / 80) + 0.02 * (frame["area"].to_numpy() > 90)
    return np.round(expected * np.exp(spread * rng.standard_t(6, len(frame))), -2)
