"""Measure the time of the aggregation step: statistics of N rows, evidence, posterior; and the predictive of N rows.

    python benchmarks/aggregation.py [--write]

One block of 100 000 rows is used repeatedly, so that 10⁷ rows fit into any memory; a fit processes rows in blocks, too.
Bandwidth is bytes of Φ per second, compared with reading one large array on one thread. ``--write`` writes the results
to benchmarks/records/aggregation.json and benchmarks/records/aggregation.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bdkn.environment import describe_machine
from bdkn.inference import Posterior, Prior, Statistics, choose_prior_variance, log_evidence, posterior

BLOCK = 100_000
SIZES = (10**4, 10**5, 10**6, 10**7)
RECORDS = Path(__file__).parent / "records"


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def read_bandwidth() -> float:
    """Return the bytes per second at which one thread reads an array far larger than its caches."""
    array = np.ones(50_000_000)
    return array.nbytes / seconds(array.sum, 5)


def members(rows: int, H: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the predictions of similar members, as in an ensemble, and targets."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(rows, 1))
    return truth + 0.1 * rng.normal(size=(rows, H)), truth[:, 0] + 0.2 * rng.normal(size=rows)


def small_part(stats: Statistics, H: int) -> Posterior:
    """Compute prior variance, posterior and evidence from the statistics."""
    post = posterior(stats, Prior.isotropic(H, choose_prior_variance(stats, "evidence")))
    log_evidence(stats, post)
    return post


def measure(N: int, H: int) -> dict[str, float]:
    """Return the times of one size."""
    Phi, y = members(min(N, BLOCK), H)
    chunks = [(Phi, y)] * max(1, N // BLOCK)
    repeats = 3 if N * H > 10**8 else 7
    stats = Statistics.from_chunks(chunks)
    post = small_part(stats, H)
    taken = seconds(lambda: Statistics.from_chunks(chunks), repeats)
    return {
        "N": N,
        "H": H,
        "statistics_s": taken,
        "ns_per_row": 1e9 * taken / N,
        "gb_per_s": 8e-9 * N * H / taken,
        "evidence_and_posterior_s": seconds(lambda: small_part(Statistics.from_rows(Phi[:H], y[:H]), H), 7),
        "predictive_ns_per_row": 1e9 * seconds(lambda: post.predictive(Phi), 5) / len(Phi),
    }


def table(record: dict[str, Any]) -> str:
    """Return the record as Markdown."""
    lines = [
        f"Machine: {record['machine']}",
        "",
        f"One thread reads memory at {record['read_gb_per_s']:.1f} GB/s.",
        "",
        "| N | H | statistics, s | ns per row | GB/s of Φ | share of read bandwidth | evidence and posterior, ms "
        "| predictive, ns per row |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in record["rows"]:
        share = row["gb_per_s"] / record["read_gb_per_s"]
        speed = f"{row['ns_per_row']:.0f} | {row['gb_per_s']:.2f} | {share:.0%}"
        rest = f"{1e3 * row['evidence_and_posterior_s']:.2f} | {row['predictive_ns_per_row']:.0f}"
        lines.append(f"| {row['N']:.0e} | {row['H']} | {row['statistics_s']:.4f} | {speed} | {rest} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and, with ``--write``, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/records/")
    write = parser.parse_args().write
    record = {
        "machine": describe_machine(),
        "read_gb_per_s": read_bandwidth() / 1e9,
        "rows": [measure(N, H) for H in (5, 50) for N in SIZES],
    }
    print(table(record))
    if write:
        (RECORDS / "aggregation.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        text = "# The aggregation step\n\n`python benchmarks/aggregation.py --write`\n\n" + table(record)
        (RECORDS / "aggregation.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
