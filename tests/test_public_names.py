import importlib.metadata
import subprocess
import sys

import pytest

import bdkn


@pytest.mark.parametrize("name", bdkn.__all__)
def test_every_public_name_resolves(name):
    assert getattr(bdkn, name) is not None
    assert name in dir(bdkn)


def test_all_and_the_lazy_table_agree():
    assert sorted(bdkn.__all__) == sorted(["__version__", *(name for names in bdkn._HOME.values() for name in names)])
    assert bdkn.__all__ == sorted(bdkn.__all__)


def test_star_import():
    names = {}
    exec("from bdkn import *", names)
    assert set(bdkn.__all__) <= names.keys()


def test_version():
    assert bdkn.__version__ == importlib.metadata.version("bdkn")


def test_unknown_names():
    with pytest.raises(AttributeError, match="module 'bdkn' has no attribute 'Nothing'; its names are BDKNError, "):
        _ = bdkn.Nothing


def test_import_is_quick_and_loads_nothing_heavy():
    heavy = ("torch", "numba", "matplotlib", "sklearn", "scipy", "numpy", "pandas")
    script = (
        "import sys, time; start = time.perf_counter(); import bdkn; took = time.perf_counter() - start; "
        f"print(took, *[name for name in {heavy} if name in sys.modules])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in range(3)
    ]
    reports = [run.stdout.split() for run in runs]
    assert all(len(report) == 1 for report in reports), reports
    assert min(float(report[0]) for report in reports) < 0.1


def test_the_regressors_load_neither_torch_nor_matplotlib_nor_numba():
    heavy = ("torch", "matplotlib", "numba")
    script = f"import sys, bdkn; bdkn.BDKNRegressor(); print(*[name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
