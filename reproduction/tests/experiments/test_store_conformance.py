"""The folder of records conforms to the suite for stores, and the suite finds stores that do not."""

from __future__ import annotations

import pytest

from bdkn_paper.store import Store
from bdkn_paper.testing import check_store


def test_the_folder_conforms(tmp_path):
    check_store(lambda: Store(tmp_path))


class Forgetful(Store):
    def put(self, record):
        pass


class Greedy(Store):
    def get(self, cell):
        return next(iter(self), None)


@pytest.mark.parametrize(("cls", "statement"), [(Forgetful, "as it was put"), (Greedy, "other cells")])
def test_a_store_that_breaks_a_rule_is_named_by_the_rule(cls, statement, tmp_path):
    with pytest.raises(AssertionError, match=statement):
        check_store(lambda: cls(tmp_path))
