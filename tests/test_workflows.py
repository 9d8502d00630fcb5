"""Workflows and hooks call make targets and tools that exist, and know no secrets."""

import re
import runpy
import shlex
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra 'docs'")

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
CHECK = runpy.run_path(str(ROOT / ".ci" / "check_files.py"))


def steps(path):
    """Yield the steps of all jobs of a workflow."""
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        yield from job["steps"]


def called_targets(path):
    """Return the make targets that a workflow calls."""
    words = [shlex.split(step["run"]) for step in steps(path) if "run" in step]
    assert all(line[0] == "make" for line in words), "workflows call make targets only"
    return {word for line in words for word in line[1:] if "=" not in word}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_that_exist_and_know_no_secrets(path):
    assert called_targets(path) <= TARGETS
    text = path.read_text(encoding="utf-8")
    assert "secrets." not in text
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in steps(path) if "uses" in step)


def test_every_system_and_every_supported_python_is_tested():
    tests, release = (next(one for one in WORKFLOWS if one.stem == name) for name in ("tests", "release"))
    assert {"test", "types-user", "bare", "matrix"} <= called_targets(tests)
    assert called_targets(release) == {"release"}
    matrix = yaml.safe_load(tests.read_text(encoding="utf-8"))["jobs"]["core"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = {one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)}
    assert set(matrix["python"]) == told


def test_phony_targets_are_those_of_the_makefile():
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)[1].replace("\\", "").split()
    assert sorted(phony) == sorted(TARGETS)


def test_hooks_are_local_and_call_the_tools_of_make_test():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repo["repo"] == "local"
    assert {hook["language"] for hook in repo["hooks"]} == {"system"}
    assert {"ruff", "ruff-format", "mypy", "lint-imports", "files"} == {hook["id"] for hook in repo["hooks"]}
    scripts = [word for hook in repo["hooks"] for word in hook["entry"].split() if word.endswith(".py")]
    assert scripts
    assert all((ROOT / script).is_file() for script in scripts)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.py", b"x = 1\r\n", "CR LF"),
        ("a.py", b"x = 1 \n", "spaces"),
        ("a.py", b"x = 1", "one end of line"),
        ("a.py", b"x = 1\n\n", "one end of line"),
        ("a.py", b"<<<<<<< ours\n", "unfinished merge"),
        ("a.bin", bytes(2_000_001), "more than 2000000"),
    ],
)
def test_files_with_faults_are_not_committed(tmp_path, capsys, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.py").write_bytes(b"x = 1\n")
    assert CHECK["main"]([str(tmp_path / name), str(tmp_path / "good.py")]) == 1
    assert complaint in capsys.readouterr().out
    assert CHECK["main"]([str(tmp_path / "good.py")]) == 0
