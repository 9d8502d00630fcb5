"""The scripts that compare numbers, in short."""

import numpy as np
import pytest

from closed_forms import LeftOut, OneTarget, SeveralTargets, compare
from invariances import combinations, run, scores, statistics, threads
from simulated_calibration import one_target, several_targets, simulate


@pytest.mark.parametrize("kind", [OneTarget, SeveralTargets, LeftOut])
def test_closed_forms_agree_with_many_digits(kind):
    wrong, remark = compare(20, kind, seed=1)
    assert wrong == 0, remark


def test_a_wrong_answer_is_seen(monkeypatch):
    right = OneTarget.computed
    monkeypatch.setattr(OneTarget, "computed", lambda self: {**right(self), "b": 1.001 * right(self)["b"]})
    assert compare(5, OneTarget, seed=1)[0] == 5


@pytest.mark.no_cover
@pytest.mark.parametrize("one", [one_target, several_targets])
def test_simulated_parameters_look_like_draws_from_the_posterior(one):
    for name, values in simulate(60, one, seed=1).items():
        assert abs(values.mean() - 0.5) < 0.2, name
        assert np.all((values > 0) & (values < 1)), name


@pytest.mark.parametrize("trial", [statistics, combinations, scores])
def test_results_do_not_depend_on_order(trial):
    assert run(trial, 10, seed=1) == 0


@pytest.mark.filterwarnings("ignore")
def test_results_do_not_depend_on_threads():
    assert run(threads, 2, seed=1) == 0
