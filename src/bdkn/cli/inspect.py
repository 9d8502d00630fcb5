"""``bdkn inspect``: what is in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bdkn.cli.model_files import input_names, load_model, making
from bdkn.cli.terminal import AsJson, Model, Screen, errors_as_messages, number

HELP = """Say what is in a model file: what it predicts, from which columns, how and when it was made.

The file holds numbers and text, and nothing in it is executed.

Example:

    bdkn inspect flats.bdkn
"""


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Say what is in a model file."""
    with errors_as_messages():
        screen, fitted = Screen(json=as_json), load_model(model)
        facts = facts_of(model, fitted)
        screen.say(*(f"{name:<22}{text}" for name, text in facts.items()))
        columns = column_rows(fitted)
        if columns:
            cells = [tuple(str(row.get(key, "")) for key in ("name", "kind", "becomes", "why")) for row in columns]
            screen.table("\nColumns", ("column", "kind", "becomes", "why"), cells, texts=True)
        members = member_rows(fitted)
        if members:
            screen.table("\nMembers", ("member", "weight"), [(name, f"{weight:.3f}") for name, weight in members])
        made = dict(making(fitted))
        screen.finish({**facts, "columns": columns, "members": members, "made": made, "parameters": parameters(fitted)})


def facts_of(path: Path, model: Any) -> dict[str, str]:
    """Return what there is to say about a model, in the order to say it."""
    from bdkn.storage.archive import read

    _, document = read(path)
    made = making(model)
    estimate = made.get("estimate", {})
    facts = {
        "File": f"{path} ({path.stat().st_size / 1e6:.2f} MB)",
        "Class": type(model).__name__,
        "Written by": f"bdkn {document.get('bdkn', 'of unknown version')}",
        "Made": made.get("when", "not known: made in Python"),
        "From": f"{made['data']}, {made['rows']:,} rows" if "data" in made else "",
        "Predicts": made.get("target", ""),
        "Input columns": _listed(model),
        "Other than default": ", ".join(f"{name}={value}" for name, value in changed(model).items()) or "nothing",
        "Versions": ", ".join(f"{name} {text}" for name, text in made.get("versions", {}).items()),
        "Error when fitted": f"RMSE {number(estimate['rmse'])}, R² {estimate['r2']:.3f}" if estimate else "",
    }
    return {name: text for name, text in facts.items() if text}


def column_rows(model: Any) -> list[dict[str, Any]]:
    """Return what became of each column; empty if all are numbers."""
    return [dict(row) for row in getattr(getattr(model, "columns_", None), "rows", ())]


def member_rows(model: Any) -> list[tuple[str, float]]:
    """Return the names and weights of the members, equal weights where they have none."""
    names = getattr(model, "member_names_", ())
    weights = getattr(model, "weights_", None)
    shares = [1.0 / len(names)] * len(names) if weights is None else weights.tolist()
    return list(zip(names, shares, strict=True))


def parameters(model: Any) -> dict[str, Any]:
    """Return the parameters of a model, as text where they are neither numbers nor text."""
    return {name: _shown(value) for name, value in model.get_params(deep=False).items()}


def changed(model: Any) -> dict[str, Any]:
    """Return the parameters that are not the defaults."""
    default = type(model)().get_params(deep=False)
    given = model.get_params(deep=False)
    return {name: _shown(value) for name, value in given.items() if str(value) != str(default[name])}


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _listed(model: Any) -> str:
    names = input_names(model)
    if names is None:
        return f"{model.n_features_in_}, without names"
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
