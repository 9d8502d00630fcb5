"""Docstrings of all regressors: every parameter with its default, attributes that exist, and examples that run."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest

import bdkn.estimators.registry
from bdkn.estimators import REGRESSORS

each = pytest.mark.parametrize("cls", REGRESSORS.values(), ids=REGRESSORS)


def entries(cls: type) -> dict[str, str]:
    """Return the text of each documented name, by name and type."""
    found = re.findall(r"^(\w+) : (.*?)(?=^\S|\Z)", inspect.getdoc(cls) or "", flags=re.MULTILINE | re.DOTALL)
    return {name: text.strip() for name, text in found}


def run_examples(thing: object, name: str) -> None:
    tests = [test for test in doctest.DocTestFinder().find(thing, name) if test.examples]
    runner = doctest.DocTestRunner()
    assert tests
    for test in tests:
        assert runner.run(test).failed == 0, test.name


@each
def test_every_parameter_is_documented_with_its_default(cls: type) -> None:
    documented = entries(cls)
    for name, value in cls().get_params().items():
        first = documented[name].splitlines()[0]
        assert first.endswith((f"default={value!r}".replace("'", '"'), f"default={value}")), (name, first)


@each
def test_every_attribute_that_is_documented_exists(cls: type) -> None:
    set_by_fit = {"model_"}
    attributes = {name for name in entries(cls) if name.endswith("_")}
    assert set_by_fit < attributes
    assert all(isinstance(getattr(cls, name), property) for name in attributes - set_by_fit)


@each
def test_no_shared_text_is_missing(cls: type) -> None:
    assert not re.search(r"^ *<[\w ]+>$", cls.__doc__ or "", flags=re.MULTILINE)


@pytest.mark.no_cover
@each
def test_examples_run(cls: type) -> None:
    run_examples(cls, cls.__name__)


def test_the_example_of_load_runs() -> None:
    run_examples(bdkn.estimators.registry.load, "load")


def test_the_settings_of_the_paper_are_requested_alike() -> None:
    found = {name: inspect.signature(cls.from_paper) for name, cls in REGRESSORS.items() if hasattr(cls, "from_paper")}
    assert set(REGRESSORS) == set(found)
    assert len({str(signature.replace(return_annotation="")) for signature in found.values()}) == 1
