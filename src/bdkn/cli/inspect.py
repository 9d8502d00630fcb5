"""The command ``bdkn inspect``, which shows what a model file contains."""

from __future__ import annotations

from bdkn.cli.inputs import input_names, load_model, making
from bdkn.cli.terminal import AsJson, Model, Screen, number

_MAX_NAMES = 12
"""Maximum number of input columns whose names are printed."""


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show the content of a model file: its target, its input columns, how and when it was made.

    The file holds numbers and text, and nothing in it is executed.

    Example:

        bdkn inspect flats.bdkn
    """
    from bdkn.storage.archive import read

    screen, fitted = Screen(json=as_json), load_model(model)
    _, document = read(model)
    made, inputs = making(fitted), input_names(fitted)
    estimate = made.get("estimate", {})
    default, parameters = type(fitted)().get_params(deep=False), fitted.get_params(deep=False)
    changed = [f"{name}={value}" for name, value in parameters.items() if str(value) != str(default[name])]
    listed = ", ".join(inputs[:_MAX_NAMES])
    if len(inputs) > _MAX_NAMES:
        listed += f" and {len(inputs) - _MAX_NAMES} more"
    facts = {
        "File": f"{model} ({model.stat().st_size / 1e6:.2f} MB)",
        "Class": type(fitted).__name__,
        "Written by": f"bdkn {document.get('bdkn', 'of unknown version')}",
        "Made": made.get("when", "not known: made in Python"),
        "From": f"{made['data']}, {made['rows']:,} rows" if "data" in made else "",
        "Predicts": made.get("target", ""),
        "Input columns": listed or f"{fitted.n_features_in_}, without names",
        "Other than default": ", ".join(changed) or "nothing",
        "Versions": ", ".join(f"{name} {text}" for name, text in made.get("versions", {}).items()),
        "Error when fitted": f"RMSE {number(estimate['rmse'])}, R² {estimate['r2']:.3f}" if estimate else "",
    }
    facts = {name: text for name, text in facts.items() if text}
    screen.write(*(f"{name:<22}{text}" for name, text in facts.items()))
    columns = [dict(row) for row in fitted.columns_.rows]
    if columns:
        keys = ("name", "kind", "becomes", "why")
        cells = [tuple(str(row[key]) for key in keys) for row in columns]
        screen.table("\nColumns", ("column", *keys[1:]), cells, texts=True)
    names, weights = fitted.member_names_, getattr(fitted, "weights_", None)
    shares = [1.0 / len(names)] * len(names) if weights is None else weights.tolist()
    members = list(zip(names, shares, strict=True))
    screen.table("\nMembers", ("member", "weight"), [(name, f"{share:.3f}") for name, share in members])
    for name, value in parameters.items():
        if not (value is None or isinstance(value, bool | int | float | str)):
            parameters[name] = str(value)
    screen.finish({**facts, "columns": columns, "members": members, "made": dict(made), "parameters": parameters})
