"""Fits of these tests grow small forests, except in files that are about links, densities and how good they are."""

import pytest

FULL = ("test_density.py", "test_few_rows.py", "test_guarantee.py", "test_target.py", "test_useless_members.py")


@pytest.fixture(scope="module", autouse=True)
def _small_forests_elsewhere(request):
    if request.path.name not in FULL:
        request.getfixturevalue("small_forests")
