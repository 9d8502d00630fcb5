"""No code of the library executes what a file holds: no pickles, no eval, no shell, no YAML."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = [ROOT / "src" / "bdkn", ROOT / "reproduction" / "src" / "bdkn_paper"]
FORBIDDEN_CALLS = {"eval", "exec", "compile", "os.system", "os.popen", "joblib.load", "torch.load", "yaml.load"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "yaml"}
ALLOWED = {
    "testing/regressors.py",  # checks that regressors can be pickled; it reads what it wrote in memory
    "kernels/code_cache.py",  # reads compiled code that this user or root wrote, by its digest
}


def faults(source):
    """Return the calls and imports of a module that could execute what a file holds."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [part.name for part in node.names]
            found += [name for name in names if name.partition(".")[0] in FORBIDDEN_MODULES]
        if isinstance(node, ast.Call):
            found += [name for name in [ast.unparse(node.func)] if name in FORBIDDEN_CALLS]
            keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
            found += [name for name in ("allow_pickle", "shell") if keywords.get(name) == "True"]
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_module_executes_what_a_file_holds(folder):
    modules = [path for path in sorted(folder.rglob("*.py")) if path.relative_to(folder).as_posix() not in ALLOWED]
    assert len(modules) > 50
    assert {str(path): found for path in modules if (found := faults(path.read_text("utf-8")))} == {}


def test_what_would_execute_is_seen():
    source = "import pickle\nfrom yaml import load\neval('1')\nos.system('x')\nnp.load(f, allow_pickle=True)"
    assert set(faults(source)) == {"pickle", "yaml", "eval", "os.system", "allow_pickle"}
