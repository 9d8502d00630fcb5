"""``bdkn update``: absorb new rows into a model, without training it again."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from bdkn.cli.evaluate import labelled_for
from bdkn.cli.fit import Estimate
from bdkn.cli.model_files import load_model, making, record_making, target_of
from bdkn.cli.terminal import AsJson, Coverage, Data, KnownTarget, Model, Quiet, Screen, errors_as_messages, number

HOW = "The new rows, before they were absorbed"

HELP = """Absorb new rows with known targets into a model, and write the model that knows them too.

The networks stay as they are; how they are weighted, and how large the noise is, is learned from all rows, exactly as
if they had been known at once. The new rows are judged by the model before it learns from them.

Example:

    bdkn update flats.bdkn sold.csv --target price --out flats2.bdkn
"""


def update(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="Model file to write; it may be the one that is read.", show_default=False)],
    target: KnownTarget = None,
    forgetting: Annotated[
        float,
        typer.Option(min=0.001, max=1.0, help="Factor by which earlier rows count less; 1: none is forgotten."),
    ] = 1.0,
    coverage: Coverage = 0.9,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Absorb new rows with known targets into a model."""
    with errors_as_messages():
        from bdkn.table_files import check_output

        screen = Screen(json=as_json, quiet=quiet)
        check_output(out, data)
        with changing(model, out, screen):
            fitted = updatable(load_model(model))
            name = target_of(fitted, target)
            rows = labelled_for(fitted, data, name, screen)
            with screen.noting_warnings():
                before = Estimate.of(rows.y, fitted.predict_dist(rows.X), coverage, HOW)
                former = state_of(fitted)
                fitted.partial_fit(rows.X, rows.y, forgetting=forgetting)
            changes = changed_state(former, state_of(fitted))
            note_update(fitted, data, len(rows))
            fitted.save(out)
        screen.say(*before.sentences(name), "")
        screen.table(
            "What changed", ("", "before", "after"), [(key, number(a), number(b)) for key, (a, b) in changes.items()]
        )
        screen.say(f"Model: {out}")
        screen.finish({"model": str(out), "rows": len(rows), "before": before.numbers(), "changes": changes})


def changing(model: Path, out: Path, screen: Screen) -> AbstractContextManager[None]:
    """Keep other updates of the same file waiting: each would lose the rows of the other."""
    from bdkn.storage.atomic import alone

    is_same = model.exists() and out.exists() and model.samefile(out)
    return alone(model, screen.progress) if is_same else nullcontext()


def updatable(model: Any) -> Any:
    """Return the model; raise if it cannot absorb rows."""
    from bdkn.errors import InvalidParameterError

    if not hasattr(model, "partial_fit"):
        raise InvalidParameterError(
            f"bdkn update needs a model that can absorb rows; a {type(model).__name__} cannot: make one by "
            "`bdkn fit --method bdkn`, or fit again to all rows"
        )
    return model


def state_of(model: Any) -> dict[str, float]:
    """Return the numbers of a model that new rows change."""
    weights = {f"weight of {name}": w for name, w in zip(model.member_names_, model.weights_.tolist(), strict=True)}
    return {"noise (standard deviation)": float(model.noise_variance_) ** 0.5, **weights}


def changed_state(former: dict[str, float], new: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Return the numbers before and after."""
    return {name: (former[name], new[name]) for name in former}


def note_update(model: Any, data: Path, count: int) -> None:
    """Add the rows that were absorbed to what is known of how a model was made."""
    made = dict(making(model))
    made.pop("when", None)
    made.pop("versions", None)
    made["absorbed"] = [*made.get("absorbed", []), f"{count} rows of {data.name}"]
    record_making(model, **made)
