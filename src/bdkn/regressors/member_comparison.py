"""Comparison of members by held-out rows, in the units of the target; only weights are learned again."""

from __future__ import annotations

import numpy as np

from bdkn.members import HeldOut, TargetScaler
from bdkn.members.selection import CombinationSettings
from bdkn.predictive import Gaussian
from bdkn.typing import FloatArray


def left_one_out(held_out: HeldOut, targets: TargetScaler, settings: CombinationSettings) -> tuple[float, float]:
    """Return the log score and the RMSE of these members, each row predicted from the others."""
    y, counts = held_out.y, held_out.counts
    dist = settings.combine(held_out).leave_one_out(held_out.forecast(), y, counts)
    if targets.is_linear:
        log_score = np.average(dist.logpdf(y), weights=counts) - np.log(targets.scale)
        return float(log_score), float(targets.scale * np.sqrt(np.average((dist.loc - y) ** 2, weights=counts)))
    own, restored = targets.inverse(y), targets.restore(dist.affine(targets.scale, targets.mean))
    error = np.sqrt(np.average((restored.mean() - own) ** 2, weights=counts))
    return float(np.average(restored.logpdf(own), weights=counts)), float(error)


def scores_of_first(held_out: HeldOut, targets: TargetScaler, settings: CombinationSettings) -> FloatArray:
    """Return the log score and the RMSE (2, H) of the first 1, 2, .. members."""
    sizes = range(1, held_out.means.shape[1] + 1)
    return np.transpose([left_one_out(held_out[np.arange(size)], targets, settings) for size in sizes])


def losses_without(held_out: HeldOut, targets: TargetScaler, settings: CombinationSettings) -> FloatArray:
    """Return by how much the log score is lower without each of the members."""
    members = np.arange(held_out.means.shape[1])
    without = [left_one_out(held_out[np.delete(members, h)], targets, settings)[0] for h in members]
    return left_one_out(held_out, targets, settings)[0] - np.array(without)


def target_scores(held_out: HeldOut, targets: TargetScaler) -> dict[str, FloatArray]:
    """Return RMSE and NLL of each member's own Gaussian, for a target that is transformed."""
    filled, y = held_out.filled(), targets.inverse(held_out.y)
    errors, scores = [], []
    for mean, variance in zip(filled.means.T, filled.variances.T, strict=True):
        dist = targets.restore(Gaussian(targets.mean + targets.scale * mean, targets.scale * np.sqrt(variance)))
        errors.append(np.sqrt(np.average((dist.mean() - y) ** 2, weights=held_out.counts)))
        scores.append(-np.average(dist.logpdf(y), weights=held_out.counts))
    return {"rmse": np.array(errors), "nll": np.array(scores)}
