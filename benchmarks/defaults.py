"""Measure the effect of each part of the default: ``BDKNRegressor()`` with one change, on sets of no benchmark.

    pip install -e '.[bench]'
    python benchmarks/defaults.py [--larger] [--only NAME ...] [--write]

Every set is split twice into 85 % training rows and 15 % test rows, with targets in units of their standard deviation.
Scores of a variant are compared with those of the default set by set; ± is the standard error over sets. Times are not
compared, as they depend on other work on the machine. ``--write`` writes the scores to
benchmarks/records/defaults.json, and the table to benchmarks/records/defaults.md; variants that are in the file already
are not run again.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import bdkn
from bdkn import CombinationOptions, TrainingOptions
from variants import Found, Scores, page_head, run_variants, splits

PLAIN = {"activation": "silu", "weight_decay": 0.0}

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "design: in-sample, as in the paper": {"design": "in-sample"},
    "design: hold-out": {"design": "hold-out"},
    "prediction by members refitted on all rows": {"predict_with": "refit"},
    "τ = 0, constant noise": {"combination": CombinationOptions(tempering=0.0)},
    "τ = 1, the members' variances": {"combination": CombinationOptions(tempering=1.0)},
    "the posterior's own tails": {"combination": CombinationOptions(tails="posterior")},
    "all members, none left out": {"combination": CombinationOptions(select_members=False)},
    "weights all but equal": {"combination": CombinationOptions(prior_variance=1e-10)},
    "six members": {"n_members": 6},
    "twenty-four members": {"n_members": 24},
    "silu only": {"activation": "silu"},
    "relu only": {"activation": "relu"},
    "silu, relu and tanh": {"activation": ("silu", "relu", "tanh")},
    "no weight decay": {"weight_decay": 0.0},
    "weight decay 1": {"weight_decay": 1.0},
    "silu without decay": PLAIN,
    "early stopping": {**PLAIN, "training": TrainingOptions(early_stopping=True)},
    "β-NLL": {"objective": "beta_nll"},
    "warm-up on squared error": {"training": TrainingOptions(warmup_epochs=100)},
    "constant rate 0.001": {"training": TrainingOptions(schedule="constant"), "learning_rate": 1e-3},
    "rate 0.01": {"learning_rate": 0.01},
    "250 epochs": {"epochs": 250},
    "hidden (100, 100)": {"hidden_layer_sizes": (100, 100)},
    "hidden (50, 50, 50)": {"hidden_layer_sizes": (50, 50, 50)},
    "hidden (100,)": {"hidden_layer_sizes": (100,)},
    "batches of 128": {"training": TrainingOptions(batch_size=128)},
    "ten folds": {"cv": 10},
}


def scores(parameters: dict[str, Any], X: np.ndarray, y: np.ndarray, count: int) -> list[Scores]:
    """Return the scores of every split."""
    found = []
    for number, (train, (rows, target)) in enumerate(splits(X, y, count)):
        began = time.perf_counter()
        model = bdkn.BDKNRegressor(random_state=number, **parameters).fit(*train)
        took, dist = time.perf_counter() - began, model.predict_dist(rows)
        covered = {f"coverage_{level}": bdkn.coverage(target, dist, level / 100) for level in (50, 90, 95)}
        plain = {"rmse": bdkn.rmse(target, dist), "nll": bdkn.nll(target, dist), "crps": bdkn.crps(target, dist)}
        found.append({**plain, **covered, "seconds": took})
    return found


def row(name: str, found: Found) -> str:
    """Return one row of the table."""
    mine, default = found[name], found["default"]
    sets = [each for each in mine if each in default]
    mean = {key: np.array([np.mean([s[key] for s in mine[each]]) for each in sets]) for key in mine[sets[0]][0]}
    base = {key: np.array([np.mean([s[key] for s in default[each]]) for each in sets]) for key in mean}
    steps = (
        np.log(mean["rmse"] / base["rmse"]),
        mean["nll"] - base["nll"],
        np.log(mean["crps"] / base["crps"]),
    )
    apart = [f"{d.mean():+.3f} ± {d.std(ddof=1) / np.sqrt(len(d)):.3f}" for d in steps]
    covered = " / ".join(f"{100 * mean[f'coverage_{level}'].mean():.1f}" for level in (50, 90, 95))
    return f"| {name} | {' | '.join(apart)} | {covered} |"


def page(records: dict[str, Any]) -> str:
    """Return the table of all variants."""
    head = "| variant | log RMSE | NLL | log CRPS | % covered by 50 / 90 / 95 % intervals |"
    lines = page_head("defaults", "What each part of the default is worth", __doc__ or "", records["machine"])
    for group, found in records["scores"].items():
        lines += ["", f"## {group}", "", head, "| --- | ---: | ---: | ---: | ---: |"]
        lines += [row(name, found) for name in found]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_variants("defaults", __doc__ or "", VARIANTS, scores, row, page)
