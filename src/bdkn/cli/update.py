"""The command ``bdkn update``, which updates a model with new rows."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bdkn.cli.fit import Estimate
from bdkn.cli.inputs import labelled_for, load_model, making, record_making
from bdkn.cli.terminal import AsJson, Coverage, Data, KnownTarget, Model, Quiet, Screen, number
from bdkn.errors import InvalidParameterError


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
    """Update a model with new rows whose targets are known, and write the updated model.

    The members stay as they are; their weights and the noise are learned from all rows, exactly as if all
    rows had been known at the same time. The model is judged by the new rows before it learns from them.

    Example:

        bdkn update flats.bdkn sold.csv --target price --out flats2.bdkn
    """
    from bdkn.table_files import check_output

    screen = Screen(json=as_json, quiet=quiet)
    check_output(out, data)
    with changing(model, out, screen):
        fitted = load_model(model)
        if not hasattr(fitted, "partial_fit"):
            raise InvalidParameterError(
                f"bdkn update needs a model that can absorb rows; a {type(fitted).__name__} cannot: make one by "
                "`bdkn fit --method bdkn`, or fit again to all rows"
            )
        name, rows = labelled_for(fitted, data, target, screen)
        with screen.noting_warnings():
            dist = fitted.predict_dist(rows.X)
            before = Estimate.of(rows.y, dist, coverage, "The new rows, before the model learned from them")
            former = state_of(fitted)
            fitted.partial_fit(rows.X, rows.y, forgetting=forgetting)
        made, new = making(fitted), state_of(fitted)
        absorbed = [*made.get("absorbed", []), f"{len(rows)} rows of {data.name}"]
        record_making(fitted, **{**made, "absorbed": absorbed})
        fitted.save(out)
    screen.write(*before.sentences(name), "")
    changes = {key: (former[key], new[key]) for key in former}
    cells = [(key, *map(number, numbers)) for key, numbers in changes.items()]
    screen.table("What changed", ("", "before", "after"), cells)
    screen.write(f"Model: {out}")
    screen.finish({"model": str(out), "rows": len(rows), "before": asdict(before), "changes": changes})


def changing(model: Path, out: Path, screen: Screen) -> AbstractContextManager[None]:
    """Return a lock of the model file if it will be replaced, as two updates at the same time would lose rows."""
    from bdkn.storage.atomic import locked

    is_same = model.exists() and out.exists() and model.samefile(out)
    return locked(model, screen.progress) if is_same else nullcontext()


def state_of(model: Any) -> dict[str, float]:
    """Return the numbers of a model that new rows change: the noise and the weights of members."""
    weights = {f"weight of {name}": w for name, w in zip(model.member_names_, model.weights_.tolist(), strict=True)}
    return {"noise (standard deviation)": float(model.noise_variance_) ** 0.5, **weights}
