"""Fits of these tests grow small forests, except in files about densities, memory, and what users are shown."""

import pytest

FULL = (
    "test_density.py",
    "test_docstrings.py",
    "test_few_rows.py",
    "test_guarantee.py",
    "test_memory.py",
    "test_useless_members.py",
)


@pytest.fixture(scope="module", autouse=True)
def _small_forests_elsewhere(request):
    if request.path.name not in FULL:
        request.getfixturevalue("small_forests")
