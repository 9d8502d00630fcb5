from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdkn.networks.spec import ACTIVATIONS, NUMPY

Z = np.concatenate([np.linspace(-30, 30, 241), [-1e-9, 0.0, 1e-9]])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_and_slopes_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    z = torch.tensor(Z, requires_grad=True)
    value = getattr(torch.nn.functional, name)(z)
    value.sum().backward()
    np.testing.assert_allclose(ACTIVATIONS[name].value(Z), value.detach().numpy(), rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(ACTIVATIONS[name].slope(NUMPY, Z), z.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ACTIVATIONS)
@given(z=st.floats(-20, 20).filter(lambda z: abs(z) > 1e-3))
def test_slope_is_the_central_difference(name: str, z: float) -> None:
    step = 1e-5
    low, high = ACTIVATIONS[name].value(np.array([z - step, z + step]))
    slope = ACTIVATIONS[name].slope(NUMPY, np.array([z]))[0]
    np.testing.assert_allclose(slope, (high - low) / (2 * step), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_kept(name: str, dtype: type[np.floating]) -> None:
    z = Z.astype(dtype)
    assert ACTIVATIONS[name].value(z).dtype == dtype
    assert ACTIVATIONS[name].slope(NUMPY, z).dtype == dtype
