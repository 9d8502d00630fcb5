"""Networks as plain arrays: their shape, their initial weights, their forward pass."""

from bdkn.networks.activation import ACTIVATIONS
from bdkn.networks.functions import Functions, softplus
from bdkn.networks.head import MEAN_VARIANCE, MIN_VARIANCE, Head, MeanVarianceHead
from bdkn.networks.mlp import MixedNetworks, Networks, Predictor, initial_networks, join
from bdkn.networks.piecewise import EncodedNetworks, PiecewiseLinear, n_binned_columns, with_encoding
from bdkn.networks.spec import NetworkSpec

__all__ = [
    "ACTIVATIONS",
    "MEAN_VARIANCE",
    "MIN_VARIANCE",
    "EncodedNetworks",
    "Functions",
    "Head",
    "MeanVarianceHead",
    "MixedNetworks",
    "NetworkSpec",
    "Networks",
    "PiecewiseLinear",
    "Predictor",
    "initial_networks",
    "join",
    "n_binned_columns",
    "softplus",
    "with_encoding",
]
