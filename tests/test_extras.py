"""Without the optional packages the core works, and everything else names the extra to install."""

import json
import subprocess
import sys

import pytest

OPTIONAL = [
    *("matplotlib", "jinja2", "markupsafe", "typer", "click", "rich", "pandas", "polars", "pyarrow", "pooch"),
    *("dask", "torch"),
]

HIDE = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
"""

ROWS = """
import numpy as np
import bdkn
X = np.random.default_rng(0).normal(size=(40, 2))
y = X[:, 0] + 0.1 * X[:, 1]
settings = {"n_members": 2, "cv": 2, "epochs": 2, "random_state": 0}
"""

USES = {
    "from bdkn.plots import CurveDisplay; CurveDisplay.from_estimator(object(), X, y)": ("matplotlib", "plots"),
    "from bdkn.plots import PITDisplay; PITDisplay.from_estimator(object(), X, y)": ("matplotlib", "plots"),
    "from bdkn.plots import WeightsDisplay; WeightsDisplay.from_estimator(object())": ("matplotlib", "plots"),
    "from bdkn.plots.display import prepare_axes; prepare_axes(None)": ("matplotlib", "plots"),
    "from bdkn.plots import save_figure; save_figure(object(), 'folder', 'stem')": ("matplotlib", "plots"),
    "model = bdkn.BDKNRegressor(**settings).fit(X, y); model.report(X, y, 'page.html')": ("jinja2", "report"),
    "bdkn.BDKNRegressor(**settings, verbose=1).fit(X, y)": ("rich", "progress"),
    "bdkn.BDKNRegressor(**settings, engine='torch').fit(X, y)": ("torch", "torch"),
    "bdkn.ParquetRows('rows.parquet', 'y')": ("pyarrow", "files"),
    "bdkn.DaskRows(X, 'y')": ("dask", "dask"),
    "bdkn.BDKNRegressor(**settings).fit(X, y).member_report()": ("pandas", "frames"),
}


def run(script, hidden):
    """Run a script in a process that finds none of the packages in ``hidden``."""
    script = f"HIDDEN = {hidden!r}\n{HIDE}\n{script}"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_without_extras_the_core_works_and_what_needs_a_package_names_its_extra(tmp_path):
    script = f"""{ROWS}
import json
from bdkn.errors import MissingExtraError
model = bdkn.BDKNRegressor(**settings).fit(X, y)
dist = model.predict_dist(X)
assert np.isfinite([model.log_score(X, y), bdkn.crps(y, dist), bdkn.calibration_error(y, dist)]).all()
model.save(r"{tmp_path / "model.bdkn"}")
assert np.array_equal(bdkn.load(r"{tmp_path / "model.bdkn"}").predict(X), model.predict(X))
messages = {{}}
for use in {[*USES]!r}:
    try:
        exec(use)
    except MissingExtraError as error:
        messages[use] = str(error)
print(json.dumps(messages))
"""
    done = run(script, OPTIONAL)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith("bdkn: compiling")] == []
    assert json.loads(done.stdout) == {
        use: f'this needs {package}, which is not installed; run: pip install "bdkn[{extra}]"'
        for use, (package, extra) in USES.items()
    }


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_the_command_without_its_packages_prints_one_line(package):
    done = run("from bdkn.__main__ import main; main()", [package])
    line = f'Error: this needs {package}, which is not installed; run: pip install "bdkn[cli]"\n'
    assert (done.returncode, done.stdout, done.stderr) == (1, "", line)


def test_the_demo_checks_its_packages_before_it_fits(tmp_path):
    words = ["bdkn", "demo", "--out", str(tmp_path / "report")]
    script = f"""
from bdkn.__main__ import main
sys.argv = {words!r}
for HIDDEN in (["jinja2"], ["matplotlib"]):
    try:
        main()
    except SystemExit as ended:
        print(ended.code)
"""
    done = run(script, [])
    line = 'Error: this needs {}, which is not installed; run: pip install "bdkn[report]"\n'
    assert (done.stdout, done.stderr) == ("2\n2\n", line.format("jinja2") + line.format("matplotlib"))
    assert not (tmp_path / "report").exists()
