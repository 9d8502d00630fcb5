"""Nothing needs what only POSIX systems have, and texts are read and written with a stated encoding.

What Windows lacks is hidden here: modules cannot be imported, and names of ``os`` and ``signal`` are not there.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "reproduction/src", "docs/tools", "tests/stress", "benchmarks", "examples")
SHIPPED = ("src", "reproduction/src")

MODULES = {
    *("fcntl", "grp", "posix", "pwd", "pty", "readline", "resource", "spwd", "syslog", "termios", "tty"),
    *("crypt", "nis", "ossaudiodev"),
}
NAMES = {
    "os": {
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC"),
        *(
            "chown",
            "chroot",
            "fchdir",
            "fchmod",
            "fchown",
            "fork",
            "forkpty",
            "geteuid",
            "getegid",
            "getgid",
            "getgroups",
        ),
        *(
            "getloadavg",
            "getpgid",
            "getpgrp",
            "getpriority",
            "getsid",
            "getuid",
            "initgroups",
            "killpg",
            "lchown",
            "lockf",
        ),
        *(
            "mkfifo",
            "mknod",
            "nice",
            "openpty",
            "pathconf",
            "pipe2",
            "posix_fallocate",
            "posix_spawn",
            "pread",
            "pwrite",
        ),
        *(
            "register_at_fork",
            "sched_getaffinity",
            "sched_setaffinity",
            "sendfile",
            "setpgid",
            "setsid",
            "setuid",
            "sync",
        ),
        *("statvfs", "sysconf", "uname", "wait", "wait3", "wait4", "waitid", "WNOHANG", "memfd_create"),
    },
    "signal": {
        *("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGTSTP", "SIGUSR1", "SIGUSR2"),
        *("alarm", "pause", "pthread_kill", "pthread_sigmask", "setitimer", "siginterrupt", "sigpending", "sigwait"),
    },
}
"""Names that Windows lacks, by module."""

WORDS = re.compile(rf"\b({'|'.join(sorted(MODULES.union(*NAMES.values())))})\b")
OPENS = re.compile(r"\b(read_text|write_text|open|fdopen|\w*TemporaryFile)\(")


def sources(folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def parsed(text):
    """Return a syntax tree whose nodes know the node above them."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.above = node
    return tree


def is_guarded(node):
    """Return whether a node stands where its absence is expected: in a try for it, or below a question about it."""
    while (above := getattr(node, "above", None)) is not None:
        if isinstance(above, ast.Try) and node in above.body:
            caught = {
                name.id for one in above.handlers for name in ast.walk(one.type or one) if isinstance(name, ast.Name)
            }
            if caught & {"AttributeError", "ImportError", "ModuleNotFoundError"}:
                return True
        if isinstance(above, (ast.If, ast.IfExp)) and node is not above.test:
            asked = ast.unparse(above.test)
            if any(word in asked for word in ("hasattr", "os.name", "sys.platform", "TYPE_CHECKING")):
                return True
        node = above
    return False


def posix_uses(text):
    """Return the names of POSIX that a module uses without a guard, with their lines."""
    found = []
    if not WORDS.search(text):
        return found
    for node in ast.walk(parsed(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module:
            here = NAMES.get(node.module, ())
            names = [node.module] if node.module in MODULES else [one.name for one in node.names if one.name in here]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"] if node.attr in NAMES.get(node.value.id, ()) else []
        found += [f"line {node.lineno}: {name}" for name in names if not is_guarded(node)]
    return found


def test_what_only_posix_has_is_guarded():
    found = {str(path.relative_to(ROOT)): posix_uses(path.read_text(encoding="utf-8")) for path in sources(SHIPPED)}
    assert {path: uses for path, uses in found.items() if uses} == {}


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("import fcntl", 1),
        ("from os import fork", 1),
        ("import os\nos.fork()", 1),
        ("def f():\n    import resource", 1),
        ("try:\n    import resource\nexcept ImportError:\n    resource = None", 0),
        ("try:\n    import resource\nexcept ValueError:\n    resource = None", 1),
        ("import os\nif hasattr(os, 'fork'):\n    os.fork()", 0),
        ("import os\nx = os.getuid() if hasattr(os, 'getuid') else 0", 0),
        ("import os\nos.replace('a', 'b')", 0),
        ("import signal\nsignal.SIGKILL", 1),
    ],
)
def test_unguarded_uses_are_found(text, uses):
    assert len(posix_uses(text)) == uses


