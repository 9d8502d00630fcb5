"""The paper's Gaussian process as in GPyTorch's tutorials: beyond 800 rows neither the fit nor the variances are exact.

    BDKN_DATA=... python reproduction/benchmarks/gpytorch_defaults.py [--sets concrete kin8nm] [--splits 5]
        [--device cuda] [--write]

Setting 1: one length scale, standardised targets, 40 steps of Adam at rate 0.1. "Tutorial" is plain GPyTorch, which
beyond 800 rows trains by conjugate gradients, and predicts under ``fast_pred_var()``, as its tutorials do; "no fast
variances" is without the latter; "exact" has ``max_cholesky_size`` above the number of rows as well. ``GPRegressor`` is
always exact. ``--write`` keeps the scores in reproduction/results/gpytorch_defaults.json and the table in
reproduction/results/gpytorch_defaults.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import torch

import bdkn
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.environment import describe_machine
from bdkn.predictive import Gaussian
from bdkn_paper.data import load_dataset, split

RESULTS = Path(__file__).parent.parent / "results"
VARIANTS = {"tutorial": (800, True), "no fast variances": (800, False), "exact": (10**6, False)}
"""Up to how many rows a system is solved by Cholesky, 800 by default; and whether variances are the fast ones."""


class Model(gpytorch.models.ExactGP):
    """A constant mean and a scaled RBF kernel, as in GPyTorch's first tutorial."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor, likelihood: gpytorch.likelihoods.GaussianLikelihood) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Return the prior at ``x``."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def trained(X: torch.Tensor, y: torch.Tensor, largest: int) -> Model:
    """Return the process after 40 steps."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(X, y, likelihood).to(X.device).train()
    likelihood.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with gpytorch.settings.max_cholesky_size(largest):
        for _ in range(40):
            optimiser.zero_grad()
            loss = -evidence(model(X), y)
            loss.backward()
            optimiser.step()
    return model


def scores(name: str, k: int, variant: str, device: str) -> dict[str, float]:
    """Return the scores of one split, in the units of its target."""
    largest, fast = VARIANTS[variant]
    data, rows, began = load_dataset(name), split(name, k), time.perf_counter()
    inputs, targets = Standardizer.fit(data.X[rows.train]), TargetScaler.fit(data.y[rows.train])
    kind = {"dtype": torch.float32, "device": device}
    X, new = (torch.tensor(inputs.transform(data.X[part]), **kind) for part in (rows.train, rows.test))
    torch.manual_seed(k)
    model = trained(X, torch.tensor(targets.transform(data.y[rows.train]), **kind), largest)
    model.eval()
    model.likelihood.eval()
    with torch.no_grad(), gpytorch.settings.max_cholesky_size(largest), gpytorch.settings.fast_pred_var(fast):
        said = model.likelihood(model(new))
        dist = Gaussian(said.mean.double().numpy(force=True), said.stddev.double().numpy(force=True))
    dist = dist.affine(targets.scale, targets.mean)
    y = data.y[rows.test]
    return {"rmse": bdkn.rmse(y, dist), "nll": bdkn.nll(y, dist), "seconds": time.perf_counter() - began}


def page(records: dict[str, Any]) -> str:
    """Return the table."""
    lines = [
        "# What GPyTorch's defaults do to the paper's Gaussian process",
        "",
        "`python reproduction/benchmarks/gpytorch_defaults.py --write`. "
        + (__doc__ or "").split("\n\n")[2].replace("\n", " "),
        "",
        f"Machine: {records['machine']}",
        "",
        "| set | splits | | RMSE | NLL | seconds |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for name, found in records["scores"].items():
        for variant, splits in found.items():
            mean, std = ({m: f([s[m] for s in splits.values()]) for m in ("rmse", "nll", "seconds")} for f in _MOMENTS)
            told = " | ".join(f"{mean[metric]:.3f} ± {std[metric]:.3f}" for metric in ("rmse", "nll"))
            lines.append(f"| {name} | {len(splits)} | {variant} | {told} | {mean['seconds']:.1f} |")
    return "\n".join(lines) + "\n"


_MOMENTS = (np.mean, np.std)


def main() -> None:
    """Run what is not recorded yet, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=["concrete", "kin8nm"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = RESULTS / "gpytorch_defaults.json"
    records = json.loads(path.read_text()) if path.exists() else {"scores": {}}
    records["machine"] = describe_machine() + f", gpytorch {gpytorch.__version__}"
    warnings.simplefilter("ignore")  # GPyTorch tells of loose tolerances: they are what is measured
    for name in options.sets:
        for variant in VARIANTS:
            mine = records["scores"].setdefault(name, {}).setdefault(variant, {})
            for k in range(options.splits):
                if str(k) not in mine:
                    mine[str(k)] = {**scores(name, k, variant, options.device), "device": options.device}
                    print(name, variant, k, mine[str(k)], flush=True)
                    if options.write:
                        path.write_text(json.dumps(records, indent=1) + "\n")
    print(table := page(records))
    if options.write:
        (RESULTS / "gpytorch_defaults.md").write_text(table)


if __name__ == "__main__":
    main()
