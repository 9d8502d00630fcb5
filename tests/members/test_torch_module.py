"""PyTorch modules as members."""

import numpy as np
import pytest

from bdkn.ensemble.estimators import predict_mean_std
from bdkn.estimators.members import check_model, is_refitted

torch = pytest.importorskip("torch")
nn = torch.nn

X = np.random.default_rng(0).normal(3, 2, (40, 2))


class Heads(nn.Module):
    """A mean and a standard deviation."""

    def __init__(self):
        super().__init__()
        self.line, self.drop = nn.Linear(2, 1, dtype=torch.float64), nn.Dropout(0.5)

    def forward(self, rows):
        return self.line(self.drop(rows)), torch.exp(rows[:, 0])


def test_a_torch_module_predicts_in_evaluation_mode_and_is_restored():
    module = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 1))
    module[2].eval()
    mean, std = predict_mean_std(module, X)
    assert (module.training, module[1].training, module[2].training) == (True, True, False)
    assert std is None
    expected = module.eval()(torch.as_tensor(X, dtype=torch.float32)).detach().numpy()[:, 0]
    np.testing.assert_array_equal(mean, expected)
    assert mean.dtype == np.float64
    module(torch.zeros(3, 2)).sum().backward()  # nothing was switched off for good


def test_a_torch_module_keeps_its_precision_and_may_give_standard_deviations():
    module = Heads()
    mean, std = predict_mean_std(module, X)
    weight, bias = (part.detach().numpy() for part in module.line.parameters())
    np.testing.assert_allclose(mean, X @ weight[0] + bias, rtol=1e-14, atol=1e-15)  # of terms near 1
    np.testing.assert_allclose(std, np.exp(X[:, 0]), rtol=1e-14)
    _, std = predict_mean_std(nn.Flatten(), X[:, :1])  # no parameters, so no precision of its own
    assert std is None


def test_a_torch_module_is_a_member_as_it_is():
    assert not is_refitted(nn.Linear(2, 1))
    check_model(nn.Linear(2, 1), "a")
