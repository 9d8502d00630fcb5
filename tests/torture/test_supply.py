"""The scripts that try versions and releases: what they read, compare and complain about."""

import importlib
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def supply(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "torture")
    return importlib.import_module("supply")


@pytest.fixture
def release(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "torture")
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
    assert [test for test in supply.TESTS if not (ROOT / test).exists()] == []


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
