"""The page of dependencies has the licence of every package, and none of a user's packages is copyleft."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LICENCES = runpy.run_path(str(ROOT / "docs" / "tools" / "licences.py"))
COPYLEFT, closure, licence = LICENCES["COPYLEFT"], LICENCES["closure"], LICENCES["licence"]
USERS = [extra for extra in LICENCES["EXTRAS"] if extra not in ("docs", "test", "release", "bench")]


@pytest.fixture(scope="module")
def listed():
    text = LICENCES["PARTS"].search(LICENCES["PAGE"].read_text(encoding="utf-8"))[0]
    rows = re.findall(r"^\| ([\w.-]+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    return {name: (told, by) for name, told, by in rows if name not in ("package", "---")}


def test_every_declared_dependency_has_its_licence_on_the_page(listed):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {canonicalize_name(Requirement(line).name) for line in lines} - {"bdkn"}
    assert declared - listed.keys() == set()
    assert "not stated" not in [told for told, _ in listed.values()]


def test_what_the_core_brings_is_on_the_page_as_installed(listed):
    core = closure("")
    assert {"numpy", "llvmlite", "scikit-learn"} <= core
    assert {name for name, (_, by) in listed.items() if by == "core"} >= core - {"setuptools"}


@pytest.mark.parametrize("extra", USERS)
def test_no_package_for_users_is_copyleft(extra, listed):
    assert [name for name in closure(extra) if COPYLEFT.search(licence(name))] == []
    by = f"`{extra}`" if extra else "core"
    assert [name for name, (told, one) in listed.items() if one == by and COPYLEFT.search(told)] == []


@pytest.mark.parametrize("text", ["GPL-3.0-only", "GNU General Public License v3 (GPLv3)", "LGPL-2.1", "AGPLv3"])
def test_copyleft_is_recognised(text):
    assert COPYLEFT.search(text)
    assert not COPYLEFT.search("BSD-3-Clause AND MPL-2.0")
