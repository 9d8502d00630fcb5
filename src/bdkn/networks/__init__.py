"""Networks as plain arrays: their shape, their initial weights, their readable forward pass."""

from bdkn.networks.activation import ACTIVATIONS
from bdkn.networks.initial import initial_networks
from bdkn.networks.mlp import MIN_VARIANCE, Networks, softplus
from bdkn.networks.predictor import Predictor
from bdkn.networks.spec import NetworkSpec

__all__ = ["ACTIVATIONS", "MIN_VARIANCE", "NetworkSpec", "Networks", "Predictor", "initial_networks", "softplus"]
