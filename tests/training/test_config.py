from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bdkn.errors import InvalidParameterError
from bdkn.networks import TrainingConfig, get_engine
from bdkn.networks.job import BetaNLL


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epochs": 0}, r"epochs must be an integer >= 1; got 0"),
        ({"epochs": 1.5}, r"epochs must be an integer >= 1; got 1\.5"),
        ({"epochs": True}, r"epochs must be an integer >= 1; got True"),
        ({"batch_size": -3}, r"batch_size must be an integer >= 1; got -3"),
        ({"learning_rate": 0}, r"learning_rate must be a number > 0; got 0"),
        ({"learning_rate": float("nan")}, r"learning_rate must be a number > 0; got nan"),
        ({"schedule": "cosin"}, r"schedule must be one of 'constant', 'cosine'; got 'cosin'; did you mean 'cosine'\?"),
        ({"weight_decay": -1e-3}, r"weight_decay must be a number >= 0; got -0\.001"),
        ({"objective": "nlll"}, r"objective must be one of 'nll', 'beta_nll', 'mse'; got 'nlll'; did you mean 'nll'\?"),
        (
            {"objective": 3},
            r"objective must be one of .*, or an object with name, .*; got 3",
        ),
        ({"beta": 1.5}, r"beta must be a number >= 0 and <= 1; got 1\.5"),
        ({"warmup_epochs": -1}, r"warmup_epochs must be an integer >= 0; got -1"),
        ({"validation_fraction": 1.0}, r"validation_fraction must be a number >= 0 and <= 0\.9; got 1\.0"),
        ({"patience": 0}, r"patience must be an integer >= 1; got 0"),
        ({"tol": "small"}, r"tol must be a number >= 0; got 'small'"),
    ],
)
def test_error_messages_state_the_requirement(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        TrainingConfig(**arguments)  # type: ignore[arg-type]


def test_numpy_numbers_are_numbers() -> None:
    config = TrainingConfig(epochs=np.int64(3), learning_rate=np.float32(0.5))  # type: ignore[arg-type]
    assert config.epochs == 3


def test_objective_is_squared_error_while_warming_up() -> None:
    config = TrainingConfig(objective="beta_nll", warmup_epochs=2, beta=0.25)
    objectives = [config.objective_in(epoch) for epoch in range(4)]
    assert [objective.name for objective in objectives] == ["mse", "mse", "beta_nll", "beta_nll"]
    assert [objective.trains_variance for objective in objectives] == [False, False, True, True]
    assert config.main_objective == objectives[-1] == BetaNLL(0.25)


def test_config_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainingConfig().epochs = 3  # type: ignore[misc]


def test_cosine_rates_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=17)
    theirs = []
    for _ in range(17):
        theirs.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    ours = TrainingConfig(learning_rate=0.3, schedule="cosine").learning_rate_at(np.arange(17), 17)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_constant_rates_stay() -> None:
    assert TrainingConfig(learning_rate=0.3).learning_rate_at(3, 4) == 0.3


def test_engine_names_are_checked() -> None:
    with pytest.raises(InvalidParameterError, match=r"engine must be one of .*; got 'tortch'; did you mean 'torch'\?"):
        get_engine("tortch")


@pytest.mark.parametrize("name", ["reference", "torch"])
def test_engines_are_found_by_name_or_taken_as_they_are(name: str) -> None:
    engine = get_engine(name)
    assert type(engine).__name__.lower() == f"{name}engine"
    assert get_engine(engine) is engine
