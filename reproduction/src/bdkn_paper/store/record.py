"""What is kept of a cell that was run.

A record is a dictionary of what JSON knows::

    cell        what was run, the fields of ``Cell``: experiment, method, dataset, split (from 0), regressor, base,
                parameters, seed, kind
    status      "done" or "failed"
    rows        {"train": rows fitted to, "test": rows scored}
    metrics     on the test rows, in the units of the target: rmse, nll, crps, coverage_50, coverage_90, coverage_95,
                width_50, width_90, width_95, calibration_error
    model       what was fitted: members (networks in use), epochs (run by the longest); of BDKN also dof,
                prior_scale (σ_β²), evidence (log marginal likelihood), noise (variance), weights (one a network in use)
    seconds     fit (all of it), of which train (networks learn), forward (what trained networks say about the training
                rows) and aggregate (statistics, evidence, posterior: what is not a network); predict (all of it), of
                which predict_forward and predict_aggregate (the closed-form predictive). A method without such a part
                has no such key. In a cell of kind "curves" train holds the watching of every epoch too, so these times
                say nothing about the method.
    curves      only of kind "curves": {"epoch": [1, 2, ..], "rmse": [..], "nll": [..]} on the test rows; not a number
                where every network had diverged. ``metrics`` are those of the last epoch, by the ordinary fit.
    warnings    what the fit warned of, as text
    memory_mib  highest memory of the process so far, None where the system does not tell
    versions    of Python and the packages that matter, by name
    hardware    processor, cores, system, memory_gib; threads: what the fit was allowed
    traceback   only of a failed cell, which has cell, status, warnings, memory_mib, versions and hardware besides

Numbers that are not finite are kept too, as ``{"float": "nan"}`` in files, which any JSON reader takes.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

Record = dict[str, Any]


def dumps(record: Any) -> str:
    """Return one line of JSON, keys as they come."""
    return json.dumps(_finite(record), allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def loads(line: str | bytes) -> Any:
    """Return what ``dumps`` was given."""
    return json.loads(line, object_hook=_revive)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def _revive(found: dict[str, Any]) -> Any:
    return float(found["float"]) if found.keys() == {"float"} else found
