"""Every Python block and every command of README and documentation runs as it stands, page by page.

The blocks of a page run in its order, in one namespace and one folder, which holds the tables of ``examples/data``. A
block below a line ``<!-- not run: reason -->`` is shown only. Pages of the gallery are run by ``test_gallery.py``, two
other pages by tests that also look at what is printed or written. Networks are trained for a few epochs.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from bdkn.networks import settings as training_settings

ROOT = Path(__file__).parent.parent
TEXTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "reproduction/README.md")]
PAGES = [*TEXTS, *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "gallery")]

FENCE = re.compile(
    r"(?:^<!-- not run: (?P<why>.+?) -->\n+)?^```(?P<language>\w+)\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE
)

COVERED = {
    r"pip install .*": "the environments that make creates",
    r"make demo": "tests/cli/test_demo.py",
    r"make (test|docs|bare|paper|bench)": "the rules of the Makefile",
    r"python3? -m venv .*|/tmp/fresh/bin/.*|\.rivals/.*/pip .*|du -sm .*": "installations, which need a network",
    r"(OMP_NUM_THREADS=1 )?bdkn-paper .*": "reproduction/tests/cli",
    r"python (reproduction/)?benchmarks/.*": "records, which take minutes to hours",
}
"""Commands that are not run here, and what covers them."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    code: str
    line: int
    why_not: str | None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(found["language"], found["code"], text[: found.start("code")].count("\n"), found["why"])
        for found in FENCE.finditer(text)
    ]


def script_of(block: Block) -> str:
    """Return the commands of a block that are not covered elsewhere, those that go on in the next line as one."""
    lines = block.code.replace("\\\n", " ").splitlines()
    return "\n".join(line for line in lines if not is_covered(re.sub(r"(^|\s+)#.*$", "", line).strip()))


def is_covered(command: str) -> bool:
    return not command or any(re.fullmatch(pattern, command) for pattern in COVERED)


SHORT = {"n_members": 3, "epochs": 10}
"""How many networks are trained for how many epochs, unless a page says so: no word of a page depends on it."""

COMMAND = f"""#!{sys.executable}
from bdkn.__main__ import main
from bdkn.networks import settings

usual = settings.default_size
settings.default_size = lambda n_rows: usual(n_rows)._replace(**{SHORT})
main()
"""


def plain_commands(script: str) -> list[list[str]]:
    """Return the words of each command if all are ``bdkn`` without a pipe; they need no processes of their own."""
    lines = [re.sub(r"\s+#.*$", "", line) for line in script.splitlines()]
    plain = all(line.startswith("bdkn ") and not set(line) & set("|<>;&$`*") for line in lines)
    return [shlex.split(line)[1:] for line in lines] if plain else []


def run_commands(commands: list[list[str]]) -> None:
    """Run commands in this process."""
    from typer.testing import CliRunner

    from bdkn.cli import app

    for words in commands:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"bdkn {shlex.join(words)}\n{done.output}"


def run_script(script: str, folder: Path, commands: Path) -> None:
    """Run the commands of a block in one shell, which stops at the first that fails."""
    (commands / "bdkn").write_text(COMMAND)
    (commands / "bdkn").chmod(0o755)
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language in ("python", "sh", "bash") and block.why_not is None]


RUN_ELSEWHERE = {
    "command-line.md": "tests/cli/test_command_line_guide.py",
    "report.md": "tests/report/test_report_guide.py",
}
"""Pages of the guide that are run by other tests."""

WITH_BLOCKS = [page for page in PAGES if runnable(page) and page.name not in RUN_ELSEWHERE]


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch, small_forests: None) -> None:
    """Let networks of this process be trained for few epochs, and be few, and forests be small."""
    usual = training_settings.default_size
    monkeypatch.setattr(training_settings, "default_size", lambda n_rows: usual(n_rows)._replace(**SHORT))


def test_pages_that_are_run_elsewhere_are() -> None:
    for page, test in RUN_ELSEWHERE.items():
        assert page in (ROOT / test).read_text("utf-8")


@pytest.mark.no_cover
@pytest.mark.usefixtures("short_training")
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=[str(page.relative_to(ROOT)) for page in WITH_BLOCKS])
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(page.relative_to(ROOT))
    shutil.copytree(ROOT / "examples" / "data", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in runnable(page):
        if block.language == "python":
            code = compile("\n" * block.line + block.code, name, "exec", dont_inherit=True)
            exec(code, namespace)
        elif commands := plain_commands(script := script_of(block)):
            run_commands(commands)
        elif script:
            run_script(script, tmp_path, tmp_path_factory.mktemp("bin"))


def test_languages_of_blocks_are_known() -> None:
    known = {"python", "sh", "text", "toml", "json", "html", "csv"}
    for page in PAGES:
        assert {block.language for block in blocks_of(page)} <= known, page


def test_every_page_with_a_fence_is_read() -> None:
    for page in PAGES:
        assert page.read_text("utf-8").count("\n```") <= 2 * len(blocks_of(page)) + 1, page


def test_install_lines_name_extras_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = {
        extra
        for page in PAGES
        for group in re.findall(r'pip install "bdkn\[([\w,-]+)\]"', page.read_text("utf-8"))
        for extra in group.split(",")
    }
    assert named
    assert named <= set(extras)


def test_scripts_are_blocks_without_what_is_covered() -> None:
    block = Block("sh", "# words\nmake demo    # and more\nbdkn fit a.csv \\\n  --out b\n", 0, None)
    assert script_of(block) == "bdkn fit a.csv    --out b"
    assert not is_covered("make demo && bdkn fit a.csv")


def test_plain_commands_are_told_from_scripts() -> None:
    assert plain_commands("bdkn fit 'a b.csv' --out c    # words; and more\nbdkn inspect c") == [
        ["fit", "a b.csv", "--out", "c"],
        ["inspect", "c"],
    ]
    for script in ("", "bdkn inspect c | head", "bdkn inspect c\nls", "bdkn fit *.csv"):
        assert plain_commands(script) == []


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no-such-file"):
        run_commands([["inspect", str(tmp_path / "no-such-file")]])
    run_script("python - <<'END'\nprint(1)\nEND\ntrue", tmp_path, tmp_path)
    with pytest.raises(AssertionError, match="no-such-file"):
        run_script("ls no-such-file\ntrue", tmp_path, tmp_path)
