"""A record: the stored result of a cell.

A record is a dictionary of JSON values::

    cell        the fields of ``Cell``: experiment, method, dataset, split (from 0), regressor, base, parameters, seed,
                kind
    status      "done" or "failed"
    rows        {"train": number of training rows, "test": number of test rows}
    metrics     on the test rows, in units of the target: rmse, nll, crps, coverage_50, coverage_90, coverage_95,
                width_50, width_90, width_95, calibration_error
    student_t   only if densities of neighbours were chosen: the metrics of the same fit without them
    model       facts about the fitted model: members (number in use), epochs (of the network trained longest); for BDKN
                also dof, prior_scale (σ_β², the prior variance), evidence (log marginal likelihood), noise (variance),
                weights (one per member in use)
    seconds     fit (in total), fit_cpu (processor time of all threads; older records do not have it), and the parts of
                fit: train (training of the networks), forward (predictions of trained networks for training rows) and
                aggregate (statistics, evidence, posterior: everything closed form); predict (in total), predict_cpu,
                and the parts of predict, predict_forward and predict_aggregate. Parts that a method does not have are
                missing. In cells of kind "curves", train includes the predictions after every epoch, so these times
                say nothing about the method.
    curves      only for kind "curves": {"epoch": [1, 2, ..], "rmse": [..], "nll": [..]} on the test rows; NaN where all
                networks had diverged. ``metrics`` are those after the last epoch, from an ordinary fit.
    warnings    texts of the warnings of the fit
    memory_mib  largest memory of the process so far, None where the system does not report it
    versions    of Python and of the packages that can change a result
    hardware    processor, cores, system, memory_gib; threads: how many the fit was allowed
    traceback   only if failed; such a record has cell, status, warnings, memory_mib, versions and hardware besides

Numbers that are not finite are written as ``{"float": "nan"}``, which every JSON reader accepts.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

Record = dict[str, Any]

_NOT_FINITE = ("nan", "inf", "-inf")


def dumps(record: Any) -> str:
    """Return one line of JSON, with keys in the order of ``record``."""
    line = json.dumps(_finite(record), allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    try:
        line.encode()
    except UnicodeEncodeError:  # half a pair of UTF-16, as in the name of a file that is not text: escaped
        return json.dumps(_finite(record), allow_nan=False, separators=(",", ":"))
    return line


def loads(line: str | bytes) -> Any:
    """Return the value that ``dumps`` was given; raise ``ValueError`` if it was given none."""
    try:
        return json.loads(line, object_hook=_revive)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def _revive(found: dict[str, Any]) -> Any:
    return float(found["float"]) if found.keys() == {"float"} and found["float"] in _NOT_FINITE else found
