"""The payload of a what-if: all that a page needs to predict a row as the model does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bdkn.regressors import BDKNRegressor, DeepEnsembleRegressor
from bdkn.report.what_if.arrays import size_of
from bdkn.report.what_if.combination import describe_combination, describe_targets, describe_widening
from bdkn.report.what_if.networks import NotShownError, describe_ensemble
from bdkn.report.what_if.shape import describe_shape

MOST_BYTES = 8_000_000
"""Largest size of a model in a page; of a larger one the shape is left out, then the what-if as a whole."""


@dataclass(frozen=True)
class Payload:
    """A model as JSON, or None with the reason in ``note``, which also says what else is left out.

    ``has_shape`` is False where the model has a shape of its own which was left out: the page then computes what
    ``model.without_shape()`` predicts.
    """

    model: dict[str, Any] | None
    note: str = ""
    has_shape: bool = True


def payload_of(model: Any, *, most_bytes: int = MOST_BYTES) -> Payload:
    """Return a fitted model as JSON, if it consists of networks and is small enough."""
    try:
        plain = _describe(model)
    except NotShownError as reason:
        return Payload(None, f"The what-if is left out: {reason}.")
    size = size_of(plain)
    if size > most_bytes:
        return Payload(None, f"The what-if is left out: {_megabytes(size)}, and the limit is {_limit(most_bytes)}.")
    density = None if isinstance(model, DeepEnsembleRegressor) else model.density_
    if density is None:
        return Payload(plain, _about_values(model))
    shape = describe_shape(density)
    if size + size_of(shape) <= most_bytes:
        return Payload({**plain, "shape": shape}, _about_values(model))
    note = (
        "The what-if shows the Student-t distribution alone. The model itself mixes it with densities of neighbours, "
        f"but with these {_megabytes(size + size_of(shape))}, and the limit is {_limit(most_bytes)}."
    )
    return Payload(plain, f"{note} {_about_values(model)}".strip(), has_shape=False)


def _about_values(model: Any) -> str:
    """Return what is left out if many targets share values."""
    if getattr(model, "target_values_", None) is None:
        return ""
    return (
        "Many targets share values. The what-if shows a density, which knows no single values; in Python, "
        "predict_values has their probabilities."
    )


def _describe(model: Any) -> dict[str, Any]:
    if isinstance(model, DeepEnsembleRegressor):
        ensemble = model.ensemble_
        kind = {"ensemble": model.predictive}
        return {**kind, "networks": describe_ensemble(ensemble), "targets": describe_targets(ensemble.targets)}
    if not isinstance(model, BDKNRegressor):
        raise NotShownError("its members are not networks of this package, so a page cannot compute them")
    widening = model._combined.widening
    return {
        "networks": describe_ensemble(model.ensemble_),
        "combination": describe_combination(model.combination_),
        "targets": describe_targets(model._combined.targets),
        "widening": None if widening is None else describe_widening(widening),
    }


def _megabytes(size: int) -> str:
    return f"the model has {size / 1e6:.1f} MB"


def _limit(size: int) -> str:
    return f"{size / 1e6:g} MB"
