"""The scripts that try versions and releases: what they read, compare and complain about."""

import importlib
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def supply():
    return importlib.import_module("supply")


@pytest.fixture
def release():
    return importlib.import_module("release")


def test_results_are_counted(supply, tmp_path):
    report = tmp_path / "report.xml"
    cases = '<testcase classname="a" name="good"/><testcase classname="a" name="left"><skipped/></testcase>'
    cases += (
        '<testcase classname="a" name="bad"><failure/></testcase><testcase classname="b" name="ill"><error/></testcase>'
    )
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>", encoding="utf-8")
    assert supply.read_results(report) == (1, 1, ("a.bad", "b.ill"))


def test_other_bits_are_found(supply):
    same = supply.Outcome(3, 0, (), "", {"case: mean": "1", "case: std": "2"})
    other = supply.Outcome(3, 0, (), "", {"case: mean": "1", "case: std": "3"})
    assert supply.compare_bits({"a": same, "b": same}) == (4, "")
    assert supply.compare_bits({"a": same, "b": other}) == (4, "std")


def test_failed_tests_are_wrong_trials(supply):
    record = supply.Record("supply", "title", "command")
    supply.add_outcome(record, "Python 3.11, lowest versions", supply.Outcome(8, 2, ("a.bad",), "numpy 2.0.0", {}))
    (figure,) = record.figures
    assert (figure.tried, figure.wrong) == (9, 1)
    assert figure.remark == "2 skipped, without PyTorch or a browser; numpy 2.0.0; failed: a.bad"


def test_the_tests_of_the_matrix_exist(supply):
    named = [test.partition("::")[0] for test in (*supply.TESTS, *supply.LEFT_OUT)]
    assert [test for test in named if not (ROOT / test).exists()] == []


def test_an_interrupted_matrix_has_tried_the_outermost_environments(supply):
    pairs = [(python, versions) for python in ("3.11", "3.12", "3.13") for versions in ("lowest", "newest")]
    ordered = supply.outermost_first(pairs)
    assert ordered[:3] == [("3.13", "newest"), ("3.11", "lowest"), ("3.13", "lowest")]
    assert sorted(ordered) == sorted(pairs)


def test_lowest_versions_are_those_of_the_project(supply, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(sys.modules["_environments"], "uv", lambda *words: calls.append([str(word) for word in words]))
    supply.create("3.11.7", "python", "lowest", tmp_path / "bdkn.whl", tmp_path)
    _, dependencies, package = calls
    assert {"lowest-direct", str(ROOT / "pyproject.toml"), "test-core"} <= set(dependencies)
    assert package[-3:] == ["--no-deps", "--reinstall", str(tmp_path / "bdkn.whl")]


def test_sets_with_the_same_versions_are_found(supply):
    old, new = (supply.Outcome(3, 0, (), f"numpy {number}", {}) for number in ("2.0.0", "2.4.0"))
    names = [f"Python {python}, {versions} versions" for python in ("3.11.7", "3.12.1") for versions in supply.SETS]
    assert supply.compare_versions(dict(zip(names, (old, new, old, new), strict=True))) == (2, 0)
    assert supply.compare_versions(dict(zip(names, (old, new, new, new), strict=True))) == (2, 1)
    assert supply.compare_versions({names[0]: old}) == (0, 0)


def test_results_without_failures_are_kept(supply, tmp_path):
    path = tmp_path / "outcome.json"
    assert supply.kept_outcome(path) is None
    good = supply.Outcome(8, 2, (), "numpy 2.0.0", {"case: mean": "1"}, 3.5)
    supply.keep_outcome(path, good)
    assert supply.kept_outcome(path) == good
    supply.keep_outcome(path, supply.Outcome(8, 2, ("a.bad",), "numpy 2.0.0", {}))
    assert supply.kept_outcome(path) is None


def test_results_are_kept_for_the_same_package_and_tests_only(supply, monkeypatch, tmp_path):
    monkeypatch.setattr(supply, "ROOT", tmp_path)
    for name in ("pyproject.toml", "src/bdkn/bits.py", "tests/test_bits.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    before = supply.digest(["tests"])
    assert supply.digest(["tests"]) == before != supply.digest(["tests/test_bits.py"])
    for name in ("pyproject.toml", "src/bdkn/bits.py", "tests/test_bits.py"):
        (tmp_path / name).write_text("changed = 1", encoding="utf-8")
        assert supply.digest(["tests"]) != before
        (tmp_path / name).write_text("", encoding="utf-8")


def test_the_record_is_written_after_each_environment(supply, monkeypatch, tmp_path):
    good = supply.Outcome(8, 0, (), "numpy 2.0.0", {"case: mean": "1"})
    written = []
    monkeypatch.setattr(supply, "try_environments", lambda *_: iter([("a", good), ("b", good)]))
    monkeypatch.setattr(supply.Record, "write", lambda record: written.append(len(record.figures)))
    record = supply.Record("supply", "title", "command")
    supply.run(record, supply.Namespace(keep=tmp_path, write=True))
    assert written == [1, 2]
    assert [figure.what for figure in record.figures[:2]] == ["a", "b"]


@pytest.fixture
def built(release, tmp_path):
    """A wheel and a source archive as they should be, made without a build."""
    wheel, archive = tmp_path / "bdkn.whl", tmp_path / "bdkn.tar.gz"
    with zipfile.ZipFile(wheel, "w") as file:
        for name in (*release.package_files(), "bdkn-1.dist-info/METADATA", "bdkn-1.dist-info/licenses/LICENSE"):
            file.writestr(name, "")
    about = ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg")
    with tarfile.open(archive, "w:gz") as file:
        for name in (*about, *(f"src/{name}" for name in release.package_files())):
            file.addfile(tarfile.TarInfo(f"bdkn-1/{name}"))
    return wheel, archive


def test_archives_that_hold_the_package_are_right(release, built):
    assert {"bdkn/py.typed", "bdkn/report/templates/page.html", "bdkn/__init__.py"} <= release.package_files()
    assert release.wheel_differences(built[0]) == []
    assert release.archive_differences(built[1]) == []


def test_too_much_and_too_little_are_found(release, built, tmp_path):
    wheel = shutil.copy(built[0], tmp_path / "more.whl")
    with zipfile.ZipFile(wheel, "a") as file:
        file.writestr("tests/test_extras.py", "")
    assert release.wheel_differences(wheel) == ["has tests/test_extras.py"]
    with zipfile.ZipFile(tmp_path / "less.whl", "w") as file:
        for name in release.package_files() - {"bdkn/py.typed"}:
            file.writestr(name, "")
    assert release.wheel_differences(tmp_path / "less.whl") == ["lacks the licence", "lacks bdkn/py.typed"]


def test_what_fails_is_a_wrong_trial(release):
    record = release.Record("release", "title", "command")

    def fails():
        release.run(release.sys.executable, "-c", "raise SystemExit('no page')")

    release.add_trial(record, "fails", fails)
    release.add_trial(record, "complains", lambda: ["has tests"])
    release.add_trial(record, "holds", lambda: None)
    assert [figure.wrong for figure in record.figures] == [1, 1, 0]
    assert "no page" in record.figures[0].remark
