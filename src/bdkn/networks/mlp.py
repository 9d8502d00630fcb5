"""H networks of one shape as stacked arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.networks.exact import Layer, exact_outputs
from bdkn.networks.spec import NetworkSpec
from bdkn.typing import Array

if TYPE_CHECKING:
    from bdkn.networks.prediction import Packed


@dataclass(frozen=True)
class Networks:
    """H networks of one shape: for each layer W of shape (H, n_out, n_in) and b of shape (H, n_out)."""

    spec: NetworkSpec
    layers: tuple[Layer, ...]

    def __len__(self) -> int:
        return len(self.layers[0][0])

    def __getitem__(self, members: Sequence[int] | NDArray[np.intp]) -> Networks:
        return Networks(self.spec, tuple((W[members], b[members]) for W, b in self.layers))

    @classmethod
    def concatenate(cls, parts: Sequence[Networks]) -> Networks:
        """Return all networks of several stacks of one shape."""
        layers = zip(*(part.layers for part in parts), strict=True)
        stacked = tuple(
            (np.concatenate([W for W, _ in layer]), np.concatenate([b for _, b in layer])) for layer in layers
        )
        return cls(parts[0].spec, stacked)

    def is_finite(self) -> NDArray[np.bool_]:
        """Tell for each network whether all its weights are finite."""
        flat = np.concatenate([part.reshape(len(self), -1) for layer in self.layers for part in layer], axis=1)
        finite: NDArray[np.bool_] = np.isfinite(flat).all(axis=1)
        return finite

    def outputs(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return means and variances in double precision, each of shape (H, n).

        Weights in single precision are computed with in single precision, by compiled code on all cores; weights in
        double precision, which only a reference has, by NumPy in theirs. A row's answer does not depend on which rows
        it is asked together with.
        """
        if self.layers[0][0].dtype == np.float32:
            return self._packed.outputs(X)
        return exact_outputs(self.spec.activation, self.layers, X)

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "layers": self.layers}  # what is packed can be packed again

    @cached_property
    def _packed(self) -> Packed:
        from bdkn.networks.prediction import Packed, prepare

        prepare()
        return Packed.of(self.spec, self.layers)
