"""Docstrings of the baselines: every parameter with its default, attributes that exist, and examples that run."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest

import bdkn
import bdkn_paper
from bdkn_paper.baselines import BASELINES

each = pytest.mark.parametrize("cls", BASELINES.values(), ids=BASELINES)


def entries(cls: type) -> dict[str, str]:
    """Return the text of each documented name of a class and its base classes, by name; the class's own text first."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("bdkn_paper."):
            text = inspect.cleandoc(vars(base)["__doc__"])
            found |= re.findall(r"^(\w+) : (.*?)(?=^\S|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return found


@each
def test_every_parameter_is_documented_with_its_default(cls: type) -> None:
    documented = entries(cls)
    for name, value in cls().get_params().items():
        first = documented[name].splitlines()[0]
        assert first.endswith((f"default={value!r}".replace("'", '"'), f"default={value}")), (name, first)


@each
def test_every_attribute_that_is_documented_exists(cls: type) -> None:
    set_by_fit = {"n_features_in_", "feature_names_in_"}
    attributes = {name for name in entries(cls) if name.endswith("_")}
    assert set_by_fit < attributes
    assert all(isinstance(getattr(cls, name), property) for name in attributes - set_by_fit)


@pytest.mark.no_cover
@each
def test_examples_run(cls: type) -> None:
    tests = [test for test in doctest.DocTestFinder().find(cls, cls.__name__) if test.examples]
    runner = doctest.DocTestRunner()
    assert tests
    for test in tests:
        assert runner.run(test).failed == 0, test.name


@each
def test_the_settings_of_the_paper_are_requested_as_those_of_bdkn(cls: type) -> None:
    ours, theirs = (
        inspect.signature(each.from_paper).replace(return_annotation="") for each in (cls, bdkn.BDKNRegressor)
    )
    assert str(ours) == str(theirs)


def test_the_methods_are_names_of_the_package() -> None:
    assert sorted(BASELINES) == bdkn_paper.__all__
    assert all(getattr(bdkn_paper, name) is cls for name, cls in BASELINES.items())
    with pytest.raises(AttributeError, match="module 'bdkn_paper' has no attribute 'Nothing'; its names are BLL"):
        _ = bdkn_paper.Nothing
