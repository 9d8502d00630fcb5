"""Raw data frames with columns of several kinds: default calls against CatBoost, NGBoost and histogram boosting.

    python benchmarks/mixed_tables.py run [--sets diamonds mpg] [--methods BDKN CatBoost] [--development]
    python benchmarks/mixed_tables.py page

``run`` appends one line per fit to benchmarks/records/mixed_tables.ndjson and skips fits that are there already;
``page`` writes benchmarks/records/mixed_tables.md. Each table is split at random into 80 % training and 20 % test rows,
up to three times. BDKN and the stack are called without arguments on the raw frame. CatBoost (RMSEWithUncertainty) has
its own treatment of categories and missing values, and stops early on a tenth of the training rows, as NGBoost does.
NGBoost and histogram boosting are behind the usual encoders: one input per value of a category (up to 20 values, else
their number), missing numbers as the median (NGBoost) or as they are. For all three, dates are day numbers. Histogram
boosting predicts a mean, with the standard deviation of its errors on a tenth of the training rows. BDKN was run twice:
errors on one of these tables (rice) led to a change of how the logarithm of a target is continued, which was chosen on
other tables, and BDKN was then run again on all of them. The stack was run before that change.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bdkn import BayesianStackingRegressor, BDKNRegressor, Gaussian
from bdkn.data.encoder import CategoryColumn
from mixed_sets import DEVELOPMENT, EVALUATION

RECORDS = Path(__file__).parent / "records" / "mixed_tables.ndjson"
PAGE = RECORDS.with_suffix(".md")
SPLITS, LEVELS = 3, (0.5, 0.9, 0.95)
Predict = Callable[[Any], Any]


def text_columns(frame: Any) -> list[str]:
    """Return the columns that hold no numbers."""
    return [name for name in frame if frame[name].dtype.kind not in "biuf"]


def as_text(frame: Any) -> Any:
    """Return the frame with dates as day numbers, other columns that hold no numbers as text, "missing" if missing."""
    days = {name: frame[name].astype("int64") / 8.64e13 for name in frame if frame[name].dtype.kind == "M"}
    frame = frame.assign(**days)
    known = {name: frame[name].astype(object).where(frame[name].notna(), "missing") for name in text_columns(frame)}
    return frame.assign(**{name: column.astype(str) for name, column in known.items()})


def bdkn_with(**given: Any) -> Callable[[Any, np.ndarray], Predict]:
    """Return the fit of BDKN with categories encoded in one way."""

    def fit(frame: Any, y: np.ndarray) -> Predict:
        original = CategoryColumn.fit
        CategoryColumn.fit = partial(original, **given)  # type: ignore[method-assign]
        try:
            return BDKNRegressor(random_state=0).fit(frame, y).predict_dist
        finally:
            CategoryColumn.fit = original  # type: ignore[method-assign]

    return fit


def fit_catboost(frame: Any, y: np.ndarray) -> Predict:
    """Fit CatBoost's Gaussian with its own categories."""
    from catboost import CatBoostRegressor

    X, held = as_text(frame), held_out(len(y))
    names = text_columns(X)
    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty", cat_features=names, random_seed=0, thread_count=1, verbose=0,
        early_stopping_rounds=50, allow_writing_files=False,
    )  # fmt: skip
    model.fit(X[~held], y[~held], eval_set=(X[held], y[held]))

    def predict(rows: Any) -> Gaussian:
        mean, variance = model.predict(as_text(rows)).T
        return Gaussian(mean, np.sqrt(variance))

    return predict


