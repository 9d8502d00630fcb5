"""The script that changes the source: what it changes, and that a change reaches the code that runs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from bdkn.metrics import scores as rows
from bdkn.predictive import Gaussian
from bdkn.predictive.location_scale import normal_logpdf


def test_each_mutant_is_one_change_that_can_be_compiled():
    from mutation.mutants import SOURCE, mutants_of

    source = (SOURCE / "metrics/scores.py").read_text(encoding="utf-8")
    mutants = mutants_of("metrics/scores.py")
    assert len({mutant.key for mutant in mutants}) == len(mutants) > 20
    for mutant in mutants:
        former = mutant.place.put(mutant.new)
        compile(mutant.module, "data/rows.py", "exec")
        mutant.place.put(former)
        assert mutant.before != mutant.after
        assert 1 < mutant.line <= len(source.splitlines())
    errors = {mutant.after for mutant in mutants if "must hold" in mutant.before}
    assert errors == {"pass"}  # an error may be left out, but its text is left alone


@pytest.mark.no_cover
def test_a_mutant_runs_wherever_its_function_is_known():
    from mutation.applying import apply, living_functions
    from mutation.mutants import mutants_of

    functions, given = living_functions(), normal_logpdf.__code__
    mutant = next(
        m for m in mutants_of("predictive/location_scale.py") if m.key.endswith("(2 * np.pi) -> np.log1p(2 * np.pi)::0")
    )
    expected = Gaussian([0.0], [1.0]).logpdf([1.0])
    try:
        apply(mutant, functions)
        changed = Gaussian([0.0], [1.0]).logpdf([1.0])
    finally:
        normal_logpdf.__code__ = given
    np.testing.assert_allclose(changed, -0.5 - np.log1p(2 * np.pi) / 2)
    np.testing.assert_array_equal(Gaussian([0.0], [1.0]).logpdf([1.0]), expected)


def test_tests_that_run_a_line_are_those_asked():
    from mutation.mutants import SOURCE, mutants_of
    from mutation.session import lines_of

    first, last = rows.average.__code__.co_firstlineno, max(line for *_, line in rows.average.__code__.co_lines())
    for mutant in mutants_of("metrics/scores.py"):
        if mutant.owner_name == "average":
            assert all(
                path == str(SOURCE / "metrics/scores.py") and first < line <= last for path, line in lines_of(mutant)
            )


def test_results_hold_until_the_file_or_the_test_that_noticed_it_changes(tmp_path, monkeypatch):
    from mutation import results

    source, tests = tmp_path / "src" / "bdkn" / "some.py", tmp_path / "tests" / "test_it.py"
    for path in (source, tests):
        path.parent.mkdir(parents=True)
    source.write_text("one = 1\n", encoding="utf-8")
    tests.write_text("import os\nfrom some import one\n\ndef test_one():\n    assert one == 1\n", encoding="utf-8")
    monkeypatch.setattr(results, "SOURCE", source.parent)
    mutants = [SimpleNamespace(key=f"some.py::module::constant::{i}", file="some.py") for i in range(2)]
    lines = [
        results.stamped(mutants[0], "failed", "tests/test_it.py::test_one"),
        results.stamped(mutants[1], "survived", ""),
    ]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    def held():
        for cached in (results.digest_of_source, results.digest_of_test, results._parts):
            cached.cache_clear()
        return [int(key[-1]) for key in results.read_results(tmp_path / "m.jsonl")]

    assert held() == [0, 1]
    former = tests.read_text(encoding="utf-8")
    tests.write_text("import sys\n" + former + "\ndef test_two():\n    assert True\n", encoding="utf-8")
    assert held() == [0, 1]
    tests.write_text(former.replace("== 1", "> 0"), encoding="utf-8")
    assert held() == [1]
    tests.write_text(former, encoding="utf-8")
    source.write_text("one = 2\n", encoding="utf-8")
    assert held() == []
    (tmp_path / "m.jsonl").write_text("", encoding="utf-8")
    held()  # nothing of this folder is remembered
