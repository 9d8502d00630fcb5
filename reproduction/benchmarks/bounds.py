"""Measure the time of a training step of VBLL and MFVI, with our explicit formula of the bound and with the libraries'.

    python reproduction/benchmarks/bounds.py [--repeats 9] [--write]

Networks of (50, 50), nine inputs, batches of 32, one thread; a step is loss, gradient, clipping where VBLL clips, and
Adam. The two are timed in turn, so that other work on the machine slows both; the ratio is the median over repeats,
with its minimum and maximum. Pyro's own checks are off. ``--write`` writes the times to
reproduction/results/bounds.json and the table to reproduction/results/bounds.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import torch
from pyro.infer import Trace_ELBO

from bdkn.data.rows import Rows
from bdkn.environment import describe_machine
from bdkn_paper.baselines.feature_map import FeatureMap
from bdkn_paper.baselines.learners.descent import descend
from bdkn_paper.baselines.learners.features import TorchFeatures
from bdkn_paper.baselines.learners.mean_field import MeanFieldLearner
from bdkn_paper.baselines.learners.variational_last_layer import LastLayerLearner
from bdkn_paper.baselines.plan import Plan

RESULTS = Path(__file__).parent.parent / "results"
ROWS, BATCH = 3200, 32
QUIET = ("module_local_params", "validate_distributions_pyro", "validate_distributions_torch", "validate_infer")
LIKE, SEED = torch.empty(0), np.random.SeedSequence(0)


class PackagesLastLayer(LastLayerLearner):
    """Learner of VBLL with the loss of its package."""

    def losses(self) -> Iterator[torch.Tensor]:
        """Yield the loss of each batch."""
        for X, y in self.batches:
            yield self.head(self.features(X)).train_loss_fn(y[:, None])


class PyrosBound(MeanFieldLearner):
    """Learner of MFVI with the loss of Pyro."""

    def losses(self) -> Iterator[torch.Tensor]:
        """Yield the loss of each batch."""
        elbo = Trace_ELBO(self._n_particles, max_plate_nesting=0, vectorize_particles=self._n_particles > 1)
        with pyro.settings.context(**{name: name == QUIET[0] for name in QUIET}, validate_poutine=False):
            for X, y in self.batches:
                yield elbo.differentiable_loss(self.model, self.guide, X, y) / len(self.batches)


def rows() -> Rows:
    """Return synthetic rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 9))
    return Rows(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=ROWS))


def last_layer(kind: type[LastLayerLearner]) -> LastLayerLearner:
    """Return a new learner of VBLL."""
    start = FeatureMap.draw((9, 50, 50), "relu", np.random.default_rng(0))
    prior = {"prior_variance": 1.0, "wishart_scale": 0.01, "dof": 1.0, "initial_noise": 1.0}
    shape = {"n_features": 50, "batch_size": BATCH, "parameterization": "dense"}
    return kind(rows(), None, TorchFeatures(start, LIKE), LIKE, SEED, **shape, **prior)  # type: ignore[arg-type]


def mean_field(kind: type[MeanFieldLearner], n_particles: int) -> MeanFieldLearner:
    """Return a new learner of MFVI."""
    start = FeatureMap.draw((9, 50, 50, 1), "leaky_relu", np.random.default_rng(0), linear_last=True)
    scales: dict[str, Any] = {"prior_scale": 4.0, "initial_scale": 0.01, "n_samples": 1}
    return kind(rows(), None, start, LIKE, SEED, batch_size=BATCH, n_particles=n_particles, **scales)


def step_ms(learner: Any, clip: float | None) -> float:
    """Return the mean time of a step of one epoch, in milliseconds."""
    begin = time.perf_counter()
    descend(learner, Plan(learning_rate=1e-3, epochs=1, clip=clip))
    return (time.perf_counter() - begin) / (ROWS / BATCH) * 1e3


def main() -> None:
    """Measure, print and, with ``--write``, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pairs: dict[str, tuple[Any, Any, float | None]] = {
        "VBLL": (last_layer(LastLayerLearner), last_layer(PackagesLastLayer), 1.0),
        "MFVI, one draw": (mean_field(MeanFieldLearner, 1), mean_field(PyrosBound, 1), None),
        "MFVI, five draws": (mean_field(MeanFieldLearner, 5), mean_field(PyrosBound, 5), None),
    }
    found = {}
    for name, (ours, theirs, clip) in pairs.items():
        step_ms(ours, clip), step_ms(theirs, clip)
        found[name] = [(step_ms(ours, clip), step_ms(theirs, clip)) for _ in range(given.repeats)]
    lines = ["| step, ms | written out | library's | library's / written out |", "| :-- | --: | --: | --: |"]
    for name, times in found.items():
        ours, theirs = np.median(times, axis=0)
        ratios = [b / a for a, b in times]
        spread = f"{np.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        lines.append(f"| {name} | {ours:.2f} | {theirs:.2f} | {spread} |")
    print("\n".join(lines))
    if given.write:
        record = {"machine": describe_machine(), "milliseconds": found}
        (RESULTS / "bounds.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        text = "`python reproduction/benchmarks/bounds.py --write`: medians over repeats, ratios with extremes.\n\n"
        text += f"Machine: {record['machine']}\n\n"
        (RESULTS / "bounds.md").write_text(text + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
