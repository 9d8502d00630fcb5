"""What is learned with and after a combination: probabilities of values, widening, and the shape of predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from bdkn.data.folds import name_key
from bdkn.data.frames import numeric_names, numeric_table
from bdkn.data.scaling import TargetScaler
from bdkn.ensemble.held_out import HeldOut
from bdkn.ensemble.provenance import FitProvenance
from bdkn.ensemble.selection import CombinationSettings, select_and_combine
from bdkn.estimators.fitted import Combined
from bdkn.model.density import fit_density
from bdkn.model.extrapolation import Widening
from bdkn.model.value_model import learn_values
from bdkn.predictive import StudentT
from bdkn.stages import stage
from bdkn.typing import FloatArray, IndexArray


def combine_members(
    held_out: HeldOut,
    sound: IndexArray,
    settings: CombinationSettings,
    targets: TargetScaler,
    provenance: FitProvenance | None,
) -> tuple[IndexArray, Combined]:
    """Return the numbers of the members, of the ``sound`` ones, that are best together, and their combination."""
    with stage("combine"):
        useful, combination = select_and_combine(held_out, sound, settings)
    members = sound[useful]
    values = learn_values(settings, combination, targets, held_out[members])
    return members, Combined(combination, targets, held_out[members], provenance, values)


def combine_again(combined: Combined, kept: IndexArray, settings: CombinationSettings) -> tuple[IndexArray, Combined]:
    """Return the same for those of the members ``kept`` that are best together; the weights of the shape stay."""
    held_out, widening, density = _held_out(combined), combined.widening, combined.density
    members, fewer = combine_members(held_out, kept, settings, combined.targets, combined.provenance)
    if widening is not None:
        fewer = replace(fewer, widening=widening.for_members(held_out[members], fewer.combination))
    if density is not None:
        fewer = replace(fewer, density=density.with_errors(_errors(fewer)))
    return members, fewer


def with_widening(combined: Combined, X: Any, numbers: IndexArray | None) -> Combined:
    """Return the combination with the widening for training rows X; its held-out rows are the rows ``numbers``."""
    with stage("support"):
        return replace(combined, widening=Widening.fit(X, numbers, _held_out(combined), combined.combination))


def with_shape(combined: Combined, X: Any, sets: IndexArray | None, n_jobs: int | None) -> Combined:
    """Return the combination with the shape of predictions, learned from the table of the held-out rows.

    ``sets`` are the numbers of the sets of rows that belong together (None: each row is one).
    """
    held_out, provenance, table = combined.held_out, combined.provenance, numeric_table(X)
    if table is None or held_out is None or provenance is None or np.isnan(combined.combination.score):
        return combined
    seed = np.random.SeedSequence(provenance.entropy, spawn_key=name_key("density"))
    threads = int(effective_n_jobs(n_jobs))
    with stage("shape"):
        density = fit_density(table, held_out.y, held_out.counts, _left_out(combined), seed, threads, sets)
    if density is not None and hasattr(X, "columns"):
        density = replace(density, columns=numeric_names(X))
    return replace(combined, density=density)


def _held_out(combined: Combined) -> HeldOut:
    assert combined.held_out is not None, "members that are combined by held-out rows have predictions of them"
    return combined.held_out


def _left_out(combined: Combined) -> StudentT:
    """Return the prediction of each held-out row from the others."""
    held_out = _held_out(combined)
    return combined.combination.leave_one_out(held_out.forecast(), held_out.y, held_out.counts)


def _errors(combined: Combined) -> FloatArray:
    """Return the errors of held-out rows, each predicted from the others, in units of the scale predicted."""
    student = _left_out(combined)
    return (_held_out(combined).y - student.loc) / np.where(student.scale > 0.0, student.scale, 1.0)
