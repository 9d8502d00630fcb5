"""Networks as plain arrays: their shape, their initial weights, their forward pass."""

from bdkn.networks.activation import ACTIVATIONS
from bdkn.networks.exact import MIN_VARIANCE, softplus
from bdkn.networks.feature_map import FeatureMap
from bdkn.networks.initial import initial_networks
from bdkn.networks.mixed import MixedNetworks, join
from bdkn.networks.mlp import Networks
from bdkn.networks.predictor import Predictor
from bdkn.networks.spec import NetworkSpec

__all__ = [
    "ACTIVATIONS",
    "MIN_VARIANCE",
    "FeatureMap",
    "MixedNetworks",
    "NetworkSpec",
    "Networks",
    "Predictor",
    "initial_networks",
    "join",
    "softplus",
]
