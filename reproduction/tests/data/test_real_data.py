"""The real tables, where they are at hand: BDKN_DATA names the folder."""

import os
from pathlib import Path

import numpy as np
import pytest
import source_files

from bdkn_paper.data import DATASETS, DataError, describe, fetch, load_dataset
from bdkn_paper.data import folder as folders

FOLDER = os.environ.get("BDKN_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="BDKN_DATA names no folder of data")
FILES = [name for name in DATASETS if name not in ("song", "sarcos-clean")]
MEAN_SD = {
    "boston": (22.533, 9.188),
    "concrete": (35.818, 16.698),
    "energy": (22.307, 10.084),
    "kin8nm": (0.7143, 0.2636),
    "naval": (0.9750, 0.01472),
    "power": (454.365, 17.066),
    "protein": (7.7485, 6.1182),
    "wine": (5.6360, 0.8073),
    "yacht": (10.4954, 15.1359),
}


def table(name):
    path = Path(FOLDER) / DATASETS[name].filename
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return folders.read(path)


@pytest.mark.parametrize("name", DATASETS)
def test_they_match_their_fingerprints(name):
    table(name)
    data = load_dataset(name, FOLDER)
    assert data.X.shape == (DATASETS[name].rows, DATASETS[name].features)


@pytest.mark.parametrize("name", MEAN_SD)
def test_means_and_deviations_are_the_known_ones(name):
    table(name)
    line = describe(load_dataset(name, FOLDER))
    assert (line.mean, line.sd) == pytest.approx(MEAN_SD[name], rel=1e-3)


@pytest.mark.parametrize("name", FILES)
def test_six_significant_digits_are_enough(name):
    numbers = table(name)
    size = np.floor(np.log10(np.abs(np.where(numbers == 0, 1, numbers))))
    assert DATASETS[name].mismatch(np.round(numbers / 10 ** (size - 5)) * 10 ** (size - 5)) is None


@pytest.mark.parametrize("name", FILES)
def test_single_precision_is_tolerated_exchanged_rows_are_not(name):
    numbers, info = table(name), DATASETS[name]
    assert info.mismatch(numbers.astype(np.float32).astype(np.float64)) is None
    far = len(numbers) * 2 // 3
    assert np.abs(numbers[1] - numbers[far]).max() > 0
    numbers[[1, far]] = numbers[[far, 1]]
    assert info.mismatch(numbers).startswith("its rows are in another order")


@pytest.mark.parametrize("name", ["boston", "concrete", "energy", "kin8nm", "power", "wine", "yacht"])
def test_a_download_in_the_official_format_is_accepted(name, tmp_path, monkeypatch):
    contents = iter(source_files.official(name, table(name)))
    monkeypatch.setattr("bdkn_paper.data.download.download", lambda url: next(contents))
    np.testing.assert_allclose(folders.read(fetch(name, tmp_path)), table(name), rtol=1e-15)


@pytest.mark.no_cover
def test_another_sheet_of_power_is_refused(tmp_path, monkeypatch):
    book = source_files.xlsx({"Sheet5": np.roll(table("power"), 1, axis=0)})
    archive = source_files.zipped("CCPP/Folds5x2_pp.xlsx", book)
    monkeypatch.setattr("bdkn_paper.data.download.download", lambda url: archive)
    with pytest.raises(DataError, match="its rows are in another order"):
        fetch("power", tmp_path)


def test_the_digits_that_uci_has_of_concrete_are_tolerated():
    numbers = table("concrete")
    rounding = np.array([0.05] * 8 + [0.005])
    shift = np.random.default_rng(0).uniform(-1, 1, size=numbers.shape)
    assert DATASETS["concrete"].mismatch(numbers + rounding * shift) is None
    assert DATASETS["concrete"].mismatch(numbers + rounding) is None
    assert DATASETS["concrete"].mismatch(numbers + 3 * rounding) is not None
    assert DATASETS["concrete"].mismatch(np.random.default_rng(0).permutation(numbers)) is not None


def test_the_test_rows_of_sarcos_are_training_rows_over_again():
    numbers = table("sarcos")
    np.testing.assert_allclose(numbers[44484:], numbers[:44484:10], atol=1e-5)


def test_song_begins_as_it_should():
    path = Path(FOLDER) / "song_sample.csv.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    numbers = np.zeros((515345, 91))
    numbers[:10] = folders.read(path)[:10]
    assert DATASETS["song"].mismatch(numbers) is None
