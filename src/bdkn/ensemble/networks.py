"""Networks as members of an ensemble."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bdkn.blocks import PREDICTED_ROWS, row_slices
from bdkn.data.rows import Rows
from bdkn.data.scaling import Encoder, Standardizer, TargetScaler
from bdkn.ensemble.cross_fitting import FoldGrid, Members
from bdkn.ensemble.held_out import ScoredPart
from bdkn.errors import DivergedError
from bdkn.inference import Forecast
from bdkn.networks import EncodedNetworks, MixedNetworks, Networks, Predictor
from bdkn.predictive import Gaussian
from bdkn.storage.fields import Part, floats, must, sizes, stored
from bdkn.typing import FloatArray, IndexArray


@dataclass(frozen=True)
class NetworkMember:
    """One member: a network or an average over folds, with its encoders."""

    name: str
    ensemble: NetworkEnsemble

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return each row's mean and variance in the units of the target."""
        means, variances = self.ensemble.outputs(X)
        targets = self.ensemble.targets
        if not targets.is_linear:
            loc, scale = targets.mean + targets.scale * means[:, 0], targets.scale * np.sqrt(variances[:, 0])
            dist = targets.restore(Gaussian(loc, scale))
            return dist.mean(), dist.var()
        with np.errstate(over="ignore", under="ignore"):
            return targets.mean + targets.scale * means[:, 0], np.square(targets.scale * np.sqrt(variances[:, 0]))


@stored
@dataclass(frozen=True)
class NetworkEnsemble:
    """H members with the same encoders, each one network or the average of one network per fold.

    ``networks`` are in the order of a ``FoldGrid``. ``variances`` (H,), if given, replace the networks' own variances,
    which are not trained by the squared error. They are in scaled units, as are ``outputs``.
    """

    names: Annotated[tuple[str, ...], sizes(H=len)]
    networks: Annotated[Predictor, Part(Networks, EncodedNetworks, MixedNetworks), sizes(p="n_columns")]
    inputs: Annotated[Encoder, Part(Standardizer), sizes(p="n_columns")]
    targets: TargetScaler
    variances: Annotated[FloatArray | None, floats("H", above=0.0)] = None

    def check(self) -> None:
        """Raise unless all members have the same number of networks."""
        n, H = len(self.networks), len(self)
        must(n % H == 0, f"{n} networks cannot be those of {H} members")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def grid(self) -> FoldGrid:
        """The order of the networks by fold and member."""
        return FoldGrid.of(len(self.networks), len(self))

    def __getitem__(self, members: Members) -> NetworkEnsemble:
        return replace(
            self,
            names=tuple(self.names[h] for h in members),
            networks=self.networks[self.grid.numbers(members).ravel()],
            variances=None if self.variances is None else self.variances[members],
        )

    @property
    def members(self) -> list[NetworkMember]:
        """The members, each as an object of its own."""
        return [NetworkMember(name, self[[h]]) for h, name in enumerate(self.names)]

    def outputs(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of table rows, each (n, H), in scaled units; raise if one is not finite.

        If a member is an average over folds, its variance is the folds' average plus the variance of their means.
        """
        means, variances = self._by_fold(self.inputs.check_rows(X))
        return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)

    def forecast(self, X: ArrayLike) -> Forecast:
        """Return the forecast for table rows, in scaled units, computed a block of rows at a time."""
        table = self.inputs.check_rows(X)
        blocks = row_slices(len(table), PREDICTED_ROWS)
        return Forecast.concatenate([Forecast.of(*self._by_fold(table[block])) for block in blocks])

    def by_fold(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of every network, each (folds, n, H), for table rows, in scaled units."""
        return self._by_fold(self.inputs.check_rows(X))

    def _by_fold(self, table: NDArray[np.generic]) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of every network, each (folds, n, H)."""
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = self.networks.outputs(self.inputs.transform(table))
        grid = self.grid
        means, variances = (grid.arrange(np.asarray(part, dtype=np.float64)).swapaxes(1, 2) for part in outputs)
        if self.variances is not None:
            variances = np.broadcast_to(self.variances, means.shape)
        self._check_finite(means, variances)
        return means, variances

    def _check_finite(self, means: FloatArray, variances: FloatArray) -> None:
        if not (np.isfinite(means).all() and np.isfinite(variances).all()):
            _, rows, members = np.nonzero(~(np.isfinite(means) & np.isfinite(variances)))
            raise DivergedError(
                f"{self.names[members[0]]} overflows on row {rows[0]}, which is far from the training rows, or the "
                "network has very large weights; check that row, or fit again with a lower learning_rate"
            )


_KEPT_NUMBERS = 2**21

_Outputs = tuple[Rows, FloatArray, FloatArray]
"""Some rows, and the means and variances of all networks for them, each (H, rows)."""

Chunk = tuple[FloatArray, FloatArray, None, FloatArray | None]


@dataclass(frozen=True)
class Design:
    """Networks and their training rows. Few outputs are stored; many are computed again each time they are needed."""

    networks: Predictor
    rows: Rows
    _kept: list[_Outputs] = field(default_factory=list)

    def __getitem__(self, chosen: IndexArray) -> Design:
        kept = [(part, means[chosen], variances[chosen]) for part, means, variances in self._kept]
        return Design(self.networks[chosen], self.rows, kept)

    def parts(self) -> Iterator[_Outputs]:
        """Yield the rows in blocks with their means and variances."""
        if not self._kept and len(self.networks) * len(self.rows) <= _KEPT_NUMBERS:
            self._kept.extend(self._computed())
        yield from self._kept or self._computed()

    def scored(self) -> Iterator[ScoredPart]:
        """Yield the rows in blocks, in the form that ``MemberScores.of`` expects."""
        for part, means, variances in self.parts():
            yield part.y, part.counts, means, variances

    def chunks(self) -> Iterator[Chunk]:
        """Yield (Φ, y, None, counts) in blocks of rows, so that a large Φ is never in memory as a whole."""
        for part, means, _ in self.parts():
            yield np.asarray(means.T), part.y, None, part.counts

    def _computed(self) -> Iterator[_Outputs]:
        with np.errstate(over="ignore", invalid="ignore"):  # diverged networks are removed by their outputs
            for part in self.rows.blocks():
                means, variances = self.networks.outputs(part.X)
                yield part, np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
