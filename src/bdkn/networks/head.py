"""Heads: from the outputs of a network to the mean and the variance of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from bdkn.networks.functions import Functions, Values
from bdkn.persistence.fields import stored

MIN_VARIANCE = 1e-6
"""Added to the softplus of the raw variance, as in Lakshminarayanan et al. (2017)."""


class Head(Protocol):
    """Maps the outputs of a network to means and variances; hashable, equal heads compare equal.

    The first output is the mean: it is what squared error trains.
    """

    @property
    def n_outputs(self) -> int:
        """How many outputs a network with this head has."""

    def mean_and_variance(self, fn: Functions, outputs: Values) -> tuple[Values, Values]:
        """Return the mean and the variance (...,) of outputs (..., n_outputs)."""


@stored
@dataclass(frozen=True)
class MeanVarianceHead:
    """Two outputs: the mean, and a raw variance r; the variance is softplus(r) + 1e-6."""

    n_outputs: ClassVar[int] = 2

    def mean_and_variance(self, fn: Functions, outputs: Values) -> tuple[Values, Values]:
        """Return the mean and the variance (...,) of outputs (..., 2)."""
        return outputs[..., 0], fn.softplus(outputs[..., 1]) + MIN_VARIANCE

    def variance_slope(self, fn: Functions, outputs: Values) -> Values:
        """Return the derivative of the variance by the raw variance."""
        return fn.sigmoid(outputs[..., 1])


MEAN_VARIANCE = MeanVarianceHead()
"""The head of every network unless another is given. Compiled code has the same formula, in single precision."""
