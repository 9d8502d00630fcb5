"""The Bayesian last layer that BLL and LDBLL share: its parameters, its learner, and the derivative of its function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bdkn.errors import InvalidParameterError, check_choice, check_flag, check_number
from bdkn.networks import FeatureMap
from bdkn.regressors.baselines.torch_regressor import hidden_layers, network_step_work
from bdkn.rows import Rows

if TYPE_CHECKING:
    from torch import Tensor

    from bdkn.regressors.baselines.learners.evidence import EvidenceLearner, LinearModel
    from bdkn.regressors.baselines.learners.features import TorchFeatures

    Penalty = Callable[[LinearModel, Tensor], Tensor]
    MakePenalty = Callable[[TorchFeatures, Tensor, np.random.SeedSequence], Penalty | None]

HEADS = ("normal-inverse-gamma", "gaussian")


@dataclass(frozen=True, kw_only=True, eq=False)
class LastLayerSettings:
    """The parameters of a Bayesian last layer; see those of ``BLLRegressor``. They are checked when this is made."""

    hidden_layer_sizes: int | Sequence[int]
    activation: str
    head: str
    noise: float | str
    prior_variance: float | str
    stale_weights: bool
    device: str

    @classmethod
    def of(cls, model: object) -> Self:
        """Return the settings of a regressor that has these parameters."""
        return cls(**{part.name: getattr(model, part.name) for part in fields(cls)})

    def __post_init__(self) -> None:
        hidden_layers(self.hidden_layer_sizes, self.activation)
        check_choice("head", self.head, HEADS)
        check_flag("stale_weights", self.stale_weights)
        _check_number_or_learned("noise", self.noise)
        _check_number_or_learned("prior_variance", self.prior_variance)
        if self.head != "gaussian" and not isinstance(self.noise, str):
            raise InvalidParameterError(
                f"noise can be known for a Gaussian head only; got noise={self.noise!r} with head={self.head!r}, which "
                "integrates it out: set head='gaussian', or leave out noise"
            )

    @property
    def hidden(self) -> tuple[int, ...]:
        """Units of each hidden layer."""
        return hidden_layers(self.hidden_layer_sizes, self.activation)

    def learner(
        self, rows: Rows, held_out: Rows | None, root: np.random.SeedSequence, make_penalty: MakePenalty | None = None
    ) -> EvidenceLearner:
        """Return the learner of features, prior variance and noise, with a penalty if one is given."""
        import torch

        from bdkn.regressors.baselines.learners.evidence import EvidenceLearner
        from bdkn.regressors.baselines.learners.features import TorchFeatures

        seeds = root.spawn(3)
        like = torch.empty(0, dtype=torch.float64, device=self.device)
        start = FeatureMap.draw((rows.X.shape[1], *self.hidden), self.activation, np.random.default_rng(seeds[0]))
        features = TorchFeatures(start, like)
        penalty = None if make_penalty is None else make_penalty(features, torch.tensor(rows.X).to(like), seeds[1])
        return EvidenceLearner(
            rows,
            held_out,
            features,
            like,
            noise=self.noise if self.head == "gaussian" else None,
            prior_variance=self.prior_variance,
            penalty=penalty,
            stale=self.stale_weights,
        )

    def step_work(self, n_rows: int, n_inputs: int) -> float:
        """Return the approximate number of multiplications of one step."""
        return network_step_work(n_rows, (n_inputs, *self.hidden, 1))


def last_layer_paper_parameters(setting: int) -> dict[str, Any]:
    """Return the paper's parameters of a Bayesian last layer."""
    # The paper's NLLs are those of unit noise on standardised targets; stale weights are a guess that fits.
    head = {"activation": "leaky_relu", "head": "gaussian", "noise": 1.0, "prior_variance": 1.0}
    stopping = {"early_stopping": setting == 2, "validation_fraction": 0.2, "patience": None}
    return {**head, "stale_weights": True, **stopping}


def _check_number_or_learned(name: str, given: object) -> None:
    if isinstance(given, str):
        check_choice(f"{name}, if not a number,", given, ("learned",))
    else:
        check_number(name, given, low=0, strict=True)