def encoders(frame: Any, *, fill: bool) -> Any:
    """Return the usual encoders of a frame."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

    names = text_columns(frame)
    few = [name for name in names if frame[name].nunique() <= 20]
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    numbers = [name for name in frame if name not in names and frame[name].notna().any()]
    steps = [("few", hot, few), ("many", ordinal, [name for name in names if name not in few])]
    return ColumnTransformer(
        [*steps, ("numbers", SimpleImputer(strategy="median") if fill else "passthrough", numbers)]
    )


def fit_ngboost(frame: Any, y: np.ndarray) -> Predict:
    """Fit NGBoost, stopped early, behind encoders."""
    from ngboost import NGBRegressor

    X, held = as_text(frame), held_out(len(y))
    prepare = encoders(X, fill=True).fit(X)
    model = NGBRegressor(random_state=0, verbose=False)
    model.fit(prepare.transform(X[~held]), y[~held], prepare.transform(X[held]), y[held], early_stopping_rounds=50)

    def predict(rows: Any) -> Gaussian:
        found = model.pred_dist(prepare.transform(as_text(rows)))
        return Gaussian(np.asarray(found.loc), np.asarray(found.scale))

    return predict


def fit_boosting(frame: Any, y: np.ndarray) -> Predict:
    """Fit histogram boosting behind encoders."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, held = as_text(frame), held_out(len(y))
    prepare = encoders(X, fill=False).fit(X)
    model = HistGradientBoostingRegressor(random_state=0, early_stopping=True)
    model.fit(prepare.transform(X[~held]), y[~held])
    std = float(np.sqrt(np.mean((model.predict(prepare.transform(X[held])) - y[held]) ** 2)))

    def predict(rows: Any) -> Gaussian:
        mean = model.predict(prepare.transform(as_text(rows)))
        return Gaussian(mean, np.full(len(mean), std))

    return predict


METHODS: dict[str, Callable[[Any, np.ndarray], Predict]] = {
    "BDKN": lambda frame, y: BDKNRegressor(random_state=0).fit(frame, y).predict_dist,
    "stack": lambda frame, y: BayesianStackingRegressor(random_state=0, n_jobs=1).fit(frame, y).predict_dist,
    "CatBoost": fit_catboost,
    "NGBoost": fit_ngboost,
    "histogram boosting": fit_boosting,
}
VARIANTS: dict[str, Callable[[Any, np.ndarray], Predict]] = {
    "BDKN": METHODS["BDKN"],
    "indicators, up to 12": bdkn_with(targets=False),
    "indicators, up to 50": bdkn_with(one_hot=50, targets=False),
    "statistics, from 3 values": bdkn_with(one_hot=2, targets=None),
    "both, up to 12": bdkn_with(targets=True),
    "both, up to 50": bdkn_with(one_hot=50, targets=True),
    "CatBoost": fit_catboost,
}


def held_out(n: int) -> np.ndarray:
    """Return which tenth of the training rows is left out."""
    return np.random.default_rng(0).permutation(n) < n // 10


