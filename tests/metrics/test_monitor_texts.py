"""Texts that are not what a monitor wrote."""

from __future__ import annotations

import json

import pytest

from bdkn.errors import InvalidParameterError
from bdkn.metrics import Monitor


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "[" * 100_000, "3"])
def test_other_texts_are_refused(text):
    with pytest.raises(InvalidParameterError, match=r"text must be what Monitor\.to_json wrote; this is not \("):
        Monitor.from_json(text)


@pytest.mark.parametrize(
    ("name", "value", "works"), [("alarm_row", 1, True), ("alarm_row", 0, False), ("start", 0, True)]
)
def test_rows_are_counted_from_one_and_starts_from_zero(name, value, works):
    state = {**json.loads(Monitor().to_json()), name: value}
    if works:
        assert getattr(Monitor.from_json(json.dumps(state)), name) == value
    else:
        with pytest.raises(InvalidParameterError, match=f"{name} must"):
            Monitor.from_json(json.dumps(state))
