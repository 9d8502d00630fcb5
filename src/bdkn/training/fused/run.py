"""One member's training as an object: start it, advance it, look at it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bdkn.networks import ACTIVATIONS, Networks, NetworkSpec
from bdkn.networks.prediction import Packed
from bdkn.training.batches import RowNumbers
from bdkn.training.config import OBJECTIVES, TrainingConfig
from bdkn.training.engine import Rows
from bdkn.training.fused import epochs as compiled
from bdkn.training.fused.layout import Layout, layout_of
from bdkn.training.order import Streams, split_rows
from bdkn.typing import Array, Float32Array

_NOTHING = np.empty(0, dtype=np.float32)


@dataclass(frozen=True)
class Run:
    """The rows, the settings and the state of one member; ``state`` changes, the rest does not."""

    layout: Layout
    data: compiled.Data
    settings: compiled.Settings
    state: compiled.State

    @classmethod
    def start(cls, network: Networks, streams: Streams, rows: Rows, config: TrainingConfig, number: int = 0) -> Run:
        """Begin from a single network, ``number`` among those to be trained on these rows."""
        order, held = _places(rows, config, streams, number)
        data = compiled.Data(rows.X, rows.y, _NOTHING if rows.weight is None else rows.weight, order, held)
        layout = layout_of(network.spec, min(config.batch_size, len(order)))
        return cls(
            layout, data, _settings(network.spec, config, layout.batch), _state(layout, network, streams, config)
        )

    @property
    def epoch(self) -> int:
        """Epochs run so far."""
        return int(self.state.clock[compiled.EPOCH])

    def is_done(self) -> bool:
        """Tell whether all epochs are run or held-out rows said stop."""
        return self.epoch >= self.settings.epochs or bool(self.state.clock[compiled.STOPPED])

    def advance(self, epochs: int) -> None:
        """Train for that many epochs, or fewer if the end comes first."""
        compiled.train(self.state, self.data, self.settings, min(self.epoch + epochs, self.settings.epochs))

    def outputs(self, X: Float32Array) -> tuple[Array, Array]:
        """Return the current means and variances of scaled rows, computed on this thread."""
        current = Packed(self.layout.spec, self.state.mem[: self.layout.n_parameters])
        means, variances = current.outputs(X, threads=1)
        return means[0], variances[0]

    def losses(self) -> Array:
        """Return the mean training loss of every epoch run."""
        return self.state.losses[: self.epoch]

    def held_losses(self) -> Array:
        """Return the mean loss on held-out rows after every epoch run; empty without early stopping."""
        return self.state.held_losses[: self.epoch if len(self.data.held) else 0]

    def best_epoch(self) -> int:
        """Return the epoch whose weights are kept."""
        return int(self.state.clock[compiled.BEST_EPOCH]) if self._has_best() else self.epoch - 1

    def networks(self) -> Networks:
        """Return the network to keep: the best on held-out rows, else the last."""
        flat = self.state.best if self._has_best() else self.state.mem[: self.layout.n_parameters]
        return Networks(self.layout.spec, tuple((W[None], b[None]) for W, b in self.layout.packing.unpack(flat)))

    def _has_best(self) -> bool:
        return bool(np.isfinite(self.state.score[0]))


def _places(rows: Rows, config: TrainingConfig, streams: Streams, number: int) -> tuple[RowNumbers, RowNumbers]:
    """Return where the rows to learn from and the rows to hold out lie in the table, which is not copied."""
    if rows.only is None:
        return split_rows(len(rows.y), config.validation_fraction, streams.split)
    only = rows.only[number].astype(np.int32)
    order, held = split_rows(len(only), config.validation_fraction, streams.split)
    return only[order], only[held]


def _settings(spec: NetworkSpec, config: TrainingConfig, batch: int) -> compiled.Settings:
    return compiled.Settings(
        activation=ACTIVATIONS.index(spec.activation),
        objective=OBJECTIVES.index(config.objective),
        beta=float(config.beta),
        warmup=int(config.warmup_epochs),
        epochs=int(config.epochs),
        batch=int(batch),
        rate=float(config.learning_rate),
        cosine=config.schedule == "cosine",
        weight_decay=float(config.weight_decay),
        patience=int(config.patience),
        tol=float(config.tol),
    )


def _state(layout: Layout, network: Networks, streams: Streams, config: TrainingConfig) -> compiled.State:
    mem, clock = layout.workspace(), np.zeros(4, dtype=np.int64)
    mem[: layout.n_parameters] = layout.packing.pack([(W[0], b[0]) for W, b in network.layers])
    clock[compiled.BEST_EPOCH] = config.warmup_epochs - 1  # patience counts from the end of the warm-up
    return compiled.State(
        mem=mem,
        layers=layout.layers,
        places=layout.places,
        best=mem[: layout.n_parameters].copy(),
        clock=clock,
        random=np.array([streams.order], dtype=np.uint64),
        score=np.array([np.inf]),
        losses=np.empty(config.epochs),
        held_losses=np.empty(config.epochs),
    )
