"""Every public name has a numpydoc docstring with parameters, returns and an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import types

import pytest

from bdkn.estimators import REGRESSORS

PACKAGES = (
    "bdkn",
    "bdkn.analysis.inspection",
    "bdkn.inference",
    "bdkn.metrics",
    "bdkn.plots",
    "bdkn.predictive",
    "bdkn.testing",
)

EXTRAS = {"bdkn.DaskRows": "dask", "bdkn.TorchEngine": "torch"}
"""Packages that the examples of some names need."""

METHODS_OF = re.compile(r"bdkn\.(plots|estimators|networks|data\.(sources|parquet|dask_rows))\.")
"""Modules whose public methods have sections, too."""

NAMES = [
    f"{package}.{name}"
    for package in PACKAGES
    for name in importlib.import_module(package).__all__
    if not name.startswith("__")
]


def resolve(name):
    package, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(package), attribute)


def missing_sections(thing):
    """Return the sections that a docstring should have and does not have.

    A function without parameters needs no Parameters, a function that returns None has Raises in place of Returns, and
    classes need no Returns.
    """
    text = inspect.getdoc(thing) or ""
    wanted = ["Examples"]
    if inspect.isclass(thing):
        wanted += [] if issubclass(thing, BaseException) else ["Parameters"]
    else:
        signature = inspect.signature(thing)
        wanted += ["Parameters"] if signature.parameters else []
        wanted += ["Raises"] if signature.return_annotation in (None, "None") else ["Returns"]
    found = [section for section in wanted if f"\n{section}\n{'-' * len(section)}\n" in text]
    return [section for section in wanted if section not in found] + ([] if ">>>" in text else ["an example that runs"])


@pytest.mark.parametrize("name", NAMES)
def test_docstring_has_its_sections(name):
    missing = missing_sections(resolve(name))
    assert not missing, f"the docstring of {name} lacks: {', '.join(missing)}"


def public_methods():
    """Return the public methods of regressors, engines and displays by their qualified names."""
    owners = [resolve(name) for name in NAMES if name.rpartition(".")[0] in ("bdkn", "bdkn.plots")]
    found = {}
    for owner in filter(inspect.isclass, owners):
        for name in dir(owner):
            method = inspect.unwrap(getattr(inspect.getattr_static(owner, name), "__func__", getattr(owner, name)))
            home = getattr(method, "__module__", None) or ""
            if inspect.isfunction(method) and METHODS_OF.match(home) and not name.startswith("_"):
                found[f"{home}.{method.__qualname__}"] = method
    return found


@pytest.mark.parametrize("method", public_methods().values(), ids=public_methods())
def test_methods_have_parameters_and_returns(method):
    text, signature = inspect.getdoc(method) or "", inspect.signature(method)
    if set(signature.parameters) - {"self", "cls"}:
        assert "\nParameters\n----------\n" in text
    if signature.return_annotation not in (None, "None"):
        assert "\nReturns\n-------\n" in text


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("bdkn.predictive.")])
def test_methods_of_distributions_and_links_have_docstrings_if_only_inherited_ones(name):
    owner = resolve(name)
    for method, value in inspect.getmembers_static(owner) if inspect.isclass(owner) else ():
        if not method.startswith("_") and isinstance(value, types.FunctionType | property):
            assert inspect.getdoc(getattr(owner, method)), method


@pytest.mark.parametrize("name", NAMES)
def test_first_line_is_a_sentence(name):
    first, *rest = (inspect.getdoc(resolve(name)) or "").splitlines()
    assert first.endswith(".")
    assert not rest or rest[0] == ""


# Examples of the regressors and of load run in test_docstrings.py, those of their methods, too. Several names of one
# thing have one example.
EXAMPLES = {resolve(name): name for name in NAMES if name.removeprefix("bdkn.") not in (*REGRESSORS, "load")}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", EXAMPLES.values())
def test_examples_run(name):
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    thing = resolve(name)
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    output = []
    for test in finder.find(thing, name, globs={}):
        runner.run(test, out=output.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(output)
