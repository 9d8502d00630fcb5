"""The combination of members, the target, and the widening outside of the training rows as JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from bdkn.inference import Combination
from bdkn.inference.rowwise import triangular_order
from bdkn.members import TargetScaler, Widening
from bdkn.members.columns import Columns
from bdkn.predictive.links import (
    ContinuedLink,
    IdentityLink,
    Link,
    LogitLink,
    LogLink,
    MirroredLink,
    YeoJohnsonLink,
)
from bdkn.report.what_if.arrays import packed
from bdkn.report.what_if.networks import NotShownError

_KINDS: dict[type, str] = {
    IdentityLink: "identity",
    LogLink: "log",
    LogitLink: "logit",
    YeoJohnsonLink: "power",
    MirroredLink: "mirrored",
    ContinuedLink: "continued",
}


def describe_combination(combination: Combination) -> dict[str, Any]:
    """Return the posterior of the weights with a triangular root of its precision, and the tails."""
    post = combination.posterior
    order = triangular_order(post.root)
    return {
        "mean": packed(post.mean, "f8"),
        "root": packed(post.root[:, order], "f8"),
        "order": [int(place) for place in order],
        "unit": post.b / post.a,
        "tempering": combination.tempering,
        "df": combination.tails.df,
        "factor": combination.averaging * combination.tails.scale,
        "intercept": combination.intercept,
    }


def describe_targets(targets: TargetScaler) -> dict[str, Any]:
    """Return the scale of the target and its link; no link where the target is predicted as it is."""
    link = None if targets.is_linear else describe_link(targets.link)
    return {"mean": targets.mean, "scale": targets.scale, "link": link}


def describe_link(link: Link) -> dict[str, Any]:
    """Return a link by its kind and its numbers; infinite bounds are None."""
    if type(link) not in _KINDS:
        raise NotShownError("its target is transformed by a link of your own")
    found: dict[str, Any] = {"kind": _KINDS[type(link)]}
    for field in fields(link):  # type: ignore[arg-type]
        value = getattr(link, field.name)
        found[field.name] = describe_link(value) if field.name == "link" else _finite(value)
    return {**found, "support": _finite(link.support), "near": _finite(link.near), "breaks": list(link.breaks)}


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(part) for part in value]
    return float(value) if np.isfinite(value) else None


def describe_widening(widening: Widening) -> dict[str, Any]:
    """Return prototypes, columns and slopes, by which predictions widen outside of the training rows."""
    support = widening.support
    if support.columns.known:
        raise NotShownError("some of its columns hold no numbers")
    return {
        "columns": _describe_columns(support.columns),
        "prototypes": packed(support.prototypes, "f8" if support.prototypes.size < 40_000 else "f4"),
        "typical_distance": support.typical,
        "slopes": packed(widening.slopes, "f8"),
        "typical": widening.typical,
        "usual": widening.usual,
    }


def _describe_columns(columns: Columns) -> dict[str, Any]:
    return {name: packed(getattr(columns, name), "f8") for name in ("center", "scale", "low", "high")}
