from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from bdkn_paper.cli import app
from bdkn_paper.data import DATASETS, DatasetInfo, Fingerprint, Sampled, Shuffled
from bdkn_paper.data import folder as folders
from bdkn_paper.data.fingerprint import statistics

TOY = np.random.default_rng(8).normal(size=(30, 3))


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Leave two small sets in the registry, one of them in the folder."""
    toy = DatasetInfo(
        name="toy",
        title="A toy",
        description="Numbers.",
        target="a number",
        feature_names=("a", "b"),
        rows=30,
        split_rule=Shuffled(30, 3),
        licence="CC0",
        citation="Nobody (2020)",
        uci_id=7,
        fingerprint=Fingerprint(30, tuple(map(tuple, statistics(TOY).tolist()))),
    )
    monkeypatch.delenv("BDKN_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    every = dict(DATASETS)  # given back in its order, which messages show
    DATASETS.clear()
    DATASETS.update(toy=toy, absent=replace(toy, name="absent", licence="CC BY 4.0"))
    folders.write(tmp_path / "toy.csv.gz", TOY)
    yield tmp_path
    DATASETS.clear()
    DATASETS.update(every)


def run(*words):
    return CliRunner().invoke(app, ["data", *map(str, words)])


def cells(output, first):
    (line,) = [line for line in output.splitlines() if line.split()[:1] == [first]]
    return line.split()


def test_list_shows_licences_and_what_is_there(folder):
    output = run("list", "--data", folder).output
    assert cells(output, "toy") == ["toy", "30", "x", "2", "a", "number", "CC0", "yes"]
    assert cells(output, "absent") == ["absent", "30", "x", "2", "a", "number", "CC", "BY", "4.0", "no"]
    assert cells(run("list").output, "toy")[-1] == "no"


def test_list_tells_all_of_a_set(folder):
    output = run("list", "toy").output
    for words in (
        "A toy",
        "Numbers.",
        "a, b",
        "30 rows, 2 features",
        "3, 27 rows to train on",
        "Nobody (2020)",
        "UCI 7",
    ):
        assert words in output


def test_check_says_good(folder):
    result = run("check", "--data", folder)
    assert (result.exit_code, result.output) == (0, "toy: good\n")


def test_check_says_bad(folder):
    folders.write(folder / "toy.csv.gz", TOY[::-1])
    result = run("check", "--data", folder)
    assert result.exit_code == 2
    assert "toy: Error: " in result.stderr
    assert "its rows are in another order" in result.stderr
    assert "1 of 1 failed the check" in result.stderr


def test_check_of_an_absent_set(folder):
    result = run("check", "toy", "absent", "--data", folder)
    assert result.exit_code == 2
    assert result.stdout == "toy: good\n"
    assert "absent needs absent.csv.gz in " in result.stderr


@pytest.mark.parametrize("verb", ["check", "describe"])
def test_an_empty_cache_is_not_filled_by_looking(folder, verb):
    result = run(verb)
    assert result.exit_code == 2
    assert "there is no data set in " in result.stderr
    assert "run: bdkn-paper data fetch" in result.stderr
    assert not (folder / "cache").exists()


def test_describe_prints_the_statistics(folder, monkeypatch):
    output = run("describe", "--data", folder).output
    numbers = [f"{TOY[:, 2].mean():.5g}", f"{TOY[:, 2].std():.5g}"]
    assert cells(output, "toy") == ["toy", "30", "2", "3", "27", "3", *numbers]
    assert "rows there are" not in output
    monkeypatch.setitem(DATASETS, "toy", replace(DATASETS["toy"], split_rule=Sampled(25, 10, 5)))
    assert "toy: a split uses 15 of the 30 rows there are." in run("describe", "--data", folder).output


def test_fetch_keeps_what_is_good_and_goes_on_after_a_failure(folder):
    result = run("fetch", "absent", "toy", "--data", folder)
    assert result.exit_code == 2
    assert result.stdout == f"toy: {folder / 'toy.csv.gz'}\n"
    assert "absent: Error: absent could not be fetched; no source is known" in result.stderr
    assert "1 of 2 could not be fetched" in result.stderr
    assert run("fetch", "toy", "--data", folder).exit_code == 0


def test_an_unknown_name(folder):
    result = run("check", "tpy", "--data", folder)
    assert result.exit_code == 2
    assert "data set must be one of 'toy', 'absent'; got 'tpy'; did you mean 'toy'?" in result.stderr