def unstated_encodings(text):
    """Return the lines on which a text file is opened, read or written without an encoding."""
    found = []
    if not OPENS.search(text):
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and not _states_encoding(node):
            found.append(f"line {node.lineno}: {ast.unparse(node)[:60]}")
    return found


def _states_encoding(call):
    """Return True unless a call opens a text file with the encoding of the system."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if any(keyword.arg in ("encoding", None) for keyword in call.keywords):
        return True
    if name == "read_text":
        return len(call.args) > 0 or not isinstance(call.func, ast.Attribute)
    if name == "write_text":
        return len(call.args) > 1
    if name in ("open", "fdopen", "NamedTemporaryFile", "TemporaryFile"):
        return _is_binary(call, name)
    return True


def _is_binary(call, name):
    """Return whether the mode of a call that opens a file says that bytes are read or written."""
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if owner in ("webbrowser", "Image", "os", "tarfile", "zipfile") and name == "open":
        return True
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    modes = [
        one.value for one in (*call.args, *by_name) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    given = [mode for mode in modes if set(mode) <= set("rwaxbt+") and mode]
    text_mode = "r" if name in ("open", "fdopen") and owner != "gzip" else "b"
    return "b" in (given[-1] if given else text_mode) or (owner == "gzip" and "t" not in "".join(given))


def test_texts_have_a_stated_encoding():
    found = {
        str(path.relative_to(ROOT)): unstated_encodings(path.read_text(encoding="utf-8")) for path in sources(FOLDERS)
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("open(path)", 1),
        ("open(path, 'w')", 1),
        ("open(path, 'rb')", 0),
        ("open(path, encoding='utf-8')", 0),
        ("path.open('w')", 1),
        ("path.open('xb')", 0),
        ("path.read_text()", 1),
        ("path.read_text('utf-8')", 0),
        ("path.write_text(text)", 1),
        ("path.write_text(text, 'utf-8')", 0),
        ("gzip.open(path, 'rb')", 0),
        ("gzip.open(path, 'rt')", 1),
        ("os.open(path, flags)", 0),
    ],
)
def test_unstated_encodings_are_found(text, lines):
    assert len(unstated_encodings(text)) == lines


HIDDEN = """
import importlib, pkgutil, sys
import joblib, matplotlib.pyplot, numba, numpy as np, pandas, pyarrow.csv, pyarrow.parquet, rich.console, typer
import scipy.stats, sklearn.ensemble
import asyncio, concurrent.futures.process, multiprocessing.context, subprocess, tempfile
TORCH = ("torch",)  # not tested here
sys.modules.update(dict.fromkeys([*MODULES, *TORCH]))
for module, names in NAMES.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
import bdkn
for one in pkgutil.walk_packages(bdkn.__path__, "bdkn."):
    if one.name != "bdkn.__main__":
        try:
            importlib.import_module(one.name)
        except ImportError as error:
            assert error.name in TORCH, error
X = np.random.default_rng(0).normal(size=(40, 2))
model = bdkn.BDKNRegressor(n_members=2, cv=2, epochs=2, density="student-t", random_state=0).fit(X, X[:, 0])
model.save("model.bdkn")
assert np.array_equal(bdkn.load("model.bdkn").predict(X), model.predict(X))
from bdkn.environment import describe_machine
describe_machine()
from bdkn.table_files import read_table
pandas.DataFrame({"a": [1.0, 2.0], "b": ["x", "ü"]}).to_csv("table.csv", encoding="utf-8", lineterminator="\\r\\n")
assert list(read_table("table.csv")["b"]) == ["x", "ü"]
from bdkn.cli import app
from typer.testing import CliRunner
assert CliRunner().invoke(app, ["inspect", "model.bdkn"]).exit_code == 0
print("well")
"""


def test_without_posix_everything_is_imported_fitted_and_saved(tmp_path):
    script = (
        f"MODULES = {sorted(MODULES)!r}\nNAMES = { ({name: sorted(each) for name, each in NAMES.items()})!r}\n{HIDDEN}"
    )
    command = [sys.executable, "-X", "utf8=0", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr


def test_no_script_hides_a_module_of_the_standard_library():
    """The folder of a script comes first in the path of modules: one called ``encodings`` would end Python's start."""
    scripts = {
        path.stem for folder in ("benchmarks", "tests/stress", "docs/tools") for path in (ROOT / folder).glob("*.py")
    }
    assert scripts & sys.stdlib_module_names == set()
