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
    with pytest.raises(
        AttributeError, match="module 'bdkn' has no attribute 'Nothing'; its names are ArrayRows, BDKNError, "
    ):
        _ = bdkn.Nothing


def test_import_loads_the_standard_library_and_one_module_of_ours():
    script = "import sys; before = set(sys.modules); import bdkn; print(*(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name for name in run.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert loaded == {"bdkn"}


def test_the_regressors_load_neither_torch_nor_matplotlib_nor_numba():
    heavy = ("torch", "matplotlib", "numba")
    script = f"import sys, bdkn; bdkn.BDKNRegressor(); print(*[name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
