"""Networks and their encoders as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from bdkn.members import NetworkEnsemble
from bdkn.members.encoding import BEND, LIMIT, Standardizer
from bdkn.networks import MEAN_VARIANCE, EncodedNetworks, MixedNetworks, Networks, PiecewiseLinear, Predictor
from bdkn.report.what_if.arrays import packed


class NotShownError(Exception):
    """Why a model cannot be computed in a page, in plain words."""


def describe_ensemble(ensemble: NetworkEnsemble) -> dict[str, Any]:
    """Return the networks of all folds and members, and how their inputs are scaled."""
    own = ensemble.variances
    return {
        "inputs": describe_standardizer(ensemble.inputs),
        "stacks": _describe_stacks(ensemble.networks),
        "order": _order(ensemble.networks),
        "folds": ensemble.grid.n_folds,
        "members": len(ensemble),
        "variances": None if own is None else own.tolist(),
    }


def describe_standardizer(inputs: Any) -> dict[str, Any]:
    """Return the mean and scale of each column, and which columns have wild values."""
    if not isinstance(inputs, Standardizer):
        raise NotShownError("its columns are encoded by an object of your own")
    return {
        "mean": packed(inputs.mean, "f8"),
        "scale": packed(inputs.scale, "f8"),
        "wild": None if inputs.wild is None else packed(inputs.wild, "u1"),
        "bend": BEND,
        "limit": LIMIT,
    }


def _order(networks: Predictor) -> list[int]:
    if isinstance(networks, MixedNetworks):
        return [int(place) for place in networks.order]
    return list(range(len(networks)))


def _describe_stacks(networks: Predictor) -> list[dict[str, Any]]:
    stacks = networks.stacks if isinstance(networks, MixedNetworks) else (networks,)
    return [_describe_stack(stack) for stack in stacks]


def _describe_stack(stack: Predictor) -> dict[str, Any]:
    """Return networks of one shape: their widths, activation, weights, and the bins they see their inputs through."""
    encoding = stack.encoding if isinstance(stack, EncodedNetworks) else None
    plain = stack.networks if isinstance(stack, EncodedNetworks) else stack
    if not isinstance(plain, Networks) or plain.spec.head != MEAN_VARIANCE:
        raise NotShownError("its networks are of a kind that the page cannot compute")
    single = plain.layers[0][0].dtype == np.float32
    flat = [part.reshape(len(plain), -1) for layer in plain.layers for part in layer]
    return {
        "count": len(plain),
        "widths": list(plain.spec.widths),
        "activation": plain.spec.activation,
        "weights": packed(np.concatenate(flat, axis=1), "f4" if single else "f8"),
        "bins": None if encoding is None else _describe_bins(encoding),
    }


def _describe_bins(encoding: PiecewiseLinear) -> dict[str, Any]:
    parts = {name: packed(getattr(encoding, name), "f4") for name in ("lower", "width", "mean", "scale")}
    return {"columns": packed(encoding.columns, "i4"), **parts}
