"""The script that sends odd inputs runs, and finds nothing wrong in a short run."""

from __future__ import annotations

import pytest

pytest.importorskip("polars")
inputs = pytest.importorskip("inputs")


@pytest.mark.parametrize("part", ["metrics", "methods", "constructors", "joint", "monitor", "figures", "experiments"])
def test_no_odd_argument_of_cheap_functions_is_answered_wrongly(part):
    judge = inputs.Judge()
    inputs.try_part(judge, inputs.PARTS[part][0], 25)
    assert sum(judge.tried.values()) >= 25
    assert not judge.faults, judge.show()


@pytest.mark.parametrize("part", ["parameters", "fits", "questions"])
def test_no_odd_argument_of_regressors_is_answered_wrongly(part):
    judge = inputs.Judge()
    inputs.try_part(judge, inputs.PARTS[part][0], 20)
    assert not judge.faults, judge.show()


def test_a_wrong_answer_is_found():
    judge = inputs.Judge()
    judge.call("part", "entry", lambda: 1 / 0, given="nothing")
    judge.call("part", "entry", lambda: float("nan"), given="nothing", must="refuse")
    judge.call("part", "entry", lambda: [][1], given="nothing")
    assert judge.wrong["part"] == 3
