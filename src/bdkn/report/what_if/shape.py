"""The shape of predictions as JSON: a forest whose structure follows from the order of its nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaln

from bdkn.members.density import NeighbourDensity
from bdkn.members.forest import Forest
from bdkn.report.what_if.arrays import packed, smallest
from bdkn.report.what_if.networks import describe_standardizer


def describe_shape(density: NeighbourDensity) -> dict[str, Any]:
    """Return the forest, the targets and errors of its rows, and the weights of the mixture."""
    near, tilt = density.neighbours, density.tilt
    source, level, first, last, width, power = near._plan
    return {
        "inputs": describe_standardizer(near.inputs),
        "forest": describe_forest(near.forest),
        "targets": packed(near.targets, "f8"),
        "errors": packed(near.errors, "f8"),
        "floor": near.floor,
        "plan": [
            {"of_errors": bool(s), "broad": bool(b), "first": int(f), "last": int(e), "width": float(w), "power": p}
            for s, b, f, e, w, p in zip(source, level, first, last, width, power.tolist(), strict=True)
        ],
        "knots": density.knots.tolist(),
        "shares": density.shares.tolist(),
        "tilt": tilt,
        "even": math.exp(tilt * math.log(4.0) + float(betaln(1.0 + tilt, 1.0 + tilt))),
        "narrowing": density.narrowing,
    }


def describe_forest(forest: Forest) -> dict[str, Any]:
    """Return the nodes in depth-first order: features, thresholds of those that split, numbers of rows of leaves.

    Right children and the places of rows follow from these.
    """
    is_leaf = forest.feature < 0
    whole = bool((forest.copies == np.round(forest.copies)).all())
    return {
        "trees": len(forest.roots),
        "feature": packed(forest.feature, "i2"),
        "threshold": packed(forest.threshold[~is_leaf], "f4"),
        "size": smallest((forest.stop - forest.start)[is_leaf]),
        "rows": smallest(forest.rows),
        "copies": smallest(forest.copies) if whole else packed(forest.copies, "f4"),
    }
