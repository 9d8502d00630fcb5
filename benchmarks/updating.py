"""Measure updates of a combination, and check the promises about its monitor and its guaranteed intervals.

    python benchmarks/updating.py [--write] [--rows 1000000] [--rounds 3]

Updates: rows a second of ``Absorbed`` once the members' outputs are known, clock and CPU seconds, the best of a few
rounds, on one BLAS thread. Monitor: share of calibrated streams with an alarm, and rows until a change is found.
Guarantee: coverage and width on new rows of many small tables, beside the intervals of the distribution.
``--write`` writes the numbers to benchmarks/records/updating.json and benchmarks/records/updating.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from bdkn import BayesianStackingRegressor
from bdkn.environment import describe_machine
from bdkn.inference import Absorbed, Forecast, combine
from bdkn.metrics.monitoring import Wealth

RECORDS = Path(__file__).parent / "records"
Record = dict[str, Any]


def forecast_of(rng: np.random.Generator, n: int, H: int) -> tuple[Forecast, np.ndarray[Any, Any]]:
    """Return what H members predict for rows, and targets."""
    truth = rng.normal(size=n)
    means = truth[:, None] + 0.3 * rng.normal(size=(n, H))
    return Forecast.of(means, rng.uniform(0.05, 0.2, size=(n, H))), truth + 0.2 * rng.normal(size=n)


def measure_updates(rows: int, rounds: int) -> list[Record]:
    """Return seconds and rows a second of absorbing, removing and merging rows."""
    records = []
    for H in (5, 11, 50):
        rng = np.random.default_rng(0)
        forecast, y = forecast_of(rng, 2000, H)
        state = Absorbed.start(combine(forecast, y), forecast, y)
        new, z = forecast_of(rng, rows, H)
        best, cpu = np.inf, np.inf
        for _ in range(rounds):
            start, used = time.perf_counter(), time.process_time()
            updated = state.add(state.statistics_of(new, z))
            updated.combination()
            best, cpu = min(best, time.perf_counter() - start), min(cpu, time.process_time() - used)
        told = state.statistics_of(new, z)
        start = time.perf_counter()
        for _ in range(20):
            state.add(told).combination()
        merge = (time.perf_counter() - start) / 20
        speed = {
            "rows_per_second": rows / best,
            "rows_per_cpu_second": rows / cpu,
            "milliseconds_per_merge": 1e3 * merge,
        }
        records.append({"members": H, "rows": rows, "seconds": best, "cpu_seconds": cpu, **speed})
    return records


def measure_monitor(streams: int = 200, rows: int = 3000) -> list[Record]:
    """Return the share of streams with an alarm, and the median number of rows from a change to the alarm."""
    records = []
    rng, threshold = np.random.default_rng(0), np.log(100.0)
    for name, change in CHANGES.items():
        alarms, delays = 0, []
        for _ in range(streams):
            z = rng.normal(size=rows)
            z[rows // 2 :] = change(z[rows // 2 :])
            over = Wealth(0.05).after(normal_cdf(z))[0] >= threshold
            alarms += bool(over.any())
            if over[rows // 2 :].any():
                delays.append(int(np.argmax(over[rows // 2 :])) + 1)
        delay = float(np.median(delays)) if delays and name != "none" else None
        records.append({"change": name, "streams": streams, "alarms": alarms / streams, "median_delay": delay})
    return records


CHANGES = {
    "none": lambda z: z,
    "targets 0.3 standard deviations higher": lambda z: z + 0.3,
    "targets 1 standard deviation higher": lambda z: z + 1.0,
    "errors 1.3 times as large": lambda z: 1.3 * z,
    "errors twice as large": lambda z: 2.0 * z,
    "errors half as large": lambda z: 0.5 * z,
}


def normal_cdf(z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return probabilities of the standard normal distribution."""
    from scipy.special import ndtr

    return np.asarray(ndtr(z))


def measure_guarantee(tables: int = 60, rows: int = 80) -> list[Record]:
    """Return coverage and mean width of both kinds of intervals on new rows of small tables with skewed noise."""
    found: dict[tuple[bool, float], list[tuple[float, float]]] = {}
    for seed in range(tables):
        X, y = skewed(rows, seed)
        new, z = skewed(400, 10_000 + seed)
        members = [("line", Ridge()), ("near", KNeighborsRegressor(7)), ("tree", DecisionTreeRegressor(max_depth=4))]
        model = BayesianStackingRegressor(members, density="student-t", target="identity", random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
            for guarantee in (False, True):
                for coverage in (0.8, 0.9):
                    low, high = model.predict_interval(new, coverage, guarantee=guarantee).T
                    score = float(np.mean((low <= z) & (z <= high))), float(np.mean(high - low))
                    found.setdefault((guarantee, coverage), []).append(score)
    return [
        {"guarantee": guarantee, "coverage": coverage, "tables": tables, "rows": rows,
         "observed": float(np.mean([share for share, _ in scores])), "width": float(np.mean([w for _, w in scores])),
         "standard_error": float(np.std([share for share, _ in scores]) / np.sqrt(tables))}
        for (guarantee, coverage), scores in found.items()
    ]  # fmt: skip


def skewed(n: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows and targets whose noise is skewed and grows with a column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] + (0.2 + 0.4 * (X[:, 2] > 0)) * (rng.exponential(size=n) - 1.0)


def written(record: Record) -> str:
    """Return the record as a page."""
    lines = ["# Models that live", "", f"`python benchmarks/updating.py --write`, {record['machine']}.", ""]
    lines += ["## Rows absorbed once members' outputs are known", ""]
    lines += ["| members | rows a second | rows a CPU second | ms a merge |", "| --- | --- | --- | --- |"]
    for row in record["updates"]:
        speed, cpu = row["rows_per_second"] / 1e6, row["rows_per_cpu_second"] / 1e6
        lines.append(
            f"| {row['members']} | {speed:.2f} million | {cpu:.2f} million | {row['milliseconds_per_merge']:.2f} |"
        )
    lines += ["", "On one thread; the clock is that of a shared machine.", "", "## Alarms of the monitor", ""]
    lines += ["`alpha=0.01`, `tolerance=0.05`; 3000 rows, a change after 1500.", ""]
    lines += ["| change | streams with an alarm | rows from the change to the alarm, median |", "| --- | --- | --- |"]
    for row in record["monitor"]:
        delay = "" if row["median_delay"] is None else f"{row['median_delay']:.0f}"
        lines.append(f"| {row['change']} | {row['alarms']:.1%} | {delay} |")
    lines += ["", "## Intervals on new rows", ""]
    first = record["guarantee"][0]
    lines += [f"{first['tables']} tables of {first['rows']} rows with skewed noise, three members of scikit-learn.", ""]
    lines += ["| intervals | nominal | observed | mean width |", "| --- | --- | --- | --- |"]
    for row in record["guarantee"]:
        kind = "guarantee=True" if row["guarantee"] else "of the distribution"
        observed = f"{row['observed']:.1%} ± {row['standard_error']:.1%}"
        lines.append(f"| {kind} | {row['coverage']:.0%} | {observed} | {row['width']:.2f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with threadpool_limits(1):
        record = {
            "machine": describe_machine(),
            "updates": measure_updates(options.rows, options.rounds),
            "monitor": measure_monitor(),
            "guarantee": measure_guarantee(),
        }
    text = written(record)
    print(text)
    if options.write:
        (RECORDS / "updating.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        (RECORDS / "updating.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