def evaluate(name: str, split: int, method: str, frame: Any, y: np.ndarray, fits: dict[str, Any]) -> dict[str, Any]:
    """Return the record of one fit."""
    order = np.random.default_rng(split + 1).permutation(len(y))
    train, test = order[: 4 * len(y) // 5], order[4 * len(y) // 5 :]
    began, cpu = time.perf_counter(), time.process_time()
    dist = fits[method](frame.iloc[train].reset_index(drop=True), y[train])(frame.iloc[test])
    seconds, target = time.perf_counter() - began, y[test]
    held = {}
    for level in LEVELS:
        low, high = dist.interval(level)
        held[f"coverage_{level}"] = float(np.mean((low <= target) & (target <= high)))
    return {
        "set": name, "split": split, "method": method, "rows": len(train), "columns": frame.shape[1],
        "nll": float(-np.mean(dist.logpdf(target))), "crps": float(np.mean(dist.crps(target))),
        "rmse": float(np.sqrt(np.mean((dist.mean() - target) ** 2))), "spread": float(np.std(target)), **held,
        "seconds": round(seconds, 2), "cpu": round(time.process_time() - cpu, 2),
    }  # fmt: skip


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def jobs(options: argparse.Namespace) -> Iterator[tuple[str, int, str, Any, np.ndarray]]:
    """Yield the fits that are not recorded yet."""
    done = {(r["set"], r["split"], r["method"]) for r in read(options.records)}
    sets, methods = (DEVELOPMENT, VARIANTS) if options.development else (EVALUATION, METHODS)
    for name in options.sets or sets:
        wanted = [(name, split, method) for split in range(options.splits) for method in options.methods or methods]
        missing = [job for job in wanted if job not in done]
        if missing:
            frame, y = sets[name]()
            yield from ((*job, frame, y) for job in missing)


def run(options: argparse.Namespace) -> None:
    """Run all fits that are not recorded yet."""
    warnings.simplefilter("ignore")
    fits = VARIANTS if options.development else METHODS
    with options.records.open("a", encoding="utf-8") as file:
        for job in jobs(options):
            record = evaluate(*job, fits)
            print(*(f"{record[key]}" for key in ("set", "split", "method", "nll", "rmse", "seconds")), flush=True)
            file.write(json.dumps(record) + "\n")
            file.flush()


def common(records: list[dict[str, Any]], methods: list[str]) -> list[dict[str, Any]]:
    """Return the records of these methods on the tables and splits that all of them have."""
    of_all = set.intersection(*({(r["set"], r["split"]) for r in records if r["method"] == m} for m in methods))
    return [r for r in records if r["method"] in methods and (r["set"], r["split"]) in of_all]


def ranks(records: list[dict[str, Any]], methods: list[str], score: str) -> list[float]:
    """Return the mean rank of each method over tables and splits, which all of them have."""
    rows: dict[tuple[str, int], dict[str, float]] = {}
    for r in records:
        rows.setdefault((r["set"], r["split"]), {})[r["method"]] = r[score]
    orders = [sorted(methods, key=row.__getitem__) for row in rows.values()]
    return [float(np.mean([order.index(m) + 1 for order in orders])) for m in methods]


def summary(records: list[dict[str, Any]], methods: list[str]) -> list[str]:
    """Return the lines of a table of mean ranks, relative errors, coverage and cost."""

    def means(value: Callable[[dict[str, Any]], float]) -> list[float]:
        return [float(np.mean([value(r) for r in records if r["method"] == m])) for m in methods]

    lines = ["| | " + " | ".join(methods) + " |", "| :-- |" + " --: |" * len(methods)]
    for title, score in (("mean rank, NLL", "nll"), ("mean rank, CRPS", "crps"), ("mean rank, RMSE", "rmse")):
        lines.append(f"| {title} | " + " | ".join(f"{rank:.2f}" for rank in ranks(records, methods, score)) + " |")
    relative = means(lambda r: r["rmse"] / r["spread"])
    lines.append("| RMSE in standard deviations | " + " | ".join(f"{value:.3f}" for value in relative) + " |")
    held = means(lambda r: 100 * r["coverage_0.9"])
    lines.append("| held by 90 % intervals | " + " | ".join(f"{value:.1f} %" for value in held) + " |")
    return [*lines, "| CPU seconds | " + " | ".join(f"{value:.1f}" for value in means(lambda r: r["cpu"])) + " |"]


def table(records: list[dict[str, Any]], methods: list[str], score: str, digits: int) -> list[str]:
    """Return the means over splits of one score, one line per table."""
    lines = [f"| table | {' | '.join(methods)} |", f"| :-- | {' | '.join('--:' for _ in methods)} |"]
    for name in EVALUATION:
        row = [
            np.mean([r[score] for r in records if (r["set"], r["method"]) == (name, m)] or [np.nan]) for m in methods
        ]
        best = np.nanmin(row)
        cells = [f"**{v:.{digits}f}**" if v == best else f"{v:.{digits}f}" for v in row]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def page(options: argparse.Namespace) -> None:
    """Write the page."""
    records = [r for r in read(options.records) if r["set"] in EVALUATION]
    everywhere = [m for m in METHODS if {r["set"] for r in records if r["method"] == m} == {*EVALUATION}]
    lines = ["# Tables with columns of several kinds", "", "Written by `python benchmarks/mixed_tables.py page`.", ""]
    lines += [(__doc__ or "").split("\n\n", 2)[2].replace("\n", " ").strip()]
    for methods in (everywhere, list(METHODS)):
        same = common(records, methods)
        tables = len({r["set"] for r in same})
        lines += ["", f"## {', '.join(methods)}: {tables} tables, {len(same) // len(methods)} splits", ""]
        lines += summary(same, methods)
    same = common(records, everywhere)
    for title, score, digits in (("NLL", "nll", 3), ("CRPS", "crps", 4), ("RMSE", "rmse", 4)):
        lines += ["", f"## {title}", "", *table(same, everywhere, score, digits)]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "page"))
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    run(options) if options.verb == "run" else page(options)


if __name__ == "__main__":
    main()
