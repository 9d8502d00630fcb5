"""The examples in docstrings run."""

import doctest

import pytest

import bdkn.regressors.bdkn
import bdkn.regressors.deep_ensemble
import bdkn.regressors.registry


@pytest.mark.parametrize(
    "module", [bdkn.regressors.bdkn, bdkn.regressors.deep_ensemble, bdkn.regressors.registry], ids=lambda m: m.__name__
)
def test_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("cls", [bdkn.BDKNRegressor, bdkn.DeepEnsembleRegressor])
def test_every_parameter_is_documented_with_its_default(cls):
    text = cls.__doc__.split("Attributes\n")[0]
    for name, value in cls().get_params().items():
        if value == "deprecated":
            continue
        entry = next(line for line in text.splitlines() if line.startswith(f"    {name} : "))
        assert f"default={value!r}".replace("'", '"') in entry or f"default={value}" in entry
