"""Compare ensembles whose members see the inputs as they are or through piecewise-linear encodings.

    pip install -e '.[bench]' -e reproduction
    BDKN_DATA=... python benchmarks/column_encodings.py [--workers N] [--only NAME ...] [--write]

Of every set, 85 % of the rows are fitted to and 15 % are scored, in units of the standard deviation of the target. The
sets are the development sets and the training rows of the first split of the nine benchmark sets, whose test rows are
not used. For each number of bins (0: inputs as they are) the members of one ensemble are trained; then parts of these
ensembles are combined as a fit combines its members. ``--write`` writes the scores to benchmarks/records/encodings.json
and the table to benchmarks/records/encodings.md; sets that are in the file are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn.data.folds import FoldPlan, Splitting
from bdkn.data.rows import Rows
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.ensemble.networks import predict_held_out
from bdkn.ensemble.selection import CombinationOptions, HeldOut, select_and_combine
from bdkn.inference import Forecast
from bdkn.networks import NetworkSettings
from development_sets import BENCHMARK, LARGER, SMALL, training_rows

RECORDS = Path(__file__).parent / "records"
MAX_ROWS = {"kin8nm": 3500, "naval": 3500, "protein": 9000}
FEW_ROWS = 4000
DECAYS = (0.0, 0.3, 0.0, 1.0, 0.0, 0.3)
"""Of the pairs of members 1 and 2, 3 and 4, ..: silu and relu alternate."""

Part = tuple[int, list[int]]
"""A number of bins, and numbers of members."""

_FIRST, _MIXED = list(range(6)), [0, 1, 2, 3, 6, 7]

FEW: dict[str, list[Part]] = {
    "12 without bins (before)": [(0, list(range(12)))],
    "12 with 8 bins": [(8, list(range(12)))],
    "6 without, 6 with 4 bins": [(0, _FIRST), (4, _FIRST)],
    "6 without, 6 with 8 bins": [(0, _FIRST), (8, _FIRST)],
    "6 without, 6 with 16 bins": [(0, _FIRST), (16, _FIRST)],
    "6 without, 2 each with 4 and 16 bins": [(0, _MIXED), (4, [0, 1]), (16, [0, 1])],
    "6 without, 2 with 4, 2 with 8, 1 with 16 bins (default)": [(0, _MIXED), (4, [0, 1]), (8, [4, 5]), (16, [0])],
    "6 without, 2 each with 4, 8 and 16 bins": [(0, _MIXED), (4, [0, 1]), (8, [4, 5]), (16, [0, 1])],
}
MANY: dict[str, list[Part]] = {
    "6 without bins (before)": [(0, _FIRST)],
    "6 with 16 bins": [(16, _FIRST)],
    "3 without, 3 with 16 bins": [(0, [0, 1, 2]), (16, [0, 1, 4])],
    "4 without, 2 with 16 bins": [(0, [0, 1, 2, 3]), (16, [0, 1])],
    "6 without, 2 with 16 bins (default)": [(0, _FIRST), (16, [0, 1])],
    "6 without, 2 with 32 bins": [(0, _FIRST), (32, [0, 1])],
}
"""Ensembles that are compared, for few and for many rows."""


def sets(only: list[str]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the name, inputs and target of each set."""
    for name, make in {**SMALL, **LARGER}.items():
        if not only or name in only:
            yield name, *make()
    for name in BENCHMARK:
        if not only or name in only:
            yield name, *training_rows(name, MAX_ROWS.get(name))


