"""Schemas of networks: their shapes, their weights, and encodings of their inputs."""

from __future__ import annotations

import numpy as np

from bdkn.errors import InvalidParameterError
from bdkn.networks import (
    EncodedNetworks,
    FeatureMap,
    MeanVarianceHead,
    MixedNetworks,
    Networks,
    NetworkSpec,
    PiecewiseLinear,
)
from bdkn.networks.activation import ACTIVATIONS
from bdkn.persistence.schema import (
    Array,
    Flag,
    Items,
    Number,
    Pair,
    Part,
    Schema,
    Sizes,
    Text,
    WrongContentError,
    integers,
    must,
    singles,
)

PREDICTORS = (Networks, EncodedNetworks, MixedNetworks)
"""The classes of networks that predict together."""


def inputs_of(networks: Networks | EncodedNetworks | MixedNetworks) -> int:
    """Return the number of columns that networks receive."""
    if isinstance(networks, MixedNetworks):
        return inputs_of(networks.stacks[0])  # type: ignore[arg-type]
    if isinstance(networks, EncodedNetworks):
        return inputs_of(networks.networks) - len(networks.encoding)  # type: ignore[arg-type]
    return networks.spec.n_inputs


class _Weights:
    """An array of weights of any number of axes, in single or double precision."""

    def check(self, value: object, sizes: Sizes) -> None:
        axes = tuple("*" * getattr(value, "ndim", 0))
        Array(axes, ("f4", "f8")).check(value, sizes)


_LAYERS = Items(Pair(_Weights(), _Weights()))


def _check_networks(networks: Networks) -> None:
    """Raise unless weights have the shapes that are declared: nothing of a declared size is made before."""
    try:
        networks.spec.check_layers(networks.layers)
    except InvalidParameterError as error:
        raise WrongContentError(str(error)) from error
    must(len(networks) > 0, "must have at least one network")
    must(len({part.dtype for layer in networks.layers for part in layer}) == 1, "all weights must have one type")


def _check_map(features: FeatureMap) -> None:
    before: int | None = None
    for W, b in features.layers:
        must(W.ndim in (2, 3) and W.size > 0, f"weights must be (n_out, n_in), or a stack of them; got {W.shape}")
        must(b.shape == W.shape[:-1], f"biases must have shape {W.shape[:-1]}; got {b.shape}")
        must(W.shape[:-2] == features.layers[0][0].shape[:-2], "all layers must be of the same stack")
        must(before is None or W.shape[-1] == before, f"a layer must have {before} inputs; got {W.shape[-1]}")
        before = W.shape[-2]


def _check_bins(encoding: PiecewiseLinear) -> None:
    same = np.diff(encoding.columns) == 0
    must(bool((np.diff(encoding.columns) >= 0).all()), "columns must be in order")
    must(bool((np.diff(encoding.lower)[same] > 0).all()), "the bins of a column must be in order")


def _check_encoded(encoded: EncodedNetworks) -> None:
    n = inputs_of(encoded)
    must(n >= 1, "networks must have more inputs than there are bins")
    must(encoding_end(encoded.encoding) <= n, f"bins must be of columns from 0 to {n - 1}")


def encoding_end(encoding: PiecewiseLinear) -> int:
    """Return the number of columns that an encoding needs at least."""
    return int(encoding.columns.max(initial=-1)) + 1


def _check_mixed(mixed: MixedNetworks) -> None:
    total = sum(len(stack) for stack in mixed.stacks)
    must(len({inputs_of(stack) for stack in mixed.stacks}) == 1, "all networks must have the same inputs")  # type: ignore[arg-type]
    must(np.array_equal(np.sort(mixed.order), np.arange(total)), f"order must have each number below {total} once")


_ACTIVATION = Text(tuple(ACTIVATIONS))

SCHEMAS = (
    Schema(MeanVarianceHead, {}),
    Schema(
        NetworkSpec,
        {
            "n_inputs": Number(low=1, whole=True),
            "hidden": Items(Number(low=1, whole=True)),
            "activation": _ACTIVATION,
            "head": Part(MeanVarianceHead),
        },
    ),
    Schema(Networks, {"spec": Part(NetworkSpec), "layers": _LAYERS}, _check_networks),
    Schema(FeatureMap, {"activation": _ACTIVATION, "layers": _LAYERS, "linear_last": Flag()}, _check_map),
    Schema(
        PiecewiseLinear,
        {
            "columns": integers("m"),
            "lower": singles("m"),
            "width": singles("m", above=0.0),
            "mean": singles("m"),
            "scale": singles("m", above=0.0),
        },
        _check_bins,
    ),
    Schema(EncodedNetworks, {"encoding": Part(PiecewiseLinear), "networks": Part(Networks)}, _check_encoded),
    Schema(
        MixedNetworks,
        {"stacks": Items(Part(Networks, EncodedNetworks), least=1), "order": integers("n")},
        _check_mixed,
    ),
)
