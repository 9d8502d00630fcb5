"""Cells that one change of what the paper leaves unsaid brings to the printed score, or to either side of it."""

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

CHANGES = MappingProxyType(
    {
        "bll-1-fresh-weights": "weights of the features as they are, not as they were a step before",
        "bll-1-learned-noise": "noise learned, not fixed at 1",
        "bll-2-learned-noise": "noise learned, not fixed at 1",
        "mfvi-1-one-draw": "one draw of the weights a step, not five",
        "mfvi-1-hundred-draws": "a hundred draws of the weights a step, not five",
        "dkl-1-bounded": "inputs and features kept within bounds, as in GPyTorch's tutorial",
        "dkl-2-bounded": "inputs and features kept within bounds, as in GPyTorch's tutorial",
        "dkl-1-standardised": "targets standardised",
        "dkl-2-standardised": "targets standardised",
        "dkl-2-batches": "batches of 32 rows",
        "vbll-1-unit-prior": "a prior variance of the last layer of 1, not divided by its features",
        "vbll-2-unit-prior": "a prior variance of the last layer of 1, not divided by its features",
        "gp-1-ard": "a length scale for each input",
    }
)
"""The methods of the experiment "artefacts", each METHOD-SETTING-…, and what is changed in them."""

SCALES = MappingProxyType(
    {
        ("mfvi", 1): (
            "how many draws of the weights a step averages",
            {"mfvi-1-one-draw": "one", "": "five", "mfvi-1-hundred-draws": "a hundred"},
        )
    }
)
"""Of a method in a setting, what can be more or less of; the changes that are, from less to more, ours being ""."""

_SCATTER = 3.0
"""Times the printed standard error that a changed cell's own may be: a mean hardly known agrees with anything."""


class Changes(NamedTuple):
    """Reasons of cells that a change ``reached``, and of those that less and more of something ``straddled``."""

    reached: Notes
    straddled: Notes


def by_one_change(records: Sequence[Record], cells: Sequence[Comparison]) -> Changes:
    """Return the reasons of those cells that miss."""
    changed = gather(records, "artefacts")
    reached: dict[tuple[str, str, str, str], str] = {}
    straddled: dict[tuple[str, str, str, str], str] = {}
    for cell in (cell for cell in cells if not cell.hit):
        key = (cell.experiment, cell.method, cell.dataset, cell.metric)
        siblings = [one for one in cells if (one.experiment, one.method) == (cell.experiment, cell.method)]
        if reason := _reached(cell, siblings, changed):
            reached[key] = reason
        elif reason := _between(cell, changed):
            straddled[key] = reason
    return Changes(reached, straddled)


def _reached(cell: Comparison, siblings: Sequence[Comparison], changed: Results) -> str | None:
    """Say which change brings a cell near the printed score, if one does that takes its other metric no further away.

    ``siblings`` are all cells of the method in the setting; those the change takes away are named.
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
    aside = f" The same change takes away what agreed: {titles}." if lost else ""
    return f"Reached by one change: with {CHANGES[name]}, it is {shown(other.ours)} ({splits}; artefacts.toml).{aside}"


def _between(cell: Comparison, changed: Results) -> str | None:
    """Say of what there can be more or less, if the printed score lies between two amounts of it."""
    what, names = SCALES.get((cell.method, paper.EXPERIMENTS[cell.experiment]), ("", {}))
    found = [(other.ours, label) for name, label in names.items() if (other := _changed(cell, changed, name))]
    means = [sample.mean for sample, _ in found]
    if len(found) < 2 or not min(means) <= cell.paper.mean <= max(means):
        return None
    told = ", ".join(f"{shown(sample)} with {label}" for sample, label in found)
    return f"It depends on {what}, which is not said: {told} (artefacts.toml). The printed score lies between."


def _changes(cell: Comparison) -> list[str]:
    stem = f"{cell.method}-{paper.EXPERIMENTS[cell.experiment]}-"
    return [name for name in CHANGES if name.startswith(stem)]


def _changed(cell: Comparison, changed: Results, name: str) -> Comparison | None:
    """Return the cell as changed, or as it is if nothing is; None if that was not run."""
    sample = changed.sample(cell.dataset, name, cell.metric) if name else cell.ours
    return None if sample is None else replace(cell, ours=sample)


def _is_worse(cell: Comparison, changed: Results, name: str) -> bool:
    """Tell whether a change takes a cell that was near away from the printed score, or one that was not further."""
    other = _changed(cell, changed, name)
    return other is not None and not other.near and abs(other.difference) > abs(cell.difference)


def _is_known(cell: Comparison) -> bool:
    return cell.ours.error <= _SCATTER * cell.paper.error
