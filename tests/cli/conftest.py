"""A small mixed table, and a model that was fitted to it by the command; both made once."""

import pytest
from flats_table import mixed_table
from small_fits import make_fits_small
from typer.testing import CliRunner

from bdkn.cli import app


@pytest.fixture(autouse=True, scope="module")
def _small_forests(small_forests):
    """Let all fits of these tests grow small forests."""


@pytest.fixture
def small_fits(monkeypatch):
    """Let `bdkn fit` train small networks."""
    make_fits_small(monkeypatch)


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Return a folder with flats.csv, and flats.bdkn, which was fitted to it."""
    folder = tmp_path_factory.mktemp("cli")
    mixed_table().to_csv(folder / "flats.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        make_fits_small(patch)
        words = ["fit", folder / "flats.csv", "--target", "price", "--drop", "id", "--out", folder / "flats.bdkn", "-q"]
        result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    (folder / "fit.txt").write_text(result.stdout)
    return folder


@pytest.fixture
def run():
    """Return a function that runs the command in this process."""
    return lambda *words, **options: CliRunner().invoke(app, list(map(str, words)), **options)
