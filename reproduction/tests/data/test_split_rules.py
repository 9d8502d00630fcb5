import numpy as np
import pytest

from bdkn.errors import InvalidParameterError
from bdkn_paper.data import DATASETS, ByPosition, Sampled, Shuffled, split, splits

PAPER = {  # rows a split uses, splits, training rows, test rows
    "boston": (506, 20, 455, 51),
    "concrete": (1030, 20, 927, 103),
    "energy": (768, 20, 691, 77),
    "kin8nm": (8192, 20, 7373, 819),
    "naval": (11934, 20, 10741, 1193),
    "power": (9568, 20, 8611, 957),
    "protein": (45730, 5, 41157, 4573),
    "sarcos": (39449, 20, 35000, 4449),
    "sarcos-clean": (39449, 20, 35000, 4449),
    "song": (515345, 1, 463715, 51630),
    "wine": (1599, 20, 1439, 160),
    "yacht": (308, 20, 277, 31),
}


@pytest.mark.parametrize("name", DATASETS)
def test_sizes_are_the_papers(name):
    rows, n_splits, train, test = PAPER[name]
    info = DATASETS[name]
    assert (info.n_splits, info.train_size, info.test_size) == (n_splits, train, test)
    first = split(name, 0)
    assert (len(first.train), len(first.test), len(first.train) + len(first.test)) == (train, test, rows)


@pytest.mark.parametrize("name", DATASETS)
def test_no_row_is_used_twice_and_none_is_outside(name):
    for train, test in splits(name)[:3]:
        rows = np.concatenate([train, test])
        assert len(np.unique(rows)) == len(rows)
        assert rows.min() >= 0
        assert rows.max() < DATASETS[name].rows


@pytest.mark.parametrize("name", ["boston", "yacht", "wine", "protein"])
def test_shuffled_sets_follow_the_published_recipe(name):
    n = DATASETS[name].rows
    rng = np.random.RandomState(1)
    for train, test in splits(name):
        p = rng.choice(range(n), n, replace=False)
        e = round(n * 0.9)
        np.testing.assert_array_equal(train, p[:e])
        np.testing.assert_array_equal(test, p[e:])


def test_some_rows_of_some_splits_are_pinned():
    assert split("yacht", 0).train[:6].tolist() == [73, 304, 228, 238, 259, 164]
    assert split("yacht", 19).test[:6].tolist() == [74, 54, 250, 21, 71, 231]
    assert split("boston", 0).test[:6].tolist() == [431, 115, 470, 216, 264, 209]
    assert split("sarcos", 19).train[:5].tolist() == [32519, 41221, 18245, 39602, 36969]
    assert split("sarcos-clean", 19).train[:5].tolist() == [21696, 37912, 21936, 3478, 8251]


def test_sarcos_as_in_the_paper():
    rng = np.random.RandomState(1)
    for train, test in splits("sarcos"):
        np.testing.assert_array_equal(train, rng.choice(44484, 35000, replace=False))
        np.testing.assert_array_equal(test, range(44484, 48933))
    leaked = np.isin(np.arange(4449) * 10, split("sarcos", 0).train)
    assert 0.75 < leaked.mean() < 0.82


def test_sarcos_clean_never_trains_on_a_row_of_the_test():
    rng = np.random.RandomState(1)
    pool = [row for row in range(44484) if row % 10]
    assert len(pool) == 40035
    for train, test in splits("sarcos-clean"):
        np.testing.assert_array_equal(train, np.array(pool)[rng.choice(40035, 35000, replace=False)])
        np.testing.assert_array_equal(test, range(44484, 48933))


def test_song_by_position():
    ((train, test),) = splits("song")
    np.testing.assert_array_equal(np.concatenate([train, test]), range(515345))
    assert len(train) == 463715


@pytest.mark.parametrize("rule", [Shuffled(50, 4), Sampled(40, 20, 10, 5, 4), ByPosition(5, 3)])
def test_rules_repeat_themselves(rule):
    for one, other in zip(rule.draw(), rule.draw(), strict=True):
        np.testing.assert_array_equal(one.train, other.train)
        np.testing.assert_array_equal(one.test, other.test)
    assert len(list(rule.draw())) == rule.n_splits


def test_one_split_is_that_of_all():
    for k, expected in enumerate(splits("yacht")):
        np.testing.assert_array_equal(split("yacht", k).train, expected.train)


@pytest.mark.parametrize("k", [-1, 5, 1.0, True])
def test_splits_that_there_are_not(k):
    with pytest.raises(InvalidParameterError, match=r"k must be an integer >= 0 and <= 4; got "):
        split("protein", k)


def test_an_unknown_set():
    with pytest.raises(InvalidParameterError, match=r"data set must be one of 'boston', .*; did you mean 'yacht'"):
        splits("yaht")
