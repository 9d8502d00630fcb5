"""Variants of a method: one thing changed that the paper does not specify, and the misses that this explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from bdkn_paper import paper
from bdkn_paper.analysis.comparison import Comparison
from bdkn_paper.analysis.miss_notes import Notes
from bdkn_paper.analysis.results import Results, dataset_title, gather
from bdkn_paper.analysis.sample import shown
from bdkn_paper.store import Record

VARIANTS = MappingProxyType(
    {
        "bll-1-fresh-weights": "weights of the current features, not of those before the last step",
        "bll-1-learned-noise": "noise learned, not fixed at 1",
        "bll-2-learned-noise": "noise learned, not fixed at 1",
        "mfvi-1-one-draw": "one draw of the weights per step, not five",
        "mfvi-1-hundred-draws": "a hundred draws of the weights per step, not five",
        "dkl-1-bounded": "inputs and features kept within bounds, as in GPyTorch's tutorial",
        "dkl-2-bounded": "inputs and features kept within bounds, as in GPyTorch's tutorial",
        "dkl-1-standardised": "targets standardised",
        "dkl-2-standardised": "targets standardised",
        "dkl-2-batches": "batches of 32 rows",
        "vbll-1-unit-prior": "a prior variance of 1 for the last layer, not divided by its features",
        "vbll-2-unit-prior": "a prior variance of 1 for the last layer, not divided by its features",
        "gp-1-ard": "a length scale for each input",
    }
)
"""The methods of the experiment "artefacts", each METHOD-SETTING-…, and what is changed."""

AMOUNTS = MappingProxyType(
    {
        ("mfvi", 1): (
            "the number of draws of the weights per step",
            {"mfvi-1-one-draw": "one", "": "five", "mfvi-1-hundred-draws": "a hundred"},
        )
    }
)
"""A quantity of a method in a setting, and its variants from less to more; "" is the one that we use."""

_SCATTER = 3.0
"""Largest standard error of a variant, in printed standard errors: a very uncertain mean agrees with everything."""


class Explanations(NamedTuple):
    """Notes on printed scores that a variant ``reached``, and on those ``between`` two amounts of a quantity."""

    reached: Notes
    between: Notes


def explain_misses(records: Sequence[Record], cells: Sequence[Comparison]) -> Explanations:
    """Return notes on those misses that variants explain."""
    changed = gather(records, "artefacts")
    reached: dict[tuple[str, str, str, str], str] = {}
    between: dict[tuple[str, str, str, str], str] = {}
    for cell in (cell for cell in cells if not cell.hit):
        key = (cell.experiment, cell.method, cell.dataset, cell.metric)
        siblings = [one for one in cells if (one.experiment, one.method) == (cell.experiment, cell.method)]
        if reason := _explain_reached(cell, siblings, changed):
            reached[key] = reason
        elif reason := _explain_between(cell, changed):
            between[key] = reason
    return Explanations(reached, between)


def _explain_reached(cell: Comparison, siblings: Sequence[Comparison], changed: Results) -> str | None:
    """Return which variant is near the printed score, if one is that does not move the other metric away.

    ``siblings`` are all comparisons of the method in the setting; the note names those that the variant moves away.
    """
    found = [(other, name) for name in _changes(cell) if (other := _changed(cell, changed, name))]
    beside = [one for one in siblings if one.dataset == cell.dataset and one.metric != cell.metric]
    near = [
        (abs(other.errors), name, other)
        for other, name in found
        if other.near and _is_known(other) and not any(_is_worse(one, changed, name) for one in beside)
    ]
    if not near:
        return None
    _, name, other = min(near, key=lambda one: one[:2])
    splits = f"{len(other.ours)} splits, {other.errors:+.1f} s.e."
    lost = [one for one in siblings if one.near and _is_worse(one, changed, name)]
    titles = ", ".join(f"{dataset_title(one.dataset)} {one.metric.upper()}" for one in lost)
    aside = f" With the same change, these no longer agree: {titles}." if lost else ""
    return f"Reached with one change, {VARIANTS[name]}: it is {shown(other.ours)} ({splits}; artefacts.toml).{aside}"


def _explain_between(cell: Comparison, changed: Results) -> str | None:
    """Return which quantity the score depends on, if the printed score is between those of two amounts of it."""
    what, names = AMOUNTS.get((cell.method, paper.EXPERIMENTS[cell.experiment]), ("", {}))
    found = [(other.ours, label) for name, label in names.items() if (other := _changed(cell, changed, name))]
    means = [sample.mean for sample, _ in found]
    if len(found) < 2 or not min(means) <= cell.paper.mean <= max(means):
        return None
    scores = ", ".join(f"{shown(sample)} with {label}" for sample, label in found)
    open_choice = f"It depends on {what}, which the paper does not give"
    return f"{open_choice}: {scores} (artefacts.toml). The printed score is between them."


def _changes(cell: Comparison) -> list[str]:
    stem = f"{cell.method}-{paper.EXPERIMENTS[cell.experiment]}-"
    return [name for name in VARIANTS if name.startswith(stem)]


def _changed(cell: Comparison, changed: Results, name: str) -> Comparison | None:
    """Return the comparison for a variant, for "" the one given; None if the variant was not run."""
    sample = changed.sample(cell.dataset, name, cell.metric) if name else cell.ours
    return None if sample is None else replace(cell, ours=sample)


def _is_worse(cell: Comparison, changed: Results, name: str) -> bool:
    """Return whether a variant is not near the printed score and farther from it than the comparison given."""
    other = _changed(cell, changed, name)
    return other is not None and not other.near and abs(other.difference) > abs(cell.difference)


def _is_known(cell: Comparison) -> bool:
    return cell.ours.error <= _SCATTER * cell.paper.error
