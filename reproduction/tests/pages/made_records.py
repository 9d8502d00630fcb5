"""Records made by hand, in the form that runs leave."""

from __future__ import annotations

from typing import Any

from bdkn_paper.store import Record


def made(
    experiment: str,
    dataset: str,
    method: str,
    split: int = 0,
    *,
    rmse: float = 1.0,
    nll: float = 2.0,
    parameters: dict[str, Any] | None = None,
    seconds: dict[str, float] | None = None,
    threads: int = 1,
    status: str = "done",
    **others: Any,
) -> Record:
    cell = {
        "experiment": experiment,
        "method": method,
        "dataset": dataset,
        "split": split,
        "regressor": "BDKNRegressor",
        "base": {"from_paper": 1},
        "parameters": parameters or {},
        "seed": 0,
        "kind": "curves" if "curves" in others else "scores",
    }
    done = {
        "rows": {"train": 90, "test": 10},
        "metrics": {"rmse": rmse, "nll": nll, "crps": rmse / 2, "coverage_90": 0.88 + 0.01 * split, "width_90": 3.0},
        "model": {"prior_scale": 1.6487},
        "seconds": seconds or {"fit": 60.0, "train": 59.0, "aggregate": 0.2, "predict": 1.0, "predict_aggregate": 0.1},
    }
    hardware = {"hardware": {"processor": "Abacus", "cores": 2, "threads": threads}}
    return {"cell": cell, "status": status, **(done if status == "done" else {}), **hardware, **others}


def curves(experiment: str, method: str, split: int, rmse: list[float], nll: list[float]) -> Record:
    data = {"epoch": list(range(1, len(rmse) + 1)), "rmse": rmse, "nll": nll}
    return made(experiment, "boston", method, split, curves=data)
