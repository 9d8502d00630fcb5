"""Mixtures with densities of neighbours: learned if they predict better than the Student-t, and only then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bdkn.model import density as module
from bdkn.model.density import (
    ScoredRows,
    choose_calibration,
    encode_inputs,
    equal_rows,
    is_better,
    least_bandwidth,
)
from bdkn.predictive import StudentT, StudentTMixture

SEED = np.random.SeedSequence(0)


def two_modes(n=600, seed=0):
    """Return rows whose targets lie near -1 or near 1, independent of the inputs, and a Student-t between them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0) + 0.1 * rng.normal(size=n)
    return X, y, StudentT(10.0, np.zeros(n), 0.9)


def bell(n=600, seed=0):
    """Return rows and the Student-t that their targets are drawn from."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.5 * rng.standard_t(8.0, n), StudentT(8.0, X[:, 0], 0.5)


def fit_density(table, y, counts, student, *rest, **options):
    """Return the density that is learned if a Student-t predicts each row."""
    return module.fit_density(table, y, counts, (student.df, student.loc, student.scale), *rest, **options)


def mix(density, student, table, inside=None):
    """Return the mixture of a Student-t with the densities of neighbours."""
    loc, scale = np.ascontiguousarray(student.loc), np.ascontiguousarray(student.scale)
    return StudentTMixture.unchecked(*density.mix(float(student.df[0]), loc, scale, table, inside))


X, Y, STUDENT = two_modes()
MIXED = fit_density(X, Y, None, STUDENT, SEED)


def test_two_modes_are_found():
    new, y, student = two_modes(seed=1)
    mixture = mix(MIXED, student, new)
    assert mixture.logpdf(y).mean() > student.logpdf(y).mean() + 0.3
    assert mixture.crps(y).mean() < student.crps(y).mean()
    pit = mixture.cdf(y)
    for coverage in (0.5, 0.9, 0.95):
        assert abs(np.mean(np.abs(pit - 0.5) < coverage / 2.0) - coverage) < 0.08


def test_a_student_t_that_is_right_stays_alone():
    table, y, student = bell()
    assert fit_density(table, y, None, student, SEED) is None


def scored(y, student):
    """Return rows to score without components."""
    log_density = student.logpdf(y)[:, None]
    return ScoredRows(y, student.df, student.loc, student.scale, np.ones(len(y)), np.arange(len(y)), log_density, None)


@pytest.mark.parametrize(("scale", "expected"), [(0.15, True), (0.4, False)])
def test_a_better_log_score_does_not_outweigh_a_worse_crps(scale, expected, monkeypatch):
    """One row of twenty is an outlier: a scale too large for the others has the better log score."""
    y = 0.15 * np.random.default_rng(0).normal(size=600)
    y[::20] = 1.5
    student, wider = StudentT(30.0, np.zeros(600), 0.1), StudentT(30.0, np.zeros(600), scale)
    assert wider.logpdf(y).mean() > student.logpdf(y).mean() + 0.1
    assert (wider.crps(y).mean() < student.crps(y).mean()) == expected
    monkeypatch.setattr(module, "log_scores", lambda density, rows: wider[: len(rows.y)].logpdf(rows.y))
    monkeypatch.setattr(module, "excess_crps", lambda density, rows: wider.crps(rows.y) - student.crps(rows.y))
    monkeypatch.setattr(ScoredRows, "on_threads", lambda self, compute, n_jobs: compute(self))
    monkeypatch.setattr(ScoredRows, "evenly_spaced", lambda self, most: self)
    assert is_better(MIXED, scored(y, student), 1) == expected


def test_few_rows_stay_with_the_student_t():
    assert fit_density(X[:90], Y[:90], None, STUDENT[:90], SEED) is None
    assert fit_density(X, Y, None, StudentT(10.0, Y, 0.0), SEED) is None
    assert fit_density(X, Y, None, StudentT(1.5, np.zeros(len(Y)), 1.0), SEED) is None


def test_threads_and_blocks_do_not_matter(monkeypatch):
    monkeypatch.setattr(module, "_COMPONENT_ROWS", 100)
    monkeypatch.setattr(module, "_SCORED_ROWS", 70)
    again = fit_density(X, Y, None, STUDENT, SEED, n_jobs=3)
    np.testing.assert_array_equal(again.shares, MIXED.shares)
    assert (again.tilt, again.narrowing) == (MIXED.tilt, MIXED.narrowing)


@pytest.mark.parametrize("n_jobs", [1, 4])
def test_of_equal_scores_the_first_is_chosen(n_jobs, monkeypatch):
    scores = {0.2: 1.0, 0.5: 1.0}
    monkeypatch.setattr(ScoredRows, "evenly_spaced", lambda self, most: self)
    monkeypatch.setattr(module, "log_scores", lambda density, rows: np.full(len(Y), scores.get(density.tilt, 0.0)))
    density = choose_calibration(MIXED, scored(Y, STUDENT), n_jobs)
    assert (density.tilt, density.narrowing) == (0.2, 1.0)


def test_the_tilt_is_chosen_again_for_another_narrowing(monkeypatch):
    best = {(0.2, 1.0): 1.0, (0.2, 0.8): 2.0, (0.3, 0.8): 3.0}
    monkeypatch.setattr(ScoredRows, "evenly_spaced", lambda self, most: self)
    monkeypatch.setattr(
        module, "log_scores", lambda density, rows: np.full(len(Y), best.get((density.tilt, density.narrowing), 0.0))
    )
    density = choose_calibration(MIXED, scored(Y, STUDENT), 1)
    assert (density.tilt, density.narrowing) == (0.3, 0.8)


@pytest.mark.no_cover
def test_scores_are_those_of_the_mixture():
    """Log scores that are computed on arrays are those of ``StudentTMixture``, to the bit."""
    y, n = Y[:50], 50
    density = replace(MIXED, tilt=0.3, narrowing=0.7)
    student = STUDENT[:50]
    inputs = encode_inputs(density.neighbours.inputs, X[:50])
    parts = density.neighbours.components(*(part.copy() for part in (student.df, student.loc, student.scale)), inputs)
    rows = ScoredRows(y, student.df, student.loc, student.scale, np.ones(n), np.arange(n), np.zeros((n, 1)), parts)
    mixture = mix(density, student, X[:50])
    np.testing.assert_array_equal(module.log_scores(density, rows), mixture.logpdf(y))
    np.testing.assert_array_equal(module.excess_crps(density, rows), mixture.crps(y) - student.crps(y))


def test_outside_the_student_t_is_as_it_was():
    y = STUDENT.ppf([0.01, 0.4, 0.9])
    outside = mix(MIXED, STUDENT, X, inside=np.zeros(len(X)))
    np.testing.assert_allclose(outside.logpdf(y), STUDENT.logpdf(y), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(outside.ppf([0.01, 0.4, 0.9]), y, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(mix(MIXED, STUDENT, X, np.ones(len(X))).kept, mix(MIXED, STUDENT, X).kept)
    kept = [mix(MIXED, STUDENT, X, np.full(len(X), inside)).kept.mean() for inside in (0.0, 0.3, 0.7, 1.0)]
    assert np.all(np.diff(kept) < 0.0)


def test_a_point_mass_stays_one():
    student = StudentT(10.0, [0.0, 3.0], [0.9, 0.0])
    mixture = mix(MIXED, student, X[:2])
    assert mixture.std()[0] > 0.0
    np.testing.assert_array_equal([mixture.ppf(0.1)[1], mixture.ppf(0.9)[1]], [3.0, 3.0])


def test_rows_counted_are_rows_repeated_in_the_weights():
    counts = np.where(np.arange(len(Y)) < 300, 2.0, 1e-6)
    weighted = fit_density(X, Y, counts, STUDENT, SEED)
    assert weighted is not None
    assert np.isin(weighted.neighbours.forest.rows, np.arange(300)).mean() > 0.99


def test_missing_values_are_inputs_too():
    rng = np.random.default_rng(0)
    table = np.column_stack([np.where(Y > 0.0, np.nan, rng.normal(size=len(Y))), X])
    density = fit_density(table, Y, None, STUDENT, SEED)
    assert density is not None
    known = mix(density, STUDENT[:2], np.array([[np.nan, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])).mean()
    assert known[0] > 0.5 > -0.5 > known[1]


def test_a_part_of_a_large_table_is_used(monkeypatch):
    monkeypatch.setattr(module, "_MAX_ROWS", 300)
    density = fit_density(X, Y, None, STUDENT, SEED)
    used = density.neighbours.rows
    np.testing.assert_array_equal(density.neighbours.targets, Y[used])
    errors = np.arange(600.0)
    np.testing.assert_array_equal(density.with_errors(errors).neighbours.errors, errors[used])
    assert len(mix(density, STUDENT, X)) == 600


def test_discrete_targets_have_no_spikes():
    """Targets on integers have bandwidths of at least 0.6 of the step."""
    y = np.random.default_rng(0).integers(0, 5, 500).astype(float)
    assert least_bandwidth(y) == pytest.approx(0.6)
    assert least_bandwidth(np.ones(5)) == 0.0
    density = fit_density(X[:500], y, None, StudentT(10.0, np.full(500, 2.0), 1.5), SEED)
    if density is not None:
        mixture = mix(density, StudentT(10.0, np.full(9, 2.0), 1.5), X[:9])
        assert (mixture.width * mixture.scale[:, None])[mixture.mass > 0.0].min() > 0.599


def test_large_leaves_are_sampled():
    """Rows with equal inputs are in one leaf, of which some rows are used."""
    table = np.repeat([[0.0], [1.0]], 300, axis=0)
    density = fit_density(table, Y, None, STUDENT, SEED)
    mixture = mix(density, STUDENT[:2], np.array([[0.0], [1.0]]))
    assert mixture.pdf(0.0).max() < 0.5 * min(mixture.pdf(1.0).min(), mixture.pdf(-1.0).min())


def test_repeated_rows_are_held_out_together():
    """A row's copy must not predict it: copies have one number, and trees draw all of them or none."""
    table, y, student = bell(300)
    three = np.tile(np.arange(300), 3)
    copies = StudentT(8.0, student.loc[three], 0.5)
    assert fit_density(table[three], y[three], None, copies, SEED) is None
    numbers = equal_rows(table[three].astype(np.float32), y[three])
    np.testing.assert_array_equal(numbers[:300], numbers[300:600])
    assert len(np.unique(numbers)) == 300


def test_groups_are_held_out_together():
    groups = np.arange(600) // 4 + 7
    density = fit_density(X, Y, None, STUDENT, SEED, groups=groups)
    absent = density.neighbours.forest.out_of_bag(600).reshape(150, 4, -1)
    np.testing.assert_array_equal(absent.all(axis=1), absent.any(axis=1))
