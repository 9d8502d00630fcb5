"""bdkn inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bdkn.cli.model_files import input_names, load_model, making
from bdkn.cli.terminal import AsJson, Model, Screen, errors_as_messages, number

HELP = """Show the content of a model file: its target, its input columns, how and when it was made.

The file holds numbers and text, and nothing in it is executed.

Example:

    bdkn inspect flats.bdkn
"""

_MOST_NAMES = 12
"""Largest number of input columns that are listed in one line."""


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show the content of a model file."""
    with errors_as_messages():
        screen, fitted = Screen(json=as_json), load_model(model)
        facts = facts_of(model, fitted)
        screen.say(*(f"{name:<22}{text}" for name, text in facts.items()))
        columns = [dict(row) for row in fitted.columns_.rows]
        if columns:
            keys = ("name", "kind", "becomes", "why")
            screen.table(
                "\nColumns", ("column", *keys[1:]), [tuple(str(row[k]) for k in keys) for row in columns], texts=True
            )
        names, weights = fitted.member_names_, getattr(fitted, "weights_", None)
        shares = [1.0 / len(names)] * len(names) if weights is None else weights.tolist()
        members = list(zip(names, shares, strict=True))
        screen.table("\nMembers", ("member", "weight"), [(name, f"{share:.3f}") for name, share in members])
        parameters = {name: _shown(value) for name, value in fitted.get_params(deep=False).items()}
        made = dict(making(fitted))
        screen.finish({**facts, "columns": columns, "members": members, "made": made, "parameters": parameters})


def facts_of(path: Path, model: Any) -> dict[str, str]:
    """Return facts about a model by their names, in the order in which they are shown."""
    from bdkn.storage.archive import read

    _, document = read(path)
    made, names = making(model), input_names(model)
    estimate = made.get("estimate", {})
    default, given = type(model)().get_params(deep=False), model.get_params(deep=False)
    changed = [f"{name}={_shown(value)}" for name, value in given.items() if str(value) != str(default[name])]
    listed = ", ".join(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        listed += f" and {len(names) - _MOST_NAMES} more"
    facts = {
        "File": f"{path} ({path.stat().st_size / 1e6:.2f} MB)",
        "Class": type(model).__name__,
        "Written by": f"bdkn {document.get('bdkn', 'of unknown version')}",
        "Made": made.get("when", "not known: made in Python"),
        "From": f"{made['data']}, {made['rows']:,} rows" if "data" in made else "",
        "Predicts": made.get("target", ""),
        "Input columns": listed or f"{model.n_features_in_}, without names",
        "Other than default": ", ".join(changed) or "nothing",
        "Versions": ", ".join(f"{name} {text}" for name, text in made.get("versions", {}).items()),
        "Error when fitted": f"RMSE {number(estimate['rmse'])}, R² {estimate['r2']:.3f}" if estimate else "",
    }
    return {name: text for name, text in facts.items() if text}


def _shown(value: Any) -> Any:
    """Return a parameter as JSON can hold it: as text where it is neither a number nor a text."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
