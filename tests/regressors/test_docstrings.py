"""Both regressors write their shared parameters out, for whoever reads only one of them; the texts must agree."""

from __future__ import annotations

import inspect
import re

import pytest
from quick import BOTH

from bdkn import BDKNRegressor, DeepEnsembleRegressor

SPECIFIC = {"objective", "members_", "member_names_", "member_scores_", "loss_curves_"}
"""What differs: squared error costs the deep ensemble its variances; a member of BDKN has a network in every fold."""


def entries(cls: type) -> dict[str, str]:
    """Return the text of each documented name, by name and type."""
    found = re.findall(r"^(\w+) : (.*?)(?=^\S|\Z)", inspect.getdoc(cls) or "", flags=re.MULTILINE | re.DOTALL)
    return {name: text.strip() for name, text in found}


def test_shared_names_are_documented_alike() -> None:
    bdkn, ensemble = entries(BDKNRegressor), entries(DeepEnsembleRegressor)
    shared = bdkn.keys() & ensemble.keys() - SPECIFIC
    assert len(shared) > 25
    assert {name: bdkn[name] for name in shared} == {name: ensemble[name] for name in shared}


@pytest.mark.parametrize("cls", BOTH)
def test_every_parameter_is_documented(cls: type) -> None:
    assert set(inspect.signature(cls).parameters) <= entries(cls).keys()
