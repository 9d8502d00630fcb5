from __future__ import annotations

import pytest

from bdkn.errors import InvalidParameterError
from bdkn.networks import NetworkSpec


def test_shapes_run_from_inputs_to_two_outputs() -> None:
    spec = NetworkSpec(n_inputs=3, hidden=(7, 5))
    assert spec.widths == (3, 7, 5, 2)
    assert spec.shapes == ((7, 3), (5, 7), (2, 5))
    assert spec.n_parameters == 3 * 7 + 7 + 7 * 5 + 5 + 5 * 2 + 2


def test_no_hidden_layer_is_a_linear_model() -> None:
    assert NetworkSpec(n_inputs=4, hidden=()).shapes == ((2, 4),)


def test_parameters_are_counted_as_torch_counts_them() -> None:
    nn = pytest.importorskip("torch").nn
    module = nn.Sequential(nn.Linear(3, 7), nn.Linear(7, 5), nn.Linear(5, 2))
    assert NetworkSpec(n_inputs=3, hidden=(7, 5)).n_parameters == sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_inputs": 0}, r"n_inputs must be an integer >= 1; got 0"),
        ({"n_inputs": 2, "hidden": (5, 0)}, r"each of hidden_layer_sizes must be an integer >= 1; got 0"),
        ({"n_inputs": 2, "hidden": (5.0,)}, r"each of hidden_layer_sizes must be an integer >= 1; got 5\.0"),
        (
            {"n_inputs": 2, "activation": "reul"},
            r"activation must be one of 'relu', .*; got 'reul'; did you mean",
        ),
    ],
)
def test_error_messages_state_the_requirement(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        NetworkSpec(**arguments)  # type: ignore[arg-type]
