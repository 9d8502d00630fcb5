"""The examples run, if shorter than for a reader."""

import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"

NEEDS = [name for name in ("bdkn_paper", "torch", "gpytorch", "pyro", "vbll") if find_spec(name) is None]


@pytest.mark.no_cover
@pytest.mark.skipif(bool(NEEDS), reason=f"needs {', '.join(NEEDS)}; run: pip install ./reproduction")
def test_eight_methods_on_one_curve(tmp_path, capsys):
    example = runpy.run_path(str(FOLDER / "plot_eight_methods.py"))
    for model in example["METHODS"].values():
        model.set_params(epochs=3)
    example["main"](tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    table = capsys.readouterr().out.splitlines()
    assert [line[:14].strip() for line in table[1:]] == [*example["METHODS"]]
    assert len(example["METHODS"]) == 8


@pytest.mark.no_cover
def test_width_over_two_columns(tmp_path, capsys):
    example = runpy.run_path(str(FOLDER / "plot_width.py"))
    for name in ("BDKN", "Deep ensemble"):
        example["MODELS"][name].set_params(n_members=2, epochs=3)
    example["TREES"][0][1].set_params(n_estimators=10)
    example["MODELS"]["Stack of trees"].set_params(members=example["TREES"][:1])
    example["main"](tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    table = capsys.readouterr().out.splitlines()
    assert [line[:16].strip() for line in table[1:]] == [*example["MODELS"]]