def members(X: np.ndarray, y: np.ndarray, new: np.ndarray, n_bins: int) -> dict[str, np.ndarray]:
    """Return what the members with so many bins predict for held-out rows and for new ones, in scaled units."""
    few = len(y) <= FEW_ROWS
    model = bdkn.BDKNRegressor(random_state=0, n_jobs=1, n_bins=n_bins, n_members=12 if few else 6, weight_decay=DECAYS)
    settings = NetworkSettings.of(model)
    inputs = Standardizer.fit(Rows(X, y))
    rows = Rows(inputs.transform(X), TargetScaler.fit(y).transform(y))
    plan = FoldPlan.of(
        model, Splitting(rows, np.arange(len(rows))), 1000 + n_bins, range(settings.size(len(y)).n_members)
    )
    began = time.process_time()
    networks = settings.train(rows, plan.seeds, plan.members, plan.rows).networks
    took = time.process_time() - began
    held_out, by_fold = predict_held_out(networks, rows, plan), (-1, len(plan.names), len(new))
    outputs = networks.outputs(inputs.transform(new))
    means, variances = (np.asarray(part).reshape(by_fold).swapaxes(1, 2) for part in outputs)
    found = {"means": held_out.means, "variances": held_out.variances, "fold_variance": held_out.fold_variance}
    return {**found, "y": held_out.y, "new_means": means, "new_variances": variances, "seconds": np.array(took)}


def scores(trained: dict[int, dict[str, np.ndarray]], parts: list[Part], y: np.ndarray) -> dict[str, float]:
    """Return the scores of the ensemble with these members on new rows with targets y."""

    def joined(name: str) -> np.ndarray:
        return np.concatenate([trained[bins][name].take(numbers, axis=-1) for bins, numbers in parts], axis=-1)

    held_out = HeldOut(joined("means"), joined("variances"), joined("fold_variance"), trained[parts[0][0]]["y"])
    settings = CombinationOptions()
    used, combination = select_and_combine(held_out, np.arange(held_out.means.shape[1]), settings)
    dist = combination.predictive(Forecast.of(joined("new_means")[..., used], joined("new_variances")[..., used]))
    seconds = sum(float(trained[bins]["seconds"]) * len(some) / trained[bins]["means"].shape[1] for bins, some in parts)
    plain = {"nll": bdkn.nll(y, dist), "rmse": bdkn.rmse(y, dist), "crps": bdkn.crps(y, dist)}
    return {**plain, "coverage_90": bdkn.coverage(y, dist, 0.9), "score": combination.score, "seconds": seconds}


def run(name: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the scores of all ensembles on one set."""
    warnings.simplefilter("ignore")
    train, test = np.split(np.random.default_rng(0).permutation(len(y)), [int(0.85 * len(y))])
    centre, unit = y[train].mean(), y[train].std()
    ensembles = FEW if len(train) <= FEW_ROWS else MANY
    kinds = sorted({bins for parts in ensembles.values() for bins, _ in parts})
    trained = {bins: members(X[train], y[train], X[test], bins) for bins in kinds}
    target = (y[test] - centre) / unit
    return {"set": name, "n": len(train), **{name: scores(trained, parts, target) for name, parts in ensembles.items()}}


def lines(records: list[dict[str, Any]]) -> list[str]:
    """Return the tables for few and for many rows."""
    found = [
        (__doc__ or "").partition("\n")[0],
        "",
        "Differences from the ensemble without bins; ± standard error.",
        "",
    ]
    for title, ensembles in (("Up to 4000 rows", FEW), ("More than 4000 rows", MANY)):
        first = next(iter(ensembles))
        of = [record for record in records if first in record]
        found += [f"**{title}** ({len(of)} sets)", "", "| members | NLL | RMSE | CRPS |", "|---|---|---|---|"]
        for name in ensembles:
            nll = np.array([record[name]["nll"] - record[first]["nll"] for record in of])
            ratio = {
                key: np.mean([np.log(record[name][key] / record[first][key]) for record in of])
                for key in ("rmse", "crps")
            }
            error = nll.std(ddof=1) / np.sqrt(len(nll)) if len(nll) > 1 else np.nan
            found.append(
                f"| {name} | {nll.mean():+.3f} ± {error:.3f} | {np.expm1(ratio['rmse']):+.1%} | "
                f"{np.expm1(ratio['crps']):+.1%} |"
            )
        found.append("")
    return found


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    path = RECORDS / "encodings.json"
    records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    known = {record["set"] for record in records}
    with ProcessPoolExecutor(given.workers) as pool:
        waiting = [pool.submit(run, *each) for each in sets(given.only) if each[0] not in known]
        for done in waiting:
            records.append(done.result())
            if given.write:
                path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    text = "\n".join(lines(records))
    print(text)
    if given.write:
        (RECORDS / "encodings.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
