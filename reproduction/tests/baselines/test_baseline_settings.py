"""The paper's settings of the baselines."""

import pytest
from sine import EVERY

from bdkn.errors import InvalidParameterError
from bdkn.estimators.parameters import SETS
from bdkn_paper import BLLRegressor, DKLRegressor, GPRegressor, LDBLLRegressor, MFVIRegressor, VBLLRegressor


@pytest.mark.parametrize("cls", EVERY)
def test_setting_1_is_the_same_everywhere(cls):
    for name in (None, *SETS):
        model = cls.from_paper(1, name)
        assert (model.learning_rate, model.epochs) == (0.1, 40)
        assert getattr(model, "hidden_layer_sizes", (50, 50)) == (50, 50)
        assert not getattr(model, "early_stopping", False)


def test_what_the_tables_say():
    assert MFVIRegressor.from_paper(2, "naval").epochs == 100_000
    assert (LDBLLRegressor.from_paper(2, "wine").learning_rate, LDBLLRegressor.from_paper(2, "wine").epochs) == (
        1e-4,
        1000,
    )
    sarcos = BLLRegressor.from_paper(2, "sarcos-clean")
    assert (sarcos.learning_rate, sarcos.epochs, sarcos.hidden_layer_sizes) == (2e-4, 30_000, (50, 200, 200))
    assert VBLLRegressor.from_paper(2).epochs == DKLRegressor.from_paper(2).epochs == 500
    gp = GPRegressor.from_paper(2, "naval")
    assert (gp.learning_rate, gp.epochs, gp.tol, gp.window) == (1e-3, 3000, 1e-4, 11)


def test_early_stopping_is_that_of_the_paper():
    for cls in (BLLRegressor, LDBLLRegressor, MFVIRegressor):
        model = cls.from_paper(2, "boston")
        assert (model.early_stopping, model.validation_fraction, model.patience) == (True, 0.2, None)
    for cls in (DKLRegressor, VBLLRegressor):
        assert not cls.from_paper(2, "boston").early_stopping


def test_what_is_not_in_the_tables_is_said():
    with pytest.raises(InvalidParameterError, match=r"setting must be 1 .* or 2 .*; got 3"):
        BLLRegressor.from_paper(3)
    with pytest.raises(
        InvalidParameterError, match=r"dataset must be one of boston, .* yacht; got None: name one of them"
    ):
        BLLRegressor.from_paper(2)
    with pytest.raises(InvalidParameterError, match=r"dataset must be one of .*; got 'sarcos': name one of them"):
        GPRegressor.from_paper(2, "sarcos")
    with pytest.raises(InvalidParameterError, match=r"dataset must be one of .*; got 'bosten'; did you mean 'boston'"):
        BLLRegressor.from_paper(1, "bosten")
    assert GPRegressor.from_paper(2, "sarcos", learning_rate=0.01, epochs=7).epochs == 7
    assert BLLRegressor.from_paper(2, "boston", epochs=9, random_state=3).epochs == 9
